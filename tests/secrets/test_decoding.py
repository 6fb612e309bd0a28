"""What hides a secret: each layer is taken off, and what is replaced is all that stood for the secret."""

# ruff: noqa: E501 - forms stand in rows

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from growth import assert_linear, repeated
from hypothesis import given
from hypothesis import strategies as st

from vibe_gate.domain.change import Hunk, HunkLine
from vibe_gate.judging import brief
from vibe_gate.secrets import find

TOKEN = "gh" + "p_aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5"


def spelled(text: str, byte: str, between: str) -> str:
    return between.join(byte.format(code) for code in text.encode())


def wide64(text: str, order: str = "le") -> str:
    return base64.b64encode(text.encode(f"utf-16-{order}")).decode().rstrip("=")[:-1]


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        (f"a\\n{TOKEN}\\tb", TOKEN),
        *[(form, form) for form in (
            "\\u0067" + TOKEN[1:], "%67" + TOKEN[1:], "%2567" + TOKEN[1:], "&#103;" + TOKEN[1:], "%u0067" + TOKEN[1:],
            "\\U00000067" + TOKEN[1:], f"\uff47{TOKEN[1:]}", TOKEN.replace("_", "\\_"), TOKEN.replace("_", "&lowbar;"),
            TOKEN.replace("_", "=5F"),
        )],
        *[(form, form) for between in (
            "\x1b[0m", "\x1b]0;U+x\x07", "⟦U+001B⟧[0m", "=\r\n", "\ufe0f", "\U000e0041", "\u200b", "\\e[31m", "\\033[31m",
        ) for form in [f"{TOKEN[:5]}{between}{TOKEN[5:]}"]],
        (f"x {TOKEN[:5]}\\\n  12 +|{TOKEN[5:]}", f"{TOKEN[:5]}\\\n  12 +|{TOKEN[5:]}"),
        (base64.b64encode(b"abc" + TOKEN.encode() + b"\n").decode(), base64.b64encode(TOKEN.encode()).decode()[:-4]),
        ("=" + (b"ab" * 9 + b" " + TOKEN.encode()).hex(), TOKEN.encode().hex()),
        ("0x" + (b"ab" * 9 + b" " + TOKEN.encode()).hex(), TOKEN.encode().hex()),
        ("+" + (b"ab" * 9 + b" " + TOKEN.encode()).hex(), TOKEN.encode().hex()),
        (base64.b32encode(b"abcd " + TOKEN.encode() + b" yz").decode(), base64.b32encode(TOKEN.encode()).decode()),
        (base64.b64encode(f"ab {TOKEN}".encode("utf-16-le")).decode(), wide64(TOKEN)),
        (base64.b64encode(f"ab {TOKEN}".encode("utf-16-be")).decode(), wide64(TOKEN, "be")),
        (f"abcde {TOKEN}".encode("utf-16-le").hex(), TOKEN.encode("utf-16-le").hex()),
        (spelled(f"ab {TOKEN}", "0x{:02x}", ", "), spelled(TOKEN, "0x{:02x}", ", ")),
        (spelled(f"ab {TOKEN}", "0X{:02X}", ","), spelled(TOKEN, "0X{:02X}", ",")),
        (spelled(f"ab {TOKEN}", "{:02x}", "\t"), spelled(TOKEN, "{:02x}", "\t")),
        (base64.b64encode(b"AK" + b"IA4RTZ7MBX2LQWVN5D").decode(), ""),
    ],
)  # fmt: skip
def test_a_secret_is_found_in_what_carries_it(text: str, origin: str) -> None:
    (match,) = find(text)
    if origin:
        assert match.value == TOKEN
        assert text[match.start : match.end].startswith(origin)
        assert match.end - match.start <= len(origin) + 4


@pytest.mark.parametrize(
    "form", ["176847776\\\n485937|c3qpV1dhfqmAgQiqa3DCabun99U", "A3-H7ZGGJ\\\r\n-3ODVYIHBOG6-FRKL7-7ZBGB-DKBYT"]
)
def test_a_line_goes_on_with_what_looks_like_a_number_or_a_mark(form: str) -> None:
    (match,) = find(f"say {form}\n")
    assert (match.start, match.end) == (4, 4 + len(form))


@pytest.mark.parametrize("mark", ["+", "-", "++", " -", "+/a/b/", "--", "+//a.b/c/d/e/"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.b32encode])
def test_the_mark_of_a_hunk_hides_no_coded_text_at_any_alignment(mark: str, encode: Callable[[bytes], bytes]) -> None:
    for size in range(1, 30):
        coded = encode(("u" * size + f" {TOKEN} and more").encode()).decode()
        assert find(f"@@ -1 +1 @@\n{mark}{coded}\n"), size


def hexadecimal(raw: bytes) -> bytes:
    return raw.hex().encode()


@pytest.mark.parametrize(
    ("encode", "width"),
    [
        (base64.b64encode, 60), (base64.b64encode, 64), (base64.b64encode, 76),
        (hexadecimal, 60), (hexadecimal, 64), (hexadecimal, 76),
        (base64.b32encode, 64),  # whose lines end with a group of eight
    ],
)  # fmt: skip
@pytest.mark.parametrize("mark", ["", "+", "-", "+    "])
def test_a_wrapped_text_is_one_at_every_alignment(mark: str, width: int, encode: Callable[[bytes], bytes]) -> None:
    for size in range(1, 60):
        coded = encode(("u" * size + " é " * (size % 3) + f" {TOKEN} " + "and more of it" * 3).encode()).decode()
        lines = [f"{mark}{coded[start : start + width]}\n" for start in range(0, len(coded), width)]
        assert [match.value for match in find("@@\n" + "".join(lines))] == [TOKEN], size


@pytest.mark.parametrize("mark", " +-")
@pytest.mark.parametrize("as_written", [str, json.dumps])
def test_what_a_judge_is_shown_in_two_rows_is_one_text(mark: str, as_written: Callable[[str], str]) -> None:
    line = "x " * (brief.MAX_ROW // 2 - 5) + TOKEN + " y" * brief.MAX_ROW
    rows = brief._numbered(Hunk.of(1, 1, 1, 1, (HunkLine(mark, line.encode()),)), keep_cr=False)
    text = as_written("\n".join(row.text for row in rows))
    (match,) = find(text)
    assert match.value == TOKEN
    assert text[match.start : match.end].startswith(TOKEN[:9]) and text[: match.end].endswith(TOKEN[20:])


@pytest.mark.parametrize("mark", " +-")
def test_what_is_split_by_a_backslash_is_one_text_in_the_rows_that_a_judge_is_shown(mark: str) -> None:
    lines = tuple(HunkLine(mark, line) for line in (f"a = '{TOKEN[:20]}\\\n".encode(), f"{TOKEN[20:]}'\n".encode()))
    rows = brief._numbered(Hunk.of(1, 2, 1, 2, lines), keep_cr=False)
    assert [match.value for match in find("\n".join(row.text for row in rows))] == [TOKEN]


_LAYERS = {
    "json": lambda text: json.dumps({"a": text, "b": 1}),
    "url": lambda text: "/?q=" + quote(text),
    "base64": lambda text: "d: " + base64.b64encode(text.encode()).decode(),
    "colour": lambda text: f"\x1b[1m{text}\x1b[0m",
    "hex": lambda text: text.encode().hex(),
}


@given(st.text('ab c\n"\\%é=', max_size=30), st.lists(st.sampled_from(sorted(_LAYERS)), min_size=1, max_size=3))
def test_layers_come_off_in_any_order(around: str, layers: list[str]) -> None:
    text = f"{around} {TOKEN} {around}"
    for layer in layers:
        text = _LAYERS[layer](text)
    assert TOKEN in [match.value for match in find(text)]


@given(st.text('\\u0061n%41&#;x1b[=\n"AbZ9 <\0', max_size=200))
def test_what_stands_for_a_secret_is_in_the_text_whatever_is_around_it(text: str) -> None:
    whole = f"{text} \\u0067{TOKEN[1:]} {text}"
    matches = find(whole)
    assert [match for match in matches if match.value == TOKEN and "0067hp_" in whole[match.start : match.end]]
    assert all(0 <= match.start < match.end <= len(whole) for match in matches)


HOSTILE_UNITS = [
    "\\", "\\\\u", "\\u0041", "%", "%41", "%2541", "&#65;", "\x1b[", "\x1b]", "\x1b[31m", "=\n", "\\\n", "\\\n-1", "\u200b",
    "A" * 28 + " ", "QUJD", "41" * 20 + "-", "a\0", "\0", "⟦U+001B⟧", "-----\\n", "\\\n 1 +|", "+" + "A" * 28,
    "+" + "QUJD" * 10 + "\n", "QUJD" * 16 + "\n", "a/" * 20 + " ", "/" * 29, "-" * 40 + "A", "0x", "\uff21",
    "\\U00000041", "MFRGG" * 8 + " ", "M" * 40, "41" * 30 + "\n", "41 ",
    "0x41, ", "41 " * 11 + "x", "41" + " " * 60, "AEEA", f"\\u0067{TOKEN[1:]} ", "QUJD" * 16 + "\n" + "/" * 64 + "\n",
]  # fmt: skip


@pytest.mark.slow
def test_hostile_text_is_read_in_linear_time(subtests: pytest.Subtests) -> None:
    for unit in HOSTILE_UNITS:
        with subtests.test(unit=unit):
            assert_linear(find, repeated(unit), 40_000)
