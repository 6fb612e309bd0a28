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
    PART_MARK,
    PROOF_STATUSES,
    CheckedEvidence,
    CriterionResult,
    DecidedBy,
    Outcome,
    TrustBadge,
    Vote,
    short,
)

_WORST_FIRST: tuple[Outcome, ...] = ("fail", "error", "abstain", "pass", "not_applicable")


def check_vote(vote: Vote) -> Vote:
    """What an answer counts for: a fail without counterexample or standing evidence is an
    abstention.
    """
    if vote.said != "fail" or vote.outcome != "fail":
        return vote
    if not (vote.counterexample or "").strip():
        return _demote_fail(vote, "no counterexample was given")
    if any(evidence.standing != "void" for evidence in vote.evidence):
        return vote
    problems = sorted({evidence.why for evidence in vote.evidence})
    return _demote_fail(vote, "; ".join(problems or ["no evidence was given"]))


def _demote_fail(vote: Vote, problem: str) -> Vote:
    reason = short(f'answered "fail", but {problem}: {vote.reason}')
    return replace(vote, outcome="abstain", reason=reason)


def combine_parts(parts: Sequence[Vote]) -> Vote:
    """One vote from the answers to the parts of a change: the worst, with all its evidence, and
    `changes` of all.
    """
    worst = _worst_outcome(part.outcome for part in parts)
    deciding_parts = [part for part in parts if part.outcome == worst]
    other_parts = [part for part in parts if part.outcome != worst]
    deciding_parts.sort(key=_answer_order)
    evidence: list[CheckedEvidence] = []
    for part in deciding_parts:
        evidence += part.evidence
    changes = dict.fromkeys(part.changes for part in parts if part.changes)
    counterexamples = dict.fromkeys(
        part.counterexample for part in deciding_parts if part.counterexample
    )
    combined = replace(
        deciding_parts[0],
        evidence=tuple(evidence),
        changes=short(" ".join(changes)),
        counterexample=PART_MARK.join(counterexamples) or None,
    )
    if worst != "fail":
        return combined
    return replace(combined, outranked=_outranked([*deciding_parts[1:], *other_parts]))


def _worst_outcome(outcomes: Iterable[Outcome]) -> Outcome:
    return min(outcomes, key=_WORST_FIRST.index)


def _answer_order(vote: Vote) -> tuple[bool, int]:
    """Votes without an answer come first, then those whose test showed the most."""
    return vote.said is not None, rank_proof(vote)


def _outranked(other_parts: Sequence[Vote]) -> Outcome | UnsetType:
    """The worst answer to parts that a worse one stands for; UNSET if they pass. A refutation must
    not hide it.
    """
    outcomes: set[Outcome] = set()
    for part in other_parts:
        outcomes.add("error" if part.said is None else part.outcome)
    outcomes -= {"pass", "not_applicable"}
    return _worst_outcome(outcomes) if outcomes else UNSET


def counted_outcome(vote: Vote) -> Outcome:
    """What a vote counts for once every fail of its criterion was refuted.

    A refuted fail is a pass, or what it stood for in other parts of a large change.
    """
    if vote.outcome != "fail" or not vote.is_refuted:
        return vote.outcome
    return "pass" if vote.outranked is UNSET else vote.outranked


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
        return leader, ("unanimous" if len(counts) == 1 else "majority")
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

    A criterion that the votes fail stays failed while one of these fails stands. If second looks
    refuted all of them, the votes are counted once more, the refuted ones as what they stood for.

    Args:
        criterion: As the rubric states it.
        votes: Those cast on one question.
        planned: How many the rubric wants.
        stopped: Why no further one was cast, if that is so.
        is_cached: Every vote is of an earlier run.
        trust: What people said of the judge's earlier findings, if that is known.
    """
    outcome, decided_by = settle_votes(votes, planned, stopped=True) or ("abstain", "none")
    deciding_votes = [vote for vote in votes if vote.outcome == outcome]
    deciding_reason = stopped.reason if stopped else "the votes do not agree"
    cause: Cause | UnsetType = stopped or UNSET
    if deciding_votes:
        telling_vote = max(deciding_votes, key=lambda vote: bool(vote.reason))
        deciding_reason, cause = telling_vote.reason, telling_vote.cause
    failing_votes = [vote for vote in votes if vote.outcome == "fail"]
    if outcome == "fail" and all(vote.is_refuted for vote in failing_votes):
        counted_outcomes = [counted_outcome(vote) for vote in votes]
        outcome, _ = _settle_outcomes(counted_outcomes, planned, stopped=True) or (
            "abstain",
            "none",
        )
        decided_by, is_cached = "refuted", False
        deciding_reason = _refutation_reason(failing_votes[0], outcome, votes)
        cause = UNSET
    return CriterionResult(
        id=criterion.id,
        kind="judge",
        must=criterion.must,
        weight=float(criterion.weight),
        outcome=outcome,
        decided_by="cache" if is_cached else decided_by,
        votes=tuple(votes),
        reason=short(deciding_reason),
        cause=cause,
        trust=trust,
    )


def _refutation_reason(refuted_vote: Vote, outcome: Outcome, votes: Sequence[Vote]) -> str:
    """Why a criterion with a refuted fail does not fail, and what is still open if it does not
    pass.
    """
    assert refuted_vote.second_look is not UNSET
    sentence = f"Raised and refuted: {refuted_vote.second_look.reason}"
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


def group_by_lines(votes: Sequence[Vote]) -> list[tuple[Vote, ...]]:
    """The fails with evidence that stands, those together that point at one line, directly or by a
    third.
    """
    groups: list[tuple[set[tuple[str, int, int]], list[Vote]]] = []
    for vote in votes:
        if vote.outcome != "fail":
            continue
        lines = _standing_lines(vote)
        if not lines:
            continue
        joined_votes = []
        other_groups = []
        for group_lines, group_votes in groups:
            if lines.isdisjoint(group_lines):
                other_groups.append((group_lines, group_votes))
                continue
            lines |= group_lines
            joined_votes += group_votes
        groups = [*other_groups, (lines, [*joined_votes, vote])]
    return [tuple(group_votes) for _, group_votes in groups]


def _standing_lines(vote: Vote) -> set[tuple[str, int, int]]:
    """Path, first and last line of the evidence that stands."""
    lines = set()
    for evidence in vote.evidence:
        if evidence.standing != "void":
            lines.add((evidence.path, evidence.line, evidence.end_line))
    return lines


def rank_proof(vote: Vote) -> int:
    """How much running its test showed: 0 proves the fail; a vote without a test comes last."""
    if vote.proof is UNSET:
        return len(PROOF_STATUSES)
    return PROOF_STATUSES.index(vote.proof.status)


def is_proven(result: CriterionResult) -> bool:
    """Whether the test of a vote that fails the criterion proves it."""
    return any(map(is_proof, result.votes))


def is_proof(vote: Vote) -> bool:
    """Whether it is a fail that its test proves."""
    return vote.outcome == "fail" and rank_proof(vote) == 0
