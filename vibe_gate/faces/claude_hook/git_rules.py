"""How git is asked to go around its hooks, and what to do instead."""

NO_VERIFY = "vibe-gate: `{0}` skips the gate; run it without, read what the gate finds and fix that."
HOOKS_PATH = "vibe-gate: {0} would switch the git hooks off; leave it, and fix what the hooks complain about."
TRUST = "vibe-gate: {0} decides which definitions bind; ask the user to set it."
RECEIPTS = "vibe-gate: refs/vibe-gate holds receipts that only vibe-gate writes; run `vibe-gate verify` to read them."
AROUND = "vibe-gate: `git {0}` makes commits that no hook sees; use `git add` and `git commit`."

_WITH_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source"}
)

_NO_VERIFY_IN = frozenset({"commit", "merge", "rebase", "am", "push", "pull"})
_SHORT_N_IN = frozenset({"commit", "am"})
_SHORT_WITH_VALUE = {"commit": "mFCct", "am": "CpS", "merge": "msXF", "rebase": "xsXC", "push": "o", "pull": "sXo"}
_SHORT_OPTIONAL = {"commit": "uS", "am": "S", "merge": "S", "rebase": "S", "push": "", "pull": "S"}
_LONG_WITH_VALUE = {
    "commit": ("--message", "--file", "--author", "--date", "--template", "--reuse-message", "--reedit-message",
               "--fixup", "--squash", "--cleanup", "--trailer", "--pathspec-from-file"),
    "merge": ("--message", "--file", "--strategy", "--strategy-option", "--cleanup", "--into-name"),
    "rebase": ("--onto", "--exec", "--strategy", "--strategy-option", "--whitespace"),
    "am": ("--directory", "--exclude", "--include", "--patch-format", "--resolvemsg"),
    "push": ("--repo", "--push-option", "--receive-pack", "--exec"),
    "pull": ("--strategy", "--strategy-option", "--upload-pack", "--cleanup"),
}  # fmt: skip
_READING = frozenset(
    {"--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "--get-color", "get", "list"}
)
_CONFIG_WITH_VALUE = frozenset({"-f", "--file", "--blob", "--type", "-t", "--default", "--comment", "--value", "--url"})
_SECTIONS = frozenset({"--remove-section", "--rename-section", "remove-section", "rename-section"})


class Call:
    """One call of git: the subcommand and what follows it; `settings` of -c, `folders` of -C."""

    # No dataclass: this is imported at a tool call, and dataclasses costs more than all the rest.
    def __init__(self) -> None:
        self.subcommand = ""
        self.arguments: list[str] = []
        self.settings: list[tuple[str, str]] = []
        self.folders: list[str] = []

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
            call.settings.append((setting.lower(), content))
        elif name == "-C":
            call.folders.append(value)
        at += 1
    call.subcommand = arguments[at] if at < len(arguments) else ""
    call.arguments = arguments[at + 1 :]
    return call


def refused(call: Call) -> str | None:
    """Why this call is refused, if it is."""
    for name, _ in call.settings:
        if refusal := _refused_setting(name, f"`git -c {name}`"):
            return refusal
    name, arguments = call.subcommand, call.arguments
    if name in _NO_VERIFY_IN and (option := _no_verify(name, arguments)):
        return NO_VERIFY.format(f"git {name} {option}")
    if name == "config":
        return _refused_config(arguments)
    if name in ("commit-tree", "fast-import"):
        return AROUND.format(name)
    if name == "update-ref":
        return _refused_update_ref(arguments)
    return None


def refused_variable(name: str, value: str) -> str | None:
    """Why a variable may not be set so in front of a command, if it may not."""
    if name.startswith("GIT_CONFIG_KEY_"):
        return _refused_setting(value.lower(), name)
    if name == "GIT_CONFIG_PARAMETERS":
        known = ("core.hookspath", "vibe-gate.", "include.path")
        return next((_refused_setting(key, name) for key in known if key in value.lower()), None)
    if name in ("SKIP", "PREK_SKIP") and any(word.strip().startswith("vibe-gate") for word in value.split(",")):
        return NO_VERIFY.format(f"{name}={value}")
    if name in ("HUSKY", "LEFTHOOK") and value.lower() in ("0", "false"):
        return NO_VERIFY.format(f"{name}={value}")
    return None


def new_alias(call: Call) -> str | None:
    """What `git config alias.NAME VALUE` makes of NAME."""
    words = _config_words(call.arguments) if call.subcommand == "config" else []
    return words[1] if len(words) > 1 and words[0].lower().startswith("alias.") else None


def _refused_setting(name: str, how: str) -> str | None:
    if name == "core.hookspath":
        return HOOKS_PATH.format(f"core.hooksPath ({how})")
    if name == "include.path" or name.startswith("includeif."):
        return HOOKS_PATH.format(f"a file of settings ({how})").replace("would", "could")
    if name.startswith("vibe-gate."):
        return TRUST.format(f"{name} ({how})")
    return None


def _no_verify(subcommand: str, arguments: list[str]) -> str | None:
    """The option that skips hooks, as it was written."""
    at = 0
    while at < len(arguments) and arguments[at] != "--":
        word = arguments[at]
        if word.startswith("--"):
            name, equals, _ = word.partition("=")
            if len(name) >= len("--no-v") and "--no-verify".startswith(name):
                return word
            takes = any(long.startswith(name) for long in _LONG_WITH_VALUE[subcommand])
            at += 1 if takes and not equals and len(name) > 3 else 0
        elif word.startswith("-") and len(word) > 1:
            found, skip = _short_n(subcommand, word)
            if found:
                return word
            at += skip
        at += 1
    return None


def _short_n(subcommand: str, word: str) -> tuple[bool, int]:
    """Whether -n is among the letters, and how many words after this one belong to it."""
    for at, letter in enumerate(word[1:], 1):
        if letter == "n" and subcommand in _SHORT_N_IN:
            return True, 0
        if letter in _SHORT_WITH_VALUE[subcommand]:
            return False, 0 if word[at + 1 :] else 1
        if letter in _SHORT_OPTIONAL[subcommand]:
            break
    return False, 0


def _config_words(arguments: list[str]) -> list[str]:
    """The name and the value, without options and the words `set`, `unset` and so on."""
    words: list[str] = []
    at = 0
    while at < len(arguments):
        if arguments[at] in _CONFIG_WITH_VALUE:
            at += 1
        elif not arguments[at].startswith("-"):
            words.append(arguments[at])
        at += 1
    return words[1:] if words[:1] in (["set"], ["unset"], ["get"], ["list"], ["edit"]) else words


def _refused_config(arguments: list[str]) -> str | None:
    words = _config_words(arguments)
    first = next((word for word in arguments if not word.startswith("-")), "")
    if _SECTIONS & set(arguments):
        sections = [word.lower() for word in arguments]
        return HOOKS_PATH.format("`git config --remove-section core`") if "core" in sections else None
    if not words or any(word in _READING for word in arguments if word.startswith("-")) or first in _READING:
        return None
    unsets = first == "unset" or any(word.startswith("--unset") for word in arguments)
    if len(words) == 1 and not unsets:
        return None  # it prints the value
    return _refused_setting(words[0].lower(), "`git config`")


def _refused_update_ref(arguments: list[str]) -> str | None:
    if "--stdin" in arguments:
        return AROUND.format("update-ref --stdin")
    named = [word for word in arguments if not word.startswith("-")]
    if any(word.startswith(("refs/vibe-gate", "refs/notes/vibe-gate")) for word in named):
        return RECEIPTS
    if "-d" in arguments or "--delete" in arguments:
        return None
    if any(word == "HEAD" or word.startswith("refs/heads/") for word in named[:2]):
        return AROUND.format("update-ref")
    return None
