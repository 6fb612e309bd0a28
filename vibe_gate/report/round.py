"""Rounds: what a pull request's reader was told before, and what is to be said now. Pure.

    new      not said before, or said to be fixed and back
    open     said before, still there, though perhaps under another fingerprint
    fixed    said before, gone, and its lines changed: at which commit
    unraised said before, not found again, and its lines did not change: nobody fixed it
    withheld new, but no blocker and on lines that did not change since the last round: counted, not said

`reported_finding` is a finding as it was said, `round_state` what travels to the next round,
`round_record` the figures of a round and what a log holds of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.gate import CRITERIA_WITHOUT_RUBRIC
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import MAX_FINDINGS, Finding, Outcome
from vibe_gate.report import queries
from vibe_gate.report.reported_finding import (
    ReportedFinding,
    finding_identity,
    line_digests,
    report_finding,
    report_finding_again,
)
from vibe_gate.report.round_state import MAX_NUMBER, MAX_SEEN, RoundState


class Round(Struct, frozen=True):
    """What is to be said of a run, given what was said before."""

    number: int
    """From 1."""
    head: str
    """The full commit id."""
    new: tuple[Finding, ...] = ()
    """Not said before, or said to be fixed and back."""
    open: tuple[Finding, ...] = ()
    """Said before, still there."""
    fixed: tuple[ReportedFinding, ...] = ()
    """Said before, gone, and its lines changed."""
    withheld: tuple[Finding, ...] = ()
    """New, but no blocker and on lines that did not change since the last round: counted, not
    said.
    """
    reappeared: frozenset[str] = frozenset()
    """Fingerprints among `new` that were called fixed before."""
    unanswered: tuple[ReportedFinding, ...] = ()
    """Not found this time, but this run could not tell, or it is about the same commit: nothing was
    fixed.
    """
    unraised: tuple[ReportedFinding, ...] = ()
    """Not found this time, although its lines did not change."""
    open_before: tuple[ReportedFinding, ...] = ()
    """What was said before of those in `open`."""
    run: int = 0
    """The workflow's run that reviewed this head first, as later ones may ask no model; 0 if none
    did.
    """
    usd_before: float = 0.0
    """What `runs_before` earlier runs cost."""
    runs_before: int = 0

    @property
    def state(self) -> RoundState:
        """What the next round has to know."""
        new = []
        for finding in self.new:
            new.append(report_finding(finding, self.head))
        findings = (*new, *self.open_before, *self.unraised, *self.unanswered, *self.fixed)
        return RoundState(
            number=self.number,
            head=self.head,
            findings=findings[:MAX_SEEN],
            usd=self.usd_before,
            runs=self.runs_before,
        )

    @property
    def thread_names(self) -> dict[str, str]:
        """By identity of what is still there, the fingerprint that marks its comment."""
        return {reported.fingerprint: reported.thread_name for reported in self.open_before}

    @property
    def reportable(self) -> tuple[Finding, ...]:
        """The findings of this run that are said, the new ones first."""
        return (*self.new, *self.open)


def first_round(findings: Iterable[Finding], head: str) -> Round:
    """The round before which nothing was said."""
    return Round(number=1, head=head, new=tuple(_findings_by_name(findings).values()))


def next_round(
    previous: RoundState | None,
    findings: Iterable[Finding],
    head: str,
    touched: Callable[[Finding], bool],
    blocking: Callable[[Finding], bool],
    *,
    answered: Callable[[ReportedFinding], bool] = lambda _: True,
    replaced: Callable[[ReportedFinding], bool] = lambda _: True,
) -> Round:
    """What is new, open, fixed and withheld.

    `touched`: whether the finding's lines changed since `previous.head`; `blocking`:
    whether it stops the change; `answered`: whether this run could tell if what was
    said before is still there (`answered_by`); `replaced`: whether lines of what was said
    before changed since it was found last. `head` is the full commit id.
    """
    if previous is None:
        return first_round(findings, head)
    reported_by_name = {finding.fingerprint: finding for finding in previous.findings}
    findings_by_name = _findings_by_name(findings)
    is_same_head = previous.head == head

    def is_reportable(finding: Finding) -> bool:
        return blocking(finding) or touched(finding)

    def is_answered(reported: ReportedFinding) -> bool:
        return not is_same_head and answered(reported)

    earlier_by_name = _earlier_by_name(findings_by_name, reported_by_name)
    current = _sort_current(findings_by_name, earlier_by_name, is_reportable)
    found_again = {reported.fingerprint for reported in earlier_by_name.values()}
    missing = _missing(reported_by_name, found_again, previous.head)
    earlier = _sort_missing(missing, head, is_answered, replaced)
    for name, reported in reported_by_name.items():
        if reported.fixed and name not in findings_by_name:
            earlier.fixed.append(reported)
    number, run = previous.number, previous.run
    if not is_same_head:
        number, run = min(previous.number + 1, MAX_NUMBER), 0
    return Round(
        number=number,
        head=head,
        new=tuple(current.new.values()),
        open=tuple(current.open),
        fixed=tuple(earlier.fixed),
        withheld=tuple(current.withheld),
        reappeared=frozenset(current.new.keys() & reported_by_name.keys()),
        unanswered=tuple(earlier.unanswered),
        unraised=tuple(earlier.unraised),
        open_before=tuple(current.open_before),
        run=run,
        usd_before=previous.usd,
        runs_before=previous.runs,
    )


class _CurrentFindings(Struct):
    """The findings of this run, as `Round` has them."""

    new: dict[str, Finding] = {}
    """By identity."""
    open: list[Finding] = []
    open_before: list[ReportedFinding] = []
    withheld: list[Finding] = []


class _EarlierFindings(Struct):
    """What was said before and is not found any more, as `Round` has it."""

    fixed: list[ReportedFinding] = []
    unraised: list[ReportedFinding] = []
    unanswered: list[ReportedFinding] = []


def _findings_by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    """The findings by identity, but for approvals, which can lapse."""
    findings_by_name = {}
    for finding in findings:
        if not queries.is_approval(finding):
            findings_by_name[finding_identity(finding)] = finding
    return findings_by_name


def _earlier_by_name(
    findings_by_name: Mapping[str, Finding], reported_by_name: Mapping[str, ReportedFinding]
) -> dict[str, ReportedFinding]:
    """By identity of what is found now, what was said of it before.

    A judge may quote other lines of a defect than last time, which changes its fingerprint: what
    was said before and is not found under its own is recognised by its criterion and a quoted line.
    """
    earlier_by_name = {}
    names_by_line: dict[tuple[str, str], list[str]] = {}
    for name, reported in reported_by_name.items():
        if name in findings_by_name:
            earlier_by_name[name] = reported
            continue
        for line in reported.lines:
            names_by_line.setdefault((reported.criterion, line), []).append(name)
    recognised: set[str] = set()
    for name, finding in findings_by_name.items():
        if name in earlier_by_name:
            continue
        for line in line_digests(finding):
            candidates = names_by_line.get((finding.criterion[:64], line), [])
            earlier_name = _first_recognisable(candidates, finding, reported_by_name, recognised)
            if earlier_name:
                recognised.add(earlier_name)
                earlier_by_name[name] = reported_by_name[earlier_name]
                break
    return earlier_by_name


def _first_recognisable(
    candidates: Iterable[str],
    finding: Finding,
    reported_by_name: Mapping[str, ReportedFinding],
    recognised: Collection[str],
) -> str:
    """The first of these names whose finding goes on as this one; "" if none does."""
    for name in candidates:
        if name not in recognised and _persists(reported_by_name[name], finding):
            return name
    return ""


def _sort_current(
    findings_by_name: Mapping[str, Finding],
    earlier_by_name: Mapping[str, ReportedFinding],
    is_reportable: Callable[[Finding], bool],
) -> _CurrentFindings:
    """Which findings are open, which are new, and which of the new ones are not said."""
    current = _CurrentFindings()
    for name, finding in findings_by_name.items():
        reported = earlier_by_name.get(name)
        if reported is not None and _persists(reported, finding):
            current.open.append(finding)
            current.open_before.append(report_finding_again(reported, finding))
        elif is_reportable(finding):
            current.new[name] = finding
        else:
            current.withheld.append(finding)
    return current


def _sort_missing(
    missing: Iterable[ReportedFinding],
    head: str,
    is_answered: Callable[[ReportedFinding], bool],
    is_replaced: Callable[[ReportedFinding], bool],
) -> _EarlierFindings:
    """What of it this run cannot tell about, what nobody fixed, and what was fixed at `head`."""
    earlier = _EarlierFindings()
    for reported in missing:
        if not is_answered(reported):
            earlier.unanswered.append(reported)
        elif not is_replaced(reported):
            earlier.unraised.append(reported)
        else:
            earlier.fixed.append(replace(reported, fixed=head))
    return earlier


def _persists(reported: ReportedFinding, finding: Finding) -> bool:
    """Whether what was said before is still there, and not for the first time since it was fixed or
    refuted.
    """
    if reported.fixed:
        return False
    return finding.is_refuted or not reported.refuted


def _missing(
    reported_by_name: Mapping[str, ReportedFinding], current: Collection[str], last_head: str
) -> list[ReportedFinding]:
    """What was said before and is not found any more; what was refuted is not there to be fixed."""
    missing = []
    for name, reported in reported_by_name.items():
        if not (reported.fixed or reported.refuted or name in current):
            missing.append(replace(reported, last=reported.last or last_head))
    return missing


def answered_by(summary: Summary, previous: RoundState | None) -> Callable[[ReportedFinding], bool]:
    """Whether the run could tell about what was said before, in `previous`.

    It could where every criterion of that name passed or failed, failed with fewer findings than a
    check keeps and with none about the change as a whole, and nothing of the path was left
    unreviewed. What was said of the change as a whole, or of a file without that name in the change
    now, is found again under another fingerprint: such a finding is gone if the criterion passes,
    or has no finding that is new.
    """
    reported_names: set[str] = set()
    if previous is not None:
        reported_names = {reported.fingerprint for reported in previous.findings}
    new_findings = []
    for finding in summary.findings:
        if finding_identity(finding) not in reported_names:
            new_findings.append(finding)
    answers = _RunAnswers(
        outcomes=_outcomes_by_criterion(summary),
        judged={criterion.id for criterion in summary.criteria if criterion.kind == "judge"},
        unclear=_unclear_criteria(summary.findings),
        growing={finding.criterion for finding in new_findings},
        present_paths={file.path for file in summary.change.files if file.change_type != "deleted"},
        unreviewed_paths={place.path for place in summary.unreviewed},
    )
    return answers.tell_about


class _RunAnswers(Struct, frozen=True):
    """What a run decided, as far as it tells which earlier findings are gone."""

    outcomes: Mapping[str, Collection[Outcome]]
    """By criterion, the outcomes under all rubrics."""
    judged: Collection[str]
    """Criteria that a model decides."""
    unclear: Collection[str]
    """Criteria whose findings do not tell which others are gone."""
    growing: Collection[str]
    """Criteria with a finding that was not said before."""
    present_paths: Collection[str]
    """Of the change, without files that it deletes."""
    unreviewed_paths: Collection[str]

    def tell_about(self, reported: ReportedFinding) -> bool:
        """Whether they say if the finding is still there."""
        name = reported.criterion
        outcomes = set(self.outcomes.get(name, ()))
        if not outcomes or not outcomes <= {"pass", "fail"}:
            return False
        if name in self.unclear:
            return False
        if name in self.judged and reported.path in self.unreviewed_paths:
            return False
        if outcomes == {"pass"}:
            return True
        if not reported.path:
            return False
        return reported.path in self.present_paths or name not in self.growing


def _outcomes_by_criterion(summary: Summary) -> dict[str, set[Outcome]]:
    """The outcomes of each criterion; those that no rubric has pass, as code decides them."""
    outcomes: dict[str, set[Outcome]] = {name: {"pass"} for name in CRITERIA_WITHOUT_RUBRIC}
    for criterion in summary.criteria:
        outcomes.setdefault(criterion.id, set()).add(criterion.outcome)
    return outcomes


def _unclear_criteria(findings: Collection[Finding]) -> set[str]:
    """Criteria with as many findings as are kept, or with one about the change as a whole."""
    finding_counts = Counter(finding.criterion for finding in findings)
    full = {criterion for criterion, count in finding_counts.items() if count >= MAX_FINDINGS}
    without_place = {finding.criterion for finding in findings if not finding.path}
    return full | (without_place - {"policy"})
