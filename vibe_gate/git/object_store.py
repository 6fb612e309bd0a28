"""Objects: the user's to read, a scratch folder of our own to write.

The scratch folder is a bare repository that has the user's objects and its own, and no refs, no
configuration and no attributes. libgit2 reads there, through pygit2; git itself writes there, with
the user's objects as alternates.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate import scratch
from vibe_gate.domain import paths
from vibe_gate.domain.change import LARGEST_READ
from vibe_gate.errors import InfrastructureError
from vibe_gate.git.git_object import damaged_object, missing_object
from vibe_gate.git.program import Program

if TYPE_CHECKING:
    from vibe_gate.git.database import ObjectDatabase

_PIECE = 1 << 20  # bytes of a large content that are in memory together
_CONFIG = f"""\
[core]
\trepositoryformatversion = 0
\tbare = true
\tabbrev = 40
\tbigFileThreshold = {LARGEST_READ}
"""
"""libgit2 writes ids of binary files in patches by `abbrev`. Git calls a file above
`bigFileThreshold` binary without reading it.
"""

_ALTERNATES_VARIABLE = "GIT_ALTERNATE_OBJECT_DIRECTORIES"

_ALTERNATE = "alternate: "
"""What `git count-objects -v` begins the line of a borrowed folder with."""


class Objects:
    """The objects of one repository (its own are in `objects`). `folder` is the scratch folder,
    deleted by `close`.
    """

    def __init__(self, git: Program, objects: Path) -> None:
        variables = git.child_environment
        parent = Path(variables.get("TMPDIR") or "/tmp").absolute()  # noqa: S108 (a random name below it)
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="vibe-gate-", dir=parent))
            self._claim = scratch.claim(self.folder)
        except OSError as error:
            raise InfrastructureError(
                f"no folder can be made in {parent}: {error.strerror}."
            ) from error
        self._write_bare_repository()
        user_alternates = _alternates(variables.get(_ALTERNATES_VARIABLE, ""))
        self.alternates = [os.fspath(objects), *user_alternates]
        self.variables = {
            "GIT_OBJECT_DIRECTORY": os.fspath(self.folder / "objects"),
            _ALTERNATES_VARIABLE: self._alternates_entries(),
        }
        self.bare = git.bare(self.folder, self.variables)
        self.patch_ids: dict[str, str] = {}
        """The patch-ids of texts that git was asked about, by the texts' sha-1."""

    def _write_bare_repository(self) -> None:
        for name in ("objects/info", "objects/pack", "refs"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "HEAD").write_text("ref: refs/heads/none\n")
        (self.folder / "config").write_text(_CONFIG)

    def _alternates_entries(self) -> str:
        """The borrowed folders as a value of GIT_ALTERNATE_OBJECT_DIRECTORIES."""
        return ":".join(alternates_entry(folder) for folder in self.alternates)

    @cached_property
    def database(self) -> ObjectDatabase:
        """What libgit2 reads and writes, opened when the first object is wanted."""
        # Loading pygit2 takes longer than a command without objects.
        from vibe_gate.git.database import ObjectDatabase

        return ObjectDatabase(self.folder, self._object_folders())

    def close(self) -> None:
        """Delete the scratch folder; nothing can be read any more."""
        shutil.rmtree(self.folder)
        os.close(self._claim)

    def borrow(self, objects: Path) -> None:
        """Read from another folder of objects, too."""
        self.alternates.append(os.fspath(objects))
        entries = self._alternates_entries()
        self.variables[_ALTERNATES_VARIABLE] = entries
        self.bare.child_environment[_ALTERNATES_VARIABLE] = entries
        if "database" in self.__dict__:
            self.database.add_folder(os.fspath(objects))

    def digest(self, blob: str, size: int) -> str:
        """The sha-256 of a blob of `size` bytes, in hex. Raises what `read` does, for a blob of any
        size.

        Git reads it, in pieces: libgit2 has it in memory as a whole.
        """
        process = self.bare.start("cat-file", "blob", blob)
        assert process.stdout is not None  # a pipe
        sha1 = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        sha256 = hashlib.sha256()
        while piece := process.stdout.read(_PIECE):
            sha1.update(piece)
            sha256.update(piece)
        process.communicate()
        if process.returncode:
            raise missing_object(blob)
        if sha1.hexdigest() != blob:
            raise damaged_object(blob)
        return sha256.hexdigest()

    def read_start(self, blob: str, length: int) -> bytes:
        """The first bytes of a blob of any size, read by git. InfrastructureError if it is
        missing.
        """
        process = self.bare.start("cat-file", "blob", blob)
        assert process.stdout is not None
        start = process.stdout.read(length)
        process.kill()  # git is writing the rest, unless that was all
        process.communicate()
        if not start and process.returncode > 0:
            raise missing_object(blob)
        return start

    def _object_folders(self) -> list[str]:
        """The folders of objects that git would read, those that they borrow from included."""
        borrows = any(os.path.exists(f"{folder}/info/alternates") for folder in self.alternates)  # noqa: PTH110
        if not borrows:
            return self.alternates
        folders = []
        for line in self.bare.run("count-objects", "-v").line.split("\n"):
            if line.startswith(_ALTERNATE):
                folders.append(paths.unquote(line.removeprefix(_ALTERNATE)))
        return folders


def _alternates(value: str) -> list[str]:
    """The folders of GIT_ALTERNATE_OBJECT_DIRECTORIES; the quoted form, for odd paths, is left
    out.
    """
    return [path for path in value.split(":") if path and not path.startswith('"')]


def alternates_entry(path: str) -> str:
    """A path as an entry of GIT_ALTERNATE_OBJECT_DIRECTORIES or of info/alternates."""
    needs_quotes = path.startswith("#") or any(char in path for char in ':"\n')
    if not needs_quotes:
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
