"""Whether a judge may block, by what calibration and people say of it, as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.domain.calibration import Baseline, CriterionBaseline, clean_needed
from vibe_gate.domain.gate import Gate, GateFile, ModelChoice, Trust
from vibe_gate.domain.label import Label
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import TrustBadge
from vibe_gate.judging.brief import TEMPLATE_VERSION
from vibe_gate.judging.trust import badges

CLEAR = Rubric(
    schema=1,
    id="r",
    criterion=(Criterion(id="clear", kind="judge", question="Is it clear?", must=True),),
)
REWORDED = replace(CLEAR, criterion=(replace(CLEAR.criterion[0], question="Is it very clear?"),))


def counts(clean: int, blocked: int = 0, flips: int = 0, name: str = "clear") -> CriterionBaseline:
    return CriterionBaseline(
        id=name,
        clean=clean,
        clean_blocked=blocked,
        defective=30,
        found=27,
        flips=flips,
        repeats=3 if flips else 1,
    )


def baseline(*criteria: CriterionBaseline, **fields: Any) -> Baseline:
    values = {
        "rubric": "r", "digest": CLEAR.digest, "model": "m", "template": TEMPLATE_VERSION,
        "created_at": "2026-11-27T00:00:00Z",
    } | fields  # fmt: skip
    return Baseline(schema=1, criterion=criteria, **values)


def wrong(number: int, *, right: bool = False, run: str = "", **fields: Any) -> Label:
    values = {
        "rubric": "r", "criterion": "clear", "digest": CLEAR.digest, "model": "m", "by": "Ada <ada@x.org>",
        "source": "cli",
    } | fields  # fmt: skip
    return Label(
        ts=datetime(2026, 11, 27, second=number, tzinfo=UTC),
        finding=f"{number:016x}",
        right=right,
        run=run,
        **values,
    )


def badge(
    *measured: Baseline, labels: tuple[Label, ...] = (), of: Rubric = CLEAR, **trust: Any
) -> TrustBadge:
    file = GateFile(schema=1, trust=Trust(**trust), model=ModelChoice(default="m"))
    [only_badge] = badges(
        Gate(file, (of,), "trusted", "", baselines=measured), labels, "m"
    ).values()
    return only_badge


@pytest.mark.parametrize(
    ("measured", "of", "state", "sentence"),
    [
        ((), CLEAR, "uncalibrated", "uncalibrated"),
        ((baseline(counts(60, name="other")),), CLEAR, "uncalibrated", "uncalibrated"),
        ((baseline(counts(60), rubric="other"),), CLEAR, "uncalibrated", "uncalibrated"),
        ((baseline(counts(60, 1)),), CLEAR, "calibrated", "calibrated: 1 of 60 clean blocked, 27 of 30 found"),
        ((baseline(counts(60, 1, flips=2)),), CLEAR, "unsteady",
         "unsteady: 2 of 90 cases flipped, 1 of 60 clean blocked, 27 of 30 found"),
        ((baseline(counts(0)),), CLEAR, "calibrated", "calibrated: 27 of 30 found"),
        ((baseline(counts(60)),), REWORDED, "stale", "stale (calibrated before the rubric changed)"),
        ((baseline(counts(60), model="old"),), CLEAR, "stale", "stale (calibrated with old, not m)"),
        ((baseline(counts(60), template=TEMPLATE_VERSION - 1),), CLEAR, "stale",
         "stale (calibrated with an earlier version of vibe-gate's instructions)"),
    ],
)  # fmt: skip
def test_a_badge_says_what_is_known_of_this_question_as_this_model_is_asked_it(
    measured, of, state, sentence
):
    trust_badge = badge(*measured, of=of)
    assert (trust_badge.state, trust_badge.sentence, trust_badge.blocks) == (
        state,
        sentence,
        True,
    ), "block = always is the default"
    is_known = state in ("calibrated", "unsteady")
    assert (trust_badge.defective, trust_badge.found, trust_badge.recall is not UNSET) == (
        (30, 27, True) if is_known else (0, 0, False)
    )


NEEDED = clean_needed(0, 0.05)


@pytest.mark.parametrize(
    ("trust", "measured", "labels", "blocks"),
    [
        ({}, (), 0, True),
        ({"uncalibrated": "advise"}, (), 0, False),
        ({"uncalibrated": "advise"}, (baseline(counts(60), model="old"),), 0, False),
        (
            {"uncalibrated": "advise"},
            (baseline(counts(60, 30)),),
            9,
            True,
        ),  # measured, and that is all it asks
        ({"block": "earned"}, (), 0, False),
        ({"block": "earned"}, (baseline(counts(NEEDED - 1)),), 0, False),
        ({"block": "earned"}, (baseline(counts(NEEDED)),), 0, True),
        # A person's word breaks the bound, and more clean cases mend it.
        ({"block": "earned"}, (baseline(counts(NEEDED)),), 1, False),
        ({"block": "earned"}, (baseline(counts(clean_needed(1, 0.05))),), 1, True),
        ({"block": "earned", "max_false_blocks": 0.5}, (baseline(counts(NEEDED, 3)),), 1, True),
        # What the question was before counts no longer.
        ({"block": "earned"}, (baseline(counts(300), model="old"),), 0, False),
        ({"block": "earned"}, (baseline(counts(300), digest="0" * 64),), 0, False),
        ({"block": "earned"}, (baseline(counts(300), template=TEMPLATE_VERSION - 1),), 0, False),
    ],
)
def test_a_judge_blocks_as_the_gate_trusts_it(trust, measured, labels, blocks):
    trust_badge = badge(*measured, labels=tuple(map(wrong, range(labels))), **trust)
    assert trust_badge.blocks is blocks
    assert trust_badge.needed == (
        clean_needed(trust_badge.blocked, 0.05) if trust.get("block") and not blocks else UNSET
    )


@pytest.mark.parametrize(
    ("labels", "counted"),
    [
        ((wrong(1), wrong(2)), 2),
        ((wrong(1, right=True),), 0),
        # Two findings about one change; it is not clean if one of them is right.
        ((wrong(1, run="a"), wrong(2, run="a")), 1),
        ((wrong(1, run="a"), wrong(2, run="a", right=True)), 0),
        (
            (
                wrong(1, digest="0" * 64),
                wrong(2, model="old"),
                wrong(3, criterion="other"),
                wrong(4, rubric="x"),
            ),
            0,
        ),
        # On a pull request its author could switch off the judge of that very pull request.
        ((wrong(1, source="command"), wrong(2, source="reaction")), 0),
    ],
)
def test_a_wrong_finding_is_a_clean_change_that_was_blocked_and_a_right_one_is_none(
    labels, counted
):
    trust_badge = badge(baseline(counts(60, 1)), labels=labels)
    assert (trust_badge.wrong, trust_badge.blocked, trust_badge.clean) == (
        counted,
        1 + counted,
        60 + counted,
    )


def test_models_that_take_turns_are_one_judge():
    turns = replace(CLEAR, models=("m", "n"))
    measured = baseline(counts(60), digest=turns.digest, model="m, n")
    labels = tuple(
        wrong(index, digest=turns.digest, model=name)
        for index, name in enumerate(("n", "m, n", "other"))
    )
    trust_badge = badge(measured, labels=labels, of=turns)
    assert (trust_badge.state, trust_badge.clean, trust_badge.wrong) == ("calibrated", 62, 2)


def test_what_is_built_in_has_no_badge():
    assert badges(Gate(GateFile(schema=1), (CLEAR,), "built-in", ""), [], "m") == {}
