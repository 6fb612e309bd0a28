"""Agent Trace 0.1.0 (https://agent-trace.dev): records of who wrote which lines of a commit, for
all tools. Pure.

A record is a claim of the tool that wrote it: nothing in it is checked but its form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from vibe_gate.domain.document import Timestamp, parse_object, read, to_json, without_none
from vibe_gate.domain.escape import expression

OWN = "vibe-gate"
"""Our name as `tool` of a record."""

VERSION = "0.1.0"

MAX_RECORD_BYTES = 1 << 20
"""Of one record: some 10,000 ranges. A longer one is not read."""

MAX_HASHED_LINES = 400_000
"""Of one commit: all records and files together."""

MAX_MODEL_LETTERS = 250
"""Of `model_id`, by the schema."""

_PROVIDERS = {
    "claude": "anthropic",
    "gpt": "openai",
    "o": "openai",
    "codex": "openai",
    "gemini": "google",
}
_FAMILY = expression(r"(claude|gpt|o(?=[0-9])|codex|gemini)-?[A-Za-z0-9]")
_MODEL = expression(r"[A-Za-z0-9._:@+-]+(?:/[A-Za-z0-9._:@+-]+)*\Z")

_NEXT = expression(rb"\n(?=\{)")
_LF = b"\n"
_READABLE = r"^[01]\.[0-9]{1,9}(\.[0-9]{1,9})?\Z"
"""Of versions. The specification's own reference implementation writes "1.0"."""

Line = Annotated[int, Meta(ge=1, le=1 << 31)]


class Contributor(Struct, frozen=True, omit_defaults=True):
    """Who wrote lines; `model_id` is "provider/model", or ""."""

    type: Literal["human", "ai", "mixed", "unknown"]
    model_id: str = ""


class LineRange(Struct, frozen=True, omit_defaults=True):
    """Lines of the file at the record's revision, from 1, the last included; `contributor` goes
    before that of the conversation.
    """

    start_line: Line
    end_line: Line
    content_hash: str = ""
    contributor: Contributor | None = None


class TracedConversation(Struct, frozen=True, omit_defaults=True):
    """The lines of a file that one conversation with an agent brought."""

    ranges: tuple[LineRange, ...]
    url: str = ""
    contributor: Contributor | None = None


class TracedFile(Struct, frozen=True):
    """A file of the record, by its path from the root of the repository."""

    path: str
    conversations: tuple[TracedConversation, ...]


class TracedRevision(Struct, frozen=True):
    """The revision that the record is about: of git, the id of a commit."""

    type: str
    revision: str


class TracingTool(Struct, frozen=True, omit_defaults=True):
    """The program that wrote the record."""

    name: str = ""
    version: str = ""


class TraceRecord(Struct, frozen=True, omit_defaults=True):
    """One record. `metadata` belongs to the tool that wrote it."""

    version: Annotated[str, Meta(pattern=_READABLE)]
    id: str
    timestamp: Timestamp
    files: tuple[TracedFile, ...]
    vcs: TracedRevision | None = None
    tool: TracingTool = TracingTool()
    metadata: Mapping[str, Any] = {}

    def to_line(self) -> bytes:
        """The record as one line of JSON lines."""
        return to_json(self).encode() + _LF

    @property
    def revision(self) -> str:
        """The commit that it names, "" without one; of another version control system, its word for
        it.
        """
        return self.vcs.revision if self.vcs else ""


class TraceClaim(Struct, frozen=True):
    """Of a file at a commit: a record says that an agent wrote these lines, or had a part in them.

    `first` and `last` (from 1) are 0 where the record does not say which lines of this commit it
    means. `tool` and `model` are "" where it does not name them.
    """

    first: int
    last: int
    tool: str
    model: str


class RecordTexts(Struct, frozen=True):
    """What a text of records holds: each record with its own bytes; and the bytes of what is not a
    record.
    """

    records: tuple[tuple[bytes, TraceRecord], ...]
    unread: tuple[bytes, ...]


def parts_of(data: bytes) -> list[bytes]:
    """A note or a file of records taken apart: each record is a line, or lines of which only the
    first begins with a brace.
    """
    return [part for part in map(bytes.strip, _NEXT.split(data)) if part]


def read_records(parts: Iterable[bytes]) -> RecordTexts:
    """The records in these parts. What follows a record of one line, and is none, costs no
    record.
    """
    records: list[tuple[bytes, TraceRecord]] = []
    unread: list[bytes] = []
    for part in parts:
        line, _, remainder = part.partition(b"\n")
        if record := _record(part):
            records.append((part, record))
        elif remainder and (first_record := _record(line)):
            records.append((line, first_record))
            unread.append(remainder)
        else:
            unread.append(part)
    return RecordTexts(tuple(records), tuple(unread))


def _record(text: bytes) -> TraceRecord | None:
    if len(text) > MAX_RECORD_BYTES:
        return None
    try:
        return read(TraceRecord, without_none(parse_object(text)))
    except (ValueError, RecursionError):
        return None


class LineHashes:
    """The hashes of lines of one commit's files, each taken once; of `MAX_HASHED_LINES` lines, then
    of no more.
    """

    def __init__(self) -> None:
        self._left = MAX_HASHED_LINES
        self._known: dict[tuple[str, int, int], str] = {}

    def is_right(
        self, content_hash: str, path: str, rows: Sequence[bytes], first: int, last: int
    ) -> bool:
        """Whether that is the hash of these lines (from 1) of a file with these rows; beyond the
        limit False.
        """
        place = path, first, last
        if content_hash and place not in self._known:
            self._left -= last - first + 1
            if self._left < 0:
                return False
            self._known[place] = hash_of(rows[first - 1 : last])
        return bool(content_hash) and self._known[place] == content_hash


def claims_of(
    record: TraceRecord, file: TracedFile, rows: Sequence[bytes], hashes: LineHashes | None
) -> Iterator[TraceClaim]:
    """What the record says of one of its files, which has these `rows` (without line ends) at the
    commit in question.

    Without `hashes` the record is about this commit, so that its numbers are those of these rows.
    With them it is about another one: lines count as placed if their hash says so.
    """
    for lines, model in _by_agents(file):
        first, last = lines.start_line, min(lines.end_line, len(rows))
        if hashes and not (
            first <= last and hashes.is_right(lines.content_hash, file.path, rows, first, last)
        ):
            first = last = 0
        if first <= last:
            yield TraceClaim(first, last, record.tool.name, model)


def is_by_agent(file: TracedFile, rows: int | None) -> bool:
    """Whether a record says that an agent wrote lines of this file: such as begin within its
    `rows`.

    None: the record is about another commit, whose lines may be anywhere by now.
    """
    all_lines = [lines for lines, _ in _by_agents(file)]
    if rows is None:
        return bool(all_lines)
    return any(lines.start_line <= min(lines.end_line, rows) for lines in all_lines)


def _by_agents(file: TracedFile) -> Iterator[tuple[LineRange, str]]:
    for conversation in file.conversations:
        for lines in conversation.ranges:
            contributor = lines.contributor or conversation.contributor
            if contributor and contributor.type in ("ai", "mixed"):
                yield lines, contributor.model_id


def hash_of(rows: Sequence[bytes]) -> str:
    """The `content_hash` of lines, given without their ends: SHA-256 of the lines, with LF between
    them.

    The specification leaves open which hash it is, and of which bytes; those of other tools may
    match none.
    """
    return f"sha256:{hashlib.sha256(_LF.join(rows)).hexdigest()}"


def is_model_id(text: str) -> bool:
    """Whether it has the form "provider/model"; a record may hold any text in its place."""
    return "/" in text and bool(_MODEL.match(text))


def model_id(name: str) -> str:
    """The model as records name it, "provider/model"; "" of a name that does not say whose model it
    is.
    """
    bare = name.partition("[")[0]  # "[1m]": a longer context of the same model
    if not _MODEL.match(bare) or len(bare) > MAX_MODEL_LETTERS - 10:
        return ""
    if "/" in bare:
        return bare
    family = _FAMILY.match(bare)
    if family is None:
        return ""
    return f"{_PROVIDERS[family[1]]}/{bare}"
