"""Redaction of anything: it gives an answer, changes nothing that is no secret, and keeps what is
UTF-8 such.
"""

# ruff: noqa: E501 - parts stand in rows

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vibe_gate.secrets import Redactor
from vibe_gate.secrets.redaction import as_bytes, as_characters

PARTS = (
    "curl -u a:p12", "curl -u ", "machine h.io login u password ", "default login u password ", "<password>", "</password>",
    "https://u:", "://", "@h.io/", "password=", '"password": "', "DB_TOKEN='", "--password ", "ENV API_KEY ", "name: TOKEN\nvalue: ",
    "&api_key=", "Bearer ", "Basic ", "eyJhbGciOi", "gh" + "p_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5", "a1B2c3D4e5F6g7H8",
    "-----BEGIN PRIVATE " + "KEY-----\n", "-----END PRIVATE " + "KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    "pässwörd-Zürich-99", "pässwör", "日本語の秘密キー123", "é" * 110, "ü" * 101, "\U0001f600" * 51, "\ud800", "\udcff", "\ud83d\ude00",
    "\xad", "中", "\u200b", "\ufeff", "ｇｈｐ", "\u0130", "\u2028", "\xa0", "\x85", "\x9b31m", "⟦U+001B⟧", "⟦", "⟦U+110000⟧",
    "\\", "\\\\", '"', "'", "`", "\\u00e9", "\\ud83d", "\\U0011ffff", "\\n", "\n", "\r", "\0", "g\0h\0p\0_\0", "\xe9\0", "%C3%A9",
    "%C3", "%u00e9", "&eacute;", "&#233;", "&#x110000;", "=\n", "=C3=A9", "=5F", "\x1b[31m", "\x1b]", "U+", "\a", "^[[31m", "    (goes on) +|", "…", "...",
    "00000000: 6768 705f  gh\n", "0x67, 0x68, 0x70, 0xc3, ", "67 68 c3 a9 ", "67:68:c3:", "0000000 6867 5f70\n", "Z2hwX2FCM2RFNWdIN2pL",
    "w6nDqcOpw6nDqcOpw6nDqcOpw6nDqcOp", "AGgAaQBoAGkAaABpAGgAaQBoAGkA", "+", "-", " ", ";", "|", "]", ")",
)  # fmt: skip
TEXTS = st.lists(
    st.one_of(st.sampled_from(PARTS), st.characters(), st.text(max_size=6)), max_size=14
).map("".join)
ENVIRON = {
    "P_PASSWORD": "pässwörd-Zürich-99", "X_SECRET": "日本語の秘密キー123", "BYTES_TOKEN": "a\udcff\udcfeb7Kq2\udc80zz",
    "DOCUMENT_KEY": '{"password": "\\ud800a1B2c3D4e5F6g7H8", "n": 1e999}', "PEM_KEY": "one7aB2cD4eF6gH\nüber7aB2cD4eF6gH\n\xff",
}  # fmt: skip
REDACTORS = (Redactor({}), Redactor(ENVIRON))


def is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@settings(deadline=None)
@given(TEXTS)
def test_any_text_is_redacted_and_no_character_is_cut(text: str) -> None:
    for redactor in REDACTORS:
        redacted = redactor.text(text)
        assert redacted.count("\ufffd") <= text.count("\ufffd")
        assert set(redacted) <= set(text) | set(map(chr, range(128)))


@settings(deadline=None)
@given(TEXTS, st.binary(max_size=20))
def test_any_bytes_are_redacted_and_utf_8_stays_utf_8(text: str, middle: bytes) -> None:
    data = text.encode("utf-8", "surrogatepass")
    for redactor in REDACTORS:
        assert not is_utf8(data) or is_utf8(redactor.data(data))
        redactor.data(data + middle + data)
        redactor.data(text.encode("utf-16-le", "surrogatepass"))


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.recursive(
        TEXTS | st.none() | st.floats(),
        lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    )
)
def test_any_json_is_redacted_and_no_member_is_lost(value: object) -> None:
    def members(member: object) -> int:
        if isinstance(member, dict):
            return len(member) + sum(map(members, member.values()))
        return sum(map(members, member)) if isinstance(member, list) else 0

    for redactor in REDACTORS:
        assert members(redactor.value(value)) == members(value)
        assert members(redactor.value({"password": value, "b": [value]})) == 2 * members(value) + 2


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["A_TOKEN", "B_KEY", "A_PASSWORD", "C_DSN"]), TEXTS))
@settings(deadline=None)
def test_any_environment_is_known(environ: dict[str, str]) -> None:
    redactor = Redactor(environ)
    redactor.text("".join(environ.values()))


@pytest.mark.parametrize(
    "text",
    [
        "python3 -c \"open('curl -u a:p12" + "é" * 110 + "','w')\"",
        "curl -u a:p12" + "é" * 110 + " https://h.io",
        "curl -u " + "é" * 50 + "x:a1B2c3D4e5",
        "machine h.io login u password p12" + "é" * 110,
        "https://u:p12" + "é" * 99 + "@h.io/",
    ],
)
def test_a_limit_cuts_no_character(text: str) -> None:
    assert Redactor({}).text(text).startswith(text[:8])
    assert "\ufffd" not in Redactor({}).text(text)
    assert is_utf8(Redactor({}).data(text.encode()))


def test_a_lone_surrogate_under_a_secrets_name_has_a_placeholder() -> None:
    redacted = Redactor({}).value(json.loads('{"password": "\\ud800a1B2c3D4e5F6g7H8i9J0k1L2"}'))
    assert redacted["password"].startswith("[redacted:secret-assignment:")


def test_a_value_of_an_environment_that_is_no_text_is_known() -> None:
    redactor = Redactor({"A_TOKEN": "a\udcff\udcfeb7Kq2zzzzzzzzzzzzzz"})
    assert b"Kq2zzz" not in redactor.data(b"x a\xff\xfeb7Kq2zzzzzzzzzzzzzz y")


@pytest.mark.parametrize(
    "value", ["\u2028" * 9, "\xa0\xa0é" * 4, "\udcff" * 10, "\ud83d\ude00\ud800" * 4]
)
def test_a_value_of_which_no_text_is_left_ends_the_search(value: str) -> None:
    assert Redactor({"A_KEY": value}).text("a plain é text") == "a plain é text"


def test_what_is_no_utf_8_after_a_redaction_is_replaced_instead_of_raised() -> None:
    assert as_characters(as_bytes("aé")[:-1]) == "a\ufffd"


def test_two_secrets_as_keys_are_two_keys() -> None:
    redactor = Redactor({"A_TOKEN": "Yw7uS2qVn9JzR4", "B_TOKEN": "Pq3xT8bKm5LcD1"})
    text = redactor.text("Yw7uS2qVn9JzR4")
    redacted = redactor.value(
        {"Yw7uS2qVn9JzR4": "first", text: "as it was", "Pq3xT8bKm5LcD1": "second", 1: "n", "1": "m"}
    )
    assert redacted == {
        f"{text} (2)": "first",
        text: "as it was",
        f"{text} (3)": "second",
        1: "n",
        "1": "m",
    }
    assert redactor.value({"Yw7uS2qVn9JzR4": 1, "Pq3xT8bKm5LcD1": 2}) == {text: 1, f"{text} (2)": 2}
