"""What is stored of each write of a captured session, so that its lines can be found again:
`writes.jsonl`.

No text: of each line 8 bytes of a keyed hash, white space aside. The key lies in state.db, so that
nobody who has the store alone can try what a line may have been. A file's states before and after a
write are stored as differences from the state that was last known; a reader begins anew at a line
that says `fresh`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import Struct

from vibe_gate.domain.document import Timestamp, decode_document, plain
from vibe_gate.domain.matching import MAX_SPAN, SHORTEST, brackets, carried, loosened, match_lines
from vibe_gate.store.event_writes import FileWrite
from vibe_gate.store.ndjson_log import encode_line

WRITES = "writes.jsonl"

DigestedLines: TypeAlias = tuple[int, ...]
"""A file's lines, each as the number that its digest is."""

Steps: TypeAlias = tuple[tuple[int, int] | str, ...]
"""A state made of another: `[first, count]` lines of that one, or new digests in base64."""

MAX_LINES = 250_000
"""Of a file that is followed; of a longer one the ids of its blobs are stored."""

_REMEMBERED_LINES = 1_000_000
_DIGEST_BYTES = 8


class StoredWrite(Struct, frozen=True):
    """A write as it is stored."""

    at: datetime
    tool: str
    tool_use_id: str
    path: str
    """As the agent gave it."""
    blobs: frozenset[str]
    """The ids that git may have for what the write left."""
    before: DigestedLines | None
    """The file's lines before the write; None if not known."""
    after: DigestedLines | None
    """The file's lines as the call wrote them; None if not known."""
    settled: DigestedLines | None = None
    """The lines that a formatter made of them at once; None if it is not known that one did."""
    same: Mapping[int, int] = MappingProxyType({})
    """Lines that were there before and stand elsewhere, or in another form: by line of what the
    write left, that of `before`.
    """
    joined: frozenset[int] = frozenset()
    """Digests of the lines, and of the brackets over several lines, that the write brought, as
    `LineDigests.loose` makes them.
    """

    @property
    def final_lines(self) -> DigestedLines | None:
        """The file's lines as the write left them."""
        if self.settled is None:
            return self.after
        return self.settled


class WriteLine(Struct, frozen=True, omit_defaults=True):
    """A line of writes.jsonl."""

    ts: Timestamp
    tool: str
    tool_use_id: str
    path: str
    key: str
    blobs: tuple[str, ...] = ()
    fresh: bool = False
    before: Steps | None = None
    after: Steps | None = None
    settled: Steps | None = None
    same: tuple[tuple[int, int], ...] = ()
    joined: str = ""


class LineDigests:
    """Digests of lines under one key (32 bytes). Equal lines are hashed once."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._digest_by_line: dict[str, int] = {}
        self.id = hashlib.blake2b(b"id", key=key, digest_size=4).hexdigest()
        """Tells lines under this key from others."""

    def of_text(self, text: str) -> DigestedLines | None:
        """The lines of a file; None if it has too many."""
        lines = split_git_lines(text)
        return self.of(lines) if len(lines) <= MAX_LINES else None

    def of(self, lines: Iterable[str]) -> DigestedLines:
        """The digest of each line, white space aside."""
        digests = self._digest_by_line
        if len(digests) > _REMEMBERED_LINES:
            digests.clear()
        return tuple([digests[line] if line in digests else self._digest(line) for line in lines])

    def loose(self, lines: Sequence[str], numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Digests that stay when a formatter breaks lines or changes quotes, of the lines with
        these numbers (from 0) and the brackets around them: by digest the span from its first line
        to before the one after its last.

        Short ones, which stand everywhere, are left out.
        """
        wanted_numbers = set(numbers)
        spans = [(number, number + 1) for number in sorted(wanted_numbers)]
        for low, high in list(_surroundings(spans, len(lines))):
            for first_offset, end_offset in brackets(lines[low:high]):
                first, end = low + first_offset, low + end_offset
                if not wanted_numbers.isdisjoint(range(first, end)):
                    spans.append((first, end))
        span_by_digest: dict[int, tuple[int, int]] = {}
        for start, end in spans:
            text = loosened(lines[start:end])
            if len(text) >= SHORTEST:
                span_by_digest.setdefault(self._digest(text), (start, end))
        return span_by_digest

    def _digest(self, line: str) -> int:
        without_space = "".join(line.split()).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(without_space, digest_size=_DIGEST_BYTES, key=self._key).digest()
        number = int.from_bytes(digest, "big")
        self._digest_by_line[line] = number
        return number


def split_git_lines(text: str) -> list[str]:
    """Lines as git counts them."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _surroundings(spans: Iterable[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """The parts of a text of this length in which a bracket around one of the spans can stand."""
    low = high = 0
    for first, last in spans:
        if first - MAX_SPAN > high:
            if low < high:
                yield low, high
            low = first - MAX_SPAN
        high = min(last + MAX_SPAN, length)
    yield low, high


class WriteLog:
    """Makes the lines of writes.jsonl, of the events that are folded at once."""

    def __init__(self, digests: LineDigests | None, redact: Callable[[Any], Any]) -> None:
        """`digests`: None if the clone has no key; then no states are stored. `redact` takes any
        JSON.
        """
        self._digests = digests
        self._redact = redact
        self._last_lines: dict[str, DigestedLines] = {}
        """By path the file's lines after the last write."""
        self._remembered_lines = 0
        """How many lines `_last_lines` has."""
        self._last_call: dict[str, str] = {}
        self._redacted_call: Any = {}

    def line(self, write: FileWrite, at: datetime) -> bytes:
        """The write as a line."""
        call = {"tool": write.tool, "tool_use_id": write.tool_use_id}
        if call != self._last_call:  # one call may write many files
            self._last_call = call
            self._redacted_call = self._redact(call)
        fields = {
            "ts": at,
            **self._redacted_call,
            **self._redact({"path": write.path}),
            "blobs": tuple(sorted(write.blobs)),
        }
        if self._digests is None:
            return encode_line(plain(WriteLine(**fields, key="")))
        return encode_line(plain(self._row_with_states(fields, write, self._digests)))

    def _row_with_states(
        self, fields: Mapping[str, Any], write: FileWrite, digests: LineDigests
    ) -> WriteLine:
        before = _FileState.of(write.before, digests)
        after = _FileState.of(write.after, digests)
        settled = None
        if write.settled is not None:
            settled = _FileState.of(write.settled.decode("utf-8", "replace"), digests)
        old_lines = before.lines if before else ()
        joined: set[int] = set()
        for new_state in filter(None, (after, settled)):
            joined |= _new_loose_digests(digests, new_state, old_lines)

        last_lines = self._last_lines.get(write.path)
        base = last_lines or ()
        steps: list[Steps | None] = []
        for state in (before, after, settled):
            if state is None:
                steps.append(None)
            else:
                steps.append(compute_steps(base, state.lines))
                base = state.lines
        steps_before, steps_after, steps_settled = steps
        if settled is not None and after is not None and settled.lines == after.lines:
            steps_settled = None
        final = settled or after
        self._remember(write.path, final)
        return WriteLine(
            **fields,
            key=digests.id,
            fresh=last_lines is None,
            before=steps_before,
            after=steps_after,
            settled=steps_settled,
            same=_moved_lines(before, final) if before and final else (),
            joined=_pack_digests(sorted(joined)),
        )

    def _remember(self, path: str, state: _FileState | None) -> None:
        self._remembered_lines -= len(self._last_lines.pop(path, ()))
        if self._remembered_lines > _REMEMBERED_LINES:
            self._last_lines.clear()
            self._remembered_lines = 0
        if state is not None:
            self._last_lines[path] = state.lines
            self._remembered_lines += len(state.lines)


class _FileState(Struct, frozen=True):
    """A file's text and its lines at one time."""

    text: str
    lines: DigestedLines

    @classmethod
    def of(cls, text: str | None, digests: LineDigests) -> _FileState | None:
        """None if the text is not known, or has too many lines."""
        lines = None if text is None else digests.of_text(text)
        if text is None or lines is None:
            return None
        return cls(text, lines)


def _new_loose_digests(
    digests: LineDigests, state: _FileState, old_lines: DigestedLines
) -> set[int]:
    """Loose digests of what is in the state and was not before, but for those that its lines have
    anyway.
    """
    new_numbers: list[int] = []
    line_digests: set[int] = set()
    for number, match in enumerate(match_lines(old_lines, state.lines)):
        if match < 0:
            new_numbers.append(number)
            line_digests.add(state.lines[number])
    return digests.loose(split_git_lines(state.text), new_numbers).keys() - line_digests


def _moved_lines(before: _FileState, after: _FileState) -> tuple[tuple[int, int], ...]:
    """What `carried` finds and `match_lines` does not: numbers of lines after and before."""
    sources = carried(split_git_lines(before.text), split_git_lines(after.text))
    matches = match_lines(before.lines, after.lines)
    moved_lines = []
    for number, (source, match) in enumerate(zip(sources, matches, strict=True)):
        if source >= 0 > match:
            moved_lines.append((number, source))
    return tuple(moved_lines)


def compute_steps(old: DigestedLines, new: DigestedLines) -> Steps:
    """How `new` is made of `old`."""
    parts: list[tuple[int, int] | str] = []
    start = 0
    expected = -1
    sources = match_lines(old, new)
    for number in range(1, len(new) + 1):
        expected = sources[start] + number - start if sources[start] >= 0 else -1
        if number < len(new) and sources[number] == expected:
            continue
        if sources[start] >= 0:
            parts.append((sources[start], number - start))
        else:
            parts.append(_pack_digests(new[start:number]))
        start = number
    return tuple(parts)


def apply_steps(old: DigestedLines, steps: Steps) -> DigestedLines:
    """What `steps` was given. ValueError: the steps are not of this state."""
    lines: list[int] = []
    for step in steps:
        if isinstance(step, str):
            lines += _unpack_digests(step)
        elif step[0] >= 0 and 0 < step[1] <= len(old) - step[0]:
            lines += old[step[0] : step[0] + step[1]]
        else:
            raise ValueError("a step is outside of the state that it is of")
        if len(lines) > MAX_LINES:
            raise ValueError("it has too many lines")
    return tuple(lines)


def _pack_digests(digests: Sequence[int]) -> str:
    return base64.b64encode(struct.pack(f">{len(digests)}Q", *digests)).decode()


def _unpack_digests(text: str) -> DigestedLines:
    try:
        data = base64.b64decode(text, validate=True)
        return struct.unpack(f">{len(data) // _DIGEST_BYTES}Q", data)
    except (binascii.Error, struct.error) as error:
        raise ValueError("digests that are damaged") from error


class WriteReader:
    """Reads the lines of one writes.jsonl, in order, under the key that they should have."""

    def __init__(self, key_id: str) -> None:
        self._key_id = key_id
        self._last_states: dict[str, DigestedLines] = {}

    def write(self, line: bytes) -> StoredWrite | None:
        """The write; without states if they cannot be told. None: the line is damaged, and states
        before it are lost to those after it.
        """
        try:
            row = decode_document(WriteLine, line)
            before, after, settled = self._states(row)
            joined = frozenset(_unpack_digests(row.joined))
        except ValueError:
            self._last_states.clear()
            return None
        write = StoredWrite(
            at=row.ts,
            tool=row.tool,
            tool_use_id=row.tool_use_id,
            path=row.path,
            blobs=frozenset(row.blobs),
            before=before,
            after=after,
            settled=settled,
            same=dict(row.same),
            joined=joined,
        )
        self._last_states.pop(row.path, None)
        if write.final_lines is not None:
            self._last_states[row.path] = write.final_lines
        return write

    def _states(self, row: WriteLine) -> list[DigestedLines | None]:
        """The states before and after the write and after a formatter, each made of the last one
        that is known.
        """
        base = () if row.fresh else self._last_states.get(row.path)
        if base is None or row.key != self._key_id:
            return [None, None, None]
        states: list[DigestedLines | None] = []
        for steps in (row.before, row.after, row.settled):
            if steps is None:
                states.append(None)
            else:
                base = apply_steps(base, steps)
                states.append(base)
        return states
