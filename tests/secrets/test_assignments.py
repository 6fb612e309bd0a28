"""Values under a secret's name, in the words of many programs."""

# ruff: noqa: E501 - forms stand in rows

from __future__ import annotations

import json

import pytest
from growth import assert_linear

from vibe_gate.secrets import scan

V = "Zk39dkQ0" + "fkqP2mX7Aa"


@pytest.mark.parametrize(
    "text",
    [
        # a string that holds name and value
        f'      - "POSTGRES_PASSWORD={V}"', f"      - 'DB_PASSWORD={V}'", f'{{"Env": ["STRIPE_SECRET={V}", "A=b"]}}',
        f'docker run -e "API_TOKEN={V}" app', f"`API_TOKEN={V}`", f"(password={V})", f"<p>token={V}</p>", f"[token={V}]",
        f"| password={V}|", f"<https://h.io/?token={V}>", f"connect(password={V})",
        # an address' parameters
        f"https://h.io/?api_key={V}&a=1", f"/?a=1&api_key={V}&a=1", f"/?api_key={V}&amp;a=1",
        # as git quotes a name, and strings of JSON
        f'+++ "b/\\303\\251_api_key={V}"', json.dumps(f"x\napi_key={V}"), json.dumps(f"é_api_key={V}"),
        # pairs
        f"  - name: DB_PASSWORD\n    value: {V}\n", f'+  - name: DB_PASSWORD\n+    value: "{V}"\n',
        json.dumps(f"- name: DB_PASSWORD\n  value: {V}\n"), f'{{"name": "DB_PASSWORD", "value": "{V}"}}',
        f'<add key="password" value="{V}"/>', f'<property name="db.password" value="{V}"/>',
        f'{{name = "API_TOKEN", value = "{V}"}}', f'{{"key":"api_token","value":"{V}"}}',
        # options and commands
        f"mysql --password {V}", f"app --api-key '{V}'", f'["app", "--token", "{V}"]', f"ENV API_KEY {V}",
        f"setenv API_KEY {V}", f"set -gx API_TOKEN {V}", f'setx API_TOKEN "{V}"', f"mysql -u root -p{V} db",
        f"os.getenv('DB_PASSWORD', '{V}')", f'headers.set("X-Api-Token", "{V}")', f'config["secret"] = "{V}"',
        f"CREATE USER a IDENTIFIED BY '{V}';", f"ALTER USER a WITH PASSWORD '{V}';", f"h.io:5432:db:me:{V}",
        f"::add-mask::{V}",
    ],
)  # fmt: skip
def test_a_random_value_under_a_secrets_name_is_found_in_other_words(text: str) -> None:
    (match,) = scan.find(text)
    assert match.value == V
    assert V not in text[: match.start] + text[match.end :]


def test_an_ampersand_is_part_of_a_value_unless_a_parameter_begins() -> None:
    (match,) = scan.find(f"password={V}&9x; next")
    assert match.value == f"{V}&9x"


@pytest.mark.parametrize(
    "text",
    [
        '"AI_PASSIVE", "AI_V4MAPPED"', '("pass_two", "V4MAPPED_8Q2K")', '"--token-file /run/a1b2c3d4e5f6/x7"',
        "--- a/token 0a1b2c3d4e5f6a7b8c9d", "git rev-parse --key-count 3f8a9b0c1d2e4f5a6b7c", "- name: image\n  value: Zk39dkQ0fkqP2mX7Aa",
        "name: tokens\nvalue: 8f14e45fceea167a5a36dedd4bea2543", "the env variable a1b2c3d4e5f6g7h8i9", "set -e token", "offset token_a1b2c3d4e5",
        "?token=${TOKEN}&a=1", "?api_key=<your-key-0123456>&a=1", "(key=lambda row: row[0])", "sorted(rows, key=itemgetter_2b(0))",
        "f(token=self.config.auth_1.token_2)", "docker run -e \"API_TOKEN=$API_TOKEN_2\"", '<input name="password" value="{{ pass1 }}">',
        '<input name="page" value="8f14e45fceea167a">', "IDENTIFIED BY 'password'", "::add-mask::${{ steps.a.outputs.token }}",
        "::add-mask::the-token", "mysql -p database_name", "mysql --protocol=tcp", "localhost:5432:db:user:password",
        '"password": ["required", "min8chars"]', 'ENV PATH_TO_KEY /usr/lib/a1b2/c3d4', "secret 'is a word'",
    ],
)  # fmt: skip
def test_what_only_looks_like_it_is_not(text: str) -> None:
    assert scan.find(text) == []


@pytest.mark.parametrize(
    "name",
    [
        "TOKEN", "API_TOKEN", "tokenValue", "apiToken", "authtoken", "tokensecret", "token1", "tokenString", "token_izer",
        "dbpassword", "DBPassword", "passwd", "passwordText", "PASSPHRASE", "passcode", "sudo_pass", "dbPass", "DBPass", "MYSQLPASS", "rootpass",
        "bypassToken", "compass_password", "PASS", "pass2", "user_pass", "secretkeybase", "clientSecret", "credential", "keystorepass",
        "apikey", "apiKeyValue", "SECRET_KEY_BASE", "OLDPWD", "tokenizer_secret", "passportSecret",
    ],
)  # fmt: skip
def test_a_secrets_name_is_found_as_a_word_or_a_part_of_one(name: str) -> None:
    for text in (f'{name} = "{V}"', f"{name}: {V}\n", f"--{name} {V}\n", json.dumps(f'\n{name}="{V}"')):
        (match,) = scan.find(text)
        assert match.value == V


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer", "TOKENIZER", "tokenize", "tokenized_text", "tokenomics", "myTokenizer", "passport", "PASSPORT_NO", "passenger", "passive",
        "bypass", "plugin-bypass", "buypass", "Crc16Buypass", "compass_heading", "COMPASS", "Compass", "lowpass", "surpass", "secretary",
        "keyboard", "api_keyboard", "KEYCLOAK_TOKEN_LIFESPAN", "TOKEN_AUDIENCE", "tokenIssuer", "token_chars", "token_sha", "PASSWORD_ALPHABET",
    ],
)  # fmt: skip
def test_words_that_only_hold_a_secrets_name_name_none(name: str) -> None:
    for text in (f'{name} = "{V}"', f"{name}: {V}\n", f"--{name} {V}\n", f"- name: {name}\n  value: {V}\n"):
        assert scan.find(text) == []


@pytest.mark.parametrize(
    "value",
    [
        "meta-llama/Llama-3.1-8B-Instruct", "mistralai/Mixtral-8x7B-v0.1", "org/name-1B", "api-v2.eu-west-1.corp42", "PT12H30M15S", "P1Y2M10DT2H30M",
        "0xdAC17F958D2ee523a2206206994597C13D831ec7", "abcdefghijklmnopqrstuvwxyz0123456789", "ABCDEFGHJKLMNPQRSTUVWXYZ23456789", "line_js_1.tokenize",
        "moduleV2.nextToken3", "0.7.0-git.20231205a1b2", "^7.24.1-rc.3+build5", "2024-03-07T12:13:14Z", "1h30m15s500ms", "/run/tokens/api_v2.txt",
        "https://auth.h.io/v2/t0ken9?a=1b2", "ghcr.io/org/token-service:1.12.3-rc1", "token_service_1.module2.load3",
        "args.enable_k8s_tokens_via_dns", "_IMDSV2_SESSION_TOKEN_TTL", "oauth2client:secrets#ns", "pk_test_51Hq9xZb2",
    ],
)  # fmt: skip
def test_values_that_are_ordinary_are_no_secrets(value: str) -> None:
    for text in (f'TOKEN = "{value}"', f"token: {value}\n", f"--token {value}\n", f"- name: TOKEN\n  value: {value}\n"):
        assert scan.find(text) == []


@pytest.mark.parametrize(
    "value",
    [
        "0x" + "4f3edf983ac636a65a842ce7c78d9aa706d3b113bce9c46f30d7d21715b23b1d", "ab12-Qd93-Zk39dkQ0-fkqP2mX7", "wJalrXUtn7EMI/K7MDENG/bPx",
        "1000.8cb99dxxlq7e9b93.9b8xzpd8q9b2e7c5", "9Zk39dkQ0.fkqP2mX7Aa", "3f8a9b0c-1d2e4f5a-6b7c8d9e", "7Hq-meta-x9Kd02-Lw",
    ],
)  # fmt: skip
def test_values_that_have_an_ordinary_ones_marks_alone_are_still_found(value: str) -> None:
    assert [match.value for match in scan.find(f'token = "{value}"')] == [value]


@pytest.mark.parametrize(
    "unit",
    ["--token ", "value=", "name: a\nvalue: ", "set -x a ", "env a ", "token=&", "&a", "mysql -p ", "key, ", "--a"],
)
def test_hostile_text_is_read_in_linear_time(unit: str) -> None:
    assert_linear(scan.find, lambda size: unit * (size // len(unit)) + "\n", 200_000)
    assert_linear(scan.find, lambda size: "password=" + unit.strip() * (size // len(unit)), 200_000)
