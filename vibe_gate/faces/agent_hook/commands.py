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
from collections.abc import Callable, Iterator

NO_VERIFY = "`git {0}` without its hooks goes around the gate; run it without {1} and fix what the hooks report"
HOOKS_PATH = (
    "`{0}` decides which hooks git runs; leave it as it is, and ask the user if it should change"
)
CONFIG = "{0} would give git another configuration, and with it other hooks; run git without it"
OTHER_FOLDER = "{0} makes git commit past the hooks of this repository; run git in the repository itself (`git -C`)"
HIDDEN = "{0} hides the agent from the gate; leave the variable as it is"
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
_CONFIG = re.compile(r"GIT_CONFIG_(COUNT|PARAMETERS|GLOBAL|SYSTEM|KEY_\d+|VALUE_\d+)\Z")
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
_RUNS_HOOKS = frozenset(
    ["commit", "merge", "am", "rebase", "cherry-pick", "revert", "pull", "push"]
)
_CHANGES = ("--add", "--rep", "--uns", "set", "unset")
_GLOBAL_WITH_VALUE = ("-c", "-C", "--git-dir", "--work-tree", "--config-env", "--namespace")
_WITH_VALUE = "mFcCtuS"
"""Letters of `git commit` behind which a value stands, attached or as the next word (`-u`, `-S`:
attached).
"""

MAX_DEPTH = 3

UNKNOWN = ""
"""The folder of which only the shell that runs the line will know the name (`cd "$DIR"`)."""

Elsewhere = Callable[[str], bool]


def refusal_of_line(line: str, cwd: str, elsewhere: Elsewhere, depth: int = 0) -> str:
    """Why the line is refused; "" if it is not. ValueError if it cannot be read.

    `cwd` is where the line runs: a fact, whatever signs are in its name. `elsewhere(folder)` says
    whether a folder belongs to another repository, or to none: what happens there is free.
    """
    segments = list(_segments(_without_documents(line)))
    with_git = any("git" in map(os.path.basename, words) for words in segments)
    for words in segments:
        if words[0] in ("cd", "pushd") and len(words) > 1:
            cwd = _folder_below(cwd, words[1])
        elif reason := _refused(words, cwd, elsewhere, with_git):
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
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
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


def _refused(words: list[str], cwd: str, elsewhere: Elsewhere, with_git: bool) -> str:
    at, assignments = _program(words)
    program, arguments = os.path.basename("".join(words[at : at + 1])), words[at + 1 :]  # noqa: PTH119
    if program.startswith("git-"):
        program, arguments = "git", [program.removeprefix("git-"), *arguments]
    if with_git and (reason := _hides(words, program, assignments)):
        return reason
    if program == "git":
        clears = "env" in words[:at] and any(
            word in ("-i", "-", "--ignore-environment") for word in words[:at]
        )
        return _git(arguments, assignments, cwd, elsewhere, clears)
    if program in ("export", "declare", "typeset", "readonly"):
        changed = next((word for word in arguments if _CONFIG.match(word.partition("=")[0])), "")
        return CONFIG.format(changed.partition("=")[0]) if changed else ""
    if program in ("vibe-gate", "pre-commit", "prek", "husky", "lefthook") and arguments == [
        "uninstall",
        *arguments[1:],
    ]:
        return "" if "--help" in arguments else UNINSTALL.format(program)
    if program == "vibe-gate" and arguments[:1] == ["install"] and "--no-stop" in arguments:
        return NO_STOP
    if program == "vibe-gate" and arguments[:1] == ["review"] and "--force" in arguments:
        return "" if "--help" in arguments else NO_FORCE
    if program == "vibe-gate" and arguments[:1] and arguments[0] in PEOPLES_COMMANDS:
        is_reading = arguments[1:2] == ["list"] or "--help" in arguments
        return "" if is_reading else FOR_PEOPLE.format(arguments[0])
    return _writes(words, program, arguments, cwd, elsewhere)


def _program(words: list[str]) -> tuple[int, dict[str, str]]:
    """Where the program's name stands, behind assignments and programs that only start others; the
    assignments.
    """
    assignments = {}
    for at, word in enumerate(words):
        if _ASSIGNMENT.match(word):
            assignments[word.partition("=")[0].rstrip("+")] = word.partition("=")[2]
        elif os.path.basename(word) not in _WRAPPERS:  # noqa: PTH119
            return at, assignments
        else:  # options of a wrapper have values of their own: its program is the one that matters here
            started = (
                place
                for place in range(at, len(words))
                if os.path.basename(words[place]) in _STARTED  # noqa: PTH119
            )
            pairs = (word.partition("=") for word in words[at:] if _ASSIGNMENT.match(word))
            assignments |= {name: value for name, _, value in pairs}
            return next(started, len(words)), assignments
    return len(words), assignments


def _hides(words: list[str], program: str, assignments: dict[str, str]) -> str:
    """Hiding the agent's variables from git, on a line that runs it."""
    for name in AGENT_VARIABLES:
        is_named = any(word in (name, f"-u{name}", f"--unset={name}", f"{name}=") for word in words)
        if (
            is_named and program in ("unset", "export", "declare", "typeset", "readonly", "git")
        ) or assignments.get(name) == "":
            return HIDDEN.format(name)
    return ""


def _git(
    words: list[str], assignments: dict[str, str], cwd: str, elsewhere: Elsewhere, clears: bool
) -> str:
    """A call of git: its own options, then the subcommand. `clears`: it starts with an empty
    environment.
    """
    options: dict[str, str] = {}
    settings = []
    at = 0
    while at < len(words) and words[at][:1] == "-":
        name, _, value = words[at].partition("=")
        value = value or "".join(words[at + 1 : at + 2])
        if name[:2] == "-c" and name[:3] != "--c":
            settings.append(words[at][2:] or value)
        elif name == "--config-env":
            settings.append(value)
        elif name == "-C":
            cwd = _folder_below(cwd, value)
        options[name] = value
        at += 2 if words[at] in _GLOBAL_WITH_VALUE else 1
    command, arguments = "".join(words[at : at + 1]), words[at + 1 :]
    if command == "config" and (
        not _is_free(cwd, elsewhere) or any(word.startswith("--glo") for word in arguments)
    ):
        return _config(arguments)
    if _is_free(cwd, elsewhere):
        return ""
    if changed := next(
        (name for setting in settings if _is_hooks_path(name := setting.partition("=")[0])), ""
    ):
        return HOOKS_PATH.format(changed)
    if command not in _RUNS_HOOKS:
        return ""
    if clears:
        return HIDDEN.format("`env -i`")
    if changed := next((name for name in assignments if _CONFIG.match(name)), ""):
        return CONFIG.format(changed)
    if other := _other_folder(assignments | options, cwd, elsewhere):
        return OTHER_FOLDER.format(other)
    flag = _no_verify(command, arguments)
    return NO_VERIFY.format(command, flag) if flag else ""


def _other_folder(assignments: dict[str, str], cwd: str, elsewhere: Elsewhere) -> str:
    """The option or variable by which git would use another git folder for this working tree; "" if
    none does.
    """
    tree = assignments.get("--work-tree", assignments.get("GIT_WORK_TREE", "."))
    for name in ("--git-dir", "GIT_DIR", "GIT_COMMON_DIR", "--exec-path", "GIT_EXEC_PATH"):
        if name in assignments and (
            "EXEC" in name.upper() or elsewhere(_joined(cwd, assignments[name]))
        ):
            return "" if elsewhere(_joined(cwd, tree)) else name
    return ""


def _is_free(folder: str, elsewhere: Elsewhere) -> bool:
    """Whether a folder is not this repository's, or cannot be known before the line runs: git's
    hook knows it.
    """
    return folder == UNKNOWN or elsewhere(folder)


def _is_hooks_path(name: str) -> bool:
    return name.lower() in ("core.hookspath", "include.path") or name.lower().startswith(
        "includeif."
    )


def _config(words: list[str]) -> str:
    """`git config core.hooksPath` may be read, not changed."""
    changes = any(word.startswith(_CHANGES) for word in words)
    for at, word in enumerate(words):
        if _is_hooks_path(word) and (at + 1 < len(words) or changes):
            return HOOKS_PATH.format(word)
        if word == "core" and any(before.startswith(("--rem", "--ren")) for before in words[:at]):
            return HOOKS_PATH.format("core")
    return ""


def _no_verify(command: str, words: list[str]) -> str:
    """The option by which hooks are left out; "" if there is none."""
    at = 0
    if any(word.startswith("--dry") for word in words):
        return ""
    while at < len(words) and words[at] != "--":
        word = words[at]
        if word.startswith("--no-v") and "--no-verify".startswith(word) and command != "am":
            return word
        if word in ("--message", "--file", "--author", "--date"):
            at += 1
        elif command == "commit" and word[:1] == "-" and word[1:2] != "-":
            letters = re.split(f"[{_WITH_VALUE}]", word[1:], maxsplit=1)
            if "n" in letters[0]:
                return word
            at += len(letters) == 2 and not letters[1] and word[-1] not in "uS"
        at += 1
    return ""


def _writes(
    words: list[str], program: str, arguments: list[str], cwd: str, elsewhere: Elsewhere
) -> str:
    """A program or a redirection that changes git's hooks or configuration."""
    targets = [
        words[at + 1] for at, word in enumerate(words[:-1]) if word in (">", ">>", ">|", "&>")
    ]
    in_place = program not in ("sed", "perl") or any(
        word[:1] == "-" and "i" in word for word in arguments
    )
    adds = program == "chmod" and "+" in "".join(arguments[:2])
    if program in _WRITERS and in_place and not adds:
        targets += arguments[-1:] if program in ("cp", "ln", "install", "rsync") else arguments
    elif program == "find" and {"-delete", "-exec", "-execdir"} & set(arguments):
        targets += arguments[:1]
    for target in targets:
        if _is_hook_file(target.removeprefix("of="), program, cwd, elsewhere):
            return HOOK_FILES.format(target)
    return ""


def _is_hook_file(word: str, program: str, cwd: str, elsewhere: Elsewhere) -> bool:
    """Whether a word names git's hooks or configuration in this repository, and the program changes
    them.
    """
    if cwd == UNKNOWN and not word.startswith(("/", "~")):
        return False
    path = _joined(cwd, word)
    match = _HOOK_PATH.search(path)
    if match is None:
        return False
    removes = program in ("rm", "mv", "chmod", "find")
    if not removes and "/.git/" not in path and "/.husky/_/" not in path:
        return False
    repository = path[: match.start()] or "/"
    return not _is_free(_path_if_known(repository, cwd), elsewhere)


def _folder_below(folder: str, word: str) -> str:
    """The folder that a word of a command names; UNKNOWN if only a shell can say which it is."""
    if folder == UNKNOWN and not word.startswith(("/", "~")):
        return UNKNOWN
    return _path_if_known(_joined(folder, word), folder)


def _path_if_known(path: str, cwd: str) -> str:
    """The path, or UNKNOWN if a word behind `cwd` has what a shell replaces, and no file is called
    so.
    """
    words = "" if path == cwd else path.removeprefix(f"{cwd}/")
    is_replaced = "$" in words or "`" in words
    return UNKNOWN if is_replaced and not os.path.lexists(path) else path


def _joined(folder: str, path: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))  # noqa: PTH111, PTH118
