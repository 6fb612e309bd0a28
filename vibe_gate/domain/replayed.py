"""A stored run against its replay: what came out otherwise, and what many of them come to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import UNSET, Struct

from vibe_gate.domain.cause import Cause, CheckFails, NoKey
from vibe_gate.domain.label import Label
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, Finding, RunOutcome

NOT_ASKED = "not asked"
NO_ANSWER = "no answer"
"""How a criterion came out that the rubrics of a run do not have, or that no judge was asked about
(for want of an API key, say); that a judge was to be asked about, and was not, or gave no
answer.
"""

NOT_YET = "not replayed yet"
"""Why a run has no verdict that can be replayed."""

Said = Literal["right", "wrong", ""]
"""What people said of the findings by which a run was blocked."""


class CriterionChange(Struct, frozen=True):
    """A criterion that came out otherwise: how before, how now, and the findings of whichever of
    them failed it.
    """

    rubric: str
    criterion: str
    before: str
    after: str
    findings: tuple[Finding, ...] = ()

    @property
    def is_shown(self) -> bool:
        """Whether people are shown it: not if nothing was wrong then or now, as where a rubric came
        or went.
        """
        return not {self.before, self.after} <= {"pass", "not_applicable", NOT_ASKED}


class ReplayRow(Struct, frozen=True, kw_only=True):
    """How the replay of one run came out."""

    run_id: str

    about: str = ""
    """The commit, or the key."""

    replay: str = ""
    """The id of the new run."""

    bundle: str = ""

    blocked: bool = False
    """Whether the rubrics that are compared failed it then."""

    blocks: bool = False
    """Whether they fail it now."""

    changes: tuple[CriterionChange, ...] = ()

    said: Said = ""
    """What people said of the findings that blocked it."""

    usd: float = 0.0

    open: bool = False
    """Whether it is undecided now."""

    unasked: int = 0
    """Questions that no judge was asked now for want of an API key."""

    unjudged: str = ""
    """Why it is open because a question has no answer now, or was not replayed."""

    cause: Cause | None = None
    """The code of that."""

    why: str = ""
    """Why there is no verdict; then everything else is as of nothing."""

    recorded: bool = False
    """By an earlier command."""

    @property
    def shown(self) -> tuple[CriterionChange, ...]:
        """The changes that people are shown."""
        return tuple(change for change in self.changes if change.is_shown)

    @property
    def is_replayed(self) -> bool:
        """Whether there is a verdict to compare."""
        return not self.why

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be replayed."""
        return bool(self.why) and self.why != NOT_YET


class Replayed(Struct, frozen=True):
    """The replays of a pull request's job; `notes` are sentences about what was not replayed."""

    rows: tuple[ReplayRow, ...] = ()
    notes: tuple[str, ...] = ()
    budget_usd: float = 0.0
    """What all of them might cost; 0: no limit."""

    @property
    def usd(self) -> float:
        """What they cost."""
        return sum(row.usd for row in self.rows)


class ReplayTotals(Struct, frozen=True, kw_only=True):
    """What the rows come to."""

    runs: int
    """All of them."""

    tried: int
    """The runs but those that are not replayed yet."""

    replayed: int

    judged: int
    """The replayed ones whose questions were answered, or that would block anyway."""

    hindrance: str
    """Why the first of the others was not judged."""

    cause: Cause | None
    """The code of that."""

    new: int
    """Runs that it would block now, and did not."""

    new_wrong: int
    """Of these, those whose findings people called wrong."""

    gone: int
    """Runs that it blocked, and would not now."""

    gone_wrong: int
    """Of these, those whose findings people called wrong."""

    gone_right: int
    """Of these, those whose findings people called right."""

    changed: int

    open: int

    unasked: int
    """Questions."""

    usd: float


def totals(rows: Sequence[ReplayRow]) -> ReplayTotals:
    """Add the rows up."""
    replayed = [row for row in rows if row.is_replayed]
    judged = [row for row in replayed if not row.unjudged]
    new = [row for row in judged if row.blocks and not row.blocked]
    released = [row for row in judged if row.blocked and not (row.blocks or row.open)]
    hindered = [row for row in rows if row.unjudged or row.is_lost]
    return ReplayTotals(
        runs=len(rows),
        tried=len(replayed) + sum(row.is_lost for row in rows),
        replayed=len(replayed),
        judged=len(judged),
        hindrance=(hindered[0].unjudged or hindered[0].why) if hindered else "",
        cause=hindered[0].cause if hindered else None,
        new=len(new),
        new_wrong=sum(row.said == "wrong" for row in new),
        gone=len(released),
        gone_wrong=sum(row.said == "wrong" for row in released),
        gone_right=sum(row.said == "right" for row in released),
        changed=sum(bool(row.changes) for row in replayed),
        open=sum(row.open for row in replayed),
        unasked=sum(row.unasked for row in replayed),
        usd=sum(row.usd for row in rows),
    )


# What came out otherwise


class RubricChoice(Struct, frozen=True):
    """The rubrics by which a run is compared with its replay."""

    named: Collection[str] = ()
    """Their ids; () for all that one of the two runs asked."""

    left_out: Collection[str] = ()
    """Those of the stored run that the replay may not ask."""

    def has(self, rubric_id: str) -> bool:
        """Whether the rubric is one of them."""
        if rubric_id in self.left_out:
            return False
        return not self.named or rubric_id in self.named


def compared(
    before: Summary, after: Summary, choice: RubricChoice, labels: Iterable[Label]
) -> ReplayRow:
    """A stored run against its replay."""
    results_before = _by_criterion(before, choice)
    results_after = _by_criterion(after, choice)
    blocked, blocks = _blocks(before, choice), _blocks(after, choice)
    unasked = sum(isinstance(result.cause, NoKey) for result in results_after.values())
    unanswered = []
    for result in results_after.values():
        if result.cause is not UNSET and (result.unanswered or isinstance(result.cause, NoKey)):
            unanswered.append(result.cause)
    hindrance = unanswered[0] if unanswered and not blocks else None
    blocking = before if blocked and not blocks else after
    return ReplayRow(
        run_id=before.run_id,
        about=before.change.head_commit or before.key,
        replay=after.run_id,
        bundle=after.bundle,
        blocked=blocked,
        blocks=blocks,
        changes=tuple(_changes(results_before, results_after, before, after)),
        said=_said(blocking, choice, labels) if blocked != blocks else "",
        usd=after.cost.usd,
        open=not blocks and (bool(unasked) or not _outcomes(after, choice) <= {"pass"}),
        unasked=unasked,
        unjudged=hindrance.reason if hindrance else "",
        cause=hindrance,
    )


def _by_criterion(summary: Summary, choice: RubricChoice) -> dict[tuple[str, str], CriterionResult]:
    results = {}
    for rubric in summary.rubrics:
        if choice.has(rubric.id):
            results.update({(rubric.id, criterion.id): criterion for criterion in rubric.criteria})
    return results


def _blocks(summary: Summary, choice: RubricChoice) -> bool:
    return "fail" in _outcomes(summary, choice)


def _outcomes(summary: Summary, choice: RubricChoice) -> set[RunOutcome]:
    return {rubric.outcome for rubric in summary.rubrics if choice.has(rubric.id)}


def _changes(
    was: Mapping[tuple[str, str], CriterionResult],
    now: Mapping[tuple[str, str], CriterionResult],
    before: Summary,
    after: Summary,
) -> Iterator[CriterionChange]:
    for name in dict.fromkeys((*now, *was)):
        outcomes = _outcome(was.get(name)), _outcome(now.get(name))
        if outcomes[0] == outcomes[1]:
            continue
        failing = next(
            (
                summary
                for summary, outcome in ((after, outcomes[1]), (before, outcomes[0]))
                if outcome.startswith("fail")
            ),
            None,
        )
        findings = (
            tuple(finding for finding in failing.findings if finding.is_of(*name))
            if failing
            else ()
        )
        yield CriterionChange(*name, *outcomes, findings)


def _outcome(result: CriterionResult | None) -> str:
    """How a criterion came out, in a word or two."""
    if result is None or isinstance(result.cause, CheckFails | NoKey):
        return NOT_ASKED
    if result.unanswered:
        return NO_ANSWER
    if result.kind == "judge" and not result.votes and result.decided_by == "none":
        return NOT_ASKED
    return "fail, advises only" if result.outcome == "fail" and result.is_advice else result.outcome


def _said(summary: Summary, choice: RubricChoice, labels: Iterable[Label]) -> Said:
    """What people said of the findings that fail the summary's rubrics; "right" if one of them
    is.
    """
    failed = {rubric.id for rubric in summary.rubrics if rubric.outcome == "fail"}
    words = {(label.finding, label.rubric, label.criterion): label.right for label in labels}
    sources = [
        (finding.fingerprint, source)
        for finding in summary.findings
        for source in summary.sources(finding)
    ]
    names = [
        (name, source.rubric, source.criterion)
        for name, source in sources
        if source.rubric in failed
    ]
    words_said = {words[name] for name in names if name in words and choice.has(name[1])}
    return "right" if True in words_said else "wrong" if words_said else ""
