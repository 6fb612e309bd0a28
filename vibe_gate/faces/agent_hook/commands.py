"""Command lines that go around the gate in plain sight: read with `shlex`, refused with one
sentence.

This is a courtesy, not a wall: an agent learns at once what to do instead. What cannot be read here
(programs, variables, `base64 -d | sh`) git's `reference-transaction` hook refuses when a branch
would move. Here stand, above all, the forms that would keep git from calling that hook.
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from vibe_gate.faces.agent_hook.git_calls import (
    CONFIG,
    HIDDEN,
    find_config_variable,
    refusal_of_git_call,
)
from vibe_gate.faces.agent_hook.line_places import (
    UNKNOWN,
    Elsewhere,
    folder_below,
    is_free,
    path_from_folder,
    path_if_known,
)

HOOK_FILES = (
    "{0} belongs to git's hooks, which run the gate; leave it, and ask the user if it should change"
)
NO_STOP = "`vibe-gate install --no-stop` lets turns end unreviewed; ask the user to do that"
FOR_PEOPLE = (
    "`vibe-gate {0}` is for people; ask the user, or, if the finding is a judge's and has not been "
    "disputed yet, say why it is wrong: `vibe-gate dispute FINDING --reason TEXT`"
)
NO_FORCE = (
    "`vibe-gate review --force` is for people; leave `--force` out, or say why the finding is "
    "wrong: `vibe-gate dispute FINDING --reason TEXT`"
)
UNINSTALL = "`{0} uninstall` takes the gate away; ask the user to do that"

PEOPLES_COMMANDS = ("override", "suppress", "label")
"""Of vibe-gate: what people say of findings. The commands refuse an agent, too, if it shows itself."""

AGENT_VARIABLES = frozenset(
    {
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CURSOR_AGENT",
        "CODEX_SANDBOX",
        "CODEX_THREAD_ID",
        "GEMINI_CLI",
        "OPENCODE",
        "COPILOT_AGENT_SESSION_ID",
        "CODEX_CI",
        "AMP_CURRENT_THREAD_ID",
        "GOOSE_TERMINAL",
        "QWEN_CODE",
        "AUGMENT_AGENT",
        "PI_CODING_AGENT",
    }
)
"""`domain.provenance.AGENT_COMMANDS`, which a bare interpreter cannot import."""

_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w+)\1")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_HOOK_PATH = re.compile(
    r"/(\.git(/hook[^/]*(/.*)?|/config(\.worktree)?)?|\.husky/_(/.*)?)/?\Z", re.DOTALL
)
_WRAPPERS = frozenset(
    {
        "sudo",
        "env",
        "command",
        "exec",
        "nice",
        "nohup",
        "time",
        "timeout",
        "xargs",
        "builtin",
        "setsid",
        "stdbuf",
        "!",
        "{",
        "then",
        "do",
        "else",
        "if",
        "while",
        "until",
        "coproc",
    }
)
_STARTED = frozenset(
    {"git", "git-commit", "vibe-gate", "rm", "mv", "chmod", "tee", "sed", "unset", "export"}
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "eval", "su", "script", "env"})
_WRITERS = frozenset(
    {
        "rm",
        "mv",
        "cp",
        "ln",
        "chmod",
        "tee",
        "sed",
        "truncate",
        "install",
        "dd",
        "unlink",
        "shred",
        "rsync",
        "rename",
        "touch",
        "perl",
    }
)
MAX_DEPTH = 3

_REDIRECTIONS = (">", ">>", ">|", "&>")
_GATE_PROGRAMS = ("vibe-gate", "pre-commit", "prek", "husky", "lefthook")
_VARIABLE_PROGRAMS = ("export", "declare", "typeset", "readonly")


def refusal_of_line(line: str, cwd: str, elsewhere: Elsewhere, depth: int = 0) -> str:
    """Why the line is refused; "" if it is not. ValueError if it cannot be read.

    `cwd` is where the line runs: a fact, whatever signs are in its name. `elsewhere(folder)` says
    whether a folder belongs to another repository, or to none: what happens there is free.
    """
    segments = list(_segments(_without_documents(line)))
    with_git = any("git" in map(os.path.basename, words) for words in segments)
    for words in segments:
        if words[0] in ("cd", "pushd") and len(words) > 1:
            cwd = folder_below(cwd, words[1])
        elif reason := _refusal_of_command(words, cwd, elsewhere, with_git):
            return reason
        if depth < MAX_DEPTH and _SHELLS & set(map(os.path.basename, words)):
            for word in words[1:]:
                if " " in word and (reason := refusal_of_line(word, cwd, elsewhere, depth + 1)):
                    return reason
    return ""


def _without_documents(line: str) -> str:
    """The line without the text of its here-documents."""
    lines: list[str] = []
    ends: list[str] = []
    for part in line.split("\n"):
        if not ends:
            lines.append(part)
            ends = [match[2] for match in _HERE_DOCUMENT.finditer(part)]
        elif part.strip(" \t") == ends[0]:
            ends.pop(0)
    return "\n".join(lines)


def _segments(line: str) -> Iterator[list[str]]:
    """The simple commands of a line, each as its words; redirections stand in them as `>`."""
    lexer = shlex.shlex(line.replace("\\\n", ""), posix=True, punctuation_chars=";&|()<>`\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in lexer:
        if word and not word.strip(";&|()`\n"):
            if words:
                yield words
            words = []
        else:
            words.append(word)
    if words:
        yield words


def _refusal_of_command(words: list[str], cwd: str, elsewhere: Elsewhere, with_git: bool) -> str:
    """Why a simple command is refused; "" if it is not. `with_git`: its line runs git."""
    at, assignments = _find_program(words)
    program = os.path.basename("".join(words[at : at + 1]))  # noqa: PTH119
    arguments = words[at + 1 :]
    if program.startswith("git-"):
        arguments = [program.removeprefix("git-"), *arguments]
        program = "git"
    if with_git:
        reason = _refusal_of_hiding(words, program, assignments)
        if reason:
            return reason
    if program == "git":
        wrappers = words[:at]
        clears = not {"-i", "-", "--ignore-environment"}.isdisjoint(wrappers)
        clears_environment = "env" in wrappers and clears
        return refusal_of_git_call(
            arguments, assignments, cwd, elsewhere, clears_environment=clears_environment
        )
    if program in _VARIABLE_PROGRAMS:
        names = [argument.partition("=")[0] for argument in arguments]
        config_variable = find_config_variable(names)
        return CONFIG.format(config_variable) if config_variable else ""
    reason_of_gate = _refusal_of_gate_command(program, arguments)
    if reason_of_gate is not None:
        return reason_of_gate
    for target in _written_words(words, program, arguments):
        if _is_hook_file(target.removeprefix("of="), program, cwd, elsewhere):
            return HOOK_FILES.format(target)
    return ""


def _find_program(words: list[str]) -> tuple[int, dict[str, str]]:
    """Where the program's name stands, behind assignments and programs that only start others; the
    assignments.
    """
    assignments = {}
    for at, word in enumerate(words):
        name, _, value = word.partition("=")
        if _ASSIGNMENT.match(word):
            assignments[name.rstrip("+")] = value
        elif os.path.basename(word) not in _WRAPPERS:  # noqa: PTH119
            return at, assignments
        else:
            assignments |= _assignments_in(words[at:])
            return _find_started(words, at), assignments
    return len(words), assignments


def _find_started(words: list[str], at: int) -> int:
    """Where the program stands that a wrapper starts. Options of a wrapper have values of their
    own, so only the programs that matter here are looked for.
    """
    for place in range(at, len(words)):
        if os.path.basename(words[place]) in _STARTED:  # noqa: PTH119
            return place
    return len(words)


def _assignments_in(words: list[str]) -> dict[str, str]:
    assignments = {}
    for word in words:
        if _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            assignments[name] = value
    return assignments


def _refusal_of_hiding(words: list[str], program: str, assignments: dict[str, str]) -> str:
    """Why the command may not hide the agent's variables from git; "" if it does not."""
    for name in AGENT_VARIABLES:
        if assignments.get(name) == "":
            return HIDDEN.format(name)
        if program not in ("unset", "git", *_VARIABLE_PROGRAMS):
            continue
        if not {name, f"-u{name}", f"--unset={name}", f"{name}="}.isdisjoint(words):
            return HIDDEN.format(name)
    return ""


def _refusal_of_gate_command(program: str, arguments: list[str]) -> str | None:
    """Why a command that is about the gate itself is refused, "" if it is not; None of any other
    command.
    """
    command = "".join(arguments[:1])
    is_help = "--help" in arguments
    if command == "uninstall" and program in _GATE_PROGRAMS:
        return "" if is_help else UNINSTALL.format(program)
    if program != "vibe-gate":
        return None
    if command == "install" and "--no-stop" in arguments:
        return NO_STOP
    if command == "review" and "--force" in arguments:
        return "" if is_help else NO_FORCE
    if command in PEOPLES_COMMANDS:
        is_reading = is_help or arguments[1:2] == ["list"]
        return "" if is_reading else FOR_PEOPLE.format(command)
    return None


def _written_words(words: list[str], program: str, arguments: list[str]) -> list[str]:
    """The words that name what a command may write or remove: by redirections, then by itself."""
    targets = [target for mark, target in pairwise(words) if mark in _REDIRECTIONS]
    if program == "find":
        if not {"-delete", "-exec", "-execdir"}.isdisjoint(arguments):
            targets += arguments[:1]
        return targets
    if program not in _WRITERS or _leaves_files(program, arguments):
        return targets
    if program in ("cp", "ln", "install", "rsync"):
        return targets + arguments[-1:]
    return targets + arguments


def _leaves_files(program: str, arguments: list[str]) -> bool:
    """Whether such a program, called so, takes nothing from the files that it names."""
    if program in ("sed", "perl"):
        return not any(word.startswith("-") and "i" in word for word in arguments)
    return program == "chmod" and "+" in "".join(arguments[:2])


def _is_hook_file(word: str, program: str, cwd: str, elsewhere: Elsewhere) -> bool:
    """Whether a word names git's hooks or configuration in this repository, and the program changes
    them.
    """
    if cwd == UNKNOWN and not word.startswith(("/", "~")):
        return False
    path = path_from_folder(cwd, word)
    match = _HOOK_PATH.search(path)
    if match is None:
        return False
    removes = program in ("rm", "mv", "chmod", "find")
    if not removes and "/.git/" not in path and "/.husky/_/" not in path:
        return False
    repository = path[: match.start()] or "/"
    return not is_free(path_if_known(repository, cwd), elsewhere)
