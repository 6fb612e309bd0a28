"""Rounds: what a pull request's reader was told before, and what is to be said now. Pure.

    new      not said before, or said to be fixed and back
    open     said before, still there
    fixed    said before, gone, and its lines changed: at which commit
    unraised said before, not found again, and its lines did not change: nobody fixed it
    held     new, but no blocker and on lines that did not change since the last round: counted, not said

The state of a round travels in a comment, so `load` takes whatever stands there for
hostile; what it says decides about repetition only, never about a verdict.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.document import Count, plain, read
from vibe_gate.domain.label import FindingSource
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import MAX_FINDINGS, MAX_REASON, Finding, Level, Outcome
from vibe_gate.report import queries, sentences

MAX_STATE = 12_000
"""Characters of a dumped state: a fifth of what a comment may hold, enough for 400 findings."""

_MAX_JSON = 1 << 20
"""Bytes that a state may unpack to; more is a bomb."""

_SHORT_MESSAGE = 60
"""Characters of a message that are kept where whole ones do not fit."""

MAX_EXPLAINED = 4_000
"""Characters of a state that has votes and quotations; where it would have more, only the job's artifact has them."""

MAX_VOTES = 9
"""Votes of one finding; a rubric asks for fewer."""

MAX_PLACES = 4
"""Places of one finding that are kept: where it is shown, and the first lines that it quotes elsewhere."""

MAX_SOURCES = 10
"""Rubrics of one finding; gates have fewer that share a criterion's id."""

MAX_NUMBER = 1_000_000
"""Rounds that are counted. The number travels in a comment that others may edit: past it, it stays."""

MAX_SEEN = 10_000
"""Findings of a state. What is more is not remembered, and so is said again."""

_MAX_LINE = (1 << 31) - 1
_MAX_USD = 1e9
_MAX_QUOTE = 400

_FINGERPRINT = re.compile(r"[0-9a-f]{16}\Z")

Commit = Annotated[str, Meta(pattern=r"^[0-9a-f]{40}(?:[0-9a-f]{24})?(?!\n)$")]
Fingerprint = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}(?!\n)$")]


class ReportedVote(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One answer to the question that a finding is about."""

    outcome: Outcome
    reason: Annotated[str, Meta(max_length=MAX_REASON)]


class ReportedPlace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a finding stood at the head at which it was found last."""

    path: Annotated[str, Meta(max_length=4096)] = ""
    """As the finding has it."""
    line: Annotated[int, Meta(ge=0, le=_MAX_LINE)] = 0
    """The first line; 0: the file as a whole."""
    end: Annotated[int, Meta(ge=0, le=_MAX_LINE)] = 0
    """The last line; 0: the first one."""


class ReportedFinding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A finding as it was said; `since` is the head commit of that round, `fixed` the one at which it was gone.

    `quote`, `counterexample`, `votes` and `second_look` explain it to whoever asks; "" and () where there was no room.
    `found_by`: the rubrics that found it last, for labels. `refuted`: a second look had refuted it.
    """

    fingerprint: Fingerprint
    criterion: Annotated[str, Meta(max_length=64)]
    path: Annotated[str, Meta(max_length=4096)]
    line: Annotated[int, Meta(ge=0, le=_MAX_LINE)]
    level: Level
    message: Annotated[str, Meta(max_length=280)]
    since: Commit
    fixed: Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{40}(?:[0-9a-f]{24})?)?(?!\n)$")] = ""
    quote: Annotated[str, Meta(max_length=_MAX_QUOTE)] = ""
    counterexample: Annotated[str, Meta(max_length=_MAX_QUOTE)] = ""
    votes: Annotated[tuple[ReportedVote, ...], Meta(max_length=MAX_VOTES)] = ()
    refuted: bool = False
    second_look: Annotated[str, Meta(max_length=_MAX_QUOTE)] = ""
    found_by: Annotated[tuple[FindingSource, ...], Meta(max_length=MAX_SOURCES)] = ()
    last: Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{40}(?:[0-9a-f]{24})?)?(?!\n)$")] = ""
    """The head at which it was found last; "": the state's own."""
    at: Annotated[tuple[ReportedPlace, ...], Meta(max_length=MAX_PLACES)] = ()
    """Where it stood then; (): at `path` and `line`."""

    @property
    def places(self) -> tuple[tuple[str, int, int], ...]:
        """Where it stood when it was found last: path, first and last line, 0 of a file as a whole."""
        own = self.at or (ReportedPlace(path=self.path, line=self.line),)
        return tuple((place.path or self.path, place.line, max(place.line, place.end)) for place in own)


class RoundState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is carried to the next round. `run` is the number of the workflow's run that reviewed; 0 outside of one.

    `usd` is what the `runs` until then cost that cost something, their replays included.
    """

    schema: Literal[1] = 1
    number: Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
    head: Commit
    run: Count = 0
    findings: Annotated[tuple[ReportedFinding, ...], Meta(max_length=MAX_SEEN)] = ()
    usd: Annotated[float, Meta(ge=0, le=_MAX_USD)] = 0.0
    runs: Count = 0

    def with_cost(self, usd: float) -> RoundState:
        """The state after one more run, which cost that much."""
        if usd <= 0:
            return self
        return replace(self, usd=min(round(self.usd + usd, 6), _MAX_USD), runs=self.runs + 1)


class Round(Struct, frozen=True):
    """What is to be said of a run, given what was said before.

    `reappeared`: fingerprints among `new` that were called fixed before. `unanswered` was said before and not found
    this time, but this run could not tell, or it is about the same commit: nothing was fixed. `unraised` was said
    before and not found this time, although its lines did not change. `open_before`: what was said before of those in
    `open`. `run`: the workflow's run that reviewed this head first, as later ones may ask no model; 0 if none did.
    `usd_before`: what `runs_before` earlier runs cost.
    """

    number: int
    head: str
    new: tuple[Finding, ...] = ()
    open: tuple[Finding, ...] = ()
    fixed: tuple[ReportedFinding, ...] = ()
    held: tuple[Finding, ...] = ()
    reappeared: frozenset[str] = frozenset()
    unanswered: tuple[ReportedFinding, ...] = ()
    unraised: tuple[ReportedFinding, ...] = ()
    open_before: tuple[ReportedFinding, ...] = ()
    run: int = 0
    usd_before: float = 0.0
    runs_before: int = 0

    @property
    def state(self) -> RoundState:
        """What the next round has to know."""
        new = [_seen(finding, self.head) for finding in self.new]
        findings = (*new, *self.open_before, *self.unraised, *self.unanswered, *self.fixed)
        return RoundState(
            number=self.number,
            head=self.head,
            findings=findings[:MAX_SEEN],
            usd=self.usd_before,
            runs=self.runs_before,
        )

    @property
    def shown(self) -> tuple[Finding, ...]:
        """The findings of this run that are said, the new ones first."""
        return (*self.new, *self.open)


class RoundCounts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many findings a round has: `accepted` and `refuted` are among no others."""

    new: Count = 0
    open: Count = 0
    fixed: Count = 0
    accepted: Count = 0
    refuted: Count = 0
    unanswered: Count = 0
    unraised: Count = 0

    def __str__(self) -> str:
        parts = [f"{self.new:,} new", f"{self.open:,} still open", f"{self.fixed:,} fixed"]
        rare = {
            ACCEPTED: self.accepted,
            REFUTED: self.refuted,
            "not raised again": self.unraised,
            "not found again": self.unanswered,
        }
        return ", ".join([*parts, *(f"{number:,} {words.lower()}" for words, number in rare.items() if number)])


class RoundTold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A round as those read it who have not the findings themselves, in a page or in a log of events.

    `after`: what the round before was, a gate's node or a run; "" if there was none, or it is told elsewhere. `new`
    and `fixed` are of this round alone; `back`: fingerprints among the new that were called fixed before.
    """

    number: Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
    after: str = ""
    counts: RoundCounts = RoundCounts()
    new: tuple[ReportedFinding, ...] = ()
    fixed: tuple[ReportedFinding, ...] = ()
    unanswered: tuple[ReportedFinding, ...] = ()
    back: tuple[str, ...] = ()


REFUTED, ACCEPTED = "Raised and refuted", "Accepted"
"""Titles of findings about which there is nothing to do."""


def settled(finding: Finding) -> str:
    """The title under which it stands if there is nothing to do about it; else ""."""
    if queries.waiver(finding):
        return ACCEPTED
    return REFUTED if finding.is_refuted else ""


def counts(told: Round) -> RoundCounts:
    """What the round comes to, in figures."""
    of = Counter(settled(one) for one in told.shown)
    return RoundCounts(
        new=sum(not settled(one) for one in told.new),
        open=sum(not settled(one) for one in told.open),
        fixed=len(_fixed_now(told)),
        accepted=of[ACCEPTED],
        refuted=of[REFUTED],
        unanswered=len(told.unanswered),
        unraised=len(told.unraised),
    )


def is_further(told: Round) -> bool:
    """Whether there is something to say of what became of what was said before."""
    is_later = told.number > 1 and bool(told.new or told.open or _fixed_now(told))
    return is_later or bool(told.held or told.unanswered or told.unraised)


def as_told(told: Round, after: str = "") -> RoundTold:
    """The round without its findings; `after` as of RoundTold."""
    return RoundTold(
        number=told.number,
        after=after,
        counts=counts(told),
        new=tuple(_seen(one, told.head) for one in told.new if not settled(one))[:MAX_SEEN],
        fixed=_fixed_now(told),
        unanswered=(*told.unraised, *told.unanswered),
        back=tuple(sorted(told.reappeared)),
    )


def _fixed_now(told: Round) -> tuple[ReportedFinding, ...]:
    return tuple(seen for seen in told.fixed if seen.fixed == told.head)


def first_round(findings: Iterable[Finding], head: str) -> Round:
    """The round before which nothing was said."""
    return next_round(None, findings, head, touched=lambda _: True, blocking=lambda _: True)


def next_round(
    previous: RoundState | None,
    findings: Iterable[Finding],
    head: str,
    touched: Callable[[Finding], bool],
    blocking: Callable[[Finding], bool],
    *,
    answered: Callable[[ReportedFinding], bool] = lambda _: True,
    replaced: Callable[[ReportedFinding], bool] = lambda _: True,
) -> Round:
    """What is new, open, fixed and held.

    `touched`: whether the finding's lines changed since `previous.head`; `blocking`:
    whether it stops the change; `answered`: whether this run could tell if what was
    said before is still there (`answered_by`); `replaced`: whether lines of what was said
    before changed since it was found last. `head` is the full commit id.
    """
    known = {seen.fingerprint: seen for seen in previous.findings} if previous else {}
    current = {
        identity(finding): finding
        for finding in findings
        if not queries.is_approval(finding)  # which can lapse
    }
    persisting = {name for name, seen in known.items() if _persists(seen, current.get(name))}
    fresh = {name: finding for name, finding in current.items() if name not in persisting}
    reportable = {
        name: finding for name, finding in fresh.items() if previous is None or blocking(finding) or touched(finding)
    }
    same = previous is not None and previous.head == head
    missing = _missing(known, current, previous.head if previous else head)
    unanswered = tuple(seen for seen in missing if same or not answered(seen))
    decided = [seen for seen in missing if seen not in unanswered]
    unraised = tuple(seen for seen in decided if not replaced(seen))
    return Round(
        number=min(previous.number + (not same), MAX_NUMBER) if previous else 1,
        head=head,
        new=tuple(reportable.values()),
        open=tuple(finding for name, finding in current.items() if name in persisting),
        fixed=(
            *(replace(seen, fixed=head) for seen in decided if seen not in unraised),
            *(seen for name, seen in known.items() if seen.fixed and name not in current),
        ),
        held=tuple(finding for name, finding in fresh.items() if name not in reportable),
        reappeared=frozenset(reportable.keys() & known.keys()),
        unanswered=unanswered,
        unraised=unraised,
        open_before=tuple(_seen_again(known[name], current[name]) for name in current if name in persisting),
        run=previous.run if previous is not None and same else 0,
        usd_before=previous.usd if previous else 0.0,
        runs_before=previous.runs if previous else 0,
    )


def _persists(seen: ReportedFinding, finding: Finding | None) -> bool:
    """Whether what was said before is still there, and not for the first time since it was fixed or refuted."""
    if finding is None or seen.fixed:
        return False
    return finding.is_refuted or not seen.refuted


def _missing(known: Mapping[str, ReportedFinding], current: Collection[str], last: str) -> list[ReportedFinding]:
    """What was said before and is not found any more; what was refuted is not there to be fixed."""
    return [
        replace(seen, last=seen.last or last)
        for name, seen in known.items()
        if not (seen.fixed or seen.refuted or name in current)
    ]


def _seen_again(seen: ReportedFinding, finding: Finding) -> ReportedFinding:
    """What was said before, at the lines where it stands now."""
    return replace(seen, refuted=finding.is_refuted, last="", at=_places(finding))


def _places(finding: Finding) -> tuple[ReportedPlace, ...]:
    """Where the finding stands: where it is shown, and the lines that it quotes elsewhere.

    A line that the change removed is in no head, so of these the file counts.
    """
    is_removed = queries.is_removed(finding)
    shown = (finding.path, 0 if is_removed else finding.line, 0 if is_removed else finding.end_line)
    places = [shown]
    for line in finding.evidence:
        if line.side == "after" and not (line.path == shown[0] and shown[1] <= line.line <= shown[2]):
            places.append((line.path, line.line, line.end_line))
    return tuple(
        ReportedPlace(
            path="" if path == finding.path else path[:4096],
            line=min(first, _MAX_LINE),
            end=min(last, _MAX_LINE) if last > first else 0,
        )
        for path, first, last in list(dict.fromkeys(places))[:MAX_PLACES]
    )


def answered_by(summary: Summary, previous: RoundState | None) -> Callable[[ReportedFinding], bool]:
    """Whether the run could tell about what was said before, in `previous`.

    It could where every criterion of that name passed or failed, failed with fewer findings than a check keeps and
    with none about the change as a whole, and nothing of the path was left unreviewed. What was said of the change as
    a whole, or of a file without that name in the change now, is found again under another fingerprint: such a
    finding is gone if the criterion passes, or has no finding that is new.
    """
    known = {seen.fingerprint for seen in previous.findings} if previous else set()
    counts = Counter(finding.criterion for finding in summary.findings)
    cut = {criterion for criterion, count in counts.items() if count >= MAX_FINDINGS}
    broken = {finding.criterion for finding in summary.findings if not finding.path} - {"policy"}
    growing = {finding.criterion for finding in summary.findings if identity(finding) not in known}
    outcomes: dict[str, set[Outcome]] = {"policy": {"pass"}}  # it is decided by paths alone
    judges = set()
    for rubric in summary.rubrics:
        for criterion in rubric.criteria:
            outcomes.setdefault(criterion.id, set()).add(criterion.outcome)
            if criterion.kind == "judge":
                judges.add(criterion.id)
    files = {file.path for file in summary.change.files if file.change_type != "deleted"}
    unreviewed = {item.path for item in summary.unreviewed}

    def answered(seen: ReportedFinding) -> bool:
        decided = outcomes.get(seen.criterion, set())
        if not decided or not decided <= {"pass", "fail"} or seen.criterion in cut | broken:
            return False
        if seen.criterion in judges and seen.path in unreviewed:
            return False
        if not seen.path:
            return decided == {"pass"}
        return seen.path in files or decided == {"pass"} or seen.criterion not in growing

    return answered


def with_explanations(state: RoundState, summary: Summary, run: int) -> RoundState:
    """The state with the run's number and who found its findings; with what decided these, if there is room."""
    here = {identity(finding): finding for finding in summary.findings}

    def with_sources(seen: ReportedFinding) -> ReportedFinding:
        if (finding := here.get(seen.fingerprint)) is None:
            return seen
        return replace(seen, found_by=summary.sources(finding)[:MAX_SOURCES])

    def with_reasons(seen: ReportedFinding) -> ReportedFinding:
        if (finding := here.get(seen.fingerprint)) is None:
            return seen
        answers = next((one.votes for _, one in queries.sources(finding, summary)), ())[:MAX_VOTES]
        against = next((one.counterexample for one in answers if one.counterexample), "")
        look = finding.second_look
        more = {
            "quote": "\n".join(one.quote for one in finding.evidence)[:_MAX_QUOTE],
            "counterexample": against[:_MAX_QUOTE],
            "second_look": "" if look is UNSET else sentences.second_look(look)[:_MAX_QUOTE],
            "votes": tuple(ReportedVote(outcome=one.outcome, reason=one.reason[:MAX_REASON]) for one in answers),
        }
        return replace(seen, **more)

    short = replace(state, run=run, findings=tuple(map(with_sources, state.findings)))
    full = replace(short, findings=tuple(map(with_reasons, short.findings)))
    return full if len(_packed(full)) <= MAX_EXPLAINED else short


def identity(finding: Finding) -> str:
    """What names a finding from round to round: its fingerprint, or one made of its words and its line."""
    if _FINGERPRINT.match(finding.fingerprint):
        return finding.fingerprint
    words = "\0".join((finding.criterion, finding.path, str(finding.line), finding.message))
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def dump(state: RoundState) -> str:
    """The state as one line of base64, `MAX_STATE` characters at most.

    What does not fit is left out: the ends of messages first, then findings, the fixed ones before the others.
    """
    text = _packed(state)
    there, fixed = ([seen for seen in state.findings if bool(seen.fixed) is gone] for gone in (False, True))
    kept = [replace(seen, message=seen.message[:_SHORT_MESSAGE]) for seen in (*there, *fixed)]
    while len(text) > MAX_STATE:
        text = _packed(replace(state, findings=tuple(kept)))
        kept = kept[: len(kept) * 3 // 4]
    return text


def load(text: str) -> RoundState | None:
    """The state that `dump` wrote; None for anything else."""
    if not text or len(text) > MAX_STATE:
        return None
    try:
        packed = base64.b64decode(text, validate=True)
        unpacking = zlib.decompressobj()
        raw = unpacking.decompress(packed, _MAX_JSON)
        if not unpacking.eof or unpacking.unused_data:
            return None
        state = read(RoundState, json.loads(raw))
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        return None
    return state if len({seen.fingerprint for seen in state.findings}) == len(state.findings) else None


def _packed(state: RoundState) -> str:
    text = json.dumps(plain(state), separators=(",", ":"), sort_keys=True)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _seen(finding: Finding, head: str) -> ReportedFinding:
    return ReportedFinding(
        fingerprint=identity(finding),
        criterion=finding.criterion[:64],
        path=finding.path[:4096],
        line=min(finding.line, _MAX_LINE),
        level=finding.level,
        message=finding.message,
        since=head,
        refuted=finding.is_refuted,
        at=_places(finding),
    )
