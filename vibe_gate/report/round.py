"""Rounds: what a pull request's reader was told before, and what is to be said now. Pure.

    new      not said before, or said to be fixed and back
    open     said before, still there
    fixed    said before, gone, and its lines changed: at which commit
    unraised said before, not found again, and its lines did not change: nobody fixed it
    held     new, but no blocker and on lines that did not change since the last round: counted, not said

`reported_finding` is a finding as it was said, `round_state` what travels to the next round,
`round_record` the figures of a round and what a log holds of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import MAX_FINDINGS, Finding, Outcome
from vibe_gate.report import queries
from vibe_gate.report.reported_finding import (
    ReportedFinding,
    finding_identity,
    report_finding,
    report_finding_again,
)
from vibe_gate.report.round_state import MAX_NUMBER, MAX_SEEN, RoundState


class Round(Struct, frozen=True):
    """What is to be said of a run, given what was said before."""

    number: int
    head: str
    """The full commit id."""
    new: tuple[Finding, ...] = ()
    open: tuple[Finding, ...] = ()
    fixed: tuple[ReportedFinding, ...] = ()
    held: tuple[Finding, ...] = ()
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
        new = [report_finding(finding, self.head) for finding in self.new]
        findings = (*new, *self.open_before, *self.unraised, *self.unanswered, *self.fixed)
        return RoundState(
            number=self.number,
            head=self.head,
            findings=findings[:MAX_SEEN],
            usd=self.usd_before,
            runs=self.runs_before,
        )

    @property
    def shown(self) -> tuple[Finding, ...]:
        """The findings of this run that are said, the new ones first."""
        return (*self.new, *self.open)


def first_round(findings: Iterable[Finding], head: str) -> Round:
    """The round before which nothing was said."""
    return next_round(None, findings, head, touched=lambda _: True, blocking=lambda _: True)


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
    """What is new, open, fixed and held.

    `touched`: whether the finding's lines changed since `previous.head`; `blocking`:
    whether it stops the change; `answered`: whether this run could tell if what was
    said before is still there (`answered_by`); `replaced`: whether lines of what was said
    before changed since it was found last. `head` is the full commit id.
    """
    reported_by_name = (
        {finding.fingerprint: finding for finding in previous.findings} if previous else {}
    )
    current = {}
    for finding in findings:
        if not queries.is_approval(finding):  # which can lapse
            current[finding_identity(finding)] = finding
    persisting = []
    open_before = []
    new = {}
    held = []
    for name, finding in current.items():
        reported = reported_by_name.get(name)
        if reported is not None and _persists(reported, finding):
            persisting.append(finding)
            open_before.append(report_finding_again(reported, finding))
        elif previous is None or blocking(finding) or touched(finding):
            new[name] = finding
        else:
            held.append(finding)
    is_same_head = previous is not None and previous.head == head
    unanswered = []
    unraised = []
    fixed = []
    for reported in _missing(reported_by_name, current, previous.head if previous else head):
        if is_same_head or not answered(reported):
            unanswered.append(reported)
        elif not replaced(reported):
            unraised.append(reported)
        else:
            fixed.append(replace(reported, fixed=head))
    for name, reported in reported_by_name.items():
        if reported.fixed and name not in current:
            fixed.append(reported)
    return Round(
        number=min(previous.number + (not is_same_head), MAX_NUMBER) if previous else 1,
        head=head,
        new=tuple(new.values()),
        open=tuple(persisting),
        fixed=tuple(fixed),
        held=tuple(held),
        reappeared=frozenset(new.keys() & reported_by_name.keys()),
        unanswered=tuple(unanswered),
        unraised=tuple(unraised),
        open_before=tuple(open_before),
        run=previous.run if previous is not None and is_same_head else 0,
        usd_before=previous.usd if previous else 0.0,
        runs_before=previous.runs if previous else 0,
    )


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
    reported_names = {reported.fingerprint for reported in previous.findings} if previous else set()
    finding_counts = Counter(finding.criterion for finding in summary.findings)
    cut = {criterion for criterion, count in finding_counts.items() if count >= MAX_FINDINGS}
    broken = {finding.criterion for finding in summary.findings if not finding.path} - {"policy"}
    growing = {
        finding.criterion
        for finding in summary.findings
        if finding_identity(finding) not in reported_names
    }
    outcomes: dict[str, set[Outcome]] = {"policy": {"pass"}}  # it is decided by paths alone
    judges = set()
    for rubric in summary.rubrics:
        for criterion in rubric.criteria:
            outcomes.setdefault(criterion.id, set()).add(criterion.outcome)
            if criterion.kind == "judge":
                judges.add(criterion.id)
    present_paths = {file.path for file in summary.change.files if file.change_type != "deleted"}
    unreviewed_paths = {place.path for place in summary.unreviewed}

    def answered(reported: ReportedFinding) -> bool:
        name = reported.criterion
        decided = outcomes.get(name, set())
        if not decided or not decided <= {"pass", "fail"} or name in cut or name in broken:
            return False
        if name in judges and reported.path in unreviewed_paths:
            return False
        if not reported.path:
            return decided == {"pass"}
        return reported.path in present_paths or decided == {"pass"} or name not in growing

    return answered
