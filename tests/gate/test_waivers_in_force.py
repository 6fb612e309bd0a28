"""Which waivers count in a review, in this process: whose override, where, and what an approval is
asked for.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from domain.changes import added

from vibe_gate.domain.gate import POLICY, Override
from vibe_gate.domain.waiver import Waiver
from vibe_gate.gate.loading import FolderFiles, built_in_gate
from vibe_gate.gate.policy import PolicyFile, PolicyImpact
from vibe_gate.gate.waivers import waivers_in_force
from vibe_gate.store.clone_state import CloneState, open_state

TODAY = date(2099, 3, 1)
GATE = built_in_gate(FolderFiles(Path("/dev/null")))
HARMLESS = PolicyImpact(())
BLOCKING = PolicyImpact((PolicyFile(added(".vibe-gate/gate.toml", b"schema = 1\n"), "block"),))
APPROVAL = Waiver(finding=POLICY, reason="I looked", by="@ada", expires=None)


@pytest.fixture
def state(tmp_path: Path) -> CloneState:
    return open_state(tmp_path)


def override_of(finding: str, email: str = "ada@example.org") -> Override:
    return Override(
        ts="2099-02-01", finding=finding, reason="meant", by="Ada", email=email, expires=TODAY
    )


@pytest.mark.parametrize(
    ("email", "in_ci", "overridden"),
    [
        ("ada@example.org", False, True),
        ("noreply@anthropic.com", False, False),  # an agent lets nothing of its own pass
        ("ada@example.org", True, False),
    ],
)
def test_an_override_counts_if_a_person_of_this_clone_made_it(state, email, in_ci, overridden):
    state.overrides.append(override_of("0" * 16, email))
    waivers = waivers_in_force(state, GATE, HARMLESS, TODAY, in_ci=in_ci)
    assert bool(waivers.overrides) is overridden


@pytest.mark.parametrize(
    ("impact", "overridden", "is_asked"),
    [
        (HARMLESS, False, False),
        (BLOCKING, False, True),
        (BLOCKING, True, False),  # a person of this clone has said it already
    ],
)
def test_an_approval_is_asked_for_only_where_the_gates_change_waits_for_one(
    state, impact, overridden, is_asked
):
    if overridden:
        state.overrides.append(override_of(POLICY + impact.fingerprint))
    questions = []

    def approve() -> Waiver:
        questions.append("asked")
        return APPROVAL

    waivers = waivers_in_force(state, GATE, impact, TODAY, approval=approve, in_ci=False)
    assert (bool(questions), waivers.approval is not None) == (is_asked, is_asked)


def test_an_approval_is_of_the_very_change_that_is_reviewed(state):
    waivers = waivers_in_force(state, GATE, BLOCKING, TODAY, approval=lambda: APPROVAL, in_ci=True)
    assert waivers.approval is not None
    assert waivers.approval.finding == POLICY + BLOCKING.fingerprint


@pytest.mark.parametrize("approval", [None, lambda: None])
def test_without_an_approval_the_gates_change_waits(state, approval):
    waivers = waivers_in_force(state, GATE, BLOCKING, TODAY, approval=approval, in_ci=True)
    assert waivers.of_policy(BLOCKING.fingerprint) is None
