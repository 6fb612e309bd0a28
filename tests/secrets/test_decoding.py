"""Carriers: what is read is what was written, and every character knows where it came from."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from growth import assert_linear, repeated
from hypothesis import given
from hypothesis import strategies as st

from vibe_gate.domain.change import Hunk, Line
from vibe_gate.judging import brief
from vibe_gate.secrets import decoding

SECRET = "q8Zvv2LmQ1-and-more-of-it"


def readings(text: str) -> list[tuple[str, str]]:
    """Every place where SECRET can be read, as (what stands for it, what the first reading around it is)."""
    found = []
    for view in decoding.views(text):
        start = view.text.find(SECRET)
        if start >= 0:
            begin, end = view.origin(start, start + len(SECRET))
            found.append((text[begin:end], view.text))
    return found


def spelled(text: str, byte: str, between: str) -> str:
    return between.join(byte.format(code) for code in text.encode())


def wide64(text: str, order: str = "le") -> str:
    return base64.b64encode(text.encode(f"utf-16-{order}")).decode().rstrip("=")[:-1]


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        (f"a\\n{SECRET}\\tb", SECRET),
        (f"a\\u0071{SECRET[1:]} b", "\\u0071" + SECRET[1:]),
        (f"%71{SECRET[1:]}", "%71" + SECRET[1:]),
        (f"%2571{SECRET[1:]}", "%2571" + SECRET[1:]),
        (f"&#113;{SECRET[1:]}", "&#113;" + SECRET[1:]),
        (f"{SECRET[:5]}\x1b[0m{SECRET[5:]}", f"{SECRET[:5]}\x1b[0m{SECRET[5:]}"),
        (f"{SECRET[:5]}\x1b]0;U+x\x07{SECRET[5:]}", f"{SECRET[:5]}\x1b]0;U+x\x07{SECRET[5:]}"),
        (f"{SECRET[:5]}⟦U+001B⟧[0m{SECRET[5:]}", f"{SECRET[:5]}⟦U+001B⟧[0m{SECRET[5:]}"),
        (f"x {SECRET[:5]}\\\n  12 +|{SECRET[5:]}", f"{SECRET[:5]}\\\n  12 +|{SECRET[5:]}"),
        (f"{SECRET[:5]}=\r\n{SECRET[5:]}", f"{SECRET[:5]}=\r\n{SECRET[5:]}"),
        (base64.b64encode(b"abc" + SECRET.encode() + b"def").decode(), base64.b64encode(SECRET.encode()).decode()[:-4]),
        ("=" + (b"ab" * 9 + SECRET.encode()).hex(), SECRET.encode().hex()),
        ("0x" + (b"ab" * 9 + SECRET.encode()).hex(), SECRET.encode().hex()),
        ("+" + (b"ab" * 9 + SECRET.encode()).hex(), SECRET.encode().hex()),
        (base64.b32encode(b"abcde" + SECRET.encode() + b"xyz").decode(), base64.b32encode(SECRET.encode()).decode()),
        (base64.b64encode(f"abc{SECRET}".encode("utf-16-le")).decode(), wide64(SECRET)),
        (base64.b64encode(f"abc{SECRET}".encode("utf-16-be")).decode(), wide64(SECRET, "be")),
        (base64.b64encode(f"\ufeffab{SECRET}".encode("utf-16-le")).decode(), wide64(SECRET)),
        (f"abcdef{SECRET}".encode("utf-16-le").hex(), SECRET.encode("utf-16-le").hex()),
        (spelled(f"abc{SECRET}", "0x{:02x}", ", "), spelled(SECRET, "0x{:02x}", ", ")),
        (spelled(f"abc{SECRET}", "0X{:02X}", ","), spelled(SECRET, "0X{:02X}", ",")),
        (spelled(f"abc{SECRET}", "{:02x}", "\t"), spelled(SECRET, "{:02x}", "\t")),
        ("\\U00000071" + SECRET[1:], "\\U00000071" + SECRET[1:]),
        (f"{SECRET[:5]}\ufe0f{SECRET[5:]}", f"{SECRET[:5]}\ufe0f{SECRET[5:]}"),
        (f"{SECRET[:5]}\U000e0041{SECRET[5:]}", f"{SECRET[:5]}\U000e0041{SECRET[5:]}"),
        (f"{SECRET[:5]}\xf3\xa0\x81\x81{SECRET[5:]}", f"{SECRET[:5]}\xf3\xa0\x81\x81{SECRET[5:]}"),
        (f"\uff51{SECRET[1:]}", f"\uff51{SECRET[1:]}"),
        (f"\xef\xbd\x91{SECRET[1:]}", f"\xef\xbd\x91{SECRET[1:]}"),
    ],
)
def test_what_a_carrier_holds_is_read_and_leads_back(text: str, origin: str) -> None:
    ((found, _), *_) = readings(text)
    assert found.startswith(origin)
    assert len(found) <= len(origin) + 4


@pytest.mark.parametrize("mark", ["+", "-", "++", " -", "+/a/b/", "--", "+//a.b/c/d/e/"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.b32encode])
def test_the_mark_of_a_hunk_hides_no_coded_text_at_any_alignment(mark: str, encode: Callable[[bytes], bytes]) -> None:
    for size in range(60):
        coded = encode(("u" * size + SECRET + " and more").encode()).decode()
        assert readings(f"@@ -1 +1 @@\n{mark}{coded}\n"), size


@pytest.mark.parametrize("mark", ["", "+", "-", "    ", "+    "])
@pytest.mark.parametrize("width", [60, 64, 76])
@pytest.mark.parametrize("encode", [base64.b64encode, lambda raw: raw.hex().encode(), base64.b32encode])
def test_a_wrapped_text_is_one_at_every_alignment(mark: str, width: int, encode: Callable[[bytes], bytes]) -> None:
    if encode is base64.b32encode and width % 8:
        return
    for size in range(90):
        coded = encode(("u" * size + " é " * (size % 3) + SECRET + " and more of it" * 3).encode()).decode()
        lines = [f"{mark}{coded[start : start + width]}\n" for start in range(0, len(coded), width)]
        assert readings("@@\n" + "".join(lines)), size


@pytest.mark.parametrize("mark", " +-")
@pytest.mark.parametrize("as_written", [str, json.dumps])
def test_what_a_judge_is_shown_in_two_rows_is_one_text(mark: str, as_written: Callable[[str], str]) -> None:
    line = "x" * (brief.MAX_ROW - 9) + SECRET + "y" * brief.MAX_ROW
    rows = brief._numbered(Hunk(1, 1, 1, 1, (Line(mark, line.encode()),)), keep_cr=False)
    ((found, _), *_) = readings(as_written("\n".join(row.text for row in rows)))
    assert found.startswith(SECRET[:9]) and found.endswith(SECRET[9:])


def test_text_without_a_carrier_has_no_other_reading() -> None:
    assert list(decoding.views("def f(x):\n    return x + 1  # nothing here\n" * 1000)) == []


_LAYERS = {
    "json": lambda text: json.dumps({"a": text, "b": 1}),
    "url": lambda text: "/?q=" + quote(text),
    "base64": lambda text: "d: " + base64.b64encode(text.encode()).decode(),
    "colour": lambda text: f"\x1b[1m{text}\x1b[0m",
    "hex": lambda text: text.encode().hex() if len(text) > 20 else text,
}


@given(st.text('ab c\n"\\%é=', max_size=30), st.lists(st.sampled_from(sorted(_LAYERS)), min_size=1, max_size=3))
def test_layers_come_off_in_any_order(around: str, layers: list[str]) -> None:
    text = f"{around} {SECRET} {around}"
    for layer in layers:
        text = _LAYERS[layer](text)
    assert SECRET in text or readings(text)


@given(st.text('\\u0061n%41&#;x1b[\x1b=\n"AbZ9 <\0', max_size=200))
def test_origins_are_spans_of_the_text_in_order(text: str) -> None:
    for view in decoding.views(text):
        size = len(view.text)
        spans = [view.origin(at, at + 1) for at in range(size)]
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        assert not size or view.origin(0, size)[1] <= len(text)


@pytest.mark.parametrize(
    "unit",
    [
        "\\", "\\\\u", "\\u0041", "%", "%41", "%2541", "&#65;", "\x1b[", "\x1b]", "\x1b[31m", "=\n", "\\\n", "\u200b",
        "\xe2\x80\x8b", "A" * 28 + " ", "QUJD", "41" * 20 + "-", "a\0", "\0", "⟦U+001B⟧", "-----\\n", "\\\n 1 +|",
        "+" + "A" * 28, "+" + "QUJD" * 10 + "\n", "a/" * 20 + " ", "/" * 29, "-" * 40 + "A", "0x", "\uff21",
        "\\U00000041",
        "MFRGG" * 8 + " ", "M" * 40, "\xf3\xa0\x81\x81", "0000: 41\n", "00000000: 4141 4141\n", "41" * 30 + "\n",
        "41 ", "0x41, ", "41 " * 11 + "x", "41" + " " * 60, "AEEA",
    ],
)  # fmt: skip
def test_hostile_text_is_read_in_linear_time(unit: str) -> None:
    def read(text: str) -> None:
        for view in decoding.views(text):
            view.origin(0, len(view.text))

    assert_linear(read, repeated(unit), 250_000)
