"""What an agent may not do to the gate that checks its work, and what it should do instead.

A refusal is one sentence for the agent. It is None for everything else: nothing is ever
approved here, the agent's own permissions decide about it.
"""

import os.path

from vibe_gate.faces.claude_hook import git_rules
from vibe_gate.faces.claude_hook.shell import MAX_DEPTH, UNKNOWN, WRITING, Command, Unreadable, commands

GUARDED = "a human decides about the gate: say what should change and why, and let the user edit it"
BUNDLES = ".vibe-artifacts holds evidence that only vibe-gate writes; run `vibe-gate bundles` to look at it"
HOOKS = "the git hooks run the gate; leave them, and fix what they complain about"
SETTINGS = "edit git's settings with `git config`; core.hooksPath and vibe-gate.* belong to the user"

_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash", "fish"})
_BEFORE = {
    "command": (), "builtin": (), "exec": ("-a",), "nohup": (), "setsid": (), "time": ("-f", "-o"), "env": ("-u", "-C"),
    "sudo": ("-u", "-g", "-C", "-h", "-p", "-D"), "doas": ("-u", "-C"), "nice": ("-n",), "ionice": ("-c", "-n", "-p"),
    "stdbuf": ("-i", "-o", "-e"), "timeout": ("-k", "-s"), "xargs": ("-I", "-n", "-P", "-L", "-s", "-d", "-a", "-E"),
    "chroot": (), "parallel": ("-j",), "busybox": (), "watch": ("-n",), "flock": ("-w", "-E"), "unbuffer": (),
    "uvx": (), "uv": (), "pipx": (), "npx": (), "poetry": (), "run": (), "caffeinate": (), "chronic": (),
}  # fmt: skip
"""Programs that run the command in their arguments, with those of their options that take a value."""

_SKIPPING = {"timeout": 1, "flock": 1, "chroot": 1}
"""Arguments of theirs that stand before that command."""

_CHANGING = frozenset({
    "rm", "rmdir", "mv", "chmod", "chown", "chgrp", "chattr", "touch", "tee", "truncate", "unlink", "shred", "setfacl",
    "mkfifo", "mkdir", "trash", "ed", "ex", "vi", "vim", "nano",
})  # fmt: skip
"""Every path that they are given may change."""

_MAKING = frozenset({"cp", "ln", "install", "rsync", "link"})
"""Only the last path that they are given changes, or the one of -t."""

_IN_PLACE = {"sed": ("-i", "--in-place"), "perl": ("-i",), "gawk": ("-i",), "awk": ("-i",), "sponge": ("",)}
_LINE_OPTION = {"su": "-c", "runuser": "-c", "script": "-c", "flock": "-c", "env": "-S"}
"""Programs besides shells that take a line of shell, and the option before it."""

_INTO = {"tar": ("-C", "--directory"), "unzip": ("-d",)}
"""Programs that write below a folder which an option names."""

_OWN = frozenset({"vibe-gate", "pre-commit", "prek", "lefthook", "husky"})


def refused_edit(path: str, cwd: str) -> str | None:
    """Why a tool may not write the file, if it may not. `path` may be relative to `cwd`."""
    return _protected(path, cwd) or _protected(os.path.realpath(os.path.join(cwd, path)), cwd)  # noqa: PTH118


def refused_command(line: str, cwd: str, depth: int = 0) -> str | None:
    """Why the agent may not run the line, if it may not. Unreadable where it cannot be understood."""
    if depth > MAX_DEPTH:
        raise Unreadable("too deep")
    here, aliases = cwd, dict[str, str]()
    for command in commands(line):
        if command.words[:1] == ["alias"]:
            aliases.update((name, value) for name, _, value in (word.partition("=") for word in command.words[1:]))
        elif command.words and (alias := aliases.get(command.words[0])):
            inner = alias + " " + _quoted(command.words[1:])
            if refusal := refused_command(inner, here, depth + 1):
                return refusal
        if command.words[:1] in (["cd"], ["pushd"]) and len(command.words) > 1:
            here = os.path.join(here, os.path.expanduser(command.words[-1]))  # noqa: PTH118, PTH111
        if refusal := _refused(command, here, depth):
            return refusal
    return None


def _refused(command: Command, cwd: str, depth: int) -> str | None:
    for name, value in command.assigned.items():
        if refusal := git_rules.refused_variable(name, value):
            return refusal
    for operator, target in command.redirected:
        if operator in WRITING and (refusal := _protected(target, cwd)):
            return refusal
    for words in _stages(command.words):
        if refusal := _refused_words(words, command, cwd, depth):
            return refusal
    return None


def _stages(words: list[str]) -> list[list[str]]:
    """The command, and the command that it runs, and so on: `nice env A=b git push` gives three."""
    stages = []
    while words:
        stages.append(words)
        program = os.path.basename(words[0])  # noqa: PTH119
        words = _inside(program, words[1:]) if program in _BEFORE else []
    return stages


def _inside(program: str, words: list[str]) -> list[str]:
    at, skipping = 0, _SKIPPING.get(program, 0)
    while at < len(words):
        word = words[at]
        if word.startswith("-") and word != "-":
            at += 2 if word in _BEFORE[program] else 1
        elif program == "env" and "=" in word:
            at += 1
        elif skipping:
            skipping, at = skipping - 1, at + 1
        else:
            break
    return words[at:]


def _refused_words(words: list[str], command: Command, cwd: str, depth: int) -> str | None:
    program, arguments = os.path.basename(words[0]), words[1:]  # noqa: PTH119
    if program == "git":
        return _refused_git(arguments, cwd, depth)
    if program == "env":
        for word in arguments:
            name, equals, value = word.partition("=")
            if equals and (refusal := git_rules.refused_variable(name, value)):
                return refusal
    if option := _LINE_OPTION.get(program):
        for at, word in enumerate(arguments[:-1]):
            clustered = word[:1] == "-" and word[1:2] != "-" and word.endswith(option[1])
            if clustered and (refusal := refused_command(arguments[at + 1], cwd, depth + 1)):
                return refusal
    if program in _SHELLS or program == "eval":
        return _refused_script(program, arguments, command, cwd, depth)
    if program == "find":
        return _refused_find(arguments, cwd, depth)
    if program in _OWN:
        return _refused_own(program, arguments)
    for path in _changed_paths(program, arguments):
        if refusal := _protected(path, cwd, removes=program in ("rm", "mv", "rmdir", "shred", "trash")):
            return refusal
    return None


def _refused_git(arguments: list[str], cwd: str, depth: int) -> str | None:
    call = git_rules.parse(arguments)
    for alias in call.aliases:
        if refusal := _refused_alias(alias, call.arguments, cwd, depth):
            return refusal
    if refusal := git_rules.refused(call):
        return refusal
    if new_alias := git_rules.new_alias(call):
        return _refused_alias(new_alias, [], cwd, depth)
    if call.subcommand in ("rm", "mv"):
        place = os.path.join(cwd, *call.folders)  # noqa: PTH118
        return next(filter(None, (_protected(path, place, removes=True) for path in call.arguments)), None)
    if call.subcommand in ("submodule", "bisect", "rebase"):
        return _refused_nested(call, cwd, depth)
    return None


def _refused_alias(alias: str, arguments: list[str], cwd: str, depth: int) -> str | None:
    line = alias[1:] if alias.startswith("!") else "git " + alias
    return refused_command(f"{line} {_quoted(arguments)}", cwd, depth + 1)


def _quoted(words: list[str]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def _refused_nested(call: git_rules.Call, cwd: str, depth: int) -> str | None:
    """`submodule foreach CMD`, `bisect run CMD`, `rebase --exec CMD`."""
    words = call.arguments
    if call.subcommand == "rebase":
        lines = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-x", "--exec")]
        lines += [word.partition("=")[2] for word in words if word.startswith("--exec=")]
    else:
        lines = [" ".join(words[at + 1 :]) for at, word in enumerate(words) if word in ("foreach", "run")]
    return next(filter(None, (refused_command(line, cwd, depth + 1) for line in lines)), None)


def _refused_script(program: str, arguments: list[str], command: Command, cwd: str, depth: int) -> str | None:
    """`sh -c LINE`, `eval LINE`, and what a shell without a script reads from its stdin."""
    named = any(not word.startswith("-") for word in arguments) and "-s" not in arguments
    line = "" if named else command.fed
    if program == "eval":
        line = " ".join(arguments)
    for at, word in enumerate(arguments[:-1]):
        if program in _SHELLS and word.startswith("-") and not word.startswith("--") and "c" in word:
            line = arguments[at + 1]
            break
    return refused_command(line, cwd, depth + 1) if line else None


def _refused_find(arguments: list[str], cwd: str, depth: int) -> str | None:
    places = []
    for word in arguments:
        if word.startswith(("-", "(", "!")):
            break
        places.append(word)
    named = [arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in ("-name", "-path")]
    if "-delete" in arguments:
        refusals = (_protected(path, cwd, removes=True) for path in [*places, *named])
        return next(filter(None, refusals), None)
    for at, word in enumerate(arguments):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            inner = Command()
            for place in places or ["."]:
                inner.words = [part.replace("{}", place) for part in arguments[at + 1 :] if part not in (";", "+")]
                if refusal := _refused(inner, cwd, depth + 1):
                    return refusal
    return None


def _refused_own(program: str, arguments: list[str]) -> str | None:
    given = next((word for word in arguments if not word.startswith("-")), "")
    if given == "uninstall":
        return f"vibe-gate: `{program} uninstall` would take the gate away; {HOOKS}."
    if program == "vibe-gate" and given in ("override", "suppress"):
        return f"vibe-gate: `vibe-gate {given}` is for a human; fix the finding, or tell the user why it is wrong."
    return None


def _changed_paths(program: str, arguments: list[str]) -> list[str]:
    paths = [word for word in arguments if not word.startswith("-")]
    if program in _CHANGING:
        return paths
    if program in _MAKING:
        target = [arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word == "-t"]
        target += [word.partition("=")[2] for word in arguments if word.startswith("--target-directory=")]
        return target or paths[-1:]
    if program in _INTO:
        return [arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in _INTO[program]]
    if program == "dd":
        return [word[3:] for word in arguments if word.startswith("of=")]
    if program in _IN_PLACE:
        asked = any(word.startswith(_IN_PLACE[program]) or _clustered_i(program, word) for word in arguments)
        return paths if asked else []
    return []


def _clustered_i(program: str, word: str) -> bool:
    """`perl -pi -e`, `sed -ni`: -i among other letters."""
    letters = word[1:].split(".")[0]
    return program in ("sed", "perl") and word[:1] == "-" and word[1:2] != "-" and "i" in letters and len(letters) < 6


def _protected(path: str, cwd: str, removes: bool = False) -> str | None:
    """Why nothing may write at the path, if nothing may; `removes`: folders above it are meant as well."""
    if not path.strip(UNKNOWN):
        return None
    full = os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))  # noqa: PTH118, PTH111
    names = full.replace(UNKNOWN, "").casefold().split("/")
    if _has(names, ".vibe-gate"):
        return f"vibe-gate: {_shown(path)} is the gate's own definition; {GUARDED}."
    if _has(names, ".vibe-artifacts"):
        return f"vibe-gate: {_shown(path)} is refused; {BUNDLES}."
    for at, name in enumerate(names):
        if _matches(name, ".git"):
            return _in_git_folder(names[at + 1 :], path, removes)
    return None


def _in_git_folder(below: list[str], path: str, removes: bool) -> str | None:
    if not below:
        return f"vibe-gate: {_shown(path)} is refused; {HOOKS}." if removes else None
    if _has(below, "hooks"):
        return f"vibe-gate: {_shown(path)} is refused; {HOOKS}."
    if _has(below, "vibe-gate"):
        return f"vibe-gate: {_shown(path)} holds what the gate has recorded; {GUARDED}."
    if _matches(below[-1], "config") or _matches(below[-1], "config.worktree"):
        return f"vibe-gate: {_shown(path)} is refused; {SETTINGS}."
    return None


def _has(names: list[str], wanted: str) -> bool:
    return any(_matches(name, wanted) for name in names)


def _matches(name: str, wanted: str) -> bool:
    """Whether a name, or the pattern that a shell would expand, means `wanted`."""
    if name == wanted:
        return True
    # A pattern of stars alone means what is there, not this; and a leading dot is never matched by one.
    literal = name.strip("*?")
    pattern = any(letter in name for letter in "*?[")
    return pattern and len(literal) > 1 and name[:1] == wanted[:1] and _expands(name, wanted)


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


def _shown(path: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in path[:200])
