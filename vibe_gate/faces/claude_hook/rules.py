"""What an agent may not do to the gate that checks its work, and what it should do instead.

A refusal is one sentence for the agent. It is None for everything else: nothing is ever
approved here, the agent's own permissions decide about it.
"""

import os.path

from vibe_gate.faces.claude_hook import git_call, git_rules, own_rules, programs
from vibe_gate.faces.claude_hook.guarded import Project, protected, protected_from_tool
from vibe_gate.faces.claude_hook.programs import name_of
from vibe_gate.faces.claude_hook.shell import EARLIER, MAX_DEPTH, UNKNOWN, WRITING, Command, Unreadable, commands
from vibe_gate.faces.claude_hook.whereabouts import Whereabouts, with_earlier

_LINES = frozenset({"GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "EDITOR", "VISUAL", "GIT_SSH_COMMAND", "GIT_PAGER", "PAGER",
                    "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "PROMPT_COMMAND"})  # fmt: skip
"""Variables whose values git or a shell runs."""

_PATCHING = ("+++ ", "--- ", "rename to ", "rename from ", "diff --git ")
_MAX_PATCH = 1 << 20
_MAX_PATHS = 10_000
_MAX_LINES = 2_000  # that lines in lines, aliases and the like may lead to


def refused_edit(path: str, cwd: str, project: Project | None = None) -> str | None:
    """Why a tool may not write the file, if it may not. `path` may be relative to `cwd`."""
    return protected_from_tool(path, cwd, project or Project(cwd))


def refused_command(line: str, cwd: str, project: Project | None = None) -> str | None:
    """Why the agent may not run the line, if it may not. Unreadable where it cannot be understood."""
    try:
        return Line(project or Project(cwd)).refused(line, [cwd], {}, 0)
    except RecursionError:  # programs that run programs that run programs
        raise Unreadable("too deep") from None


class Line:
    """One line that is held against the rules, with all the lines in it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.seen: set[object] = set()
        self.lines = 0
        self.earlier: list[str] = []

    def refused(self, line: str, places: list[str], changed: dict[str, str | None], depth: int) -> str | None:
        """Why it may not run in one of these folders, with these variables changed. Unreadable."""
        self.lines += 1
        if depth > MAX_DEPTH or self.lines > _MAX_LINES:
            raise Unreadable("too deep")
        where, aliases = Whereabouts(places, changed, self.project, self.earlier), dict[str, str]()
        known = {"CLAUDE_PROJECT_DIR": self.project.start, "OLDPWD": EARLIER}
        known |= {"PWD": places[0], "HOME": self.project.home} if len(places) == 1 else {}
        for command in commands(line, depth, {name: value for name, value in known.items() if value}):
            here, changed = where.before(command)
            earlier = self.earlier = where.earlier(command)
            words = command.words
            if words[:1] == ["alias"]:
                aliases.update((name, value) for name, _, value in (word.partition("=") for word in words[1:]))
            alias = aliases.get(words[0]) if aliases and words else None
            if alias and (refusal := self.refused(f"{alias} {_quoted(words[1:])}", here, changed, depth + 1)):
                return refusal
            for one in (*with_earlier(command, earlier), command):
                self.earlier = earlier  # a line within another goes on from here
                if refusal := Call(self, one, changed, depth).refused(here):
                    return refusal
        return None

    def first_time(self, command: Command, here: list[str], changed: dict[str, str | None]) -> bool:
        """Whether no command like this one was looked at before."""
        if command.source or command.here or command.streams:
            return True
        told = (tuple(command.words), tuple(command.redirected), tuple(command.assigned.items()), tuple(here),
                tuple(changed.items()))  # fmt: skip
        if told in self.seen:
            return False
        self.seen.add(told)
        return True


class Call:
    """One command of the line."""

    def __init__(self, line: Line, command: Command, changed: dict[str, str | None], depth: int) -> None:
        self.line = line
        self.project = line.project
        self.command = command
        self.changed = {**changed, **command.assigned} if command.assigned else changed
        self.depth = depth

    def refused(self, here: list[str]) -> str | None:
        """Why it may not run in one of these folders, if it may not."""
        command = self.command
        if not self.line.first_time(command, here, self.changed):
            return None
        for name, value in command.assigned.items():
            if refusal := self._refused_variable(name, value, here):
                return refusal
        for operator, target in command.redirected:
            if operator in WRITING and (refusal := self._protected([target], here)):
                return refusal
        for words in programs.stages(command.words):
            if refusal := self._refused_words(words, here):
                return refusal
            if folder := programs.folder(words):
                here = [os.path.normpath(os.path.join(place, folder)) for place in here]  # noqa: PTH118
        return None

    def _inner(self, line: str, here: list[str]) -> str | None:
        return self.line.refused(line, here, self.changed, self.depth + 1) if line.strip() else None

    def _protected(self, paths: list[str], here: list[str], removes: bool = False) -> str | None:
        if len(paths) > _MAX_PATHS:
            raise Unreadable("too many paths")
        for path in paths:
            for place in here:
                if refusal := protected(path, place, self.project, removes):
                    return refusal
        return None

    def _refused_variable(self, name: str, value: str, here: list[str]) -> str | None:
        if name in _LINES:
            return self._inner(value, here)
        return git_rules.refused_variable(name, value)

    def _refused_words(self, words: list[str], here: list[str]) -> str | None:
        program, arguments = name_of(words[0]), words[1:]
        if programs.is_python(program):
            if any(word.endswith("claude_hook/capture.py") for word in arguments):
                return own_rules.CAPTURE.format("capture.py")
            if called := programs.module(arguments):
                program, arguments = called[0], called[1:]
        if programs.hides(program, arguments):
            self.changed = self.changed | {"*": None}
        if program.startswith("git-") and len(program) > 4:
            program, arguments = "git", [program[4:], *arguments]
        if not program and arguments[:1] in (["commit"], ["push"]) and UNKNOWN in words[0]:
            program = "git"
        if program == "git":
            return self._refused_git(arguments, here)
        if program == "env" and (refusal := self._refused_env(arguments, here)):
            return refusal
        if (program in programs.SHELLS or program in _RUNNING or program in programs.LINE_OPTION) and (
            refusal := self._refused_script(program, arguments, here)
        ):
            return refusal
        if program == "find":
            return self._refused_find(arguments, here)
        if program == "xargs":
            return self._refused_xargs(arguments, here)
        if program == "patch":
            given = [arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in ("-i", "--input")]
            given += [word.partition("=")[2] for word in arguments if word.startswith("--input=")]
            return self._protected([w for w in arguments if w[:1] != "-"], here) or self._refused_patch(given, here)
        if refusal := own_rules.refused(program, arguments):
            return refusal
        changed = programs.changed_paths(program, arguments)
        return self._protected(changed, here, programs.removes(program, arguments)) or self._refused_into(
            *programs.into(program, arguments), here
        )

    def _refused_into(self, sources: list[str], targets: list[str], here: list[str]) -> str | None:
        """What comes to stand in a folder keeps its name there."""
        for place in here:
            for target in targets:
                folder = os.path.expanduser(target)  # noqa: PTH111
                if UNKNOWN not in folder and os.path.isdir(os.path.join(place, folder)):  # noqa: PTH112, PTH118
                    names = [source.rpartition("/")[2] for source in sources]
                    if refusal := self._protected([f"{target}/{name}" for name in names if name], [place]):
                        return refusal
        return None

    def _refused_env(self, arguments: list[str], here: list[str]) -> str | None:
        at = 0
        while at < len(arguments):
            word = arguments[at]
            name, equals, value = word.partition("=")
            letters, unsets, rest = word[1:].partition("u") if word[:1] == "-" and word[1:2] != "-" else ("", "", "")
            if word == "-" or "i" in letters.partition("S")[0].partition("C")[0] or name.startswith("--ignore-e"):
                self.changed = self.changed | {"*": None}
            if unsets and not set(letters) & set("SCa"):
                at += not rest
                self.changed = self.changed | dict.fromkeys([rest] if rest else arguments[at : at + 1])
            elif len(name) > 3 and "--unset".startswith(name):
                at += not equals
                self.changed = self.changed | dict.fromkeys([value] if equals else arguments[at : at + 1])
            elif programs.takes_next(word, programs.BEFORE["env"]):
                at += 1
            elif equals and not word.startswith("-"):
                if refusal := self._refused_variable(name, value, here):
                    return refusal
                self.changed = self.changed | {name: value}
            elif not word.startswith("-"):
                break
            at += 1
        return None

    def _refused_git(self, arguments: list[str], here: list[str]) -> str | None:
        call = git_call.parse(arguments)
        given = call.git_dir or self.changed.get("GIT_DIR")
        for place in here:
            folder = os.path.normpath(os.path.join(place, *call.folders))  # noqa: PTH118
            if refusal := self._refused_git_in(call, folder, given):
                return refusal
        return None

    def _refused_git_in(self, call: git_call.Call, folder: str, given: str | None) -> str | None:
        aliased = self._aliased(call)
        if aliased and "--no-verify" in call.arguments:  # also where it is a function that hands on what it is given
            aliased.append("git commit --no-verify")
        for line in [*git_rules.lines(call), *aliased]:
            if refusal := self._inner(line, [folder]):
                return refusal
        place = os.path.normpath(os.path.join(folder, given)) if given else folder  # noqa: PTH118
        elsewhere = self.project.elsewhere(place)
        copied = given and UNKNOWN not in given and (elsewhere or not os.path.exists(place))  # noqa: PTH110
        if copied and not self.project.elsewhere(self._work_tree(call, folder)):
            return git_rules.refused_copy(call)
        if refusal := git_rules.refused(call, self.changed, elsewhere):
            return refusal
        if refusal := self._protected(git_rules.written(call), [folder]):
            return refusal
        if elsewhere:
            return None
        if call.subcommand in ("apply", "am"):
            return self._refused_patch([w for w in call.arguments if w[:1] != "-"], [folder]) or self._protected(
                git_call.values(call.arguments, "--directory"), [folder]
            )
        fed = self.command.fed.split() if "--index-info" in call.arguments else []
        removes = call.subcommand in ("rm", "mv")
        return self._protected([*git_rules.changed_paths(call, self._is_protected(folder)), *fed], [folder], removes)

    def _aliased(self, call: git_call.Call) -> list[str]:
        """What the call runs where its subcommand is an alias of the configuration."""
        if not call.subcommand or call.subcommand in git_rules.USUAL or call.aliases:
            return []
        # Only here: most calls name what git has itself.
        aliases = __import__("vibe_gate.faces.claude_hook.aliases", fromlist=["_"])
        found = aliases.of(call.subcommand, self.project)
        return [git_rules.alias_line(value, call.arguments) for value in found]

    def _work_tree(self, call: git_call.Call, folder: str) -> str:
        given = call.work_tree or self.changed.get("GIT_WORK_TREE") or "."
        return os.path.normpath(os.path.join(folder, given))  # noqa: PTH118

    def _is_protected(self, folder: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return lambda path: protected(path, folder, self.project) is not None

    def _refused_script(self, program: str, arguments: list[str], here: list[str]) -> str | None:
        """`sh -c LINE`, `eval LINE`, `trap LINE`, `. <(...)` and what a shell without a script reads from its stdin."""
        lines = []
        if program == "eval":
            lines = [" ".join(arguments)]
        elif program == "trap":
            lines = arguments[:1] if arguments[:1] != ["-"] else []
        elif program in programs.LINE_OPTION:
            lines = programs.lines_in(program, arguments)
        else:
            lines = self._read_by_shell(program, arguments)
        return next(filter(None, (self._inner(line, here) for line in lines)), None)

    def _read_by_shell(self, program: str, arguments: list[str]) -> list[str]:
        line = programs.line_of(arguments) if program in programs.SHELLS else None
        if line is not None:
            return [line]
        named = [word for word in arguments if not word.startswith("-")]
        stdin = not named or named[0] == "/dev/stdin" or "-s" in arguments
        return [*self.command.streams, self.command.fed if stdin else ""]

    def _refused_find(self, arguments: list[str], here: list[str]) -> str | None:
        first = next((at for at, word in enumerate(arguments) if word.startswith(("-", "(", "!"))), len(arguments))
        places = arguments[:first]
        if "-delete" in arguments:
            return self._protected([*places, *_found(arguments)], here, removes=True)
        for at in [at for at, word in enumerate(arguments) if word in _EXECUTING][:_MAX_EXECUTING]:
            for place in ([*places, *_found(arguments)] or ["."])[:_MAX_EXECUTING]:
                inner = [part.replace("{}", place) for part in arguments[at + 1 :] if part not in (";", "+")]
                for words in programs.stages(inner):
                    if refusal := self._refused_words(words, here):
                        return refusal
        return None

    def _refused_xargs(self, arguments: list[str], here: list[str]) -> str | None:
        """Its program with what the pipe is known to bring: what `echo` prints, and what `find` and `ls` look at."""
        source = self.command.source
        if source is None or len(programs.stages(["xargs", *arguments])) < 2:
            return None
        words = source.words
        if words[:1] in (["find"], ["ls"], ["fd"]) or words[:2] == ["git", "ls-files"]:
            brought = [word for word in words[1:] if not word.startswith("-")]
        else:
            brought = self.command.fed.split()
        inner = programs.stages(["xargs", *arguments])[1]
        return self._refused_words([*inner, *brought[:1000]], here)

    def _refused_patch(self, files: list[str], here: list[str]) -> str | None:
        """A patch that can be read, and touches what is protected."""
        texts = [self.command.fed]
        for file in [*files, *(target for operator, target in self.command.redirected if operator == "<")]:
            texts += [_text(os.path.join(place, file)) for place in here if UNKNOWN not in place + file]  # noqa: PTH118
        touched = [
            path for text in texts for line in text.split("\n") if line.startswith(_PATCHING)
            for path in line.split()[1:] if "." in path
        ]  # fmt: skip
        paths = {part for path in touched for part in (path, path.partition("/")[2]) if part}
        return self._protected(sorted(paths), here)


_EXECUTING = ("-exec", "-execdir", "-ok", "-okdir")
_MAX_EXECUTING = 12
_RUNNING = frozenset({"eval", "trap", "source", "."})


def _found(arguments: list[str]) -> list[str]:
    """What `find` looks for by name, but for what it passes by."""
    found = []
    for at, word in enumerate(arguments[:-1]):
        if word in ("-name", "-path", "-iname", "-ipath", "-wholename"):
            passed = arguments[at + 2 : at + 3] == ["-prune"] or arguments[at - 1 : at] in (["!"], ["-not"])
            found += [] if passed else [arguments[at + 1]]
    return found


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_PATCH).decode("utf-8", "replace") if os.path.isfile(path) else ""  # noqa: PTH113
    except (OSError, ValueError):
        return ""


def _quoted(words: list[str]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
