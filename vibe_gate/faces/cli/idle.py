"""The fast path: say "Nothing to review" in the time of a bare interpreter and one look by git.

It may only ever say that there is nothing. Whatever differs, is unusual or cannot
be ruled out cheaply is left to the full path, which decides on its own. Only
`os` is imported (docs/cli.md has the measured cost).

The index against HEAD is two trees compared: git runs no filter and no program
for that. The working tree is another matter: flags on index entries hide edits,
configuration weakens what counts as changed, and filters run. So that case is
taken only where the repository's own configuration holds nothing but settings
known to be harmless, and every index entry is an ordinary one without flags.
"""

import os

NOTHING = {
    "staged": "Nothing to review: the index is the same as HEAD.",
    "worktree": "Nothing to review: the working tree is the same as HEAD.",
}

_PLAIN_FLAGS = {"--strict", "--no-judge"}
"""Options that cannot matter when there is nothing to review."""

_QUIET = ("--no-optional-locks", "--no-replace-objects", "-c", "core.fsmonitor=false")

# Each of these options undoes a setting that could hide a staged change:
# diff.relative, submodule.<name>.ignore, diff.external, textconv drivers.
_STAGED = ("diff", "--cached", "--quiet", "--no-relative", "--ignore-submodules=none", "--no-ext-diff", "--no-textconv")

_STATUS = (
    *("-c", "core.untrackedCache=false", "-c", "core.checkStat=default", "-c", "core.trustctime=true"),
    *("status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=none", "--no-renames"),
)
_FLAGS = ("ls-files", "-v", "-s", "-z")

_HARMLESS_SECTIONS = (b"[remote ", b"[branch ", b"[user]", b"[init]", b"[color]", b"[push]", b"[pull]", b"[rerere]")
_HARMLESS_CORE = {b"repositoryformatversion=0", b"filemode=true", b"bare=false", b"logallrefupdates=true"}

_UNUSUAL = (b"extensions", b"promisor", b"partialclone", b"sparse", b"bare = true")
"""Words in a configuration that come with object formats, ref stores, clones and indexes that libgit2 cannot open."""

_REDIRECTIONS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
                 "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES")  # fmt: skip


def nothing_to_review(arguments: list[str]) -> str | None:
    """The sentence to print when certainly nothing is to review; None: take the full path.

    `arguments` are those after `review`.
    """
    wanted = [argument for argument in arguments if argument not in _PLAIN_FLAGS]
    if not _path_is_absolute():
        return None
    try:
        if wanted == ["--staged"]:
            return NOTHING["staged"] if _is_ours(_folders()) and _git_is_silent(_STAGED) else None
        if wanted in ([], ["HEAD"]):
            return NOTHING["worktree"] if _worktree_is_plain_and_clean() else None
    except (OSError, ValueError):  # no git, no such directory, a name that is not text: the full path says it better
        return None
    return None


def _environ() -> dict[str, str]:
    # GIT_INDEX_FILE and the rest stay as they are: in a hook they say which index git means.
    # A partial clone must not fetch what it lacks through a transport that its configuration names.
    return {**os.environ, "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}


def _path_is_absolute() -> bool:
    # A relative entry would run a program called git that lies in the reviewed tree: the full path leaves it out.
    return all(entry[:1] == "/" for entry in os.environ.get("PATH", "").split(":"))


def _git_is_silent(arguments: tuple[str, ...]) -> bool:
    silence = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1, 2)]
    child = os.posix_spawnp("git", ["git", *_QUIET, *arguments], _environ(), file_actions=silence)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _worktree_is_plain_and_clean() -> bool:
    if any(name in os.environ for name in _REDIRECTIONS):
        return False
    folders = _folders()
    if not _is_ours(folders) or not _configuration_is_harmless(folders[0]):
        return False
    status, flags = _start(_STATUS), _start(_FLAGS)  # both at once: neither waits for the other
    changed, entries = _finish(*status), _finish(*flags)
    return changed == b"" and entries is not None and _all_ordinary(entries)


def _folders() -> tuple[str, str]:
    """Git's folder of this working tree, and the one that its worktrees share; OSError where there is none."""
    git_dir = os.environ.get("GIT_DIR") or _found()
    if os.path.isfile(git_dir):  # noqa: PTH113  a linked worktree, or a submodule
        with open(git_dir, "rb") as file:
            target = os.fsdecode(file.read().removeprefix(b"gitdir: ").rstrip(b"\n"))
        git_dir = os.path.join(os.path.dirname(git_dir), target)  # noqa: PTH118, PTH120
    common = os.path.join(git_dir, "commondir")  # noqa: PTH118
    if not os.path.lexists(common):
        return git_dir, git_dir
    with open(common, "rb") as file:
        return git_dir, os.path.join(git_dir, os.fsdecode(file.read().rstrip(b"\n")))  # noqa: PTH118


def _found() -> str:
    folder = os.getcwd()  # noqa: PTH109  pathlib would cost its import
    while True:
        candidate = os.path.join(folder, ".git")  # noqa: PTH118
        if os.path.lexists(candidate):
            return candidate
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            raise FileNotFoundError(candidate)
        folder = parent


def _is_ours(folders: tuple[str, str]) -> bool:
    """Whether the full path could open this repository: it refuses some formats, and the refusal is the answer."""
    with open(os.path.join(folders[1], "config"), "rb") as file:  # noqa: PTH118
        settings = file.read().lower()
    unusual = any(word in settings for word in _UNUSUAL)
    return not unusual and not any(name.startswith("sharedindex.") for name in os.listdir(folders[0]))  # noqa: PTH208


def _configuration_is_harmless(git_dir: str) -> bool:
    if any(os.path.lexists(os.path.join(git_dir, name)) for name in ("config.worktree", "commondir")):  # noqa: PTH118
        return False
    with open(os.path.join(git_dir, "config"), "rb") as file:  # noqa: PTH118
        lines = file.read().lower().split(b"\n")
    in_core = False
    for line in (line.strip(b" \t\r") for line in lines):
        if line.startswith(b"["):
            in_core = line == b"[core]"
            # Settings, or further sections, on a section's own line are legal; too rare to be read here.
            if not in_core and not (line.startswith(_HARMLESS_SECTIONS) and line.find(b"]") == len(line) - 1):
                return False
        elif line.endswith(b"\\") or (in_core and line and line.replace(b" ", b"") not in _HARMLESS_CORE):
            return False
    return True


def _start(arguments: tuple[str, ...]) -> tuple[int, int]:
    read, write = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, write, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        child = os.posix_spawnp("git", ["git", *_QUIET, *arguments], _environ(), file_actions=actions)
    finally:
        os.close(write)
    return child, read


def _finish(child: int, read: int) -> bytes | None:
    with open(read, "rb") as output:
        text = output.read()
    return text if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 else None


def _all_ordinary(entries: bytes) -> bool:
    # "H 100644 <id> 0\t<path>\0": H is neither assume-unchanged nor skip-worktree nor unmerged,
    # and modes that start with 1 but not 16 are files and links, no submodules.
    count = entries.count(b"\0")
    return b"\0H 160000 " not in b"\0" + entries and (b"\0" + entries).count(b"\0H 1") == count
