"""What hides a secret: each layer is taken off, and what is replaced is all that stood for the
secret.
"""

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
from vibe_gate.secrets import find_secrets
from vibe_gate.secrets.scan import find_seen

TOKEN = "gh" + "p_aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5"


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        (f"a\\n{TOKEN}\\tb", TOKEN),
        *[(form, form) for form in (
            "\\u0067" + TOKEN[1:], "\\\\u0067" + TOKEN[1:], "%67" + TOKEN[1:], "%2567" + TOKEN[1:],
        )],
        *[(form, form) for between in ("\x1b[0m", "\\u001b[31m", "⟦U+001B⟧[0m", "\x1b[K")
          for form in [f"{TOKEN[:5]}{between}{TOKEN[5:]}"]],
        (base64.b64encode(b"abc" + TOKEN.encode() + b"\n").decode(), base64.b64encode(TOKEN.encode()).decode()[:-4]),
        (base64.b64encode(b"AK" + b"IA4RTZ7MBX2LQWVN5D").decode(), ""),
    ],
)  # fmt: skip
def test_a_secret_is_found_in_what_carries_it(text: str, origin: str) -> None:
    (match,) = find_secrets(text)
    if origin:
        assert match.value == TOKEN
        assert text[match.start : match.end].startswith(origin)
        assert match.end - match.start <= len(origin) + 4


@pytest.mark.parametrize("order", ["le", "be"])
def test_a_secret_is_found_in_utf16(order: str) -> None:
    text = f"token: {TOKEN} ".encode(f"utf-16-{order}").decode("latin-1")
    (match,) = find_seen(text)
    assert match.value == TOKEN


@pytest.mark.parametrize(
    "text",
    [
        TOKEN.encode().hex(), base64.b32encode(TOKEN.encode()).decode(), base64.b64encode(TOKEN.encode("utf-16-le")).decode(),
        base64.b64encode(base64.b64encode(TOKEN.encode())).decode(), TOKEN.replace("_", "=5F"), TOKEN.replace("_", "&#95;"),
        f"{TOKEN[:5]}\u200b{TOKEN[5:]}", f"{TOKEN[:5]}\\\n{TOKEN[5:]}", "".join(f"\\x{code:02x}" for code in TOKEN.encode()),
    ],
    ids=["hex", "base32", "UTF-16 in base64", "base64 twice", "quoted-printable", "HTML", "invisible", "continued", "escapes"],
)  # fmt: skip
def test_what_hides_a_secret_on_purpose_is_not_decoded(text: str) -> None:
    """The limit that docs/reference/redaction.md names."""
    assert find_secrets(f"a {text} b") == []


@pytest.mark.parametrize("mark", ["+", "-", "++", " -", "+/a/b/", "--", "+//a.b/c/d/e/"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_the_mark_of_a_hunk_hides_no_coded_text_at_any_alignment(
    mark: str, encode: Callable[[bytes], bytes]
) -> None:
    for size in range(1, 30):
        coded = encode(("u" * size + f" {TOKEN} and more").encode()).decode()
        assert find_secrets(f"@@ -1 +1 @@\n{mark}{coded}\n"), size


@pytest.mark.parametrize("width", [60, 64, 76])
@pytest.mark.parametrize("mark", ["", "+", "-", "+    "])
def test_a_wrapped_text_is_one_at_every_alignment(mark: str, width: int) -> None:
    for size in range(1, 60):
        text = "u" * size + " é " * (size % 3) + f" {TOKEN} " + "and more of it" * 3
        coded = base64.b64encode(text.encode()).decode()
        lines = [f"{mark}{coded[start : start + width]}\n" for start in range(0, len(coded), width)]
        assert [match.value for match in find_secrets("@@\n" + "".join(lines))] == [TOKEN], size


@pytest.mark.parametrize("mark", " +-")
@pytest.mark.parametrize("as_written", [str, json.dumps])
def test_what_a_judge_is_shown_in_two_rows_is_one_text(
    mark: str, as_written: Callable[[str], str]
) -> None:
    line = "x " * (brief.MAX_ROW // 2 - 5) + TOKEN + " y" * brief.MAX_ROW
    rows = brief._numbered_rows(
        Hunk.of(1, 1, 1, 1, (HunkLine(mark, line.encode()),)), keep_cr=False
    )
    text = as_written("\n".join(row.text for row in rows))
    (match,) = find_secrets(text)
    assert match.value == TOKEN
    assert text[match.start : match.end].startswith(TOKEN[:9]) and text[: match.end].endswith(
        TOKEN[20:]
    )


_ENCODINGS = {
    "json": lambda text: json.dumps({"a": text, "b": 1}),
    "json in json": lambda text: json.dumps(json.dumps({"a": text, "b": 1})),
    "url": lambda text: "/?q=" + quote(text),
    "base64": lambda text: "d: " + base64.b64encode(text.encode()).decode(),
    "colour": lambda text: f"\x1b[1m{text}\x1b[0m",
}


@given(st.text('ab c\n"\\%é=', max_size=30), st.sampled_from(sorted(_ENCODINGS)))
def test_each_encoding_is_undone_whatever_is_around_the_secret(around: str, encoding: str) -> None:
    text = _ENCODINGS[encoding](f"{around} {TOKEN} {around}")
    assert TOKEN in [match.value for match in find_secrets(text)]


@given(st.text('\\u0061n%41&#;x1b[=\n"AbZ9 <\0', max_size=200))
def test_what_stands_for_a_secret_is_in_the_text_whatever_is_around_it(text: str) -> None:
    surrounded = f"{text} \\u0067{TOKEN[1:]} {text}"
    matches = find_secrets(surrounded)
    assert [
        match
        for match in matches
        if match.value == TOKEN and "0067hp_" in surrounded[match.start : match.end]
    ]
    assert all(0 <= match.start < match.end <= len(surrounded) for match in matches)


HOSTILE_UNITS = [
    "\\", "\\\\u", "\\u0041", "%", "%41", "%2541", "\x1b[", "\x1b[31m", "\\\n", "(goes on)", "\n    (goes on) +|",
    "A" * 28 + " ", "QUJD", "41" * 20 + "-", "a\0", "\0", "⟦U+001B⟧", "-----\\n", "\\\n 1 +|", "+" + "A" * 28,
    "+" + "QUJD" * 10 + "\n", "QUJD" * 16 + "\n", "a/" * 20 + " ", "/" * 29, "-" * 40 + "A", "0x", "\uff21",
    "\\U00000041", "MFRGG" * 8 + " ", "M" * 40, "41" * 30 + "\n", "41 ",
    "0x41, ", "41 " * 11 + "x", "41" + " " * 60, "AEEA", f"\\u0067{TOKEN[1:]} ", "QUJD" * 16 + "\n" + "/" * 64 + "\n",
]  # fmt: skip


@pytest.mark.slow
def test_hostile_text_is_read_in_linear_time(subtests: pytest.Subtests) -> None:
    for unit in HOSTILE_UNITS:
        with subtests.test(unit=unit):
            assert_linear(find_secrets, repeated(unit), 40_000)
