"""Which files belong to the gate: nothing that an agent does may write there.

Only the repository in which the session runs is guarded, its linked worktrees
and submodules with it: another repository, and a folder in none, is nobody's business here.
"""

import os.path

from vibe_gate.faces.claude_hook.shell import SCRATCH, UNKNOWN

HUMAN = "a human decides about the gate: say what should change and why, and let the user edit it"
BUNDLES = ".vibe-artifacts holds evidence that only vibe-gate writes; run `vibe-gate bundles` to look at it"
HOOKS = "the git hooks run the gate; leave them, and fix what they complain about"
CONFIG = "edit git's settings with `git config`; core.hooksPath and vibe-gate.* belong to the user"
SETTINGS = "the hooks of Claude Code stand there; change it with Edit, and ask the user about hooks"

SETTINGS_FILES = ("settings.json", "settings.local.json")

_FRAMEWORKS = (".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml", "lefthook.yml", "lefthook.yaml",
               ".lefthook.yml", "lefthook-local.yml")  # fmt: skip
_GIT_HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "post-commit", "post-rewrite")
_PACKAGES = ("site-packages", "dist-packages")
_MAX_FILE = 1 << 18
_NAME = b"vibe-gate"


class Project:
    """The repository in which the session runs, and what a command line makes before it goes there."""

    def __init__(self, start: str, home: str = "", settings: str = "") -> None:
        self.start = start
        self.home = home
        self.settings = settings
        self.made: set[str] = set()
        """Folders that the call itself makes: nothing lies in them yet."""
        self._common: bytes | None = None
        self._looked = False

    @property
    def common(self) -> bytes | None:
        """The git folder that all its worktrees share; None outside of a repository."""
        if not self._looked:
            self._looked, self._common = True, _common_dir(self.start)
        return self._common

    def makes(self, place: str) -> bool:
        """Whether the call makes the folder, or one below it."""
        above = (self.start + "/").startswith(place + "/")
        return not above and any((made + "/").startswith(place + "/") for made in self.made)

    def elsewhere(self, place: str) -> bool:
        """Whether a folder surely belongs to another repository, or to none."""
        if self.common is None:
            return False
        if place.startswith(SCRATCH):
            return True
        if UNKNOWN in place:
            return False
        real = os.path.realpath(place)
        if not os.path.isdir(real) and not any((place + "/").startswith(made + "/") for made in self.made):  # noqa: PTH112
            return False  # who goes there fails, and stays where he is
        other, own = _common_dir(real), os.path.realpath(self.common)
        inside = [os.fsencode(real) + b"/"] if other is None else [os.path.realpath(other) + b"/"]
        return not inside[0].startswith(own + b"/")


def _common_dir(start: str) -> bytes | None:
    # What finds git's folder is in `spool`, which costs an import: most calls need it not.
    spool = __import__("vibe_gate.faces.claude_hook.spool", fromlist=["_"])
    found: bytes | None = spool.common_dir(os.fsencode(start))
    return found


def protected(path: str, cwd: str, project: Project, removes: bool = False) -> str | None:
    """Why nothing may write at the path, if nothing may; `removes`: folders above it are meant as well."""
    if not path.strip(UNKNOWN) or path == "/dev/null":
        return None
    written = os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))  # noqa: PTH118, PTH111
    reason = _named(written, path, project, removes)
    if reason is None and UNKNOWN not in written and not _is_pattern(written):
        real = os.path.realpath(written)
        if real != written:
            reason = _named(real, path, project, removes)
    return reason


def protected_from_tool(path: str, cwd: str, project: Project, removes: bool = False) -> str | None:
    """The same for a tool, which makes the folders that are missing and does nothing else."""
    written = os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))  # noqa: PTH118, PTH111
    project.made.add(os.path.dirname(written))  # noqa: PTH120
    return protected(path, cwd, project, removes)


def _named(full: str, path: str, project: Project, removes: bool) -> str | None:
    parts = full.split("/")
    names = full.replace(UNKNOWN, "").casefold().split("/")
    for at, name in enumerate(names):
        reason = _reason(name, names, at, "/".join(parts[:at]) or "/", path, project, removes)
        if reason and not (_only_here(name) and project.elsewhere("/".join(parts[:at]) or "/")):
            return f"vibe-gate: {shown(path)} {reason}."
    return None


def _only_here(name: str) -> bool:
    """Whether a file of that name means something in the guarded repository alone: not the user's own settings."""
    return name not in (".claude", ".gitconfig", ".config") and not name.startswith("vibe")


def _reason(
    name: str, names: list[str], at: int, holder: str, path: str, project: Project, removes: bool
) -> str | None:  # fmt: skip
    if not name[:1] or (name[0] not in ".cplv*?[" and name not in _GIT_HOOKS):
        return None
    last = at == len(names) - 1
    if matches(name, ".git"):
        return _in_git_folder(names[at + 1 :], removes)
    if matches(name, ".vibe-gate") and _is_gate(holder, project):
        return f"is the gate's own definition; {HUMAN}"
    if matches(name, ".vibe-artifacts") and _is_root(holder, project):
        return f"is refused; {BUNDLES}"
    if matches(name, ".claude") and _in_claude_folder(names[at + 1 :], holder, project, removes):
        return f"is refused; {SETTINGS}"
    if (name == ".gitconfig" or names[at : at + 3] == [".config", "git", "config"]) and _is_home(holder, project):
        return f"is refused; {CONFIG}"
    if at and names[at - 1] in _PACKAGES and _is_program(name) and not holder.startswith(SCRATCH):
        return f"is the gate's own program; {HUMAN}"
    if last and any(matches(name, known) for known in (*_FRAMEWORKS, *_GIT_HOOKS)) and _speaks_of_us(holder, name):
        return f"runs the gate; {HUMAN}"
    return None


_BELIEVED = (["packed-refs"], ["commondir"], ["shallow"], ["info", "grafts"], ["index"], ["head"])
"""Files of git's folder that say what the history is, and what is staged."""


_UNDER_WAY = ("rebase-merge", "rebase-apply", "objects")
"""Folders in it that only git writes. To remove from them is how a rebase is given up, or a damaged object."""


def _in_git_folder(below: list[str], removes: bool) -> str | None:
    if not below:
        return f"is refused; {HOOKS}" if removes else None
    if has(below, "hooks"):
        return f"is refused; {HOOKS}"
    if has(below, "vibe-gate"):
        return f"holds what the gate has recorded; {HUMAN}"
    if matches(below[-1], "config") or matches(below[-1], "config.worktree"):
        return f"is refused; {CONFIG}"
    if not removes and (below[0] in _UNDER_WAY or (len(below) == 1 and below[0].endswith("_head"))):
        return f"decides what the gate believes; {HUMAN}"
    refs = below[0] == "refs" and (has(below, "vibe-gate") or below[1:2] in (["remotes"], ["heads"]))
    if (refs and not below[-1].endswith(".lock")) or below in _BELIEVED or below[0] == "logs":
        return f"decides what the gate believes; {HUMAN}"
    return None


def _in_claude_folder(below: list[str], holder: str, project: Project, removes: bool) -> bool:
    mine = project.home and os.path.realpath(holder) == os.path.realpath(project.home)
    if not mine and project.elsewhere(holder):
        return False
    if not below:
        return removes and any(_holds(f"{holder}/.claude/{name}", b"claude_hook/") for name in SETTINGS_FILES)
    return len(below) == 1 and any(matches(below[0], name) for name in SETTINGS_FILES)


def _is_home(holder: str, project: Project) -> bool:
    return bool(project.home) and os.path.realpath(holder) == os.path.realpath(project.home)


def _is_program(name: str) -> bool:
    """Whether a name among installed packages means vibe-gate."""
    return matches(name, "vibe_gate") or (name.startswith("vibe_gate-") and name.endswith(".dist-info"))


def _is_root(holder: str, project: Project) -> bool:
    """Whether the folder is the top of a repository, as far as it can be seen."""
    if UNKNOWN in holder:
        return True
    if not os.path.isdir(holder):  # noqa: PTH112
        return not project.makes(holder)
    return os.path.lexists(holder + "/.git")


def _is_gate(holder: str, project: Project) -> bool:
    """Whether a gate is defined there; where there is none yet, whoever makes one softens nothing."""
    if not _is_root(holder, project):
        return False
    if UNKNOWN in holder or not os.path.isdir(holder):  # noqa: PTH112
        return True
    try:
        with os.scandir(holder + "/.vibe-gate") as entries:
            return any(True for _ in entries)
    except FileNotFoundError:
        return os.path.lexists(holder + "/.vibe-gate")
    except OSError:
        return True


def _speaks_of_us(holder: str, name: str) -> bool:
    """Whether a file there runs the gate; yes, where it cannot be known."""
    if UNKNOWN in holder or not os.path.isdir(holder):  # noqa: PTH112
        return not holder or name not in _GIT_HOOKS
    known = [known for known in (*_FRAMEWORKS, *_GIT_HOOKS) if matches(name, known)]
    return any(_holds(f"{holder}/{file}", _NAME) for file in known)


def _holds(path: str, words: bytes) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return words in os.read(descriptor, _MAX_FILE)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def has(names: list[str], wanted: str) -> bool:
    """Whether one of the names means `wanted`."""
    return any(matches(name, wanted) for name in names)


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name or "[" in name


def matches(name: str, wanted: str) -> bool:
    """Whether a name, or the pattern that a shell would expand, means `wanted`."""
    if name == wanted:
        return True
    # A pattern of stars alone means what is there, not this; and a leading dot is never matched by one.
    if name[:1] != wanted[:1] or not _is_pattern(name):
        return False
    return (len(name.strip("*?")) > 1 or name[:1] == ".") and _expands(name, wanted)


def _expands(pattern: str, name: str) -> bool:
    """Whether a shell's pattern could stand for the name; a class of letters is taken for any letter."""
    places = {0}  # of the name that the pattern so far may have reached
    at = 0
    while at < len(pattern) and places:
        letter = pattern[at]
        if letter == "*":
            places = set(range(min(places), len(name) + 1))
        else:
            closing = pattern.find("]", at + 2) if letter == "[" else -1
            any_letter = letter == "?" or closing > 0
            at = max(at, closing)
            places = {
                place + 1 for place in places if name[place : place + 1] and (any_letter or name[place] == letter)
            }
        at += 1
    return len(name) in places


def shown(text: str) -> str:
    """The beginning of a text, printable."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])
