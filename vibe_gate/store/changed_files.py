"""The changed files of a sealed run or turn, by its bundle alone; contents and patches are read on
request.

`FileChange` here is what a bundle says of a file: one section of the stored patch, and the two
stored contents. The domain's `FileChange` is what git says of one, with the hunks that judges see.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO, Literal, TypeAlias, overload

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import patch as patches
from vibe_gate.domain import paths
from vibe_gate.domain.agent import EDITING_TOOLS
from vibe_gate.domain.change import LARGEST_CONTENT, SIDES, ChangeType, Hunk, Side
from vibe_gate.domain.document import read_text_of
from vibe_gate.domain.escape import list_names
from vibe_gate.domain.summary import ChangedFile
from vibe_gate.domain.turn import Content, ListedFiles, TurnFile
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_events import CapturedCall, Tools
from vibe_gate.store.bundle_location import (
    BundleLocation,
    corrupt_bundle_error,
    open_bundle_folder,
    unreadable_bundle_error,
)
from vibe_gate.store.contents import open_content
from vibe_gate.store.turn_summary import FileStats, TurnSummary, count_changes

_SUFFIXES = (".txt", ".txt.gz", ".bin", ".bin.gz")
SHA256 = re.compile(r"[0-9a-f]{64}")
_BINARY = re.compile(rb"^(?:GIT binary patch|Binary files .* differ)$", re.MULTILINE)


class StoredContent(Struct, frozen=True):
    """One side of a changed file, and the way to its bytes.

    Hash and size are those of the stored, redacted bytes; of the file's own if it was larger than
    10,000,000 bytes, for then nothing else of it was kept (`has_bytes` is false).
    """

    sha256: str
    """In hex."""
    size: int
    """Bytes."""
    _bundle: BundleLocation
    _side: Side

    @property
    def has_bytes(self) -> bool:
        """Whether the bundle has the bytes."""
        return self.size <= LARGEST_CONTENT

    def text(self) -> str:
        """The content as UTF-8; invalid bytes become U+FFFD. StorageError, IntegrityError."""
        return self.bytes().decode("utf-8", "replace")

    def bytes(self) -> bytes:
        """The content, after its hash was compared. StorageError, IntegrityError."""
        with self.stream() as stream:
            return stream.read()

    def stream(self) -> BinaryIO:
        """The content as an open binary file, after its hash was compared; a piece of it is in
        memory. StorageError, IntegrityError.
        """
        if not self.has_bytes:
            raise StorageError(
                f"The bundle has only hash and size of this content: {self.size:,} bytes are more than "
                f"the limit of {LARGEST_CONTENT:,}."
            )
        path = self._bundle.root / bundle_names.FILES / self._side / self.sha256
        if SHA256.fullmatch(self.sha256) is None:
            raise corrupt_bundle_error(path, "its name is not a sha-256")
        stream = open_stored_content(self._bundle, self._side, self.sha256, self.size)
        if stream is not None:
            return stream
        if self._is_outside_of_its_run():
            raise StorageError(
                "The turn's folder was copied out of its run, which has the contents of its files; "
                "copy the run's folder."
            )
        raise corrupt_bundle_error(path, "it is missing")

    def _is_outside_of_its_run(self) -> bool:
        is_in_turn = bool(self._bundle.inside)
        return not is_in_turn and not self._bundle.has(bundle_names.RUN)


_ContentsByPath: TypeAlias = dict[tuple[str, str], deque[StoredContent]]
"""By side and shown path, the contents that a run's event log names, in the order of the files."""


def open_stored_content(
    bundle: BundleLocation, side: Side, sha256: str, size: int | None = None
) -> BinaryIO | None:
    """The content of that hash, open at its beginning; None if the bundle has none. StorageError,
    IntegrityError.

    `side`: of the file; a content that files have on both sides is kept on one. `size`: if it is
    known.
    """
    places = [f"{bundle_names.FILES}/{either_side}" for either_side in SIDES]
    if bundle.inside:  # where earlier versions kept those of a turn
        places.append(f"{bundle.inside}/{bundle_names.FILES}/{side}")
    for place in places:
        name = _name_of_content(bundle, place, sha256)
        if name:
            return _open_content(bundle, place, name, size)
    return None


def _name_of_content(bundle: BundleLocation, place: str, sha256: str) -> str:
    """The file of that content in a folder of the run; "" if there is none. StorageError."""
    try:
        folder = open_bundle_folder(bundle.root).below(place)
        names = [sha256 + suffix for suffix in _SUFFIXES]
        return next((name for name in names if folder.has(name)), "")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise unreadable_bundle_error(bundle.root / place / sha256, error) from error


def _open_content(bundle: BundleLocation, place: str, name: str, size: int | None) -> BinaryIO:
    path = bundle.root / place / name
    try:
        return open_content(open_bundle_folder(bundle.root).below(place), name, size)
    except OSError as error:
        raise unreadable_bundle_error(path, error) from error
    except ValueError as error:
        raise corrupt_bundle_error(path, str(error)) from error


class StoredPatch:
    """The patch of a bundle, but for its lines: read once, when the first of its files is asked
    about.
    """

    __slots__ = ("_bundle", "_name", "_sections_by_path", "_text")

    def __init__(self, bundle: BundleLocation, name: str) -> None:
        self._bundle = bundle
        self._name = name
        self._text: BinaryIO | None = None
        """Open from the first section on: in a gzip each further one is a step ahead."""
        self._sections_by_path: dict[str, list[patches.Section]] | None = None

    def of(self, file: FileChange) -> bytes:
        """The file's section; the two halves of a changed type as one. StorageError: there is none.
        IntegrityError.
        """
        if self._sections_by_path is None:
            self._sections_by_path = self._read_sections()
        halves = 2 if file.change_type == "type_changed" else 1
        first = file._number * halves
        sections = self._sections_by_path.get(paths.unquote(file.path), [])[first : first + halves]
        if not sections:
            raise StorageError(f"The bundle has no patch of {file.path}.")
        data = b""
        whole_size = 0
        for section in sections:
            data += self._read_section(section)
            whole_size += section.end - section.start
        if len(data) != whole_size or not data.startswith(b"diff --git "):
            raise corrupt_bundle_error(
                self._bundle.path(self._name), "it changed since it was read"
            )
        return data

    def __del__(self) -> None:
        if self._text is not None:
            self._text.close()

    def _read_section(self, section: patches.Section) -> bytes:
        """Its bytes; less or others if the file changed meanwhile. StorageError."""
        if self._text is None:
            self._text = self._bundle.open_patch(self._name)
        try:
            self._text.seek(section.start)
            return self._text.read(section.end - section.start)
        except (EOFError, zlib.error):
            return b""
        except OSError as error:
            raise unreadable_bundle_error(self._bundle.path(self._name), error) from error

    def _read_sections(self) -> dict[str, list[patches.Section]]:
        whole_patch = b"".join(self._bundle.patch_lines(self._name))
        sections_by_path: dict[str, list[patches.Section]] = {}
        for section in patches.sections(whole_patch):
            sections_by_path.setdefault(section.path, []).append(section)
        return sections_by_path


def _as_json(hunk: Hunk) -> dict[str, Any]:
    """A hunk as data that JSON takes; bytes that are not UTF-8 become U+FFFD."""
    lines = []
    for line in hunk.lines:
        text = line.content.removesuffix(b"\n").decode("utf-8", "replace")
        ends_with_break = line.content.endswith(b"\n")
        lines.append({"origin": line.origin, "text": text, "newline": ends_with_break})
    return {
        "old_start": hunk.old_start,
        "old_lines": hunk.old_lines,
        "new_start": hunk.new_start,
        "new_lines": hunk.new_lines,
        "lines": lines,
    }


class EditingCalls:
    """The calls of editing tools by the files that they name: read once, when the first file is
    asked about.
    """

    __slots__ = ("_calls_by_path", "_read_tools")

    def __init__(self, read_tools: Callable[[], Tools]) -> None:
        """`read_tools`: gives the bundle's tool calls."""
        self._read_tools = read_tools
        self._calls_by_path: dict[str, list[CapturedCall]] | None = None

    def of(self, file: FileChange) -> tuple[CapturedCall, ...]:
        """Those that name the file as it was or as it is, in the order in which they started."""
        if self._calls_by_path is None:
            self._calls_by_path = _group_by_path(self._read_tools().all())
        calls = list(self._calls_by_path.get(file.path, ()))
        if file.old_path is not None:
            calls += self._calls_by_path.get(file.old_path, ())
        return tuple(sorted(calls, key=lambda call: call.started_at))


def _group_by_path(calls: Iterable[CapturedCall]) -> dict[str, list[CapturedCall]]:
    """The calls that ended well of tools that edit the file that their input names, by that file's
    shown path.
    """
    calls_by_path: dict[str, list[CapturedCall]] = {}
    tops: dict[str, str] = {}
    for call in calls:
        # No command has led elsewhere before a turn's first call.
        if call.turn not in tops:
            tops[call.turn] = call.cwd
        if not call.ok or call.name not in EDITING_TOOLS:
            continue
        named_file = _file_in_input(call.input())
        if named_file:
            absolute = os.path.normpath(os.path.join(call.cwd, named_file))  # noqa: PTH118 - a text
            path = os.path.relpath(absolute, tops[call.turn] or "/")
            calls_by_path.setdefault(paths.quote(path), []).append(call)
    return calls_by_path


def _file_in_input(tool_input: object) -> str:
    """The file that an editing tool is to change; "" if its input names none."""
    if not isinstance(tool_input, dict):
        return ""
    return read_text_of(tool_input, "file_path") or read_text_of(tool_input, "notebook_path")


class LineStats(Struct, frozen=True):
    """Lines added and deleted."""

    added: int
    deleted: int
    chunks: int
    """How many hunks; 0 for a binary file."""


class FileChange(Struct, frozen=True):
    """One changed file. Paths are as shown (`paths.quote`): safe to print, and themselves unless
    git would quote them.

    Two files whose paths hold secrets may have one path here: they are two all the same.
    """

    path: str
    change_type: ChangeType
    old_path: str | None
    """None but for a rename."""
    before: StoredContent | None
    """None for an added file."""
    after: StoredContent | None
    """None for a deleted file."""
    _patch: StoredPatch
    _number: int
    """Among the files of this path."""
    _calls: EditingCalls

    def __repr__(self) -> str:
        moved = f"{self.old_path} to " if self.old_path else ""
        return f"<FileChange {self.change_type} {moved}{self.path}>"

    def matches(self, globs: tuple[str, ...]) -> bool:
        """Whether a glob matches its name before or after, as a criterion's `paths`."""
        names = (self.path, self.old_path or self.path)
        return any(paths.matches_any_glob(paths.unquote(name), globs) for name in names)

    @property
    def calls(self) -> tuple[CapturedCall, ...]:
        """The calls of Edit, Write, MultiEdit and NotebookEdit that changed it, in the order in
        which they started; of a run, over its turns.

        What else changed a file is not told by the input of a call: no call of Bash or of an MCP
        server is here, and () does not mean that no call changed it. StorageError, IntegrityError.
        """
        return self._calls.of(self)

    @property
    def stats(self) -> LineStats:
        """Counted in the stored patch. StorageError, IntegrityError."""
        patch = self.patch("json")
        return LineStats(patch["added"], patch["deleted"], len(patch["hunks"]))

    @property
    def binary(self) -> bool:
        """Whether the stored patch shows the file as binary. StorageError, IntegrityError."""
        return _BINARY.search(self._patch.of(self)) is not None

    @overload
    def patch(self, format: Literal["unified"] = "unified") -> str: ...
    @overload
    def patch(self, format: Literal["json"]) -> dict[str, Any]: ...
    def patch(self, format: Literal["unified", "json"] = "unified") -> str | dict[str, Any]:
        r"""The file's section of the stored patch, as git wrote it.

        "unified": `git apply` takes it, binary files included (as `GIT binary patch`). Bytes that
        are not UTF-8 are lone surrogates in it: write it with `patch.encode("utf-8",
        "surrogateescape")`, and nowhere as text with newlines translated. "json": `path`,
        `old_path`, `change_type`, `binary`, `added`, `deleted` and `hunks`, each with `old_start`,
        `old_lines`, `new_start`, `new_lines` and `lines` of `origin` (" ", "+" or "-"), `text` and
        `newline`; no hunks for a binary file. StorageError: the bundle has no patch of the file.
        IntegrityError. UsageError for another format.
        """
        if format not in {"unified", "json"}:
            raise UsageError(f'A patch is "unified" or "json", not {format!r:.40}.')
        data = self._patch.of(self)
        if format == "unified":
            return paths.decode(data)
        hunks = patches.hunks(data)
        return {
            "path": self.path,
            "old_path": self.old_path,
            "change_type": self.change_type,
            "binary": self.binary,
            "added": sum(hunk.added for hunk in hunks),
            "deleted": sum(hunk.deleted for hunk in hunks),
            "hunks": [_as_json(hunk) for hunk in hunks],
        }


class Files(Struct, frozen=True):
    """The changed files; none of a bundle that was not sealed."""

    _all: tuple[FileChange, ...] = ()
    _counts: FileStats | None = None
    """Of a turn, which may have changed more than its summary lists; None: count these."""

    def __repr__(self) -> str:
        changes = list_names((f"{file.change_type} {file.path}" for file in self._all), 10)
        return f"<Files {changes or 'none changed'}>"

    def changed(self, *globs: str) -> list[FileChange]:
        """All of them, in the order of the patch; with globs, those that match one by their name
        before or after.

        Globs are `src/**`, `*.py`, as in rubrics (`paths.matches`).
        """
        if globs:
            return self.filter(globs)
        return list(self._all)

    @property
    def changed_count(self) -> int:
        """How many there are, with those that are not listed."""
        return self.stats().total

    @property
    def unlisted(self) -> int:
        """Of a turn: files beyond the 20,000 that its summary lists; its patch has them."""
        return self.changed_count - len(self._all)

    def get(self, path: str) -> FileChange | None:
        """The (first) file changed at `path` on its after side (before side, if deleted); as held
        or as shown.
        """
        names = {path, paths.quote(path)}
        return next((file for file in self._all if file.path in names), None)

    def filter(self, glob: str | Sequence[str]) -> list[FileChange]:
        """What `changed` gives for one glob, or for several; nothing for none."""
        globs = (glob,) if isinstance(glob, str) else tuple(glob)
        return [file for file in self._all if file.matches(globs)]

    def stats(self) -> FileStats:
        """Their number, by kind of change; a changed type counts as modified."""
        if self._counts is not None:
            return self._counts
        return count_changes(file.change_type for file in self._all)


def files_of_turn(bundle: BundleLocation, summary: TurnSummary, calls: EditingCalls) -> Files:
    """The files of a sealed turn."""
    files = files_of_patch(bundle, summary.files, calls, bundle_names.TURN_PATCH)
    return Files(tuple(files), summary.file_stats if summary.more_files else None)


def files_of_chain(
    bundle: BundleLocation, listed: ListedFiles, calls: EditingCalls, patch_name: str
) -> Files:
    """The files of another patch in the folder of a sealed turn."""
    files = files_of_patch(bundle, listed.files, calls, patch_name)
    counts = None
    if listed.more_files:
        counts = count_changes(file.change_type for file in files)
        counts = replace(counts, total=len(files) + listed.more_files)
    return Files(tuple(files), counts)


def files_of_patch(
    bundle: BundleLocation, files: Iterable[TurnFile], calls: EditingCalls, patch_name: str
) -> list[FileChange]:
    """The files of a patch in the folder of a sealed turn, in its order."""
    patch = StoredPatch(bundle, patch_name)
    count_by_path: Counter[str] = Counter()
    changes = []
    for file in files:
        before = _stored(file.before, bundle, "before")
        after = _stored(file.after, bundle, "after")
        number = count_by_path[file.path]
        changes.append(
            FileChange(
                file.path, file.change_type, file.old_path, before, after, patch, number, calls
            )
        )
        count_by_path[file.path] += 1
    return changes


def _stored(content: Content | None, bundle: BundleLocation, side: Side) -> StoredContent | None:
    if content is None:
        return None
    return StoredContent(content.sha256, content.size, bundle, side)


def files_of_run(
    bundle: BundleLocation, files: Iterable[ChangedFile], calls: EditingCalls
) -> Files:
    """The files of a sealed run's change; its event log says which content each has. StorageError,
    IntegrityError.
    """
    contents = _contents_by_path(bundle)
    patch = StoredPatch(bundle, bundle_names.PATCH)
    count_by_path: Counter[str] = Counter()
    changes = []
    for file in files:
        before = after = None
        if file.change_type != "added":
            before = _next_content(contents, "before", file.old_path or file.path)
        if file.change_type != "deleted":
            after = _next_content(contents, "after", file.path)
        number = count_by_path[file.path]
        changes.append(
            FileChange(
                file.path, file.change_type, file.old_path, before, after, patch, number, calls
            )
        )
        count_by_path[file.path] += 1
    return Files(tuple(changes))


def _next_content(contents: _ContentsByPath, side: Side, path: str) -> StoredContent | None:
    """Take the first content of that side and path that no file has yet; None if there is none."""
    queue = contents.get((side, path))
    return queue.popleft() if queue else None


def _contents_by_path(bundle: BundleLocation) -> _ContentsByPath:
    """The contents that a run's event log names, by side and shown path, in the order of the
    files.
    """
    contents: _ContentsByPath = {}
    for event in bundle.events():
        match event.type, event.data:
            case "artifact.written", {
                "side": "before" | "after" as side,
                "path": str(path),
                "sha256": str(sha256),
                "size": int(size),
            }:
                content = StoredContent(sha256, size, bundle, side)
                contents.setdefault((side, path), deque()).append(content)
    return contents
