"""The changed files of a run or a turn, by its bundle alone; contents and patches are read on request.

`FileChange` here is what a bundle says of a file: one section of the stored patch, and the two stored
contents. The domain's `FileChange` is what git says of one, with the hunks that judges see.
"""

from __future__ import annotations

import io
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, TypeVar, overload

from vibe_gate.domain import paths
from vibe_gate.domain.change import NO_MODE, REGULAR_MODE, ChangeType, Side
from vibe_gate.domain.summary import ChangedFile
from vibe_gate.domain.turn import FileStats, TurnFile
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store import names
from vibe_gate.store.bundle import BundleLocation, corrupt, unreadable
from vibe_gate.store.contents import LARGEST_CONTENT, digest_of, read_content

F = TypeVar("F", TurnFile, ChangedFile, "Section")

BINARY_PREFIX = 8000
"""A NUL among the first 8,000 bytes makes a content binary, as git says."""

_SUFFIXES = (".txt", ".txt.gz", ".bin", ".bin.gz")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoredContent:
    """`sha256` (hex) and `size` (bytes) of one side, and the way to its bytes.

    They are those of the stored, redacted bytes; of the file's own if it was larger
    than 10,000,000 bytes, for then nothing else of it was kept (`kept` is false).
    """

    sha256: str
    size: int
    _bundle: BundleLocation
    _side: Side

    @property
    def kept(self) -> bool:
        """Whether the bundle has the bytes."""
        return self.size <= LARGEST_CONTENT

    def text(self) -> str:
        """The content as UTF-8; invalid bytes become U+FFFD. StorageError, IntegrityError."""
        return self.bytes().decode("utf-8", "replace")

    def bytes(self) -> bytes:
        """The content, after its hash was compared. StorageError, IntegrityError."""
        if not self.kept:
            raise StorageError(
                f"The bundle has only hash and size of this content: {self.size:,} bytes are more than "
                f"the limit of {LARGEST_CONTENT:,}."
            )
        path = self._bundle.path(f"files/{self._side}/{self.sha256}")
        if _SHA256.fullmatch(self.sha256) is None:
            raise corrupt(path, "its name is not a sha-256")
        try:
            folder = self._bundle.folder().below(f"files/{self._side}")
            name = next(name for suffix in _SUFFIXES if folder.has(name := self.sha256 + suffix))
            data = read_content(folder, name)
        except (FileNotFoundError, StopIteration) as error:
            raise corrupt(path, "it is missing") from error
        except OSError as error:
            raise unreadable(path, error) from error
        if data is None or len(data) != self.size or digest_of(data) != self.sha256:
            raise corrupt(path.with_name(name), "its content does not match the size and hash that the bundle says")
        return data

    def stream(self) -> BinaryIO:
        """The content as an open binary file, after its hash was compared. StorageError, IntegrityError."""
        return io.BytesIO(self.bytes())


_SECTION = b"diff --git "
_INDEX_WITH_MODE = re.compile(rb"index [0-9a-f]+\.\.[0-9a-f]+ [0-7]{6}")
_SIX_DIGITS = re.compile(rb"[0-7]{6}")
_HUNK = re.compile(rb"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")


@dataclass(slots=True)
class Section:
    """What a stored patch says about one file, but for its lines. Paths as the program holds them.

    `start` and `size` say where the section is, in bytes.
    """

    old_path: str
    path: str
    start: int = 0
    old_mode: int = NO_MODE
    mode: int = NO_MODE
    added: int = 0
    deleted: int = 0
    chunks: int = 0
    binary: bool = False
    size: int = 0

    @property
    def change_type(self) -> ChangeType:
        """A changed type shows as two sections of one path, as in git; `merged` makes one of them."""
        if self.old_mode == NO_MODE:
            return "added"
        if self.mode == NO_MODE:
            return "deleted"
        if self.old_mode >> 12 != self.mode >> 12:
            return "type_changed"
        return "modified" if self.path == self.old_path else "renamed"


def sections(patch: Iterable[tuple[int, bytes]]) -> Iterator[Section]:
    """Of a patch by its lines and their offsets; holds one header at a time. Other text gives no sections."""
    section: Section | None = None
    in_header = False
    for offset, line in patch:
        if line.startswith(_SECTION):
            if section is not None:
                yield section
            section, in_header = _begun(line, offset), True
        elif section is not None:
            in_header = _read(section, line, in_header)
        if section is not None:
            section.size += len(line)
    if section is not None:
        yield section


def merged(found: Iterator[Section]) -> Iterator[Section]:
    """Sections with the two halves of a changed type made one."""
    held: Section | None = None
    for section in found:
        if held and _is_second_half(held, section):
            held.mode, held.added, held.chunks = section.mode, section.added, held.chunks + section.chunks
            held.binary = held.binary or section.binary
            held.size += section.size
            continue
        if held is not None:
            yield held
        held = section
    if held is not None:
        yield held


def _is_second_half(held: Section, section: Section) -> bool:
    """Of two files of one type that are shown by one path neither is half of the other."""
    gone, came = held.change_type == "deleted", section.change_type == "added"
    return gone and came and held.path == section.path and held.old_mode >> 12 != section.mode >> 12


def _begun(line: bytes, offset: int) -> Section | None:
    both = line[len(_SECTION) :].rstrip(b"\n")
    if both.startswith(b'"') or both.endswith(b'"'):
        halves = re.fullmatch(rb'("(?:[^"\\]|\\.)*"|a/.*?) ("(?:[^"\\]|\\.)*"|b/.*)', both, re.DOTALL)
        if halves is None:
            return None
        old, new = (paths.unquote(paths.decode(half)) for half in halves.groups())
        return Section(old[2:], new[2:], offset, REGULAR_MODE, REGULAR_MODE)
    if not both.startswith(b"a/") or b" b/" not in both:
        return None
    # Unquoted, the two names are equal unless a rename says otherwise further down, so they part in the middle.
    name = paths.decode(both[2 : 2 + max(0, len(both) - 5) // 2])
    return Section(name, name, offset, REGULAR_MODE, REGULAR_MODE)


def _read(section: Section, line: bytes, in_header: bool) -> bool:
    """Take one line in; whether the header goes on."""
    if line.startswith(b"@@ "):
        section.chunks += 1
        return False
    if not in_header:
        section.added += line.startswith(b"+")
        section.deleted += line.startswith(b"-")
        return False
    section.binary = section.binary or line.startswith((b"GIT binary patch", b"Binary files "))
    _read_header(section, line.rstrip(b"\n"))
    return True  # the lines of a binary patch, too: they are not lines of the file


def _read_header(section: Section, line: bytes) -> None:
    if line.startswith(b"rename from "):
        section.old_path = paths.unquote(paths.decode(line.removeprefix(b"rename from ")))
    elif line.startswith(b"rename to "):
        section.path = paths.unquote(paths.decode(line.removeprefix(b"rename to ")))
    elif line.startswith(b"new file mode "):
        section.old_mode, section.mode = NO_MODE, _mode(line)
    elif line.startswith(b"deleted file mode "):
        section.old_mode, section.mode = _mode(line), NO_MODE
    elif line.startswith(b"old mode "):
        section.old_mode = _mode(line)
    elif line.startswith(b"new mode "):
        section.mode = _mode(line)
    elif _INDEX_WITH_MODE.fullmatch(line):
        section.old_mode = section.mode = _mode(line)


def _mode(line: bytes) -> int:
    digits = line.rpartition(b" ")[2]
    return int(digits, 8) if _SIX_DIGITS.fullmatch(digits) else REGULAR_MODE


def hunks(section: bytes) -> list[dict[str, Any]]:
    """The hunks of a section as data that JSON takes; bytes that are not UTF-8 become U+FFFD."""
    found: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] | None = None  # of the hunk that is open; None in a header
    for line in io.BytesIO(section):
        head = _HUNK.match(line)
        if head:
            old, old_lines, new, new_lines = (1 if group is None else int(group) for group in head.groups())
            about = {"old_start": old, "old_lines": old_lines, "new_start": new, "new_lines": new_lines}
            lines = []
            found.append({**about, "lines": lines})
        elif line.startswith(_SECTION):
            lines = None  # the second half of a changed type
        elif lines is not None and line[:1] in {b" ", b"+", b"-"}:
            text = line[1:].removesuffix(b"\n").decode("utf-8", "replace")
            lines.append({"origin": line[:1].decode(), "text": text, "newline": True})
        elif lines and line.startswith(b"\\"):
            lines[-1]["newline"] = False
    return found


@dataclass(frozen=True, slots=True)
class LineStats:
    """Lines added and deleted, and the number of hunks (`chunks`; 0 for a binary file), as git counted them."""

    added: int
    deleted: int
    chunks: int


class StoredPatch:
    """The patch of a bundle, but for its lines: read once, when the first of its files is asked about."""

    __slots__ = ("_bundle", "_name", "_sections")

    def __init__(self, bundle: BundleLocation) -> None:
        self._bundle = bundle
        self._name = ""
        self._sections: dict[tuple[str, int], Section] | None = None

    def sections(self) -> dict[tuple[str, int], Section]:
        """By path after the change (before it, if deleted), and number among those of that path, in the patch's order.

        StorageError, IntegrityError.
        """
        if self._sections is None:
            is_run = names.PATCH in (self._bundle.digests or ()) or self._bundle.has(names.PATCH)
            self._name = names.PATCH if is_run else names.TURN_PATCH
            found = merged(sections(self._bundle.lines(self._name)))
            self._sections = {(section.path, number): section for section, number in _numbered(found)}
        return self._sections

    def section(self, path: str, number: int) -> Section:
        """Of one file; of a file that the patch leaves out, one that says nothing."""
        return self.sections().get((path, number)) or Section(path, path)

    def text(self, section: Section) -> bytes:
        """The section's bytes. StorageError: the patch has none; IntegrityError: they are something else by now."""
        if not section.size:
            raise StorageError(f"The bundle has no patch of {paths.quote(section.path)}.")
        data = self._bundle.line_at(self._name, section.start, section.size)
        if len(data) != section.size or not data.startswith(_SECTION):
            raise corrupt(self._bundle.path(self._name), "it changed since it was read")
        return data


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed file. Paths are as shown (`paths.quote`): safe to print, and themselves unless git would quote them.

    `before` is None for an added file, `after` for a deleted one; both may be None
    if an unfinished bundle does not have them yet. `old_path` is None but for a rename.
    Two files whose paths hold secrets may have one path here: they are two all the same.
    """

    path: str
    change_type: ChangeType
    old_path: str | None
    before: StoredContent | None
    after: StoredContent | None
    _patch: StoredPatch
    _number: int = 0

    @property
    def stats(self) -> LineStats:
        """Counted in the stored patch, which is read for it. StorageError, IntegrityError."""
        section = self._section()
        return LineStats(section.added, section.deleted, section.chunks)

    @property
    def binary(self) -> bool:
        """Whether the stored contents are binary, as git says. StorageError, IntegrityError."""
        return self._section().binary or any(_is_binary(side) for side in (self.before, self.after) if side is not None)

    @overload
    def patch(self, format: Literal["unified"] = "unified") -> str: ...
    @overload
    def patch(self, format: Literal["json"]) -> dict[str, Any]: ...
    def patch(self, format: Literal["unified", "json"] = "unified") -> str | dict[str, Any]:
        r"""The file's section of the stored patch, as git wrote it.

        "unified": `git apply` takes it, binary files included (as `GIT binary patch`).
        Bytes that are not UTF-8 are lone surrogates in it: write it with
        `patch.encode("utf-8", "surrogateescape")`, and nowhere as text with newlines translated.
        "json": `path`, `old_path`, `change_type`, `binary`, `added`, `deleted` and
        `hunks`, each with `old_start`, `old_lines`, `new_start`, `new_lines` and
        `lines` of `origin` (" ", "+" or "-"), `text` and `newline`; no hunks for a binary file.
        StorageError: the bundle has no patch of the file. IntegrityError. UsageError for another format.
        """
        if format not in {"unified", "json"}:
            raise UsageError(f'A patch is "unified" or "json", not {format!r:.40}.')
        section = self._section()
        data = self._patch.text(section)
        if format == "unified":
            return paths.decode(data)
        return {
            "path": self.path,
            "old_path": self.old_path,
            "change_type": self.change_type,
            "binary": section.binary,
            "added": section.added,
            "deleted": section.deleted,
            "hunks": hunks(data),
        }

    def _section(self) -> Section:
        return self._patch.section(paths.unquote(self.path), self._number)


def _is_binary(side: StoredContent) -> bool:
    return side.kept and b"\0" in side.bytes()[:BINARY_PREFIX]


class Files:
    """The changed files. Nothing is held: every call reads the bundle, so keep what you use again."""

    __slots__ = ("_load", "_stats")

    def __init__(self, load: Callable[[], list[FileChange]], stats: Callable[[], FileStats]) -> None:
        self._load = load
        self._stats = stats

    def changed(self) -> list[FileChange]:
        """All of them, in the order of the patch, but that each file's own patch applies after those before it.

        So what is gone from a folder stands before the file that took the folder's place. StorageError, IntegrityError.
        """
        return self._load()

    def get(self, path: str) -> FileChange | None:
        """The (first) file changed at `path` on its after side (before side, if deleted); as held or as shown."""
        return next((file for file in self._load() if file.path in {path, paths.quote(path)}), None)

    def filter(self, glob: str | Sequence[str]) -> list[FileChange]:
        """Those whose path matches a glob: `src/**`, `*.py`, as in rubrics (`paths.matches`)."""
        globs = (glob,) if isinstance(glob, str) else tuple(glob)
        return [file for file in self._load() if paths.matches(paths.unquote(file.path), globs)]

    def stats(self) -> FileStats:
        """Their number, by kind of change."""
        return self._stats()


def of_turn(bundle: BundleLocation, files: Iterable[TurnFile]) -> list[FileChange]:
    """The files of a sealed turn."""
    patch = StoredPatch(bundle)
    found = []
    for file, number in _numbered(files):
        before = StoredContent(file.before.sha256, file.before.size, bundle, "before") if file.before else None
        after = StoredContent(file.after.sha256, file.after.size, bundle, "after") if file.after else None
        found.append(FileChange(file.path, file.change_type, file.old_path, before, after, patch, number))
    return _appliable(found)


def of_run(bundle: BundleLocation, files: Iterable[ChangedFile]) -> list[FileChange]:
    """The files of a sealed run's change; its event log says which content each has."""
    sides, patch = _WrittenSides(bundle), StoredPatch(bundle)
    return _appliable(
        [sides.change(file.path, file.change_type, file.old_path, patch, number) for file, number in _numbered(files)]
    )


def of_unfinished(bundle: BundleLocation) -> list[FileChange]:
    """As far as the patch and the event log of an unfinished bundle tell."""
    sides, patch = _WrittenSides(bundle), StoredPatch(bundle)
    found = []
    for (_, number), section in patch.sections().items():
        kind = section.change_type
        old_path = paths.quote(section.old_path) if kind == "renamed" else None
        found.append(sides.change(paths.quote(section.path), kind, old_path, patch, number))
    return _appliable(found)


def _numbered(files: Iterable[F]) -> Iterator[tuple[F, int]]:
    """Each file with its number among those of its path: two paths that hold secrets may be shown alike."""
    seen: Counter[str] = Counter()
    for file in files:
        yield file, seen[file.path]
        seen[file.path] += 1


class _WrittenSides:
    """The contents that a run's event log names, by side and shown path, in the order of the files."""

    def __init__(self, bundle: BundleLocation) -> None:
        """StorageError, IntegrityError."""
        self._left: dict[tuple[str, str], deque[StoredContent]] = {}
        for event in bundle.events((b'"artifact.written"',)):
            match event.data:
                case {"side": "before" | "after" as side, "path": str(path), "sha256": str(sha256), "size": int(size)}:
                    content = StoredContent(sha256, size, bundle, side)
                    self._left.setdefault((side, path), deque()).append(content)

    def change(self, path: str, kind: ChangeType, old_path: str | None, patch: StoredPatch, number: int) -> FileChange:
        """The next file of that path, with its contents."""
        before = self._next("before", old_path or path) if kind != "added" else None
        after = self._next("after", path) if kind != "deleted" else None
        return FileChange(path, kind, old_path, before, after, patch, number)

    def _next(self, side: Side, path: str) -> StoredContent | None:
        left = self._left.get((side, path))
        return left.popleft() if left else None


def _appliable(files: list[FileChange]) -> list[FileChange]:
    """What is gone from below a path first, then what came there."""
    came = {paths.unquote(file.path) for file in files if file.change_type in {"added", "renamed"}}
    first: dict[str, list[FileChange]] = {}
    for file in files if came else ():
        gone = paths.unquote(file.old_path or file.path) if file.change_type in {"deleted", "renamed"} else ""
        above = next((folder for folder in _folders_of(gone) if folder in came), None)
        if above is not None and above != paths.unquote(file.path):
            first.setdefault(above, []).append(file)
    if not first:
        return files
    early = {id(file) for found in first.values() for file in found}
    ordered: list[FileChange] = []
    for file in files:
        if id(file) not in early:
            ordered += [*first.get(paths.unquote(file.path), ()), file]
    return ordered if len(ordered) == len(files) else files  # renames in a ring have no such order


def _folders_of(path: str) -> Iterator[str]:
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)
