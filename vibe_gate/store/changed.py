"""The changed files of a run or a turn, rebuilt from its bundle alone; contents are read when they are asked for.

`FileChange` here is what a bundle tells of a file. The domain's `FileChange` is what
git tells of one, with the hunks that judges see.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, overload

from vibe_gate.domain import paths
from vibe_gate.domain.change import REGULAR_MODE, ChangeType, Side
from vibe_gate.domain.event import MAX_EVENTS
from vibe_gate.domain.summary import ChangedFile
from vibe_gate.domain.turn import FileStats, TurnFile
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store import difference, names, patches
from vibe_gate.store.patches import Section
from vibe_gate.store.place import Place, corrupt, json_object
from vibe_gate.store.stored import StoredContent

Sides: TypeAlias = Mapping[tuple[Side, str], deque[StoredContent]]
"""By side and shown path, in the order of the files: two paths that hold secrets may be shown alike."""


@dataclass(frozen=True, slots=True)
class LineStats:
    """Lines added and deleted, and the number of hunks (`chunks`; 0 for a binary file), as git counted them."""

    added: int
    deleted: int
    chunks: int


class StoredPatch:
    """The patch of a bundle, but for its lines: read once, when the first of its files is asked about."""

    __slots__ = ("_place", "_sections")

    def __init__(self, place: Place) -> None:
        self._place = place
        self._sections: dict[tuple[str, int], Section] | None = None

    def sections(self) -> dict[tuple[str, int], Section]:
        """By path after the change (before it, if deleted), and number among those of that path, in the patch's order.

        StorageError, IntegrityError.
        """
        if self._sections is None:
            name = patch_name(self._place)
            found = patches.merged(patches.sections(line for _, line in self._place.lines(name)))
            seen: Counter[str] = Counter()
            self._sections = {}
            for section in found:
                self._sections[section.path, seen[section.path]] = section
                seen[section.path] += 1
        return self._sections

    def section(self, path: str, number: int) -> Section:
        """Of one file; of a file that the patch leaves out, one that says nothing."""
        return self.sections().get((path, number)) or Section(path, path)


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed file. Paths are as shown (`paths.quote`): safe to print, and themselves unless git would quote them.

    `before` is None for an added file, `after` for a deleted one; both may be None
    where an unfinished bundle does not have them yet. `old_path` is None but for a rename.
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
        return any(difference.is_binary(_head(side)) for side in (self.before, self.after) if side is not None)

    @overload
    def patch(self, format: Literal["unified"] = "unified") -> str: ...
    @overload
    def patch(self, format: Literal["json"]) -> dict[str, Any]: ...
    def patch(self, format: Literal["unified", "json"] = "unified") -> str | dict[str, Any]:
        r"""The file's patch, made from the two stored contents after their hashes were compared.

        "unified": `git apply` takes it, binary files included (as `GIT binary patch`).
        Bytes that are not UTF-8 are lone surrogates in it: write it with
        `patch.encode("utf-8", "surrogateescape")`, and nowhere as text with newlines translated.
        "json": `path`, `old_path`, `change_type`, `binary`, `added`, `deleted` and
        `hunks`, each with `old_start`, `old_lines`, `new_start`, `new_lines` and
        `lines` of `origin` (" ", "+" or "-"), `text` and `newline`; no hunks for a binary file.
        StorageError: a content was not kept. IntegrityError. UsageError for another format.
        """
        if format not in {"unified", "json"}:
            raise UsageError(f'A patch is "unified" or "json", not {format!r:.40}.')
        before, after = self._versions()
        if format == "unified":
            return paths.decode(patches.unified(before, after))
        old, new = before.content if before else b"", after.content if after else b""
        binary = difference.is_binary(old) or difference.is_binary(new)
        found = () if binary else difference.hunks(old, new)
        origins = [line.origin for hunk in found for line in hunk.lines]
        return {
            "path": self.path,
            "old_path": self.old_path,
            "change_type": self.change_type,
            "binary": binary,
            "added": origins.count("+"),
            "deleted": origins.count("-"),
            "hunks": patches.plain(found),
        }

    def _section(self) -> Section:
        return self._patch.section(paths.unquote(self.path), self._number)

    def _versions(self) -> tuple[patches.Version | None, patches.Version | None]:
        if (self.before is None and self.change_type != "added") or (
            self.after is None and self.change_type != "deleted"
        ):
            raise StorageError(f"The bundle does not have both contents of {self.path}.")
        section = self._section()
        new_path = paths.encode(paths.unquote(self.path))
        old_path = paths.encode(paths.unquote(self.old_path)) if self.old_path else new_path
        return (
            patches.Version(old_path, section.old_mode or REGULAR_MODE, self.before.bytes()) if self.before else None,
            patches.Version(new_path, section.mode or REGULAR_MODE, self.after.bytes()) if self.after else None,
        )


def _head(side: StoredContent) -> bytes:
    with side.stream() as file:
        return file.read(difference.BINARY_PREFIX)


def patch_name(place: Place) -> str:
    """The patch of a run or of a turn."""
    of_a_run = names.PATCH in (place.digests or ()) or place.has(names.PATCH)
    return names.PATCH if of_a_run else names.TURN_PATCH


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


def of_turn(place: Place, files: Iterable[TurnFile]) -> list[FileChange]:
    """The files of a sealed turn."""
    patch, number = StoredPatch(place), _Numbers()
    return _appliable(
        [
            FileChange(
                file.path,
                file.change_type,
                file.old_path,
                StoredContent(file.before.sha256, file.before.size, place, "before") if file.before else None,
                StoredContent(file.after.sha256, file.after.size, place, "after") if file.after else None,
                patch,
                number.of(file.path),
            )
            for file in files
        ]
    )


def of_run(place: Place, files: Iterable[ChangedFile]) -> list[FileChange]:
    """The files of a sealed run's change; its event log says which content each has."""
    sides, patch, number = written_sides(place), StoredPatch(place), _Numbers()
    return _appliable(
        [
            _with_sides((patch, number.of(file.path)), sides, file.path, file.change_type, file.old_path)
            for file in files
        ]
    )


def of_unfinished(place: Place) -> list[FileChange]:
    """As far as the patch and the event log of an unfinished bundle tell."""
    sides, patch = written_sides(place), StoredPatch(place)
    return _appliable(
        [
            _with_sides(
                (patch, number),
                sides,
                paths.quote(section.path),
                section.change_type,
                paths.quote(section.old_path) if section.change_type == "renamed" else None,
            )
            for (_, number), section in patch.sections().items()
        ]
    )


class _Numbers:
    """Counts the files of each path."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def of(self, path: str) -> int:
        self._seen[path] += 1
        return self._seen[path] - 1


def _with_sides(
    patch: tuple[StoredPatch, int], sides: Sides, path: str, change_type: ChangeType, old_path: str | None
) -> FileChange:
    before = _next(sides, ("before", old_path or path)) if change_type != "added" else None
    after = _next(sides, ("after", path)) if change_type != "deleted" else None
    return FileChange(path, change_type, old_path, before, after, *patch)


def _next(sides: Sides, which: tuple[Side, str]) -> StoredContent | None:
    """The content of the next file of that path: they were written in the order of the files."""
    left = sides.get(which)
    return left.popleft() if left else None


def written_sides(place: Place) -> dict[tuple[Side, str], deque[StoredContent]]:
    """The contents that a run's event log names, by side and shown path. StorageError, IntegrityError."""
    found: dict[tuple[Side, str], deque[StoredContent]] = {}
    for number, (_, line) in enumerate(place.lines(names.EVENTS)):
        if number >= MAX_EVENTS:
            raise corrupt(place.path(names.EVENTS), f"it has more than {MAX_EVENTS:,} events")
        if b'"artifact.written"' not in line:
            continue
        data = place.parsed(names.EVENTS, line, json_object).get("data")
        if not isinstance(data, dict):
            continue
        match data:
            case {"side": "before" | "after" as side, "path": str(path), "sha256": str(sha256), "size": int(size)}:
                found.setdefault((side, path), deque()).append(StoredContent(sha256, size, place, side))
    return found
