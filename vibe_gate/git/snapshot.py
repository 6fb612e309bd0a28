"""The working tree as a tree id, and nothing of the user's touched.

Git does it all, on a copy of the index and with new objects in scratch: `git add -A`, `git fast-import`. So untracked
files that are not ignored are part of it, files outside a sparse checkout stay what they are, and line endings,
filters, encodings are git's. Three things differ from a plain `git add -A`:

- Edits that a flag hides (assume-unchanged; skip-worktree if the file is there all the same) are seen: an agent
  could set one.
- Content filters that only the repository's own configuration defines do not run, because they are commands of its
  choosing; the snapshot then holds the file's raw content. The user's global configuration can allow them:
  `vibe-gate.allowLocalFilters = true`.
- Git never looks into a submodule (`git add -A` runs `git status` there, with that repository's configuration):
  its commit counts.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from vibe_gate.domain import paths
from vibe_gate.domain.change import EMPTY_TREE
from vibe_gate.domain.escape import expression
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.git.objects import Objects
from vibe_gate.git.place import Place
from vibe_gate.git.program import Finished, finish

_ARTIFACTS = b".vibe-artifacts"

_GITLINK = b"\x00\x00\xe0\x00"  # a submodule's mode, as an index file has it
_QUIET = ("-c", "core.sparseCheckout=false", "-c", "add.ignoreErrors=false", "-c", "advice.addEmbeddedRepo=false",
          "-c", "core.compression=0", "-c", "core.looseCompression=0", "-c", "core.bigFileThreshold=1",
          "-c", "core.fsync=none", "-c", "fastimport.unpackLimit=0")  # fmt: skip
"""Contents go into one pack that lives for seconds: folders and files of loose objects take longer than all else."""

_ADD = (*_QUIET, "add", "-A")
_SPECS = (":(top)", ":(top,exclude,glob).vibe-artifact[s]", ":(top,exclude,glob).vibe-artifact[s]/**")
"""Everything but the bundles. Named literally, `git add` fails if .gitignore has them: it takes them for wanted."""

_COMMIT = b"commit refs/heads/none\ncommitter x <x> 0 +0000\ndata 0\nM 040000 %s \n"
_LIST = ("ls-files", "-z", "-v", "-s")
_UNREADABLE = expression(r'open\("(.*)"\): (.*)')
_CLOSED = expression(r"could not open directory '(.*?)/?': (.*)")
_NO_COMMIT = expression(r"'(.*?)/?' does not have a commit checked out")
_SPECIAL = expression(r"(?m)^error: (.*): can only add regular files")
_CONVERSION = expression(r"filter|encod|BOM")
_UNMERGED = expression(r"(?m)^(?:error: )?(.*): unmerged \(")


class ScratchIndex:
    """A copy of the index that git means here, for git to write to."""

    _numbers = count()

    def __init__(self, place: Place, objects: Objects) -> None:
        self.file = objects.folder / f"index-{next(self._numbers)}"
        self.data = _copy(place.index_file, self.file)
        self._git = place.git
        self._environ = {**objects.environ, "GIT_INDEX_FILE": os.fspath(self.file)}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start git on the copy."""
        return self._git.start(*arguments, environ=self._environ)

    def run(self, *arguments: str, stdin: bytes | None = None) -> Finished:
        """Run git on the copy."""
        return self._git.run(*arguments, stdin=stdin, environ=self._environ)

    def write_tree(self) -> str:
        """The id of the tree that `git commit` would make of it. UsageError if a conflict is unresolved."""
        done = self.run(*_QUIET, "write-tree")
        if not done.code:
            return done.line
        if unmerged := _UNMERGED.search(done.err):
            raise UsageError(
                f"{paths.quote(unmerged[1])} has an unresolved conflict, so nothing can be committed "
                "from this index yet: resolve it and `git add` it."
            )
        raise _broken(done)


def index_tree(place: Place, objects: Objects) -> str:
    """The tree id that `git commit` would make of the index that git means here (GIT_INDEX_FILE in a hook)."""
    return ScratchIndex(place, objects).write_tree()


class Snapshot:
    """A snapshot on its way: git starts at once, unless the index has submodules."""

    def __init__(self, place: Place, objects: Objects) -> None:
        self._place = place
        self._objects = objects
        self._index = ScratchIndex(place, objects)
        self._listing = self._index.start(*_LIST)
        split = any(place.git_dir.glob("sharedindex.*"))  # then some entries are there
        guarded = split or _GITLINK in self._index.data
        self._adding = None if guarded else self._index.start(*_ADD, "--", *_SPECS)

    def stop(self) -> None:
        """Stop git if nobody needs the snapshot any more."""
        for process in filter(None, (self._listing, self._adding)):
            process.kill()
            process.communicate()

    def tree(self, base: str) -> str:
        """The tree id; `base` is HEAD's. UsageError, with the path, if something cannot be read."""
        try:
            odd = _odd_entries(finish(self._listing), self._place.root)
            if self._adding is not None and not odd.hidden and not odd.submodules:
                _check(finish(self._adding))
            else:
                self.stop()
                self._add_around(odd)
        except BaseException:  # Ctrl-C, or git held up: no process is left
            self.stop()
            raise
        if odd.artifacts:
            self._update(odd.artifacts, "--force-remove")
        return self._tree(base)

    def _tree(self, base: str) -> str:
        """The tree of the index, made from HEAD's: `git write-tree` would write every folder into a file of its own."""
        done = self._index.run("diff-index", "--cached", "-z", "--no-renames", "--ignore-submodules=dirty", base)
        _check(done)
        if not done.out:
            return base
        fields = done.out.split(b"\0")[:-1]
        edits = (_edit(about, path) for about, path in zip(fields[::2], fields[1::2], strict=True))
        stream = _COMMIT % base.encode() + b"".join(edits) + b'ls ""\n'
        made = self._objects.bare.run(*_QUIET, "fast-import", "--quiet", "--force", stdin=stream)
        _check(made)
        return made.line.split()[2].partition("\t")[0] if made.line.startswith("040000 tree ") else EMPTY_TREE

    def _add_around(self, odd: _OddEntries) -> None:
        """Clear the flags that hide edits, add everything but submodules, then these by their commits."""
        self._index = ScratchIndex(self._place, self._objects)
        self._update(odd.assumed, "--no-assume-unchanged")
        self._update(odd.skipped, "--no-skip-worktree")
        excluded = b"".join(b":(top,exclude,literal)%s\0" % path for path in odd.submodules)
        specs = b"".join(spec.encode() + b"\0" for spec in _SPECS) + excluded
        _check(self._index.run(*_ADD, "--pathspec-from-file=-", "--pathspec-file-nul", stdin=specs))
        self._update(odd.submodules, "--add", "--remove", "--replace")

    def _update(self, names: Sequence[bytes], *options: str) -> None:
        if names:
            stdin = b"".join(name + b"\0" for name in names)
            _check(self._index.run(*_QUIET, "update-index", *options, "-z", "--stdin", stdin=stdin))


def _edit(about: bytes, path: bytes) -> bytes:
    """A difference that `diff-index` lists, as `fast-import` takes it."""
    _, mode, _, name, status = about.split(b" ")
    quoted = b'"%s"' % path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b"D %s\n" % quoted if status == b"D" else b"M %s %s %s\n" % (mode, name, quoted)


class _OddEntries(NamedTuple):
    """Paths of the index that `git add -A` alone would not get right."""

    assumed: list[bytes]
    skipped: list[bytes]
    submodules: list[bytes]
    artifacts: list[bytes]

    @property
    def hidden(self) -> bool:
        """Whether a flag hides the state of some files."""
        return bool(self.assumed or self.skipped)


def _odd_entries(listed: Finished, root: Path) -> _OddEntries:
    _check(listed)
    odd = _OddEntries([], [], [], [])
    for record in listed.out.split(b"\0"):
        path = record.partition(b"\t")[2]
        tag = record[:1]
        if tag in b"Ss" and record and os.path.lexists(os.fsencode(root) + b"/" + path):
            odd.skipped.append(path)
        if tag.islower() and (tag != b"s" or path in odd.skipped[-1:]):
            odd.assumed.append(path)
        if record[2:8] == b"160000":
            odd.submodules.append(path)
        if path.partition(b"/")[0] == _ARTIFACTS:
            odd.artifacts.append(path)
    return odd


def _copy(index: Path, target: Path) -> bytes:
    """Copy the index with its time, by which git knows what it has to read again; b"" if there is none."""
    try:
        about = index.stat()
        data = index.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InfrastructureError(f"the index {paths.quote(str(index))} cannot be read: {error.strerror}.") from error
    if data:
        target.write_bytes(data)
        os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))
    return data


def _check(done: Finished) -> None:
    """Raise what git complained about, in one sentence."""
    said = done.err
    if closed := _CLOSED.search(said):
        raise UsageError(f"{paths.quote(closed[1])} cannot be read ({closed[2]}): a snapshot needs what is in it.")
    if not done.code:
        return
    if unreadable := _UNREADABLE.search(said):
        raise UsageError(f"{paths.quote(unreadable[1])} cannot be read ({unreadable[2]}): a snapshot needs it.")
    if empty := _NO_COMMIT.search(said):
        raise UsageError(
            f"{paths.quote(empty[1])} is a git repository of its own without a commit, which git cannot add: "
            "commit in it, ignore it, or remove its .git."
        )
    if special := _SPECIAL.search(said):
        raise UsageError(f"{paths.quote(special[1])} is tracked, and no file or link any more: remove it.")
    if _CONVERSION.search(said):
        raise UsageError(f"git could not convert a file as .gitattributes asks ({_shown(done)}).")
    raise _broken(done)


def _broken(done: Finished) -> InfrastructureError:
    return InfrastructureError(f"git could not read the working tree or the index ({_shown(done)}): see `git status`.")


def _shown(done: Finished) -> str:
    return paths.quote(" ".join(done.err.split()))
