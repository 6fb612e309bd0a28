"""Allowlists that other scanners have: gitleaks' `.gitleaks.toml`, and comments that allow the
secret of a line.

They say what people accepted; redaction does not ask them. gitleaks' expressions are in the grammar
of RE2, which the engine of pydantic (Rust's `regex`) takes, in linear time. Python's `re` would
reject some of them, and the text of a change could make it run for ever.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from vibe_gate.domain.escape import expression

FILE = ".gitleaks.toml"
MAX_BYTES = 1_000_000
MAX_LINE = 5_000
"""tomllib's time grows with the square of a dotted key's parts."""
MAX_EXPRESSIONS = 1_000

_HERE = expression(r"gitleaks:allow|pragma:\s?(?:allow|white)list\s+secret")
_NEXT_LINE = expression(r"pragma:\s?allowlist\s+nextline\s+secret")


class _AllowTable(Struct, frozen=True):
    """One table of gitleaks: what it has of paths, expressions and words must match, one kind of
    them or all.
    """

    paths: tuple[Callable[[str], bool], ...]

    regexes: tuple[Callable[[str], bool], ...]

    of_line: bool
    """Whether the expressions are about the secret's line, not about the secret."""

    stopwords: tuple[str, ...]

    needs_all: bool
    """Whether each kind must match."""

    def allows(self, path: str, secret: str, line: str) -> bool:
        decisions: list[bool] = []
        if self.paths:
            decisions.append(any(matches(path) for matches in self.paths))
        if self.regexes:
            text = line if self.of_line else secret
            decisions.append(any(matches(text) for matches in self.regexes))
        if self.stopwords:
            lowered = secret.lower()
            decisions.append(any(word in lowered for word in self.stopwords))
        if self.needs_all:
            return bool(decisions) and all(decisions)
        return any(decisions)


class Allowlist(Struct, frozen=True):
    """What a `.gitleaks.toml` allows everywhere; `ignored` says why a part of it is not honoured,
    "" if all is.
    """

    entries: tuple[_AllowTable, ...] = ()
    ignored: str = ""

    def allows(self, path: str, secret: str, line: str) -> bool:
        """Whether one of the tables allows the secret in that line of the file at `path`."""
        return any(entry.allows(path, secret, line) for entry in self.entries)


def read_allowlist(content: bytes) -> Allowlist:
    """The allowlist of a `.gitleaks.toml`. What cannot be read allows nothing, nor do `commits` and
    lists of rules.
    """
    if len(content) > MAX_BYTES or max(map(len, content.split(b"\n"))) > MAX_LINE:
        return Allowlist(ignored=f"{FILE} is too large; it is not honoured.")
    try:
        tables = _tables_for_all_rules(tomllib.loads(content.decode()))
        expression_count = 0
        for table in tables:
            expression_count += len(table.get("paths", ()))
            expression_count += len(table.get("regexes", ()))
        if expression_count > MAX_EXPRESSIONS:
            return Allowlist(
                ignored=f"{FILE} has more than {MAX_EXPRESSIONS:,} expressions; it is not honoured."
            )
        return Allowlist(tuple(_allow_table(table) for table in tables))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return Allowlist(ignored=f"{FILE} cannot be read; it is not honoured.")


def _tables_for_all_rules(document: dict[str, Any]) -> list[dict[str, Any]]:
    """What `allowlists`, and `allowlist` of earlier versions, allow everywhere."""
    tables = [*(document.get("allowlists") or ()), document.get("allowlist")]
    return [table for table in tables if table and not table.get("targetRules")]


def linear_search(pattern: str) -> Callable[[str], bool]:
    """Tells whether a pattern matches in a text, in linear time. ValueError: it is no pattern."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError as error:
        raise ValueError(f"is not a regular expression: {error}") from error


def _allow_table(table: dict[str, Any]) -> _AllowTable:
    return _AllowTable(
        paths=tuple(map(linear_search, table.get("paths", ()))),
        regexes=tuple(map(linear_search, table.get("regexes", ()))),
        of_line=table.get("regexTarget") == "line",
        stopwords=tuple(word.lower() for word in table.get("stopwords", ())),
        needs_all=str(table.get("condition", "OR")).upper() in ("AND", "&&"),
    )


def allowing_comment(lines: Sequence[str], number: int) -> tuple[str, ...]:
    """The lines that a comment needs to allow a secret in line `number` (from 1): that one, or the
    one above and it.

    () if no comment allows it.
    """
    line = lines[number - 1] if number <= len(lines) else ""
    if _HERE.search(line):
        return (line,)
    line_above = lines[number - 2] if 1 < number <= len(lines) + 1 else ""
    if _NEXT_LINE.search(line_above):
        return (line_above, line)
    return ()
