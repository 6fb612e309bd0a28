"""Secrets in text: the table of known forms (`rules.py`), private keys, and values under a secret's
name.

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
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.escape import expression
from vibe_gate.secrets import decoding
from vibe_gate.secrets.published import (
    is_documented_value,
    is_published_value,
    is_sealed,
    names_published_value,
    sealed_spans,
    without_prefix,
)
from vibe_gate.secrets.rules import RULES, Rule


class SecretMatch(Struct, frozen=True):
    """One secret: `text[start:end]` is the value itself, without its name or quotes."""

    kind: str
    start: int
    end: int

    value: str = ""
    """How it reads: without the escapes, or out of the base64, in which it was found."""

    harmless: Literal["", "test key", "documented example", "identifier"] = ""
    """Why it needs no revoking: its provider gives it out as a "test key", or as a "documented
    example", or it is an "identifier" that opens nothing alone.
    """


SHORTEST = 11
"""Characters of the shortest text that holds a secret by its form: a password in an address."""


def find_secrets(text: str) -> list[SecretMatch]:
    """Every secret in `text`, in order and without overlaps; overlapping ones become one, under the
    named form.

    Secrets inside of base64, escapes and the like count as well (see `decoding`): there the
    match is all that stands for the value.
    """
    if text.isascii():
        return find_seen(text)
    raw = text.encode("utf-8", "surrogatepass")
    return _in_characters(raw, find_seen(raw.decode("latin-1")))


def find_seen(
    text: str, also: Callable[[str], Iterable[SecretMatch]] | None = None
) -> list[SecretMatch]:
    """`find_secrets` for text that is UTF-8, or any bytes, seen as Latin-1.

    `also` looks for more in the same readings of the text; what it finds comes before every form.
    """
    if also is None and len(text) < SHORTEST:
        return []
    matches = [_with_whole_escapes(text, match) for match in _matches(text, also)]
    for view in decoding.views(text):
        for match in _matches(view.text, also):
            start, end = view.origin(match.start, match.end)
            matches.append(replace(match, start=start, end=end))
    matches = _without_sealed(text, matches)
    if not text.isascii():
        matches = [_with_whole_characters(text, match) for match in matches]
    return _unite_overlapping(text, matches)


def _without_sealed(text: str, matches: list[SecretMatch]) -> list[SecretMatch]:
    """The matches without those by a name that are sealed values of Kubernetes."""
    spans = sealed_spans(text)
    if not spans:
        return matches
    other_matches = []
    for match in matches:
        if match.kind in BY_NAME and is_sealed(spans, text, match.start, match.end):
            continue
        other_matches.append(match)
    return other_matches


def mask(value: str) -> str:
    """What may be shown of a secret: at most a quarter of it, to recognise it by; of a private key
    its first line.
    """
    first_line = _PEM_MARK.match(value)
    if first_line:
        return f"{first_line[0]}..."
    length = min(4, len(value) // 4)
    return f"{value[:length]}..."


def preview(kind: str, value: str) -> str:
    """How a secret of this kind begins: what all of its form do, such as `sk_live_...`; else what
    `mask` shows.
    """
    beginnings = []
    for rule in RULES:
        if rule.kind != kind:
            continue
        beginnings += [keyword for keyword in rule.keywords if value.startswith(keyword)]
        cut_match = re.match(rule.cut, value) if rule.cut else None
        if cut_match:
            beginnings.append(cut_match[0])
    longest = max(beginnings, key=len, default="")
    if 4 < len(longest) <= len(value) // 2:
        return f"{longest}..."
    return mask(value)


def looks_random(value: str) -> bool:
    """Whether a value without its name may be a secret: letters and digits as no word, name or
    sentence has them.
    """
    has_letters_and_digits = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    if not has_letters_and_digits or any(map(str.isspace, value)):
        return False
    if _WORDS.match(value) or _is_placeholder(value):
        return False
    if _CAMEL.search(value) and len(_SWITCH.findall(value)) < _MIXED_SWITCHES:
        return False
    return _bits(value) >= _QUOTED_BITS


# The readings of a text, and what is found in one

_PREFERRED, _LAST = ("private-key",), ("aws-secret-key", "secret-assignment")


@functools.cache
def _ranks() -> dict[str, int]:
    """The rank of each kind: if two kinds match the same text, the one of the lower rank names the
    match.
    """
    by_form = [rule.kind for rule in RULES if rule.kind not in _LAST]
    kinds = dict.fromkeys([*_PREFERRED, *by_form, *_LAST])
    return {kind: rank for rank, kind in enumerate(kinds)}


def _matches(
    text: str, also: Callable[[str], Iterable[SecretMatch]] | None
) -> Iterator[SecretMatch]:
    if also is not None:
        yield from also(text)
    yield from _private_keys(text)
    for match in itertools.chain(_by_rules(text), _cut_short(text), _by_name(text)):
        value = text[match.start : match.end]
        harmless = "documented example" if is_documented_value(value) else match.harmless
        yield SecretMatch(match.kind, match.start, match.end, value, harmless)


def _unite_overlapping(text: str, matches: list[SecretMatch]) -> list[SecretMatch]:
    """The matches in order. Matches that overlap become one over all of them."""
    separate_matches: list[SecretMatch] = []
    for match in sorted(matches, key=lambda match: (match.start, match.end)):
        if separate_matches and match.start < separate_matches[-1].end:
            match = _united(text, separate_matches.pop(), match)
        separate_matches.append(match)
    return separate_matches


def _united(text: str, first: SecretMatch, second: SecretMatch) -> SecretMatch:
    """One match over two that overlap, of the kind with the lower rank."""
    start, end = first.start, max(first.end, second.end)
    if first.harmless and not second.harmless and _adds_nothing(text, first, second):
        return replace(first, start=start, end=end)
    if second.harmless and not first.harmless and _adds_nothing(text, second, first):
        return replace(second, start=start, end=end)
    best = min(first, second, key=_precedence)
    harmless = best.harmless if first.harmless and second.harmless else ""
    return replace(best, start=start, end=end, harmless=harmless)


def _precedence(match: SecretMatch) -> tuple[int, int, str]:
    """The least of matches in one place names it: by its rank, then its length."""
    return _ranks().get(match.kind, -1), -len(match.value), match.value


_BY_SURROUNDINGS = frozenset(
    {
        "secret-assignment",
        "aws-secret-key",
        "url-password",
        "bearer-token",
        "basic-auth",
        "azure-storage-key",
    }
)
"""Kinds of values that only what stands around them tells."""
_SHORTEST_SECRET = 8


def _adds_nothing(text: str, harmless_match: SecretMatch, other_match: SecretMatch) -> bool:
    """Whether a match by a name or the like is about a harmless form alone, and about no secret
    beside it.
    """
    if other_match.kind not in _BY_SURROUNDINGS:
        return False
    before = text[other_match.start : harmless_match.start]
    after = text[harmless_match.end : other_match.end]
    for run in _RUNS.findall(f"{before} {after}"):
        is_harmless = _TEST_KEY.match(run) or _PLAIN_VALUE.match(run)
        if len(run) >= _SHORTEST_SECRET and looks_random(run) and not is_harmless:
            return False
    return True


_RUNS = expression(r"[^\s,;&\"'`]+")
_CUT_ESCAPE = expression(r"\\(?:u[0-9A-Fa-f]{0,4}|[\"\\/bfnrt])\Z")
"""The beginning of an escape, with the character after it."""


def _with_whole_escapes(text: str, match: SecretMatch) -> SecretMatch:
    """The match with the whole of an escape that it would cut: what is left of JSON must stay
    JSON.
    """
    start = match.start
    head = _CUT_ESCAPE.search(text, max(0, start - 6), min(len(text), start + 1))
    if head and head.end() > start:
        before = text[max(0, head.start() - 64) : head.start()]
        if _count_last_backslashes(before) % 2 == 0:
            start = head.start()
    end = match.end
    if _count_last_backslashes(text[start:end]) % 2:
        escape_length = 5 if text[end : end + 1] == "u" else 1
        end = min(len(text), end + escape_length)
    return _at(match, start, end)


def _at(match: SecretMatch, start: int, end: int) -> SecretMatch:
    """The match in another place; the same object if it is there already."""
    if (start, end) == (match.start, match.end):
        return match
    return replace(match, start=start, end=end)


def _count_last_backslashes(text: str) -> int:
    return len(text) - len(text.rstrip("\\"))


def _with_whole_characters(text: str, match: SecretMatch) -> SecretMatch:
    """The match with the whole of a UTF-8 character that it would cut: text that is UTF-8 stays
    UTF-8.
    """
    return _at(match, _border(text, match.start, -1), _border(text, match.end, 1))


def _border(text: str, position: int, step: int) -> int:
    """`position`, or where the UTF-8 character that it is inside of begins (-1) or ends (1)."""
    for _ in range(3):
        is_after_part = position > 0 and text[position - 1] >= "\x80"
        is_at_part = "\x80" <= text[position : position + 1] <= "\xbf"
        if not is_after_part or not is_at_part:
            break
        position += step
    return position


def _in_characters(raw: bytes, matches: list[SecretMatch]) -> list[SecretMatch]:
    """Matches in bytes as matches in the text that these are."""
    matches_in_text: list[SecretMatch] = []
    position = 0
    end = 0
    for match in matches:
        start = end + _count_characters(raw[position : match.start])
        end = start + _count_characters(raw[match.start : match.end])
        position = match.end
        matches_in_text.append(replace(match, start=start, end=end))
    return matches_in_text


def _count_characters(raw: bytes) -> int:
    return len(raw.decode("utf-8", "surrogatepass"))


# The table of rules


@functools.cache
def _expression(rule: Rule, keyword: str) -> re.Pattern[str]:
    lead = re.escape(keyword)
    # The look-behind stands after the keyword, so that the search can jump from keyword to keyword.
    inside = f"(?<![{rule.border}]{lead})" if rule.border else ""
    return re.compile(f"{lead}{inside}{rule.regex}", re.ASCII)


@functools.cache
def _ending(before: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{before})\Z", re.ASCII)


_BEFORE = 64
"""Characters before a keyword in which the rule's `before` is looked for."""


_LONG_TEXT = 1 << 16
"""Characters from which on a text is searched for all keywords with one first character at once:
ten megabytes take a second to be searched for each of three hundred.
"""


def _by_rules(text: str) -> Iterator[SecretMatch]:
    keywords_text = text
    if len(text) >= _LONG_TEXT:
        keywords_text = "\n".join(longest_keywords(text))
    for rule in RULES:
        for keyword in rule.keywords:
            if keyword in keywords_text:
                yield from _of_rule(text, rule, _expression(rule, keyword))


def longest_keywords(text: str) -> set[str]:
    """The longest keyword at each place of the text where one stands: it holds all others there."""
    keywords: set[str] = set()
    for search in _keyword_searches():
        for match in search.finditer(text):
            keywords.add(text[match.start() : match.end(1)])
    return keywords | {keyword for keyword in _single_characters() if keyword in text}


@functools.cache
def _keyword_searches() -> list[re.Pattern[str]]:
    """For each first character of keywords an expression that finds the longest one at each
    place.
    """
    by_first: dict[str, list[str]] = {}
    for keyword in _all_keywords() - _single_characters():
        by_first.setdefault(keyword[0], []).append(keyword)
    searches = []
    for first, keywords in by_first.items():
        longest_first = sorted(keywords, key=len, reverse=True)
        rests = "|".join(re.escape(keyword[1:]) for keyword in longest_first)
        # One character is passed over, so that the next keyword may begin inside of this one; and
        # it stands alone, so that the search can jump from one to the next.
        searches.append(re.compile(f"{re.escape(first)}(?=({rests}))"))
    return searches


@functools.cache
def _single_characters() -> frozenset[str]:
    """Keywords of one character, which a long text nearly always has at its beginning."""
    return frozenset(keyword for keyword in _all_keywords() if len(keyword) == 1)


def _all_keywords() -> frozenset[str]:
    keywords: set[str] = set()
    for rule in RULES:
        keywords.update(rule.keywords)
    return frozenset(keywords)


def _of_rule(text: str, rule: Rule, regex: re.Pattern[str]) -> Iterator[SecretMatch]:
    for match in regex.finditer(text):
        start, end = match.span("value" if "value" in regex.groupindex else 0)
        if rule.before:
            head = _ending(rule.before).search(text, max(0, start - _BEFORE), start)
            if head is None:
                continue
            start = head.start()
            if rule.ends_before:
                end = match.start()
        value = text[start:end]
        if rule.harmless == "documented example" or _is_proved(rule, match, value):
            is_test = rule.test and re.search(rule.test, value)
            harmless = "test key" if is_test else rule.harmless
            yield SecretMatch(rule.kind, start, end, harmless=harmless)


def _is_proved(rule: Rule, match: re.Match[str], value: str) -> bool:
    if _is_placeholder(value) or (rule.kind in BY_NAME and is_published_value(value)):
        return False
    if rule.entropy and (not any(map(str.isdigit, value)) or _bits(value) < rule.entropy):
        return False
    if rule.proof == "basic":
        return _is_login(value)
    if rule.proof in ("random", "mixed", "login") and not looks_random(value):
        return False
    if rule.proof == "login" and _is_named_in_words(value):
        return False
    if rule.proof == "mixed" and len(_SWITCH.findall(value)) < _MIXED_SWITCHES:
        return False
    if not rule.proof:
        return True
    groups = match.groupdict()
    if _is_sample(groups.get("user") or "", value):
        return False
    is_sample_host = "host" in groups and _is_nowhere(groups["host"].lower())
    return not is_sample_host or _is_real(value)


def _is_placeholder(value: str) -> bool:
    """Whether a value is a reference or a sample by a word in it, and not random without that
    word.
    """
    lowered = value.lower()
    if _BLANK.search(lowered):
        return True
    if not _PLACEHOLDER.search(lowered):
        return False
    return not _hides_secret(value)


def _hides_secret(value: str) -> bool:
    """Whether what is left of a value without words of samples is random: such a word makes no
    secret harmless.
    """
    remainder = _SAMPLE_PART.sub(" ", _DOCUMENTED.sub(" ", value))
    return any(_is_real(run) and not _is_ordinary(run) for run in _REST.findall(remainder))


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
    {
        "password",
        "foo",
        "bar",
        "baz",
        "foobar",
        "pass",
        "passwd",
        "pwd",
        "secret",
        "user",
        "token",
        "test",
        "pw",
        "key",
    }
)
_RANDOM_LENGTH = 16
_SAMPLE_WORDS = frozenset(
    {"a", "an", "another", "my", "new", "old", "other", "some", "the", "username", "wrong"}
)
"""Words beside those of `_SAFE_PASSWORDS`, as in `other-password`."""


def _is_nowhere(host: str) -> bool:
    return len(host) < 2 or host in _SAFE_HOSTS or host.endswith(_SAFE_DOMAINS)


def _is_real(password: str) -> bool:
    """Whether a password counts although its host is a placeholder, such as localhost or
    example.com.
    """
    return len(password) >= _RANDOM_LENGTH and looks_random(password)


def _is_sample(user: str, password: str) -> bool:
    """Whether the password is a sample, as documentation has it, or a reference to a variable."""
    lowered = password.lower()
    if lowered in (user.lower(), "x-oauth-basic") or len(set(lowered)) == 1:
        return True
    if lowered.startswith(("$", "{", "%s", "%(")):
        return True
    if _is_placeholder(password) or _is_spelled_password(lowered):
        return True
    words = {part for part in _PASSWORD_PARTS.split(lowered) if len(part) > 1}
    if not words:
        return True
    return words <= _SAFE_PASSWORDS | _SAMPLE_WORDS and not words <= _SAMPLE_WORDS


_SPELLINGS = str.maketrans("01345@$!", "oleasasi")
_PASSWORD = expression(r"pass?(?:word|wort|wd|wrd)")


def _is_spelled_password(lowered: str) -> bool:
    """Whether a password is the word "password" in one of its spellings (`P@ssw0rd1!`), and nothing
    random.
    """
    word = _PASSWORD.search(lowered.translate(_SPELLINGS))
    if word is None:
        return False
    start, end = lowered[: word.start()], lowered[word.end() :]
    return not looks_random(start) and not looks_random(end)


# A truncated secret does not have its whole form: its beginning counts if a mark of truncation
# follows.
CUTS = expression(r"…|\xe2\x80\xa6|\.{3,}+|<\0<|\Z")
_CUT_MARK = expression(
    r"(?:\xe2\x80\xa6|\.\.\.|<\0<)"
)  # without the end, for which a search must look everywhere
_TOKEN_BEFORE = expression(r"[A-Za-z0-9_-]{10}", re.ASCII)


@functools.cache
def _cut_rules() -> tuple[re.Pattern[str], dict[str, str]]:
    """What the beginning of a cut secret looks like, and the kinds by the expression's groups."""
    leads = {f"k{number}": rule for number, rule in enumerate(RULES) if rule.cut}
    names = "|".join(f"(?P<{name}>{rule.cut})" for name, rule in leads.items())
    regex = re.compile(
        rf"(?<![A-Za-z0-9])(?:{names})(?P<rest>[A-Za-z0-9_.-]{{10,300}})\Z", re.ASCII
    )
    return regex, {name: rule.kind for name, rule in leads.items()}


def _cut_short(text: str) -> Iterator[SecretMatch]:
    """Truncated secrets: the beginning of one at the text's end, or before an ellipsis."""
    ends = [ellipsis.start() for ellipsis in _CUT_MARK.finditer(text)]
    ends.append(len(text))
    for end in ends:
        if end < 14 or not _TOKEN_BEFORE.match(text, end - 10, end):
            continue
        regex, kinds_by_group = _cut_rules()
        match = regex.search(text, max(0, end - 320), end)
        if match is None or _WORDS.match(match[0]) or _is_placeholder(match[0]):
            continue
        if any(map(str.isdigit, match["rest"])):
            kinds = [kind for group, kind in kinds_by_group.items() if match[group]]
            yield SecretMatch(kinds[0], match.start(), end)


# Private keys in PEM, whatever stands before or behind each of their lines: a log, a blame, a hunk,
# a program. A line of a key is a run of base64 of one width, no further than GAP from the one
# before.

_PEM_MARK = expression(
    r"-----(?P<side>BEGIN|END) (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
)
_PEM_RUN = expression(r"(?:(?<=\\[nr])|(?<![A-Za-z0-9+/\\]))[A-Za-z0-9+/]{16,}+={0,2}")
_PEM_WIDTH = 32
"""Characters of a key's shortest whole line."""
_PEM_LINES = 400
"""Lines of the longest key: 16,384 bits have 270."""
_PEM_WINDOW = 64_000
"""Characters that are looked at above an end line."""
GAP = 600
"""Characters between two lines of a key: the rest of a log's record, and the beginning of the next
one.
"""


def _private_keys(text: str) -> Iterator[SecretMatch]:
    if "PRIVATE KEY" not in text:
        return
    mark_above: re.Match[str] | None = None
    marks = list(_PEM_MARK.finditer(text))
    for mark, mark_below in itertools.zip_longest(marks, marks[1:]):
        if mark["side"] == "BEGIN":
            yield from _key_below(text, mark, mark_below)
        elif mark_above is None or mark_above["side"] == "END":
            yield from _key_above(text, mark, mark_above.end() if mark_above else 0)
        mark_above = mark


def _key_below(
    text: str, begin: re.Match[str], next_mark: re.Match[str] | None
) -> Iterator[SecretMatch]:
    """The key from its first line on, to its end line or as far as it is shown."""
    limit = len(text) if next_mark is None else next_mark.start()
    lines = _lines_below(text, begin.end(), limit)
    if not lines:
        return
    end = lines[-1].end()
    # The last line is shorter, and stands between.
    if next_mark is not None and next_mark["side"] == "END" and limit - end <= 2 * GAP:
        end = next_mark.end()
    elif len(lines) == 1 and lines[0].start() - begin.end() > _PEM_WIDTH:
        return  # one line alone, and not right below
    yield SecretMatch("private-key", begin.start(), end, _value_of(lines))


def _lines_below(text: str, start: int, limit: int) -> list[re.Match[str]]:
    """The whole lines of a key from there on."""
    lines: list[re.Match[str]] = []
    position = start
    for run in _PEM_RUN.finditer(text, start, min(limit, start + _PEM_LINES * GAP)):
        if run.start() - position > GAP or len(lines) == _PEM_LINES:
            break
        if lines:
            is_line = _has_width_of(lines[0], run)
        else:
            is_line = _is_whole_line(run[0])
        if is_line:
            lines.append(run)
            position = run.end()
    return lines


def _key_above(text: str, end: re.Match[str], limit: int) -> Iterator[SecretMatch]:
    """The rest of a key whose beginning is not shown, as in a hunk: upwards from its end line."""
    window_start = max(limit, end.start() - _PEM_WINDOW)
    runs = list(_PEM_RUN.finditer(text, window_start, end.start()))
    while runs and not _is_whole_line(runs[-1][0]):
        runs.pop()
    lines_upwards: list[re.Match[str]] = []
    position = end.start()
    for run in reversed(runs):
        largest_gap = GAP
        if not lines_upwards:
            largest_gap = 2 * GAP
        if position - run.end() > largest_gap or len(lines_upwards) == _PEM_LINES:
            break
        if len(lines_upwards) == 1 and _is_last_line(lines_upwards[0], run):
            lines_upwards.pop()
        if not lines_upwards or _has_width_of(lines_upwards[0], run):
            lines_upwards.append(run)
            position = run.start()
    if lines_upwards:
        start = lines_upwards[-1].start()
        yield SecretMatch("private-key", start, end.end(), _value_of(lines_upwards[::-1]))


def _has_width_of(line: re.Match[str], run: re.Match[str]) -> bool:
    return len(run[0]) == len(line[0])


def _is_last_line(line: re.Match[str], run_above: re.Match[str]) -> bool:
    """Whether the line is the last one of a key, which is shorter than those above it."""
    return len(line[0]) < len(run_above[0]) and _is_whole_line(run_above[0])


def _value_of(lines: list[re.Match[str]]) -> str:
    """The key without what stands between its lines, be it as wide as they are: it is the same in
    every form.
    """
    return "".join(line[0] for line in lines if _is_whole_line(line[0]))


def _is_whole_line(run: str) -> bool:
    """Whether a run may be a whole line of a key: neither a word nor a path."""
    if len(run) < _PEM_WIDTH:
        return False
    start = run[:200]
    if start.count("/") >= 8 or sum(map(str.isdigit, start)) < 2:
        return False
    return sum(map(str.isupper, start)) > 3 and sum(map(str.islower, start)) > 3


# Values under a secret's name: `NAME = value` in whatever language, and what says the same in other
# words: `--token V`, `ENV API_KEY V`, `{"name": "DB_PASSWORD", "value": "V"}`, `getenv("API_KEY",
# "V")`. A value counts that looks random. All is searched in lower case, since a search that
# ignores case has no literal to jump to.

_NAMES = ("pass", "pwd", "secret", "token", "credential", "key")
_NAME = expression(r"pass|pwd|secret|token|credential|key")
BY_NAME = frozenset({"secret-assignment", "aws-secret-key", "heroku-key"})
"""Kinds of values that only the name before them tells from any other text."""
_KEY_OF = expression(
    r"(?:api|access|auth|private|client|encryption|signing|master|account|service|secret)[-_]?key\Z"
)
"""A key that is secret; others open dictionaries."""

_GOES_ON = expression(  # where one begins like another, the longer stands first
    r"(?:word|wd|wrd|phrase|code|wort|key|value|val|text|string|str|data|base|access|secret|token|auth|api|plain|hash|hex|"
    r"b64|enc|id|name|file|path|url|uri|ref|env|var|prod|dev|live|test|staging|admin|user|root|db|new|old|for|x)*+s?\Z"
)
"""What may follow a secret's name within one word; tokenizer, passport and keyboard are other
words.
"""
_PASS_OF = expression(
    r"(?:db|my|sql|pg|psql|postgres|mongo|redis|rabbit|mq|root|admin|user|usr|login|auth|ldap|bind|smtp|imap|pop|e?mail|ftp|"
    r"ssh|ssl|tls|http|proxy|vpn|wifi|wpa|super|sudo|su|key|trust|store|cert|zip|pdf|app|api|web|site|svc|service|account|"
    r"client|server|host|remote|repo|registry|docker|git|backup|data|base|basic|master|jenkins|new|old|test|the|default)*+\Z"
)
"""Whose `pass` is a password; bypass, compass, lowpass are other words."""
_WORD_BEFORE = expression(r"(?:[A-Z]?[a-z]++|[A-Z]++)\Z")
_ESCAPE_BEFORE = expression(r"\\[nrt]\Z")
_WORD_AFTER = expression(r"[a-z]++|[A-Z]++(?![a-z])")

_TAIL = (
    r"(?P<tail>[a-z0-9_.\[\]-]{0,40})(?:\\?[\"']?\s{0,8}(?::\s{0,4}[a-z]{1,20}\s{0,4}=(?!=)|=>|:=|=(?![=~])|:(?!:))\s{0,8}"
    r"|\\?[\"'](?:(?P<two>\s?,\s{0,8})|\]\s?=\s?)(?=\\?[\"'])|[ \t]{1,4}(?=\\?[\"'])(?<![\"'][ \t]))"
)
_BARE = r"a-z0-9+/_.~!@#$%^*-"
_SHORTEST_BARE = 10
_LONG_BARE = 15
"""Characters from which a value without quotes counts under any secret's name; a shorter one under
a provider's, or if it is a password by its characters.
"""
_SHORTEST_UNSAYABLE = 11
_NAME_REACH = 64
"""Characters before a secret's name that are looked at as the rest of it."""
_RUN = rf"(?:[{_BARE}]++|&(?!amp;|[a-z][a-z0-9_.\[\]-]{{0,40}}=))++"
_VALUE = (
    r"(?:\\?(?P<quote>[\"'`])(?P<quoted>[^\s\"'`\\<>]{8,4000}+)\\?(?P=quote)"
    # An address' next parameter is no part of the value. A few `=` may stand in one, as in
    # base64url; more of them would make the search of hostile text quadratic. A quote that is not
    # closed before its line or another string ends was cut, or the value has quotes in it.
    r"|(?:\\?(?P<open>[\"'`])(?=[^\s\"'`]{8,4000}+(?:[ \t]{0,9}(?:\r?\n|\Z)|(?!(?P=open))[\"'`])))?"
    rf"(?P<bare>(?=[&={_BARE}]{{{_SHORTEST_BARE}}}){_RUN}(?:={_RUN}){{0,8}}+={{0,2}}+)"
    r"(?=[\s,;}\\\"'`&)<>\]|]|$))"
)
_ASSIGNMENTS = {name: expression(name + _TAIL + _VALUE, re.ASCII) for name in _NAMES}

_CALL = expression(
    r"[(\[{]\s{0,4}\\?[\"'][a-z0-9_.-]{0,30}\Z"
)  # two strings that stand together, not two of a list
_MIXED = expression(r"[a-z]")  # constants' names are strings, too

_TEXT = r"\s{0,40}(?P<quoted>[^\s<>\"'`]{8,4000}+)\s{0,40}"


def _named_element(attribute: str) -> re.Pattern[str]:
    name = r"\\?[\"'](?P<name>[a-z0-9][a-z0-9_.:-]{2,60})\\?[\"']"
    return expression(rf"{attribute}={name}[^<>]{{0,80}}>(?:\s{{0,40}}<value>)?{_TEXT}</", re.ASCII)


_OTHER_FORMS = {
    # An option of a command, or two strings of its list of arguments.
    "--": expression(
        r"--(?P<name>[a-z0-9][a-z0-9_-]{2,60}+)(?:[ \t]{1,4}|\\?[\"']\s?,\s{0,8}(?=\\?[\"']))"
        + _VALUE,
        re.ASCII,
    ),
    # A Dockerfile's ENV, csh's setenv.
    "env ": expression(
        r"env [ \t]{0,4}(?P<name>[a-z_][a-z0-9_]{2,80})[ \t]{1,8}" + _VALUE, re.ASCII
    ),
    # A pair, as of Kubernetes, of ECS, of XML: its name stands before this.
    # An element of XML, named by an attribute or by itself; a pair of Apple's property lists.
    "name=": _named_element("name"),
    "key=": _named_element("key"),
    ">": expression(rf">{_TEXT}</(?P<name>[a-z][a-z0-9_.:-]{{2,60}})>", re.ASCII),
    "<key>": expression(
        rf"<key>(?P<name>[^<>]{{3,60}})</key>\s{{0,40}}<string>{_TEXT}</string>", re.ASCII
    ),
    "value": expression(
        r"value(?<![a-z0-9_-]value)\\?[\"']?\s{0,4}(?:=>?(?!=)|:(?!:))\s{0,8}" + _VALUE, re.ASCII
    ),
}
_PAIRED = expression(
    r"(?<![a-z0-9])(?:name|key)\\?[\"']?\s{0,4}(?:=>?|:)\s{0,4}(?:\\?[\"'])?(?P<name>[a-z][a-z0-9_.:/-]{2,80})"
    r"(?:\\?[\"'])?(?:[\s,]|\\n|(?<=\n)[+-]){1,40}(?:\\?[\"'])?\Z",
    re.ASCII,
)

_HARMLESS_TAIL = expression(
    r"\As\Z|(?:id|ids|name|names|path|paths|file|files|url|uri|type|kind|hash|sha1|sha256|digest|length|len|size|count|limit|"
    r"endpoint|header|field|prefix|pattern|regex|format|expiry|expires|ttl|arn|ref|version|label|hint|policy|"
    r"address|audience|aud|issuer|lifespan|lifetime|duration|timeout|interval|chars|charset|characters|alphabet|sha|"
    r"checksum|model|class|contract|mint|symbol|namespace|seconds|minutes|hours|days)$"
)

_BLANK = expression(r"<|\$\{|\{\{|\*\*\*|\.\.\.")
"""What a value has that another one is put in for."""
_PLACEHOLDERS = r"example|x{4,}|your[-_ ]|placeholder|changeme|change[-_]me|redacted|insert[-_]"
_PLACEHOLDER = expression(_PLACEHOLDERS)
"""What a value, in lower case, has if it is a placeholder."""
_SAMPLES = r"dummy|sample|not[-_]?a|^test|^fake|password|passwd"
_SAMPLE = expression(_SAMPLES)
"""The same of values that only a name before them tells."""
_SAMPLE_PART = expression(rf"{_PLACEHOLDERS}|{_SAMPLES}", re.IGNORECASE)
_DOCUMENTED = expression(
    r"(?:wJalrXUtnFEMI.K7MDENG.bPxRfiCY|je7MtGbClwBF/2Zp9Utk/h3yCo8nvb)\w?EXAMPLEKEY|AQoEXAMPLEH4[\w/+=]+"
)
"""Random values of AWS's documentation."""
_REST = expression(r"[A-Za-z0-9+/]{16,}")
_REFERENCE = expression(
    r"process\.env|environ|getenv|secrets\.|^\$|^%\w+%$|^\{|^@|^none$|^null$|^undefined$|^[a-z]+:"
)
_BRACKETS = expression(r"[()\[\]]")
_NAME_THEN_BRACKET = expression(r"[\w.][(\[]")
_CAMEL = expression(r"[A-Z][a-z]{2,}[A-Z][a-z]{2,}\Z")
"""A type: `private_key: Ed25519PrivateKey`."""
_CHAIN = expression(
    r"[A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z_][A-Za-z0-9_]*+){2,}\Z"
)  # `data.secret.main_1.value`
_UUID = expression(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WORDS = expression(
    r"[A-Za-z]++[0-9]{0,4}+(?:[-_./:@ ][A-Za-z]++[0-9]{0,4}+)*+(?:[-_./][0-9]{0,4})?\Z"
)
"""What is words, each with a small number behind it."""

_TOKEN = expression(r"[A-Za-z0-9+/=_.-]+\Z")
_JOINTS = expression(r"[-_/+=]")
_PART_OF_NAME = expression(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")

_PLAIN_VALUE = expression(
    r"(?:P(?:[0-9]{1,6}[YMWD]){0,4}(?:T(?:[0-9.]{1,9}[HMS]){1,3})?"  # a duration as ISO 8601 has it
    r"|(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ns|us|ms|[smhdwy])){1,6}"  # and as Go does
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]{5,18}(?:Z|[+-][0-9:]{4,5})?)?"
    r"|pk_(?:test|live)_[0-9A-Za-z]{1,200}"  # a key that is published
    r"|0x[0-9A-Fa-f]{40}"  # the address of an account; its key has 64 digits
    r"|[\^~<>=]{0,2}v?[0-9]{1,4}(?:\.[0-9]{1,6}){2,3}(?:[-+.][0-9A-Za-z.+-]{1,30})?"  # a version
    r")\Z"
)
_SEPARATORS = expression(r"[-_./:@~#]++")
_PIECE = expression(
    r"(?:v?[0-9]{1,4}|[0-9]{1,3}(?:[bBkKmMsh]|ms|x[0-9]{1,3}[bB]?)|[A-Za-z]|[A-Z]{2,20}+[0-9]{0,4}"
    r"|[a-z][0-9]{1,2}[a-z]|[a-z]{2,20}[0-9][a-z]{3,20}|[A-Z]?[a-z]++[0-9]{0,4}(?:[A-Z][a-z]{2,}+[0-9]{0,3})*+)\Z"
)
"""A part of the names of models, hosts, files, code: a number, `v2`, `8x7B`, `k8s`, a word, words
in camel case.
"""
_SPOKEN = expression(r"[aeiouy]")
_NAME_LENGTH = 120
_IN_ORDER = 0.8
"""The share of neighbours from which characters are an alphabet; of sixteen random ones a share of
0.2 is rare.
"""

_SWITCH = expression(r"[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])")
_MIXED_SWITCHES = 5
"""Changes from a letter to a digit and back from which a value is no word, name or chain of
names.
"""
_QUOTED_BITS = 3.0
"""Shannon bits a character from which a quoted assigned value counts as random; English words in
one case lie below.
"""
_BARE_BITS = 3.5
"""The same without quotes, where identifiers are the usual case."""
_MIXED_BITS = 3.1
"""The same for values without quotes that are no identifiers: digits in hex have few."""


def has_name(text: str) -> bool:
    """Whether a secret's name stands in `text`."""
    return _NAME.search(text.lower()) is not None


def _by_name(text: str) -> Iterator[SecretMatch]:
    """Values that look random under a secret's name."""
    # U+0130 is the one character whose lower case is longer; offsets must stay the same.
    lowered = text.replace("\u0130", "i").lower()
    for name in _ASSIGNMENTS:
        if name in lowered:
            yield from _assigned_values(text, lowered, name)
    for lead in _OTHER_FORMS:
        if lead in lowered:
            yield from _values_of_other_form(text, lowered, lead)


def _assigned_values(text: str, lowered: str, name: str) -> Iterator[SecretMatch]:
    """`NAME = value`, or the strings "NAME" and "value" in one call."""
    assignment = _ASSIGNMENTS[name]
    match = assignment.search(lowered)
    while match:
        name_end = match.start() + len(name)
        start, end = match.span("quoted" if match["quoted"] else "bare")
        value = text[start:end]
        before = text[max(0, match.start() - _NAME_REACH) : name_end].rpartition("\n")[2]
        tail = text[match.start("tail") : match.end("tail")]
        kind = _kind(before, tail, value, is_quoted=bool(match["quoted"]))
        if match["two"] and not _is_in_call(before, value):
            kind = None
        if kind:
            yield SecretMatch(kind, start, end, harmless=_harmless_by_name(before, value))
        match = assignment.search(lowered, match.end() if kind else name_end)


def _is_in_call(before: str, value: str) -> bool:
    """Whether two strings are a name and its value in a call, not two of a list, or constants."""
    return bool(_CALL.search(before.lower()) and _MIXED.search(value))


def _values_of_other_form(text: str, lowered: str, lead: str) -> Iterator[SecretMatch]:
    """Values that stand with a secret's name in other words than an assignment."""
    for match in _OTHER_FORMS[lead].finditer(lowered):
        is_quoted = bool(match["quoted"])
        name_start, name_end = _span_of_name(lowered, match)
        name = text[name_start:name_end]
        start, end = match.span("quoted" if is_quoted else "bare")
        value = text[start:end]
        kind = _kind_of_name(name, value, is_quoted=is_quoted)
        if kind:
            yield SecretMatch(kind, start, end, harmless=_harmless_by_name(name, value))


def _span_of_name(lowered: str, match: re.Match[str]) -> tuple[int, int]:
    if "name" in match.re.groupindex:
        return match.span("name")
    paired = _PAIRED.search(lowered, max(0, match.start() - 200), match.start())
    if paired:
        return paired.span("name")
    return (0, 0)


def _kind_of_name(name: str, value: str, *, is_quoted: bool) -> str | None:
    for part in _NAME.finditer(name.lower()):
        before, tail = name[: part.end()], name[part.end() :]
        kind = _kind(before, tail, value, is_quoted=is_quoted)
        if kind:
            return kind
    return None


def _kind(before: str, tail: str, value: str, *, is_quoted: bool) -> str | None:
    """The kind of an assigned value; None if it is not a secret. Its name is `before` and
    `tail`.
    """
    if not _is_word(before, tail):
        return None
    if names_published_value(before, tail, value) or is_published_value(value):
        return None
    value = without_prefix(value)
    if _HARMLESS_TAIL.search(tail.lower()) or _is_assigned_sample(value):
        return None
    lowered_name = before.lower()
    if "heroku" in lowered_name and _UUID.fullmatch(value.lower()):
        return "heroku-key"
    is_random = _is_random(value, is_quoted=is_quoted)
    if not is_quoted:
        is_random = is_random or _is_short_password(value)
    if not is_random and (tail or not _is_unsayable(value)):
        return None
    is_named_secret = is_random and _names_secret(before, value)
    if not is_named_secret and not _is_providers(before):
        return None
    if "aws" in lowered_name and len(value) == 40:
        return "aws-secret-key"
    return "secret-assignment"


def _is_assigned_sample(value: str) -> bool:
    """Whether an assigned value refers to another one, or is a sample."""
    lowered = value.lower()
    if _is_placeholder(value) or _REFERENCE.search(lowered) or _is_spelled_password(lowered):
        return True
    return bool(_SAMPLE.search(lowered)) and not _hides_secret(value)


def _names_secret(name: str, value: str) -> bool:
    """Whether a name says that a random value is secret: of a key it must say which, or the value
    must.
    """
    lowered_name = name.lower()
    if not lowered_name.endswith("key") or _KEY_OF.search(lowered_name):
        return True
    return _is_unnamed_key(name, value)


def _is_random(value: str, *, is_quoted: bool) -> bool:
    """Whether an assigned value is as random as a secret, and no word, name, type, call or chain of
    names.
    """
    if not is_quoted and len(value) < _LONG_BARE:
        return False
    is_mixed = len(_SWITCH.findall(value)) >= _MIXED_SWITCHES
    if not is_mixed and (_CAMEL.search(value) or (not is_quoted and _CHAIN.match(value))):
        return False
    is_call_or_index = value.endswith((")", "]")) and _NAME_THEN_BRACKET.search(value)
    if _BRACKETS.search(value) and (not is_mixed or is_call_or_index):
        return False
    letters = _JOINTS.sub("", value)
    is_letters = letters.isalpha() and (value.isalpha() or _is_mixed_case(letters))
    if is_letters and not _is_no_word(letters):
        return False
    if not is_letters and not _is_no_name(value):
        return False
    least_bits = _BARE_BITS
    if is_mixed or is_letters:
        least_bits = _MIXED_BITS
    if is_quoted:
        least_bits = _QUOTED_BITS
    return _bits(value) >= least_bits


def _is_short_password(value: str) -> bool:
    """Whether a value without quotes has both cases and digits as no name does, although it is
    short.
    """
    if not _SHORTEST_BARE <= len(value) < _LONG_BARE:
        return False
    if not _has_all(value) or not _TOKEN_OR_MARKS.match(value):
        return False
    if _PLAIN_VALUE.match(value) or _is_path(value) or _URL_ESCAPE.search(value):
        return False
    return _has_short_parts(value) and _letters_in_words(value) <= _LETTERS_IN_WORDS


def _has_short_parts(value: str) -> bool:
    """Whether the words and numbers of a value have three characters in the mean, or fewer: in a
    random one it is two, in a name in camel case four.
    """
    return 3 * len(_PART_OF_NAME.findall(value)) >= len(value)


def _is_named_in_words(value: str) -> bool:
    """Whether most letters of a value without marks stand in words: `sha256Sum2Hex`."""
    return value.isalnum() and 2 * _letters_in_words(value) > sum(map(str.isalpha, value))


def _letters_in_words(value: str) -> int:
    """How many letters stand in parts that can be said, of three letters or more."""
    count = 0
    for part in _PART_OF_NAME.findall(value):
        if len(part) > 2 and part[1:].islower() and _SPOKEN.search(part.lower()):
            count += len(part)
    return count


_TOKEN_OR_MARKS = expression(r"[A-Za-z0-9+/=_~!@#$%^&*-]+\Z")
_URL_ESCAPE = expression(r"%[0-9A-Fa-f]{2}")
_LETTERS_IN_WORDS = 4
"""Letters in words above which a short value with digits is a name; six of seven random ones have
no more.
"""


def _harmless_by_name(name: str, value: str) -> Literal["", "test key"]:
    """Why a value under a secret's name needs no revoking: its provider's keys for tests begin like
    that.
    """
    if _TEST_KEY.match(value):
        return "test key"
    words = {word.lower() for word in _NAME_WORD.findall(name)}
    for provider, form in _TEST_FORMS.items():
        if provider in words and form.match(value):
            return "test key"
    return ""


_TEST_KEY = expression(r"(?:sk|rk|pk|rzp|duffel|shippo)_test_[A-Za-z0-9]{12,}\Z")
"""Keys for tests that their prefix tells: of Stripe and its kin, Razorpay, Duffel, Shippo."""
_TEST_FORMS = {
    "lob": expression(r"test_[0-9a-f]{35}\Z"),
    "mollie": expression(r"test_[A-Za-z0-9]{30}\Z"),
}
"""Whole keys for tests that only the provider's name tells."""


def _is_unsayable(value: str) -> bool:
    """Whether a value cannot be a name, short or without digits as it may be: it has no words to
    speak of.
    """
    if len(value) < _SHORTEST_UNSAYABLE or "." in value or not _TOKEN.match(value):
        return False
    if _PLAIN_VALUE.match(value) or _is_path(value):
        return False
    return _has_short_parts(value) or bool(_HARD_TO_SAY.search(value.lower()))


def _is_path(value: str) -> bool:
    """Whether the slashes in a value are those of a path; base64 has some, too."""
    if value.count("/") < 3:
        return False
    if value[0] in "/.~":
        return True
    return len(_SWITCH.findall(value)) < 2 * _MIXED_SWITCHES and not _changes_case(value)


_LETTERS = 20
_HARD_TO_SAY = expression(r"[bcdfghjklmnpqrstvwxz]{5}")
_CASE_CHANGES = expression(r"[a-z](?=[A-Z])|[A-Z](?=[a-z])")


def _is_mixed_case(value: str) -> bool:
    return not (value.islower() or value.isupper())


def _has_all(value: str) -> bool:
    return all(any(map(kind, value)) for kind in (str.isdigit, str.islower, str.isupper))


def _is_no_name(value: str) -> bool:
    """Whether a value has digits and is no name, sentence, version or path with some."""
    if not any(map(str.isdigit, value)) or _WORDS.match(value):
        return False
    return not (_is_ordinary(value) or _is_path(value))


def _is_no_word(value: str) -> bool:
    """Whether letters alone are random: many capitals among them, or what nobody could say."""
    if len(value) < _LETTERS:
        return False
    if not _is_mixed_case(value):
        return bool(_HARD_TO_SAY.search(value.lower())) and _bits(value) >= _BARE_BITS
    return _changes_case(value)


def _changes_case(value: str) -> bool:
    """Whether upper and lower case change as often as in random letters; in CamelCase a third of
    the letters do.
    """
    return 5 * len(_CASE_CHANGES.findall(value)) >= 2 * len(value)


_PUBLIC_KEY = expression(
    r"pub(?:lic|lishable)?|site|verif(?:y|ic)|cache|primary|foreign|sort|partition|object|s3|file|host|idempot"
)
_WORD_BEFORE_KEY = expression(r"[A-Za-z0-9][-_.]?[Kk](?:ey|EY)\Z")
_PUBLIC = ("AAAA", "MII")
"""How base64 of a public key begins, in SSH's form and in DER."""
_DIGITS_OF_HEX = expression(r"[0-9A-Fa-f-]+\Z")


def _is_unnamed_key(name: str, value: str) -> bool:
    """Whether a key is secret whose name does not say so: its value is no digest, id, word or
    public key.
    """
    is_random = len(_SWITCH.findall(value)) > _MIXED_SWITCHES or (
        _has_all(value) and _is_unsayable(value)
    )
    if not is_random or len(value) < _LETTERS or _DIGITS_OF_HEX.match(value):
        return False
    if value.startswith(_PUBLIC) or _PUBLIC_KEY.search(name.lower()):
        return False
    has_owner = _WORD_BEFORE_KEY.search(name) is not None  # `key` alone is what all tables have
    return value.isalnum() or (has_owner and _has_all(value) and _TOKEN.match(value) is not None)


@functools.cache
def _providers() -> frozenset[str]:
    """The names of `providers.txt`, in lower case without what stands between their words."""
    file = Path(__file__).parent / "providers.txt"
    names: set[str] = set()
    for line in file.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            names.update(line.split())
    return frozenset(names)


def _is_providers(name: str) -> bool:
    """Whether the name of a key has that of a provider: mapquest_key, NEW_RELIC_LICENSE_KEY."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    providers = _providers()
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            if "".join(words[start:end]) in providers:
                return True
    return False


_NAME_WORD = expression(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")


def _is_word(before: str, tail: str) -> bool:
    """Whether the secret's name at the end of `before` is a word there, or part of one that means
    the same.
    """
    word_end = _end_of_word(before, tail)
    if not _GOES_ON.match(word_end):
        return False
    if not before.lower().endswith("pass") or word_end.startswith(("w", "phrase", "code")):
        return True
    name, before = before[-4:], before[:-4]
    if name[0].isupper() and name[-1].islower():
        return True
    word = _WORD_BEFORE.search(before)
    if word is None or _ESCAPE_BEFORE.search(before):
        return True
    if name.isupper() and word[0][-1].islower():
        return True
    return bool(_PASS_OF.match(word[0].lower()))


def _end_of_word(before: str, tail: str) -> str:
    """What of `tail` belongs to the word at the end of `before`, in lower case."""
    letters = _WORD_AFTER.match(tail)
    if letters is None:
        return ""
    begins_word = before[-1].islower() and tail[0].isupper()
    return "" if begins_word else letters[0].lower()


def _is_ordinary(value: str) -> bool:
    """Whether a value with digits is a duration, an address, a version, an alphabet, or made of
    names.
    """
    if _PLAIN_VALUE.match(value) or _WORDS.match(value.lstrip("_")):
        return True
    steps = sum(1 <= ord(after) - ord(char) <= 2 for char, after in itertools.pairwise(value))
    if steps >= _IN_ORDER * (len(value) - 1):
        return True
    if len(value) > _NAME_LENGTH:
        return False
    pieces = [piece for piece in _SEPARATORS.split(value) if piece]
    if len(pieces) < 2 or not all(map(_PIECE.match, pieces)):
        return False
    if not any(map(_is_spoken_word, pieces)):
        return False
    digits = sum(map(str.isdigit, value))
    letters = sum(map(str.isalpha, value))
    return 2 * digits <= letters


def _is_spoken_word(piece: str) -> bool:
    return len(piece) >= 4 and piece[1:].islower() and _SPOKEN.search(piece) is not None


def _bits(value: str) -> float:
    """Shannon entropy in bits a character."""
    bits = 0.0
    for count in Counter(value).values():
        share = count / len(value)
        bits -= share * math.log2(share)
    return bits
