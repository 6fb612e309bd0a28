"""What each defect that a fail names is worth, and which defects of several votes are the same.
Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from vibe_gate.domain.verdict import (
    PART_MARK,
    PROOF_STATUSES,
    CheckedEvidence,
    Defect,
    DefectStanding,
    Finding,
    Outcome,
    RemarkReason,
    SecondLook,
    Vote,
)

Line = tuple[str, int, int]
"""Path, first and last line."""

STANDING_MEANINGS: dict[DefectStanding, str] = {
    "void": "no counterexample, or no quoted line of the change stands there",
    "voided": "the test that it brought passes after the change",
    "refuted": "a second look shows from lines that stand that it does not happen",
    "remark": "nobody would stop the change for it, or lines older than the change intend it",
    "counts": "anything else",
}
"""In the order in which they are asked: the first that holds is the defect's standing."""


def judge_defect(defect: Defect) -> DefectStanding:
    """What the defect is worth: the first of STANDING_MEANINGS that holds."""
    if find_void_reason(defect):
        return "void"
    if defect.proof is not UNSET and defect.proof.status == "void":
        return "voided"
    if defect.is_refuted:
        return "refuted"
    if find_remark_reason(defect) is not UNSET:
        return "remark"
    return "counts"


def find_void_reason(defect: Defect) -> str:
    """Why the defect is not shown by anything, as a clause; "" if it is."""
    if not defect.counterexample.strip():
        return "no counterexample was given"
    if any(line.standing != "void" for line in defect.evidence):
        return ""
    problems = sorted({line.why for line in defect.evidence})
    return "; ".join(problems) or "no evidence was given"


def find_remark_reason(defect: Defect) -> RemarkReason | UnsetType:
    """Why a defect that happens is only a remark; UNSET if it would stop the change.

    An answer to a dispute makes no remark: anything but a refutation leaves the finding to people.
    """
    if not defect.stops:
        return "answer"
    look = defect.second_look
    if look is UNSET or look.is_disputed:
        return UNSET
    if look.outcome == "intended":
        return "intended"
    if look.said == "stands" and not look.stops:
        return "second look"
    return UNSET


def combine_standings(standings: Iterable[DefectStanding]) -> Outcome:
    """What a fail with defects of these standings counts for: a fail if one counts; an abstention if
    one could not be shown, which is no pass; else a pass.
    """
    present_standings = set(standings)
    if "counts" in present_standings:
        return "fail"
    if not present_standings or present_standings & {"void", "voided"}:
        return "abstain"
    return "pass"


def standing_lines(defect: Defect) -> set[Line]:
    """The quoted lines of the change that stand there."""
    lines = set()
    for evidence in defect.evidence:
        if evidence.standing != "void" and evidence.path:
            lines.add((evidence.path, evidence.line, evidence.end_line))
    return lines


def is_same_defect(defect: Defect, finding: Finding) -> bool:
    """Whether the finding was made of the defect: the lines of one are among those of the other."""
    finding_lines = {(line.path, line.line, line.end_line) for line in finding.evidence}
    return _contain(standing_lines(defect), finding_lines)


def rank_proof(defect: Defect) -> int:
    """How much running its test showed: 0 proves it; a defect without a test comes last."""
    if defect.proof is UNSET:
        return len(PROOF_STATUSES)
    return PROOF_STATUSES.index(defect.proof.status)


def is_proven_defect(defect: Defect) -> bool:
    """Whether it counts, and its test proves it."""
    return rank_proof(defect) == 0 and judge_defect(defect) == "counts"


class DefectGroup(Struct, frozen=True):
    """The same defect as one or several votes name it."""

    defects: tuple[Defect, ...]
    """Those whose tests showed the most first, else in the order of the votes."""

    votes: tuple[Vote, ...] = ()
    """Those that name it."""

    @property
    def first(self) -> Defect:
        """The one in whose words it is told: one that counts, if any does."""
        for defect in self.defects:
            if judge_defect(replace(defect, second_look=UNSET)) == "counts":
                return defect
        return self.defects[0]

    @property
    def counts(self) -> bool:
        """Whether a vote's defect of these counts."""
        return any(judge_defect(defect) == "counts" for defect in self.defects)

    @property
    def evidence(self) -> tuple[CheckedEvidence, ...]:
        """The quoted lines of the change that stand there, each once; the first defect's first."""
        lines: dict[Line, CheckedEvidence] = {}
        for defect in (self.first, *self.defects):
            for evidence in defect.evidence:
                if evidence.standing != "void" and evidence.path:
                    line = (evidence.path, evidence.line, evidence.end_line)
                    lines.setdefault(line, evidence)
        return tuple(lines.values())

    @property
    def also(self) -> tuple[CheckedEvidence, ...]:
        """The further lines that decide it and stand there, each once."""
        lines: dict[Line, CheckedEvidence] = {}
        for defect in (self.first, *self.defects):
            for evidence in defect.also:
                if evidence.standing != "void":
                    line = (evidence.path, evidence.line, evidence.end_line)
                    lines.setdefault(line, evidence)
        return tuple(lines.values())

    @property
    def remark(self) -> RemarkReason | UnsetType:
        """Why it is only a remark; UNSET if it is more, or was refuted."""
        if self.counts:
            return UNSET
        for defect in (self.first, *self.defects):
            if judge_defect(defect) == "remark":
                return find_remark_reason(defect)
        return UNSET

    @property
    def second_look(self) -> SecondLook | UnsetType:
        """That of its defects."""
        for defect in (self.first, *self.defects):
            if defect.second_look is not UNSET:
                return defect.second_look
        return UNSET


class _NamedDefect(Struct, frozen=True):
    """A defect of one vote."""

    vote: int
    """The vote's index."""

    defect: Defect

    lines: frozenset[Line]
    """Of its evidence that stands."""


def group_defects(votes: Sequence[Vote], *, only_remarks: bool = False) -> list[DefectGroup]:
    """The defects with evidence that stands, those of different votes together that quote the same.

    Two are the same if the lines of one are among those of the other: one line in common (`return
    None`) may be in two defects. Two defects of one vote are two, whatever they quote. Of several
    that may belong together, those come first that share the most lines; then those first in the
    file.

    Args:
        votes: Those on one criterion.
        only_remarks: Whether the criterion does not fail: then what a vote objects to is left out.
    """
    named_defects = _name_defects(votes, only_remarks=only_remarks)
    members = [{index} for index in range(len(named_defects))]
    for first, second in _matching_pairs(named_defects):
        joined = members[first] | members[second]
        if members[first] is members[second] or not _can_join(named_defects, joined):
            continue
        for index in joined:
            members[index] = joined
    groups = []
    for index, indexes in enumerate(members):
        if index == min(indexes):
            groups.append(_make_group([named_defects[other] for other in sorted(indexes)], votes))
    return groups


def _name_defects(votes: Sequence[Vote], *, only_remarks: bool) -> list[_NamedDefect]:
    named_defects = []
    for number, vote in enumerate(votes):
        for defect in vote.defects:
            standing = judge_defect(defect)
            is_objection = vote.outcome == "fail" and standing in ("counts", "refuted")
            if standing != "remark" and (only_remarks or not is_objection):
                continue
            lines = standing_lines(defect)
            if lines:
                named_defects.append(_NamedDefect(number, defect, frozenset(lines)))
    return named_defects


def _can_join(named_defects: Sequence[_NamedDefect], indexes: Iterable[int]) -> bool:
    """Whether each two of these are the same defect, of two votes."""
    joined = [named_defects[index] for index in indexes]
    return all(itertools.starmap(_is_same, combinations(joined, 2)))


def _is_same(first: _NamedDefect, second: _NamedDefect) -> bool:
    return first.vote != second.vote and _contain(first.lines, second.lines)


def _contain(lines: Collection[Line], other_lines: Collection[Line]) -> bool:
    """Whether one has all lines of the other, and that has some."""
    line_set, other_set = set(lines), set(other_lines)
    return bool(line_set and other_set) and (line_set <= other_set or other_set <= line_set)


def _matching_pairs(named_defects: Sequence[_NamedDefect]) -> list[tuple[int, int]]:
    """The indexes of each two that are the same, those first that share the most lines."""
    pairs = []
    for (index, first), (other_index, second) in combinations(enumerate(named_defects), 2):
        if not _is_same(first, second):
            continue
        lines = sorted([sorted(first.lines), sorted(second.lines)])
        pairs.append((-len(first.lines & second.lines), lines, index, other_index))
    return [(index, other_index) for _, _, index, other_index in sorted(pairs)]


def _make_group(named_defects: Sequence[_NamedDefect], votes: Sequence[Vote]) -> DefectGroup:
    defects = sorted((member.defect for member in named_defects), key=rank_proof)
    vote_numbers = sorted({member.vote for member in named_defects})
    return DefectGroup(tuple(defects), tuple(votes[number] for number in vote_numbers))


def merge_parts_defects(part_defects: Iterable[Sequence[Defect]]) -> tuple[Defect, ...]:
    """The defects that the parts of a change name; one that two parts name is one, if both are worth
    the same.
    """
    merged_defects: list[Defect] = []
    for defects in part_defects:
        earlier_count = len(merged_defects)
        for defect in defects:
            for index in range(earlier_count):
                if _can_merge(merged_defects[index], defect):
                    merged_defects[index] = _merge_two(merged_defects[index], defect)
                    break
            else:
                merged_defects.append(defect)
    return tuple(merged_defects)


def _can_merge(first: Defect, second: Defect) -> bool:
    if judge_defect(first) != judge_defect(second):
        return False
    return _contain(standing_lines(first), standing_lines(second))


def _merge_two(first: Defect, second: Defect) -> Defect:
    """One defect of two: that whose test showed more, with the lines of both."""
    better, worse = sorted((first, second), key=rank_proof)
    counterexamples = dict.fromkeys(
        text for text in (better.counterexample, worse.counterexample) if text
    )
    return replace(
        better,
        counterexample=PART_MARK.join(counterexamples),
        stops=first.stops or second.stops,
        evidence=tuple(dict.fromkeys((*better.evidence, *worse.evidence))),
        also=tuple(dict.fromkeys((*better.also, *worse.also))),
    )
