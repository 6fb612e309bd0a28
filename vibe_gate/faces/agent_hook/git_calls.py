"""Calls of git that go around its hooks: by an option, a setting, a variable or another folder."""

from __future__ import annotations

import re

from vibe_gate.faces.agent_hook.line_places import (
    Elsewhere,
    folder_below,
    is_free,
    path_from_folder,
)

NO_VERIFY = "`git {0}` without its hooks goes around the gate; run it without {1} and fix what the hooks report"
HOOKS_PATH = (
    "`{0}` decides which hooks git runs; leave it as it is, and ask the user if it should change"
)
CONFIG = "{0} would give git another configuration, and with it other hooks; run git without it"
OTHER_FOLDER = "{0} makes git commit past the hooks of this repository; run git in the repository itself (`git -C`)"
HIDDEN = "{0} hides the agent from the gate; leave the variable as it is"

_CONFIG_VARIABLE = re.compile(r"GIT_CONFIG_(COUNT|PARAMETERS|GLOBAL|SYSTEM|KEY_\d+|VALUE_\d+)\Z")
_RUNS_HOOKS = frozenset(
    ["commit", "merge", "am", "rebase", "cherry-pick", "revert", "pull", "push"]
)
_OPTIONS_WITH_VALUE = ("-c", "-C", "--git-dir", "--work-tree", "--config-env", "--namespace")
"""Options of git itself whose value is the next word."""

_FOLDER_NAMES = ("--git-dir", "GIT_DIR", "GIT_COMMON_DIR", "--exec-path", "GIT_EXEC_PATH")
"""Options and variables that give git another folder of its own."""

_CHANGING_WORDS = ("--add", "--rep", "--uns", "set", "unset")
"""How words of `git config` begin that change a setting."""

_LETTERS_WITH_VALUE = re.compile("[mFcCtuS]")
"""Letters of `git commit` behind which a value stands, attached or as the next word (`-u`, `-S`:
attached).
"""


class _GitCall:
    """A call of git, read from the words behind "git"."""

    def __init__(self, words: list[str], cwd: str) -> None:
        self.options: dict[str, str] = {}
        """Those of git itself, by name, each with the word that may be its value."""
        self.settings: list[str] = []
        """`name=value`, of `-c` and `--config-env`."""
        self.cwd = cwd
        """Where git runs: `cwd`, or where `-C` leads from there."""
        at = 0
        while at < len(words) and words[at].startswith("-"):
            next_word = "".join(words[at + 1 : at + 2])
            self._add_option(words[at], next_word)
            at += 2 if words[at] in _OPTIONS_WITH_VALUE else 1
        self.command = "".join(words[at : at + 1])
        self.arguments = words[at + 1 :]

    def _add_option(self, word: str, next_word: str) -> None:
        name, _, value = word.partition("=")
        value = value or next_word
        self.options[name] = value
        if name.startswith("-c"):
            self.settings.append(word[2:] or value)
        elif name == "--config-env":
            self.settings.append(value)
        elif name == "-C":
            self.cwd = folder_below(self.cwd, value)


def refusal_of_git_call(
    words: list[str],
    assignments: dict[str, str],
    cwd: str,
    elsewhere: Elsewhere,
    *,
    clears_environment: bool,
) -> str:
    """Why a call of git is refused; "" if it is not. `words` stand behind "git"."""
    call = _GitCall(words, cwd)
    is_outside = is_free(call.cwd, elsewhere)
    is_global = any(argument.startswith("--glo") for argument in call.arguments)
    if call.command == "config" and (is_global or not is_outside):
        return _refusal_of_config(call.arguments)
    if is_outside:
        return ""
    for setting in call.settings:
        name, _, _ = setting.partition("=")
        if _decides_about_hooks(name):
            return HOOKS_PATH.format(name)
    if call.command not in _RUNS_HOOKS:
        return ""
    if clears_environment:
        return HIDDEN.format("`env -i`")
    config_variable = find_config_variable(assignments)
    if config_variable:
        return CONFIG.format(config_variable)
    other_folder = _name_of_other_folder(assignments | call.options, call.cwd, elsewhere)
    if other_folder:
        return OTHER_FOLDER.format(other_folder)
    flag = _hookless_option(call.command, call.arguments)
    return NO_VERIFY.format(call.command, flag) if flag else ""


def find_config_variable(names: list[str] | dict[str, str]) -> str:
    """The first variable that gives git another configuration; "" if there is none."""
    return next(filter(_CONFIG_VARIABLE.match, names), "")


def _name_of_other_folder(values: dict[str, str], cwd: str, elsewhere: Elsewhere) -> str:
    """The option or variable by which git would use another git folder for this working tree; "" if
    none does.
    """
    tree = values.get("--work-tree", values.get("GIT_WORK_TREE", "."))
    for name in _FOLDER_NAMES:
        if name not in values:
            continue
        is_program_folder = "EXEC" in name.upper()
        if is_program_folder or elsewhere(path_from_folder(cwd, values[name])):
            if elsewhere(path_from_folder(cwd, tree)):
                return ""
            return name
    return ""


def _decides_about_hooks(setting: str) -> bool:
    name = setting.lower()
    return name in ("core.hookspath", "include.path") or name.startswith("includeif.")


def _refusal_of_config(words: list[str]) -> str:
    """`git config core.hooksPath` may be read, not changed."""
    changes = any(word.startswith(_CHANGING_WORDS) for word in words)
    for at, word in enumerate(words):
        has_value = at + 1 < len(words)
        if _decides_about_hooks(word) and (has_value or changes):
            return HOOKS_PATH.format(word)
        changes_section = any(earlier.startswith(("--rem", "--ren")) for earlier in words[:at])
        if word == "core" and changes_section:
            return HOOKS_PATH.format("core")
    return ""


def _hookless_option(command: str, words: list[str]) -> str:
    """The option by which hooks are left out; "" if there is none."""
    if any(word.startswith("--dry") for word in words):
        return ""
    at = 0
    while at < len(words) and words[at] != "--":
        word = words[at]
        is_no_verify = word.startswith("--no-v") and "--no-verify".startswith(word)
        if is_no_verify and command != "am":
            return word
        if word in ("--message", "--file", "--author", "--date"):
            at += 1
        elif command == "commit" and word.startswith("-") and not word.startswith("--"):
            letters, *values = _LETTERS_WITH_VALUE.split(word[1:], maxsplit=1)
            if "n" in letters:
                return word
            if values == [""] and word[-1] not in "uS":
                at += 1
        at += 1
    return ""
