"""The arithmetic that turns answers into outcomes, without what people have let pass.

A waiver hides nothing: the criterion stays failed, its findings become notices that say who let them pass; only what
follows from them is worked out without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from vibe_gate import errors
from vibe_gate.domain.gate import Waivers
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import (
    MAX_FINDINGS,
    PROOF_STATUSES,
    CriterionResult,
    DecidedBy,
    Finding,
    Level,
    Outcome,
    ProofStatus,
    RubricResult,
    RunOutcome,
    Vote,
    short,
)

_WORST_FIRST: tuple[Outcome, ...] = ("fail", "error", "abstain", "pass", "not_applicable")
_RUN_ORDER: tuple[RunOutcome, ...] = ("fail", "error", "inconclusive", "pass")


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
    reason = short(f'answered "fail", but {why}: {vote.reason}')
    return replace(vote, outcome="abstain", reason=reason)


def combine(parts: Sequence[Vote]) -> Vote:
    """One vote from the answers to the parts of a change: the worst, with all its evidence, and `changes` of all."""
    worst = next(outcome for outcome in _WORST_FIRST if any(part.outcome == outcome for part in parts))
    deciding = sorted(
        (part for part in parts if part.outcome == worst), key=lambda part: (part.said is not None, rank(part))
    )
    evidence = tuple(item for part in deciding for item in part.evidence)
    changes = short(" ".join(dict.fromkeys(part.changes for part in parts if part.changes)))
    against = " | ".join(dict.fromkeys(part.counterexample for part in deciding if part.counterexample)) or None
    combined = replace(deciding[0], evidence=evidence, changes=changes, counterexample=against)
    others = [*deciding[1:], *(part for part in parts if part.outcome != worst)]
    return replace(combined, outranked=_outranked(others)) if worst == "fail" else combined


def _outranked(others: Sequence[Vote]) -> Outcome | UnsetType:
    """The worst answer to parts that a worse one stands for; UNSET if they pass. A refutation must not hide it."""
    found = {"error" if part.said is None else part.outcome for part in others} - {"pass", "not_applicable"}
    return next((outcome for outcome in _WORST_FIRST if outcome in found), UNSET)


def settle(votes: Sequence[Vote], planned: int, *, stopped: bool = False) -> tuple[Outcome, DecidedBy] | None:
    """The outcome of a criterion once no further vote can change it, else None.

    More than half of the `planned` votes must agree; without that it abstains. With `stopped` no further vote will
    come (budget, deadline, infrastructure), and an error among the votes then counts as error.
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


def result_of_votes(criterion: Criterion, votes: Sequence[Vote], planned: int, reason: str = "") -> CriterionResult:
    """The result of a judge criterion after its last vote; `reason` says why there is none."""
    outcome, decided_by = settle(votes, planned, stopped=True) or ("abstain", "none")
    said = [vote.reason for vote in votes if vote.outcome == outcome]
    return CriterionResult(
        id=criterion.id,
        kind="judge",
        must=criterion.must,
        weight=float(criterion.weight),
        outcome=outcome,
        decided_by=decided_by,
        votes=tuple(votes),
        reason=short(max(said, key=bool) if said else reason or "the votes do not agree"),
    )


def worst(results: Sequence[CriterionResult]) -> CriterionResult:
    """The worst result of a criterion that was asked with and without claims; every vote is kept."""
    chosen = min(results, key=lambda result: _WORST_FIRST.index(result.outcome))
    others = (vote for result in results if result is not chosen for vote in result.votes)
    return replace(chosen, votes=(*chosen.votes, *others))


def without_refuted(result: CriterionResult) -> CriterionResult:
    """The result after second looks: a failed criterion passes if every vote that fails it was refuted.

    Nothing else changes: one fail that stands, is undecided or was not looked at leaves the criterion failed, and so
    does one that stands for other parts of the change. A refutation reveals what the fail stood for: a vote that could
    not tell or has no answer leaves it undecided.
    """
    fails = [vote for vote in result.votes if vote.outcome == "fail"]
    if result.outcome != "fail" or not fails or not all(vote.is_refuted and vote.outranked is UNSET for vote in fails):
        return result
    why = next(vote.second_look.reason for vote in fails if vote.second_look is not UNSET)
    refuted = replace(result, outcome="pass", decided_by="refuted", reason=short(f"Raised and refuted: {why}"))
    left = [vote for vote in result.votes if vote.outcome in ("error", "abstain")]
    if not left:
        return refuted
    outcome: Outcome = "error" if any(vote.outcome == "error" for vote in left) else "abstain"
    return replace(refuted, outcome=outcome, reason=short(f"Raised and refuted: {why} Still open: {left[0].reason}"))


def refuted_noticed(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, those that were refuted as notices."""
    return tuple(replace(one, level="notice") if one.is_refuted else one for one in findings)


class OpenFail(Struct, frozen=True):
    """A fail of a judge criterion that gets a second look: votes that point at the same lines."""

    rubric: Rubric
    criterion: Criterion
    votes: tuple[Vote, ...]


def open_fails(
    rubric: Rubric, result: RubricResult, findings: Sequence[Finding], waivers: Waivers
) -> tuple[OpenFail, ...]:
    """The fails for which the rubric wants a second look, all decided but for that.

    That a criterion only advises until it has earned to block does not count. What people let pass needs no look:
    `findings` are all of the run's, with their fingerprints. Nor does a proven fail: it was seen to happen. One that
    stands for other parts of the change that do not pass gets none either: it could not become a pass. Nor does one
    that needs a claim: a second look is shown none, and code cannot refute what was asked for.
    """
    spared = {one.id for one in result.criteria if spares(rubric.id, one.id, findings, waivers)}
    counted = [
        replace(one, trust=UNSET, outcome="not_applicable" if one.id in spared else one.outcome)
        for one in result.criteria
    ]
    wanted: set[str] = set()
    if rubric.second_look == "always":
        wanted = {one.id for one in counted if one.outcome == "fail"}
    elif rubric.second_look == "blocking":
        wanted = _blocking(rubric, decide(rubric, counted))

    def is_waived(name: str, votes: Sequence[Vote]) -> bool:
        lines = [line for vote in votes for line in vote.evidence]
        own = [one for one in findings if one.is_of(rubric.id, name) and any(line in lines for line in one.evidence)]
        return all(waivers.of(finding) is not None for finding in own)

    return tuple(
        OpenFail(rubric, criterion, votes)
        for criterion, one in zip(rubric.criterion, counted, strict=True)
        if criterion.kind == "judge" and not criterion.needs and one.id in wanted
        for votes in by_lines(one.votes)
        if not is_waived(one.id, votes) and not any(_is_proof(vote) or vote.outranked is not UNSET for vote in votes)
    )


def by_lines(votes: Sequence[Vote]) -> list[tuple[Vote, ...]]:
    """The fails with evidence that stands, those together that point at one line, directly or by a third."""
    groups: list[tuple[set[tuple[str, int, int]], list[Vote]]] = []
    for vote in votes:
        lines = {(one.path, one.line, one.end_line) for one in vote.evidence if one.standing != "void"}
        if vote.outcome != "fail" or not lines:
            continue
        near = [group for group in groups if not lines.isdisjoint(group[0])]
        groups = [group for group in groups if group not in near]
        joined = [earlier for _, group in near for earlier in group]
        groups.append((lines.union(*(each for each, _ in near)), [*joined, vote]))
    return [tuple(group) for _, group in groups]


def rank(vote: Vote) -> int:
    """How much running its test showed: 0 proves the fail; a vote without a test comes last."""
    return len(PROOF_STATUSES) if vote.proof is UNSET else PROOF_STATUSES.index(vote.proof.status)


def is_proven(result: CriterionResult) -> bool:
    """Whether the test of a vote that fails the criterion proves it."""
    return any(map(_is_proof, result.votes))


def _is_proof(vote: Vote) -> bool:
    return vote.outcome == "fail" and rank(vote) == 0


def decide(rubric: Rubric, results: Sequence[CriterionResult]) -> RubricResult:
    """The rubric's outcome from those of its criteria, by weight.

    score = passed weight / decided weight; coverage = decided weight / applicable
    weight, where not_applicable leaves the count. Nothing applicable passes. `min_coverage` is about what judges and
    checks could not tell: a question without an answer never passes, must or not.

    A fail that must be proven and is not leaves the count. Code under review can make any test pass: if a rubric
    passes only because of tests that voided a fail, it is inconclusive.

    Claims pass nothing: where criteria that need some make the rubric's outcome better, it is that without them.

    Of a criterion that only advises a pass counts. Its fail counts for coverage alone, and that it could not tell not
    at all: advice keeps no rubric from passing. `would_block` then says what its fail would have done.
    """
    both = _decided(rubric, results), _decided_without_claims(rubric, results)
    decided = min(both, key=lambda one: _RUN_ORDER.index(one.outcome))
    if decided.outcome == "pass" and _decided(rubric, [_unvoided(one) for one in results]).outcome == "fail":
        decided = replace(decided, outcome="inconclusive")
    if not any(one.is_advice for one in results):
        return decided
    blocking = _blocking(rubric, decide(rubric, [replace(one, trust=UNSET) for one in results]))
    marked = (
        replace(one, would_block=one.id in blocking) if one.is_advice and one.outcome == "fail" else one
        for one in results
    )
    return replace(decided, criteria=tuple(marked))


def _decided_without_claims(rubric: Rubric, results: Sequence[CriterionResult]) -> RubricResult:
    """As if nothing that people claim were known: what needs it is not applicable."""
    needing = {criterion.id for criterion in rubric.criterion if criterion.needs}
    known = [replace(one, outcome="not_applicable") if one.id in needing else one for one in results]
    return replace(_decided(rubric, known), criteria=tuple(results))


def _unvoided(result: CriterionResult) -> CriterionResult:
    """As if the tests of its votes had not passed, so that they prove what a quoted line obliges."""
    votes = tuple(map(_as_failing, result.votes))
    is_void = result.outcome == "abstain" and votes != result.votes
    return replace(result, outcome="fail", votes=votes) if is_void else result


def _as_failing(vote: Vote) -> Vote:
    if vote.proof is UNSET or vote.proof.status != "void":
        return vote
    status: ProofStatus = "proven" if any(line.standing != "void" for line in vote.proof.obligation) else "shown"
    return replace(vote, outcome="fail", proof=replace(vote.proof, status=status))


def _decided(rubric: Rubric, results: Sequence[CriterionResult]) -> RubricResult:
    applicable = [one for one in results if one.outcome != "not_applicable" and not one.is_advice]
    applicable = [one for one in applicable if not _is_unproven(rubric, one)]
    scored = [one for one in applicable if one.outcome in ("pass", "fail")]
    passed = sum(one.weight for one in scored if one.outcome == "pass")
    scored_weight = sum(one.weight for one in scored)
    score = passed / scored_weight if scored else float(not applicable)
    advised = sum(one.weight for one in results if one.outcome == "fail" and one.is_advice)
    applicable_weight = sum(one.weight for one in applicable) + advised
    coverage = (scored_weight + advised) / applicable_weight if applicable_weight else 1.0
    musts = {one.outcome for one in applicable if one.must or one.unanswered}
    outcome: RunOutcome = "pass"
    if "fail" in musts or (scored and score < rubric.pass_threshold):
        outcome = "fail"
    elif "error" in musts:
        outcome = "error"
    elif "abstain" in musts or coverage < rubric.min_coverage or (applicable and not scored):
        outcome = "inconclusive"
    return RubricResult(
        id=rubric.id,
        digest=rubric.digest,
        outcome=outcome,
        score=round(score, 4),
        coverage=round(coverage, 4),
        criteria=tuple(results),
        pass_threshold=rubric.pass_threshold,
    )


def _is_unproven(rubric: Rubric, result: CriterionResult) -> bool:
    """Whether it is a fail that blocks only if it is proven, and is not."""
    return result.outcome == "fail" and result.id in _to_be_proven(rubric) and not is_proven(result)


def _to_be_proven(rubric: Rubric) -> set[str]:
    return {criterion.id for criterion in rubric.criterion if criterion.proof == "required"}


def levelled(
    rubrics: Sequence[Rubric],
    results: Sequence[RubricResult],
    findings: Sequence[Finding],
    raised_by: Sequence[Collection[str]],
) -> tuple[Finding, ...]:
    """The findings by what they do: a failure blocks, a warning is a confirmed fail that does not; notices stay.

    `raised_by`: for each finding the ids of its rubrics. Two rubrics may give the same id to criteria of their own.
    """
    failed = {(result.id, one.id) for result in results for one in result.criteria if one.outcome == "fail"}
    blocking = {
        (rubric.id, name) for rubric, result in zip(rubrics, results, strict=True) for name in _blocking(rubric, result)
    }
    to_be_proven = {(rubric.id, name) for rubric in rubrics for name in _to_be_proven(rubric)}

    def level_of(finding: Finding, names: Collection[str]) -> Level:
        own = {(name, finding.criterion) for name in names}
        if finding.level == "notice" or own.isdisjoint(failed):
            return finding.level
        is_proven = finding.proof is not UNSET and finding.proof.status == "proven"
        blocked_by = own & blocking - (set() if is_proven else to_be_proven)
        return "failure" if blocked_by else "warning"

    pairs = zip(findings, raised_by, strict=True)
    return tuple(replace(finding, level=level_of(finding, names)) for finding, names in pairs)


def _blocking(rubric: Rubric, result: RubricResult) -> set[str]:
    """The failed criteria that make the rubric fail: its musts, and all of them if its score is under the threshold."""
    if result.outcome != "fail":
        return set()
    fails = [one for one in result.criteria if one.outcome == "fail" and not one.is_advice]
    failed = [one for one in fails if not _is_unproven(rubric, one)]
    musts = {one.id for one in failed if one.must}
    return musts if musts and result.score >= rubric.pass_threshold else {one.id for one in failed}


def run_outcome(rubrics: Sequence[RubricResult]) -> RunOutcome:
    """The first of fail, error, inconclusive, pass that any rubric has; without rubrics, pass."""
    found = {rubric.outcome for rubric in rubrics}
    return next((outcome for outcome in _RUN_ORDER if outcome in found), "pass")


def exit_code(outcome: RunOutcome, *, needs_approval: bool, intact: bool) -> int:
    """The process's exit code.

    A broken snapshot outweighs everything; a fail outweighs a policy change, or an
    agent could turn a blocking fail into a warning by touching a policy file.
    """
    if not intact:
        return errors.INTEGRITY
    if outcome == "fail":
        return errors.FAIL
    if needs_approval:
        return errors.POLICY_CHANGED
    return errors.PASS if outcome == "pass" else errors.INCONCLUSIVE


class Waived(Struct, frozen=True):
    """Results after waivers: what people see, and the waivers that took effect."""

    rubrics: tuple[RubricResult, ...]
    findings: tuple[Finding, ...]
    effective: tuple[Waiver, ...] = ()


def apply_overrides(
    rubrics: Sequence[Rubric], results: Sequence[RubricResult], findings: Sequence[Finding], waivers: Waivers
) -> Waived:
    """The results worked out without what is waived.

    A failed criterion is left out of the arithmetic where every finding of it is
    waived; it still reads `fail`, and its reason says who let it pass. With as many
    findings as are kept there may be more, so then it is never left out.
    """
    known = {finding: waiver for finding in findings if (waiver := waivers.of(finding)) is not None}
    if not known:
        return Waived(tuple(results), tuple(findings))
    failed = [(result.id, one.id) for result in results for one in result.criteria if one.outcome == "fail"]
    spared = {name: said for name in failed if (said := spares(*name, findings, waivers))}
    made = tuple(_without(rubric, result, spared) for rubric, result in zip(rubrics, results, strict=True))
    shown = tuple(_noticed(finding, known[finding]) if finding in known else finding for finding in findings)
    effective = dict.fromkeys(
        waiver for finding, waiver in known.items() if any(finding.is_of(*name) for name in spared)
    )
    return Waived(made, shown, tuple(effective))


def spares(rubric: str, criterion: str, findings: Sequence[Finding], waivers: Waivers) -> str:
    """What is said of a failed criterion of the rubric all of whose findings are waived; "" if one is not."""
    own = [one for one in findings if one.is_of(rubric, criterion) and one.level != "notice"]
    found = [waiver for finding in own if (waiver := waivers.of(finding)) is not None]
    if not own or len(own) >= MAX_FINDINGS or len(found) < len(own):
        return ""
    return "; ".join(dict.fromkeys(waiver.sentence for waiver in found))


def _without(rubric: Rubric, result: RubricResult, spared: dict[tuple[str, str], str]) -> RubricResult:
    waived = {one.id for one in result.criteria if (rubric.id, one.id) in spared}
    if not waived:
        return result
    counted = [replace(one, outcome="not_applicable") if one.id in waived else one for one in result.criteria]
    decided = decide(rubric, counted)
    shown = [
        replace(one, reason=short(f"{spared[rubric.id, one.id]} | {one.reason}"), would_block=UNSET)
        if one.id in waived
        else now
        for one, now in zip(result.criteria, decided.criteria, strict=True)
    ]
    return replace(decided, criteria=tuple(shown))


def _noticed(finding: Finding, waiver: Waiver) -> Finding:
    message = short(f"{waiver.sentence} | {finding.message}")
    return replace(finding, level="notice", message=message, waiver=short(waiver.sentence))
