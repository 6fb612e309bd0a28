"""Redaction: known values in the forms in which they travel, known formats, and nothing else
changed.
"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Callable
from pathlib import PurePath
from urllib.parse import quote

import pytest
from carriers import CARRIERS, leaks
from growth import assert_linear, repeated
from hypothesis import given
from hypothesis import strategies as st
from samples import every_kind, lookalikes

from vibe_gate.secrets import Redactor

VALUE = "pL4+in/té s3cret"
TOKEN = "gh" + "p_" + "Zq8vW3nB5mK7xL2cR9tY4uI6oP1aS0dF3gH5"
RANDOM = "hT7" + "kq!zP9w"
ENVIRON = {"MY_API_KEY": VALUE, "PATH": "/usr/bin", "HOME": "/home/ada", "PWD": "/home/ada/project"}


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(ENVIRON)


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        quote(VALUE, safe=""),
        quote(VALUE, safe="")
        .replace("%2B", "%2b")
        .replace("%2F", "%2f")
        .replace("%C3%A9", "%c3%a9"),
        quote(VALUE, safe="").replace("%20", "+"),
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        VALUE.replace("/", "\\/"),
    ],
)
def test_a_value_of_the_environment_goes_in_every_form(redactor: Redactor, form: str) -> None:
    redacted = redactor.text(f"say {form}, twice: {form}")
    assert form not in redacted
    assert redacted.count("[redacted:environment:") == 2
    assert sum(redactor.counts.values()) == 2


@pytest.mark.parametrize("after", ['">', "\n", '" c'])
def test_a_value_with_a_backslash_is_found_in_html(after: str) -> None:
    value = 'C3J27XDCG2Lm+/=&"\\'
    redacted = Redactor({"DEPLOY_TOKEN": value}).text(f'<a b="{html.escape(value)}{after}')
    assert redacted.startswith(
        '<a b="[redacted:environment:'
    )  # with the character that the backslash may escape


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:"])
@pytest.mark.parametrize("after", ["", "x", "xy", "xyz"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_hides_a_value_at_no_alignment(
    redactor: Redactor, before: str, after: str, encode: object
) -> None:
    coded = encode((before + VALUE + after).encode()).decode()  # type: ignore[operator]
    redacted = redactor.text(coded)
    assert "[redacted:environment:" in redacted
    remaining = redacted.split("[redacted")[0] + redacted.split("]")[1]
    assert len(remaining) <= len(before + after) * 4 / 3 + 8


def test_the_same_secret_has_the_same_placeholder_everywhere() -> None:
    first, second = Redactor({}), Redactor({"OTHER_KEY": "something-else"})
    assert first.text(f"a {TOKEN}") == second.data(f"a {TOKEN}".encode()).decode()
    assert first.text(TOKEN) != first.text(TOKEN.replace("Zq8", "Zq9"))


def test_a_short_secret_cannot_be_guessed_from_its_placeholder() -> None:
    assert Redactor({"A_KEY": "hunter22"}).text("hunter22") == Redactor({"A_KEY": "hunter33"}).text(
        "hunter33"
    )


def test_redacting_twice_changes_nothing_more(redactor: Redactor) -> None:
    once = redactor.text(f'password = "{TOKEN}" {VALUE} api_key = "{RANDOM}"')
    count = sum(redactor.counts.values())
    assert redactor.text(once) == once
    assert sum(redactor.counts.values()) == count == 3


@given(st.binary())
def test_bytes_without_secrets_come_back_as_the_same_object(data: bytes) -> None:
    redactor = Redactor(ENVIRON)
    assert redactor.data(data) is data or sum(redactor.counts.values())


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_text_without_secrets_is_unchanged_lone_surrogates_too(text: str) -> None:
    redactor = Redactor(ENVIRON)
    assert redactor.text(text) == text or sum(redactor.counts.values())


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_bytes_around_a_secret_stay(before: bytes, after: bytes) -> None:
    value = "q" * 4 + "7fk29-value"
    data = before + b"\xff" + value.encode() + b"\xfe" + after
    redacted = Redactor({"A_SECRET": value}).data(data)
    assert redacted.startswith(before + b"\xff[redacted:environment:")
    assert redacted.endswith(b"]\xfe" + after)


@given(
    st.text(max_size=20),
    st.text(max_size=20),
    st.sampled_from(["\udcc3abcdefgh", "\udca9abcdefgh", "abcdefgh\udcc3"]),
)
def test_a_value_that_is_no_utf8_never_tears_a_character(
    before: str, after: str, value: str
) -> None:
    redactor = Redactor({"A_KEY": value})
    redacted = redactor.text(f"{before}éabcdefghé{after} password = '{before}7kq!zP9{after}'")
    assert "abcdefgh" not in redacted
    assert b"abcdefgh" not in redactor.data(value.encode("utf-8", "surrogateescape"))


def test_a_known_value_is_found_in_utf16(redactor: Redactor) -> None:
    data = f"a {VALUE} b".encode("utf-16")
    assert VALUE.encode("utf-16-le") not in Redactor({"A_KEY": VALUE.replace("é", "e")}).data(
        data.replace(b"\xe9", b"e")
    )


def test_json_is_redacted_in_values_and_keys_and_stays_json(redactor: Redactor) -> None:
    redacted = redactor.value(
        {
            "a": [TOKEN, 1, None, True, 2.5],
            TOKEN: {"b": f"x {VALUE}"},
            "password": RANDOM,
            "note": RANDOM,
        }
    )
    text = json.dumps(redacted)
    assert TOKEN not in text
    assert VALUE not in text
    assert redacted["a"][1:] == [1, None, True, 2.5]
    assert redacted["password"].startswith("[redacted:secret-assignment:")
    assert redacted["note"] == RANDOM


def test_a_longer_value_goes_whole_where_a_shorter_one_is_part_of_it() -> None:
    redactor = Redactor({"A_KEY": "abcdefgh1", "B_KEY": "xx-abcdefgh1-yy"})
    assert redactor.text("xx-abcdefgh1-yy") == redactor.text("xx-abcdefgh1-yy")
    assert "xx" not in redactor.text("xx-abcdefgh1-yy")


@pytest.mark.slow
def test_every_kind_is_found_in_every_carrier_and_nothing_in_what_looks_alike() -> None:
    every = [(entry, name) for entry in every_kind("test") for name in CARRIERS]
    missed = [
        (entry.kind, name)
        for entry, name in every
        if leaks(carried := CARRIERS[name](entry), Redactor({}).text(carried[0]))
    ]
    assert missed == []
    corpus = lookalikes()
    pairs = zip(corpus, Redactor({}).text("\n".join(corpus)).split("\n"), strict=True)
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


@pytest.mark.parametrize("carrier", [name for name in CARRIERS if "JSON" in name])
def test_json_stays_json_whatever_is_planted_in_it(carrier: str) -> None:
    for entry in every_kind("json"):
        text = CARRIERS[carrier](entry)[0]
        json.loads(text)
        redacted = Redactor({}).text(text)
        assert json.loads(redacted) != json.loads(text)
        assert Redactor({}).text(redacted) == redacted


def _containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)


_JSON = st.recursive(st.text(max_size=40) | st.integers() | st.none(), _containers, max_leaves=12)


@pytest.mark.slow
@given(_JSON, st.booleans())
def test_any_json_stays_json_and_without_a_secret_as_it_is(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert Redactor(ENVIRON).text(text) == text
    planted_too = json.dumps([value, f"/{TOKEN}\\{VALUE}", PEM_IN_TWO], ensure_ascii=ascii_only)
    redacted = json.loads(Redactor(ENVIRON).text(planted_too))
    assert redacted[0] == value
    assert TOKEN not in redacted[1]


PEM_IN_TWO = [
    "-----BEGIN " + "PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n" * 3,
    "next",
]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_stays_utf16(encoding: str) -> None:
    redacted = Redactor({}).data(f"é token {TOKEN} ü".encode(encoding)).decode(encoding)
    assert redacted.startswith("é token [redacted:github-token:")
    assert redacted.endswith("] ü")


def test_a_secret_has_one_placeholder_in_every_carrier() -> None:
    forms = [TOKEN, json.dumps(json.dumps(f"\n{TOKEN}")), "%67" + TOKEN[1:], "\\u0067" + TOKEN[1:]]
    forms.append(base64.b64encode(TOKEN.encode()).decode())
    tags = {
        Redactor({}).text(f"see {form} there").partition("[")[2].partition("]")[0] for form in forms
    }
    assert len(tags) == 1


def test_a_value_under_a_name_that_stands_beside_it_is_a_secret_by_that_name() -> None:
    redacted = Redactor({}).value(
        {"env": [{"name": "DB_PASSWORD", "value": RANDOM}, {"name": "COLOUR", "value": RANDOM}]}
    )
    assert redacted["env"][0]["value"].startswith("[redacted:secret-assignment:")
    assert redacted["env"][1]["value"] == RANDOM


def test_what_is_no_json_is_redacted_as_it_will_be_written() -> None:
    value = {"path": PurePath(f"/a/{TOKEN}"), "plain": PurePath("/a/b"), ("k", TOKEN): {1, 2}}
    redacted = Redactor({}).value(value)
    assert TOKEN not in json.dumps(redacted, default=repr)
    assert redacted["plain"] is value["plain"]


@pytest.mark.parametrize("mark", ["", "...", "…", "\\u2026"])
def test_a_value_that_a_limit_has_cut_goes_too(mark: str) -> None:
    redactor = Redactor({"A_KEY": "vY7-kq4zPm9.wLt3xRb"})
    assert redactor.text(f"no vY7-kq4zPm9.wLt{mark}").endswith(f"]{mark}")
    assert redactor.text("no vY7-kq4zPm9.or another") == "no vY7-kq4zPm9.or another"


def test_parts_count_for_themselves_and_for_the_whole() -> None:
    redactor = Redactor(ENVIRON)
    part, two = redactor.part(), redactor.part()
    part.text(f"{TOKEN} {VALUE}")
    two.text(TOKEN)
    assert (part.counts, two.counts) == ({"github-token": 1, "environment": 1}, {"github-token": 1})
    assert redactor.counts == {"github-token": 2, "environment": 1}
    assert sum(redactor.counts.values()) == 3


def test_a_value_that_only_its_file_tells_is_known_afterwards() -> None:
    value = "E4lBYOvfZ8Uz19QwErTyUiOpBs"
    redactor = Redactor({})
    redacted = redactor.part().data(f'{{\n "api_key":\n "{value}"}}'.encode()).decode()
    assert value not in redacted
    (placeholder,) = re.findall(r"\[redacted:[^]]*\]", redacted)
    assert redactor.text(f'+ "api_key":\n+ "{value}"') == f'+ "api_key":\n+ "{placeholder}"'
    assert redactor.text(f"    25     26 +|  {value}") == f"    25     26 +|  {placeholder}"


def test_threads_lose_no_count() -> None:
    redactor = Redactor({})
    threads = [
        threading.Thread(target=lambda: [redactor.text(TOKEN) for _ in range(300)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert redactor.counts == {"github-token": 1200}


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["\\u0041", "\\", "ghp_...", "-----\\n", "vY7-kq4zPm"])
def test_hostile_text_is_redacted_in_linear_time(unit: str) -> None:
    assert_linear(Redactor({"A_KEY": "vY7-kq4zPm9.wLt3xRb"}).text, repeated(unit), 60_000)


@pytest.mark.parametrize("size", range(18, 24))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("padding", ["=", ""])
def test_base64_of_a_known_value_alone_goes_wholly(
    size: int, encode: Callable[[bytes], bytes], padding: str
) -> None:
    value = "vY7-kq4zPm9.wLt3xRb?Zs8d"[:size]
    coded = encode(value.encode()).decode()
    redacted = Redactor({"A_KEY": value}).text(f"({coded if padding else coded.rstrip('=')})")
    assert redacted.startswith("([redacted:environment:")
    assert redacted.endswith("])")


@pytest.mark.parametrize("around", ["{}\n", " {}\r\n", '"{}"', "Bearer {}"])
def test_the_line_ends_of_a_text_stay_if_a_value_has_some_of_its_own(around: str) -> None:
    redactor = Redactor({"MY_CREDENTIALS": around.format("Zq8vT3rWm1KxP0dL")})
    redacted = redactor.text("one Zq8vT3rWm1KxP0dL\ntwo\n")
    assert redacted.startswith("one [redacted:environment:")
    assert redacted.endswith("]\ntwo\n")
