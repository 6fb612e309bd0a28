"""Votes to the result of a criterion: what each vote counts for, and what more than half of them
say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from vibe_gate.domain.cause import Cause
from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.verdict import (
    PROOF_STATUSES,
    CriterionResult,
    DecidedBy,
    Defect,
    Outcome,
    TrustBadge,
    Vote,
    short,
)
from vibe_gate.judging.defects import (
    combine_standings,
    find_void_reason,
    is_proven_defect,
    judge_defect,
    merge_parts_defects,
    rank_proof,
)

_WORST_FIRST: tuple[Outcome, ...] = ("fail", "error", "abstain", "pass", "not_applicable")


def check_vote(vote: Vote) -> Vote:
    """What an answer counts for: a fail counts as its defects do, each after its evidence and test
    were checked (`defects.combine_standings`).
    """
    if vote.said != "fail" or vote.outcome != "fail":
        return vote
    outcome = combine_standings(map(judge_defect, vote.defects))
    if outcome == "fail":
        return vote
    if outcome == "pass":
        return replace(vote, outcome="pass", reason=short(vote.reason))
    problem = _unshown_reason(vote.defects)
    reason = short(f'answered "fail", but {problem}: {vote.reason}')
    return replace(vote, outcome="abstain", reason=reason)


def _unshown_reason(defects: Sequence[Defect]) -> str:
    """Why the first defect that could not be shown was not, as a clause."""
    for defect in defects:
        if judge_defect(defect) == "void":
            return find_void_reason(defect)
        if judge_defect(defect) == "voided":
            return "its own test passes after the change"
    return "no evidence was given"


def combine_parts(parts: Sequence[Vote]) -> Vote:
    """One vote from the answers to the parts of a change: the worst, with the defects and `changes`
    of all.
    """
    worst = _pick_worst_outcome(part.outcome for part in parts)
    deciding_parts = []
    other_parts = []
    changes: dict[str, None] = {}
    for part in parts:
        if part.outcome == worst:
            deciding_parts.append(part)
        else:
            other_parts.append(part)
        if part.changes:
            changes[part.changes] = None
    deciding_parts.sort(key=_answer_order)
    part_defects = [part.defects for part in (*deciding_parts, *other_parts)]
    combined = replace(
        deciding_parts[0],
        defects=merge_parts_defects(part_defects),
        changes=short(" ".join(changes)),
    )
    if worst != "fail":
        return combined
    return replace(combined, outranked=_outranked(other_parts))


def _pick_worst_outcome(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst that a vote or a criterion may have."""
    return min(outcomes, key=_WORST_FIRST.index)


def _answer_order(vote: Vote) -> tuple[bool, int]:
    """Votes without an answer come first, then those whose tests showed the most."""
    proof_ranks = [rank_proof(defect) for defect in vote.defects]
    return vote.said is not None, min(proof_ranks, default=len(PROOF_STATUSES))


def _outranked(other_parts: Sequence[Vote]) -> Outcome | UnsetType:
    """The worst answer to parts that a worse one stands for; UNSET if they pass. A refutation must
    not hide it.
    """
    outcomes: set[Outcome] = set()
    for part in other_parts:
        outcomes.add("error" if part.said is None else part.outcome)
    outcomes -= {"pass", "not_applicable"}
    if outcomes:
        return _pick_worst_outcome(outcomes)
    return UNSET


def counted_outcome(vote: Vote) -> Outcome:
    """What a vote counts for after second looks: a fail none of whose defects counts any more as
    they do, or as what it stood for in other parts of a large change if that is worse.
    """
    if vote.outcome != "fail" or not vote.defects:
        return vote.outcome
    outcome = combine_standings(map(judge_defect, vote.defects))
    if outcome == "fail" or vote.outranked is UNSET:
        return outcome
    return _pick_worst_outcome([outcome, vote.outranked])


def settle_votes(
    votes: Sequence[Vote], planned: int, *, stopped: bool = False
) -> tuple[Outcome, DecidedBy] | None:
    """The outcome of a criterion once no further vote can change it, else None.

    More than half of the `planned` votes must agree; without that it abstains. With `stopped` no
    further vote will come (budget, deadline, infrastructure), and an error among the votes then
    counts as error.
    """
    return _settle_outcomes([vote.outcome for vote in votes], planned, stopped=stopped)


def _settle_outcomes(
    outcomes: Sequence[Outcome], planned: int, *, stopped: bool
) -> tuple[Outcome, DecidedBy] | None:
    """As `settle_votes`, of what votes count for."""
    if not outcomes:
        return ("abstain", "none") if stopped else None
    majority = planned // 2 + 1
    counts = Counter(outcomes)
    leader, count = counts.most_common(1)[0]
    if count >= majority:
        if len(counts) == 1:
            return leader, "unanimous"
        return leader, "majority"
    open_votes = planned - len(outcomes)
    if stopped and counts["error"]:
        return "error", "majority"
    if stopped or open_votes <= 0 or count + open_votes < majority:
        return "abstain", "majority"
    return None


def result_of_votes(
    criterion: Criterion,
    votes: Sequence[Vote],
    planned: int,
    stopped: Cause | None = None,
    *,
    is_cached: bool = False,
    trust: TrustBadge | UnsetType = UNSET,
) -> CriterionResult:
    """The result of a judge criterion after its last vote.

    A criterion that the votes fail stays failed while one of these fails counts. If second looks
    took all of them back, the votes are counted once more, as `counted_outcome` says.

    Args:
        criterion: As the rubric states it.
        votes: Those cast on one question.
        planned: How many the rubric wants.
        stopped: Why no further one was cast, if that is so.
        is_cached: Every vote is of an earlier run.
        trust: What people said of the judge's earlier findings, if that is known.
    """
    outcome, decided_by = _settle_finally([vote.outcome for vote in votes], planned)
    if is_cached:
        decided_by = "cache"
    deciding_votes = [vote for vote in votes if vote.outcome == outcome]
    deciding_reason, cause = _reason_of_votes(deciding_votes, stopped)
    counted_outcomes = [counted_outcome(vote) for vote in votes]
    if outcome == "fail" and "fail" not in counted_outcomes:
        outcome, _ = _settle_finally(counted_outcomes, planned)
        decided_by, cause = "refuted", UNSET
        # Its votes fail: the first of them tells why that does not count.
        deciding_reason = _withdrawal_reason(deciding_votes[0], outcome, votes)
    return CriterionResult(
        id=criterion.id,
        kind="judge",
        must=criterion.must,
        weight=float(criterion.weight),
        outcome=outcome,
        decided_by=decided_by,
        votes=tuple(votes),
        reason=short(deciding_reason),
        cause=cause,
        trust=trust,
    )


def _settle_finally(outcomes: Sequence[Outcome], planned: int) -> tuple[Outcome, DecidedBy]:
    """The outcome of a criterion on which no further vote will be cast."""
    return _settle_outcomes(outcomes, planned, stopped=True) or ("abstain", "none")


def _reason_of_votes(
    deciding_votes: Sequence[Vote], stopped: Cause | None
) -> tuple[str, Cause | UnsetType]:
    """What the first vote says that has a reason; if none decides, why no further one was cast."""
    if deciding_votes:
        telling_vote = max(deciding_votes, key=lambda vote: bool(vote.reason))
        return telling_vote.reason, telling_vote.cause
    if stopped:
        return stopped.reason, stopped
    return "the votes do not agree", UNSET


def _withdrawal_reason(withdrawn_vote: Vote, outcome: Outcome, votes: Sequence[Vote]) -> str:
    """Why a criterion does not fail whose fails second looks took back, and what is still open if it
    does not pass.
    """
    sentence = "Only remarks are left."
    for defect in withdrawn_vote.defects:
        if defect.second_look is not UNSET:
            sentence = f"Raised and only a remark: {defect.second_look.reason}"
            if defect.is_refuted:
                sentence = f"Raised and refuted: {defect.second_look.reason}"
            break
    if outcome in ("pass", "not_applicable"):
        return sentence
    for vote in votes:
        if vote.outcome in ("error", "abstain"):
            return f"{sentence} Still open: {vote.reason}"
    return sentence


def pick_worst_result(results: Sequence[CriterionResult]) -> CriterionResult:
    """The worst result of a criterion that was asked with and without claims; every vote is
    kept.
    """
    worst = min(results, key=_result_order)
    other_votes: list[Vote] = []
    for result in results:
        if result is not worst:
            other_votes += result.votes
    return replace(worst, votes=(*worst.votes, *other_votes))


def _result_order(result: CriterionResult) -> tuple[int, bool]:
    """Worst first; of equal ones, what a second look refuted."""
    return _WORST_FIRST.index(result.outcome), result.decided_by != "refuted"


def is_proven(result: CriterionResult) -> bool:
    """Whether the test of a defect that fails the criterion proves it."""
    return any(has_proof(vote) for vote in result.votes)


def has_proof(vote: Vote) -> bool:
    """Whether it is a fail with a defect that its test proves."""
    return vote.outcome == "fail" and any(map(is_proven_defect, vote.defects))
