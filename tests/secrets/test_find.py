"""Secrets in text: every rule of the table, values under a secret's name, and what only looks like
either.
"""

# ruff: noqa: E501 - names and values stand in rows

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from growth import assert_linear, repeated
from hypothesis import given
from hypothesis import strategies as st
from samples import RULES, filled, lines, planted

from vibe_gate import secrets
from vibe_gate.secrets import find_secrets
from vibe_gate.secrets.rules import Rule
from vibe_gate.secrets.scan import longest_keywords

V = "Zk39dkQ0" + "fkqP2mX7Aa"
AROUND = [
    "{}",
    'x = "{}"\n',
    "'{}',",
    "see ({}) there",
    "a={};b",
    "é{}é ",
    "+{}\n",
    '\\"{}\\"',
    "語 {}",
    "'prod_{}'",
]
ANYWHERE = {"aws-access-key-id", "age-secret-key", "anthropic-key", "github-token", "gitlab-token", "google-api-key",
            "npm-token", "pypi-token"}  # fmt: skip
NOT_BEHIND_A_NAME = {"discord-bot-token", "mailgun-key", "telegram-bot-token"}
KNOWN_FORMS = [rule for rule in RULES if rule.positive.startswith("say ")]


def kinds_in(text: str) -> list[str]:
    return [match.kind for match in find_secrets(text)]


def surroundings_of(rule: Rule) -> list[str]:
    """Where a secret of a known form is found; `{}` stands for it."""
    surroundings = list(AROUND)
    if rule.kind in NOT_BEHIND_A_NAME or rule.before or "w" in rule.border:
        surroundings.pop()
    if rule.kind in ANYWHERE and rule.border in ("", "A-Z2-7"):
        surroundings.append("'toolu{}'")
    return surroundings


def test_a_rule_finds_its_positive_sample_and_leaves_its_negative_alone(
    subtests: pytest.Subtests,
) -> None:
    for rule in RULES:
        with subtests.test(rule=rule.kind, keyword=rule.keywords[0]):
            assert kinds_in(filled(rule.positive)) == [rule.kind]
            assert find_secrets(rule.negative) == []


def test_a_known_form_is_found_whole_wherever_it_stands(subtests: pytest.Subtests) -> None:
    for rule in KNOWN_FORMS:
        sample = filled(rule.positive).removeprefix("say ")
        with subtests.test(rule=rule.kind, keyword=rule.keywords[0]):
            for form in surroundings_of(rule):
                text = form.format(sample)
                matches = [
                    (match.kind, text[match.start : match.end]) for match in find_secrets(text)
                ]
                assert matches == [(rule.kind, sample)], form


def test_a_secret_is_found_by_its_surroundings_without_them(subtests: pytest.Subtests) -> None:
    for sample in planted():
        with subtests.test(text=sample.text[:60]):
            (match,) = find_secrets(sample.text)
            assert (match.kind, sample.text[match.start : match.end]) == (
                sample.kind,
                sample.secret,
            )
            assert match.harmless == ""
            assert sample.secret not in sample.text[: match.start] + sample.text[match.end :]


def test_what_only_looks_like_a_secret_is_left_alone(subtests: pytest.Subtests) -> None:
    for text in lines("harmless.txt"):
        with subtests.test(text=text):
            assert find_secrets(text) == []


def test_what_is_made_to_be_published_is_no_secret(subtests: pytest.Subtests) -> None:
    for template in lines("published.txt"):
        with subtests.test(template=template):
            assert find_secrets(filled(template)) == []


def test_what_opens_nothing_stays_a_notice_under_a_secrets_name(subtests: pytest.Subtests) -> None:
    for line in lines("notices.txt"):
        reason, template = line.split("\t", 1)
        with subtests.test(template=template):
            assert [match.harmless for match in find_secrets(filled(template))] == [reason]


SECRET_NAMES = """
    TOKEN API_TOKEN tokenValue apiToken authtoken tokensecret token1 tokenString token_izer dbpassword DBPassword passwd
    passwordText PASSPHRASE passcode sudo_pass dbPass DBPass MYSQLPASS rootpass bypassToken compass_password PASS pass2
    user_pass secretkeybase clientSecret credential keystorepass apikey apiKeyValue SECRET_KEY_BASE OLDPWD
    widgetPass BarPass
    tokenizer_secret passportSecret"""
OTHER_NAMES = """
    tokenizer TOKENIZER tokenize tokenized_text tokenomics myTokenizer passport PASSPORT_NO passenger passive bypass
    plugin-bypass buypass Crc16Buypass compass_heading COMPASS Compass lowpass surpass secretary keyboard api_keyboard
    KEYCLOAK_TOKEN_LIFESPAN TOKEN_AUDIENCE tokenIssuer token_chars token_sha PASSWORD_ALPHABET"""
ORDINARY_VALUES = """
    meta-llama/Llama-3.1-8B-Instruct mistralai/Mixtral-8x7B-v0.1 org/name-1B api-v2.eu-west-1.corp42 PT12H30M15S
    P1Y2M10DT2H30M 0xdAC17F958D2ee523a2206206994597C13D831ec7 abcdefghijklmnopqrstuvwxyz0123456789
    ABCDEFGHJKLMNPQRSTUVWXYZ23456789 line_js_1.tokenize moduleV2.nextToken3 0.7.0-git.20231205a1b2 ^7.24.1-rc.3+build5
    2024-03-07T12:13:14Z 1h30m15s500ms /run/tokens/api_v2.txt https://auth.h.io/v2/t0ken9?a=1b2
    ghcr.io/org/token-service:1.12.3-rc1 token_service_1.module2.load3 args.enable_k8s_tokens_via_dns
    server-12.mail-34.a5
    _IMDSV2_SESSION_TOKEN_TTL oauth2client:secrets#ns pk_test_51Hq9xZb2"""


def assigned(name: str, value: str) -> list[str]:
    return [
        f'{name} = "{value}"',
        f"{name}: {value}\n",
        f"--{name} {value}\n",
        json.dumps(f'\n{name}="{value}"'),
    ]


def test_a_secrets_name_is_a_word_or_part_of_one() -> None:
    for name in SECRET_NAMES.split():
        for text in assigned(name, V):
            assert [match.value for match in find_secrets(text)] == [V], text


def test_other_names_and_ordinary_values_name_no_secret() -> None:
    pairs = [(name, V) for name in OTHER_NAMES.split()] + [
        ("TOKEN", value) for value in ORDINARY_VALUES.split()
    ]
    for name, value in pairs:
        for text in (*assigned(name, value), f"- name: {name}\n  value: {value}\n"):
            assert find_secrets(text) == [], text


RANDOM_VALUES = """
    xkqwzvbtrplmghtzqwnbvcxd XKQWZVBTRPLMGHTZQWNBVCXD qWeRtYuIoPaSdFgHjKlZ
    qWe/RtY/uIo/PaSd1FgHjKl aB3/dE5/fG7/hJ9k2m4n6p"""
"""Letters that nobody could say, or that change case; with slashes as base64 has them."""
SAYABLE_VALUES = """
    correcthorsebatterystaple getUserPasswordFromVault xkqwzxkqwzxkqwzxkqwzxkqwz xkqwzvbtrplmghtzqwn
    src/api/v2/tokens/load3x /aBcD/eFgH/iJkL/mNoP1qR"""


def test_letters_alone_and_with_slashes_are_random_or_words_and_paths() -> None:
    for value in RANDOM_VALUES.split():
        for text in assigned("password", value):
            assert [match.value for match in find_secrets(text)] == [value], text


def test_a_value_with_digits_is_random_unless_it_is_an_alphabet_or_made_of_names() -> None:
    for value in ("abcdefghi7x", "model-8x7b"):
        for text in assigned("password", value):
            assert find_secrets(text) == [], text
    for value in ("abcdefgh7x9", "aBcdef-8x7b-9x2b", "qpwo1kdqz2kdqpw3"):
        assert [match.value for match in find_secrets(f'password = "{value}"')] == [value]
    assert len(find_secrets("password = qpwo1kdqz2kdqpw3\n")) == 1  # five times to a digit and back


def test_words_and_paths_are_no_random_values() -> None:
    for value in SAYABLE_VALUES.split():
        for text in assigned("password", value):
            assert find_secrets(text) == [], text


def test_keys_are_known_by_their_providers_and_by_values_that_are_no_digest() -> None:
    digest, random = filled("{hex:32}"), filled("{word:12}7{word:2}4q8z{word:14}")
    for name in ("mapquest_key", "MAPQUEST_KEY", "mapquestKey", "new-relic-license-key"):
        assert [match.value for match in find_secrets(f'{name} = "{digest}"')] == [digest], name
    changing = "alpha1beta2gammadelta3x"  # six times from a letter to a digit or back
    for value in (random, changing):
        assert [match.value for match in find_secrets(f'blue_key = "{value}"')] == [value]
    for name, value in (
        ("cache_key", digest),
        ("blue_key", digest),
        ("public_key", random),
        ("key", digest),
        ("blue_key", changing[:-1]),
    ):
        assert find_secrets(f'{name} = "{value}"') == [], name


def test_what_needs_no_revoking_is_told_apart() -> None:
    harmless_by_text = {
        "AKIAIOSFODNN7EXAMPLE": "documented example", f"sk_test_{V}": "test key", f"sk_live_{V}": "",
        filled("AC{hex:32}"): "identifier",
    }  # fmt: skip
    assert {
        text: match.harmless for text in harmless_by_text for match in find_secrets(f"x {text}\n")
    } == harmless_by_text
    (pair,) = find_secrets(f"https://u:{V}sk_test_{V}@h.io/")
    assert not pair.harmless


@pytest.mark.parametrize(
    ("beside", "harmless"),
    [
        (V, ""),
        ("Zk39dQw0", ""),
        ("Zk39dQw", "test key"),
        ("2024-03-07T12:13:14Z", "test key"),
        ("eu-west-1", "test key"),
        (f"sk_test_{V}", "test key"),
    ],
)
def test_a_test_key_under_a_secrets_name_is_harmless_unless_a_random_value_stands_beside_it(
    beside: str, harmless: str
) -> None:
    for value in (f"sk_test_{V};{beside}", f"{beside};sk_test_{V}"):
        (match,) = find_secrets(f'api_secret = "{value}"')
        assert match.harmless == harmless, value


def test_a_mask_shows_four_characters_of_a_long_value_and_less_of_a_short_one() -> None:
    assert secrets.mask("ghp_0123456789abcdef") == "ghp_..."
    assert secrets.mask("abcdefgh") == "ab..."


def test_a_preview_has_what_all_secrets_of_a_form_begin_with() -> None:
    forms = {"sk_live_": "stripe-key", "glpat-": "gitlab-token", "wandb_v1_": "wandb-key"}
    assert [secrets.preview(kind, begin + V * 2) for begin, kind in forms.items()] == [
        f"{begin}..." for begin in forms
    ]
    assert secrets.preview("secret-assignment", V) == f"{V[:4]}..."
    assert (
        secrets.preview("aws-documented-key", "AKIAIOSFODNN7EXAMPLE") == "AKIA..."
    )  # never the most of a value


@pytest.mark.parametrize("mark", ["...", "…", "", "… and so on"])
@pytest.mark.parametrize("begun", ["ghp_{word:21}7", "sk-ant-{word:18}7", "AIza{word:21}7"])
def test_the_beginning_of_a_secret_that_a_limit_has_cut_is_found(begun: str, mark: str) -> None:
    (match,) = find_secrets(f"no {filled(begun)}{mark}")
    assert (match.start, match.end) == (3, 3 + len(filled(begun)))


SAMPLES = sorted(filled(rule.positive) for rule in RULES)


@given(st.text(), st.text(), st.sampled_from(SAMPLES))
def test_matches_are_in_order_apart_and_inside_the_text(
    before: str, after: str, sample: str
) -> None:
    text = f"{before} {sample} {after}"
    matches = find_secrets(text)
    ends = [0, *(match.end for match in matches)]
    assert matches
    assert all(
        end <= match.start < match.end <= len(text)
        for end, match in zip(ends, matches, strict=False)
    )


def values_found(text: str) -> set[tuple[str, str]]:
    """The kind and the value of each match."""
    return {(match.kind, text[match.start : match.end]) for match in find_secrets(text)}


def test_what_only_looks_like_a_secret_hides_none_after_it() -> None:
    for rule in RULES:
        lookalikes = f"{filled(rule.negative)} {rule.keywords[0]}"
        secret = f"\n{filled(rule.positive)}"
        assert values_found(lookalikes + secret) >= values_found(secret), rule


FIRST_KEYWORDS = list(dict.fromkeys(rule.keywords[0] for rule in RULES))
"""One of each rule: the same expression stands behind all of its keywords."""

HOSTILE_UNITS = [
    *dict.fromkeys(re.sub(r"\d", "7", keyword) + "7a" for keyword in FIRST_KEYWORDS),
    "eyJaaaaaaaaa.eyJ", "_eyJ", "token=", "token='", "password:", "://a:b", "a.", ".aaaaaa.", "M" * 27 + ".", "secret.secret",
    "curl -u ", "curl -u a:", "curl" + " " * 296, "machine a.b login ", "password>", "secret\u0130", "Bearer ", "Basic AAAA",
    "token='" + "a" * 30, "token='a\"", "token='a(a1b2c3", "a_key='a1", "pwd   ", '"private_key_id"   ', " ", "A", "token:a = ", "--token ", "value=", "name: a\nvalue: ",
    "set -x a ", "env a ", "token=&", "&a", "mysql -p ", "key, ", "--a", "...", "ghp_...", "=key-a1B2c3D4", "AccountKey=a1", "https://u:p@", "default login a password ",
]  # fmt: skip


def as_password(unit: str) -> Callable[[int], str]:
    """The `given` of `assert_linear` for text that is one unit over and over, behind a secret's
    name.
    """
    return lambda size: "password=" + repeated(unit)(size)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))  # for as many workers
def test_hostile_text_takes_no_more_than_linear_time(part: int, subtests: pytest.Subtests) -> None:
    for unit in FIRST_KEYWORDS[part::8]:
        with subtests.test(unit=unit):
            assert_linear(find_secrets, repeated(unit), 16_000)
    for unit in HOSTILE_UNITS[part::8]:
        with subtests.test(unit=unit):
            assert_linear(find_secrets, repeated(unit), 16_000)
            assert_linear(find_secrets, as_password(unit.strip() or "a"), 16_000)


KEYWORDS = sorted({keyword for rule in RULES for keyword in rule.keywords})


@given(st.lists(st.sampled_from(KEYWORDS) | st.text("s.A:_/'\" \n", max_size=3), max_size=12))
def test_the_keywords_of_a_long_text_are_those_that_stand_in_it(parts):
    text = "".join(parts)
    keywords = "\n".join(longest_keywords(text))
    assert [word for word in KEYWORDS if word in text and word not in keywords] == []


def test_a_secret_is_found_in_a_text_of_any_length():
    filler = "an ordinary line of words\n" * 3_000
    text = "\n".join(SAMPLES)
    assert len(values_found(text)) > len(KNOWN_FORMS)
    assert values_found(filler + text) >= values_found(text)
