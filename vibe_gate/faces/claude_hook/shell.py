"""A shell's command line, read without running it: simple commands with their words and redirections.

Made for looking, not for executing: quotes, escapes, lists, pipes, substitutions, here-documents, braces and
variables set on the same line are understood; what only running it could tell becomes UNKNOWN.
"""

from vibe_gate.faces.claude_hook.braces import BAR, CLOSE, OPEN, expanded, plain

UNKNOWN = "\0"
"""Stands in a word where only running the line could tell what is there."""

_MADE = "\ufdd3"
SCRATCH = "/tmp/" + UNKNOWN + _MADE  # noqa: S108  nothing is written there
"""What `mktemp` prints: a folder or a file that nobody had before. Not any unknown place below /tmp."""

_BACK = "\ufdd4"
EARLIER = UNKNOWN + _BACK
"""What `$OLDPWD` stands for: a folder in which the line has been before."""

MAX_DEPTH = 12
MAX_GROUPS = 60
COMMAND, REDIRECTION, WORD = 250, 300, 30  # what each costs, in letters
MAX_LENGTH = 1 << 20  # Linux passes no program an argument of more than 128 KB, macOS none of more than 1 MB
MAX_READ = 8 << 20
"""Letters of the line and of all that its variables, aliases and substitutions make of it: half a second's work."""

MAX_VALUE = 1024
"""Of a variable that is looked into: `a=$a$a` a few times over would not fit into any memory."""

_SPACE = " \t"
_OPERATORS = (
    "<<<", "<<-", "&>>", "<<", ">>", "&>", ">|", "<>", ">&", "<&", "&&", "||", ";;", "|&",
    ";", "&", "|", "<", ">", "(", ")", "\n",
)  # fmt: skip
_BY_FIRST = {first: [whole for whole in _OPERATORS if whole[0] == first] for first in ";&|<>()\n"}
_REDIRECTIONS = frozenset({"<<<", "<<-", "<<", "<", ">", ">>", ">|", "<>", ">&", "<&", "&>", "&>>"})
WRITING = frozenset({">", ">>", ">|", "<>", ">&", "&>", "&>>"})
"""Redirections that write to the file they name."""

_KEYWORDS = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "time", "function", "coproc"}
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "e": "\x1b", "0": "\0"}
_DECLARING = ("export", "declare", "local", "readonly", "typeset")

_STOP = "\x01"
_ENDING = str.maketrans(dict.fromkeys(" \t\n;&|<>()\\'\"$`{},", _STOP))
_ENDING_QUOTED = str.maketrans(dict.fromkeys('\\"$`', _STOP))
_UNUSED = str.maketrans(dict.fromkeys("\0" + _MADE + _BACK + OPEN + BAR + CLOSE, "?"))
"""Letters that mean something here and nothing to a shell."""


class Unreadable(ValueError):
    """The line cannot be read: a quote or a parenthesis is never closed, say."""


class Command:
    """One simple command: `words` as they would be passed, `assigned` in front of it, `redirected` (operator, target).

    `here` is the text of its here-documents and here-strings, `source` the command that its pipe comes from,
    `streams` what its process substitutions print. `joined` is the operator in front of it; `scope` the
    subshells around it; `aside`: it runs in a subshell of its own; `maybe`: only under some condition.
    """

    def __init__(self, scope: tuple[int, ...] = (), joined: str = ";") -> None:
        self.words: list[str] = []
        self.assigned: dict[str, str] = {}
        self.redirected: list[tuple[str, str]] = []
        self.here = ""
        self.source: Command | None = None
        self.streams: list[str] = []
        self.joined = joined
        self.scope = scope
        self.aside = False
        self.maybe = False

    @property
    def fed(self) -> str:
        """What it reads from its stdin, as far as it is known."""
        if self.here or self.source is None:
            return self.here
        return self.source.printed

    @property
    def printed(self) -> str:
        """What it prints, as far as it is known: of `echo`, `printf`, and of what hands on its stdin."""
        command: Command | None = self
        while command is not None and command.words[:1] in (["cat"], ["tee"]) and "-" not in "".join(command.words):
            if command.here or len(command.words) > 1:
                return command.here
            command = command.source
        if command is None or command.words[:1] not in (["echo"], ["printf"]):
            return ""
        words = command.words[1:]
        while words and words[0] in ("-e", "-n", "-E", "-en", "-ne", "--"):
            words = words[1:]
        text = _formatted(words) if command.words[0] == "printf" else " ".join(words)
        return text.replace("\\n", "\n").replace("\\t", "\t") + "\n"


def _formatted(words: list[str]) -> str:
    """What printf makes of its words, as far as %s goes."""
    first, *pieces = "".join(words[:1]).replace("%b", "%s").split("%s")
    values = iter(words[1:])
    text = first + "".join(next(values, "") + piece for piece in pieces)
    return " ".join([text, *values])


def commands(line: str, depth: int = 0, variables: dict[str, str] | None = None) -> list[Command]:
    """Every simple command of the line, those in substitutions and groups included. Unreadable."""
    account = Account({} if variables is None else variables)
    return _Reader(line.replace("\r\n", "\n").translate(_UNUSED), depth, account).read()


class Account:
    """What all readers of one line share: its variables, the letters read, the number of subshells."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.variables = variables
        self.read = 0
        self.scopes = 0
        self.maybe = False

    def spend(self, letters: int) -> None:
        """Count letters. Unreadable where they become too many."""
        self.read += letters
        if self.read > MAX_READ:
            raise Unreadable("too long")

    def scope(self) -> int:
        """The number of one more subshell."""
        self.scopes += 1
        return self.scopes


class _Reader:
    def __init__(
        self, line: str, depth: int, account: Account, within: "_Reader | None" = None, scope: tuple[int, ...] = ()
    ) -> None:
        if depth > MAX_DEPTH or len(line) > MAX_LENGTH:
            raise Unreadable("too deep or too long")
        self.line = line
        self.nested = within is not None
        self.marked: str = within.marked if within else line.translate(_ENDING)
        self.marked_quoted: str = within.marked_quoted if within else line.translate(_ENDING_QUOTED)
        self.closed = False
        self.cases = 0
        self.depth = depth
        self.at = 0
        self.found: list[Command] = []
        self.account = account
        self.variables = account.variables
        self.outer = scope
        self.scope = scope
        self.here: list[tuple[Command, str, str, bool]] = []
        if not within:
            account.spend(len(line))

    def read(self) -> list[Command]:
        current = Command(self.scope)
        while self.at < len(self.line):
            operator = self._operator()
            if operator is None:
                self._take_word(current)
            elif operator in _REDIRECTIONS:
                self._redirect(current, operator)
            elif operator:
                before, current = current, self._finish(current, operator)
                if operator in ("|", "|&"):
                    current.source, current.aside = before, True
                if operator == ")" and self.closed:
                    break
                if operator == "\n":
                    self._read_here_documents()
        self._finish(current, "")
        self._read_here_documents()
        return self.found

    def _finish(self, current: Command, operator: str) -> Command:
        """The next command, after an operator that ends this one."""
        if current.words or current.redirected or current.assigned:
            if not current.words or current.words[0] in _DECLARING:
                for word in current.words[1:]:
                    name, equals, value = word.partition("=")
                    if equals and name.isidentifier():
                        current.assigned[name] = value
                short = {name: value for name, value in current.assigned.items() if len(value) <= MAX_VALUE}
                self.variables.update(dict.fromkeys(current.assigned, UNKNOWN) | short)
            current.aside = current.aside or operator in ("|", "|&", "&")
            current.maybe = self.account.maybe
            self.found.append(current)
            self.account.spend(COMMAND)
        if operator == "(":
            if len(self.scope) > MAX_GROUPS:
                raise Unreadable("too deep")
            self.scope = (*self.scope, self.account.scope())
        elif operator == ")" and len(self.scope) > len(self.outer):
            self.scope = self.scope[:-1]
        elif operator == ")" and self.nested and not self.cases:
            self.closed = True
        return Command(self.scope, operator)

    def _operator(self) -> str | None:
        """The operator here, consumed; "" for space or a comment, None where a word begins."""
        line, at = self.line, self.at
        letter = line[at]
        if letter in _SPACE:
            self.at += 1
            return ""
        if letter == "\\" and line.startswith("\\\n", at):
            self.at += 2
            return ""
        if letter == "#" and (at == 0 or line[at - 1] in " \t\n;&|()"):
            end = line.find("\n", at)
            self.at = len(line) if end < 0 else end
            return ""
        if letter not in ";&|<>()\n":
            return None
        for operator in _BY_FIRST[letter]:
            if line.startswith(operator, at):
                if operator in "<>" and line.startswith("(", at + 1):
                    return None  # process substitution: part of a word
                self.at += len(operator)
                return operator
        return None

    def _take_word(self, current: Command) -> None:
        start = self.at
        words, quoted = self._word(current)
        raw = self.line[start : self.at] if self.at - start < MAX_VALUE else ""
        if not quoted and self.at < len(self.line) and self.line[self.at] in "<>" and raw.isdigit():
            return  # the number of a descriptor
        if not current.words and not quoted and (raw in _KEYWORDS or (raw == "-p" and self._timed(start))):
            self.account.maybe = self.account.maybe or raw not in ("{", "}", "!", "time", "-p")
            return
        if raw == "{" and not quoted:  # `function f {`: what follows is a command
            current.words = []
            return
        if not current.words and raw in ("case", "esac"):
            self.cases += 1 if raw == "case" else -1
            self.account.maybe = True
        name, equals, _ = self.line[start : start + MAX_VALUE].partition("=")
        name = name.removesuffix("+")
        if not current.words and equals and start + len(name) < self.at and name.isidentifier():
            current.assigned[name] = " ".join(words).partition("=")[2]
            return
        current.words += words

    def _timed(self, start: int) -> bool:
        return self.line[:start].rstrip(_SPACE).endswith("time") if start < MAX_VALUE else False

    def _redirect(self, current: Command, operator: str) -> None:
        while self.at < len(self.line) and self.line[self.at] in _SPACE:
            self.at += 1
        if self.at >= len(self.line):
            raise Unreadable("a redirection to nowhere")
        words, quoted = self._word(current)
        self.account.spend(REDIRECTION)
        target = " ".join(words)
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
            written = "\n".join(body) + "\n"
            command.here += written
            if not quoted:
                self._inner_substitutions(written)
        self.here = []

    def _inner_substitutions(self, text: str) -> None:
        inner = _Reader(text, self.depth + 1, self.account, scope=(*self.scope, self.account.scope()))
        while inner.at < len(text):
            end = inner.marked_quoted.find(_STOP, inner.at)
            if end < 0:
                break
            inner.at = end
            if text[end] == "\\":
                inner.at += 2
            elif text[end] in "$`":
                inner._expansion()
            else:
                inner.at += 1
        self.found += inner.found

    def _word(self, command: Command) -> tuple[list[str], bool]:
        """The word here as the words it expands to, and whether any of it was quoted."""
        pieces, quoted, braces = [], False, False
        line = self.line
        while self.at < len(line):
            end = self.marked.find(_STOP, self.at)
            if end != self.at:
                end = len(line) if end < 0 else end
                pieces.append(line[self.at : end])
                self.at = end
                continue
            letter = line[end]
            if letter in " \t\n;&|<>()":
                if not (letter in "<>" and line.startswith("(", end + 1)):
                    break
                self.at += 1
                command.streams.append(self._nested())
                pieces.append(UNKNOWN)
            elif letter in "{},":
                braces = braces or letter == "{"
                pieces.append({"{": OPEN, ",": BAR, "}": CLOSE}[letter])
                self.at += 1
            elif letter in "\\'\"" or line.startswith(("$'", '$"'), end):
                pieces.append(self._quoted(letter))
                quoted = True
            elif letter in "$`":
                pieces.append(self._expansion().replace(" ", "\n"))
            else:  # the letter of marks itself
                pieces.append(letter)
                self.at += 1
        return self._split("".join(pieces), quoted, braces), quoted

    def _split(self, text: str, quoted: bool, braces: bool) -> list[str]:
        """The words of one written word: what stands between the blanks of unquoted values, braces expanded."""
        self.account.spend(len(text) + WORD)
        if braces:
            found = expanded(text)
            if found is None:
                raise Unreadable("too many words in braces")
            self.account.spend(sum(map(len, found)) + WORD * (len(found) + 1))
        else:
            found = [plain(text)]
        if "\n" in text:
            found = [part.replace("\r", "\n") for word in found for part in word.split("\n")]
        elif "\r" in text:
            found = [word.replace("\r", "\n") for word in found]
        return found if quoted else [word for word in found if word]

    def _quoted(self, letter: str) -> str:
        """What is written with a backslash or in quotes; its line feeds as \\r: it is no place to split."""
        line, at = self.line, self.at
        if letter == "\\":
            self.at += 2
            return "" if line.startswith("\n", at + 1) else line[at + 1 : at + 2]
        if letter == "$":
            self.at += 1
            if line[self.at] == '"':
                return ""
            text = self._escaped_quoted()
        else:
            text = self._until("'") if letter == "'" else self._double_quoted()
        return text.replace("\n", "\r")

    def _until(self, end: str) -> str:
        stop = self.line.find(end, self.at + 1)
        if stop < 0:
            raise Unreadable("a quote is never closed")
        text = self.line[self.at + 1 : stop]
        self.at = stop + 1
        return text

    def _escaped_quoted(self) -> str:
        """The text of $'...'."""
        out, line = [], self.line
        self.at += 1
        while self.at < len(line) and line[self.at] != "'":
            if line[self.at] != "\\":
                out.append(line[self.at])
                self.at += 1
                continue
            kind = line[self.at + 1 : self.at + 2]
            start, width, base = {"x": (2, 2, 16), "u": (2, 4, 16), "U": (2, 8, 16)}.get(kind, (1, 3, 8))
            digits = line[self.at + start : self.at + start + width]
            try:
                out.append(chr(int(digits, base)))
                self.at += start + width
            except (ValueError, OverflowError):
                out.append(_ESCAPES.get(kind, kind))
                self.at += 2
        if self.at >= len(line):
            raise Unreadable("a quote is never closed")
        self.at += 1
        return "".join(out)

    def _double_quoted(self) -> str:
        out, line = [], self.line
        self.at += 1
        while True:
            end = self.marked_quoted.find(_STOP, self.at)
            if end < 0:
                raise Unreadable("a quote is never closed")
            out.append(line[self.at : end])
            self.at = end
            letter = line[end]
            if letter == '"':
                self.at += 1
                return "".join(out)
            if letter == "\\":
                following = line[end + 1 : end + 2]
                out.append("" if following == "\n" else following if following in '$`"\\' else "\\" + following)
                self.at += 2
            elif letter in "$`":
                out.append(self._expansion())
            else:  # the letter of marks itself
                out.append(letter)
                self.at += 1

    def _expansion(self) -> str:
        """What stands at a `$` or a backquote: the value of a variable set here, else UNKNOWN."""
        line = self.line
        if line[self.at] == "`":
            text = self._until("`").replace("\\`", "`")
            inner = _Reader(text, self.depth + 1, self.account, scope=(*self.scope, self.account.scope()))
            return self._output(inner.read())
        following = line[self.at + 1 : self.at + 2]
        if following == "(":
            if line.startswith("((", self.at + 1):
                closing = line.find("))", self.at, self.at + MAX_VALUE)
                if closing >= 0 and "$(" not in line[self.at + 1 : closing] and "`" not in line[self.at : closing]:
                    self.at = closing + 2
                    return UNKNOWN
            self.at += 1
            return self._nested().rstrip("\n") or UNKNOWN
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
                    inner = _Reader(default, self.depth + 1, self.account, scope=(*self.scope, self.account.scope()))
                    self.found += inner.read()
                return default if "+" in operator else self.variables.get(bare) or default
        return self.variables.get(name, UNKNOWN)

    def _nested(self) -> str:
        """What a substitution prints, whose `(` is here; its commands are commands of the line too."""
        inner = _Reader(self.line, self.depth + 1, self.account, self, (*self.scope, self.account.scope()))
        inner.at = self.at + 1
        found = inner.read()
        if not inner.closed:
            raise Unreadable("a parenthesis is never closed")
        self.at = inner.at
        return self._output(found)

    def _output(self, inner: list[Command]) -> str:
        """What the commands of a substitution print, as far as it is known: of a few only."""
        self.found += inner
        if not inner:
            return UNKNOWN
        words = inner[-1].words
        if text := inner[-1].printed:
            return text.rstrip("\n") if len(text) <= MAX_LENGTH >> 2 else UNKNOWN
        if len(inner) > 1:
            return UNKNOWN
        if words[:1] == ["mktemp"] and set(words[1:]) <= {"-d", "-q"}:
            return SCRATCH
        if words == ["pwd"]:
            return self.variables.get("PWD", UNKNOWN)
        if words[:2] == ["git", "rev-parse"]:
            if words[2:] in (["--git-dir"], ["--git-common-dir"], ["--absolute-git-dir"]):
                return ".git"
            if words[2:] == ["--show-toplevel"]:
                return "."
            if len(words) == 4 and words[2] == "--git-path":
                return ".git/" + words[3]
        return UNKNOWN
