"""A workspace: a shared clone in which agents write, and its files as a tree, whatever an agent
does to its `.git`.

    <folder>/tree       where the agent works: the files of a snapshot; HEAD, branches and tags as the user's; neither
                        remote nor hook. Objects are borrowed from the user's repository.
    <folder>/kept.git   a bare repository of our own: the index and ignore rules by which `tree` is read, its objects,
                        and the trees of turns as `refs/turns/<node>/<turn>`.

They lie in the user's state directory: programs that skip folders named `.git` (Jest) find no file
below one.
`<state>/vibe-gate/workspaces/<repository>/<run id>`, or `<common git dir>/vibe-gate/workspaces` if
there is none.

Git reads the files through kept.git alone. So no configuration, attribute, filter, hook or index
that an agent plants in `tree/.git` has a say, and a nested repository counts as the files it holds.
Files are the blobs' own bytes, without any conversion: an agent sees what a judge sees, and the
tree can be recomputed. Links are links, but for those that lead outside: these are plain files that
hold the target (as in exports), and count as the link while they hold it. A submodule is an empty
folder, and what is written there is not kept. Nor are commits: only files are.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Collection
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.domain.change import Change
from vibe_gate.domain.escape import expression
from vibe_gate.domain.turn import GitState
from vibe_gate.errors import InfrastructureError, IntegrityError, UsageError
from vibe_gate.git.diff import ChangeQueries
from vibe_gate.git.export import RAW_ATTRIBUTES, export
from vibe_gate.git.object_store import Objects, alternates_entry
from vibe_gate.git.program import PATTERNS, Finished
from vibe_gate.git.repository_place import Place

_ARTIFACTS = b".vibe-artifacts"
_READ_BY_GIT = (b".gitignore", b".gitattributes")
_MAX_IGNORE_BYTES = 1 << 20
_SUBMODULE, _LINK = b"160000", b"120000"

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = {bare}\n\tlogallrefupdates = {log}\n[gc]\n\tauto = 0\n"
_IDENTITY = "[user]\n\tname = agent\n\temail = agent@vibe-gate.invalid\n"
_FILE_SYSTEM = r"^core\.(filemode|symlinks|ignorecase|precomposeunicode)$"
"""What git finds out about a disk when it makes a repository there; the workspace may be on another
than the user's.
"""

_OWNER = "repository"
"""Beside the workspaces of a repository: a file with the path of its common folder."""

_PATH_BYTES = 1 << 16
"""More than any path has."""

_NAMED = 40
"""Characters of a repository's name that the folder of its workspaces begins with, for people."""

_FAST = ("-c", "core.looseCompression=0", "-c", "core.compression=0", "-c", "core.fsync=none")
_TURN = expression(r"[A-Za-z0-9][A-Za-z0-9_-]{0,199}/[A-Za-z0-9][A-Za-z0-9_-]{0,199}\Z")


class Workspace:
    """One run's workspace, open: no other process opens or removes it. `root` is where its agents
    work.

    `repository` is the one that made it; it reads the workspace's objects, too, until `remove`.
    """

    def __init__(
        self, repository: ChangeQueries, place: Place, objects: Objects, folder: Path
    ) -> None:
        self.repository = repository
        self.root = folder / "tree"
        self.folder = folder
        self._place = place
        self._objects = objects
        self._kept = folder / "kept.git"
        _require_private(folder.parent)
        self._lock = _locked(folder)
        own = {
            "GIT_INDEX_FILE": os.fspath(self._kept / "index"),
            "GIT_WORK_TREE": os.fspath(self.root),
        }
        self._git = place.git.bare(self._kept, own)
        objects.borrow(self._kept / "objects")

    @property
    def borrowed(self) -> tuple[Path, ...]:
        """The folders of objects that git reads in the workspace and that lie outside of it."""
        folders = map(Path, self._objects.alternates)
        return tuple(folder for folder in folders if not folder.is_relative_to(self.folder.parent))

    def tree(self) -> str:
        """The tree id of the files as they are now. UsageError, with the path, if one cannot be
        read.

        New files that git ignores (by the tree's own .gitignore, or as the user's git would) are
        left out.
        """
        self._write_settings(self._kept)
        known = self._entries()
        submodules = {path for path, (mode, _) in known.items() if mode == _SUBMODULE}
        files, folders = _walk(self.root, submodules)
        gone = [
            path
            for path in known
            if path not in files and not (path in submodules and path in folders)
        ]
        new = {path for path in files - known.keys() if path.partition(b"/")[0] != _ARTIFACTS}
        self._update(gone, "--force-remove")
        self._update(
            files & known.keys() | new - self._ignored(new), "--add", "--remove", "--replace"
        )
        self._mark_links(
            {path: entry for path, entry in known.items() if entry[0] == _LINK and path in files}
        )
        return _checked(self._run("write-tree")).line

    def change(self, before: str, after: str) -> Change:
        """What differs between two trees of this workspace or of the repository; it has no
        commits.
        """
        return self.repository.between(before, after)

    def state(self, tree: str = "") -> GitState:
        """HEAD as it was when the run began, and whether the files (`tree`, if it is known) differ
        from it.
        """
        head = self._head()
        return GitState(head=head, dirty=(tree or self.tree()) != self.repository.tree_of(head))

    def keep(self, name: str, tree: str) -> None:
        """Keep a tree under `<node>/<turn>`: it stays readable as long as the workspace is
        there.
        """
        if not _TURN.match(name):
            raise ValueError(f"{name!r} does not name a node and a turn")
        _checked(self._run("update-ref", f"refs/turns/{name}", tree))

    def patched(self, tree: str, patch: bytes) -> str:
        """The tree that a patch makes of another; "" if it does not fit. It can be read from then
        on.
        """
        git = self._place.git.bare(
            self._kept, {"GIT_INDEX_FILE": os.fspath(self._kept / "patched")}
        )
        if git.run("read-tree", tree).code:
            return ""
        done = (
            git.run("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch) if patch else None
        )
        return "" if done and done.code else git.run("write-tree").line

    def restore(self, tree: str) -> None:
        """Make the clone anew with the files of `tree`; HEAD and branches are those with which the
        run began.

        What git ignores is gone, and what agents did to `.git`. IntegrityError if the files are not
        the tree's.
        """
        self._write_settings(self._kept)
        _remove(self.root, self._place)
        export(self._objects, self.repository.tree(tree), self.root)
        self._make_clone()
        (self._kept / "index").unlink(missing_ok=True)
        listed = _checked(self._objects.bare.run("ls-tree", "-r", "-z", tree))
        _checked(self._run("update-index", "-z", "--index-info", stdin=listed.out))
        if self.tree() != tree:
            raise IntegrityError(
                f"The files in {self.root} are not those of the tree {tree}: the disk changed them."
            )

    def close(self, *, files: bool = True) -> None:
        """Let go of it; it stays on disk, so that the run can be resumed. Without `files` only the
        trees stay.
        """
        if not files:
            _remove(self.root, self._place)
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def remove(self) -> None:
        """Delete it. Its trees cannot be read any more, neither through the repository."""
        _remove(self.folder, self._place)
        self.close()

    # What `restore` and `create` write

    def begin(self, tree: str) -> None:
        """Fill a new folder: HEAD, branches and tags of the user's repository, the files of
        `tree`.
        """
        git = self._place.git
        for name in ("objects/info", "objects/pack", "refs", "info"):
            (self._kept / name).mkdir(parents=True, mode=0o700)
        branch = git.run("symbolic-ref", "--quiet", "HEAD").line
        (self._kept / "HEAD").write_text(
            f"ref: {branch}\n" if branch else f"{self.repository.head()}\n"
        )
        refs = git.run(
            "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"
        )
        (self._kept / "packed-refs").write_bytes(_checked(refs).out)
        if self._place.shallow:
            (self._kept / "shallow").write_bytes((self._place.common_dir / "shallow").read_bytes())
        (self._kept / "ignored").write_bytes(_ignore_rules(self._place))
        self.restore(tree)

    @cached_property
    def _about_disk(self) -> str:
        """Lines of configuration: what git finds out about the disk that the workspace is on.

        Never read back from a file, which an agent may have written.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as probe:
            git = self._place.git.bare(Path(probe), {})
            _checked(git.run("init", "--quiet", "--bare", "--template="))
            values = [
                line.split(None, 1)
                for line in git.run("config", "--get-regexp", _FILE_SYSTEM).out.splitlines()
            ]
        return "".join(
            f"[core]\n\t{name[5:].decode()} = {value.decode()}\n" for name, value in values
        )

    def _make_clone(self) -> None:
        inside = self.root / ".git"
        for name in ("objects/info", "objects/pack", "refs/heads", "info"):
            (inside / name).mkdir(parents=True)
        for name in ("HEAD", "packed-refs", "shallow"):
            if (self._kept / name).exists():
                (inside / name).write_bytes((self._kept / name).read_bytes())
        self._write_settings(inside)
        git = self._place.git.bare(inside, {"GIT_WORK_TREE": os.fspath(self.root)})
        if self._head():
            _checked(git.run("read-tree", "HEAD"))
            git.run("update-index", "-q", "--refresh")

    def _write_settings(self, repository: Path) -> None:
        """Configuration, attributes and ignore rules: anew each time, for an agent may have found
        them.
        """
        bare = repository == self._kept
        lines = [
            _CONFIG.format(bare=str(bare).lower(), log=str(not bare).lower()),
            "" if bare else _IDENTITY,
        ]
        lines.append(self._about_disk)
        (repository / "config").write_text("".join(lines))
        (repository / "info/attributes").write_text(RAW_ATTRIBUTES)
        (repository / "info/exclude").write_bytes((self._kept / "ignored").read_bytes())
        entries = [alternates_entry(os.fspath(path)) for path in self.borrowed]
        (repository / "objects/info/alternates").write_bytes(
            b"".join(os.fsencode(one) + b"\n" for one in entries)
        )

    # What `tree` asks of git

    def _run(self, *arguments: str, stdin: bytes | None = None) -> Finished:
        return self._git.run(*_FAST, *arguments, stdin=stdin)

    def _head(self) -> str:
        return self._run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").line

    def _entries(self) -> dict[bytes, tuple[bytes, bytes]]:
        """Of the index: mode and object id by path."""
        found = {}
        for record in _checked(self._run("ls-files", "-z", "-s")).out.split(b"\0")[:-1]:
            about, _, path = record.partition(b"\t")
            found[path] = (about[:6], about[7:47])
        return found

    def _update(self, names: Collection[bytes], *options: str) -> None:
        if names:
            listed = b"".join(name + b"\0" for name in sorted(names))
            _checked(self._run("update-index", *options, "-z", "--stdin", stdin=listed))

    def _ignored(self, names: Collection[bytes]) -> set[bytes]:
        if not names:
            return set()
        # This command alone refuses literal paths. It takes none for a pattern that does not begin
        # with ":".
        listed = b"".join(b"./" + name + b"\0" for name in sorted(names))
        command = ("check-ignore", "--no-index", "-z", "--stdin")
        ignored = self._git.run(*_FAST, *command, stdin=listed, variables=PATTERNS)
        if ignored.code > 1:
            raise _broken(ignored)
        return {name[2:] for name in ignored.out.split(b"\0")[:-1]}

    def _mark_links(self, links: dict[bytes, tuple[bytes, bytes]]) -> None:
        """A plain file that holds a link's target stands for that link."""
        if links:
            now = self._entries()
            same = [
                path
                for path, (_, target) in links.items()
                if now.get(path, (_LINK, b""))[1] == target
            ]
            listed = b"".join(b"%s %s\t%s\0" % (*links[path], path) for path in same)
            _checked(self._run("update-index", "-z", "--index-info", stdin=listed))


def place_of(place: Place) -> Path:
    """The folder of the repository's workspaces; not made yet.

    It is in the repository if there is no state directory that can be written, or if that is in the
    working tree, whose snapshots must not hold workspaces.
    """
    variables = place.git.child_environment
    given = variables.get("XDG_STATE_HOME", "")
    state = (
        Path(given) if given.startswith("/") else Path(variables.get("HOME", ""), ".local/state")
    )
    if (
        not state.is_absolute()
        or not _can_be_made(state)
        or state.resolve().is_relative_to(place.root.resolve())
    ):
        return place_in_repository(place)
    common = place.common_dir
    name = common.parent.name if common.name == ".git" else common.name
    shown = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:_NAMED].strip("-")
    digest = hashlib.sha256(os.fsencode(common)).hexdigest()[:12]
    return state / "vibe-gate/workspaces" / f"{shown or 'repository'}-{digest}"


def place_in_repository(place: Place) -> Path:
    """Where they are without a state directory."""
    return place.common_dir / "vibe-gate/workspaces"


def _can_be_made(folder: Path) -> bool:
    # Path.exists raises where nobody may look.
    nearest = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    return os.access(nearest, os.W_OK | os.X_OK)


def create(
    repository: ChangeQueries, place: Place, objects: Objects, folder: Path, tree: str
) -> Workspace:
    """A new workspace in `folder`, which must not be there yet, with the files of `tree`."""
    try:
        _make_private(folder.parent)
        _require_private(folder.parent)
        _write_owner(folder.parent / _OWNER, os.fsencode(place.common_dir))
        folder.mkdir(mode=0o700)
        with ExitStack() as failing:
            made = Workspace(repository, place, objects, folder)
            failing.callback(made.remove)
            made.begin(tree)
            failing.pop_all()
    except OSError as error:
        raise InfrastructureError(
            f"the workspace {folder} cannot be made: {error.strerror}."
        ) from error
    return made


def remove_old(place: Place, before: datetime, *, dry_run: bool) -> list[str]:
    """Delete the workspaces that no process has open or has had open since then; their names.

    Of this repository, and of those in the state directory whose repository is gone.
    """
    own = place_of(place)
    others = [
        file
        for file in own.parent.glob(f"*/{_OWNER}")
        if _is_private(file.parent) and _is_gone(file)
    ]
    removed = []
    for parent in dict.fromkeys(
        (own, place_in_repository(place), *(file.parent for file in others))
    ):
        if _is_private(parent):
            removed += _remove_old(place, parent, before, dry_run=dry_run)
    if not dry_run:
        for file in others:
            with suppress(OSError):  # some are not old enough
                if [each.name for each in file.parent.iterdir()] == [_OWNER]:
                    file.unlink()
                    file.parent.rmdir()
    return removed


def _is_gone(owner: Path) -> bool:
    """Whether the repository is gone whose path this file holds.

    A disk that is not mounted leaves nothing, or an empty folder, where the repository's folder
    was.
    """
    with suppress(OSError), open(owner, "rb", opener=_no_link) as file:
        path = Path(os.fsdecode(file.read(_PATH_BYTES)))
        root = path.parent if path.name == ".git" else path
        return path.is_absolute() and not os.path.lexists(root) and any(root.parent.iterdir())
    return False


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def _remove_old(place: Place, parent: Path, before: datetime, *, dry_run: bool) -> list[str]:
    removed = []
    for folder in sorted(each for each in parent.iterdir() if each.name != _OWNER):
        with suppress(OSError, InfrastructureError):  # in use, or going
            used = max(each.stat().st_mtime for each in (folder, *folder.glob("kept.git/index")))
            if datetime.fromtimestamp(used, UTC) < before:
                os.close(_locked(folder))
                if not dry_run:
                    _remove(folder, place)
                removed.append(folder.name)
    return removed


def _make_private(folder: Path) -> None:
    """Make the folder and those that it is in, for this user alone, as far as they are missing."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _require_private(folder: Path) -> None:
    for each in _ours(folder):
        if not _is_own(each):
            what = f"{each} is not a folder that only you can write to"
            raise InfrastructureError(
                f"{what}: workspaces are not made below it. Move it away, or `chmod 700` it."
            )


def _is_private(folder: Path) -> bool:
    """Whether the folder is there, and neither it nor another of ours above it leads or belongs
    elsewhere.
    """
    return all(map(_is_own, _ours(folder)))


def _ours(folder: Path) -> tuple[Path, ...]:
    """The folder of workspaces and those above it that we made. What those lie in may be links of
    the user's.
    """
    above = folder if folder.name == "workspaces" else folder.parent
    return tuple(dict.fromkeys((above.parent, above, folder)))


def _is_own(folder: Path) -> bool:
    with suppress(OSError):
        about = os.lstat(folder)
        return (
            stat.S_ISDIR(about.st_mode)
            and about.st_uid == os.geteuid()
            and not about.st_mode & 0o022
        )
    return False


def _write_owner(file: Path, path: bytes) -> None:
    """Anew, and never through a link."""
    file.unlink(missing_ok=True)
    with open(file, "xb", opener=_no_link) as new:
        new.write(path)


def _walk(root: Path, submodules: Collection[bytes]) -> tuple[set[bytes], set[bytes]]:
    """Paths of files and links, and of folders, below `root`; nothing of `.git` at any level, of
    pipes or devices.
    """
    top = os.fsencode(root) + b"/"
    files: set[bytes] = set()
    folders: set[bytes] = set()
    waiting = [b""]
    while waiting:  # no recursion: an agent may nest deeper than Python's stack
        start = waiting.pop()
        try:
            with os.scandir(top + start) as found:
                entries = list(found)
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR):
                continue  # too deep for git as well; or it went while we looked
            raise UsageError(
                f"{paths.quote(paths.decode(start))} cannot be read ({error.strerror})."
            ) from error
        for entry in entries:
            path = start + entry.name
            if entry.name == b".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.add(path)
                if path not in submodules:
                    waiting.append(path + b"/")
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                files.add(path)
            elif entry.name in _READ_BY_GIT:
                raise UsageError(
                    f"{paths.quote(paths.decode(path))} is a pipe or device, which git would wait for."
                )
    return files, folders


def _ignore_rules(place: Place) -> bytes:
    """What the user's git ignores besides the tree's .gitignore: core.excludesFile, then
    info/exclude, which wins.
    """
    variables = place.git.child_environment
    named = place.git.run("config", "--type=path", "--get", "core.excludesFile").line
    homes = variables.get("XDG_CONFIG_HOME") or f"{variables.get('HOME', '')}/.config"
    files = [place.root / (named or f"{homes}/git/ignore"), place.common_dir / "info/exclude"]
    sizes = {file: file.stat().st_size for file in files if file.is_file()}
    return (
        b"\n".join(file.read_bytes() for file, size in sizes.items() if size <= _MAX_IGNORE_BYTES)
        + b"\n"
    )


def _locked(folder: Path) -> int:
    """Hold the folder until the descriptor is closed, by a crash at the latest. InfrastructureError
    if another does.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise InfrastructureError(f"there is no workspace {folder}: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise InfrastructureError(
            f"another process uses the workspace {folder}: wait for its end."
        ) from error
    return descriptor


def _remove(folder: Path, place: Place) -> None:
    """Delete a folder however deep it is; agents' tools leave folders without write permission."""
    opens = (
        [] if folder.is_symlink() else [["chmod", "-R", "u+rwX", "--"]]
    )  # chmod would follow a link
    for command in (*opens, ["rm", "-rf", "--"]):
        subprocess.run(
            [*command, folder], env=place.git.child_environment, capture_output=True, check=False
        )
    if os.path.lexists(folder):
        raise InfrastructureError(
            f"the folder {folder} cannot be deleted: something in it is in use or protected."
        )


def _checked(done: Finished) -> Finished:
    if done.code:
        raise _broken(done)
    return done


def _broken(done: Finished) -> InfrastructureError:
    return InfrastructureError(f"git could not read the workspace ({done.said}).")
