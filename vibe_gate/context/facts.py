"""What is known of a change before anything is asked about it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from vibe_gate.domain.bundles import replay_key
from vibe_gate.domain.change import Change
from vibe_gate.domain.gate import CounterexampleRule, Gate
from vibe_gate.domain.node_names import CHECKS_NODE
from vibe_gate.domain.rubric import Claim, ClaimKind, Criterion, Rubric
from vibe_gate.domain.session_record import CapturedRecord
from vibe_gate.domain.summary import AgentAuthored
from vibe_gate.domain.verdict import TrustBadge


class ProofEnvironment(Struct, frozen=True):
    """What the tests run with that fails may bring."""

    rule: CounterexampleRule

    folder: Path | None = None
    """Has the programs in `bin`; None: those of PATH."""

    named: str = ""
    """The folder as gate.toml names it; "" if the environment names it."""

    lack: str = ""
    """Why no test can run here, as a clause; "" if tests can."""


class Facts(Struct, frozen=True):
    """What is known of a change before anything is asked about it."""

    change: Change

    gate: Gate
    """The gate in force."""

    rubrics: tuple[Rubric, ...]
    """Those that the change must pass."""

    claims: tuple[Claim, ...]
    """What its author says, what was asked for, the project's conventions."""

    authored: AgentAuthored
    """Signs of agents."""

    record: CapturedRecord | None = None
    """What the captured sessions ran that wrote the change; None if there are none."""

    stage: str = ""
    """The node of the workflow's stage that asks; "" in a review, which is one gate stage."""

    replay_of: str = ""
    """The run whose change is judged again."""

    agents: Mapping[str, str] = MappingProxyType({})
    """The nodes of agents that it comes after, oldest first, each with its stage."""

    trust: Mapping[tuple[str, str], TrustBadge] = MappingProxyType({})
    """By ids of rubric and criterion, what is known of the gate's judges."""

    tests: ProofEnvironment | None = None
    """With what a fail's test would be run; None if the gate asks for none."""

    @property
    def key(self) -> str:
        """The key of its runs."""
        if self.replay_of:
            return replay_key(self.replay_of)
        return self.change.key

    @property
    def asks_for_tests(self) -> CounterexampleRule | None:
        """How a test is run that a fail may bring; None if none can be."""
        if self.tests and not self.tests.lack:
            return self.tests.rule
        return None

    @property
    def node_fields(self) -> dict[str, str]:
        """What node.added says of the nodes of checks and judges: in a workflow, whose they are."""
        return {"gate": self.stage} if self.stage else {}

    @property
    def checks_node(self) -> str:
        """The graph's node of its checks."""
        if self.stage:
            return f"{self.stage}-{CHECKS_NODE}"
        return CHECKS_NODE

    @property
    def rubrics_with_judge(self) -> tuple[Rubric, ...]:
        """The rubrics with a question to a judge that concerns this change."""
        return tuple(rubric for rubric in self.rubrics if self.judge_questions(rubric))

    def judge_questions(self, rubric: Rubric) -> tuple[Criterion, ...]:
        """The rubric's questions to a judge that concern a changed file and need no claim that is
        not known.
        """
        answerable = rubric.knowing(self.claim_kinds).judge_criteria
        files = self.change.files
        return tuple(criterion for criterion in answerable if any(map(criterion.concerns, files)))

    @property
    def claim_kinds(self) -> frozenset[ClaimKind]:
        """The kinds of claims that there are."""
        return frozenset(claim.kind for claim in self.claims)
