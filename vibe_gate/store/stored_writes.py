"""What is kept of each write of a captured session, so that its lines can be found again: `writes.jsonl`.

No text: of each line 8 bytes of a keyed hash, white space aside. The key lies in state.db, so that nobody who has the
store alone can try what a line may have been. A file's states before and after a write are kept as differences from
the state that was known last; a reader begins anew at a line that says `fresh`.
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
from msgspec.structs import replace

from vibe_gate.domain.document import Timestamp, decode, plain
from vibe_gate.domain.matching import MAX_SPAN, SHORTEST, brackets, carried, loosened, matches
from vibe_gate.store.log import encode_line
from vibe_gate.store.writes import FileWrite

WRITES = "writes.jsonl"

FileState: TypeAlias = tuple[int, ...]
"""A file's lines, each as the number that its digest is."""

Steps: TypeAlias = tuple[tuple[int, int] | str, ...]
"""A state made of another: `[first, count]` lines of that one, or new digests in base64."""

MAX_LINES = 250_000
"""Of a file that is followed; of a longer one the ids of its blobs are kept."""

_REMEMBERED_LINES = 1_000_000
_DIGEST_BYTES = 8


class StoredWrite(Struct, frozen=True):
    """A write as it is kept. `path` as the agent gave it. `before`, `after`: the file's lines, None if not known;
    `settled`: those that a formatter made of them at once, None if it is not known that one did.

    `same`: lines that were there before and stand elsewhere, or in another form: by line of what it left, that of
    `before`. `joined`: digests of the lines, and of the brackets over several lines, that the write brought, as
    `LineDigests.loose` makes them.
    """

    at: datetime
    tool: str
    tool_use_id: str
    path: str
    blobs: frozenset[str]
    before: FileState | None
    after: FileState | None
    settled: FileState | None = None
    same: Mapping[int, int] = MappingProxyType({})
    joined: frozenset[int] = frozenset()

    @property
    def left(self) -> FileState | None:
        """The file's lines as the write left them."""
        return self.after if self.settled is None else self.settled


class _Row(Struct, frozen=True, omit_defaults=True):
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
        self._known: dict[str, int] = {}
        self.id = hashlib.blake2b(b"id", key=key, digest_size=4).hexdigest()

    def of_text(self, text: str) -> FileState | None:
        """The lines of a file; None if it has too many."""
        lines = text_lines(text)
        return self.of(lines) if len(lines) <= MAX_LINES else None

    def of(self, lines: Iterable[str]) -> FileState:
        """Of each line, white space aside."""
        if len(self._known) > _REMEMBERED_LINES:
            self._known.clear()
        known = self._known
        return tuple([known[line] if line in known else self._digest(line) for line in lines])

    def loose(self, lines: Sequence[str], numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Digests that stay when a formatter breaks lines or changes quotes, of the lines with these numbers (from 0)
        and the brackets around them: by digest the span from its first line to before the one after its last.

        Short ones, which stand everywhere, are left out.
        """
        wanted = set(numbers)
        spans = [(number, number + 1) for number in sorted(wanted)]
        for low, high in list(_around(spans, len(lines))):
            found_there = ((low + first, low + last) for first, last in brackets(lines[low:high]))
            spans += [span for span in found_there if not wanted.isdisjoint(range(*span))]
        found: dict[int, tuple[int, int]] = {}
        for start, end in spans:
            text = loosened(lines[start:end])
            if len(text) >= SHORTEST:
                found.setdefault(self._digest(text), (start, end))
        return found

    def _digest(self, line: str) -> int:
        bare = "".join(line.split()).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(bare, digest_size=_DIGEST_BYTES, key=self._key).digest()
        number = self._known[line] = int.from_bytes(digest, "big")
        return number


def _around(spans: Iterable[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """The parts of a text of this length in which a bracket around one of the spans can stand."""
    low = high = 0
    for first, last in spans:
        if first - MAX_SPAN > high:
            if low < high:
                yield low, high
            low = first - MAX_SPAN
        high = min(last + MAX_SPAN, length)
    yield low, high


def _same(
    before: FileState | None, left: FileState | None, old: str | None, new: str | None
) -> tuple[tuple[int, int], ...]:
    """What `carried` finds and `matches` does not."""
    if before is None or left is None or old is None or new is None:
        return ()
    found = carried(text_lines(old), text_lines(new))
    return tuple(
        (to, at) for to, (at, known) in enumerate(zip(found, matches(before, left), strict=True)) if at >= 0 > known
    )


def _brought(digests: LineDigests, text: str, before: FileState, after: FileState) -> set[int]:
    """Loose digests of what is in `after` and was not before, but for those that its lines have anyway."""
    numbers = [number for number, at in enumerate(matches(before, after)) if at < 0]
    return digests.loose(text_lines(text), numbers).keys() - {after[number] for number in numbers}


def text_lines(text: str) -> list[str]:
    """Lines as git counts them."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


class WriteLog:
    """Makes the lines of writes.jsonl, of the events that are folded at once. `redact` takes any JSON."""

    def __init__(self, digests: LineDigests | None, redact: Callable[[Any], Any]) -> None:
        self._digests = digests
        self._redact = redact
        self._last: dict[str, FileState] = {}
        self._remembered = 0
        """Lines of the states in `_last`."""
        self._last_call: dict[str, str] = {}
        self._redacted_call: Any = {}

    def line(self, write: FileWrite, at: datetime) -> bytes:
        """The write as a line."""
        call = {"tool": write.tool, "tool_use_id": write.tool_use_id}
        if call != self._last_call:  # one call may write many files
            self._last_call = call
            self._redacted_call = self._redact(call)
        path = self._redact({"path": write.path})
        row = _Row(ts=at, **self._redacted_call, **path, key="", blobs=tuple(sorted(write.blobs)))
        return encode_line(plain(row if self._digests is None else self._followed(row, write, self._digests)))

    def _followed(self, row: _Row, write: FileWrite, digests: LineDigests) -> _Row:
        settled_text = None if write.settled is None else write.settled.decode("utf-8", "replace")
        texts = [write.before, write.after, settled_text]
        before, after, settled = (None if text is None else digests.of_text(text) for text in texts)
        known = self._last.get(write.path)
        joined: set[int] = set()
        bases: list[FileState] = [known or ()]
        made: list[Steps | None] = []
        for text, state in zip(texts, (before, after, settled), strict=True):
            made.append(None if state is None else steps(bases[-1], state))
            bases.append(bases[-1] if state is None else state)
            if text is not None and state is not None and text is not write.before:
                joined |= _brought(digests, text, before or (), state)
        left, text = (after, write.after) if settled is None else (settled, settled_text)
        self._remember(write.path, left)
        return replace(
            row,
            key=digests.id,
            fresh=known is None,
            before=made[0],
            after=made[1],
            settled=made[2] if settled != after else None,
            same=_same(before, left, write.before, text),
            joined=_packed(sorted(joined)),
        )

    def _remember(self, path: str, after: FileState | None) -> None:
        self._remembered -= len(self._last.pop(path, ()))
        if self._remembered > _REMEMBERED_LINES:
            self._last.clear()
            self._remembered = 0
        if after is not None:
            self._last[path] = after
            self._remembered += len(after)


def steps(old: FileState, new: FileState) -> Steps:
    """How `new` is made of `old`."""
    found: list[tuple[int, int] | str] = []
    start, expected = 0, -1
    came = matches(old, new)
    for number in range(1, len(new) + 1):
        expected = came[start] + number - start if came[start] >= 0 else -1
        if number == len(new) or came[number] != expected:
            found.append((came[start], number - start) if came[start] >= 0 else _packed(new[start:number]))
            start = number
    return tuple(found)


def made_of(old: FileState, how: Steps) -> FileState:
    """What `steps` was given. ValueError: the steps are not of this state."""
    lines: list[int] = []
    for step in how:
        if isinstance(step, str):
            lines += _unpacked(step)
        elif step[0] >= 0 and 0 < step[1] <= len(old) - step[0]:
            lines += old[step[0] : step[0] + step[1]]
        else:
            raise ValueError("a step is outside of the state that it is of")
        if len(lines) > MAX_LINES:
            raise ValueError("it has too many lines")
    return tuple(lines)


def _packed(digests: Sequence[int]) -> str:
    return base64.b64encode(struct.pack(f">{len(digests)}Q", *digests)).decode()


def _unpacked(text: str) -> FileState:
    try:
        data = base64.b64decode(text, validate=True)
        return struct.unpack(f">{len(data) // _DIGEST_BYTES}Q", data)
    except (binascii.Error, struct.error) as error:
        raise ValueError("digests that are damaged") from error


class WriteReader:
    """Reads the lines of one writes.jsonl, in order, under the key that they should have."""

    def __init__(self, key_id: str) -> None:
        self._key_id = key_id
        self._last: dict[str, FileState] = {}

    def write(self, line: bytes) -> StoredWrite | None:
        """The write; without states if they cannot be told. None: the line is damaged, which ends what is known."""
        try:
            row = decode(_Row, line)
            before, after, settled = self._states(row)
            joined = frozenset(_unpacked(row.joined))
        except ValueError:
            self._last.clear()
            return None
        blobs = frozenset(row.blobs)
        made = StoredWrite(
            row.ts, row.tool, row.tool_use_id, row.path, blobs, before, after, settled, dict(row.same), joined
        )
        self._last.pop(row.path, None)
        if made.left is not None:
            self._last[row.path] = made.left
        return made

    def _states(self, row: _Row) -> list[FileState | None]:
        known = () if row.fresh else self._last.get(row.path)
        found: list[FileState | None] = []
        for how in (row.before, row.after, row.settled):
            if how is None or row.key != self._key_id or known is None:
                found.append(None)
            else:
                known = made_of(known, how)
                found.append(known)
        return found
