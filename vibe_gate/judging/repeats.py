"""Leave out of a judge's words what they repeat word for word of private texts that it was
shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from unicodedata import normalize

from msgspec import Struct

WORDS = 4
"""So many words in a row are a repetition; fewer stand in any sentence about the same thing."""

SHORT = 6
"""Letters of a private text of fewer words that is a repetition as a whole; "do it" stands in any
sentence, too.
"""

LEFT_OUT = "(request left out)"
"""Stands in the middle of a sentence. No brackets: a comment would show the words in them as
code.
"""

_WORD = re.compile("[^\\W\u0e00-\U0010ffff]+|(?=\\w)[\u0e00-\U0010ffff]")
"""A word; of scripts that put no spaces between words, a character."""

_NO_LETTER = re.compile(r"[\W_]+")


class _Letters(Struct, frozen=True):
    """The letters and digits of a text.

    A word may begin after anything that is neither, at a capital letter, and at each character of a
    script that puts no spaces between words. So `our_customer`, `ourCustomer` and "o u r customer"
    are all "our customer".
    """

    plain: str
    """As `_plain` has them."""

    positions: list[int]
    """By index in `plain`, where the letter stands in the text."""

    starts: set[int]
    """The indexes in `plain` before which a word may begin."""

    def find(self, words: str) -> Iterator[tuple[int, int]]:
        """From where to where in `plain` the words stand, as whole words."""
        start = self.plain.find(words)
        while start >= 0:
            end = start + len(words)
            if start in self.starts and end in self.starts:
                yield start, end
            start = self.plain.find(words, start + 1)


def leave_out_repeats(
    text: str, private_texts: Iterable[str], allowed_texts: Callable[[], Iterable[str]]
) -> str:
    """The text without what it repeats of private texts: `WORDS` words in a row, or a short text as
    a whole.

    What stands in an allowed text, too, stays. Letters are compared in compatibility form: without
    case, accents, and characters that are drawn as nothing.
    """
    letters = _letters(text)
    repeats = {words for words in _all_stretches(private_texts) if words in letters.plain}
    if not repeats:
        return text
    for allowed_text in allowed_texts():
        plain_allowed = _plain(allowed_text)
        repeats = {words for words in repeats if words not in plain_allowed}
    spans: list[tuple[int, int]] = []
    for words in repeats:
        spans += letters.find(words)
    positions = letters.positions
    for start, end in reversed(_join_spans(sorted(spans))):
        text = text[: positions[start]] + LEFT_OUT + text[positions[end - 1] + 1 :]
    return text


def _plain(text: str) -> str:
    return _NO_LETTER.sub("", normalize("NFKD", text).casefold())


def _letters(text: str) -> _Letters:
    plain_letters: list[str] = []
    positions: list[int] = []
    starts: set[int] = set()
    last_position = -2  # before the text, and not next to it
    for position, char in enumerate(text):
        for letter in _plain(char):
            if position > last_position and _may_begin_word(text, last_position, position):
                starts.add(len(plain_letters))
            last_position = position
            plain_letters.append(letter)
            positions.append(position)
    starts.add(len(plain_letters))
    return _Letters("".join(plain_letters), positions, starts)


def _may_begin_word(text: str, last_position: int, position: int) -> bool:
    """Whether a word may begin at the position; `last_position`: of the letter before it."""
    if position > last_position + 1:
        return True
    char = text[position]
    return char.isupper() or max(text[last_position], char) >= "\u0e00"


def _all_stretches(private_texts: Iterable[str]) -> set[str]:
    """What must not be repeated, as `_plain` has it."""
    stretches: set[str] = set()
    for private_text in private_texts:
        stretches.update(_stretches(private_text))
    return stretches


def _stretches(private_text: str) -> list[str]:
    plain_words = map(_plain, _WORD.findall(normalize("NFKC", private_text)))
    words = [word for word in plain_words if word]
    if len(words) >= WORDS:
        starts = range(len(words) - WORDS + 1)
        return ["".join(words[start : start + WORDS]) for start in starts]
    all_words = "".join(words)
    return [all_words] if len(all_words) >= SHORT else []


def _join_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans, given in order, as one each if they meet."""
    joined_spans: list[tuple[int, int]] = []
    for start, end in spans:
        if joined_spans and start <= joined_spans[-1][1]:
            first, last = joined_spans[-1]
            joined_spans[-1] = (first, max(last, end))
        else:
            joined_spans.append((start, end))
    return joined_spans
