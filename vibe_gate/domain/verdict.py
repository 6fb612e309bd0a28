"""Evidence, votes, findings and results; `judging` turns one into the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from vibe_gate.domain.cause import Cause
from vibe_gate.domain.change import Side
from vibe_gate.domain.interval import Interval
from vibe_gate.domain.rubric import Identifier
from vibe_gate.domain.waiver import Waiver

ANSWER_TOOL = "StructuredOutput"
"""The tool of Claude Code through which a model answers; not one that an agent was given."""

MAX_REASON = 280
"""Characters of a reason or message: one comment line."""

PART_MARK = " | "
"""Between what several parts of a large change say of one defect."""

MAX_GROUNDS = 4_000
"""Characters that are kept of what a judge says of a fail, or traced of it: whoever repairs it reads
them whole, and a page of text is more than a judge is asked for.
"""

FINGERPRINT_DIGITS = 16
"""Hex digits of a fingerprint: 64 bits, plenty for the findings and changes of one repository."""

SHORT_FINGERPRINT = 8
"""Digits of a finding's fingerprint that are shown: enough for `override` and `suppress`."""

Standing = Literal["holds", "relocated", "void"]
"""Of a quoted line."""

DefectStanding = Literal["void", "voided", "refuted", "remark", "counts"]
"""What a defect that a fail names is worth; `judging.defects` decides it."""


class CheckedEvidence(Struct, frozen=True, kw_only=True):
    """A quoted line after it was looked up in the file."""

    path: str
    """As shown (`paths.quote`)."""

    line: int
    """From 1."""

    end_line: int
    """From 1; the last line."""

    quote: str

    side: Side = "after"
    """"before" is for what was removed."""

    standing: Standing

    why: str = ""
    """Why it is void."""


class FindingPlace(Struct, frozen=True, kw_only=True):
    """Lines of a file that a finding points at."""

    path: str
    """As shown (`paths.quote`)."""

    line: int
    """From 1; 0: about the file as a whole."""

    end_line: int
    """From 1; the last line."""


def merge_lines(lines: Iterable[CheckedEvidence]) -> list[FindingPlace]:
    """The places of quoted lines, in their order; lines of one side that follow one another are one
    place.
    """
    places: list[tuple[Side, FindingPlace]] = []
    for line in lines:
        place = FindingPlace(path=line.path, line=line.line, end_line=line.end_line)
        for index, (side, earlier) in enumerate(places):
            if (side, earlier.path) == (line.side, line.path) and _are_adjacent(earlier, place):
                places[index] = (side, _join_places(earlier, place))
                break
        else:
            places.append((line.side, place))
    return [place for _, place in places]


def _are_adjacent(first: FindingPlace, second: FindingPlace) -> bool:
    """Whether no line lies between them."""
    return first.line <= second.end_line + 1 and second.line <= first.end_line + 1


def _join_places(first: FindingPlace, second: FindingPlace) -> FindingPlace:
    first_line = min(first.line, second.line)
    last_line = max(first.end_line, second.end_line)
    return FindingPlace(path=first.path, line=first_line, end_line=last_line)


RemarkReason = Literal["answer", "second look", "intended"]
"""Why a fail is only a remark: the judge who raised it, or the second look, would not stop the
change for it; or lines that stood there before the change say that it is intended.
"""

MAX_FINDINGS = 1_000
"""Findings of one check: as many annotations as a check run gets, and about 1 MB of a summary.

The reason has the full count. A criterion with as many findings may have more: what is
not among them is not known to be gone (report.round), and not waived (judging.decide).
"""

Outcome = Literal["pass", "fail", "abstain", "not_applicable", "error"]
"""Of one criterion or one vote."""

RunOutcome = Literal["pass", "fail", "inconclusive", "error"]
"""Of a rubric or a run."""

DecidedBy = Literal["check", "unanimous", "majority", "cache", "refuted", "none"]
"""`none`: no vote was cast (no key, --no-judge, deadline before the first vote). `refuted`: the
votes fail it, and a second look took back each of its findings: refuted it, or made it a remark.
"""

Level = Literal["notice", "warning", "failure"]


LookOutcome = Literal["stands", "refuted", "intended", "undecided"]
"""Of a second look at a defect. `refuted` takes it back; `intended` makes it a remark."""


MAX_ARGUMENT = 1_000
"""Characters of an argument against a finding: some sentences, and the lines to look at."""


class Dispute(Struct, frozen=True, kw_only=True):
    """An argument against a finding, which a second look at the finding was shown as a claim."""

    argument: str
    """On one line, redacted."""

    by: str
    """Who disputes: an agent's name, a person's, or ""."""

    run: str
    """The id of the run that asked."""

    question: str
    """The key of a second look at the same fail without the argument."""

    findings: tuple[str, ...]
    """The fingerprints of all that the fail points at: it is disputed as a whole."""


class SecondLook(Struct, frozen=True, kw_only=True):
    """What a second look at a fail found, after its evidence was checked: does what the finding
    says happen?
    """

    outcome: LookOutcome
    """What the answer counts for: a refutation counts only if every line that it quotes stands in
    the trees, an intention only if one of these lines is older than the change, too.
    """

    said: LookOutcome | None
    """What the model answered; None: no answer."""

    reason: str

    stops: bool = True
    """Whether a careful maintainer would stop the change for the defect."""

    trace: str = ""
    """The way of the input through the code, as the model wrote it down; of several lines."""

    evidence: tuple[CheckedEvidence, ...] = ()
    """The quoted lines; they need not be changed ones."""

    turn: str = ""
    """The folder of the conversation, named as that of a vote is."""

    model: str = ""
    """The language model that was asked."""

    cause: Cause | UnsetType = UNSET
    """Why there is no answer."""

    dispute: Dispute | UnsetType = UNSET
    """What somebody says against the finding, if the conversation was shown that."""

    @property
    def is_disputed(self) -> bool:
        """Whether it answers an argument against the finding."""
        return self.dispute is not UNSET and self.said is not None


ProofStatus = Literal["proven", "shown", "flaky", "unchanged", "could_not_run", "void"]
"""What running a fail's test came to.

`shown`: fails after the change, passed before. `proven`: that, or a failure of something new, and a
line of the tree obliges the code. `void`: passes after the change. `flaky`: its runs after the
change disagree. `unchanged`: fails in the same way before the change.
"""

PROOF_STATUSES: tuple[ProofStatus, ...] = get_args(ProofStatus)
"""From what shows most to what shows least."""

Basis = Literal["executed", "inferred"]
"""How a judge's finding is known: its test was run and fails because of the change, or the model
concludes it.
"""


MAX_PROOF_OUTPUT = 2_000
"""Characters of a test's output: the failing line, and the calls that led to it."""


class Proof(Struct, frozen=True, kw_only=True):
    """What came of the test that a fail brought."""

    status: ProofStatus

    reason: str = ""
    """One sentence."""

    path: str = ""
    """Where the test stands in the tree, a name of ours."""

    test: str = ""
    """Its text."""

    command: str = ""
    """What repeats it in a checkout with the test at that path."""

    output: str = ""
    """Of a test that fails: the end of what it printed after the change, up to 2,000
    characters.
    """

    obligation: tuple[CheckedEvidence, ...] = ()
    """Quoted lines that oblige the code, each looked up in the tree after the change."""

    timed_out: bool | UnsetType = UNSET
    """Whether a run of it took too long."""

    @property
    def is_executed(self) -> bool:
        """Whether a run showed that the change makes the test fail."""
        return self.status in ("proven", "shown")


class Defect(Struct, frozen=True, kw_only=True):
    """One defect that a fail names, after its evidence was checked."""

    reason: str
    """On one line, whole up to MAX_GROUNDS characters."""

    counterexample: str = ""
    """An input or situation and the wrong outcome; on one line, whole up to MAX_GROUNDS characters
    for each part of the change. "": none was given.
    """

    stops: bool = True
    """Whether the judge says that a careful maintainer would stop the change for it."""

    evidence: tuple[CheckedEvidence, ...] = ()
    """The quoted lines of the change, in the judge's order."""

    also: tuple[CheckedEvidence, ...] = ()
    """Quoted lines, changed or not, that decide it."""

    proof: Proof | UnsetType = UNSET
    """What came of the test that the judge brought for it."""

    second_look: SecondLook | UnsetType = UNSET
    """Of a defect that was looked at again."""

    @property
    def is_refuted(self) -> bool:
        """Whether a second look refuted it."""
        return self.second_look is not UNSET and self.second_look.outcome == "refuted"


class Vote(Struct, frozen=True, kw_only=True):
    """One answer to one criterion, after its evidence was checked."""

    outcome: Outcome
    """What the answer counts for before any second look; not what was answered if a fail names no
    defect that counts.
    """

    said: Outcome | None
    """What the model answered; None: no answer."""

    reason: str
    """On one line. Of a fail that of its first defect, whole up to MAX_GROUNDS characters; of an
    abstention made of a fail, why it is one.
    """

    defects: tuple[Defect, ...] = ()
    """What a fail names, in the judge's order."""

    turn: str = ""
    """The folder of the conversation, relative to the run's bundle; for a vote of an earlier run to
    the repository's root.
    """

    changes: str = ""
    """What its conversation says that the change makes different for whoever uses the code."""

    model: str | UnsetType = UNSET
    """The language model that answered."""

    outranked: Outcome | UnsetType = UNSET
    """Of a fail about parts of a large change, the worst that was answered about the other parts,
    "error" if one got no answer; unset if they pass.
    """

    cause: Cause | UnsetType = UNSET
    """Why there is no answer."""

    @property
    def is_whole(self) -> bool:
        """Whether a model answered it, about each part of the change; else asking again may fare
        better.
        """
        return self.said is not None and self.outranked != "error"

    @property
    def evidence(self) -> tuple[CheckedEvidence, ...]:
        """The quoted lines of the change of all its defects."""
        lines: list[CheckedEvidence] = []
        for defect in self.defects:
            lines += defect.evidence
        return tuple(lines)


class RawFinding(Struct, frozen=True, kw_only=True):
    """What a check or a judge objects to at a place, before it is decided what follows from it."""

    path: str
    """As shown (`paths.quote`); "" for the change as a whole."""

    line: int
    """From 1; 0: about the file as a whole."""

    end_line: int

    level: Level
    """What it is if nothing else is known: a notice, the failure of a must criterion, or a
    warning.
    """

    criterion: str

    message: Annotated[str, Meta(max_length=280)]

    other_places: tuple[FindingPlace, ...] = ()
    """Where else the same defect stands, in the order in which they are named."""

    counterexample: str = ""
    """Of a judge's: an input or situation and the wrong outcome, on one line."""

    evidence: tuple[CheckedEvidence, ...] = ()
    """The quoted lines of the change."""

    also: tuple[CheckedEvidence, ...] = ()
    """Quoted lines, changed or not, that decide it."""

    remark: RemarkReason | UnsetType = UNSET
    """Why it does not block, if it is a remark."""

    distinction: str = ""
    """Tells it apart from others at that line; "" if its message does."""

    second_look: SecondLook | UnsetType = UNSET
    """That of the votes behind it."""

    basis: Basis | UnsetType = UNSET
    """How a judge's finding is known; unset of a check's."""

    proof: Proof | UnsetType = UNSET
    """What came of its test."""

    @property
    def places(self) -> tuple[FindingPlace, ...]:
        """All of its places, the one where it is shown first."""
        first = FindingPlace(path=self.path, line=self.line, end_line=max(self.line, self.end_line))
        return (first, *self.other_places)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of its places, each once."""
        return tuple(dict.fromkeys(place.path for place in self.places))

    @property
    def is_refuted(self) -> bool:
        """Whether a second look refuted it."""
        return self.second_look is not UNSET and self.second_look.outcome == "refuted"


class NamedFinding(Struct, frozen=True):
    """A raw finding with the fingerprint that tells it apart from all others of its run."""

    raw: RawFinding

    fingerprint: str

    rubric_ids: tuple[str, ...]
    """The rubrics that fail a criterion with it."""

    @property
    def criterion(self) -> str:
        """The id of its criterion."""
        return self.raw.criterion

    @property
    def paths(self) -> tuple[str, ...]:
        """As of the raw finding."""
        return self.raw.paths

    def is_of(self, rubric: str, criterion: str) -> bool:
        """Whether the criterion of this rubric fails with it."""
        return self.raw.criterion == criterion and rubric in self.rubric_ids


class Finding(Struct, frozen=True, kw_only=True):
    """One defect with all its places, as bundles keep it. Path and lines are those of the first
    place, where it is shown.
    """

    path: str
    """As shown (`paths.quote`); "" for the change as a whole."""

    line: int
    """From 1; 0: about the file as a whole."""

    end_line: int

    level: Level
    """A failure blocks, a warning is a fail that does not; a notice was let pass or refuted, or
    fails nothing.
    """

    criterion: str

    message: Annotated[str, Meta(max_length=280)]

    other_places: tuple[FindingPlace, ...] = ()
    """Where else the same defect stands, in the order in which they are named."""

    counterexample: str = ""
    """Of a judge's: an input or situation and the wrong outcome, on one line."""

    evidence: tuple[CheckedEvidence, ...] = ()
    """The quoted lines of the change."""

    also: tuple[CheckedEvidence, ...] = ()
    """Quoted lines, changed or not, that decide it."""

    remark: RemarkReason | UnsetType = UNSET
    """Why it does not block, if it is a remark."""

    fingerprint: str = ""
    """Holds across rebases; "" of the finding that says who approved a change of the gate."""

    rubrics: tuple[Identifier, ...] | UnsetType = UNSET
    """Ids of those that fail a criterion with it, if more than one have a criterion of that id."""

    waiver: Annotated[str, Meta(max_length=280)] | UnsetType = UNSET
    """Who let it pass, until when and why."""

    allowed_by: Waiver | UnsetType = UNSET
    """The waiver as a value: whose act it was. Also of the finding that says who let a change of
    the gate pass.
    """

    second_look: SecondLook | UnsetType = UNSET
    """That of the votes behind it; if it refutes them, the finding is a notice."""

    basis: Basis | UnsetType = UNSET
    """How a judge's finding is known (not of checks)."""

    proof: Proof | UnsetType = UNSET
    """What came of its test."""

    @property
    def places(self) -> tuple[FindingPlace, ...]:
        """All of its places, the one where it is shown first."""
        first = FindingPlace(path=self.path, line=self.line, end_line=max(self.line, self.end_line))
        return (first, *self.other_places)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of its places, each once."""
        return tuple(dict.fromkeys(place.path for place in self.places))

    @property
    def is_refuted(self) -> bool:
        """Whether it was raised, and a second look refuted it."""
        return self.second_look is not UNSET and self.second_look.outcome == "refuted"

    @property
    def lets_policy_pass(self) -> bool:
        """Whether it says that a person let the changes of the gate itself pass."""
        return self.criterion == "policy" and self.level == "notice"

    def is_of(self, rubric: str, criterion: str) -> bool:
        """Whether the criterion of this rubric has failed with it."""
        return self.criterion == criterion and (self.rubrics is UNSET or rubric in self.rubrics)


TrustState = Literal["calibrated", "unsteady", "stale", "uncalibrated"]
"""Of a judge criterion: `unsteady`, its calibration's repeats gave different answers about the same
change; `stale`, the calibration is of another rubric, model or template.
"""


class TrustBadge(Struct, frozen=True, kw_only=True):
    """How often a judge criterion was right where people know the answer, and whether its fail may
    block.

    A change on which a person called its findings wrong is `clean`, `blocked` and `wrong`.
    """

    state: TrustState

    sentence: str

    blocks: bool = True
    """False if its fail only advises."""

    clean: int = 0
    """Changes without the defect that it was asked about."""

    blocked: int = 0
    """Of the clean ones, those that it failed."""

    defective: int = 0
    """Changes with the defect."""

    found: int = 0
    """Of the defective ones, those that it failed."""

    wrong: int = 0
    """Changes on which a person called its findings wrong."""

    flips: int = 0
    """Cases whose repeats differ."""

    at_most: float | UnsetType = UNSET
    """The largest share of clean changes blocked, at 95 %; absent without such changes."""

    recall: Interval | UnsetType = UNSET
    """The share found; absent without defective changes."""

    needed: int | UnsetType = UNSET
    """How many clean changes earn blocking, if its fail only advises and that can be earned."""


class CriterionResult(Struct, frozen=True, kw_only=True):
    """How one criterion came out."""

    id: Identifier

    kind: Literal["judge", "check"]

    must: bool

    weight: float

    outcome: Outcome

    decided_by: DecidedBy

    votes: tuple[Vote, ...] = ()

    reason: str = ""

    trust: TrustBadge | UnsetType = UNSET
    """Of a judge's, if the repository has definitions."""

    would_block: bool | UnsetType = UNSET
    """Whether it failed and only advised, and with its fail counted the rubric would have failed
    because of it.
    """

    cause: Cause | UnsetType = UNSET
    """Why it was not asked, has no answer or could not be checked; `reason` says it."""

    @property
    def is_examined(self) -> bool:
        """Whether a check or a judge looked at the change for it, in this run or in an earlier
        one.
        """
        return self.outcome != "not_applicable" or bool(self.votes) or self.decided_by == "cache"

    @property
    def is_advice(self) -> bool:
        """Whether it is only told: it did not pass, and its judge has not earned to block."""
        advises = self.trust is not UNSET and not self.trust.blocks
        return advises and self.outcome in ("fail", "abstain", "error") and not self.unanswered

    @property
    def unanswered(self) -> bool:
        """Whether it is a question that stays open because a model did not answer, rather than
        could not tell.
        """
        silent = not self.votes or any(vote.said is None for vote in self.votes)
        return self.kind == "judge" and self.outcome in ("abstain", "error") and silent


def whole_change_finding(failed: CriterionResult, question: str | None = None) -> RawFinding:
    """The finding of a failed criterion that points at no line. `question`: what a judge was asked;
    None of a check.
    """
    message = failed.reason or "Failed without a reason."
    return RawFinding(
        path="",
        line=0,
        end_line=0,
        level="failure" if failed.must else "warning",
        criterion=failed.id,
        message=message,
        distinction="" if question is None else f"{question}\0{message}",
        basis=UNSET if question is None else "inferred",
    )


class RubricResult(Struct, frozen=True, kw_only=True):
    """How one rubric came out."""

    id: Identifier

    digest: str

    outcome: RunOutcome

    score: float
    """Passed weight by decided weight, 0 to 1."""

    coverage: float
    """Decided weight by applicable weight, 0 to 1."""

    criteria: tuple[CriterionResult, ...]

    pass_threshold: float | None = None
    """The least score that passes, 0 to 1."""


def short(text: str, most: int = MAX_REASON) -> str:
    """The text on one line, cut to `most` characters, by default to the length of a reason."""
    flat = " ".join(text.split())
    if len(flat) <= most:
        return flat
    return flat[: most - 1] + "…"
