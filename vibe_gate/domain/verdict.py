"""Evidence, votes, findings, and the arithmetic that turns answers into outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from vibe_gate import errors
from vibe_gate.domain.change import Side
from vibe_gate.domain.model import Many, Model
from vibe_gate.domain.rubric import Criterion, Rubric

MAX_REASON = 280
"""Characters of a reason or message: one comment line (PRODUCT 5)."""

Standing = Literal["holds", "relocated", "void"]


class Evidence(Model):
    """Lines `line`..`end_line` of a file, counted from 1, and the text said to stand there.

    `path` is as shown (`paths.quote`); `side` "before" is for what was removed.
    """

    path: str
    line: int = Field(ge=1)
    end_line: int = Field(ge=1)
    quote: str
    side: Side = "after"


class CheckedEvidence(Model):
    """Evidence after our own look: where it stands, and why it is void if it is."""

    path: str
    line: int
    end_line: int
    quote: str
    side: Side = "after"
    standing: Standing
    why: str = ""


MAX_FINDINGS = 1_000
"""Findings of one check: as many annotations as a check run gets, and about 1 MB of a summary.

The reason has the full count. A criterion with as many findings may have more: what is
not among them is not known to be gone (domain.round), and not waived (domain.waiver).
"""

Outcome = Literal["pass", "fail", "abstain", "not_applicable", "error"]
"""Of one criterion or one vote."""

RunOutcome = Literal["pass", "fail", "inconclusive", "error"]
"""Of a rubric or a run."""

DecidedBy = Literal["check", "unanimous", "majority", "cache", "none"]
"""`none`: no vote was cast (no key, --no-judge, deadline before the first vote)."""

Level = Literal["notice", "warning", "failure"]


class Vote(Model):
    """One answer to one criterion, after its evidence was checked.

    `said` is what the model answered, `outcome` what that counts for; they differ
    where evidence did not hold or a counterexample was missing. `turn` is the
    folder of the conversation, relative to the run's bundle; for a vote of an
    earlier run (decided_by "cache") to the repository's root.
    """

    outcome: Outcome
    said: Outcome | None
    reason: str
    counterexample: str | None = None
    evidence: Many[CheckedEvidence] = ()
    turn: str = ""


class Finding(Model):
    """Something to show at a line. `line` 0: about the file as a whole.

    `path` is as shown (`paths.quote`), "" for the change as a whole.
    """

    path: str
    line: int
    end_line: int
    level: Level
    criterion: str
    message: str = Field(max_length=280)
    evidence: Many[CheckedEvidence] = ()
    fingerprint: str = ""


class CriterionResult(Model):
    """How one criterion came out."""

    id: str
    kind: Literal["judge", "check"]
    must: bool
    weight: float
    outcome: Outcome
    decided_by: DecidedBy
    votes: Many[Vote] = ()
    reason: str = ""


class RubricResult(Model):
    """How one rubric came out. `score` and `coverage` are shares between 0 and 1."""

    id: str
    digest: str
    outcome: RunOutcome
    score: float
    coverage: float
    criteria: Many[CriterionResult]


_WORST_FIRST: tuple[Outcome, ...] = ("fail", "error", "abstain", "pass", "not_applicable")
_RUN_ORDER: tuple[RunOutcome, ...] = ("fail", "error", "inconclusive", "pass")


def short(text: str) -> str:
    """The text on one line, cut to the length of a reason."""
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_REASON else flat[: MAX_REASON - 1] + "…"


def check_vote(vote: Vote) -> Vote:
    """What an answer counts for: a fail without counterexample or standing evidence is an abstention."""
    if vote.said != "fail" or vote.outcome != "fail":
        return vote
    if not (vote.counterexample or "").strip():
        return _demote(vote, "no counterexample was given")
    if not any(evidence.standing != "void" for evidence in vote.evidence):
        whys = sorted({evidence.why for evidence in vote.evidence}) or ["no evidence was given"]
        return _demote(vote, "; ".join(whys))
    return vote


def _demote(vote: Vote, why: str) -> Vote:
    reason = short(f"said fail, but {why}: {vote.reason}")
    return vote.model_copy(update={"outcome": "abstain", "reason": reason})


def combine(parts: Sequence[Vote]) -> Vote:
    """One vote from the answers to the parts of a change: the worst of them, with all its evidence."""
    worst = next(outcome for outcome in _WORST_FIRST if any(part.outcome == outcome for part in parts))
    deciding = [part for part in parts if part.outcome == worst]
    evidence = tuple(item for part in deciding for item in part.evidence)
    return deciding[0].model_copy(update={"evidence": evidence})


def settle(votes: Sequence[Vote], planned: int, *, stopped: bool = False) -> tuple[Outcome, DecidedBy] | None:
    """The outcome of a criterion once no further vote can change it, else None.

    More than half of the `planned` votes must agree; without that it abstains. With
    `stopped` no further vote will come (budget, deadline, infrastructure), and an
    error among the votes then counts as error.
    """
    if not votes:
        return ("abstain", "none") if stopped else None
    needed = planned // 2 + 1
    counts = Counter(vote.outcome for vote in votes)
    leader, count = counts.most_common(1)[0]
    if count >= needed:
        return leader, ("unanimous" if len(counts) == 1 else "majority")
    left = planned - len(votes)
    if stopped or left <= 0 or count + left < needed:
        return ("error" if stopped and counts["error"] else "abstain"), "majority"
    return None


def judged(criterion: Criterion, votes: Sequence[Vote], planned: int, reason: str = "") -> CriterionResult:
    """The result of a judge criterion after its last vote; `reason` says why there is none."""
    outcome, decided_by = settle(votes, planned, stopped=True) or ("abstain", "none")
    said = next((vote.reason for vote in votes if vote.outcome == outcome), "")
    return CriterionResult(
        id=criterion.id,
        kind="judge",
        must=criterion.must,
        weight=criterion.weight,
        outcome=outcome,
        decided_by=decided_by,
        votes=tuple(votes),
        reason=short(said or reason or "the votes do not agree"),
    )


def worst(results: Sequence[CriterionResult]) -> CriterionResult:
    """The worst result of a criterion that was asked with and without the message; every vote is kept."""
    chosen = min(results, key=lambda result: _WORST_FIRST.index(result.outcome))
    others = (vote for result in results if result is not chosen for vote in result.votes)
    return chosen.model_copy(update={"votes": (*chosen.votes, *others)})


def decide(rubric: Rubric, results: Sequence[CriterionResult]) -> RubricResult:
    """The rubric's outcome from those of its criteria, by weight.

    score = passed weight / decided weight; coverage = decided weight / applicable
    weight, where not_applicable leaves the count. Nothing applicable passes.
    """
    applicable = [result for result in results if result.outcome != "not_applicable"]
    decided = [result for result in applicable if result.outcome in ("pass", "fail")]
    passed = sum(result.weight for result in decided if result.outcome == "pass")
    decided_weight = sum(result.weight for result in decided)
    applicable_weight = sum(result.weight for result in applicable)
    score = passed / decided_weight if decided_weight else float(not applicable)
    coverage = decided_weight / applicable_weight if applicable_weight else 1.0
    musts = {result.outcome for result in applicable if result.must}
    outcome: RunOutcome = "pass"
    if "fail" in musts or (decided and score < rubric.pass_threshold):
        outcome = "fail"
    elif "error" in musts:
        outcome = "error"
    elif "abstain" in musts or coverage < rubric.min_coverage or (applicable and not decided):
        outcome = "inconclusive"
    return RubricResult(
        id=rubric.id,
        digest=rubric.digest,
        outcome=outcome,
        score=round(score, 4),
        coverage=round(coverage, 4),
        criteria=tuple(results),
    )


def run_outcome(rubrics: Sequence[RubricResult]) -> RunOutcome:
    """The first of fail, error, inconclusive, pass that any rubric has; without rubrics, pass."""
    found = {rubric.outcome for rubric in rubrics}
    return next((outcome for outcome in _RUN_ORDER if outcome in found), "pass")


def exit_code(outcome: RunOutcome, *, policy_blocks: bool, intact: bool) -> int:
    """The process's exit code.

    A broken snapshot outweighs everything; a fail outweighs a policy change, or an
    agent could turn a blocking fail into a warning by touching a policy file.
    """
    if not intact:
        return errors.INTEGRITY
    if outcome == "fail":
        return errors.FAIL
    if policy_blocks:
        return errors.POLICY_CHANGED
    return errors.PASS if outcome == "pass" else errors.INCONCLUSIVE
