"""The findings of a review as a coding agent is handed them: one list, each finding once. Pure.

    open      found in the files as they are now
    new       open, and found for the first time after a round of repair
    back      open, and was not found any more after an earlier round
    repaired  found before, and not any more since that round

A defect is one finding with all its places. What a second look refuted, a person let pass, nobody
would stop the change for, or a rubric that does not fail only warns of, is left out. Lines are not
escaped: who shows them does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from vibe_gate.domain.escape import counted, list_names
from vibe_gate.domain.verdict import (
    SHORT_FINGERPRINT,
    CheckedEvidence,
    CriterionResult,
    Defect,
    Finding,
    Level,
    Proof,
    RubricResult,
    SecondLook,
    short,
)
from vibe_gate.judging.defects import is_same_defect
from vibe_gate.report import finding_places, queries, sentences

INDENT = "   "

MAX_NAMED = 3
"""Open findings that a sentence names."""

FindingState = Literal["open", "new", "back", "repaired"]


class ReviewedRound(Struct, frozen=True, kw_only=True):
    """What one review found, and after how many rounds of repair."""

    number: int
    """Rounds of repair before it: 0 of the review that began them."""

    rubrics: Sequence[RubricResult]

    findings: Sequence[Finding]

    questions: Mapping[str, str] = MappingProxyType({})
    """By criterion, what its judge was asked."""


class Grounds(Struct, frozen=True):
    """What one vote that fails a criterion says."""

    reason: str
    """Whole."""

    counterexample: str
    """Whole; "" without one."""


class ListedFinding(Struct, frozen=True, kw_only=True):
    """One finding of the list."""

    state: FindingState
    round: int
    """Of "new", "back" and "repaired": the round after which it was found, or not any more."""
    level: Level
    criterion: str
    fingerprint: str
    places: tuple[str, ...]
    """`path:line`; "the change" of one about no line."""
    positions: tuple[tuple[str, int], ...]
    """Path and line of its places, and of what its votes quote; line 0 of a file as a whole."""
    message: str
    grounds: tuple[Grounds, ...]
    """Of a judge's finding: what the votes say, first the one that the message is of."""
    quotes: tuple[CheckedEvidence, ...]
    """Lines that the votes quote."""
    deciding_lines: tuple[CheckedEvidence, ...]
    """Quoted lines, changed or not, that decide it."""
    second_look: SecondLook | UnsetType
    proof: Proof | UnsetType
    question: str
    """What the judge was asked; "" of a check."""

    @property
    def is_open(self) -> bool:
        """Whether it is found in the files as they are now."""
        return self.state != "repaired"

    @property
    def state_words(self) -> str:
        """The state as the list says it."""
        if self.state == "open":
            return "open"
        if self.state == "back":
            return f"back after round {self.round}"
        return f"{self.state} in round {self.round}"

    def first_line(self) -> str:
        """State, place, level, message, criterion and the beginning of the fingerprint."""
        names = f"[{self.criterion}] [{self.fingerprint[:SHORT_FINGERPRINT]}]"
        return f"[{self.state_words}] {self.places[0]}: {self.level}: {self.message} {names}"

    def lines(self) -> list[str]:
        """All that is known of an open finding; the first line of a repaired one."""
        lines = [self.first_line()]
        if self.is_open:
            lines += [f"{INDENT}{line}" for line in self._details()]
        return lines

    def _details(self) -> Iterator[str]:
        if self.question:
            yield f"asked: {self.question}"
        if len(self.places) > 1:
            yield f"also at: {', '.join(self.places[1:])}"
        if self.grounds:
            yield from _ground_lines(self.grounds[0], "whole reason", self.message)
        # What it says of a counterexample stands beside it: a reader takes a wrong one for true.
        if self.second_look is not UNSET:
            yield from _look_lines(self.second_look)
        for grounds in self.grounds[1:]:
            yield from _ground_lines(grounds, "another vote", self.message)
        for evidence in self.quotes:
            yield _quoted_line(evidence)
        for evidence in self.deciding_lines:
            yield f"decided by {_quoted_line(evidence)}"
        if self.proof is not UNSET:
            yield from _proof_lines(self.proof)


class FittedFindings(Struct, frozen=True):
    """The list as far as it fits."""

    lines: tuple[str, ...]
    shortened: int
    """Findings of which only the first line is there."""
    unlisted: int
    """Findings that are not there at all."""


def list_findings(rounds: Sequence[ReviewedRound]) -> list[ListedFinding]:
    """Every finding of these reviews once, open ones first, the worst before the others.

    `rounds`: oldest first. Which rubrics they asked may differ: a finding is repaired as soon as a
    later review decides its criterion without it.
    """
    tracks: list[_Track] = []
    for reviewed in rounds:
        tracks = _tracks_after(reviewed, tracks)
    last_number = 0
    if rounds:
        last_number = rounds[-1].number
    findings = [track.listed(last_number) for track in tracks]
    return sorted(findings, key=_list_order)


def fit_findings(
    findings: Sequence[ListedFinding], max_bytes: int, escape: Callable[[str], str]
) -> FittedFindings:
    """As many findings as fit, the first of them with all that is known: a first line of each
    comes before the details of any. `escape`: makes a line safe for where it is shown.
    """
    first_lines = []
    for finding in findings:
        first_lines.append(escape(finding.first_line()))
    left_bytes = max_bytes
    listed_count = 0
    for line in first_lines:
        left_bytes -= _size_of([line])
        if left_bytes < 0:
            break
        listed_count += 1
    if listed_count < len(findings):
        unlisted = len(findings) - listed_count
        return FittedFindings(tuple(first_lines[:listed_count]), listed_count, unlisted)
    lines: list[str] = []
    shortened = 0
    for finding, first_line in zip(findings, first_lines, strict=True):
        details = [escape(line) for line in finding.lines()[1:]]
        lines.append(first_line)
        detail_bytes = _size_of(details)
        if detail_bytes <= left_bytes:
            lines += details
            left_bytes -= detail_bytes
        else:
            shortened += 1
    return FittedFindings(tuple(lines), shortened, 0)


def rounds_sentence(findings: Sequence[ListedFinding], rounds: int) -> str:
    """What became of the findings in so many rounds of repair."""
    open_findings = [finding for finding in findings if finding.is_open]
    repaired_count = len(findings) - len(open_findings)
    sentence = (
        f"After {counted(rounds, 'round')} of repair: {counted(repaired_count, 'finding')} repaired, "
        f"{len(open_findings):,} open"
    )
    later = [finding for finding in open_findings if finding.state != "open"]
    if later:
        names = [f"{finding.places[0]} {finding.state_words}" for finding in later]
        sentence += f" ({list_names(names, MAX_NAMED)})"
    return f"{sentence}."


def _size_of(lines: Iterable[str]) -> int:
    """Bytes of the lines, with their ends."""
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)


def undecided_lines(reviewed: ReviewedRound) -> list[str]:
    """A line for each criterion that the review could not decide."""
    lines = []
    for rubric in reviewed.rubrics:
        for criterion in rubric.criteria:
            if criterion.outcome in ("abstain", "error"):
                lines.append(f"[not decided] {criterion.id}: {criterion.reason}")
    return lines


class _Track(Struct, frozen=True, kw_only=True):
    """A finding through the rounds."""

    finding: ListedFinding
    """As it was found last."""
    found_first: int
    """The round after which it was found first."""
    repaired_in: int | None = None
    """The round after which it was not found any more; None if it is."""
    back_in: int | None = None
    """The round after which it was found again."""

    def listed(self, last_number: int) -> ListedFinding:
        """The finding in the state that it has after the last round."""
        state: FindingState = "open"
        number = 0
        if self.repaired_in is not None:
            state, number = "repaired", self.repaired_in
        elif self.back_in is not None:
            state, number = "back", self.back_in
        elif self.found_first and self.found_first == last_number:
            state, number = "new", self.found_first
        return replace(self.finding, state=state, round=number)


def _tracks_after(reviewed: ReviewedRound, tracks: Sequence[_Track]) -> list[_Track]:
    """The tracks with what this review found."""
    decided = _decided_criteria(reviewed)
    settled = {finding.fingerprint for finding in reviewed.findings if is_settled(finding)}
    current_findings = _findings_of(reviewed)
    new_tracks: list[_Track] = []
    continued: set[int] = set()
    for finding in current_findings:
        earlier = _track_of(finding, tracks, continued)
        if earlier is None:
            new_tracks.append(_Track(finding=finding, found_first=reviewed.number))
            continue
        continued.add(earlier)
        track = tracks[earlier]
        back_in = track.back_in
        if track.repaired_in is not None:
            back_in = reviewed.number
        new_tracks.append(_Track(finding=finding, found_first=track.found_first, back_in=back_in))
    for position, track in enumerate(tracks):
        if position in continued or track.finding.fingerprint in settled:
            continue
        repaired_in = track.repaired_in
        if repaired_in is None and track.finding.criterion in decided:
            repaired_in = reviewed.number
        new_tracks.append(replace(track, repaired_in=repaired_in))
    return new_tracks


def _track_of(finding: ListedFinding, tracks: Sequence[_Track], continued: set[int]) -> int | None:
    """The position of the track that the finding goes on; None if it is new."""
    for position, track in enumerate(tracks):
        if position in continued:
            continue
        if track.finding.fingerprint == finding.fingerprint:
            return position
    return None


def _decided_criteria(reviewed: ReviewedRound) -> set[str]:
    """The criteria that the review answered, so that a finding which is not there is gone."""
    decided = set()
    for rubric in reviewed.rubrics:
        for criterion in rubric.criteria:
            if criterion.outcome in ("pass", "fail", "not_applicable"):
                decided.add(criterion.id)
    return decided


def is_settled(finding: Finding) -> bool:
    """Whether the finding was refuted or let pass."""
    return finding.is_refuted or finding.waiver is not UNSET


def _findings_of(reviewed: ReviewedRound) -> list[ListedFinding]:
    """The findings of one review that ask for a repair."""
    listed_findings = []
    for finding in reviewed.findings:
        if _asks_for_repair(finding, reviewed.rubrics):
            listed_findings.append(_listed_finding(finding, reviewed))
    return listed_findings


def _asks_for_repair(finding: Finding, rubrics: Iterable[RubricResult]) -> bool:
    """Whether it is a failure, or a warning of a rubric that fails, that nobody settled. What
    nobody would stop the change for needs no repair.
    """
    if is_settled(finding) or finding.criterion == "policy" or finding.remark is not UNSET:
        return False
    if finding.level != "warning":
        return finding.level == "failure"
    for rubric in rubrics:
        if rubric.outcome != "fail":
            continue
        if any(finding.is_of(rubric.id, criterion.id) for criterion in rubric.criteria):
            return True
    return False


def _listed_finding(finding: Finding, reviewed: ReviewedRound) -> ListedFinding:
    """The finding with what its votes say."""
    defects = _defects_behind(finding, reviewed.rubrics)
    quotes = dict.fromkeys(finding.evidence)
    for defect in defects:
        standing_lines = [line for line in defect.evidence if line.standing != "void"]
        quotes |= dict.fromkeys(standing_lines)
    positions = [(place.path, place.line) for place in finding.places if place.path]
    positions += [(evidence.path, evidence.line) for evidence in quotes]
    return ListedFinding(
        state="open",
        round=0,
        level=finding.level,
        criterion=finding.criterion,
        fingerprint=finding.fingerprint,
        places=tuple(dict.fromkeys(map(sentences.place_words_of, finding.places))),
        positions=tuple(dict.fromkeys(positions)),
        message=finding.message,
        grounds=_grounds_of(finding, defects),
        quotes=tuple(queries.shown_evidence(list(quotes))),
        deciding_lines=tuple(finding_places.deciding_lines(finding)),
        second_look=finding.second_look,
        proof=finding.proof,
        question=reviewed.questions.get(finding.criterion, "") if defects else "",
    )


def _grounds_of(finding: Finding, defects: Iterable[Defect]) -> tuple[Grounds, ...]:
    """What the votes say, each once; first the finding's own counterexample if none of them has
    it.
    """
    grounds: dict[Grounds, None] = {}
    for defect in defects:
        grounds[Grounds(defect.reason, defect.counterexample)] = None
    counterexamples = {defect_grounds.counterexample for defect_grounds in grounds}
    if not finding.counterexample or finding.counterexample in counterexamples:
        return tuple(grounds)
    return (Grounds(finding.message, finding.counterexample), *grounds)


def _defects_behind(finding: Finding, rubrics: Iterable[RubricResult]) -> list[Defect]:
    """The defects of which the finding was made, first the one whose words it has."""
    defects: dict[Defect, None] = {}
    for rubric in rubrics:
        for criterion in rubric.criteria:
            if finding.is_of(rubric.id, criterion.id):
                defects |= dict.fromkeys(_failing_defects(criterion, finding))
    return sorted(defects, key=lambda defect: short(defect.reason) != finding.message)


def _failing_defects(criterion: CriterionResult, finding: Finding) -> Iterator[Defect]:
    """The defects by which a vote fails the criterion that have these words or these lines."""
    for vote in criterion.votes:
        for defect in vote.defects:
            if vote.outcome != "fail" or defect.is_refuted:
                continue
            has_words = short(defect.reason) == finding.message
            if has_words or is_same_defect(defect, finding):
                yield defect


def _quoted_line(evidence: CheckedEvidence) -> str:
    side = ""
    if evidence.side == "before":
        side = " before the change"
    return f"{evidence.path}:{evidence.line}{side}: {evidence.quote}"


def _ground_lines(grounds: Grounds, title: str, message: str) -> Iterator[str]:
    """The reason, unless the message says it all, and the counterexample."""
    if grounds.reason != message:
        yield f"{title}: {grounds.reason}"
    if grounds.counterexample:
        yield f"counterexample: {grounds.counterexample}"


def _proof_lines(proof: Proof) -> Iterator[str]:
    """The lines that oblige the code; the test that fails, and the end of what it printed."""
    for evidence in proof.obligation:
        if evidence.standing != "void":
            yield f"what obliges the code, {_quoted_line(evidence)}"
    if not proof.is_executed:
        return
    yield f"this test fails; it ran as {proof.path}, which is not among the files:"
    for line in proof.test.rstrip().split("\n"):
        yield f"{INDENT}{line}"
    if proof.output:
        yield "the end of what it printed:"
        for line in proof.output.rstrip().split("\n"):
            yield f"{INDENT}{line}"


def _look_lines(look: SecondLook) -> Iterator[str]:
    """What a second look came to, what it traced, and what it quotes."""
    yield sentences.second_look_sentence(look)
    if look.trace:
        yield "what it traced in the code:"
        for line in look.trace.split("\n"):
            yield f"{INDENT}{line}"
    for evidence in look.evidence:
        if evidence.standing != "void":
            yield f"it quotes {_quoted_line(evidence)}"


_LEVEL_ORDER: Mapping[Level, int] = {"failure": 0, "warning": 1, "notice": 2}


def _list_order(finding: ListedFinding) -> tuple[bool, int]:
    return not finding.is_open, _LEVEL_ORDER[finding.level]
