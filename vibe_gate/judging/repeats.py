"""Leave out of a judge's words what they repeat word for word of private texts that it was
shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
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
    """Of a text its letters and digits as `_plain` has them, where each stands, and before which a
    word may begin.

    A word may begin after anything that is neither, at a capital letter, and at each character of a
    script that puts no spaces between words. So `our_customer`, `ourCustomer` and "o u r customer"
    are all "our customer".
    """

    plain: str
    places: list[int]
    starts: set[int]

    def find(self, words: str) -> Iterator[tuple[int, int]]:
        """From where to where the words stand, as whole words."""
        start = self.plain.find(words)
        while start >= 0:
            if {start, start + len(words)} <= self.starts:
                yield start, start + len(words)
            start = self.plain.find(words, start + 1)


def without_repeats(text: str, private: Iterable[str], allowed: Callable[[], Iterable[str]]) -> str:
    """The text without stretches of `WORDS` words or more, or a short text whole, of `private` and
    no `allowed` text.

    Letters are compared in compatibility form: without case, accents, and characters that are drawn
    as nothing.
    """
    letters = _letters(text)
    found = {
        words
        for words in set(chain.from_iterable(map(_stretches, private)))
        if words in letters.plain
    }
    for one in map(_plain, allowed() if found else ()):
        found -= {words for words in found if words in one}
    places = letters.places
    for start, end in reversed(
        list(_joined(sorted(chain.from_iterable(map(letters.find, found)))))
    ):
        text = text[: places[start]] + LEFT_OUT + text[places[end - 1] + 1 :]
    return text


def _plain(text: str) -> str:
    return _NO_LETTER.sub("", normalize("NFKD", text).casefold())


def _letters(text: str) -> _Letters:
    places = [(letter, place) for place, char in enumerate(text) for letter in _plain(char)]
    starts, before = {len(places)}, -2
    for index, (_, place) in enumerate(places):
        if place > before and (place > before + 1 or _begins(text[before], text[place])):
            starts.add(index)
        before = place
    return _Letters("".join(letter for letter, _ in places), [place for _, place in places], starts)


def _begins(before: str, char: str) -> bool:
    return char.isupper() or max(before, char) >= "\u0e00"


def _stretches(private: str) -> Iterator[str]:
    """What must not be repeated."""
    words = [word for found in _WORD.findall(normalize("NFKC", private)) if (word := _plain(found))]
    if len(words) >= WORDS:
        yield from map("".join, zip(*(words[start:] for start in range(WORDS)), strict=False))
    elif len(whole := "".join(words)) >= SHORT:
        yield whole


def _joined(stretches: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Stretches, in order, as one each where they meet."""
    first, last = -1, -1
    for start, end in stretches:
        if start > last:
            if last >= 0:
                yield first, last
            first = start
        last = max(last, end)
    if last >= 0:
        yield first, last
