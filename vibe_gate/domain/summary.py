"""The summary of a run: `summary.json` of a bundle, and what `--json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from vibe_gate.domain.agent_hint import AgentHint
from vibe_gate.domain.cause import Cause, NotAsked
from vibe_gate.domain.change import ChangeType, FileDiff
from vibe_gate.domain.document import Count, Named, Usd, read, to_json
from vibe_gate.domain.label import FindingSource, Label
from vibe_gate.domain.session_record import TestsRecord
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult, RunOutcome
from vibe_gate.errors import PASS

CostBasis = Literal["known", "unknown", "none"]
"""`unknown`: a model without a listed price took part and was priced as the dearest; `none`: no
model was asked.
"""

Extent = Literal["", "nothing", "checks"]
"""Of a pass that no judge gave: nothing was looked at, or checks alone because the questions were
left out.
"""

GateAbsence = Literal["", "broken", "removed"]
"""Why there is no gate where it would bind: it does not parse there, or it was removed."""


class Trusted(Struct, frozen=True, kw_only=True):
    """Where the gate was read: a commit id, "worktree", "" (built-in). `bootstrap`: in the change;
    not in `branch`.

    `absence`: why `branch` has none that binds, if it had one.
    """

    revision: str
    bootstrap: bool
    branch: str = ""
    absence: GateAbsence | UnsetType = UNSET


class ChangedFile(Struct, frozen=True, kw_only=True):
    """One changed path, as shown (`paths.quote`)."""

    path: str
    old_path: str | None
    change_type: ChangeType
    added: Count
    deleted: Count
    binary: bool


class ChangeSummary(Struct, frozen=True, kw_only=True):
    """The change by ids; `base_commit` and `head_commit` are "" where that side is no commit."""

    before: str
    after: str
    base_commit: str
    head_commit: str
    patch_id: str
    range_patch_id: str
    files: tuple[ChangedFile, ...]

    @property
    def added(self) -> int:
        """Lines of text that it adds; a binary file has none."""
        return sum(file.added for file in self.files if not file.binary)

    @property
    def deleted(self) -> int:
        """Lines of text that it deletes."""
        return sum(file.deleted for file in self.files if not file.binary)


class PolicyChange(Struct, frozen=True, kw_only=True):
    """A change to the gate itself or to what steers it. `diff` is unified text."""

    path: str
    change_type: str
    level: Literal["block", "warn"]
    diff: str


class Unreviewed(Struct, frozen=True, kw_only=True):
    """Changed lines that judges did not see: after-side lines (before-side if deleted); 0, 0 the
    whole file.

    `rubrics`: whose judges did not see them; () of every rubric.
    """

    path: str
    line: int
    end_line: int
    reason: str
    rubrics: tuple[str, ...] = ()
    cause: Cause | UnsetType = UNSET
    """What `reason` says."""


def whole_file_unreviewed(file: FileDiff, cause: Cause) -> Unreviewed:
    """A file that no judge saw anything of."""
    return Unreviewed(path=file.shown_path, line=0, end_line=0, reason=cause.reason, cause=cause)


class AgentAuthored(Struct, frozen=True, kw_only=True):
    """Whether an agent wrote the change, and what says so."""

    decision: bool = False
    hints: tuple[AgentHint, ...] = ()


class Cost(Struct, frozen=True, kw_only=True):
    """What the run's models cost."""

    usd: Usd = 0.0

    basis: CostBasis = "none"

    input_tokens: Count = 0

    output_tokens: Count = 0

    cache_read_tokens: Count = 0
    """Those of `input_tokens` that the model's API read from its prompt cache, at a lower price."""

    by_node: Named[Usd] = {}
    """US dollars by the node's id."""

    by_model: Named[Usd] = {}
    """US dollars by the model's name."""


def decode_summary(document: object) -> Summary:
    """The summary in a document, also of an earlier version. ValueError as of `document.read`."""
    return read(Summary, upgrade_summary(document))


_DEFECT_FIELDS = ("counterexample", "evidence", "proof", "second_look")
"""What a vote itself had, before a fail could name several defects."""


def upgrade_summary(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The document in the form of this version: with the one defect of each vote of an earlier version in a list; the rest as it
    is, also if it is no summary.
    """
    if isinstance(value, list):
        return [upgrade_summary(member) for member in value]
    if not isinstance(value, Mapping):
        return value
    names = [name for name in ("rubrics", "criteria") if name in value]
    changed = {name: upgrade_summary(value[name]) for name in names}
    if isinstance(value.get("votes"), list):
        changed["votes"] = [_vote_with_defects(vote) for vote in value["votes"]]
    return {**value, **changed}


def _vote_with_defects(vote: Any) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(vote, Mapping) or "defects" in vote:
        return vote
    defect = {name: vote[name] for name in _DEFECT_FIELDS if name in vote}
    defect["counterexample"] = vote.get("counterexample") or ""
    new_vote = {name: member for name, member in vote.items() if name not in _DEFECT_FIELDS}
    if not vote.get("evidence") and not vote.get("counterexample"):
        return new_vote
    return {**new_vote, "defects": [{"reason": vote.get("reason"), **defect}]}


def least_certain(bases: Iterable[CostBasis]) -> CostBasis:
    """The basis of a sum: "none" of nothing."""
    distinct_bases = set(bases)
    if "unknown" in distinct_bases:
        return "unknown"
    if "known" in distinct_bases:
        return "known"
    return "none"


class CacheUse(Struct, frozen=True, kw_only=True):
    """Questions answered from earlier verdicts, and questions that had to be asked."""

    hits: Count = 0
    misses: Count = 0


class LeftAlone(Struct, frozen=True, kw_only=True):
    """What an agent says it saw beside the findings and did not touch."""

    node: str
    """The node of its turn."""

    text: str
    """Without secrets, and without what it repeats of captured prompts; of several lines."""


class Summary(Struct, frozen=True, kw_only=True):
    """The document."""

    schema: Literal[1] = 1
    run_id: str
    key: str
    workflow: str
    outcome: RunOutcome
    exit_code: int

    bundle: str
    """Relative to the repository's root; "" if nothing was recorded."""

    trusted: Trusted
    change: ChangeSummary
    rubrics: tuple[RubricResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    policy_changes: tuple[PolicyChange, ...] = ()
    unreviewed: tuple[Unreviewed, ...] = ()
    agent_authored: AgentAuthored = AgentAuthored()
    cost: Cost = Cost()
    cache: CacheUse = CacheUse()
    duration_ms: Count = 0

    labels: tuple[Label, ...] | UnsetType = UNSET
    """What people have said on the forge of findings of this pull request; no verdict depends on
    it.
    """
    left_alone: tuple[LeftAlone, ...] | UnsetType = UNSET
    """What agents of a repair saw beside the findings and did not touch."""
    tests: TestsRecord | UnsetType = UNSET
    """What the record of the captured sessions that wrote the change says of the tests; left out if
    there are none.
    """

    @property
    def passed(self) -> bool:
        """Whether nothing is left to do: exit code 0."""
        return self.exit_code == PASS

    @property
    def criteria(self) -> list[CriterionResult]:
        """The criteria of all rubrics, in their order."""
        criteria: list[CriterionResult] = []
        for rubric in self.rubrics:
            criteria += rubric.criteria
        return criteria

    @property
    def unasked(self) -> list[CriterionResult]:
        """The questions that no judge was asked: there is no way to ask one, on request, or by a
        git hook's rule.
        """
        if any(criterion.votes or criterion.decided_by == "cache" for criterion in self.criteria):
            return []
        return [criterion for criterion in self.criteria if isinstance(criterion.cause, NotAsked)]

    @property
    def is_examined(self) -> bool:
        """Whether a check or a judge looked at the change, or a person let a change of the gate
        pass.

        A workflow without rubrics has agents instead.
        """
        return (
            any(criterion.is_examined for criterion in self.criteria)
            or self.policy_let_pass
            or self.has_only_agents
        )

    @property
    def has_only_agents(self) -> bool:
        """Whether it is a run of agents without rubrics: nothing judged what they did."""
        return self.workflow != "review" and not self.rubrics

    @property
    def policy_let_pass(self) -> bool:
        """Whether a person let the change of the gate itself pass: by an approval or an
        override.
        """
        return any(finding.lets_policy_pass for finding in self.findings)

    @property
    def extent(self) -> Extent:
        """What a pass lacks; "" of any other run."""
        if self.exit_code != PASS:
            return ""
        if not self.is_examined:
            return "nothing"
        return "checks" if self.unasked else ""

    def sources(self, finding: Finding) -> tuple[FindingSource, ...]:
        """The rubrics that fail a criterion with it, each with its judge.

        () of what fails none: a change of the gate, and what a second look refuted.
        """
        if finding.second_look is not UNSET and finding.second_look.outcome == "refuted":
            return ()
        sources = []
        for rubric in self.rubrics:
            for criterion in rubric.criteria:
                if criterion.outcome != "fail" or not finding.is_of(rubric.id, criterion.id):
                    continue
                source = FindingSource(
                    rubric=rubric.id,
                    criterion=criterion.id,
                    digest=rubric.digest,
                    model=self._model_of(criterion),
                    run=self.run_id,
                )
                sources.append(source)
        return tuple(sources)

    def _model_of(self, criterion: CriterionResult) -> str:
        """The model that judged, several joined by ", "; "" of a check."""
        if criterion.kind == "check":
            return ""
        models = dict.fromkeys(vote.model for vote in criterion.votes if vote.model)
        if not models and len(self.cost.by_model) == 1:
            return next(iter(self.cost.by_model))
        return ", ".join(models)

    def to_json(self) -> str:
        """The document as indented JSON with a final newline."""
        return to_json(self, indent=2) + "\n"
