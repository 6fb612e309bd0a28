"""Samples of secrets, and of what only looks like some, made at run time: no scanner finds a secret
in a file of ours.

Everything is made from seeds, by arithmetic of our own: the same on every machine and Python.
"""

from __future__ import annotations

import base64
import hashlib
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from vibe_gate.secrets.rules import RULES

HERE = Path(__file__).parent
NEWLINE, ESCAPE = "⏎", "␛"

_WORD = string.ascii_letters + string.digits
_ALPHABETS = {
    "word": _WORD, "url": _WORD + "-_", "hex": "0123456789abcdef", "base32": string.ascii_uppercase + "234567",
    "digit": string.digits, "letter": string.ascii_letters, "base64": _WORD + "+/",
}  # fmt: skip
_NOUNS = """user order invoice session token password secret key account request cache cursor credential handler
    registry bucket passport tokenizer keyboard monkey"""
_VERBS = "load store parse rotate refresh validate hash encode reset fetch compare"
_PROSE = """The gate reads every token of the password policy before a secret is rotated and keys are kept in vaults
    which nobody opens without reason authentication requires credentials basic bearer header passes compass"""


class Lot:
    """Random choices that are the same everywhere: sha-256 of a seed and a counter."""

    def __init__(self, seed: str) -> None:
        self._seeded = hashlib.sha256(f"{seed}/".encode())
        self._count = 0

    def below(self, bound: int) -> int:
        self._count += 1
        hasher = self._seeded.copy()
        hasher.update(b"%d" % self._count)
        return int.from_bytes(hasher.digest()[:8], "big") % bound

    def run(self, alphabet: str, length: int) -> str:
        return "".join(alphabet[self.below(len(alphabet))] for _ in range(length))

    def one_of(self, words: str) -> str:
        return words.split()[self.below(len(words.split()))]


def filled(template: str, seed: str = "") -> str:
    """`ghp_{word:36}` with 36 letters and digits that depend on the seed; `{plain:text}` is the
    text.
    """
    lot = Lot(seed + template)

    def part(match: re.Match[str]) -> str:
        make = _PARTS.get(match[1])
        return make(lot, match[2]) if make else match[0]

    return re.sub(r"\{(\w+)(?::([\w+/=]+))?\}", part, template)


def _run(alphabet: str) -> Callable[[Lot, str], str]:
    return lambda lot, length: lot.run(alphabet, int(length))


def _prose(lot: Lot, text: str = "") -> str:
    return " ".join(lot.one_of(_PROSE) for _ in range(12)).capitalize() + "."


_PARTS: dict[str, Callable[[Lot, str], str]] = {
    **{name: _run(alphabet) for name, alphabet in _ALPHABETS.items()},
    "plain": lambda lot, text: text,
    "reversed": lambda lot, text: text[::-1],
    "n": lambda lot, bound: str(lot.below(int(bound))),
    "b64": lambda lot, size: base64.b64encode(
        bytes(lot.below(256) for _ in range(int(size)))
    ).decode(),
    "uuid": lambda lot, _: "-".join(
        lot.run(_ALPHABETS["hex"], length) for length in (8, 4, 4, 4, 12)
    ),
    "noun": lambda lot, _: lot.one_of(_NOUNS),
    "NOUN": lambda lot, _: lot.one_of(_NOUNS).upper(),
    "name": lambda lot, _: f"{lot.one_of(_VERBS)}_{lot.one_of(_NOUNS)}",
    "camel": lambda lot, _: (
        lot.one_of(_VERBS) + lot.one_of(_NOUNS).title() + lot.one_of("2 ById V1")
    ),
    "prose": _prose,
    "prose64": lambda lot, _: base64.b64encode(_prose(lot).encode()).decode(),
    "prosehex": lambda lot, _: _prose(lot).encode().hex(),
    "proseurl": lambda lot, _: quote(_prose(lot)),
}


@dataclass(frozen=True)
class Sample:
    """A secret of a kind, between what stands around it."""

    kind: str
    before: str
    secret: str
    after: str

    @property
    def text(self) -> str:
        return self.before + self.secret + self.after


def planted(seed: str = "") -> list[Sample]:
    """The samples of `planted.txt`."""
    rows = [line.split("\t", 1) for line in lines("planted.txt")]
    return [Sample(kind, *re.split("[«»]", filled(template, seed))) for kind, template in rows]


def every_kind(seed: str) -> list[Sample]:
    """One secret of each rule that knows it by its form, and one of each other kind."""
    rules = [rule for rule in RULES if rule.positive.startswith("say ")]
    other_fields = {entry.kind: entry for entry in reversed(planted(seed))}
    forms = [
        Sample(rule.kind, "say ", filled(rule.positive, seed).removeprefix("say "), "\n")
        for rule in rules
    ]
    return [*forms, *other_fields.values()]


def lookalikes() -> list[str]:
    """A hundred lines of each template in `lookalikes.txt`."""
    return [filled(line, f"{number}") for line in lines("lookalikes.txt") for number in range(100)]


def lines(name: str) -> list[str]:
    """The texts of a data file of this folder."""
    sample_lines = (HERE / name).read_text("utf-8").splitlines()
    return [
        line.replace(NEWLINE, "\n").replace(ESCAPE, "\x1b")
        for line in sample_lines
        if line and not line.startswith("# ")
    ]
