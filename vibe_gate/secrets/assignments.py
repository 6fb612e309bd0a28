r"""Values under a secret's name: `NAME = value` in whatever language, and what says the same in other words.

`--token V`, `ENV API_KEY V`, `{"name": "DB_PASSWORD", "value": "V"}`, `getenv("API_KEY", "V")`. A value
counts that looks random: every program has lines such as `token = next_token()`. All is searched in
lower case, since a search that ignores case has no literal to jump to.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from vibe_gate.domain.escape import expression

_NAMES = ("pass", "pwd", "secret", "token", "credential", "key")
_NAME = expression(r"pass|pwd|secret|token|credential|key")
_KEY_OF = expression(r"(?:api|access|auth|private|client|encryption|signing|master|account|service|secret)[-_]?key\Z")
"""A key that is secret; others open dictionaries."""

_GOES_ON = expression(  # where one begins like another, the longer stands first
    r"(?:word|wd|wrd|phrase|code|wort|key|value|val|text|string|str|data|base|access|secret|token|auth|api|plain|hash|hex|"
    r"b64|enc|id|name|file|path|url|uri|ref|env|var|prod|dev|live|test|staging|admin|user|root|db|new|old|for|x)*+s?\Z"
)
"""What may stand behind a secret's name in one word with it: tokenizer, passport, keyboard are other words."""
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
_VALUE = (
    r"(?:\\?(?P<quote>[\"'`])(?P<quoted>[^\s\"'`\\<>]{8,4000}+)\\?(?P=quote)"
    # An address' next parameter is no part of the value.
    rf"|(?P<bare>(?=[&{_BARE}]{{16}})(?:[{_BARE}]++|&(?!amp;|[a-z][a-z0-9_.\[\]-]{{0,40}}=))++={{0,2}}+)"
    r"(?=[\s,;}\\\"'`&)<>\]|]|$))"
)
_ASSIGNMENTS = {name: expression(name + _TAIL + _VALUE, re.ASCII) for name in _NAMES}

_CALL = expression(r"[(\[{]\s{0,4}\\?[\"'][a-z0-9_.-]{0,30}\Z")  # two strings that stand together, not two of a list
_MIXED = expression(r"[a-z]")  # constants' names are strings, too

_OTHER_FORMS = {
    # An option of a command, or two strings of its list of arguments.
    "--": expression(
        r"--(?P<name>[a-z][a-z0-9_-]{2,60}+)(?:[ \t]{1,4}|\\?[\"']\s?,\s{0,8}(?=\\?[\"']))" + _VALUE, re.ASCII
    ),
    # A Dockerfile's ENV, csh's setenv.
    "env ": expression(r"env [ \t]{0,4}(?P<name>[a-z_][a-z0-9_]{2,80})[ \t]{1,8}" + _VALUE, re.ASCII),
    # A pair, as of Kubernetes, of ECS, of XML: its name stands before this.
    "value": expression(r"value(?<![a-z0-9_-]value)\\?[\"']?\s{0,4}(?:=>?(?!=)|:(?!:))\s{0,8}" + _VALUE, re.ASCII),
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

PLACEHOLDER = expression(
    r"example|xxxx|your[-_ ]|<|\$\{|\{\{|\*\*\*|\.\.\.|placeholder|changeme|change[-_]me|redacted|insert[-_]"
)
"""What a value in lower case has that stands for one."""
_REFERENCE = expression(
    r"process\.env|environ|getenv|secrets\.|^\$|^%\w+%$|^\{|^@|[()\[\]]|dummy|sample|not[-_]?a|^test|^fake|password|passwd|"
    r"^none$|^null$|^undefined$|/.*/.*/|^[a-z]+:"
)
CAMEL = expression(r"[A-Z][a-z]{2,}[A-Z][a-z]{2,}\Z")
"""A type: `private_key: Ed25519PrivateKey`."""
_CHAIN = expression(r"[A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z_][A-Za-z0-9_]*+){2,}\Z")  # `data.secret.main_1.value`
_UUID = expression(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
WORDS = expression(r"[A-Za-z]++[0-9]{0,4}+(?:[-_./:@ ][A-Za-z]++[0-9]{0,4}+)*+(?:[-_./][0-9]{0,4})?\Z")
"""What is words, each with a small number behind it."""

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
"""A part of the names of models, hosts, files, code: a number, `v2`, `8x7B`, `k8s`, a word, words in camel case."""
_SPOKEN = expression(r"[aeiouy]")
_NAME_LENGTH = 120
_IN_ORDER = 0.8
"""The share of neighbours from which characters are an alphabet; of sixteen random ones a share of 0.2 is rare."""

QUOTED_BITS = 3.0
"""Shannon bits a character from which a quoted assigned value counts as random; English words in one case lie below."""
BARE_BITS = 3.5
"""The same without quotes, where identifiers are the usual case."""


@dataclass(frozen=True, slots=True)
class AssignedValue:
    """A value under a secret's name: what it is, and its span."""

    kind: str
    start: int
    end: int


def assigned(text: str) -> Iterator[AssignedValue]:
    """Values that look random under a secret's name."""
    # U+0130 is the one character whose lower case is longer; offsets must stay the same.
    lowered = text.replace("\u0130", "i").lower()
    for name, assignment in _ASSIGNMENTS.items():
        match = assignment.search(lowered) if name in lowered else None
        while match:
            start, end = match.span("quoted" if match["quoted"] else "bare")
            before = text[max(0, match.start() - 30) : match.start() + len(name)].rsplit("\n", 1)[-1]
            tail = text[slice(*match.span("tail"))]
            kind = _kind(before, tail, text[start:end], is_quoted=bool(match["quoted"]))
            if kind and match["two"] and not (_CALL.search(before.lower()) and _MIXED.search(text, start, end)):
                kind = None
            if kind:
                yield AssignedValue(kind, start, end)
            match = assignment.search(lowered, match.end() if kind else match.start() + len(name))
    for lead, form in _OTHER_FORMS.items():
        for match in form.finditer(lowered) if lead in lowered else ():
            group = "quoted" if match["quoted"] else "bare"
            name = text[slice(*_span_of_name(lowered, match))]
            kind = _kind_of_name(name, text[slice(*match.span(group))], is_quoted=group == "quoted")
            if kind:
                yield AssignedValue(kind, *match.span(group))


def _span_of_name(lowered: str, match: re.Match[str]) -> tuple[int, int]:
    if "name" in match.re.groupindex:
        return match.span("name")
    paired = _PAIRED.search(lowered, max(0, match.start() - 200), match.start())
    return paired.span("name") if paired else (0, 0)


def _kind_of_name(name: str, value: str, *, is_quoted: bool) -> str | None:
    parts = _NAME.finditer(name.lower())
    kinds = (_kind(name[: part.end()], name[part.end() :], value, is_quoted=is_quoted) for part in parts)
    return next(filter(None, kinds), None)


def _kind(before: str, tail: str, value: str, *, is_quoted: bool) -> str | None:
    """What the assigned value is, or None where it is no secret. The name is `before` and `tail`."""
    if not _is_word(before, tail):
        return None
    before, tail = before.lower(), tail.lower()
    if before.endswith("key") and not _KEY_OF.search(before):
        return None
    lowered = value.lower()
    if _HARMLESS_TAIL.search(tail) or PLACEHOLDER.search(lowered) or _REFERENCE.search(lowered):
        return None
    if not is_quoted and _CHAIN.match(value):
        return None
    if not any(char.isdigit() for char in value) or WORDS.match(value) or CAMEL.search(value) or _is_ordinary(value):
        return None
    if "heroku" in before and _UUID.fullmatch(lowered):
        return "heroku-key"
    if bits(value) < (QUOTED_BITS if is_quoted else BARE_BITS):
        return None
    return "aws-secret-key" if "aws" in before and len(value) == 40 else "secret-assignment"


def _is_word(before: str, tail: str) -> bool:
    """Whether the secret's name at the end of `before` is a word there, or part of one that means the same."""
    after = _WORD_AFTER.match(tail)
    rest = after[0] if after and not (before[-1].islower() and tail[0].isupper()) else ""
    if not _GOES_ON.match(rest.lower()):
        return False
    if not before.lower().endswith("pass") or rest.lower().startswith(("w", "phrase", "code")):
        return True
    name, before = before[-4:], before[:-4]
    if name[0].isupper() and name[-1].islower():
        return True
    word = None if _ESCAPE_BEFORE.search(before) else _WORD_BEFORE.search(before)
    return not word or (name.isupper() and word[0][-1].islower()) or bool(_PASS_OF.match(word[0].lower()))


def _is_ordinary(value: str) -> bool:
    """Whether a value with digits is a duration, an address, a version, an alphabet, or made of names."""
    if _PLAIN_VALUE.match(value) or WORDS.match(value.lstrip("_")):
        return True
    steps = sum(1 <= ord(after) - ord(char) <= 2 for char, after in itertools.pairwise(value))
    if steps >= _IN_ORDER * (len(value) - 1):
        return True
    pieces = [piece for piece in _SEPARATORS.split(value[: _NAME_LENGTH + 1]) if piece]
    if len(value) > _NAME_LENGTH or len(pieces) < 2 or not all(map(_PIECE.match, pieces)):
        return False
    digits = sum(map(str.isdigit, value))
    has_word = any(len(piece) >= 4 and piece[1:].islower() and _SPOKEN.search(piece) for piece in pieces)
    return has_word and 2 * digits <= sum(map(str.isalpha, value))


def bits(value: str) -> float:
    """Shannon entropy in bits a character."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
