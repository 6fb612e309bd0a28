"""Known values: what of an environment is searched for. Samples are put together at run time."""

from __future__ import annotations

import base64
import json

import pytest
from growth import assert_linear

from vibe_gate.secrets.known_values import known_values

SECRET = "Zq8vT3rW" + "m1KxP0dL"
OTHER = "QWErty45" + "6uio-x9"
KEY_LINES = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + f"BKcwggSjAgE{number:05d}xQC7" for number in range(20)]
PEM = "-----BEGIN " + "PRIVATE KEY-----\n" + "\n".join(KEY_LINES) + "\n-----END " + "PRIVATE KEY-----\n"


def known(environ: dict[str, str]) -> set[str]:
    return {value.text for value in known_values(environ)}


@pytest.mark.parametrize(
    "name",
    [
        "DB_PASS", "SMTP_PASS", "MYSQL_PASS", "PASS", "PGPASS", "DB_PASS_2", "DB_PW", "PW", "JWT", "SESSION_JWT",
        "AUTHORIZATION", "AUTH_HEADER", "AUTH_VALUE", "BASIC_AUTH_USERPASS", "CONNECTION_STRING", "AZURE_CONN_STR",
        "AzureConnectionString", "AZURE_SAS", "KUBE_BEARER", "VAULT_PIN", "SALT", "WEBHOOK_SIGNATURE", "MY_TOKEN",
        "db_pass",
    ],
)  # fmt: skip
def test_a_secrets_name_makes_its_value_known(name: str) -> None:
    assert known({name: SECRET}) == {SECRET}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COMPASS", SECRET), ("CI_BYPASS", SECRET), ("GIT_AUTHOR_NAME", "Ada Lovelace 2nd"),
        ("AUTHOR", "someone-else1"), ("AUTH_MODE", "oauth2-client"), ("AUTH_URL", "https://auth7.internal/oauth2/token9"),
        ("JWT_ISSUER", "https://issuer.internal/a1b2c3"), ("JWT_ALGORITHM", "HS256-then-RS256"),
        ("PASS_THROUGH", "everything"),
        ("SPIN", SECRET), ("PIN_BASE_URL", "https://pin.internal"), ("GPG_TTY", "/dev/pts/1234"),
        ("PASSENGERS", "Ada12345"),
        ("SSH_AUTH_SOCK", "/run/user/1000/x9y8z7"), ("SECRET_NAME", SECRET), ("TOKEN_FILE", SECRET),
    ],
)  # fmt: skip
def test_another_name_or_a_plain_value_is_left_alone(name: str, value: str) -> None:
    assert known({name: value}) == set()


@pytest.mark.parametrize(
    "value",
    [
        f"{SECRET}\n", f"  {SECRET}\r\n", f'"{SECRET}"', f"'{SECRET}'\n", f'"{SECRET}\n"', f"Bearer {SECRET}",
        f"bearer  {SECRET}\n", f'"Bearer {SECRET}"', f"Authorization: Bearer {SECRET}", f"token {SECRET}",
    ],
)  # fmt: skip
def test_a_value_is_known_without_what_it_is_wrapped_in(value: str) -> None:
    assert known({"MY_TOKEN": value}) == {SECRET}


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("Basic " + base64.b64encode(f"ada:{SECRET}".encode()).decode(), {SECRET}),
        (json.dumps({"user": "bob", "password": SECRET}), {SECRET}),
        (json.dumps({"a": [{"b": SECRET}], "url": "https://a.internal/x7"}, indent=1), {SECRET}),
        (json.dumps({"type": "service_account", "private_key": PEM, "mail": "a1b2@c3.internal"}), set(KEY_LINES)),
        (base64.b64encode(json.dumps({"auth": {"password": SECRET}}).encode()).decode(), {SECRET}),
        (f"{SECRET}\n{OTHER}\n", {SECRET, OTHER}),
        (f"{SECRET}\r\n{OTHER}", {SECRET, OTHER}),
        (PEM, set(KEY_LINES)),
        (f"Server=a;Password={SECRET};Database=b", {SECRET}),
        (f"https://a.internal/c?sv=2020-01-01&sig={SECRET}&se=1", {SECRET}),
        (f"A=1\nexport DB_PASS='{SECRET}'\nB=2\n", {SECRET}),
        (f"postgres://ada:{SECRET}@db.internal/app", {SECRET}),
    ],
)
def test_the_secrets_inside_of_a_value_are_known_too(value: str, parts: set[str]) -> None:
    found = known({"A_CREDENTIALS": value})
    assert parts <= found
    assert not {"bob", "service_account", "a1b2@c3.internal", "Server=a", "2020-01-01"} & found


def test_a_line_of_words_or_of_a_frame_is_no_secret() -> None:
    assert known({"A_SECRET": "this is the first line\n-----BEGIN THING 12345-----\nsome more words here\n"}) == {
        "this is the first line\n-----BEGIN THING 12345-----\nsome more words here"
    }


def test_a_huge_or_deep_value_costs_little_and_gives_a_bounded_number() -> None:
    def environ(size: int) -> dict[str, str]:
        return {
            "A_KEY": "[" * size,
            "B_KEY": json.dumps([f"{SECRET}{number}" for number in range(size // 5)]),
            "C_KEY": "".join(f"{SECRET}{number}\n" for number in range(size // 5)),
            "D_KEY": "a=" * size,
        }

    assert len(known(environ(100_000))) < 500
    assert_linear(known, environ, 100_000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_PSW", "a1B2c3D4e5"), ("NEXUS_CREDS_PSW", "a1B2c3D4e5"), ("MY_CREDS", "a1B2c3D4e5"),
        ("DB_PWD_PROD", "a1B2c3D4e5"),
        ("WALLET_MNEMONIC", "witch collapse practice feed"), ("HTTP_BASIC", "a1B2c3D4e5qw"),
        ("OTP_SEED", "JBSWY3DPEHPK3PXP"),
        ("KUBECONFIG_DATA", "a1B2c3D4e5f"), ("SLACK_HOOK", "https://h.io/a1B2c3D4"),
    ],
)  # fmt: skip
def test_names_of_ci_and_of_wallets_are_known(name: str, value: str) -> None:
    assert value in [one.text for one in known_values({name: value})]


@pytest.mark.parametrize(
    ("name", "value"),
    [("RANDOM_SEED", "20240101"), ("PRE_COMMIT_HOOK", "pre-commit"), ("KUBECONFIG", "/home/x/.kube/config.yaml")],
)
def test_names_that_are_near_a_secrets_are_not(name: str, value: str) -> None:
    assert known_values({name: value}) == []
