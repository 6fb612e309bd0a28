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
- Names that differ in case are two files where the disk says so, whatever `core.ignoreCase` says (`repository_place.py`).
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
from vibe_gate.git.repository_place import RepositoryPlace
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

    def __init__(self, place: RepositoryPlace, objects: Objects) -> None:
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
            lines = b"".join(name + b"\0" for name in names)
            _check(self.run("update-index", *options, "-z", "--stdin", stdin=lines))

    def write_tree(self) -> str:
        """The id of the tree that `git commit` would make of it. UsageError if a conflict is
        unresolved.
        """
        answer = self.run("write-tree")
        if not answer.code:
            return answer.line
        unmerged = _UNMERGED.search(answer.err)
        if unmerged:
            raise UsageError(
                f"{paths.quote(unmerged[1])} has an unresolved conflict, so nothing can be "
                "committed from this index yet: resolve it and `git add` it."
            )
        raise _unreadable(answer)


def index_tree(place: RepositoryPlace, objects: Objects) -> str:
    """The tree id that `git commit` would make of the index that git means here (GIT_INDEX_FILE in
    a hook).
    """
    return _ScratchIndex(place, objects).write_tree()


class WorkingTree:
    """The working tree as it is, with an index of its own, in which a second look costs less than
    the first.
    """

    def __init__(self, place: RepositoryPlace, objects: Objects) -> None:
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
        differences = self._differences(base)
        if differences:
            return self._import_tree(base, differences)
        return base

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
            return (
                f"{fact}, and cannot list them: remove FIFOs named .gitignore or .gitattributes, "
                "then run `git status`."
            )
        if not paths_by_size:
            return f"{fact}: run `git add -A --dry-run` to see what holds it up."
        size, path = max(paths_by_size)
        quoted_path = paths.quote(paths.decode(path))
        return (
            f"{fact}; the largest is {quoted_path} ({size:,} bytes): add it to .gitignore, "
            "or move it away."
        )

    def _sizes_of_new_files(self) -> list[tuple[int, bytes]]:
        root = os.fsencode(self._place.root)
        sizes: list[tuple[int, bytes]] = []
        for path in self._index.new_files():
            with suppress(OSError):  # a build may have taken it away
                size = os.lstat(root + b"/" + path).st_size
                sizes.append((size, path))
        return sizes

    def _without_tracked_files(self, worktrees: Sequence[bytes]) -> list[bytes]:
        """Those of the folders below which the index has no file."""
        if not worktrees:
            return []
        specs = [os.fsdecode(b":(top,literal)%s/" % path) for path in worktrees]
        listing = self._index.run("ls-files", "-z", "--", *specs)
        _check(listing)
        tracked_names = listing.out.split(b"\0")
        untracked = []
        for path in worktrees:
            if not any(name.startswith(path + b"/") for name in tracked_names):
                untracked.append(path)
        return untracked

    def _differences(self, tree: str) -> bytes:
        """What `git diff-index --raw -z` says of the index against a tree."""
        diff = self._index.run(
            "diff-index",
            "--cached",
            "--raw",
            "-z",
            "--no-renames",
            "--no-abbrev",
            "--ignore-submodules=none",
            tree,
        )
        _check(diff)
        return diff.out

    def _import_tree(self, base: str, differences: bytes) -> str:
        """The tree that `git write-tree` would make, in one pack: a file for each folder takes
        longer than all else.
        """
        fields = differences.split(b"\0")
        rows = [
            b'commit refs/heads/none\ncommitter x <x> 0 +0000\ndata 0\nM 040000 %s ""\n'
            % base.encode()
        ]
        for entry, path in zip(fields[::2], fields[1::2], strict=False):
            _, mode, _, object_id, status = entry.split(b" ")
            quoted_path = b'"%s"' % _SPECIAL_BYTE.sub(lambda match: b"\\%03o" % ord(match[0]), path)
            if status == b"D":
                rows.append(b"D %s\n" % quoted_path)
            else:
                rows.append(b"M %s %s %s\n" % (mode, object_id, quoted_path))
        rows.append(b'ls ""\n')
        options = ("-c", "core.compression=0", "-c", "fastimport.unpackLimit=1")
        command = ("fast-import", "--quiet", "--force")
        answer = self._objects.bare.run(*options, *command, stdin=b"".join(rows))
        _check(answer)
        return answer.out.split()[2].decode("ascii")


class _OddEntries(Struct, frozen=True):
    """Paths of the index that `git add -A` alone would not get right."""

    assumed: list[bytes]
    """Those with the flag assume-unchanged."""

    skipped: list[bytes]
    """Those with the flag skip-worktree that are there all the same."""

    submodules: list[bytes]

    artifacts: list[bytes]
    """Those of bundles."""


def _odd_entries(listing: Finished, root: Path) -> _OddEntries:
    _check(listing)
    odd = _OddEntries([], [], [], _ARTIFACTS.findall(listing.out))
    for record in _UNUSUAL.findall(b"\0" + listing.out):
        tag = record[:1]
        path = record.partition(b"\t")[2]
        is_skipped = tag in b"Ss" and os.path.lexists(os.fsencode(root) + b"/" + path)
        if is_skipped:
            odd.skipped.append(path)
        # A lower-case tag says that the entry is assumed unchanged, too.
        if tag.islower() and (tag != b"s" or is_skipped):
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


def _check(answer: Finished) -> None:
    """Raise what git complained about, in one sentence."""
    complaint = answer.err
    if match := _CLOSED.search(complaint):
        raise UsageError(
            f"{paths.quote(match[1])} cannot be read ({match[2]}): a snapshot needs what is in it."
        )
    if not answer.code:
        return
    if match := _UNREADABLE.search(complaint):
        raise UsageError(
            f"{paths.quote(match[1])} cannot be read ({match[2]}): a snapshot needs it."
        )
    if match := _NO_COMMIT.search(complaint):
        raise UsageError(
            f"{paths.quote(match[1])} is a git repository of its own without a commit, "
            "which git cannot add: commit in it, ignore it, or remove its .git."
        )
    if match := _SPECIAL.search(complaint):
        raise UsageError(
            f"{paths.quote(match[1])} is tracked, and no file or link any more: remove it."
        )
    if _CONVERSION.search(complaint):
        raise UsageError(
            f"git could not convert a file as .gitattributes asks ({answer.complaint})."
        )
    raise _unreadable(answer)


def _unreadable(answer: Finished) -> InfrastructureError:
    return InfrastructureError(
        f"git could not read the working tree or the index ({answer.complaint}): see `git status`."
    )
