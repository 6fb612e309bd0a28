"""The printed table of what each criterion does to its rubric, found out by asking the code about
examples.

Read downwards: the first row that holds of a criterion and has a word for its outcome is the one
that counts.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    CriterionResult,
    Defect,
    Outcome,
    Proof,
    TrustBadge,
    Vote,
)
from vibe_gate.judging.rubric_tally import Effect, effect_of

OUTCOMES: tuple[Outcome, ...] = ("fail", "abstain", "error", "pass")

WAIVED = "people let its fail pass"
UNANSWERED = "a planned vote of its judge has no answer"
CLAIM = "it `needs` a claim"
UNPROVEN = '`proof = "required"`, and no test proves its fail'
ADVICE = "its judge [only advises](trust.md#when-a-judge-may-block)"
MUST = "`must`"
VOIDED = "not `must`, and a test voided the fail of a vote"
OPTIONAL = "not `must`"

SITUATIONS = (WAIVED, UNANSWERED, CLAIM, UNPROVEN, ADVICE, MUST, VOIDED, OPTIONAL)
"""In the order in which the code asks."""

_POSSIBLE: dict[str, tuple[Outcome, ...]] = {WAIVED: ("fail",), UNANSWERED: ("abstain", "error")}
"""With which outcomes alone a situation occurs."""

_ANSWER = Vote(outcome="pass", said="pass", reason="")
_SILENCE = Vote(outcome="error", said=None, reason="The API is down.")
_OBLIGATION = CheckedEvidence(path="a.py", line=1, end_line=1, quote="x", standing="exact")
_VOIDED_DEFECT = Defect(
    reason="",
    counterexample="x -> y",
    evidence=(_OBLIGATION,),
    proof=Proof(status="void", obligation=(_OBLIGATION,)),
)
_VOIDED_FAIL = Vote(outcome="abstain", said="fail", reason="", defects=(_VOIDED_DEFECT,))


class Example(Struct, frozen=True):
    """A criterion in some of the situations, with its result."""

    criterion: Criterion
    result: CriterionResult
    is_waived: bool

    @property
    def effect(self) -> Effect:
        """What the code says that it does to its rubric."""
        return effect_of(self.criterion, self.result, is_waived=self.is_waived)


def can_occur(situation: str, outcome: Outcome) -> bool:
    """Whether a criterion with this outcome can be in the situation."""
    return outcome in _POSSIBLE.get(situation, OUTCOMES)


def example_of(situations: Collection[str], outcome: Outcome) -> Example:
    """A criterion in all of these situations, of which MUST or OPTIONAL is one."""
    is_must = MUST in situations
    criterion = Criterion(id="c", kind="judge", question="?", must=is_must)
    if CLAIM in situations:
        criterion = replace(criterion, needs="issue")
    if UNPROVEN in situations:
        criterion = replace(criterion, proof="required")
    votes = [_ANSWER]
    if UNANSWERED in situations:
        votes.append(_SILENCE)
    if VOIDED in situations:
        votes.append(_VOIDED_FAIL)
    result = CriterionResult(
        id="c",
        kind="judge",
        must=is_must,
        weight=1,
        outcome=outcome,
        decided_by="majority",
        votes=tuple(votes),
    )
    if ADVICE in situations:
        result = replace(result, trust=TrustBadge(state="uncalibrated", sentence="", blocks=False))
    return Example(criterion, result, is_waived=WAIVED in situations)


def table_rows() -> list[tuple[str, ...]]:
    """Each situation with its word for each outcome; "-" where a row further down decides."""
    rows = []
    for situation in SITUATIONS:
        words = [_word_of(situation, outcome) for outcome in OUTCOMES]
        rows.append((situation, *words))
    return rows


def _word_of(situation: str, outcome: Outcome) -> str:
    if situation in (MUST, OPTIONAL):
        return example_of([situation], outcome).effect
    if not can_occur(situation, outcome):
        return "-"
    kinds = [OPTIONAL] if situation == VOIDED else [MUST, OPTIONAL]
    effects = [example_of([situation, kind], outcome).effect for kind in kinds]
    if effects == [example_of([kind], outcome).effect for kind in kinds]:
        return "-"
    assert len(set(effects)) == 1, f"the row {situation!r} has two words for {outcome}"
    return effects[0]
