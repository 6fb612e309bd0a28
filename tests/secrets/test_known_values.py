"""Known values: what of an environment is searched for. Samples are put together at run time."""

# ruff: noqa: E501 - names stand in rows

from __future__ import annotations

import base64
import json
import re

import pytest
from growth import assert_linear

from vibe_gate.secrets import Redactor

SECRET = "Zq8vT3rW" + "m1KxP0dL"
OTHER = "QWErty45" + "6uio-x9"
KEY_LINES = [
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + f"BKcwggSjAgE{number:05d}xQC7" for number in range(20)
]
PEM = (
    "-----BEGIN "
    + "PRIVATE KEY-----\n"
    + "\n".join(KEY_LINES)
    + "\n-----END "
    + "PRIVATE KEY-----\n"
)


def is_known(text: str, environ: dict[str, str]) -> bool:
    return Redactor(environ).text(f"<{text}>").startswith("<[redacted:environment:")


SECRET_NAMES = """
    DB_PASS SMTP_PASS MYSQL_PASS PASS PGPASS DB_PASS_2 DB_PW PW JWT SESSION_JWT AUTHORIZATION AUTH_HEADER AUTH_VALUE
    BASIC_AUTH_USERPASS CONNECTION_STRING AZURE_CONN_STR AzureConnectionString AZURE_SAS KUBE_BEARER VAULT_PIN SALT
    WEBHOOK_SIGNATURE MY_TOKEN db_pass GIT_PSW NEXUS_CREDS_PSW MY_CREDS DB_PWD_PROD WALLET_MNEMONIC HTTP_BASIC OTP_SEED
    KUBECONFIG_DATA GH_PAT SESSION_ID ANTHROPIC_AUTH_TOKEN"""


def test_a_secrets_name_makes_its_value_known() -> None:
    assert [name for name in SECRET_NAMES.split() if not is_known(SECRET, {name: SECRET})] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DB_PASSWORD", "correct horse"), ("SENTRY_DSN", "https://abc@sentry.internal/1"),
        ("WALLET_MNEMONIC", "witch collapse practice feed"), ("ANTHROPIC_AUTH_TOKEN", "plain-words-only"),
    ],
)  # fmt: skip
def test_a_value_under_a_secrets_name_need_not_look_random(name: str, value: str) -> None:
    assert is_known(value, {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COMPASS", SECRET), ("CI_BYPASS", SECRET), ("GIT_AUTHOR_NAME", "Ada Lovelace 2nd"), ("SPIN", SECRET),
        ("AUTHOR", "someone-else1"), ("AUTH_MODE", "oauth2-client"), ("AUTH_URL", "https://auth7.internal/oauth2/token9"),
        ("JWT_ISSUER", "https://issuer.internal/a1b2c3"), ("JWT_ALGORITHM", "HS256-then-RS256"),
        ("PASS_THROUGH", "everything"), ("PIN_BASE_URL", "https://pin.internal"), ("GPG_TTY", "/dev/pts/1234"),
        ("SSH_AUTH_SOCK", "/run/user/1000/x9y8z7"), ("SECRET_NAME", SECRET), ("TOKEN_FILE", SECRET), ("PASSENGERS", "Ada12345"),
        ("RANDOM_SEED", "20240101"), ("PRE_COMMIT_HOOK", "pre-commit"), ("KUBECONFIG", "/home/x/.kube/config.yaml"),
        ("CLAUDE_CODE_SESSION_ID", SECRET), ("SHORT_KEY", "abc1234"), ("SOME_TOKEN", "password"), ("KEYBOARD_LAYOUT", "de-latin1-nodead"),
        ("PWD", "/home/ada/project"), ("TLS_KEY", "/etc/ssl/private.pem"), ("MAX_THINKING_TOKENS", "1024010240"),
    ],
)  # fmt: skip
def test_another_name_or_a_plain_value_is_left_alone(name: str, value: str) -> None:
    assert Redactor({name: value}).text(f"<{value}>") == f"<{value}>"


@pytest.mark.parametrize(
    "value",
    [
        f"{SECRET}\n", f"  {SECRET}\r\n", f'"{SECRET}"', f"'{SECRET}'\n", f'"{SECRET}\n"', f"Bearer {SECRET}",
        f"bearer  {SECRET}\n", f'"Bearer {SECRET}"', f"Authorization: Bearer {SECRET}", f"token {SECRET}",
        "Basic " + base64.b64encode(f"ada:{SECRET}".encode()).decode(),
        json.dumps({"user": "bob", "password": SECRET}),
        json.dumps({"a": [{"b": SECRET}], "url": "https://a.internal/x7"}, indent=1),
        base64.b64encode(json.dumps({"auth": {"password": SECRET}}).encode()).decode(),
        f"{SECRET}\n{OTHER}\n", f"{SECRET}\r\n{OTHER}",
        f"Server=a;Password={SECRET};Database=b",
        f"https://a.internal/c?sv=2020-01-01&sig={SECRET}&se=1",
        f"A=1\nexport DB_PASS='{SECRET}'\nB=2\n",
        f"postgres://ada:{SECRET}@db.internal/app",
    ],
)  # fmt: skip
def test_a_secret_is_known_without_what_it_is_wrapped_in(value: str) -> None:
    assert is_known(SECRET, {"A_CREDENTIALS": value})
    for harmless in ("bob and more", "Server=a", "2020-01-01"):
        assert not is_known(harmless, {"A_CREDENTIALS": value})


@pytest.mark.parametrize(
    "value", [PEM, json.dumps({"type": "service_account", "private_key": PEM})]
)
@pytest.mark.parametrize("between", ["\n+", "\r\n", "\n    ", "\\n", "\n12: "])
def test_every_line_of_a_value_is_found_whatever_stands_between_them(
    value: str, between: str
) -> None:
    redacted = Redactor({"MY_SECRET": value}).text("+" + between.join(KEY_LINES) + "\nnext\n")
    assert not [line for line in KEY_LINES if line in redacted]
    assert redacted.endswith("]\nnext\n")


def test_a_line_of_words_or_of_a_frame_is_no_secret() -> None:
    redactor = Redactor(
        {"A_SECRET": "this is the first line\n-----BEGIN THING 12345-----\nsome more words here\n"}
    )
    for line in ("this is the first line", "-----BEGIN THING 12345-----", "some more words here"):
        assert redactor.text(f"<{line}>") == f"<{line}>"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("DATABASE_URL", "postgres://ada:{}@db.internal:5432/app"),
        ("REDIS_URL", "redis://:{}@cache.internal/0"),
        ("HTTPS_PROXY", "http://ada:{}@proxy.internal:3128"),
    ],
)
def test_the_password_of_an_address_in_the_environment_goes_alone(name: str, address: str) -> None:
    redactor = Redactor({name: address.format("wLt3%21xRbq9")})
    redacted = redactor.text(
        "login with wLt3!xRbq9 failed, wLt3%21xRbq9 sent to db.internal for ada"
    )
    assert "wLt3" not in redacted
    assert redacted.endswith(" sent to db.internal for ada")


@pytest.mark.parametrize("password", ["postgres", "Postgres", "internal", "development"])
def test_a_word_that_is_the_password_of_an_address_is_left_alone(password: str) -> None:
    redactor = Redactor({"DATABASE_URL": f"postgres://postgres:{password}@db.internal/app"})
    assert redactor.text(f"a {password} here") == f"a {password} here"


@pytest.mark.slow
def test_a_huge_or_deep_value_costs_little() -> None:
    def environ(size: int) -> dict[str, str]:
        return {
            "A_KEY": "[" * size,
            "B_KEY": json.dumps([f"{SECRET}{number}" for number in range(size // 5)]),
            "C_KEY": "".join(f"{SECRET}{number}\n" for number in range(size // 5)),
            "D_KEY": "a=" * size,
        }

    assert_linear(Redactor, environ, 100_000)


@pytest.mark.parametrize(
    ("value", "text", "remainder"),
    [
        (f"{SECRET}\\", f"a {SECRET}\\nb c", "a |b c"),
        (f"{SECRET}\\", f"a {SECRET}\\u00e9b c", "a |b c"),
        (f"{SECRET}\\\\", f"a {SECRET}\\\\nb c", "a |nb c"),
        (f"n{SECRET}", f"a\\n{SECRET} c", "a| c"),
        (f"n{SECRET}", f"a\\\\n{SECRET} c", "a\\\\| c"),
        (f"0{SECRET}", f"a\\u00e0{SECRET} c", "a| c"),
        (f"u00e0{SECRET}", f"a\\u00e0{SECRET} c", "a| c"),
    ],
)
def test_an_escape_that_a_value_is_a_part_of_goes_with_it(
    value: str, text: str, remainder: str
) -> None:
    redacted = Redactor({"A_TOKEN": value}).text(text)
    assert re.sub(r"\[redacted:environment:\w+\]", "|", redacted) == remainder
