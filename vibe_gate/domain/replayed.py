"""A stored run against its replay: what came out otherwise, and what many of them come to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import UNSET, Struct

from vibe_gate.domain.cause import CannotAsk, Cause, CheckFails
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

PeopleSaid = Literal["right", "wrong", ""]
"""What people said of the findings by which a run was blocked."""


class CriterionChange(Struct, frozen=True):
    """A criterion that came out otherwise."""

    rubric: str
    """Its id."""

    criterion: str
    """Its id."""

    before: str
    """How it came out then, in a word or two."""

    after: str
    """How it comes out now."""

    findings: tuple[Finding, ...] = ()
    """Those of the run that failed it; of the replay if both did."""

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

    said: PeopleSaid = ""
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
    def visible_changes(self) -> tuple[CriterionChange, ...]:
        """The changes that people see."""
        return tuple(change for change in self.changes if change.is_shown)

    @property
    def is_newly_blocked(self) -> bool:
        """Whether it would be blocked now, and was not."""
        return self.blocks and not self.blocked

    @property
    def is_released(self) -> bool:
        """Whether it was blocked, and would not be now."""
        return self.blocked and not self.blocks and not self.open

    @property
    def is_replayed(self) -> bool:
        """Whether there is a verdict to compare."""
        return not self.why

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be replayed."""
        return bool(self.why) and self.why != NOT_YET


class Replayed(Struct, frozen=True):
    """The replays of a pull request's job."""

    rows: tuple[ReplayRow, ...] = ()

    notes: tuple[str, ...] = ()
    """Sentences about what was not replayed."""

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


def sum_rows(rows: Sequence[ReplayRow]) -> ReplayTotals:
    """Add the rows up."""
    replayed = [row for row in rows if row.is_replayed]
    judged = [row for row in replayed if not row.unjudged]
    newly_blocked = [row for row in judged if row.is_newly_blocked]
    released = [row for row in judged if row.is_released]
    lost_count = sum(row.is_lost for row in rows)
    hindrance, cause = _first_hindrance(rows)
    return ReplayTotals(
        runs=len(rows),
        tried=len(replayed) + lost_count,
        replayed=len(replayed),
        judged=len(judged),
        hindrance=hindrance,
        cause=cause,
        new=len(newly_blocked),
        new_wrong=_count_said("wrong", newly_blocked),
        gone=len(released),
        gone_wrong=_count_said("wrong", released),
        gone_right=_count_said("right", released),
        changed=sum(bool(row.changes) for row in replayed),
        open=sum(row.open for row in replayed),
        unasked=sum(row.unasked for row in replayed),
        usd=sum(row.usd for row in rows),
    )


def _first_hindrance(rows: Sequence[ReplayRow]) -> tuple[str, Cause | None]:
    """Why the first of the rows that were not judged was not, and the code of that."""
    for row in rows:
        if row.unjudged or row.is_lost:
            return row.unjudged or row.why, row.cause
    return "", None


def _count_said(word: PeopleSaid, rows: Sequence[ReplayRow]) -> int:
    """Of how many of these runs people said that their findings are right, or wrong."""
    return sum(row.said == word for row in rows)


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


def compare_with_replay(
    before: Summary, after: Summary, choice: RubricChoice, labels: Iterable[Label]
) -> ReplayRow:
    """A stored run against its replay."""
    results_before = _by_criterion(before, choice)
    results_after = _by_criterion(after, choice)
    blocked = _blocks(before, choice)
    blocks = _blocks(after, choice)
    judgement: PeopleSaid = ""
    if blocked != blocks:
        blocking_run = before if blocked else after
        judgement = _what_people_said(blocking_run, choice, labels)
    unasked = sum(isinstance(result.cause, CannotAsk) for result in results_after.values())
    is_open = False
    hindrance = None
    if not blocks:
        is_open = bool(unasked) or not _outcomes(after, choice) <= {"pass"}
        hindrance = _first_unanswered(results_after.values())
    return ReplayRow(
        run_id=before.run_id,
        about=before.change.head_commit or before.key,
        replay=after.run_id,
        bundle=after.bundle,
        blocked=blocked,
        blocks=blocks,
        changes=tuple(_changes(results_before, results_after, before, after)),
        said=judgement,
        usd=after.cost.usd,
        open=is_open,
        unasked=unasked,
        unjudged=hindrance.reason if hindrance else "",
        cause=hindrance,
    )


def _first_unanswered(results: Iterable[CriterionResult]) -> Cause | None:
    """Why the first question without an answer has none."""
    for result in results:
        if result.cause is UNSET:
            continue
        if result.unanswered or isinstance(result.cause, CannotAsk):
            return result.cause
    return None


def _by_criterion(summary: Summary, choice: RubricChoice) -> dict[tuple[str, str], CriterionResult]:
    results = {}
    for rubric in summary.rubrics:
        if not choice.has(rubric.id):
            continue
        for criterion in rubric.criteria:
            results[rubric.id, criterion.id] = criterion
    return results


def _blocks(summary: Summary, choice: RubricChoice) -> bool:
    return "fail" in _outcomes(summary, choice)


def _outcomes(summary: Summary, choice: RubricChoice) -> set[RunOutcome]:
    return {rubric.outcome for rubric in summary.rubrics if choice.has(rubric.id)}


def _changes(
    results_before: Mapping[tuple[str, str], CriterionResult],
    results_after: Mapping[tuple[str, str], CriterionResult],
    before: Summary,
    after: Summary,
) -> Iterator[CriterionChange]:
    for rubric, criterion in dict.fromkeys((*results_after, *results_before)):
        outcome_before = _outcome(results_before.get((rubric, criterion)))
        outcome_after = _outcome(results_after.get((rubric, criterion)))
        if outcome_before == outcome_after:
            continue
        findings: list[Finding] = []
        if outcome_after.startswith("fail"):
            findings = _findings_of(rubric, criterion, after)
        elif outcome_before.startswith("fail"):
            findings = _findings_of(rubric, criterion, before)
        yield CriterionChange(rubric, criterion, outcome_before, outcome_after, tuple(findings))


def _findings_of(rubric: str, criterion: str, summary: Summary) -> list[Finding]:
    return [finding for finding in summary.findings if finding.is_of(rubric, criterion)]


def _outcome(result: CriterionResult | None) -> str:
    """How a criterion came out, in a word or two."""
    if result is None or isinstance(result.cause, CheckFails | CannotAsk):
        return NOT_ASKED
    if result.unanswered:
        return NO_ANSWER
    if result.kind == "judge" and not result.votes and result.decided_by == "none":
        return NOT_ASKED
    if result.outcome == "fail" and result.is_advice:
        return "fail, advises only"
    return result.outcome


def _what_people_said(
    summary: Summary, choice: RubricChoice, labels: Iterable[Label]
) -> PeopleSaid:
    """What people said of the findings that fail the summary's rubrics; "right" if one of them
    is.
    """
    is_right_by_name = {
        (label.finding, label.rubric, label.criterion): label.right for label in labels
    }
    failed_rubrics = {rubric.id for rubric in summary.rubrics if rubric.outcome == "fail"}
    judgement: PeopleSaid = ""
    for finding in summary.findings:
        for source in summary.sources(finding):
            if source.rubric not in failed_rubrics or not choice.has(source.rubric):
                continue
            name = (finding.fingerprint, source.rubric, source.criterion)
            if name not in is_right_by_name:
                continue
            if is_right_by_name[name]:
                return "right"
            judgement = "wrong"
    return judgement
