"""What a line of shell would run, read without running it: simple commands with their words and redirections.

Made for looking, not for executing: quotes, escapes, lists, pipes, substitutions, here-documents and
variables set on the same line are understood; what only running it could tell becomes UNKNOWN.
"""

UNKNOWN = "\0"
"""Stands in a word where only running the line could tell what is there."""

MAX_DEPTH = 12
MAX_LENGTH = 1 << 18

MAX_VALUE = 1024
"""Of a variable that is looked into: `a=$a$a` a few times over would not fit into any memory."""

_SPACE = " \t"
_OPERATORS = (
    "<<<", "<<-", "&>>", "<<", ">>", "&>", ">|", "<>", ">&", "<&", "&&", "||", ";;", "|&",
    ";", "&", "|", "<", ">", "(", ")", "\n",
)  # fmt: skip
_REDIRECTIONS = frozenset({"<<<", "<<-", "<<", "<", ">", ">>", ">|", "<>", ">&", "<&", "&>", "&>>"})
WRITING = frozenset({">", ">>", ">|", "<>", ">&", "&>", "&>>"})
"""Redirections that write to the file they name."""

_KEYWORDS = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "time", "function"}
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "e": "\x1b", "0": "\0"}


class Unreadable(ValueError):
    """The line cannot be read: a quote or a parenthesis is never closed, say."""


class Command:
    """One simple command: `words` as they would be passed, `assigned` in front of it, `redirected` (operator, target).

    `here` is the text of its here-documents and here-strings, `source` the command that its pipe comes from.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.assigned: dict[str, str] = {}
        self.redirected: list[tuple[str, str]] = []
        self.here = ""
        self.source: Command | None = None

    @property
    def fed(self) -> str:
        """What it reads from its stdin, as far as it is known."""
        return self.here or (self.source.printed if self.source else "")

    @property
    def printed(self) -> str:
        """What it prints, as far as it is known: of `echo`, `printf`, and of `cat` with nothing but its stdin."""
        if self.words[:1] in (["echo"], ["printf"]):
            return " ".join(self.words[1:]).replace("\\n", "\n") + "\n"
        return self.fed if self.words in (["cat"], ["tee"]) else ""


def commands(line: str, depth: int = 0, variables: dict[str, str] | None = None) -> list[Command]:
    """Every simple command of the line, those in substitutions and groups included. Unreadable."""
    return _Reader(line.replace("\r\n", "\n"), depth, variables).read()


class _Reader:
    def __init__(self, line: str, depth: int, variables: dict[str, str] | None, nested: bool = False) -> None:
        if depth > MAX_DEPTH or len(line) > MAX_LENGTH:
            raise Unreadable("too deep or too long")
        self.line = line
        self.nested = nested
        self.closed = False
        self.parentheses = 0
        self.cases = 0
        self.depth = depth
        self.at = 0
        self.found: list[Command] = []
        self.variables = {} if variables is None else variables
        self.here: list[tuple[Command, str, str, bool]] = []

    def read(self) -> list[Command]:
        current = Command()
        while self.at < len(self.line):
            operator = self._operator()
            if operator is None:
                self._take_word(current)
            elif operator in _REDIRECTIONS:
                self._redirect(current, operator)
            elif operator:
                before, current = current, self._finish(current)
                if operator in ("|", "|&"):
                    current.source = before
                if operator == ")" and self._closes():
                    break
                self.parentheses += operator == "("
                if operator == "\n":
                    self._read_here_documents()
        self._finish(current)
        self._read_here_documents()
        return self.found

    def _closes(self) -> bool:
        """Whether a `)` ends this substitution; it may also end a group, or a pattern of `case`."""
        if self.parentheses:
            self.parentheses -= 1
        elif self.nested and not self.cases:
            self.closed = True
        return self.closed

    def _finish(self, current: Command) -> Command:
        if current.words or current.redirected or current.assigned:
            if not current.words or current.words[0] in ("export", "declare", "local", "readonly", "typeset"):
                for word in current.words[1:]:
                    name, equals, value = word.partition("=")
                    if equals and name.isidentifier():
                        current.assigned[name] = value
                short = {name: value for name, value in current.assigned.items() if len(value) <= MAX_VALUE}
                self.variables.update(dict.fromkeys(current.assigned, UNKNOWN) | short)
            self.found.append(current)
        return Command()

    def _operator(self) -> str | None:
        """The operator here, consumed; "" for space or a comment, None where a word begins."""
        line, at = self.line, self.at
        if line[at] in _SPACE:
            self.at += 1
            return ""
        if line.startswith("\\\n", at):
            self.at += 2
            return ""
        if line[at] == "#" and (at == 0 or line[at - 1] in " \t\n;&|()"):
            end = line.find("\n", at)
            self.at = len(line) if end < 0 else end
            return ""
        for operator in _OPERATORS:
            if line.startswith(operator, at):
                if operator in "<>" and line.startswith("(", at + 1):
                    return None  # process substitution: part of a word
                self.at += len(operator)
                return operator
        return None

    def _take_word(self, current: Command) -> None:
        start = self.at
        parts, quoted = self._word()
        raw = self.line[start : self.at]
        if not quoted and self.at < len(self.line) and self.line[self.at] in "<>" and raw.isdigit():
            return  # the number of a descriptor
        if not current.words and not quoted and raw in _KEYWORDS:
            return
        if raw == "{" and not quoted:  # `function f {`: what follows is a command
            current.words = []
            return
        if not current.words and raw in ("case", "esac"):
            self.cases += 1 if raw == "case" else -1
        name, equals, _ = raw.partition("=")
        name = name.removesuffix("+")
        if not current.words and equals and name.isidentifier():
            current.assigned[name] = "".join(parts).partition("=")[2]
            return
        current.words += parts

    def _redirect(self, current: Command, operator: str) -> None:
        while self.at < len(self.line) and self.line[self.at] in _SPACE:
            self.at += 1
        if self.at >= len(self.line):
            raise Unreadable("a redirection to nowhere")
        parts, quoted = self._word()
        target = "".join(parts)
        if operator in ("<<", "<<-"):
            self.here.append((current, operator, target, quoted))
        elif operator == "<<<":
            current.here += target + "\n"
        else:
            current.redirected.append((operator, target))

    def _read_here_documents(self) -> None:
        for command, operator, delimiter, quoted in self.here:
            body: list[str] = []
            while self.at < len(self.line):
                end = self.line.find("\n", self.at)
                end = len(self.line) if end < 0 else end
                text = self.line[self.at : end]
                self.at = end + 1
                if (text.lstrip("\t") if operator == "<<-" else text) == delimiter:
                    break
                body.append(text)
            command.here += "\n".join(body) + "\n"
            if not quoted:
                self._inner_substitutions(command.here)
        self.here = []

    def _inner_substitutions(self, text: str) -> None:
        inner = _Reader(text, self.depth + 1, self.variables)
        while inner.at < len(text):
            if text[inner.at] == "\\":
                inner.at += 2
            elif text[inner.at] in "$`":
                inner._expansion()
            else:
                inner.at += 1
        self.found += inner.found

    def _word(self) -> tuple[list[str], bool]:
        """The word here as the words it expands to, and whether any of it was quoted."""
        parts, quoted = [""], False
        line = self.line
        while self.at < len(line):
            letter = line[self.at]
            if letter in " \t\n;&|<>()":
                if letter in "<>" and line.startswith("(", self.at + 1):
                    self.at += 1
                    self._nested()
                    parts[-1] += UNKNOWN
                    continue
                break
            if letter == "\\":
                parts[-1] += "" if line.startswith("\n", self.at + 1) else line[self.at + 1 : self.at + 2]
                self.at += 2
                quoted = True
            elif letter == "'":
                parts[-1] += self._until("'")
                quoted = True
            elif letter == '"':
                parts[-1] += self._double_quoted()
                quoted = True
            elif letter == "$" and line.startswith("$'", self.at):
                self.at += 1
                parts[-1] += self._escaped_quoted()
                quoted = True
            elif letter == "$" and line.startswith('$"', self.at):
                self.at += 1
            elif letter in "$`":
                first, *rest = self._expansion().split(" ")
                parts[-1] += first
                parts += rest
            else:
                parts[-1] += letter
                self.at += 1
        if not quoted:
            parts = [part for part in parts if part]
        return parts, quoted

    def _until(self, end: str) -> str:
        stop = self.line.find(end, self.at + 1)
        if stop < 0:
            raise Unreadable("a quote is never closed")
        text = self.line[self.at + 1 : stop]
        self.at = stop + 1
        return text

    def _escaped_quoted(self) -> str:
        """The text of $'...'."""
        out, line = "", self.line
        self.at += 1
        while self.at < len(line) and line[self.at] != "'":
            if line[self.at] != "\\":
                out += line[self.at]
                self.at += 1
                continue
            kind = line[self.at + 1 : self.at + 2]
            digits = line[self.at + 2 : self.at + 4] if kind == "x" else line[self.at + 1 : self.at + 4]
            base = 16 if kind == "x" else 8
            try:
                out += chr(int(digits, base))
                self.at += 4
            except ValueError:
                out += _ESCAPES.get(kind, kind)
                self.at += 2
        if self.at >= len(line):
            raise Unreadable("a quote is never closed")
        self.at += 1
        return out

    def _double_quoted(self) -> str:
        out, line = "", self.line
        self.at += 1
        while self.at < len(line):
            letter = line[self.at]
            if letter == '"':
                self.at += 1
                return out
            if letter == "\\":
                following = line[self.at + 1 : self.at + 2]
                out += "" if following == "\n" else following if following in '$`"\\' else "\\" + following
                self.at += 2
            elif letter in "$`":
                out += self._expansion()
            else:
                out += letter
                self.at += 1
        raise Unreadable("a quote is never closed")

    def _expansion(self) -> str:
        """What stands at a `$` or a backquote: the value of a variable set here, else UNKNOWN."""
        line = self.line
        if line[self.at] == "`":
            text = self._until("`").replace("\\`", "`")
            return self._output(commands(text, self.depth + 1, self.variables))
        following = line[self.at + 1 : self.at + 2]
        if following == "(":
            if line.startswith("((", self.at + 1):
                closing = line.find("))", self.at)
                if closing >= 0 and "$(" not in line[self.at + 1 : closing]:
                    self.at = closing + 2
                    return UNKNOWN
            self.at += 1
            return self._nested()
        if following == "{":
            closing = self._closing_brace()
            name, self.at = line[self.at + 2 : closing], closing + 1
            return self._value(name)
        end = self.at + 1
        while end < len(line) and (line[end].isalnum() or line[end] == "_"):
            end += 1
        if end == self.at + 1:
            self.at = end + (following in set("?@*#$!-"))
            return UNKNOWN if self.at > end else "$"
        name, self.at = line[self.at + 1 : end], end
        return self.variables.get(name, UNKNOWN)

    def _closing_brace(self) -> int:
        depth = 0
        for place in range(self.at + 1, len(self.line)):
            depth += {"{": 1, "}": -1}.get(self.line[place], 0)
            if depth == 0:
                return place
        raise Unreadable("a brace is never closed")

    def _value(self, name: str) -> str:
        """`${NAME}`, and the forms that give a value of their own where NAME has none."""
        for operator in (":-", ":=", "-", "=", ":+", "+"):
            bare, found, default = name.partition(operator)
            if found and bare.isidentifier():
                if "`" in default or "$(" in default:
                    self.found += commands(default, self.depth + 1, self.variables)
                return self.variables.get(bare) or default
        return self.variables.get(name, UNKNOWN)

    def _nested(self) -> str:
        """The commands of a substitution, whose `(` is here, are commands of the line too."""
        inner = _Reader(self.line, self.depth + 1, self.variables, nested=True)
        inner.at = self.at + 1
        found = inner.read()
        if not inner.closed:
            raise Unreadable("a parenthesis is never closed")
        self.at = inner.at
        return self._output(found)

    def _output(self, inner: list[Command]) -> str:
        """What the commands of a substitution print, as far as it is known: of a few only."""
        self.found += inner
        words = inner[0].words if len(inner) == 1 else []
        if words[:1] in (["echo"], ["printf"]) and len(words) == 2:
            return words[1]
        if words[:2] == ["git", "rev-parse"]:
            if words[2:] in (["--git-dir"], ["--git-common-dir"], ["--absolute-git-dir"]):
                return ".git"
            if words[2:] == ["--show-toplevel"]:
                return "."
            if len(words) == 4 and words[2] == "--git-path":
                return ".git/" + words[3]
        return UNKNOWN
