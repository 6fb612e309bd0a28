"""Objects and trees: the user's to read, a scratch folder of our own to write.

Reading goes through one `git cat-file --batch`. Git itself writes new objects to the scratch folder, with the user's
as alternates. `bare` is git in that folder: a repository that has all these objects, and no refs, no configuration
and no attributes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

from vibe_gate import scratch
from vibe_gate.domain import paths
from vibe_gate.domain.change import LARGEST_READ, SUBMODULE_MODE, SYMLINK_MODE, TREE_MODE
from vibe_gate.errors import InfrastructureError, IntegrityError, RevisionError
from vibe_gate.git.program import Program

_ID_BYTES = 20
_REMEMBERED = 10_000  # commits: their tree, parents and people are asked for one by one
_ASKED_AT_ONCE = 64  # ids fit into the pipe, so that git reads them all before anybody reads its answers
_PIECE = 1 << 20  # bytes of a large content that are in memory together
_CONFIG = f"[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tbigFileThreshold = {LARGEST_READ}\n"
"""Git calls a file above `bigFileThreshold` binary without reading it."""


class Object(Struct, frozen=True):
    """An object: its id, its kind ("commit", "tree", "blob", "tag"), its content."""

    id: str
    kind: str
    data: bytes


class Objects:
    """The objects of one repository (its own are in `objects`). `folder` is the scratch folder, deleted by `close`."""

    def __init__(self, git: Program, objects: Path) -> None:
        environ = git.environ
        parent = Path(environ.get("TMPDIR") or "/tmp").absolute()  # noqa: S108 (a random name below it)
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="vibe-gate-", dir=parent))
            self._claim = scratch.claim(self.folder)
        except OSError as error:
            raise InfrastructureError(f"no folder can be made in {parent}: {error.strerror}.") from error
        for name in ("objects/info", "objects/pack", "refs"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "HEAD").write_text("ref: refs/heads/none\n")
        (self.folder / "config").write_text(_CONFIG)
        self.alternates = [
            os.fspath(objects),
            *_alternates(environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "")),
        ]
        self.environ = {
            "GIT_OBJECT_DIRECTORY": os.fspath(self.folder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(map(alternates_entry, self.alternates)),
        }
        self.bare = git.bare(self.folder, self.environ)
        self._git = git
        self._reader: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._commits: dict[str, Object] = {}

    def close(self) -> None:
        """Delete the scratch folder; nothing can be read any more."""
        self._stop()
        shutil.rmtree(self.folder)
        os.close(self._claim)

    def borrow(self, objects: Path) -> None:
        """Read from another folder of objects, too."""
        with self._lock:
            self.alternates.append(os.fspath(objects))
            listed = ":".join(map(alternates_entry, self.alternates))
            self.environ["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = listed
            self.bare.environ["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = listed
            self._stop()  # git reads the list when it starts

    def read(self, name: str) -> Object:
        """An object by its full id.

        InfrastructureError if it is missing or larger than LARGEST_READ, IntegrityError if what is stored under its id
        is something else.
        """
        found = self.find(name)
        if found is None:
            raise _missing(name)
        return found

    def digest(self, blob: str, size: int) -> str:
        """The sha-256 of a blob of `size` bytes, in hex; its content is read in pieces. Raises what `read` does."""
        process = self.bare.start("cat-file", "blob", blob)
        assert process.stdout is not None
        sha1 = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        sha256 = hashlib.sha256()
        while piece := process.stdout.read(_PIECE):
            sha1.update(piece)
            sha256.update(piece)
        process.communicate()
        if process.returncode:
            raise _missing(blob)
        if sha1.hexdigest() != blob:
            raise _damaged(blob)
        return sha256.hexdigest()

    def read_start(self, blob: str, length: int) -> bytes:
        """The first bytes of a blob of any size. InfrastructureError if it is missing."""
        process = self.bare.start("cat-file", "blob", blob)
        assert process.stdout is not None
        start = process.stdout.read(length)
        process.kill()  # git is writing the rest, unless that was all
        process.communicate()
        if not start and process.returncode > 0:
            raise _missing(blob)
        return start

    def find(self, revision: str) -> Object | None:
        """What a revision names, by git's own grammar; None if it names nothing. It holds no newline."""
        if known := self._commits.get(revision.removesuffix("^{commit}")):
            return known
        with self._lock:
            found = self._answer(self._ask([revision]), revision)
        return found and self._checked(found)

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Contents by full id, asked for at once: names and contents must fit into memory. Raises what `read` does."""
        found: dict[str, Object | None] = {}
        contents: dict[str, bytes] = {}
        with self._lock:
            for start in range(0, len(names), _ASKED_AT_ONCE):
                some = names[start : start + _ASKED_AT_ONCE]
                out = self._ask(some)
                found |= {name: self._answer(out, name) for name in some}
        for name, one in found.items():
            if one is None:
                raise _missing(name)
            contents[name] = self._checked(one).data
        return contents

    def sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Sizes of objects in bytes, by id. RevisionError if one is missing."""
        ids = dict.fromkeys(names)
        sizes = self.known_sizes(ids)
        missing = next((name for name in ids if name not in sizes), None)
        if missing:
            raise RevisionError(f"Object {missing} is missing here; fetch it first.")
        return sizes

    def known_sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Sizes of objects in bytes, by id, without those that are missing or damaged."""
        lines = "".join(f"{name}\n" for name in dict.fromkeys(names))
        done = self.bare.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=lines.encode())
        pairs = [line.split(" ", 1) for line in done.line.split("\n") if line]
        return {name: int(size) for name, size in pairs if size.isdecimal()}

    def _checked(self, found: Object) -> Object:
        """The object; IntegrityError if it is not what its id says: git believes a file by its name."""
        digest = hashlib.sha1(b"%s %d\0" % (found.kind.encode(), len(found.data)), usedforsecurity=False)
        digest.update(found.data)
        if digest.hexdigest() != found.id:
            raise _damaged(found.id)
        if found.kind == "commit" and len(self._commits) < _REMEMBERED:
            self._commits[found.id] = found
        return found

    def _ask(self, names: Sequence[str]) -> IO[bytes]:
        """Ask git for objects; what comes back gives its answers in the same order."""
        if self._reader is None:
            self._reader = self._git.start("cat-file", "--batch", reads=True, environ=self.environ)
        reader = self._reader
        assert reader.stdin is not None
        assert reader.stdout is not None
        with suppress(BrokenPipeError):  # what it says before it ends is read all the same: nothing
            reader.stdin.write("".join(f"{name}\n" for name in names).encode())
            reader.stdin.flush()
        return reader.stdout

    def _answer(self, out: IO[bytes], name: str) -> Object | None:
        """What git says next, about this name: id, kind and size, then the content; None if there is no such object."""
        line = out.readline()
        if not line:  # git ended: that says nothing about the object
            raise InfrastructureError(f"git could not be asked for the object {name}: run `git fsck`.")
        fields = line.split()
        if len(fields) != 3 or line.endswith((b" missing\n", b" ambiguous\n")):
            return None
        object_id, kind, size = fields[0].decode("ascii"), fields[1].decode("ascii"), int(fields[2])
        if size > LARGEST_READ:
            self._stop()  # its content comes next, and is not read
            raise InfrastructureError(
                f"the {kind} {object_id} has {size:,} bytes; at most {LARGEST_READ:,} are read into memory."
            )
        return Object(object_id, kind, out.read(size + 1)[:-1])

    def _stop(self) -> None:
        if self._reader is not None:
            self._reader.kill()
            self._reader.communicate()
            self._reader = None


def _missing(name: str) -> InfrastructureError:
    return InfrastructureError(f"the object {name} is missing or damaged in this repository: run `git fsck`.")


def _damaged(name: str) -> IntegrityError:
    return IntegrityError(f"The object {name} is damaged; run `git fsck`.")


def _alternates(value: str) -> list[str]:
    """The folders of GIT_ALTERNATE_OBJECT_DIRECTORIES; the quoted form, for odd paths, is left out."""
    return [path for path in value.split(":") if path and not path.startswith('"')]


def alternates_entry(path: str) -> str:
    """A path as an entry of GIT_ALTERNATE_OBJECT_DIRECTORIES or of info/alternates."""
    if not any(char in path for char in ':"\n') and not path.startswith("#"):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class TreeEntry(Struct, frozen=True):
    """What a tree says under one name."""

    mode: int
    id: str

    @property
    def is_tree(self) -> bool:
        """A folder."""
        return self.mode == TREE_MODE

    @property
    def is_regular(self) -> bool:
        """A file with content of its own: no link, no folder, no submodule."""
        return self.mode not in (TREE_MODE, SYMLINK_MODE, SUBMODULE_MODE)


def parse(raw: bytes) -> dict[bytes, TreeEntry]:
    """A tree object's entries by name. InfrastructureError if the object is not one that git writes."""
    entries: dict[bytes, TreeEntry] = {}
    at = 0
    try:
        while at < len(raw):
            space = raw.index(b" ", at)
            end = raw.index(0, space)
            name = raw[space + 1 : end]
            if name in entries or b"/" in name:  # one of them would hide from every reader
                raise ValueError
            entries[name] = TreeEntry(int(raw[at:space], 8), raw[end + 1 : end + 1 + _ID_BYTES].hex())
            at = end + 1 + _ID_BYTES
    except ValueError as error:
        raise InfrastructureError("a tree of this repository is malformed: `git fsck` says more.") from error
    return entries


class Tree:
    """A tree read as blobs, never from disk, never through symlinks."""

    def __init__(self, objects: Objects, tree: str) -> None:
        self.id = tree
        self._objects = objects
        self._parsed: dict[str, dict[bytes, TreeEntry]] = {}

    def read(self, path: str) -> bytes | None:
        """Content of the regular file at `path`; None if there is none (a folder, a link, nothing)."""
        entry = self.entry(paths.encode(path))
        if entry is None or not entry.is_regular:
            return None
        return self._objects.read(entry.id).data

    def links(self, prefix: str, *, without: str = "") -> list[str]:
        """Paths of symbolic links and submodules at `prefix` or below ("" for all), sorted.

        `without`: a folder below which nothing is looked for, nor read.
        """
        folder = paths.encode(prefix.strip("/"))
        entry = self.entry(folder) if folder else TreeEntry(TREE_MODE, self.id)
        if entry is None:
            return []
        if not entry.is_tree:
            return [] if entry.is_regular else [prefix.strip("/")]
        found = self.walk(entry.id, folder + b"/" if folder else b"", paths.encode(without))
        return sorted(paths.decode(path) for path, below in found if not below.is_regular)

    def list(self, prefix: str, *, without: str = "") -> list[str]:
        """Paths of the regular files in the folder `prefix` and below ("" for all), sorted; `without` as in `links`."""
        folder = paths.encode(prefix.strip("/"))
        entry = TreeEntry(TREE_MODE, self.id) if not folder else self.entry(folder)
        if entry is None or not entry.is_tree:
            return []
        start = folder + b"/" if folder else b""
        below = self.walk(entry.id, start, paths.encode(without))
        return sorted(paths.decode(path) for path, found in below if found.is_regular)

    def entry(self, path: bytes) -> TreeEntry | None:
        """What the tree says at a path, whatever it is."""
        found = TreeEntry(TREE_MODE, self.id)
        for name in path.split(b"/"):
            if not found.is_tree:
                return None
            step = self.entries(found.id).get(name)
            if step is None:
                return None
            found = step
        return found

    def entries(self, tree: str) -> dict[bytes, TreeEntry]:
        """The entries of the tree or of one below it, by name."""
        if tree not in self._parsed:
            self._parsed[tree] = parse(self._objects.read(tree).data)
        return self._parsed[tree]

    def walk(self, tree: str, start: bytes = b"", without: bytes = b"") -> Iterator[tuple[bytes, TreeEntry]]:
        """Every entry below a tree that is no folder, in git's order; paths begin with `start`.

        The folder `without` is not read, and counts as empty.
        """
        left_out = without + b"/" if without else None
        waiting = [iter([(start, TreeEntry(TREE_MODE, tree))])]
        while waiting:  # no recursion: a hostile tree may nest deeper than Python's stack
            path, entry = next(waiting[-1], (b"", None))
            if entry is None:
                waiting.pop()
            elif path == left_out:
                continue
            elif entry.is_tree:
                below = parse(self._objects.read(entry.id).data).items()
                waiting.append(iter([(path + name + b"/" * found.is_tree, found) for name, found in below]))
            else:
                yield path, entry
