"""The working tree as a tree id, and nothing of the user's touched.

Git does it all (`git add -A`, `git fast-import`), on a copy of the index and with new objects in
scratch. So untracked files that are not ignored are part of it, files outside a sparse checkout
stay what they are, and line endings, filters, encodings are git's. Five things differ from a plain
`git add -A`:

- Edits that a flag hides (assume-unchanged; skip-worktree if the file is there all the same) are seen: an agent
  could set one.
- Content filters that only the repository's own configuration defines do not run, because they are commands of its
  choosing; the snapshot then holds the file's raw content. The user's global configuration can
  allow them: `vibe-gate.allowLocalFilters = true`.
- Names that differ in case are two files where the disk says so, whatever `core.ignoreCase` says (`place.py`).
- Git never looks into a submodule (`git add -A` runs `git status` there, with that repository's configuration):
  its commit counts.
- Other working trees of this repository inside of this one are left out (`worktrees.py` says which they are), unless
  git tracks files below them: `git commit -a` would take these.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.escape import expression
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.git.object_store import Objects
from vibe_gate.git.program import PATTERNS, CallTimeoutError, Finished, finish
from vibe_gate.git.repository_place import Place
from vibe_gate.git.worktrees import inner_worktrees

_QUIET = (
    "-c",
    "core.sparseCheckout=false",
    "-c",
    "add.ignoreErrors=false",
    "-c",
    "advice.addEmbeddedRepo=false",
    "-c",
    "core.compression=0",
    "-c",
    "core.looseCompression=0",
    "-c",
    "core.bigFileThreshold=1",
    "-c",
    "core.fsync=none",
)
"""Contents go into one pack that lives for seconds: folders and files of loose objects take longer
than all else.
"""

_SPECS = (
    b":(top)",
    b":(top,exclude,glob).vibe-artifact[s]",
    b":(top,exclude,glob).vibe-artifact[s]/**",
)
"""Everything but the bundles. Named literally, `git add` fails if .gitignore has them: it takes
them for wanted.
"""

_GLOB_BYTE = expression(rb"[*?\[\\]")

_SPECIAL_BYTE = expression(rb'["\\\n]')
_UNUSUAL = expression(rb"\0(?!H 1(?:00644|00755|20000) )([^\0]+)")
_ARTIFACTS = expression(rb"\t(\.vibe-artifacts(?:/[^\0]*)?)\0")
"""Rows of `git ls-files -v -s`: hardly any of hundreds of thousands."""

_TRIES = 5
"""A build that runs beside takes files away between git's look at a folder and its look at the
file.
"""

_LISTING_S = 10.0
"""Seconds for the list of files that explains why git took too long to store them."""

_VANISHED = "No such file or directory"
_UNREADABLE = expression(r'open\("(.*)"\): (.*)')
_CLOSED = expression(r"could not open directory '(.*?)/?': (.*)")
_NO_COMMIT = expression(r"'(.*?)/?' does not have a commit checked out")
_SPECIAL = expression(r"(?m)^error: (.*): can only add regular files")
_CONVERSION = expression(r"filter|encod|BOM")
_UNMERGED = expression(r"(?m)^(?:error: )?(.*): unmerged \(")


class _ScratchIndex:
    """A copy of the index that git means here, for git to write to."""

    _numbers = count()

    def __init__(self, place: Place, objects: Objects) -> None:
        file = objects.folder / f"index-{next(self._numbers)}"
        _copy(place.index_file, file)
        self._git = place.git
        self._variables = {**objects.variables, **PATTERNS, "GIT_INDEX_FILE": os.fspath(file)}

    def run(self, *arguments: str, stdin: bytes | None = None) -> Finished:
        """Run git on the copy."""
        return self._git.run(*_QUIET, *arguments, stdin=stdin, variables=self._variables)

    def new_files(self) -> list[bytes]:
        """The paths that `git add -A` would store. CallTimeoutError if git cannot list them."""
        untracked = ("ls-files", "-z", "--others", "--exclude-standard")
        changed = ("diff-files", "-z", "--name-only", "--diff-filter=d")
        listed_paths: list[bytes] = []
        for command in (untracked, changed):
            process = self._git.start(*_QUIET, *command, variables=self._variables)
            listed_paths += finish(process, patience_s=_LISTING_S).out.split(b"\0")[:-1]
        return listed_paths

    def update(self, names: Sequence[bytes], *options: str) -> None:
        """Run `git update-index` with these options on the paths."""
        if names:
            _check(
                self.run(
                    "update-index",
                    *options,
                    "-z",
                    "--stdin",
                    stdin=b"".join(name + b"\0" for name in names),
                )
            )

    def write_tree(self) -> str:
        """The id of the tree that `git commit` would make of it. UsageError if a conflict is
        unresolved.
        """
        done = self.run("write-tree")
        if not done.code:
            return done.line
        if unmerged := _UNMERGED.search(done.err):
            raise UsageError(
                f"{paths.quote(unmerged[1])} has an unresolved conflict, so nothing can be committed "
                "from this index yet: resolve it and `git add` it."
            )
        raise _broken(done)


def index_tree(place: Place, objects: Objects) -> str:
    """The tree id that `git commit` would make of the index that git means here (GIT_INDEX_FILE in
    a hook).
    """
    return _ScratchIndex(place, objects).write_tree()


class WorkingTree:
    """The working tree as it is, with an index of its own, in which a second look costs less than
    the first.
    """

    def __init__(self, place: Place, objects: Objects) -> None:
        """UsageError, with the path, if something cannot be read."""
        self._place = place
        self._objects = objects
        self._index = _ScratchIndex(place, objects)
        self._odd = _odd_entries(self._index.run("ls-files", "-z", "-v", "-s"), place.root)
        self._index.update(self._odd.assumed, "--no-assume-unchanged")
        self._index.update(self._odd.skipped, "--no-skip-worktree")
        self._add()

    def tree(self, base: str) -> str:
        """Its tree id. `base` is any tree of which it keeps much."""
        listed = self._differences(base)
        return self._imported(base, listed) if listed else base

    def holds(self, tree: str) -> bool:
        """Whether the files are now those of `tree`; ignore rules and flags count as they did at
        first.
        """
        self._add()
        return not self._differences(tree)

    def _add(self) -> None:
        for _ in range(_TRIES):
            inner = inner_worktrees(self._place)
            worktrees = self._without_tracked_files(inner)
            specs = [*_SPECS, *_submodule_specs(self._odd.submodules), *_worktree_specs(worktrees)]
            added = self._run_add(specs)
            # An agent may make or remove a worktree at this moment.
            if _VANISHED not in added.err and inner == inner_worktrees(self._place):
                break
        _check(added)
        # A gitlink that is committed for a worktree stays as it is, whatever is committed in the
        # worktree.
        submodules = [path for path in self._odd.submodules if path not in worktrees]
        self._index.update(submodules, "--add", "--remove", "--replace")
        removed = [path for path in worktrees if path not in self._odd.submodules]
        self._index.update([*self._odd.artifacts, *removed], "--force-remove")

    def _run_add(self, specs: Sequence[bytes]) -> Finished:
        """Run `git add -A`. InfrastructureError, with what held it up, if it does not end."""
        options = ("-A", "--pathspec-from-file=-", "--pathspec-file-nul")
        try:
            return self._index.run("add", *options, stdin=b"\0".join(specs))
        except CallTimeoutError as error:
            raise InfrastructureError(self._explain_slow_add(error.patience_s)) from error

    def _explain_slow_add(self, patience_s: float) -> str:
        """What people can do about a `git add` that does not end."""
        fact = f"git did not store the files of the working tree within {patience_s:g} seconds"
        try:
            paths_by_size = self._sizes_of_new_files()
        except CallTimeoutError:
            return f"{fact}, and cannot list them: remove FIFOs named .gitignore or .gitattributes, then run `git status`."
        if not paths_by_size:
            return f"{fact}: run `git add -A --dry-run` to see what holds it up."
        size, path = max(paths_by_size)
        quoted_path = paths.quote(paths.decode(path))
        return f"{fact}; the largest is {quoted_path} ({size:,} bytes): add it to .gitignore, or move it away."

    def _sizes_of_new_files(self) -> list[tuple[int, bytes]]:
        sizes: list[tuple[int, bytes]] = []
        for path in self._index.new_files():
            with suppress(OSError):  # a build may have taken it away
                sizes.append((os.lstat(os.fsencode(self._place.root) + b"/" + path).st_size, path))
        return sizes

    def _without_tracked_files(self, worktrees: Sequence[bytes]) -> list[bytes]:
        """Those of the folders below which the index has no file."""
        if not worktrees:
            return []
        specs = [os.fsdecode(b":(top,literal)%s/" % path) for path in worktrees]
        listed = self._index.run("ls-files", "-z", "--", *specs)
        _check(listed)
        tracked = listed.out.split(b"\0")
        return [
            path for path in worktrees if not any(name.startswith(path + b"/") for name in tracked)
        ]

    def _differences(self, tree: str) -> bytes:
        done = self._index.run(
            "diff-index",
            "--cached",
            "--raw",
            "-z",
            "--no-renames",
            "--no-abbrev",
            "--ignore-submodules=none",
            tree,
        )
        _check(done)
        return done.out

    def _imported(self, base: str, listed: bytes) -> str:
        """The tree that `git write-tree` would make, in one pack: a file for each folder takes
        longer than all else.
        """
        fields = listed.split(b"\0")
        rows = [
            b'commit refs/heads/none\ncommitter x <x> 0 +0000\ndata 0\nM 040000 %s ""\n'
            % base.encode()
        ]
        for about, path in zip(fields[::2], fields[1::2], strict=False):
            _, mode, _, name, status = about.split(b" ")
            written = b'"%s"' % _SPECIAL_BYTE.sub(lambda match: b"\\%03o" % ord(match[0]), path)
            rows.append(
                b"D %s\n" % written if status == b"D" else b"M %s %s %s\n" % (mode, name, written)
            )
        options = ("-c", "core.compression=0", "-c", "fastimport.unpackLimit=1")
        done = self._objects.bare.run(
            *options, "fast-import", "--quiet", "--force", stdin=b"".join([*rows, b'ls ""\n'])
        )
        _check(done)
        return done.out.split()[2].decode("ascii")


class _OddEntries(Struct, frozen=True):
    """Paths of the index that `git add -A` alone would not get right."""

    assumed: list[bytes]
    skipped: list[bytes]
    submodules: list[bytes]
    artifacts: list[bytes]


def _odd_entries(listed: Finished, root: Path) -> _OddEntries:
    _check(listed)
    odd = _OddEntries([], [], [], _ARTIFACTS.findall(listed.out))
    for record in _UNUSUAL.findall(b"\0" + listed.out):
        tag, path = record[:1], record.partition(b"\t")[2]
        if tag in b"Ss" and os.path.lexists(os.fsencode(root) + b"/" + path):
            odd.skipped.append(path)
        if tag.islower() and (tag != b"s" or path in odd.skipped[-1:]):
            odd.assumed.append(path)
        if record[2:8] == b"160000":
            odd.submodules.append(path)
    return odd


def _submodule_specs(submodules: Sequence[bytes]) -> list[bytes]:
    return [b":(top,exclude,literal)%s" % path for path in submodules]


def _worktree_specs(worktrees: Sequence[bytes]) -> list[bytes]:
    """Pathspecs that leave folders out: globs, as in `_SPECS`, because of the escape at their
    beginning.
    """
    specs = []
    for path in worktrees:
        pattern = b"\\" + path[:1] + _GLOB_BYTE.sub(rb"\\\g<0>", path[1:])
        specs += [b":(top,exclude,glob)%s" % pattern, b":(top,exclude,glob)%s/**" % pattern]
    return specs


def _copy(index: Path, target: Path) -> None:
    """Copy the index with its time, by which git knows what it has to read again; nothing if there
    is none.
    """
    try:
        if index.stat().st_size:
            shutil.copy2(index, target)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InfrastructureError(
            f"the index {paths.quote(str(index))} cannot be read: {error.strerror}."
        ) from error


def _check(done: Finished) -> None:
    """Raise what git complained about, in one sentence."""
    said = done.err
    if closed := _CLOSED.search(said):
        raise UsageError(
            f"{paths.quote(closed[1])} cannot be read ({closed[2]}): a snapshot needs what is in it."
        )
    if not done.code:
        return
    if unreadable := _UNREADABLE.search(said):
        raise UsageError(
            f"{paths.quote(unreadable[1])} cannot be read ({unreadable[2]}): a snapshot needs it."
        )
    if empty := _NO_COMMIT.search(said):
        raise UsageError(
            f"{paths.quote(empty[1])} is a git repository of its own without a commit, which git cannot add: "
            "commit in it, ignore it, or remove its .git."
        )
    if special := _SPECIAL.search(said):
        raise UsageError(
            f"{paths.quote(special[1])} is tracked, and no file or link any more: remove it."
        )
    if _CONVERSION.search(said):
        raise UsageError(f"git could not convert a file as .gitattributes asks ({done.said}).")
    raise _broken(done)


def _broken(done: Finished) -> InfrastructureError:
    return InfrastructureError(
        f"git could not read the working tree or the index ({done.said}): see `git status`."
    )
