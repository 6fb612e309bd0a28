"""Secrets in text: the table of known forms (`rules.toml`), private keys, and values under a secret's name.

Shared by the check `no-secrets` and by redaction. The scanned text is hostile, so every rule is
linear: its expression starts with a literal, which the search jumps to, and everything before a
demand that can fail is bounded or possessive. Expressions know ASCII alone, so that UTF-8 seen as
Latin-1 gives the same matches as its text.

Known forms err towards finding; assignments err towards silence, since every program has lines such
as `token = next_token()`.
"""

from __future__ import annotations

import base64
import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vibe_gate.domain.escape import expression
from vibe_gate.secrets import assignments, decoding


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """One secret: `text[start:end]` is the value itself, without its name or quotes.

    `value` is how it reads: without the escapes, or out of the base64, in which it was found.
    """

    kind: str
    start: int
    end: int
    value: str = ""


SHORTEST = 11
"""Characters of the shortest text that holds a secret by its form: a password in an address."""


def find(text: str) -> list[SecretMatch]:
    """Every secret in `text`, in order and without overlaps; overlapping ones become one, under the named form.

    Secrets inside of base64, escapes and the like count as well (see `decoding`): there the
    match is all that stands for the value.
    """
    if text.isascii():
        return find_seen(text)
    raw = text.encode("utf-8", "surrogatepass")
    return _in_characters(raw, find_seen(raw.decode("latin-1")))


def find_seen(text: str, also: Callable[[str], Iterable[SecretMatch]] | None = None) -> list[SecretMatch]:
    """`find` for text that is UTF-8, or any bytes, seen as Latin-1.

    `also` looks for more in the same readings of the text; what it finds comes before every form.
    """
    if also is None and len(text) < SHORTEST:
        return []
    matches = [_with_whole_escapes(text, match) for match in _matches(text, also)]
    for view in decoding.views(text):
        for match in _matches(view.text, also):
            start, end = view.origin(match.start, match.end)
            matches.append(replace(match, start=start, end=end))
    return _apart(matches if text.isascii() else [_with_whole_characters(text, match) for match in matches])


def mask(value: str) -> str:
    """What may be shown of a secret: enough to recognise it, at most a quarter of it."""
    return value[: min(4, len(value) // 4)] + "..."


def looks_random(value: str) -> bool:
    """Whether a value without its name may be a secret: letters and digits as no word, name or sentence has them."""
    return (
        any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and not any(map(str.isspace, value))
        and not (assignments.WORDS.match(value) or assignments.CAMEL.search(value) or _is_placeholder(value))
        and assignments.bits(value) >= assignments.QUOTED_BITS
    )


# The readings of a text, and what is found in one

_PREFERRED, _LAST = ("private-key",), ("aws-secret-key", "secret-assignment")


@functools.cache
def _ranks() -> dict[str, int]:
    """Of two kinds that fit one place, the one of the lower rank names it."""
    by_form = [rule.kind for rule in _rules() if rule.kind not in _LAST]
    return {kind: rank for rank, kind in enumerate(dict.fromkeys([*_PREFERRED, *by_form, *_LAST]))}


def _matches(text: str, also: Callable[[str], Iterable[SecretMatch]] | None) -> Iterator[SecretMatch]:
    if also is not None:
        yield from also(text)
    yield from _private_keys(text)
    for match in (*_known(text), *_cut_short(text), *_assigned(text)):
        yield replace(match, value=text[match.start : match.end])


def _assigned(text: str) -> Iterator[SecretMatch]:
    return (SecretMatch(value.kind, value.start, value.end) for value in assignments.assigned(text))


def _apart(matches: list[SecretMatch]) -> list[SecretMatch]:
    """The matches in order; of those that overlap one over all of them, of the kind of the first rank."""
    kept: list[SecretMatch] = []
    for match in sorted(matches, key=lambda match: (match.start, match.end)):
        if kept and match.start < kept[-1].end:
            last = kept.pop()
            best = min(last, match, key=lambda match: (_ranks().get(match.kind, -1), -len(match.value), match.value))
            match = replace(best, start=last.start, end=max(last.end, match.end))
        kept.append(match)
    return kept


_CUT_ESCAPE = expression(r"\\(?:u[0-9A-Fa-f]{0,4}|[\"\\/bfnrt])\Z")
"""The beginning of an escape, with the character after it."""


def _with_whole_escapes(text: str, match: SecretMatch) -> SecretMatch:
    """The match with the whole of an escape that it would cut: what is left of JSON must stay JSON."""
    start, end = match.start, match.end
    head = _CUT_ESCAPE.search(text, max(0, start - 6), min(len(text), start + 1))
    if head and head.end() > start and not _backslashes(text[max(0, head.start() - 64) : head.start()]) % 2:
        start = head.start()
    if _backslashes(text[start:end]) % 2:
        end = min(len(text), end + (5 if text[end : end + 1] == "u" else 1))
    return match if (start, end) == (match.start, match.end) else replace(match, start=start, end=end)


def _backslashes(text: str) -> int:
    return len(text) - len(text.rstrip("\\"))


def _with_whole_characters(text: str, match: SecretMatch) -> SecretMatch:
    """The match with the whole of a UTF-8 character that it would cut: text that is UTF-8 stays UTF-8."""
    start, end = _border(text, match.start, -1), _border(text, match.end, 1)
    return match if (start, end) == (match.start, match.end) else replace(match, start=start, end=end)


def _border(text: str, position: int, step: int) -> int:
    """`position`, or where the UTF-8 character that it is inside of begins (-1) or ends (1)."""
    for _ in range(3):
        if not position or text[position - 1] < "\x80" or not "\x80" <= text[position : position + 1] <= "\xbf":
            break
        position += step
    return position


def _in_characters(raw: bytes, matches: list[SecretMatch]) -> list[SecretMatch]:
    """Matches in bytes as matches in the text that these are."""
    placed: list[SecretMatch] = []
    at = count = 0
    for match in matches:
        start = count + len(raw[at : match.start].decode("utf-8", "surrogatepass"))
        count = start + len(raw[match.start : match.end].decode("utf-8", "surrogatepass"))
        at = match.end
        placed.append(replace(match, start=start, end=count))
    return placed


# The table of rules


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of `rules.toml` for one keyword; see there."""

    kind: str
    keyword: str
    regex: re.Pattern[str]
    before: re.Pattern[str] | None
    has_value: bool
    entropy: float
    proof: str
    cut: str


@functools.cache
def _rules() -> tuple[Rule, ...]:
    """The table, read when it is first needed; an expression is compiled when its keyword first stands in a text."""
    rows = tomllib.loads((Path(__file__).parent / "rules.toml").read_text("utf-8"))["rule"]
    return tuple(_rule(row, keyword) for row in rows for keyword in row["keywords"])


def _rule(row: dict[str, Any], keyword: str) -> Rule:
    literal = re.escape(keyword)
    border = row.get("border", "A-Za-z0-9")
    # The look-behind stands after the keyword, so that the search can jump from keyword to keyword.
    inside = f"(?<![{border}]{literal})" if border else ""
    before = row.get("before")
    return Rule(
        kind=row["id"],
        keyword=keyword,
        regex=expression(f"{literal}{inside}{row['regex']}", re.ASCII),
        before=expression(rf"(?:{before})\Z", re.ASCII) if before else None,
        has_value="(?P<value>" in row["regex"],
        entropy=row.get("entropy", 0),
        proof=row.get("proof", ""),
        cut=row.get("cut", ""),
    )


_BEFORE = 40
"""Characters before a keyword in which the rule's `before` is looked for."""


def _known(text: str) -> Iterator[SecretMatch]:
    for rule in _rules():
        for match in rule.regex.finditer(text) if rule.keyword in text else ():
            start, end = match.span("value") if rule.has_value else match.span()
            if rule.before is not None:
                head = rule.before.search(text, max(0, start - _BEFORE), start)
                if head is None:
                    continue
                start = head.start()
            if _is_proved(rule, match, text[start:end]):
                yield SecretMatch(rule.kind, start, end)


def _is_proved(rule: Rule, match: re.Match[str], value: str) -> bool:
    if _is_placeholder(value):
        return False
    if rule.entropy and not (any(map(str.isdigit, value)) and assignments.bits(value) >= rule.entropy):
        return False
    if rule.proof == "basic":
        return _is_login(value)
    if rule.proof == "random" and not looks_random(value):
        return False
    groups = match.groupdict()
    return not rule.proof or not (
        _is_sample(groups.get("user") or "", value) or ("host" in groups and _is_nowhere(groups["host"].lower()))
    )


def _is_placeholder(value: str) -> bool:
    return assignments.PLACEHOLDER.search(value.lower()) is not None


def _is_login(value: str) -> bool:
    """Whether this is base64 of a user's name and a password that is no sample."""
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except ValueError:
        return False
    return bool(colon) and len(password) >= 4 and not _is_sample(user, password)


_SAFE_HOSTS = frozenset({"localhost", "127.0.0.1", "host", "hostname", "foo", "bar"})
_SAFE_DOMAINS = ("example.com", "example.org", "example.net", ".test", ".invalid", ".example")
_PASSWORD_PARTS = expression(r"(?:%[0-9a-f]{2}|[^a-z0-9])+|[0-9]+\Z")
_SAFE_PASSWORDS = frozenset(
    {"password", "foo", "bar", "baz", "foobar", "pass", "passwd", "pwd", "secret", "user", "token", "test", "pw", "key"}
)
_SAMPLE_WORDS = frozenset({"a", "an", "another", "my", "new", "old", "other", "some", "the", "username", "wrong"})
"""Words beside those of `_SAFE_PASSWORDS`, as in `other-password`."""


def _is_nowhere(host: str) -> bool:
    return len(host) < 2 or host in _SAFE_HOSTS or host.endswith(_SAFE_DOMAINS)


def _is_sample(user: str, password: str) -> bool:
    """Whether the password is one of those that stand in documentation, or a reference to one."""
    lowered = password.lower()
    parts = {part for part in _PASSWORD_PARTS.split(lowered) if len(part) > 1}
    return (
        lowered == user.lower()
        or len(set(lowered)) == 1
        or lowered.startswith(("$", "{", "%s", "%("))
        or assignments.PLACEHOLDER.search(lowered) is not None
        or (parts <= _SAFE_PASSWORDS | _SAMPLE_WORDS and not (parts and parts <= _SAMPLE_WORDS))
    )


# A secret that a limit has cut has lost its form: what leads to one counts up to the mark of the cut.
CUTS = expression(r"…|\xe2\x80\xa6|\.{3,}+|<\0<|\Z")
_CUT_MARK = expression(r"(?:\xe2\x80\xa6|\.\.\.|<\0<)")  # without the end, for which a search must look everywhere
_TOKEN_BEFORE = expression(r"[A-Za-z0-9_-]{10}", re.ASCII)


@functools.cache
def _cut_rules() -> tuple[re.Pattern[str], dict[str, str]]:
    """What the beginning of a cut secret looks like, and the kinds by the expression's groups."""
    leads = {f"k{number}": rule for number, rule in enumerate(_rules()) if rule.cut}
    names = "|".join(f"(?P<{name}>{rule.cut})" for name, rule in leads.items())
    regex = re.compile(rf"(?<![A-Za-z0-9])(?:{names})(?P<rest>[A-Za-z0-9_.-]{{10,300}})\Z", re.ASCII)
    return regex, {name: rule.kind for name, rule in leads.items()}


def _cut_short(text: str) -> Iterator[SecretMatch]:
    """The beginning of a secret at the text's end, or before dots that say that something is left out."""
    for end in (*(cut.start() for cut in _CUT_MARK.finditer(text)), len(text)):
        if end < 14 or not _TOKEN_BEFORE.match(text, end - 10, end):
            continue
        regex, kinds_of = _cut_rules()
        match = regex.search(text, max(0, end - 320), end)
        if match is None or assignments.WORDS.match(match[0]) or _is_placeholder(match[0]):
            continue
        if any(map(str.isdigit, match["rest"])):
            yield SecretMatch(next(kinds_of[name] for name in kinds_of if match[name]), match.start(), end)


# Private keys in PEM, whatever stands before or behind each of their lines: a log, a blame, a hunk, a program.
# A line of a key is a run of base64 of one width, no further than GAP from the one before.

_PEM_MARK = expression(r"-----(?P<side>BEGIN|END) (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_RUN = expression(r"(?:(?<=\\[nr])|(?<![A-Za-z0-9+/\\]))[A-Za-z0-9+/]{16,}+={0,2}")
_PEM_WIDTH = 32
"""Characters of a key's shortest whole line."""
_PEM_LINES = 400
"""Lines of the longest key: 16,384 bits have 270."""
_PEM_WINDOW = 64_000
"""Characters that are looked at above an end line."""
GAP = 600
"""Characters between two lines of a key: the rest of a log's record, and the beginning of the next one."""


def _private_keys(text: str) -> Iterator[SecretMatch]:
    marks = list(_PEM_MARK.finditer(text)) if "PRIVATE KEY" in text else []
    for number, mark in enumerate(marks):
        if mark["side"] == "BEGIN":
            yield from _key_below(text, mark, marks[number + 1] if number + 1 < len(marks) else None)
        elif not number or marks[number - 1]["side"] == "END":
            yield from _key_above(text, mark, marks[number - 1].end() if number else 0)


def _key_below(text: str, begin: re.Match[str], after: re.Match[str] | None) -> Iterator[SecretMatch]:
    """The key from its first line on, to its end line or as far as it is shown."""
    limit = after.start() if after is not None else len(text)
    lines: list[re.Match[str]] = []
    reached = begin.end()
    for run in _PEM_RUN.finditer(text, begin.end(), min(limit, begin.end() + _PEM_LINES * GAP)):
        if run.start() - reached > GAP or len(lines) == _PEM_LINES:
            break
        if len(run[0]) == len(lines[0][0]) if lines else _is_whole_line(run[0]):
            lines.append(run)
            reached = run.end()
    if not lines:
        return
    stop = reached
    if after is not None and after["side"] == "END" and limit - reached <= 2 * GAP:  # the last line is between
        stop = after.end()
    elif len(lines) == 1 and lines[0].start() - begin.end() > _PEM_WIDTH:
        return  # one line alone, and not right below
    yield SecretMatch("private-key", begin.start(), stop, _value_of(lines))


def _key_above(text: str, end: re.Match[str], limit: int) -> Iterator[SecretMatch]:
    """The rest of a key whose beginning is not shown, as in a hunk: upwards from its end line."""
    runs = list(_PEM_RUN.finditer(text, max(limit, end.start() - _PEM_WINDOW), end.start()))
    while runs and not _is_whole_line(runs[-1][0]):
        runs.pop()
    lines: list[re.Match[str]] = []
    reached = end.start()
    for run in reversed(runs):
        if reached - run.end() > (GAP if lines else 2 * GAP) or len(lines) == _PEM_LINES:
            break
        if len(lines) == 1 and len(lines[0][0]) < len(run[0]) and _is_whole_line(run[0]):
            lines.pop()  # that was the last line, which is shorter
        if not lines or len(run[0]) == len(lines[0][0]):
            lines.append(run)
            reached = run.start()
    if lines:
        yield SecretMatch("private-key", lines[-1].start(), end.end(), _value_of(lines[::-1]))


def _value_of(lines: list[re.Match[str]]) -> str:
    """The key without what stands between its lines, be it as wide as they are: it is the same in every form."""
    return "".join(line[0] for line in lines if _is_whole_line(line[0]))


def _is_whole_line(run: str) -> bool:
    """Whether a run may be a whole line of a key: neither a word nor a path."""
    upper, lower, digits = (sum(map(kind, run[:200])) for kind in (str.isupper, str.islower, str.isdigit))
    return len(run) >= _PEM_WIDTH and digits > 1 and min(upper, lower) > 3 and run[:200].count("/") < 8
