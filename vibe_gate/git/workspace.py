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
from vibe_gate.git.repository_place import RepositoryPlace

_ARTIFACTS = b".vibe-artifacts"
_READ_BY_GIT = (b".gitignore", b".gitattributes")
_MAX_IGNORE_BYTES = 1 << 20
_SUBMODULE = b"160000"
_LINK = b"120000"

_CONFIG = (
    "[core]\n\trepositoryformatversion = 0\n\tbare = {bare}\n\tlogallrefupdates = {log}\n"
    "[gc]\n\tauto = 0\n"
)
_IDENTITY = "[user]\n\tname = agent\n\temail = agent@vibe-gate.invalid\n"
_FILE_SYSTEM = r"^core\.(filemode|symlinks|ignorecase|precomposeunicode)$"
"""What git finds out about a disk when it makes a repository there; the workspace may be on another
than the user's.
"""

_OWNER = "repository"
"""Beside the workspaces of a repository: a file with the path of its common folder."""

_PATH_BYTES = 1 << 16
"""More than any path has."""

_NAME_LETTERS = 40
"""Characters of a repository's name that the folder of its workspaces begins with, for people."""

_FAST = ("-c", "core.looseCompression=0", "-c", "core.compression=0", "-c", "core.fsync=none")
_TURN = expression(r"[A-Za-z0-9][A-Za-z0-9_-]{0,199}/[A-Za-z0-9][A-Za-z0-9_-]{0,199}\Z")


class Workspace:
    """One run's workspace, open: no other process opens or removes it. `root` is where its agents
    work.

    `repository` is the one that made it; it reads the workspace's objects, too, until `remove`.
    """

    def __init__(
        self, repository: ChangeQueries, place: RepositoryPlace, objects: Objects, folder: Path
    ) -> None:
        self.repository = repository
        self.root = folder / "tree"
        self.folder = folder
        self._place = place
        self._objects = objects
        self._kept = folder / "kept.git"
        _require_private(folder.parent)
        self._lock = lock_folder(folder)
        variables = {
            "GIT_INDEX_FILE": os.fspath(self._kept / "index"),
            "GIT_WORK_TREE": os.fspath(self.root),
        }
        self._git = place.git.bare(self._kept, variables)
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
        entries = self._entries()
        submodules = {path for path, (mode, _) in entries.items() if mode == _SUBMODULE}
        files, folders = _walk(self.root, submodules)
        tracked_files = files & entries.keys()
        untracked_files = {path for path in files - entries.keys() if not _is_artifact(path)}
        new_files = untracked_files - self._ignored(untracked_files)
        missing_paths = entries.keys() - files - (submodules & folders)
        links = {}
        for path in tracked_files:
            mode, object_id = entries[path]
            if mode == _LINK:
                links[path] = object_id
        self._update(missing_paths, "--force-remove")
        self._update(tracked_files | new_files, "--add", "--remove", "--replace")
        self._mark_links(links)
        return _check(self._run("write-tree")).line

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
        _check(self._run("update-ref", f"refs/turns/{name}", tree))

    def kept_tree(self, name: str) -> str:
        """The tree that `keep` kept under this name; "" if there is none."""
        if not _TURN.match(name):
            return ""
        return self._run("rev-parse", "--verify", "--quiet", f"refs/turns/{name}^{{tree}}").line

    def patched(self, tree: str, patch: bytes, *, reverse: bool = False) -> str:
        """The tree that a patch makes of another, or with `reverse` was made of; "" if it does not
        fit. It can be read from then on.
        """
        index = self._kept / "patched"
        git = self._place.git.bare(self._kept, {"GIT_INDEX_FILE": os.fspath(index)})
        if git.run("read-tree", tree).code:
            return ""
        apply = ["apply", "--cached", "--whitespace=nowarn"]
        if reverse:
            apply.append("--reverse")
        if patch and git.run(*apply, "-", stdin=patch).code:
            return ""
        return git.run("write-tree").line

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
        listing = _check(self._objects.bare.run("ls-tree", "-r", "-z", tree))
        _check(self._run("update-index", "-z", "--index-info", stdin=listing.out))
        if self.tree() != tree:
            raise IntegrityError(
                f"The files in {self.root} are not those of the tree {tree}: the disk changed them."
            )

    def close(self, *, files: bool = True) -> None:
        """Let others open it; it stays on disk, so that the run can be resumed. Without `files`
        only the trees stay.
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
        head = f"ref: {branch}" if branch else self.repository.head()
        (self._kept / "HEAD").write_text(f"{head}\n")
        refs = git.run(
            "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"
        )
        (self._kept / "packed-refs").write_bytes(_check(refs).out)
        if self._place.shallow:
            (self._kept / "shallow").write_bytes((self._place.common_dir / "shallow").read_bytes())
        (self._kept / "ignored").write_bytes(_ignore_rules(self._place))
        self.restore(tree)

    @cached_property
    def _disk_settings(self) -> str:
        """Lines of configuration: what git finds out about the disk that the workspace is on.

        Never read back from a file, which an agent may have written.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as probe:
            git = self._place.git.bare(Path(probe), {})
            _check(git.run("init", "--quiet", "--bare", "--template="))
            listing = git.run("config", "--get-regexp", _FILE_SYSTEM).out
        lines = []
        for row in listing.splitlines():
            name, value = row.split(None, 1)
            lines.append(f"[core]\n\t{name[5:].decode()} = {value.decode()}\n")
        return "".join(lines)

    def _make_clone(self) -> None:
        git_dir = self.root / ".git"
        for name in ("objects/info", "objects/pack", "refs/heads", "info"):
            (git_dir / name).mkdir(parents=True)
        for name in ("HEAD", "packed-refs", "shallow"):
            if (self._kept / name).exists():
                (git_dir / name).write_bytes((self._kept / name).read_bytes())
        self._write_settings(git_dir)
        git = self._place.git.bare(git_dir, {"GIT_WORK_TREE": os.fspath(self.root)})
        if self._head():
            _check(git.run("read-tree", "HEAD"))
            git.run("update-index", "-q", "--refresh")

    def _write_settings(self, repository: Path) -> None:
        """Configuration, attributes and ignore rules: anew each time, for an agent may have found
        them.
        """
        if repository == self._kept:
            settings = _CONFIG.format(bare="true", log="false")
        else:
            settings = _CONFIG.format(bare="false", log="true") + _IDENTITY
        ignore_rules = (self._kept / "ignored").read_bytes()
        alternates = b""
        for path in self.borrowed:
            entry = alternates_entry(os.fspath(path))
            alternates += os.fsencode(entry) + b"\n"
        (repository / "config").write_text(settings + self._disk_settings)
        (repository / "info/attributes").write_text(RAW_ATTRIBUTES)
        (repository / "info/exclude").write_bytes(ignore_rules)
        (repository / "objects/info/alternates").write_bytes(alternates)

    # What `tree` asks of git

    def _run(self, *arguments: str, stdin: bytes | None = None) -> Finished:
        return self._git.run(*_FAST, *arguments, stdin=stdin)

    def _head(self) -> str:
        return self._run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").line

    def _entries(self) -> dict[bytes, tuple[bytes, bytes]]:
        """Of the index: mode and object id by path."""
        listing = _check(self._run("ls-files", "-z", "-s")).out
        entries = {}
        for record in listing.split(b"\0")[:-1]:
            fields, _, path = record.partition(b"\t")
            entries[path] = (fields[:6], fields[7:47])
        return entries

    def _update(self, names: Collection[bytes], *options: str) -> None:
        """Run `git update-index` with these options on the paths."""
        if names:
            lines = b"".join(name + b"\0" for name in sorted(names))
            _check(self._run("update-index", *options, "-z", "--stdin", stdin=lines))

    def _ignored(self, names: Collection[bytes]) -> set[bytes]:
        """Those of the paths that git ignores."""
        if not names:
            return set()
        # This command alone refuses literal paths. It takes none for a pattern that does not begin
        # with ":".
        lines = b"".join(b"./" + name + b"\0" for name in sorted(names))
        command = ("check-ignore", "--no-index", "-z", "--stdin")
        answer = self._git.run(*_FAST, *command, stdin=lines, variables=PATTERNS)
        if answer.code > 1:
            raise _unreadable(answer)
        return {name[2:] for name in answer.out.split(b"\0")[:-1]}

    def _mark_links(self, links: dict[bytes, bytes]) -> None:
        """A plain file that holds a link's target stands for that link.

        `links`: the ids of the targets by path.
        """
        if not links:
            return
        entries = self._entries()
        lines = []
        for path, target in links.items():
            _, object_id = entries.get(path, (_LINK, b""))
            if object_id == target:
                lines.append(b"%s %s\t%s\0" % (_LINK, target, path))
        _check(self._run("update-index", "-z", "--index-info", stdin=b"".join(lines)))


def _is_artifact(path: bytes) -> bool:
    return path.partition(b"/")[0] == _ARTIFACTS


def workspaces_folder(place: RepositoryPlace) -> Path:
    """The folder of the repository's workspaces; not made yet.

    It is in the repository if there is no state directory that can be written, or if that is in the
    working tree, whose snapshots must not hold workspaces.
    """
    state_folder = _state_folder(place)
    if not state_folder.is_absolute() or not _can_be_made(state_folder):
        return workspaces_folder_in_repository(place)
    if state_folder.resolve().is_relative_to(place.root.resolve()):
        return workspaces_folder_in_repository(place)
    common = place.common_dir
    repository_name = common.parent.name if common.name == ".git" else common.name
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", repository_name)[:_NAME_LETTERS].strip("-")
    digest = hashlib.sha256(os.fsencode(common)).hexdigest()[:12]
    return state_folder / "vibe-gate/workspaces" / f"{name or 'repository'}-{digest}"


def _state_folder(place: RepositoryPlace) -> Path:
    """The user's state directory; a relative path if there is none."""
    variables = place.git.child_environment
    state_home = variables.get("XDG_STATE_HOME", "")
    if state_home.startswith("/"):
        return Path(state_home)
    return Path(variables.get("HOME", ""), ".local/state")


def workspaces_folder_in_repository(place: RepositoryPlace) -> Path:
    """Where they are without a state directory."""
    return place.common_dir / "vibe-gate/workspaces"


def _can_be_made(folder: Path) -> bool:
    for ancestor in (folder, *folder.parents):
        if os.path.lexists(ancestor):  # Path.exists raises where nobody may look
            return os.access(ancestor, os.W_OK | os.X_OK)
    return False


def make_workspace(
    repository: ChangeQueries, place: RepositoryPlace, objects: Objects, folder: Path, tree: str
) -> Workspace:
    """A new workspace in `folder`, which must not be there yet, with the files of `tree`."""
    try:
        make_workspaces_folder(place, folder.parent)
        folder.mkdir(mode=0o700)
        with ExitStack() as failing:
            workspace = Workspace(repository, place, objects, folder)
            failing.callback(workspace.remove)
            workspace.begin(tree)
            failing.pop_all()
    except OSError as error:
        raise InfrastructureError(
            f"the workspace {folder} cannot be made: {error.strerror}."
        ) from error
    return workspace


def make_workspaces_folder(place: RepositoryPlace, folder: Path) -> None:
    """Make the folder of the repository's workspaces. OSError; InfrastructureError: others may
    write there.
    """
    _make_private(folder)
    _require_private(folder)
    _write_owner(folder / _OWNER, os.fsencode(place.common_dir))


def remove_old_workspaces(place: RepositoryPlace, before: datetime, *, dry_run: bool) -> list[str]:
    """Delete the workspaces that no process has open or has had open since then; their names.

    Of this repository, and of those in the state directory whose repository is gone.
    """
    folder = workspaces_folder(place)
    abandoned_folders = []
    for owner in folder.parent.glob(f"*/{_OWNER}"):
        if _is_private(owner.parent) and _is_repository_gone(owner):
            abandoned_folders.append(owner.parent)
    folders = (folder, workspaces_folder_in_repository(place), *abandoned_folders)
    names: list[str] = []
    for parent in dict.fromkeys(folders):
        if _is_private(parent):
            names += _remove_old_below(place, parent, before, dry_run=dry_run)
    if not dry_run:
        for abandoned in abandoned_folders:
            with suppress(OSError):  # some are not old enough
                if [entry.name for entry in abandoned.iterdir()] == [_OWNER]:
                    (abandoned / _OWNER).unlink()
                    abandoned.rmdir()
    return names


def _is_repository_gone(owner: Path) -> bool:
    """Whether the repository is gone whose path this file holds.

    A disk that is not mounted leaves nothing, or an empty folder, where the repository's folder
    was.
    """
    with suppress(OSError), open(owner, "rb", opener=_open_no_link) as file:
        path = Path(os.fsdecode(file.read(_PATH_BYTES)))
        root = path.parent if path.name == ".git" else path
        if not path.is_absolute() or os.path.lexists(root):
            return False
        return any(root.parent.iterdir())
    return False


def _open_no_link(path: str, flags: int) -> int:
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def _remove_old_below(
    place: RepositoryPlace, parent: Path, before: datetime, *, dry_run: bool
) -> list[str]:
    """Delete the old workspaces in a folder of them; their names."""
    names = []
    for folder in sorted(parent.iterdir()):
        if folder.name == _OWNER:
            continue
        with suppress(OSError, InfrastructureError):  # in use, or going
            files = (folder, *folder.glob("kept.git/index"))
            last_used = max(file.stat().st_mtime for file in files)
            if datetime.fromtimestamp(last_used, UTC) >= before:
                continue
            lock = lock_folder(folder)
            try:
                if not dry_run:
                    _remove(folder, place)
            finally:
                os.close(lock)
            names.append(folder.name)
    return names


def _make_private(folder: Path) -> None:
    """Make the folder and those that it is in, for this user alone, as far as they are missing."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _require_private(folder: Path) -> None:
    for ancestor in _folders_of_ours(folder):
        if not _is_own(ancestor):
            raise InfrastructureError(
                f"{ancestor} is not a folder that only you can write to: workspaces are not made "
                "below it. Move it away, or `chmod 700` it."
            )


def _is_private(folder: Path) -> bool:
    """Whether the folder is there, and neither it nor another of ours above it leads or belongs
    elsewhere.
    """
    return all(map(_is_own, _folders_of_ours(folder)))


def _folders_of_ours(folder: Path) -> tuple[Path, ...]:
    """The folder of workspaces and those above it that we made. What those lie in may be links of
    the user's.
    """
    above = folder if folder.name == "workspaces" else folder.parent
    return tuple(dict.fromkeys((above.parent, above, folder)))


def _is_own(folder: Path) -> bool:
    """Whether it is a folder of this user's that no other can write to."""
    with suppress(OSError):
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022:
            return False
        return status.st_uid == os.geteuid()
    return False


def _write_owner(file: Path, path: bytes) -> None:
    """Anew, and never through a link."""
    file.unlink(missing_ok=True)
    with open(file, "xb", opener=_open_no_link) as owner:
        owner.write(path)


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
        for entry in _scan(top, start):
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
                name = paths.quote(paths.decode(path))
                raise UsageError(f"{name} is a pipe or device, which git would wait for.")
    return files, folders


def _scan(top: bytes, folder: bytes) -> list[os.DirEntry[bytes]]:
    """What is in a folder below `top`. UsageError if it cannot be read."""
    try:
        with os.scandir(top + folder) as entries:
            return list(entries)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR):
            return []  # too deep for git as well; or it went while we looked
        name = paths.quote(paths.decode(folder))
        raise UsageError(f"{name} cannot be read ({error.strerror}).") from error


def _ignore_rules(place: RepositoryPlace) -> bytes:
    """What the user's git ignores besides the tree's .gitignore: core.excludesFile, then
    info/exclude, which wins.
    """
    variables = place.git.child_environment
    excludes_file = place.git.run("config", "--type=path", "--get", "core.excludesFile").line
    if not excludes_file:
        config_home = variables.get("XDG_CONFIG_HOME") or f"{variables.get('HOME', '')}/.config"
        excludes_file = f"{config_home}/git/ignore"
    contents = []
    for file in (place.root / excludes_file, place.common_dir / "info/exclude"):
        if file.is_file() and file.stat().st_size <= _MAX_IGNORE_BYTES:
            contents.append(file.read_bytes())
    return b"\n".join(contents) + b"\n"


def lock_folder(folder: Path) -> int:
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


def _remove(folder: Path, place: RepositoryPlace) -> None:
    """Delete a folder however deep it is; agents' tools leave folders without write permission."""
    commands = [["rm", "-rf", "--"]]
    if not folder.is_symlink():  # chmod would follow a link
        commands.insert(0, ["chmod", "-R", "u+rwX", "--"])
    for command in commands:
        subprocess.run(
            [*command, folder], env=place.git.child_environment, capture_output=True, check=False
        )
    if os.path.lexists(folder):
        raise InfrastructureError(
            f"the folder {folder} cannot be deleted: something in it is in use or protected."
        )


def _check(answer: Finished) -> Finished:
    """What git answered. InfrastructureError: it could not do it."""
    if answer.code:
        raise _unreadable(answer)
    return answer


def _unreadable(answer: Finished) -> InfrastructureError:
    return InfrastructureError(f"git could not read the workspace ({answer.complaint}).")
