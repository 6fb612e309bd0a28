"""A shell's braces: `a{b,c}` is two words, `{1..3}` three. Pure."""

OPEN, BAR, CLOSE = "\ufdd0", "\ufdd1", "\ufdd2"
"""Unquoted `{`, `,` and `}` of a word: letters that Unicode leaves to programs."""

MAX_WORDS = 1024
MAX_RANGE = 256
MAX_LENGTH = 4096  # no name of a file is longer

_PLAIN = str.maketrans({OPEN: "{", BAR: ",", CLOSE: "}"})


def plain(text: str) -> str:
    """The text with braces as they are written."""
    return text.translate(_PLAIN)


def expanded(text: str) -> list[str] | None:
    """The words that a word with braces means; None where they are too many."""
    if len(text) > MAX_LENGTH:
        return [plain(text)]
    words, unfinished = list[str](), [text]
    while unfinished:
        if len(words) + len(unfinished) > MAX_WORDS:
            return None
        word = unfinished.pop()
        made = _innermost(word)
        if made is None:
            words.append(plain(word))
        else:
            unfinished += reversed(made)
    return words


def _innermost(word: str) -> list[str] | None:
    """What the last pair of braces that holds no other makes of the word; None where there is none."""
    opening = word.rfind(OPEN)
    while opening >= 0:
        closing = word.find(CLOSE, opening)
        if closing >= 0:
            before, inside, after = word[:opening], word[opening + 1 : closing], word[closing + 1 :]
            values = inside.split(BAR) if BAR in inside else _range(inside)
            if values is None:  # `{}` and `{a}` stay as they are
                return [before + plain(word[opening : closing + 1]) + after]
            return [before + value + after for value in values]
        opening = word.rfind(OPEN, 0, opening)
    return None


def _range(inside: str) -> list[str] | None:
    """`a..e` and `1..9`."""
    first, dots, last = inside.partition("..")
    if not dots:
        return None
    if len(first) == len(last) == 1 and not first.isdigit():
        low, high, letters = ord(first), ord(last), True
    elif first.lstrip("-").isdecimal() and last.lstrip("-").isdecimal() and len(first) < 9 and len(last) < 9:
        low, high, letters = int(first), int(last), False
    else:
        return None
    step = 1 if high >= low else -1
    if abs(high - low) > MAX_RANGE:
        return None
    return [chr(value) if letters else str(value) for value in range(low, high + step, step)]
