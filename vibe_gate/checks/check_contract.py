"""What a check is given, how it answers, and the added lines that most checks look at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Generic, Protocol, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.checks import repairs
from vibe_gate.domain import escape, paths
from vibe_gate.domain.cause import Cause, ProgramMissing, TextTooLong
from vibe_gate.domain.change import (
    LARGEST_READ,
    SUBMODULE_MODE,
    Change,
    FileDiff,
    FileVersion,
    Side,
)
from vibe_gate.domain.escape import counted, list_names
from vibe_gate.domain.rubric import Criterion, Glob
from vibe_gate.domain.session_record import CapturedRecord
from vibe_gate.domain.verdict import (
    MAX_FINDINGS,
    MAX_REASON,
    CheckedEvidence,
    FindingPlace,
    Level,
    Outcome,
    RawFinding,
    merge_lines,
    short,
)

if TYPE_CHECKING:
    from vibe_gate.domain.turn import TurnTodo

Files = tuple[FileDiff, ...]


class Call(Protocol):
    """A tool call: the tool's name, and whether it succeeded."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def ok(self) -> bool: ...  # noqa: D102


class Conduct(Struct, frozen=True):
    """What one agent did: in a turn of this program's, or in a captured session of the change's
    author.
    """

    name: str
    """For people."""

    calls: Sequence[Call] = ()

    todos: Sequence[TurnTodo] = ()

    usd: float | None = None
    """None if it is not known."""

    usd_at_most: bool = False
    """Whether it may have been less."""

    lacks: str = ""
    """What hooks did not see of it; "" if they saw every call start and end."""

    log: Callable[[], Iterable[str]] = tuple
    """The lines that programs printed."""

    is_session: bool = False
    """Whether it is a captured session."""

    superseded: bool = False
    """Whether its stage ran again later."""

    unread: str = ""
    """Why there is nothing to look at; "" if there is."""


class CommandRun(Struct, frozen=True):
    """How a command ended in an export of a tree."""

    exit_code: int | None
    """None if it did not finish."""
    output: str
    """The end of what it printed, without secrets and without the export's own path."""
    failure: str = ""
    """Why it did not finish, or ""."""
    changed: tuple[str, ...] = ()
    """The files of the tree that it changed or deleted."""
    files: Collection[str] = ()
    """All files of the tree."""
    dropped: int = 0
    """Bytes that it printed before `output`."""
    contents: Mapping[str, bytes] = MappingProxyType({})
    """What it made of changed files of the change."""
    missing: ProgramMissing | None = None
    """Set if the program was not found."""


class CheckInput(Struct, frozen=True):
    """Everything a check may look at."""

    change: Change
    criterion: Criterion
    read: Callable[[FileVersion], bytes]
    """The content of one side of a changed file: of a symbolic link its target, of a submodule
    b"".
    """
    run_command: Callable[[tuple[str, ...], float, Side], CommandRun]
    """Runs a command (argv, seconds, side) in a fresh export of the tree before or after the
    change.
    """
    policy: tuple[str, ...] = ()
    """The globs of the gate's block list."""
    redact: Callable[[str], str] = str
    """Takes secrets out of a text before it is cut: the part that is left of one may not be
    recognised any more.
    """
    conduct: Callable[[], Sequence[Conduct]] = tuple
    """What agents did, in turns that the gate comes after and in captured sessions that wrote files
    of the change.
    """
    record: CapturedRecord | None = None
    """What captured sessions ran that wrote files of the change; None if there are none."""
    suggest: bool = False
    """Whether repairs that cost time are wanted, too."""
    reach: tuple[str, ...] = ()
    """The globs that bring the rubric, if it is not for every change."""
    gitleaks: bytes = b""
    """The trusted `.gitleaks.toml`."""
    read_path: Callable[[str], bytes | None] = lambda path: None
    """The content of a regular file of the tree after the change, changed or not; None without
    one.
    """
    is_binary: Callable[[FileVersion], bool] = lambda version: False
    """Whether git calls a content binary; also of one that is too large for `read`."""

    def selected(self, excluded: tuple[str, ...]) -> Files:
        """The changed files that the criterion's `paths` select (all without `paths`), without the
        excluded ones.

        A rename is selected by either of its names, and left out only if both are excluded: moving
        a file out of the way does not take it out of a check.
        """
        selected: list[FileDiff] = []
        for file in self.change.files:
            if not self.criterion.concerns(file):
                continue
            is_excluded = all(paths.matches_any_glob(name, excluded) for name in file.names)
            if not excluded or not is_excluded:
                selected.append(file)
        return tuple(selected)

    def with_moved_in(self, files: Files, excluded: tuple[str, ...]) -> Files:
        """The files; of one that comes from where a check of text does not look, all lines are
        added ones.
        """
        files_to_check: list[FileDiff] = []
        for file in files:
            if self._moves_in(file, excluded):
                files_to_check.append(self._with_all_lines(file))
            else:
                files_to_check.append(file)
        return tuple(files_to_check)

    def _with_all_lines(self, file: FileDiff) -> FileDiff:
        if file.after is None:
            return file
        if not file.is_read:  # its content is new then, like the lines of others
            return replace(file, before=None)
        return file.as_new(self.read(file.after))

    def _moves_in(self, file: FileDiff, excluded: tuple[str, ...]) -> bool:
        if file.old_path is None:
            return False
        was_excluded = paths.matches_any_glob(file.old_path, excluded)
        is_excluded = paths.matches_any_glob(file.path, excluded)
        if was_excluded and not is_excluded:
            return True
        return file.moves_into(self.criterion.paths, self.reach)


class CheckResult(Struct, frozen=True):
    """A check's answer."""

    outcome: Outcome
    reason: str
    """One sentence of at most 280 characters."""
    findings: tuple[RawFinding, ...] = ()
    repairs: tuple[FileDiff, ...] = ()
    """What the check would write."""
    cause: Cause | None = None
    """Why it is an error, if there is something to do about that."""


class NoOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For checks that have nothing to set."""


Options = TypeVar("Options", bound=Struct)
CheckFunction = Callable[[CheckInput, Options, Files], CheckResult]


class Check(Struct, Generic[Options], frozen=True):
    """An entry of CHECKS."""

    summary: str
    """What passing says."""
    options: type[Options]
    """What a criterion may set."""
    function: CheckFunction[Options]
    """Gets the files that it looks at, at least one unless the check is `of_run`."""
    of_run: bool = False
    """Whether it is about the run, and works without files."""
    of_text: bool = False
    """Whether it is about what files say: labelled cases may hold what it refuses."""
    leaves_out: tuple[Glob, ...] = ()
    """Globs of files that state what it refuses; it looks at them only if the criterion's own paths
    begin with the folder of definitions.
    """
    concerns: Callable[[FileDiff, Options], bool] | None = None
    """Which files it looks at; by default all."""

    def answer(self, input: CheckInput, options: Options, files: Files) -> CheckResult:
        """What the function says; the reason is safe to show, and says where the findings may not
        be all.

        A check of text that would pass, but left text unread, is an error.
        """
        if self.concerns is not None:
            files = tuple(file for file in files if self.concerns(file, options))
            if not files:
                return CheckResult(
                    "not_applicable", "No changed file is one that this check looks at."
                )
        result = self.function(input, options, files)
        if self.of_text and result.outcome == "pass":
            unread_text = [file.shown_path for file in files if _brings_unread_text(input, file)]
            if unread_text:
                return _error_of_unread_text(result, unread_text, input.redact)
        limits = _CUT if len(result.findings) == MAX_FINDINGS else ""
        if self.of_text and result.outcome != "not_applicable":
            limits += _notes_of_unread_files(files, input.redact)
        reason = join_sentence(result.reason, input.redact, MAX_REASON - len(limits))
        return replace(result, reason=f"{reason}{limits}")


SHOWN_UNREAD = 3
"""Files too large to read or to search that a reason names."""


_FILES_NOTE = 90
"""Characters of a sentence that names such files: two and the number of findings leave the reason
room.
"""


def _error_of_unread_text(
    result: CheckResult, shown_paths: Sequence[str], redact: Callable[[str], str]
) -> CheckResult:
    too_long = TextTooLong(limit=LARGEST_READ)
    sentence = f"{too_long.sentence}: {list_names(shown_paths, SHOWN_UNREAD)}."
    reason = join_sentence(sentence, redact)
    return replace(result, outcome="error", reason=reason, cause=too_long)


def _notes_of_unread_files(files: Files, redact: Callable[[str], str]) -> str:
    """Sentences that name files which were not read, or not searched."""
    unread_files = [file for file in files if not file.is_read]
    unseen_files = [file for file in files if file.has_unseen_lines]
    unread_note = _files_note("Too large to read", unread_files, redact)
    unseen_note = _files_note("Large binary, not searched", unseen_files, redact)
    return unread_note + unseen_note


def _files_note(opening: str, files: Sequence[FileDiff], redact: Callable[[str], str]) -> str:
    """A sentence with the first of the files, and a space before it; "" without files."""
    if not files:
        return ""
    names = list_names([file.shown_path for file in files], SHOWN_UNREAD)
    clause = join_sentence(f"{opening}: {names}", redact, _FILES_NOTE)
    return f" {clause}."


def _brings_unread_text(input: CheckInput, file: FileDiff) -> bool:
    """Whether the change brings text that no check can read. Binary content is no text."""
    if file.is_read:
        return False
    version = file.unread_version
    return version is not None and not input.is_binary(version)


def objects_to(
    noun: str,
    find: Callable[[CheckInput, Options, Files], Iterable[Hit]],
    plural: str | None = None,
) -> CheckFunction[Options]:
    """A check that fails if `find` finds such a thing."""

    def check(input: CheckInput, options: Options, files: Files) -> CheckResult:
        return objections(input, find(input, options, files), files, noun, plural)

    return check


def objections(
    input: CheckInput, hits: Iterable[Hit], files: Files, noun: str, plural: str | None = None
) -> CheckResult:
    """Pass without hits; else fail, with their number and the paths that they are in. Hits of a
    file that say the same are one finding.
    """
    counted_hits = Hits()
    for hit in hits:
        counted_hits.add(hit)
    merged_hits = counted_hits.merged()
    if merged_hits:
        reason = counted_hits.describe(noun, plural)
        return failed(input, reason, merged_hits)
    return CheckResult("pass", f"No {noun} in {counted(len(files), 'changed file')}.")


def _require_expression(source: str) -> None:
    try:
        re.compile(source)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error


RegularExpression = Annotated[str, Meta(extra={"check": _require_expression})]


def any_of(expressions: Iterable[RegularExpression]) -> Callable[[str], bool]:
    """Tells whether one of the expressions matches somewhere in a text."""
    patterns = [re.compile(source) for source in expressions]
    return lambda text: any(pattern.search(text) for pattern in patterns)


_CUT = f" Only the first {MAX_FINDINGS:,} are findings here."

MAX_SHOWN_QUOTE = 400
"""Characters of a line kept as evidence: enough to recognise it, whatever its length."""

_AROUND_CUT = 10_000
"""Characters of a line behind the cut in which a secret that begins before it is looked for."""


class Excluding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a check that looks at files."""

    exclude: Annotated[
        tuple[Glob, ...], Meta(description="globs of files that it leaves alone")
    ] = ()


def join_sentence(text: str, redact: Callable[[str], str] = str, most: int = MAX_REASON) -> str:
    """`text` on one line without secrets, safe to show, cut to the length of a reason."""
    line = " ".join(redact(text).split())
    shown_line = short(escape.show_text(line))
    if len(shown_line) <= most:
        return shown_line
    return shown_line[: most - 1] + "…"


class HitLine(Struct, frozen=True):
    """A line that is evidence."""

    path: str
    """The file as it is shown."""
    line: int
    """From 1; 0: the file."""
    quote: str
    """Its text, or ""."""
    side: Side = "after"


class Hit(Struct, frozen=True):
    """What a check objects to, and where."""

    message: str
    path: str = ""
    """The file as it is shown; "": the change."""
    line: int = 0
    """From 1; 0: the file."""
    quote: str = ""
    """The text that is evidence, or ""."""
    side: Side = "after"
    fingerprint: str = ""
    """What tells it apart from others at the same lines; by default its message."""
    repairs: tuple[FileDiff, ...] = ()
    """What would be right there."""
    is_notice: bool = False
    """Whether it is only reported, and fails nothing."""
    further_lines: tuple[HitLine, ...] = ()
    """Where else the same cause is seen."""
    count: int = 1
    """How many things it is about."""
    group: str = ""
    """What it shares with hits in other files that are the same thing; "": it shares nothing."""

    @property
    def lines(self) -> tuple[HitLine, ...]:
        """All of its lines, the first first."""
        return (HitLine(self.path, self.line, self.quote, self.side), *self.further_lines)


MAX_FURTHER_LINES = 99
"""Further lines of one finding of a check: as many as code scanning shows."""


class _MergedHits:
    """Hits that are one finding, as they are collected."""

    def __init__(self, first: Hit) -> None:
        self.first = first
        self.further_lines = list(first.further_lines)
        self.repairs = list(first.repairs)
        self.omitted_count = 0
        self._omitted_digest = sha256()

    def add(self, hit: Hit, *, has_room: bool) -> None:
        """Add a hit; without room its lines only count, and make the fingerprint another."""
        if has_room:
            self.repairs += hit.repairs
        for line in hit.lines:
            if has_room and len(self.further_lines) < MAX_FURTHER_LINES:
                self.further_lines.append(line)
                continue
            self.omitted_count += 1
            text = f"{line.path}\0{line.quote}\0"
            self._omitted_digest.update(text.encode("utf-8", "surrogatepass"))

    def hit(self) -> Hit:
        """The hits as one."""
        message = self.first.message
        fingerprint = self.first.fingerprint
        if self.omitted_count:
            fingerprint = f"{fingerprint or message}\0{self._omitted_digest.hexdigest()}"
            message += f" ({counted(self.omitted_count, 'more line')})"
        return replace(
            self.first,
            message=message,
            fingerprint=fingerprint,
            further_lines=tuple(self.further_lines),
            repairs=tuple(self.repairs),
        )


class Hits:
    """Hits that are counted one by one. Those that say the same of a file are merged, as are those
    of one group; the first MAX_FINDINGS of what is left are kept.
    """

    def __init__(self) -> None:
        self.count_by_path: Counter[str] = Counter()
        self._merged: dict[tuple[str, str, str, bool], _MergedHits] = {}
        self._further_count = 0

    def add(self, hit: Hit) -> None:
        """Count a hit; of one without a message no more is kept."""
        key = (hit.group or hit.path, hit.message, hit.fingerprint, hit.is_notice)
        merged = self._merged.get(key)
        is_counted_again = merged is not None and bool(hit.group)
        self.count_by_path[hit.path] += 0 if is_counted_again else hit.count
        if not hit.message:
            return
        if merged is not None:
            self._further_count += len(hit.lines)
            merged.add(hit, has_room=self._further_count <= MAX_FINDINGS)
        elif len(self._merged) < MAX_FINDINGS:
            self._merged[key] = _MergedHits(hit)

    def merged(self) -> list[Hit]:
        """What is kept, in the order in which it was found."""
        return [merged.hit() for merged in self._merged.values()]

    def describe(self, noun: str, plural: str | None = None) -> str:
        """Their number and the paths that they are in, as a sentence."""
        total = counted(self.count_by_path.total(), noun, plural)
        return f"{total}: {list_names(self.count_by_path)}."


def noted(input: CheckInput, result: CheckResult, notices: Hits) -> CheckResult:
    """The result with notices beside its findings, as far as there is room."""
    merged_notices = notices.merged()
    if not merged_notices:
        return result
    room = MAX_FINDINGS - len(result.findings)
    findings = list(result.findings)
    findings += [_finding(input, hit) for hit in merged_notices[:room]]
    reason = f"{result.reason} {notices.describe('notice')}"
    return replace(result, reason=reason, findings=tuple(findings))


def failed(input: CheckInput, reason: str, hits: Sequence[Hit]) -> CheckResult:
    """Fail, with as many findings as are kept."""
    first_hits = hits[:MAX_FINDINGS]
    findings = tuple(_finding(input, hit) for hit in first_hits)
    repairs_of_hits: list[FileDiff] = []
    for hit in first_hits:
        repairs_of_hits += hit.repairs
    return CheckResult("fail", reason, findings, tuple(repairs_of_hits))


def _finding(input: CheckInput, hit: Hit) -> RawFinding:
    distinction = hit.fingerprint or hit.message
    for line in hit.lines:
        if line.line and len(line.quote) > MAX_SHOWN_QUOTE:
            # The end of the line counts as well.
            distinction += "\0" + " ".join(line.quote.split())
    level: Level = "failure" if input.criterion.must else "warning"
    if hit.is_notice:
        level = "notice"
    evidence = _evidence_of(hit, input.redact)
    first_place, *other_places = _places_of(hit, evidence)
    return RawFinding(
        path=first_place.path,
        line=first_place.line,
        end_line=first_place.end_line,
        level=level,
        criterion=input.criterion.id,
        message=join_sentence(hit.message, input.redact),
        other_places=tuple(other_places),
        evidence=evidence,
        # Only its digest: it may have more of a line than what is shown of it.
        distinction=sha256(distinction.encode("utf-8", "surrogatepass")).hexdigest(),
    )


def _places_of(hit: Hit, evidence: Sequence[CheckedEvidence]) -> list[FindingPlace]:
    """Where it is seen; quoted lines that follow one another are one place."""
    if evidence:
        return merge_lines(evidence)
    places = [
        FindingPlace(path=line.path, line=line.line, end_line=line.line) for line in hit.lines
    ]
    return list(dict.fromkeys(places))


def _evidence_of(hit: Hit, redact: Callable[[str], str]) -> tuple[CheckedEvidence, ...]:
    """The lines that are quoted, each once."""
    evidence: dict[CheckedEvidence, None] = {}
    for line in hit.lines:
        if line.quote and line.line:
            evidence[_line_evidence(line, redact)] = None
    return tuple(evidence)


def _line_evidence(line: HitLine, redact: Callable[[str], str]) -> CheckedEvidence:
    quote = line.quote
    if len(quote) > MAX_SHOWN_QUOTE:
        quote = redact(quote[: MAX_SHOWN_QUOTE + _AROUND_CUT])[:MAX_SHOWN_QUOTE]
    return CheckedEvidence(
        path=line.path,
        line=line.line,
        end_line=line.line,
        quote=quote,
        side=line.side,
        standing="holds",
    )


MAX_SCANNED_LINE = 10_000
"""Characters of a line that a rubric's own expression sees. Its cost may grow with the
square of the length, and a hostile 40 MB line must not hang the gate."""


class AddedLine(Struct, frozen=True):
    """Line `number` (from 1) of the after side; `text` without its line ending, undecodable bytes
    replaced.
    """

    file: FileDiff
    number: int
    text: str
    content: bytes = b""

    def hit(self, message: str, at: int = 0, repair: FileDiff | None = None) -> Hit:
        """What stands here is objected to; the evidence begins at the character `at` if it would be
        cut off else.
        """
        text = self.text if at < MAX_SHOWN_QUOTE else self.text[at:]
        repairs = (repair,) if repair else ()
        return Hit(message, self.file.shown_path, self.number, text, repairs=repairs)

    def repaired(self, text: str | None) -> FileDiff | None:
        """The file with `text` in this line, or without the line (None); None where that cannot be
        said.
        """
        return repairs.of_line(self.file, self.number, self.content, text)


class AddedBlock(Struct, frozen=True):
    """Added lines that follow one another, from line `first` on; `content` is their bytes."""

    file: FileDiff
    first: int
    content: bytes

    @property
    def text(self) -> str:
        """The lines as text, joined by newlines; without line endings, undecodable bytes
        replaced.
        """
        return read_side_text(self.content.replace(b"\r\n", b"\n"))

    def lines(self) -> Iterator[AddedLine]:
        """The lines one by one."""
        for number, content in enumerate(BytesIO(self.content), self.first):
            yield AddedLine(self.file, number, read_side_text(content), content)


def added_blocks(
    files: Iterable[FileDiff], may_count: Callable[[bytes], bool] = bool
) -> Iterator[AddedBlock]:
    """Every added line, also of binary files, for a NUL must not hide text; only hunks whose bytes
    `may_count`.
    """
    for file in files:
        if file.after is None or file.after.mode == SUBMODULE_MODE:
            continue
        for hunk in file.hunks:
            if not may_count(hunk.body):
                continue
            for first, content in hunk.added_runs():
                yield AddedBlock(file, first, content)


def added_lines(
    files: Iterable[FileDiff], may_count: Callable[[bytes], bool] = bool
) -> Iterator[AddedLine]:
    """The same line by line."""
    for block in added_blocks(files, may_count):
        yield from block.lines()


def read_side_text(content: bytes) -> str:
    """A line's bytes as text, without its line ending."""
    return content.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
