"""What reports ask of a summary: which findings come first, what was not asked, not judged, waived,
removed. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import UNSET, Struct

from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.cause import DETAILS, CheckFails, Coded
from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import ChangedFile, Summary, Unreviewed
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    CriterionResult,
    Defect,
    Finding,
    RubricResult,
    SecondLook,
    Vote,
    short,
)
from vibe_gate.errors import FAIL, PASS
from vibe_gate.judging.defects import is_same_defect
from vibe_gate.judging.disputable import is_open_to_dispute

GRAVITY = {"failure": 0, "warning": 1, "notice": 2}
"""Levels by how soon they are told."""

MAX_PREVENTING = 5
"""Lines of a refutation, or of an intention, that are shown beside its finding; the page has all."""


def worst_first(findings: Sequence[Finding], summary: Summary) -> list[Finding]:
    """By level, those of criteria that are no `must` last; then the fewest of a kind first: many
    hide no other.
    """
    kinds = Counter(map(_kind_of_finding, findings))

    def rank(finding: Finding) -> tuple[int, bool, int]:
        sources = sources_of_finding(finding, summary)
        is_soft = any(not criterion.must for _, criterion in sources)
        return GRAVITY[finding.level], is_soft, kinds[_kind_of_finding(finding)]

    return sorted(findings, key=rank)


def _kind_of_finding(finding: Finding) -> tuple[str, str, str]:
    return finding.level, finding.path, finding.criterion


def shared_error(summary: Summary) -> str:
    """The one reason for which nothing could be decided (the model's API does not answer); "" if
    there are more.
    """
    reasons = set()
    for criterion in summary.criteria:
        if criterion.outcome != "error":
            continue
        if criterion.kind != "judge":
            return ""
        reasons.add(criterion.reason)
    if len(reasons) != 1:
        return ""
    return reasons.pop().removesuffix(".")


def reason_in_words(reason: str) -> str:
    """A reason in our words, without a full stop at its end."""
    return reason.partition(DETAILS)[0].removesuffix(".")


def place_reason(place: Unreviewed) -> str:
    """Why no judge saw the place, in our words and without what the cause advises."""
    if place.cause is UNSET:
        return reason_in_words(place.reason)
    return place.cause.fact


def quoted_details(reason: str) -> str:
    """What another program said of the reason; "" if none did."""
    return reason.partition(DETAILS)[2]


def asks_judges(summary: Summary) -> bool:
    """Whether any criterion asks a judge."""
    return any(criterion.kind == "judge" for criterion in summary.criteria)


def missed_places(summary: Summary) -> tuple[Unreviewed, ...]:
    """What judges should have seen and did not: nothing if no criterion asks one."""
    if asks_judges(summary):
        return tuple(summary.unreviewed)
    return ()


def shown_evidence(lines: Sequence[CheckedEvidence]) -> list[CheckedEvidence]:
    """Those that can be shown: a quoted line of an agent's words has neither place nor quote."""
    return [line for line in lines if line.path or line.quote]


def unanswered_criteria(summary: Summary) -> list[CriterionResult]:
    """The criteria without an answer, whose reasons are our own words and never a model's."""
    criteria = []
    for criterion in summary.criteria:
        if _is_undecided(criterion) and not _has_answer(criterion):
            criteria.append(criterion)
    return criteria


def is_undecided_by_answers(summary: Summary) -> bool:
    """Whether criteria are undecided, and each of them has an answer of a judge."""
    undecided = list(filter(_is_undecided, summary.criteria))
    return bool(undecided) and all(map(_has_answer, undecided))


def has_own_gate(summary: Summary) -> bool:
    """Whether the repository, or this change, has definitions of its own, to which a suppression
    belongs.
    """
    return bool(summary.trusted.revision) or summary.trusted.bootstrap


def undecided_criteria(rubric: RubricResult) -> list[CriterionResult]:
    """The criteria of a rubric without pass or fail that apply."""
    return list(filter(_is_undecided, rubric.criteria))


def _is_undecided(criterion: CriterionResult) -> bool:
    return criterion.outcome in ("abstain", "error")


def _has_answer(criterion: CriterionResult) -> bool:
    """Whether a judge answered in any of its votes."""
    return any(vote.said is not None for vote in criterion.votes)


def judge_abstained(summary: Summary) -> bool:
    """Whether a judge answered that it cannot decide a criterion that must pass."""
    return any(
        criterion.must and criterion.outcome == "abstain" and _has_answer(criterion)
        for criterion in summary.criteria
    )


class Waiting(Struct, frozen=True):
    """The questions that are not asked until a check passes."""

    check: str
    """Its id; "" if no question waits."""
    questions: tuple[str, ...]
    """Ids of criteria."""


def waiting_questions(summary: Summary) -> Waiting:
    """The check that keeps questions from being asked, and these."""
    check = ""
    questions = []
    for criterion in summary.criteria:
        if isinstance(criterion.cause, CheckFails):
            check = check or criterion.cause.check
            questions.append(criterion.id)
    return Waiting(check, tuple(dict.fromkeys(questions)))


def has_cause(criterion: CriterionResult, *kinds: type[Coded]) -> bool:
    """Whether the criterion was left open for a cause of one of these kinds."""
    return isinstance(criterion.cause, kinds)


def rubric_applies(rubric: RubricResult) -> bool:
    """Whether any criterion of the rubric applies to the change."""
    return any(criterion.outcome != "not_applicable" for criterion in rubric.criteria)


def has_score(rubric: RubricResult) -> bool:
    """Whether the score of the rubric says something: there is a verdict, of at least one criterion
    that counts.
    """
    if rubric.outcome not in ("pass", "fail") or rubric.coverage <= 0:
        return False
    return any(
        criterion.outcome != "not_applicable" and not criterion.is_advice
        for criterion in rubric.criteria
    )


def advisory_fails(summary: Summary) -> list[CriterionResult]:
    """The criteria that failed and would have blocked, had their judges earned to block."""
    return [criterion for criterion in summary.criteria if criterion.would_block is True]


def is_unsteady(criterion: CriterionResult) -> bool:
    """Whether its judge is known to answer differently when it is asked again, and answered
    here.
    """
    if criterion.trust is UNSET or not criterion.votes:
        return False
    return criterion.trust.state == "unsteady"


def lowest_score(summary: Summary) -> float | None:
    """The lowest score of a rubric; None if nothing was decided, or the run ended without pass or
    fail.
    """
    if summary.exit_code not in (PASS, FAIL):
        return None
    scores = []
    for rubric in summary.rubrics:
        if has_score(rubric):
            scores.append(rubric.score)
    return min(scores, default=None)


def is_from_recording(summary: Summary) -> bool:
    """True if a recorded model answered, so that nothing was paid."""
    if summary.cost.basis != "none":
        return False
    return any(vote.said is not None for vote in asked_votes(summary))


def asked_votes(summary: Summary) -> list[Vote]:
    """The votes of this run, without those of earlier verdicts."""
    votes: list[Vote] = []
    for criterion in summary.criteria:
        if criterion.decided_by == "cache":
            continue
        for vote in criterion.votes:
            if not vote.turn.startswith(STORE):
                votes.append(vote)
    return votes


def is_waived(rubric: str, criterion: str, findings: Sequence[Finding]) -> bool:
    """True if every finding of the rubric's criterion is overridden or suppressed; notices and
    remarks fail nothing.
    """
    has_waiver = False
    for finding in findings:
        # The name is compared first: a run can have thousands of findings.
        if finding.criterion != criterion or not finding.is_of(rubric, criterion):
            continue
        if waiver_text(finding):
            has_waiver = True
        elif finding.level != "notice" and finding.remark is UNSET:
            return False
    return has_waiver


def waived_ids(rubric: RubricResult, findings: Sequence[Finding]) -> tuple[str, ...]:
    """The failed criteria of the rubric all of whose findings people let pass."""
    names = []
    for criterion in rubric.criteria:
        if criterion.outcome == "fail" and is_waived(rubric.id, criterion.id, findings):
            names.append(criterion.id)
    return tuple(names)


def waiver_text(finding: Finding) -> str:
    """Who overrode or suppressed the finding, until when and why; "" if it is neither."""
    if finding.waiver is UNSET:
        return ""
    return finding.waiver


def is_overridden(finding: Finding) -> bool:
    """Whether somebody's override lets the finding pass, rather than what the repository
    suppresses.

    What does not say whose act it was counts as an override, which holds less.
    """
    if finding.allowed_by is UNSET:
        return bool(waiver_text(finding)) or finding.lets_policy_pass
    return finding.allowed_by.kind == "overridden"


def overriding_accounts(summary: Summary) -> list[str]:
    """The account behind each overridden finding, "@login"; overrides of clones have none."""
    accounts = []
    for finding in summary.findings:
        allowance = finding.allowed_by
        if allowance is not UNSET and allowance.kind == "overridden" and allowance.account:
            accounts.append(allowance.account)
    return accounts


def waiver_grounds(finding: Finding) -> str:
    """Who let the finding pass, until when and why, "by @ada: a fixture"; "" if nobody did."""
    if not waiver_text(finding) or finding.allowed_by is UNSET:
        return ""
    return short(finding.allowed_by.grounds)


def waiver_texts(rubric: str, criterion: str, findings: Sequence[Finding]) -> str:
    """The waivers of the findings of a rubric's criterion, each once."""
    texts = []
    for finding in findings:
        if finding.is_of(rubric, criterion):
            texts.append(waiver_text(finding))
    return "; ".join(dict.fromkeys(filter(None, texts)))


def is_approval(finding: Finding) -> bool:
    """Whether it says that a person approved the change of the gate itself."""
    return finding.lets_policy_pass and not is_overridden(finding)


def gate_approver(summary: Summary) -> str:
    """Who approved the change of the gate itself, "@login"; "" if that needed no approval, or
    nobody did.
    """
    for finding in summary.findings:
        if is_approval(finding) and finding.allowed_by is not UNSET and finding.allowed_by.account:
            return finding.allowed_by.account
    return ""


def needs_approval(summary: Summary) -> bool:
    """Whether it changes the gate itself, and nobody let that pass."""
    if summary.policy_let_pass:
        return False
    return any(change.level == "block" for change in summary.policy_changes)


def change_description(summary: Summary) -> str:
    """What the change makes different, in the words of the first judge who said so; "" if none did.

    The first rubric's: the gate's own come before those of a scope, which are about fewer files.
    """
    for criterion in summary.criteria:
        for vote in criterion.votes:
            if vote.changes:
                return vote.changes
    return ""


class _FileRisk(Struct, frozen=True, order=True):
    """How much a file asks to be looked at; the fields weigh in their order."""

    failures: int
    warnings: int
    is_gate: bool
    is_unjudged: bool
    lines: int

    def reason(self) -> str:
        """Why to look at the file; "" if nothing but its size says so."""
        parts = []
        if self.failures:
            parts.append(counted(self.failures, "failure"))
        if self.warnings:
            parts.append(counted(self.warnings, "warning"))
        if self.is_gate:
            parts.append("the gate")
        if self.is_unjudged:
            parts.append("not judged")
        return ", ".join(parts)


def riskiest_first(summary: Summary) -> list[tuple[ChangedFile, str]]:
    """The changed files and why to look at them: by findings, then changes of the gate, then what
    no judge saw.
    """
    finding_counts = _count_by_file(summary.findings)
    gate_paths = set()
    for change in summary.policy_changes:
        if change.level == "block":
            gate_paths.add(change.path)
    unjudged_paths = {place.path for place in missed_places(summary)}

    def risk_of(file: ChangedFile) -> _FileRisk:
        return _FileRisk(
            failures=finding_counts[file.path, "failure"],
            warnings=finding_counts[file.path, "warning"],
            is_gate=file.path in gate_paths,
            is_unjudged=file.path in unjudged_paths,
            lines=file.added + file.deleted,
        )

    files = []
    for file in sorted(summary.change.files, key=risk_of, reverse=True):
        files.append((file, risk_of(file).reason()))
    return files


def _count_by_file(findings: Sequence[Finding]) -> Counter[tuple[str, str]]:
    """How many findings of each level stand in a file: one with places in two counts in both."""
    counts: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        counts.update((path, finding.level) for path in finding.paths)
    return counts


def counterexample_of(finding: Finding, summary: Summary) -> str:
    """The input that goes wrong, as the finding or the vote behind it has it; "" without one."""
    if finding.counterexample:
        return finding.counterexample
    for _, criterion in sources_of_finding(finding, summary):
        for defect in defects_behind(finding, criterion.votes):
            if defect.counterexample:
                return defect.counterexample
    return ""


def defects_behind(finding: Finding, votes: Iterable[Vote]) -> list[Defect]:
    """The defects of these votes of which the finding was made."""
    defects: list[Defect] = []
    for vote in votes:
        for defect in vote.defects:
            if is_same_defect(defect, finding):
                defects.append(defect)
    return defects


def finding_basis(finding: Finding) -> str:
    """How a judge's finding is known, "executed" or "inferred"; "" of a check's, which code
    decides.
    """
    if finding.basis is UNSET:
        return ""
    return finding.basis


def advice_behind(finding: Finding, summary: Summary) -> CriterionResult | None:
    """The criterion that would have blocked with this finding, had its judge earned to block; else
    None.
    """
    if finding.level != "warning":
        return None
    for _, criterion in sources_of_finding(finding, summary):
        if criterion.would_block is True:
            return criterion
    return None


def may_be_disputed(finding: Finding, summary: Summary) -> bool:
    """Whether a second look left the finding as it is, and may be asked once more with an argument
    against it.
    """
    if finding.second_look is UNSET or not summary.bundle:
        return False
    return is_open_to_dispute(finding, summary, ())


def grounds_of_look(look: SecondLook) -> tuple[CheckedEvidence, ...]:
    """The lines by which it refutes the finding, or says that it is intended, the first of many;
    none if it does neither.
    """
    if look.outcome in ("refuted", "intended"):
        return look.evidence[:MAX_PREVENTING]
    return ()


def sources_of_finding(
    finding: Finding, summary: Summary
) -> list[tuple[RubricResult, CriterionResult]]:
    """The criteria that the finding comes from, or may come from, with their rubrics."""
    name = finding.criterion
    pairs = []
    for rubric in summary.rubrics:
        for criterion in rubric.criteria:
            # The name is compared first: a run can have a thousand criteria.
            if criterion.id == name and finding.is_of(rubric.id, name):
                pairs.append((rubric, criterion))
    exact_pairs = []
    for rubric, criterion in pairs:
        if any(has_evidence(vote, finding) for vote in criterion.votes):
            exact_pairs.append((rubric, criterion))
    return exact_pairs or pairs


def has_evidence(vote: Vote, finding: Finding) -> bool:
    """Whether the vote names the defect of the finding."""
    return any(is_same_defect(defect, finding) for defect in vote.defects)
