"""A call of git, read as git reads it: its options, its subcommand and what follows."""

from vibe_gate.faces.claude_hook import git_settings
from vibe_gate.faces.claude_hook.shell import UNKNOWN

_WITH_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source"}
)

OF_FETCH = ("--upload-pack", "--jobs", "--depth", "--deepen", "--shallow-since", "--shallow-exclude", "--refmap",
             "--server-option", "--negotiation-tip", "--filter")  # fmt: skip
LONG_WITH_VALUE = {
    "commit": ("--message", "--file", "--author", "--date", "--template", "--reuse-message", "--reedit-message",
               "--fixup", "--squash", "--cleanup", "--trailer", "--pathspec-from-file"),
    "merge": ("--message", "--file", "--strategy", "--strategy-option", "--cleanup", "--into-name"),
    "rebase": ("--onto", "--exec", "--strategy", "--strategy-option", "--whitespace"),
    "push": ("--repo", "--push-option", "--receive-pack", "--exec"),
    "pull": ("--strategy", "--strategy-option", "--cleanup", *OF_FETCH),
}  # fmt: skip

MAKING = ("--force", "--copy", "--move", "--track", "--no-track", "--quiet", "--create-reflog")
WHOLE = {
    "apply": ("--directory",),
    "branch": (*MAKING, "--delete", "--remotes"),
    "checkout": ("--orphan",),
    "clean": ("--force", "--dry-run"),
    "commit": ("--dry-run", "--no-dry-run", "--no-short", "--no-porcelain"),
    "config": git_settings.LONG,
    "difftool": ("--extcmd",),
    "fetch": OF_FETCH,
    "notes": ("--ref",),
    "pull": LONG_WITH_VALUE["pull"],
    "push": (*LONG_WITH_VALUE["push"], "--delete"),
    "rebase": ("--exec",),
    "remote": ("--mirror", "--auto"),
    "replace": ("--list", "--delete"),
    "restore": ("--source",),
    "stash": ("--all",),
    "switch": ("--create", "--force-create", "--force", "--orphan"),
    "symbolic-ref": ("--delete",),
    "tag": ("--annotate", "--sign", "--force", "--no-sign", "--message", "--file", "--create-reflog"),
    "update-index": ("--index-info",),
    "update-ref": ("--stdin",),
}
"""Long options that the rules look for. git takes the beginning of one for it, where no other begins so."""


class Call:
    """One call of git: the subcommand and what follows it; `settings` of -c, `folders` of -C."""

    # No dataclass: this is imported at a tool call, and dataclasses costs more than all the rest.
    def __init__(self) -> None:
        self.subcommand = ""
        self.arguments: list[str] = []
        self.settings: list[tuple[str, str]] = []
        self.folders: list[str] = []
        self.git_dir = ""
        self.work_tree = ""
        self.programs = ""

    @property
    def aliases(self) -> list[str]:
        """What the subcommand means where -c makes it an alias."""
        return [value for name, value in self.settings if name == f"alias.{self.subcommand.lower()}"]


def parse(arguments: list[str]) -> Call:
    """What git would make of these arguments."""
    call = Call()
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        name, equals, value = arguments[at].partition("=")
        if name in _WITH_VALUE and not equals:
            at += 1
            value = arguments[at] if at < len(arguments) else ""
        elif name[:2] in ("-c", "-C") and len(arguments[at]) > 2:
            name, value = arguments[at][:2], arguments[at][2:]
        if name in ("-c", "--config-env"):
            setting, _, content = value.partition("=")
            call.settings.append((setting.replace(UNKNOWN, "").lower(), content))
        elif name == "-C":
            call.folders.append(value)
        elif name == "--git-dir":
            call.git_dir = value
        elif name == "--work-tree":
            call.work_tree = value
        elif name == "--exec-path" and equals:
            call.programs = value
        at += 1
    call.subcommand = arguments[at].replace(UNKNOWN, "") if at < len(arguments) else ""
    call.arguments = _whole(arguments[at + 1 :], WHOLE.get(call.subcommand, ()))
    return call


def _whole(words: list[str], names: tuple[str, ...]) -> list[str]:
    """The words, with those of these options that were cut short written out."""
    found = list(words)
    for at, word in enumerate(words if names else ()):
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name.startswith("--") and name not in names:
            found[at] = next((long for long in names if long.startswith(name)), name) + equals + value
    return found


def values(words: list[str], *names: str) -> list[str]:
    """The values of these options: of `--name VALUE` and of `--name=VALUE`."""
    apart = [words[at + 1] for at, word in enumerate(words[:-1]) if word in names]
    return apart + [word.partition("=")[2] for word in words if word.partition("=")[0] in names and "=" in word]
