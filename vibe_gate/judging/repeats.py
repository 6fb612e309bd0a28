"""Leave out of a judge's words what they repeat word for word of a private text that it was shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

WORDS = 4
"""So many words in a row are a repetition; fewer stand in any sentence about the same thing."""

LEFT_OUT = "(... words of the request are left out ...)"

_WORD = re.compile("[^\\W\u0e00-\U0010ffff]+|(?=\\w)[\u0e00-\U0010ffff]")
"""A word; of scripts that put no spaces between words, a character."""

_Gram = tuple[str, ...]


def without_repeats(text: str, private: str, allowed: Callable[[], Iterable[str]]) -> str:
    """The text without stretches of `WORDS` words or more that stand in `private` and in no `allowed` text."""
    words = list(_WORD.finditer(text))
    wanted = set(_grams(text)) & set(_grams(private))
    if wanted:
        wanted -= {gram for one in allowed() for gram in _grams(one)}
    starts = [index for index, gram in enumerate(_grams(text)) if gram in wanted]
    for first, last in reversed(list(_runs(starts))):
        text = text[: words[first].start()] + LEFT_OUT + text[words[last].end() :]
    return text


def _grams(text: str) -> Iterator[_Gram]:
    words = [match.group().casefold() for match in _WORD.finditer(text)]
    return zip(*(words[start:] for start in range(WORDS)), strict=False)


def _runs(starts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Of stretches that begin at these words, in order: the first and last word of each that stands alone."""
    first, last = -1, -1
    for start in starts:
        if first >= 0 and start > last + 1:
            yield first, last
            first = -1
        first, last = (start if first < 0 else first), start + WORDS - 1
    if first >= 0:
        yield first, last
