"""Git's settings and variables: which of them switch the gate off, and what to do instead."""

from vibe_gate.faces.claude_hook.shell import UNKNOWN

NO_VERIFY = "vibe-gate: `{0}` skips the gate; run it without, read what the gate finds and fix that."
HOOKS_PATH = "vibe-gate: {0} would switch the git hooks off; leave it, and fix what the hooks complain about."
TRUST = "vibe-gate: {0} decides which definitions bind; ask the user to set it."
HIDDEN = "vibe-gate: {0} hides that an agent commits; leave the variable as it is."
JUDGE = "vibe-gate: {0} decides who judges and what about; commit without it, as the user has set it up."
PATH = "vibe-gate: `PATH=` without the one there is may mean other programs; put yours in front of $PATH."
REMOTE = "vibe-gate: {0} decides what the gate compares with; ask the user to set it."
OTHERS = "vibe-gate: {0} makes git read other settings than the user's; commit without it."
EDITOR = "vibe-gate: `git config {0}` opens all settings, those of the hooks with them; use `git config NAME VALUE`."

AGENT_VARIABLES = (
    "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CURSOR_AGENT", "CURSOR_TRACE_ID", "CODEX_SANDBOX", "CODEX_THREAD_ID",
    "GEMINI_CLI", "OPENCODE", "AIDER_MODEL", "COPILOT_AGENT_SESSION_ID",
)  # fmt: skip
"""Those of domain/provenance.py, without the import."""

_OTHER_SETTINGS = (
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG",
    "GIT_EXEC_PATH", "HOME", "XDG_CONFIG_HOME",
)  # fmt: skip

_JUDGE = ("ANTHROPIC_BASE_URL", "PRE_COMMIT", "PRE_COMMIT_FROM_REF", "PRE_COMMIT_TO_REF", "PREK_HOOK_STAGE",
          "PRE_COMMIT_REWRITE_COMMAND", "GIT_REFLOG_ACTION")  # fmt: skip

_READING = frozenset({"--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "--get-color", "get",
                      "list", "--get-colorbool"})  # fmt: skip
_WITH_VALUE = frozenset({"-f", "--file", "--blob", "--type", "-t", "--default", "--comment", "--value", "--url"})
LONG = (*sorted(name for name in _READING | _WITH_VALUE if name.startswith("--")), "--global", "--system", "--edit",
        "--unset", "--unset-all", "--remove-section", "--rename-section")  # fmt: skip
"""Long options of `git config` that are looked for."""

_SECTIONS = frozenset({"--remove-section", "--rename-section", "remove-section", "rename-section"})
_EVERYWHERE = frozenset({"--global", "--system"})
_GUARDED_SECTIONS = ("core", "vibe-gate", "include", "includeif")


def refused_variable(name: str, value: str) -> str | None:
    """Why a variable may not be set so in front of any command, if it may not."""
    if name.startswith("GIT_CONFIG_KEY_"):
        return refused_setting(value.lower(), name)
    if name == "GIT_CONFIG_PARAMETERS":
        known = ("core.hookspath", "vibe-gate.", "include.path")
        return next((refused_setting(key, name) for key in known if key in value.lower()), None)
    if name in ("SKIP", "PREK_SKIP", "LEFTHOOK_EXCLUDE"):
        names = [word.strip() for word in value.split(",")]
        return NO_VERIFY.format(f"{name}={value}") if any(word.startswith("vibe-gate") for word in names) else None
    return None


def refused_surroundings(changed: dict[str, str | None]) -> str | None:
    """Why git may run no hook with these variables changed, if it may not; None means that one is taken away."""
    if "*" in changed:
        return HIDDEN.format("running it without the session's variables (`env -i`, `exec -c`, `sudo`)")
    for name in changed:
        value = changed[name]
        if name in AGENT_VARIABLES and not (value or "").strip(UNKNOWN):
            return HIDDEN.format(f"`{name}=`" if value is not None else f"unsetting {name}")
        if value is None:
            continue
        if name in _OTHER_SETTINGS:
            return OTHERS.format(f"`{name}=`")
        if name in _JUDGE or name.startswith("VIBE_GATE_"):
            return JUDGE.format(f"`{name}=`")
        if name == "PATH" and UNKNOWN not in value:
            return PATH
        if name == "GIT_CONFIG_COUNT" and not (changed.get("GIT_CONFIG_KEY_0") or "").strip(UNKNOWN):
            return OTHERS.format(f"`{name}=`")
        if name in ("HUSKY", "LEFTHOOK") and value.lower() in ("0", "false"):
            return NO_VERIFY.format(f"{name}={value}")
        if name in ("PRE_COMMIT_ALLOW_NO_CONFIG", "PREK_ALLOW_NO_CONFIG") and value not in ("", "0"):
            return NO_VERIFY.format(f"{name}={value}")
    return None


def refused_setting(name: str, how: str) -> str | None:
    """Why a setting may not be made, if it may not; `how` is for the sentence."""
    if name == "core.hookspath":
        return HOOKS_PATH.format(f"core.hooksPath ({how})")
    if name == "include.path" or name.startswith("includeif."):
        return HOOKS_PATH.format(f"a file of settings ({how})").replace("would", "could")
    if name.startswith("vibe-gate."):
        return TRUST.format(f"{name} ({how})")
    if name == "gpg.ssh.allowedsignersfile":
        return TRUST.format(f"{name} ({how})").replace("which definitions bind", "whose receipts count")
    if (name.startswith("remote.") and name.endswith((".url", ".fetch", ".pushurl"))) or name.endswith(
        ".pushinsteadof"
    ):
        return REMOTE.format(f"{name} ({how})")
    return None


def refused_config(arguments: list[str], elsewhere: bool) -> str | None:
    """Why `git config` is refused, if it is. `elsewhere`: in another repository than the guarded one."""
    if elsewhere and not _EVERYWHERE & set(arguments):
        return None
    words = config_words(arguments)
    first = next((word for word in arguments if not word.startswith("-")), "")
    if _SECTIONS & set(arguments):
        section = next((word for word in words if word.lower().partition(".")[0] in _GUARDED_SECTIONS), None)
        return HOOKS_PATH.format(f"`git config --remove-section {section}`") if section else None
    if "-e" in arguments or "--edit" in arguments or first == "edit":
        return EDITOR.format("--edit")
    if not words or any(word in _READING for word in arguments if word.startswith("-")) or first in _READING:
        return None
    unsets = first == "unset" or any(word.startswith("--unset") for word in arguments)
    if len(words) == 1 and not unsets:
        return None  # it prints the value
    name = words[0].replace(UNKNOWN, "").lower()
    if name.startswith("remote.") and words[1:] == [f"+refs/heads/*:refs/remotes/{words[0].split('.')[1]}/*"]:
        return None  # what every clone has
    return refused_setting(name, "`git config`")


def config_words(arguments: list[str]) -> list[str]:
    """The name and the value, without options and the words `set`, `unset` and so on."""
    words: list[str] = []
    at = 0
    while at < len(arguments):
        if arguments[at] in _WITH_VALUE:
            at += 1
        elif not arguments[at].startswith("-"):
            words.append(arguments[at])
        at += 1
    known = ("set", "unset", "get", "list", "edit", "remove-section", "rename-section")
    return words[1:] if words and words[0] in known else words
