"""The rubrics of a run decided, with what people let pass, and the fails that get a second look.

A waiver hides nothing: the criterion stays failed, and its findings become notices that say who let
them pass; the rubric is decided without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import UNSET, Struct, UnsetType

from vibe_gate.domain.gate import Waivers
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import (
    MAX_FINDINGS,
    CheckedEvidence,
    CriterionResult,
    Defect,
    Finding,
    Level,
    NamedFinding,
    RubricResult,
    short,
)
from vibe_gate.domain.waiver import Waiver
from vibe_gate.judging.defects import DefectGroup, group_defects, is_proven_defect
from vibe_gate.judging.findings import find_named, make_judge_finding
from vibe_gate.judging.rubric_tally import RubricTally, summarize_tally, tally_rubric


class OpenFail(Struct, frozen=True):
    """A defect that gets a second look, as one or several votes name it."""

    rubric: Rubric

    criterion: Criterion

    defects: tuple[Defect, ...]
    """The same defect, of each vote that names it."""

    turns: tuple[str, ...] = ()
    """The folders of the conversations in which it was named."""

    fingerprint: str = ""
    """Of its finding."""

    @property
    def evidence(self) -> tuple[CheckedEvidence, ...]:
        """The quoted lines of the change that stand there."""
        return DefectGroup(self.defects).evidence


def find_rubric_open_fails(
    rubric: Rubric,
    results: Sequence[CriterionResult],
    findings: Sequence[NamedFinding],
    waivers: Waivers,
) -> tuple[OpenFail, ...]:
    """The defects for which the rubric wants a second look: those that count for a fail that blocks,
    or would if its judge might.

    None gets one whose vote cannot become a pass by it: what people let pass (`findings` are all of
    the run's), a proven defect, which was seen to happen, one of a vote that stands for other parts
    of the change that do not pass, and one of a criterion that needs a claim, which a second look is
    not shown.
    """
    if rubric.second_look == "never":
        return ()
    waived_ids = waived_criteria(rubric, results, findings, waivers)
    blocking_ids = tally_rubric(rubric, results, waived_ids).would_block_ids
    fails = []
    for criterion, result in zip(rubric.criterion, results, strict=True):
        if criterion.kind != "judge" or criterion.needs or criterion.id not in blocking_ids:
            continue
        for group in group_defects(result.votes):
            if not group.counts or any(map(is_proven_defect, group.defects)):
                continue
            if any(vote.outranked is not UNSET for vote in group.votes):
                continue
            finding = find_named(make_judge_finding(criterion, group), rubric.id, findings)
            if finding is None or waivers.of(finding) is not None:
                continue
            turns = tuple(dict.fromkeys(vote.turn for vote in group.votes))
            fail = OpenFail(rubric, criterion, group.defects, turns, finding.fingerprint)
            fails.append(fail)
    return tuple(fails)


class RubricOutcomes(Struct, frozen=True):
    """The rubrics of a run as they came out, after what people let pass."""

    rubrics: tuple[RubricResult, ...]

    findings: tuple[Finding, ...]

    effective_waivers: tuple[Waiver, ...] = ()
    """Those by which a failed criterion was left out."""


def decide_rubrics(
    rubrics: Sequence[Rubric],
    results: Sequence[Sequence[CriterionResult]],
    findings: Sequence[NamedFinding],
    waivers: Waivers,
    reused_scores: Mapping[str, float] = MappingProxyType({}),
) -> RubricOutcomes:
    """Decide each rubric once, without the failed criteria all of whose findings are waived.

    Args:
        rubrics: Those of the run.
        results: Of each rubric's criteria, in its order.
        findings: All of the run's.
        waivers: What people let pass.
        reused_scores: Of rubrics whose pass was taken over from a receipt, by id.
    """
    rubric_results = []
    tallies = []
    waived_names: set[tuple[str, str]] = set()
    for rubric, criterion_results in zip(rubrics, results, strict=True):
        waived_ids = waived_criteria(rubric, criterion_results, findings, waivers)
        waived_names |= {(rubric.id, criterion_id) for criterion_id in waived_ids}
        tally = tally_rubric(rubric, criterion_results, waived_ids)
        tallies.append(tally)
        reused_score = reused_scores.get(rubric.id)
        rubric_results.append(summarize_tally(rubric, tally, reused_score))
    levels = levels_of(tallies, rubrics, findings)
    return RubricOutcomes(
        tuple(rubric_results),
        _show_findings(findings, levels, waivers, rubrics),
        _effective_waivers(findings, waivers, waived_names),
    )


def _show_findings(
    findings: Sequence[NamedFinding],
    levels: Sequence[Level],
    waivers: Waivers,
    rubrics: Sequence[Rubric],
) -> tuple[Finding, ...]:
    """The findings as bundles keep them, each with its level."""
    criterion_uses: Counter[str] = Counter()
    for rubric in rubrics:
        criterion_uses.update(criterion.id for criterion in rubric.criterion)
    shown_findings = []
    for finding, level in zip(findings, levels, strict=True):
        is_shared_id = criterion_uses[finding.criterion] > 1
        waiver = waivers.of(finding)
        shown_findings.append(_show_finding(finding, level, waiver, is_shared_id=is_shared_id))
    return tuple(shown_findings)


def _effective_waivers(
    findings: Sequence[NamedFinding], waivers: Waivers, waived_names: Iterable[tuple[str, str]]
) -> tuple[Waiver, ...]:
    """The waivers by which a failed criterion was left out, named by rubric and criterion."""
    effective: dict[Waiver, None] = {}
    for finding in findings:
        waiver = waivers.of(finding)
        if waiver is not None and any(finding.is_of(*name) for name in waived_names):
            effective[waiver] = None
    return tuple(effective)


def _show_finding(
    finding: NamedFinding, level: Level, waiver: Waiver | None, *, is_shared_id: bool
) -> Finding:
    """The finding as bundles keep it; one that people let pass is a notice beside who did.

    `is_shared_id`: whether several rubrics have a criterion of its id.
    """
    raw = finding.raw
    waiver_sentence: str | UnsetType = UNSET
    if waiver is not None:
        level = "notice"
        waiver_sentence = short(waiver.sentence)
    rubric_ids: tuple[str, ...] | UnsetType = UNSET
    if is_shared_id and finding.rubric_ids:
        rubric_ids = finding.rubric_ids
    return Finding(
        path=raw.path,
        line=raw.line,
        end_line=raw.end_line,
        level=level,
        criterion=raw.criterion,
        message=raw.message,
        other_places=raw.other_places,
        counterexample=raw.counterexample,
        evidence=raw.evidence,
        also=raw.also,
        remark=raw.remark,
        fingerprint=finding.fingerprint,
        rubrics=rubric_ids,
        waiver=waiver_sentence,
        allowed_by=waiver or UNSET,
        second_look=raw.second_look,
        basis=raw.basis,
        proof=raw.proof,
    )


def waived_criteria(
    rubric: Rubric,
    results: Sequence[CriterionResult],
    findings: Sequence[NamedFinding],
    waivers: Waivers,
) -> set[str]:
    """The ids of the failed criteria all of whose findings are waived."""
    waived_ids = set()
    for result in results:
        if result.outcome == "fail" and all_findings_waived(
            rubric.id, result.id, findings, waivers
        ):
            waived_ids.add(result.id)
    return waived_ids


def all_findings_waived(
    rubric: str, criterion: str, findings: Sequence[NamedFinding], waivers: Waivers
) -> bool:
    """Whether there are findings of a failed criterion of the rubric, and all are waived.

    With as many findings as are kept there may be more, so then it is never waived.
    """
    open_findings = []
    for finding in findings:
        if finding.raw.level == "notice" or finding.raw.is_refuted:
            continue
        if finding.raw.remark is UNSET and finding.is_of(rubric, criterion):
            open_findings.append(finding)
    if not open_findings or len(open_findings) >= MAX_FINDINGS:
        return False
    return all(waivers.of(finding) is not None for finding in open_findings)


def levels_of(
    tallies: Sequence[RubricTally], rubrics: Sequence[Rubric], findings: Sequence[NamedFinding]
) -> list[Level]:
    """Of each finding what it does: a failure blocks, a warning is a fail that does not; notices
    stay.
    """
    names = _CriterionNames()
    for rubric, tally in zip(rubrics, tallies, strict=True):
        names.add_tally(rubric, tally)
    return [names.level_of(finding) for finding in findings]


class _CriterionNames:
    """The criteria of a run by what became of them, each named by rubric and id: two rubrics may
    give the same id to criteria of their own.
    """

    judged: set[tuple[str, str]]

    failed: set[tuple[str, str]]

    blocking: set[tuple[str, str]]
    """Those that make their rubric fail."""

    need_proof: set[tuple[str, str]]
    """Those of which only a proven fail counts."""

    def __init__(self) -> None:
        self.judged = set()
        self.failed = set()
        self.blocking = set()
        self.need_proof = set()

    def add_tally(self, rubric: Rubric, tally: RubricTally) -> None:
        """Add the criteria of a rubric."""
        for result in tally.criteria:
            name = (rubric.id, result.id)
            if result.kind == "judge":
                self.judged.add(name)
            if result.outcome == "fail":
                self.failed.add(name)
        for criterion in rubric.criterion:
            if criterion.proof == "required":
                self.need_proof.add((rubric.id, criterion.id))
        self.blocking |= {(rubric.id, criterion_id) for criterion_id in tally.blocking_ids}

    def level_of(self, finding: NamedFinding) -> Level:
        """What the finding does: the first rule that holds."""
        if finding.raw.level == "notice" or finding.raw.is_refuted:
            return "notice"
        if finding.raw.remark is not UNSET:
            return "warning"
        names = {(rubric_id, finding.criterion) for rubric_id in finding.rubric_ids}
        if names.isdisjoint(self.failed):
            # Of a judge that is undecided after a second look, or of no criterion.
            if names & self.judged:
                return "warning"
            return finding.raw.level
        blocking_names = names & self.blocking
        proof = finding.raw.proof
        if proof is UNSET or proof.status != "proven":
            blocking_names -= self.need_proof
        return "failure" if blocking_names else "warning"
