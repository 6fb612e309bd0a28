"""A snapshot: the working tree as a tree id, and nothing of the user's touched.

`git status` says which paths differ from HEAD; only those are read, without ever following
a symlink, and laid over HEAD's tree. Untracked files that are not ignored are part of it,
files outside a sparse checkout stay what they are. What git would convert (line endings,
filters, ident, encodings) is converted by git. Two things differ from `git add -A`:

- edits that a flag hides (assume-unchanged; skip-worktree where the file is there all the
  same) are seen: an agent could set one.
- content filters that only the repository's own configuration defines do not run, because
  they are commands of its choosing; the snapshot then holds the file's raw content. The
  user's global configuration can allow them: `vibe-gate.allowLocalFilters = true`.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator

from vibe_gate.domain import paths
from vibe_gate.errors import UsageError
from vibe_gate.git import convert, status
from vibe_gate.git.convert import ATTRIBUTES, Candidate
from vibe_gate.git.detect import Place
from vibe_gate.git.folders import Folders, is_gone, split
from vibe_gate.git.index import Flags
from vibe_gate.git.modes import EXECUTABLE_MODE, REGULAR_MODE, SUBMODULE_MODE, SYMLINK_MODE
from vibe_gate.git.revisions import Revisions
from vibe_gate.git.status import Listing, Stage, Tracked, Walk
from vibe_gate.git.store import Store
from vibe_gate.git.tree import Entry, Tree, overlay

ARTIFACTS = b".vibe-artifacts"

_IN_MEMORY = 8 << 20  # bytes; a larger file is streamed
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO swapped in must not block us
_TRIES = 3


def take(place: Place, store: Store, walk: Walk, flags: Flags) -> tuple[str, str]:
    """HEAD's commit id ("" when unborn) and the working tree's tree id.

    `walk` comes from `status.begin`. UsageError, with the path, for what cannot be read.
    """
    listing = status.end(walk)
    base = Tree(store, Revisions(place, store).tree_of(listing.head))
    with Folders(place.root) as folders:
        tracked = [*listing.tracked, *_hidden(flags, listing, base, folders)]
        attributes = _Attributes(place, base, tracked)
        reader = _Reader(place, store, folders, attributes)
        edits = {entry.path: reader.entry(entry) for entry in tracked}
        for path in listing.untracked:
            if path.partition(b"/")[0] != ARTIFACTS:
                bare = path.rstrip(b"/")  # git marks a repository within this one by a slash
                edits[_filed_under(base, bare, place)] = reader.entry(Tracked(bare, (), touched=True))
    if reader.to_convert:
        converted = convert.convert(place, store, reader.to_convert, attributes.only_in_index)
        edits |= {_filed_under(base, path, place): entry for path, entry in converted.items()}
    return listing.head, overlay(store, base, edits, without=ARTIFACTS)


def _filed_under(base: Tree, path: bytes, place: Place) -> bytes:
    """Where git files an untracked path: under core.ignoreCase, in the folder that it knows by other capitals."""
    if not place.settings.true("core.ignoreCase"):
        return path
    *folders, name = path.split(b"/")
    current: str | None = base.id
    for position, folder in enumerate(folders):
        known = base.entries(current) if current else {}
        same = folder if folder in known else next((n for n in known if n.lower() == folder.lower()), folder)
        folders[position] = same
        current = known[same].id if same in known and known[same].is_tree else None
    return b"/".join([*folders, name])


def _hidden(flags: Flags, listing: Listing, base: Tree, folders: Folders) -> Iterator[Tracked]:
    """Entries that git was told not to look at, to be looked at all the same.

    Where the listing knows such a path already it is for what is staged there; the later
    of two edits of one path wins.
    """
    staged = {entry.path: entry.stages for entry in listing.tracked}
    there = (path for path in flags.skip_worktree if folders.exists(path))
    for path in itertools.chain(flags.assume_unchanged, there):
        entry = base.entry(path)
        unchanged = (Stage(entry.mode, entry.id, 0),) if entry else ()
        yield Tracked(path, staged.get(path, unchanged), touched=True)


class _Attributes:
    """Which paths git may convert: those with a .gitattributes above them, or all."""

    def __init__(self, place: Place, base: Tree, tracked: list[Tracked]) -> None:
        self.only_in_index: dict[bytes, Entry] = {}
        self._base = base
        self._root = os.fsencode(place.root) + b"/"
        self._differing = {entry.path: entry for entry in tracked if split(entry.path)[1] == ATTRIBUTES}
        self._above: dict[bytes, bool] = {}
        self._everywhere = convert.everywhere(place)

    def reach(self, path: bytes) -> bool:
        """Whether attributes could say something about the path."""
        found = self._in_or_above(split(path)[0])  # asked in any case: it collects `only_in_index`
        return found or self._everywhere

    def _in_or_above(self, folder: bytes) -> bool:
        if folder not in self._above:
            own = self._in(folder)
            self._above[folder] = (bool(folder) and self._in_or_above(split(folder)[0])) or own
        return self._above[folder]

    def _in(self, folder: bytes) -> bool:
        path = folder + b"/" + ATTRIBUTES if folder else ATTRIBUTES
        if os.path.lexists(self._root + path):  # through links or not: more is asked of git then, never less
            return True
        differing = self._differing.get(path)
        if differing is None:
            known = self._base.entry(path)
        elif differing.touched or not differing.stages:
            known = None  # deleted, so the tree that we make does not have it either
        else:
            known = Entry(differing.stages[0].mode, differing.stages[0].id)
        if known is None:
            return False
        self.only_in_index[path] = known
        return True


class _Reader:
    """Turns paths of the working tree into entries of a tree."""

    def __init__(self, place: Place, store: Store, folders: Folders, attributes: _Attributes) -> None:
        self.to_convert: list[Candidate] = []
        self._place = place
        self._store = store
        self._folders = folders
        self._attributes = attributes
        self._modes_count = place.settings.true("core.fileMode", default=True)
        self._links_count = place.settings.true("core.symlinks", default=True)

    def entry(self, tracked: Tracked) -> Entry | None:
        """What stands at the path now; None for nothing, and for what git has no entry for (FIFO, socket).

        None also for a file that is left to `convert`, which `to_convert` then lists.
        """
        if not tracked.touched:
            return next((Entry(stage.mode, stage.id) for stage in tracked.stages), None)
        folder, name = split(tracked.path)
        converts = self._attributes.reach(tracked.path)  # opens folders itself, so before ours
        try:
            descriptor = self._folders.open(folder)
            about = os.lstat(name, dir_fd=descriptor)
            if stat.S_ISLNK(about.st_mode):
                return Entry(SYMLINK_MODE, self._store.write("blob", os.readlink(name, dir_fd=descriptor)))
            if stat.S_ISREG(about.st_mode):
                if not converts:
                    return Entry(self._mode(about, tracked.stages), self._content(tracked.path, name, descriptor))
                os.close(os.open(name, _READ, dir_fd=descriptor))  # what cannot be read is told here, in our words
                self.to_convert.append(Candidate(tracked.path, tracked.stages))
                return None
        except OSError as error:
            if is_gone(error):
                return None
            raise UsageError(
                f"{_shown(tracked.path)} cannot be read ({error.strerror}): a snapshot needs it."
            ) from error
        return self._repository(tracked) if stat.S_ISDIR(about.st_mode) else None

    def _mode(self, about: os.stat_result, stages: tuple[Stage, ...]) -> int:
        known = next((stage.mode for stage in stages if stage.number in (0, 2)), 0)
        if known == SYMLINK_MODE and not self._links_count:
            return SYMLINK_MODE  # a checkout without symlinks keeps their targets in plain files
        if not self._modes_count:
            return known if known in (REGULAR_MODE, EXECUTABLE_MODE) else REGULAR_MODE
        return EXECUTABLE_MODE if about.st_mode & stat.S_IXUSR else REGULAR_MODE

    def _content(self, path: bytes, name: bytes, folder: int) -> str:
        descriptor = os.open(name, _READ, dir_fd=folder)
        try:
            for _ in range(_TRIES):
                size = os.fstat(descriptor).st_size
                if size <= _IN_MEMORY:
                    with open(descriptor, "rb", closefd=False) as stream:
                        return self._store.write("blob", stream.read())
                stored = self._store.write_stream(descriptor, size)
                if stored is not None:
                    return stored
                os.lseek(descriptor, 0, os.SEEK_SET)
        finally:
            os.close(descriptor)
        raise UsageError(f"{_shown(path)} keeps changing while it is read: try again when nothing writes to it.")

    def _repository(self, tracked: Tracked) -> Entry | None:
        """A submodule or a repository within this one: the commit that is checked out there."""
        folder = self._place.root / os.fsdecode(tracked.path)
        marked = self._folders.exists(tracked.path + b"/.git")
        if marked:
            git = self._place.git.elsewhere(folder)
            head = git.run(f"--git-dir={folder / '.git'}", "rev-parse", "--verify", "--quiet", "HEAD")
            if not head.code:
                return Entry(SUBMODULE_MODE, head.line)
        known = next((stage for stage in tracked.stages if stage.mode == SUBMODULE_MODE), None)
        if known is not None:
            return Entry(known.mode, known.id)
        if marked:
            raise UsageError(
                f"{_shown(tracked.path)} is a git repository of its own without a commit, which git cannot add: "
                "commit in it, ignore it, or remove its .git."
            )
        return None


def _shown(path: bytes) -> str:
    return paths.quote(paths.decode(path))
