"""The rubrics of a run decided, with what people let pass, and the fails that get a second look.

A waiver hides nothing: the criterion stays failed, and its findings become notices that say who let them pass; the
rubric is decided without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.domain.gate import Waivers
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import MAX_FINDINGS, CriterionResult, Finding, Level, RubricResult, Vote, short
from vibe_gate.judging.rubric_tally import RubricTally, summarize_tally, tally_rubric
from vibe_gate.judging.vote_counting import by_lines, is_proof


def refuted_noticed(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, those that were refuted as notices."""
    return tuple(replace(finding, level="notice") if finding.is_refuted else finding for finding in findings)


class OpenFail(Struct, frozen=True):
    """A fail of a judge criterion that gets a second look: votes that point at the same lines."""

    rubric: Rubric
    criterion: Criterion
    votes: tuple[Vote, ...]


def open_fails(
    rubric: Rubric, results: Sequence[CriterionResult], findings: Sequence[Finding], waivers: Waivers
) -> tuple[OpenFail, ...]:
    """The fails for which the rubric wants a second look: those that block, or would if their judge might.

    None gets one that cannot become a pass by it: what people let pass (`findings` are all of the run's, with their
    fingerprints), a proven fail, which was seen to happen, one that stands for other parts of the change that do not
    pass, and one that needs a claim, which a second look is not shown.
    """
    if rubric.second_look == "never":
        return ()
    waived_ids = waived_criteria(rubric, results, findings, waivers)
    wanted_ids = tally_rubric(rubric, results, waived_ids).would_block_ids
    fails = []
    for criterion, result in zip(rubric.criterion, results, strict=True):
        if criterion.kind != "judge" or criterion.needs or criterion.id not in wanted_ids:
            continue
        own_findings = [finding for finding in findings if finding.is_of(rubric.id, criterion.id)]
        for votes in by_lines(result.votes):
            if any(is_proof(vote) or vote.outranked is not UNSET for vote in votes):
                continue
            if not _are_waived(votes, own_findings, waivers):
                fails.append(OpenFail(rubric, criterion, votes))
    return tuple(fails)


def _are_waived(votes: Sequence[Vote], findings: Sequence[Finding], waivers: Waivers) -> bool:
    """Whether people let every finding of these votes pass."""
    lines = [line for vote in votes for line in vote.evidence]
    for finding in findings:
        is_theirs = any(line in lines for line in finding.evidence)
        if is_theirs and waivers.of(finding) is None:
            return False
    return True


class RubricOutcomes(Struct, frozen=True):
    """The rubrics of a run as they came out, after what people let pass."""

    rubrics: tuple[RubricResult, ...]

    findings: tuple[Finding, ...]
    """Each with its level: a failure blocks, a warning is a fail that does not, and notices."""

    effective_waivers: tuple[Waiver, ...] = ()
    """Those by which a failed criterion was left out."""


def decide_rubrics(
    rubrics: Sequence[Rubric],
    results: Sequence[Sequence[CriterionResult]],
    findings: Sequence[Finding],
    raised_by: Sequence[Collection[str]],
    waivers: Waivers,
) -> RubricOutcomes:
    """Decide each rubric once, without the failed criteria all of whose findings are waived.

    Args:
        rubrics: Those of the run.
        results: Of each rubric's criteria, in its order.
        findings: All of the run's, with fingerprints.
        raised_by: For each finding the ids of the rubrics that it fails.
        waivers: What people let pass.
    """
    decided = []
    tallies = []
    waived_names = set()
    for rubric, criterion_results in zip(rubrics, results, strict=True):
        waived = waived_criteria(rubric, criterion_results, findings, waivers)
        waived_names |= {(rubric.id, criterion_id) for criterion_id in waived}
        tally = tally_rubric(rubric, criterion_results, waived)
        tallies.append(tally)
        rubric_result = summarize_tally(rubric, tally)
        decided.append(replace(rubric_result, criteria=_with_waiver_reasons(rubric_result, waived)))
    levelled_findings = level_findings(tallies, rubrics, refuted_noticed(findings), raised_by)
    shown_findings = []
    effective: dict[Waiver, None] = {}
    for finding, levelled_finding in zip(findings, levelled_findings, strict=True):
        waiver = waivers.of(finding)
        if waiver is None:
            shown_findings.append(levelled_finding)
            continue
        shown_findings.append(_noticed(levelled_finding, waiver))
        if any(finding.is_of(*name) for name in waived_names):
            effective[waiver] = None
    return RubricOutcomes(tuple(decided), tuple(shown_findings), tuple(effective))


def _with_waiver_reasons(result: RubricResult, waived: Mapping[str, str]) -> tuple[CriterionResult, ...]:
    """The criteria, those that people let pass with a reason that says who did."""
    return tuple(
        replace(criterion, reason=short(f"{waived[criterion.id]} | {criterion.reason}"))
        if criterion.id in waived
        else criterion
        for criterion in result.criteria
    )


def waived_criteria(
    rubric: Rubric,
    results: Sequence[CriterionResult],
    findings: Sequence[Finding],
    waivers: Waivers,
) -> dict[str, str]:
    """Id -> who let it pass, of the failed criteria all of whose findings are waived."""
    waived = {}
    for result in results:
        if result.outcome != "fail":
            continue
        sentence = spares(rubric.id, result.id, findings, waivers)
        if sentence:
            waived[result.id] = sentence
    return waived


def spares(rubric: str, criterion: str, findings: Sequence[Finding], waivers: Waivers) -> str:
    """What is said of a failed criterion of the rubric all of whose findings are waived; "" if one is not.

    With as many findings as are kept there may be more, so then it is never waived.
    """
    own_findings = [
        finding
        for finding in findings
        if finding.is_of(rubric, criterion) and finding.level != "notice" and not finding.is_refuted
    ]
    sentences: dict[str, None] = {}
    for finding in own_findings:
        waiver = waivers.of(finding)
        if waiver is None:
            return ""
        sentences[waiver.sentence] = None
    if len(own_findings) >= MAX_FINDINGS:
        return ""
    return "; ".join(sentences)


def _noticed(finding: Finding, waiver: Waiver) -> Finding:
    """The finding as a notice that says who let it pass."""
    message = short(f"{waiver.sentence} | {finding.message}")
    return replace(finding, level="notice", message=message, waiver=short(waiver.sentence))


def level_findings(
    tallies: Sequence[RubricTally],
    rubrics: Sequence[Rubric],
    findings: Sequence[Finding],
    raised_by: Sequence[Collection[str]],
) -> tuple[Finding, ...]:
    """The findings by what they do: a failure blocks, a warning is a fail that does not; notices stay.

    `raised_by`: for each finding the ids of its rubrics. Two rubrics may give the same id to criteria of their own.
    """
    judged_names = set()
    failed_names = set()
    blocking_names = set()
    proof_names = set()
    for rubric, tally in zip(rubrics, tallies, strict=True):
        judged_names |= {(rubric.id, result.id) for result in tally.criteria if result.kind == "judge"}
        failed_names |= {(rubric.id, result.id) for result in tally.criteria if result.outcome == "fail"}
        blocking_names |= {(rubric.id, criterion_id) for criterion_id in tally.blocking_ids}
        proof_names |= {(rubric.id, criterion.id) for criterion in rubric.criterion if criterion.proof == "required"}

    def level_of(finding: Finding, rubric_ids: Collection[str]) -> Level:
        names = {(rubric_id, finding.criterion) for rubric_id in rubric_ids}
        if finding.level == "notice":
            return "notice"
        if names.isdisjoint(failed_names):  # of a judge that is undecided after a second look, or of no criterion
            return "warning" if names & judged_names else finding.level
        is_proven = finding.proof is not UNSET and finding.proof.status == "proven"
        blocked_by = names & blocking_names
        if not is_proven:
            blocked_by -= proof_names
        return "failure" if blocked_by else "warning"

    pairs = zip(findings, raised_by, strict=True)
    return tuple(replace(finding, level=level_of(finding, ids)) for finding, ids in pairs)
