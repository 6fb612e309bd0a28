"""Secrets in hex dumps, of which every line shows its bytes twice; and the passwords of a .netrc."""

from __future__ import annotations

import base64

import pytest

from vibe_gate.secrets.redaction import Redactor

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5"
VALUE = "s3cr3tValue-9f8e7d6c5b4a-xyz"
DATA = f"token = {TOKEN}\nand then {VALUE} end of it\n".encode()


def dump(width: int, between: str, edges: str, offset: str) -> str:
    """DATA as `xxd`, `hexdump -C` or `od -A x -t x1z` prints it; `width` bytes a group."""
    lines = []
    for start in range(0, len(DATA), 16):
        row = DATA[start : start + 16]
        groups = between.join(row[at : at + width].hex() for at in range(0, len(row), width))
        text = "".join(chr(code) if 32 <= code < 127 else "." for code in row)
        lines.append(f"{start:{offset}} {groups:<40}  {edges[:1]}{text}{edges[1:]}\n")
    return "".join(lines)


@pytest.mark.parametrize("prefix", ["", "+"])
@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{line[:8]}:{line[8:]}" for line in dump(2, " ", "", "08x").splitlines(keepends=True)),
        "".join(f"{line[:8]}:{line[8:]}" for line in dump(1, " ", "", "08x").splitlines(keepends=True)),
        dump(1, " ", "||", "08x"),
        dump(1, " ", "><", "06x"),
    ],
)
def test_a_dump_shows_no_part_of_a_secret_in_either_column(text: str, prefix: str) -> None:
    shown = "".join(f"{prefix}{line}" for line in text.splitlines(keepends=True))
    found = Redactor({"API_TOKEN": VALUE}).text(shown)
    assert "[redacted:github-token:" in found
    assert "[redacted:environment:" in found
    for secret in (TOKEN, VALUE):
        for start in range(len(secret) - 5):
            piece = secret[start : start + 6]
            assert piece not in found
            assert piece.encode().hex(" ") not in found


@pytest.mark.parametrize(
    "text",
    [
        "machine api.example.com login bob password {}\n",
        "machine api.example.com password {}\n",
        "machine api.example.com\n  login bob\n  account eu\n  password {}\n",
        "default login bob password {}\n",
        'default\n\tlogin bob\n\tpassword "{}"\n',
    ],
)
def test_a_password_of_a_netrc_is_redacted(text: str) -> None:
    assert "Tr0ub4dor-x9Qz" not in Redactor({}).text(text.format("Tr0ub4dor-x9Qz"))


@pytest.mark.parametrize(
    "text",
    [
        "the default login form password reset\n",
        "machine learning password strength\n",
        "00000000: 7368 6f72 7420 7465 7874 2074 6f20 6c6f  short text to lo\n",
    ],
)
def test_prose_and_harmless_dumps_stay(text: str) -> None:
    assert Redactor({}).text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        TOKEN.replace("_", "\\_"), TOKEN.replace("_", "&lowbar;"), "%u0067" + TOKEN[1:], TOKEN.replace("_", "=5F"),
        TOKEN[:9] + "\\e[31m" + TOKEN[9:], TOKEN[:9] + "\\033[31m" + TOKEN[9:],
    ],
)  # fmt: skip
def test_what_markdown_html_and_mail_put_into_a_token_is_taken_off(text: str) -> None:
    assert Redactor({}).text(f"say {text} now").startswith("say [redacted:github-token:")
    assert Redactor({}).text(f"say {text} now").endswith("] now")


def test_a_key_id_alone_in_base64_is_found() -> None:
    coded = base64.b64encode(b"AK" + b"IA4RTZ7MBX2LQWVN5D").decode()
    assert Redactor({}).text(f"  AWS_ACCESS_KEY_ID: {coded}\n").startswith("  AWS_ACCESS_KEY_ID: [redacted:")
