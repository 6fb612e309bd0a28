"""A shell's command line as its simple commands, read as far as a shell would read it without
running anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from vibe_gate.domain.escape import expression
from vibe_gate.domain.started_programs import started_program, word_set

_RESERVED = word_set(
    """
    if then else elif fi for while until do case esac function select coproc ! [[ { }
    eval exec exit return trap alias unalias enable builtin shopt hash
    """
)
"""First words by which a line means something else than its simple commands say; `done` comes with
`do`.
"""

_TOKEN = expression(
    r"""
      (?P<space> (?: [ \t\r] | \\\n )+ )
    | (?P<comment> (?<! [^\s;&|] ) \# [^\n]* )
    | (?P<document> << (?!<) -? [ \t]* ['"\\]? \w+ ['"]? )
    | (?P<redirection> (?: \d* | & ) (?: <<< | >> | >\| | > | < ) (?: & \d* -? )? )
    | (?P<operator> && | \|\| | \|& | [;&|\n] )
    | (?P<word> (?:
          ' [^']* '
        | " (?: [^"\\$`] | \\. | \$ (?!\() )* "
        | \\ [^\n]
        | \$ (?! [('] | \{ [^}]* [^\w}] )    # no substitution, and of ${...} the name alone
        | [^\s'"\\$`;&|<>()]
      )+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTING = expression(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)


class SimpleCommand(Struct, frozen=True):
    """A program and its arguments, without redirections."""

    operator: str
    """What stands before it: ";", "&&", "||" or "|"; of the first also ""."""

    words: tuple[str, ...]
    """At least one, without quotes."""


class _Token(Struct, frozen=True):
    """A word or an operator of a line."""

    is_word: bool
    text: str


def split_line(line: str) -> list[SimpleCommand]:
    """The simple commands of a line.

    ValueError: it has more than these: substitutions, groups, loops, a command in the background.
    """
    commands: list[SimpleCommand] = []
    words: list[str] = []
    operator = ""
    for token in _read_tokens(line):
        if token.is_word:
            words.append(token.text)
            continue
        if words:
            commands.append(SimpleCommand(operator, tuple(words)))
            words = []
            operator = ""
        operator = _join_operators(operator, token.text)
    if words:
        commands.append(SimpleCommand(operator, tuple(words)))
    elif operator == "&" and commands:
        raise ValueError("the last command goes on in the background")
    for command in commands:
        _require_simple(command)
    return commands


def _join_operators(operator: str, text: str) -> str:
    """The operator before the next command: a line break changes nothing behind another one."""
    next_operator = {"\n": ";", "|&": "|"}.get(text, text)
    if next_operator == ";" and operator:
        return operator
    return next_operator


def _require_simple(command: SimpleCommand) -> None:
    """ValueError if the command goes on beside others, or is more than a program's call."""
    if command.operator == "&":
        raise ValueError("a command goes on in the background")
    for word in (command.words[0], started_program(command.words)):
        if word in _RESERVED:
            raise ValueError(f"{word} is no program")


def _read_tokens(line: str) -> Iterator[_Token]:
    """The words and operators; redirections are left out, with the files that they name and the
    text of here-documents. ValueError at what cannot be read.
    """
    position = 0
    is_file_next = False
    end_marks: list[str] = []
    while position < len(line):
        match = _TOKEN.match(line, position)
        if match is None:
            raise ValueError("a token cannot be read")
        kind = match.lastgroup
        text = match[0]
        position = match.end()
        if kind == "document":
            end_marks.append(text.lstrip("<- \t'\"\\").rstrip("'\""))
        elif kind == "redirection":
            is_file_next = not text.endswith(tuple("0123456789-"))  # as in 2>&1, >&-
        elif kind == "word":
            if not is_file_next:
                yield _Token(True, _unquote(text))
            is_file_next = False
        elif kind == "operator":
            yield _Token(False, text)
            is_file_next = False
        if text == "\n":
            position = _skip_documents(line, position, end_marks)
            end_marks = []
    if end_marks:
        raise ValueError("the text of a here-document is missing")


def _skip_documents(line: str, position: int, end_marks: Sequence[str]) -> int:
    """The position behind the texts of here-documents that end with these marks."""
    for end_mark in end_marks:
        while position < len(line):
            row, _, _ = line[position:].partition("\n")
            position += len(row) + 1
            if row.strip("\t") == end_mark:
                break
    return min(position, len(line))


def _unquote(word: str) -> str:
    return _QUOTING.sub(lambda match: match[1] or match[2] or match[3] or "", word)
