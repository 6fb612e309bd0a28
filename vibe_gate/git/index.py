"""The index file, read as bytes: its flags and extensions, and what is staged in it.

Only two things are asked of the raw file, both in one quick pass: whether it is of a kind
that libgit2 cannot read, and which entries carry a flag that hides edits from `git status`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from vibe_gate.domain import paths
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.git.program import Program

SPLIT = b"link"
SPARSE = b"sdir"

_HEADER = 12
_FLAGS_AT = 60  # of an entry: ten 4-byte stat fields and a 20-byte id come before
_ASSUME_VALID = 0x80
_EXTENDED = 0x40
_SKIP_WORKTREE = 0x40  # of the extended flags' first byte
_TRAILER = 20


class Flags(NamedTuple):
    """Paths whose edits `git status` does not look at. One with both flags counts as skip_worktree."""

    assume_unchanged: tuple[bytes, ...] = ()
    skip_worktree: tuple[bytes, ...] = ()


class Facts(NamedTuple):
    """What one pass over the index file shows. `extensions`: those of SPLIT and SPARSE that are there."""

    flags: Flags = Flags()
    extensions: frozenset[bytes] = frozenset()


def facts(file: Path) -> Facts:
    """Read the index file; an absent one is an empty index. 11 ms for 100,000 entries."""
    data = _read(file)
    if data is None:
        return Facts()
    flags, position = _walk(data, file)
    found = set()
    while position + 8 <= len(data) - _TRAILER:
        found.add(data[position : position + 4])
        position += 8 + int.from_bytes(data[position + 4 : position + 8], "big")
    return Facts(flags, frozenset(found & {SPLIT, SPARSE}))


def _read(file: Path) -> bytes | None:
    try:
        with file.open("rb") as stream:
            data = stream.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InfrastructureError(f"the index {paths.quote(str(file))} cannot be read: {error.strerror}.") from error
    if not data:
        return None  # git takes an empty file for an empty index
    if len(data) < _HEADER + _TRAILER or data[:4] != b"DIRC" or not 2 <= data[7] <= 4:
        raise _broken(file)
    return data


def _broken(file: Path) -> InfrastructureError:
    return InfrastructureError(f"the index {paths.quote(str(file))} is damaged: `git status` says how to go on.")


def _walk(data: bytes, file: Path) -> tuple[Flags, int]:
    """The flagged paths, and where the extensions begin."""
    count = int.from_bytes(data[8:12], "big")
    try:
        return _walk_compressed(data, count) if data[7] == 4 else _walk_padded(data, count)
    except (IndexError, ValueError) as error:
        raise _broken(file) from error


def _walk_padded(data: bytes, count: int) -> tuple[Flags, int]:
    """Versions 2 and 3: each entry ends with its name and one to eight NULs, at a multiple of eight."""
    assumed: list[bytes] = []
    skipped: list[bytes] = []
    at = _HEADER + _FLAGS_AT
    for _ in range(count):
        high = data[at]
        length = (high & 0x0F) << 8 | data[at + 1]
        if high < _EXTENDED and length < 0xFFF:  # nearly every entry
            at += (length + 70) & ~7
            continue
        extended = 2 if high & _EXTENDED else 0
        start = at + 2 + extended
        end = data.index(0, start)
        if extended and data[at + 2] & _SKIP_WORKTREE:
            skipped.append(data[start:end])
        elif high & _ASSUME_VALID:
            assumed.append(data[start:end])
        at += (end - start + extended + 70) & ~7
    return Flags(tuple(assumed), tuple(skipped)), at - _FLAGS_AT


def _walk_compressed(data: bytes, count: int) -> tuple[Flags, int]:
    """Version 4: a name is given by how much to cut off the one before, and what follows."""
    assumed: list[bytes] = []
    skipped: list[bytes] = []
    name = b""
    at = _HEADER + _FLAGS_AT
    for _ in range(count):
        high = data[at]
        extended = 2 if high & _EXTENDED else 0
        cut, start = _offset_number(data, at + 2 + extended)
        end = data.index(0, start)
        name = name[: len(name) - cut] + data[start:end]
        if extended and data[at + 2] & _SKIP_WORKTREE:
            skipped.append(name)
        elif high & _ASSUME_VALID:
            assumed.append(name)
        at = end + 1 + _FLAGS_AT
    return Flags(tuple(assumed), tuple(skipped)), at - _FLAGS_AT


def _offset_number(data: bytes, at: int) -> tuple[int, int]:
    """Git's variable-length number at `at`, and where it ends."""
    byte = data[at]
    value = byte & 0x7F
    at += 1
    while byte & 0x80:
        byte = data[at]
        value = (value + 1) << 7 | byte & 0x7F
        at += 1
    return value, at


class Staged(NamedTuple):
    """One path whose index entry differs from a tree's. `entry` None: not in the index."""

    path: bytes
    entry: tuple[int, str] | None


def staged(git: Program, tree: str) -> list[Staged]:
    """How the index that git means differs from `tree`; mode and blob id per path.

    Entries that are only an intent to add are none, as for `git commit`. UsageError when a
    conflict is unresolved.
    """
    done = git.run("diff-index", "--cached", "--raw", "-z", "--no-renames", "--full-index", "--no-abbrev",
                   "--ignore-submodules=dirty", "--ita-invisible-in-index", tree, "--")  # fmt: skip
    if done.code:
        raise InfrastructureError(f"git could not read the index: {done.err.removeprefix('fatal: ')}.")
    fields = done.out.split(b"\0")[:-1]
    found = []
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        _, mode, _, blob, status = about.decode("ascii").split(" ")
        if status == "U":
            raise UsageError(
                f"{paths.quote(paths.decode(path))} has an unresolved conflict, so nothing can be committed "
                "from this index yet: resolve it and `git add` it."
            )
        found.append(Staged(path, None if status == "D" else (int(mode, 8), blob)))
    return found
