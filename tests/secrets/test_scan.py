"""Secrets in text. Samples are put together at run time, so that no scanner finds one in this file."""

from __future__ import annotations

import json
import random
import string

import pytest
from growth import assert_linear, repeated
from hypothesis import given
from hypothesis import strategies as st

from vibe_gate.secrets import scan

_RANDOM = random.Random(7)


def _run(alphabet: str, length: int) -> str:
    return "".join(_RANDOM.choice(alphabet) for _ in range(length))


WORD = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"
UUID = "-".join(_run(HEX, n) for n in (8, 4, 4, 4, 12))
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + "\n".join(_run(WORD + "+/", 64) for _ in range(6))
PEM_END = "\n-----END RSA PRIVATE KEY-----"
PGP = "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n\nVersion: 1\n" + _run(WORD, 64) + "\n" + _run(WORD, 64)

SAMPLES = {
    "aws-access-key-id": "AK" + "IA" + _run(UPPER, 16),
    "github-token": "gh" + "p_" + _run(WORD, 36),
    "gitlab-token": "gl" + "pat-" + _run(WORD, 20),
    "slack-token": "xo" + "xb-" + _run(string.digits, 12) + "-" + _run(WORD, 24),
    "stripe-key": "sk_" + "live_" + _run(WORD, 24),
    "stripe-webhook-secret": "wh" + "sec_" + _run(WORD, 32),
    "google-api-key": "AI" + "za" + _run(WORD, 35),
    "google-oauth-secret": "GOC" + "SPX-" + _run(WORD, 28),
    "anthropic-key": "sk-" + "ant-api03-" + _run(WORD, 80) + "-AA",
    "openai-key": "sk-" + "proj-" + _run(WORD, 48),
    "npm-token": "np" + "m_" + _run(WORD, 36),
    "pypi-token": "pypi-" + "AgEIcHlwaS5vcmc" + _run(WORD, 80),
    "twilio-key": "S" + "K" + _run(HEX, 32),
    "sendgrid-key": "S" + "G." + _run(WORD, 22) + "." + _run(WORD, 43),
    "jwt": "ey" + "J" + _run(WORD, 30) + ".eyJ" + _run(WORD, 60) + "." + _run(WORD, 43),
    "private-key": PEM + PEM_END,
    "heroku-key": "HR" + "KU-" + _run(WORD, 60),
    "digitalocean-token": "do" + "p_v1_" + _run(HEX, 64),
    "telegram-bot-token": _run("123456789", 8) + ":A" + "A" + _run(WORD, 33),
    "discord-bot-token": "M" + _run(WORD, 25) + "." + _run(WORD, 6) + "." + _run(WORD, 38),
    "discord-webhook": "/api/web" + "hooks/" + _run(string.digits, 18) + "/" + _run(WORD, 68),
    "hugging-face-token": "h" + "f_" + _run(string.ascii_letters, 34),
    "databricks-token": "da" + "pi" + _run(HEX, 32),
    "shopify-token": "shp" + "at_" + _run(HEX, 32),
    "mailgun-key": "ke" + "y-" + _run(HEX, 32),
    "vault-token": "hv" + "s." + _run(WORD, 24),
    "age-secret-key": "AGE-SECRET-" + "KEY-1" + _run(string.ascii_uppercase, 58),
    "grafana-token": "gl" + "sa_" + _run(WORD, 32) + "_" + _run(HEX, 8),
    "linear-key": "lin_" + "api_" + _run(WORD, 40),
    "groq-key": "gs" + "k_" + _run(WORD, 52),
}


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize(
    "around", ["{}", 'x = "{}"\n', "'{}',", "see ({}) there", "a={};b", "é{}é ", "+{}\n", '\\"{}\\"']
)
def test_a_known_format_is_found_whole_wherever_it_stands(kind: str, around: str) -> None:
    text = around.format(SAMPLES[kind])
    assert [(m.kind, text[m.start : m.end]) for m in scan.find(text)] == [(kind, SAMPLES[kind])]


@pytest.mark.parametrize("kind", sorted(SAMPLES.keys() - {"discord-bot-token", "mailgun-key", "telegram-bot-token"}))
def test_a_known_format_is_found_behind_a_name_that_ends_with_an_underscore(kind: str) -> None:
    text = f"'prod_{SAMPLES[kind]}'"
    assert [(m.kind, text[m.start : m.end]) for m in scan.find(text)] == [(kind, SAMPLES[kind])]


@pytest.mark.parametrize(
    "kind",
    [
        "aws-access-key-id",
        "age-secret-key",
        "anthropic-key",
        "github-token",
        "gitlab-token",
        "google-api-key",
        "npm-token",
        "pypi-token",
    ],
)
def test_a_format_of_one_length_is_found_behind_letters(kind: str) -> None:
    text = f"'toolu{SAMPLES[kind]}'"
    assert [(m.kind, text[m.start : m.end]) for m in scan.find(text)] == [(kind, SAMPLES[kind])]


@pytest.mark.parametrize("text", ["disk-ant-colony-optimisation-of-routes-2", "cache_key-" + "0f" * 16])
def test_the_end_of_a_word_leads_to_no_known_format(text: str) -> None:
    assert scan.find(text) == []


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("github-token", "{}", "github_" + "pat_" + _run(WORD, 22) + "_" + _run(WORD, 59)),
        ("github-token", "https://{}@github.com/a/b", "gh" + "s_" + _run(WORD, 36)),
        (
            "slack-webhook",
            "https://{}",
            "hooks." + "slack.com/services/T" + _run(UPPER, 8) + "/B" + _run(UPPER, 8) + "/x",
        ),
        ("gcp-service-account", '"private_' + 'key_id": "{}"', _run(HEX, 40)),
        ("azure-storage-key", "AccountName=a;Account" + "Key={};EndpointSuffix=b", _run(WORD + "+/", 86) + "=="),
        ("aws-secret-key", "aws_secret_" + 'access_key = "{}"', _run(WORD + "+/", 40)),
        ("aws-secret-key", "AWS_SECRET_" + "ACCESS_KEY={}\n", _run(WORD, 40)),
        ("heroku-key", "HEROKU_API_" + "KEY={}\n", UUID),
        ("secret-assignment", 'password = "{}"', "hT7" + "kq!zP9w"),
        ("secret-assignment", "DB_PASSWORD='{}'", "s3cr" + "eTv4lu3Q"),
        ("secret-assignment", '"clientSecret": "{}",', _run(WORD, 24) + "7"),
        ("secret-assignment", "  api_key: {}\n", _run(WORD, 32) + "7"),
        ("secret-assignment", 'const token: string = "{}"', _run(WORD, 32) + "7"),
        ("secret-assignment", 'auth_token := "{}"', _run(WORD, 32) + "7"),
        ("secret-assignment", '{{\\"api_key\\": \\"{}\\"}}', _run(WORD, 32) + "7"),
        ("url-password", "postgres://app:{}@db7.internal:5432/app", "q8Z" + "vv2Lm"),
        ("secret-assignment", "DB_PASS='{}'", "q8Z" + "vv2LmQ1"),
        ("secret-assignment", 'session_token = "{}"', _run(WORD, 900) + "7"),
        ("secret-assignment", "aws_session_token = {}\n", _run(WORD, 900) + "7"),
        ("bearer-token", "Authorization: Bearer {}\n", _run(HEX, 40) + "7"),
        ("basic-auth", "authorization: Basic {}\n", "YWRtaW46U3Vw" + "M3JTM2NyZXQh"),
        ("url-password", "redis://:{}@cache.internal/0", "q8Z" + "vv2Lm"),
        ("private-key", 'key = "{}"', PEM.replace("\n", "\\n") + "\\n-----END RSA PRIVATE KEY-----"),
        ("private-key", "{}\n", PGP),
        ("basic-auth", "curl -s -u ada:{} https://api.internal/", "q8Z" + "vv2Lm"),
        ("basic-auth", 'curl --user "ada:{}" https://api.internal/', "q8Z" + "vv2Lm"),
        ("basic-auth", '["curl", "-u", "ada:{}", "https://api.internal/"]', "q8Z" + "vv2Lm"),
        ("secret-assignment", "machine api.internal login ada password {}\n", "q8Z" + "vv2Lm"),
        ("secret-assignment", "machine api.internal\n  login ada\n  password {}\n", "q8Z" + "vv2Lm"),
        ("secret-assignment", "<password>{}</password>", "q8Z" + "vv2Lm"),
        ("secret-assignment", "<proxyPassword>{}</proxyPassword>", "q8Z" + "vv2Lm"),
    ],
)
def test_a_secret_is_found_by_its_surroundings(kind: str, text: str, value: str) -> None:
    text = text.format(value)
    found = [(m.kind, text[m.start : m.end].strip('\\"\n')) for m in scan.find(text)]
    assert found == [(kind, value)]


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "IOSFODNN7EXAMPLE",
        'aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"',
        "sk-ant-" + "x" * 40,
        "ghp_" + "x" * 36,
        'api_key = "your-key-here-1234567890"',
        'api_key = "<your api key 12345>"',
        'token = "${GITHUB_TOKEN_1}"',
        "token: ${{ scan.GITHUB_TOKEN }}",
        "const apiKey = process.env.API_KEY_2;",
        'password = os.environ["DB_PASSWORD_1"]',
        "token = get_next_token(stream, position=10)",
        "token = parser.next_token",
        "def sign(private_key: ed25519.Ed25519PrivateKey, data: bytes)",
        "token == 'abcDEF123456789'",
        "secretName: my-app-secret-2",
        'token_url = "https://auth7.internal/oauth2/token"',
        '"password": "password123"',
        'token_id = "8f14e45fceea167a5a36dedd4bea2543"',
        "password: changeme123456789",
        "task-" + "a1b2c3d4e5f6a7b8c9d0e1f2",
        "postgres://postgres:postgres@localhost/db",
        "https://user:password@example.com/",
        "http://user:pass%20pass@complex.url.com/",
        "http://foo:bar@host.net/",
        "http://&a:foo(b]c@d:2/",
        "https://jo%40email.com:a%20secret@muller.de:1234/pa%20th",
        "Authorization: Basic dXNlcjpwYXNzd29yZDEyMw==",
        "Authorization: Basic dGVzdDp0ZXN0",
        "https://${USER}:${PASS}@host/",
        "http://127.0.0.1:8080/@x",
        "ssh://git@github.com:22/a/b",
        "-----BEGIN PUBLIC KEY-----\n" + "A" * 64 + "\n",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "tokens = [1234567890, 2345678901]",
        "curl -u user:password https://a.internal/",
        'curl -u "$USER:$PASSWORD" https://a.internal/',
        "docker run -u 1000:1000 image",
        "sort -u name:value",
        "this machine needs login and password stored",
        "<password>${env.PASSWORD}</password>",
        "<label>Password</label>",
        '"ephemeral_1h_input_tokens": usage.cache_write_1h,',
        "integrity sha512-" + "Zm9vYmFyYmF6" * 7,
        "Authorization: Bearer your_token_here_1234567890",
        "Bearer authentication-is-required-here",
        "Basic understanding1234",
        "if passed == 1: compass = 'north-west-1234'",
        "pass_context = jinja2.pass_context",
        "commit 8f14e45fceea167a5a36dedd4bea25438f14e45f",
        "password = [redacted:secret-assignment:0a1b2c3d]",
        "eyJhbGciOiJIUzI1NiJ9",
        "NFKSK0123456789abcdef0123456789abcdef",
        "def test_" + "github_" + "pat_is_not_shown_in_logs_when_push_fails():",
        "MKTAYIAKQRQIS" + "AKIA" + "KTFRYVGIAEPAKTRE",
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(text: str) -> None:
    assert scan.find(text) == []


def test_there_are_more_than_twenty_kinds_and_each_sample_is_one() -> None:
    assert len(scan.kinds()) > 30
    assert set(SAMPLES) <= scan.kinds()


def test_a_removed_private_key_in_a_patch_is_found_to_its_end() -> None:
    patch = "".join(f"-{line}\n" for line in (PEM + PEM_END).split("\n"))
    (match,) = scan.find(patch)
    assert patch[match.end :] == "\n"


def test_a_mask_shows_four_characters_of_a_long_value_and_less_of_a_short_one() -> None:
    assert scan.mask("ghp_0123456789abcdef") == "ghp_..."
    assert scan.mask("abcdefgh") == "ab..."


@given(st.text(), st.text(), st.sampled_from(sorted(SAMPLES.values())))
def test_matches_are_in_order_apart_and_inside_the_text(before: str, after: str, sample: str) -> None:
    text = f"{before} {sample} {after}"
    found = scan.find(text)
    ends = [0, *(m.end for m in found)]
    assert found
    assert all(end <= m.start < m.end <= len(text) for end, m in zip(ends, found, strict=False))


@pytest.mark.parametrize(
    "unit",
    [
        "ey" + "J", "eyJaaaaaaaaa.eyJ", "sk-" + "ant-", "-----BEGIN " + "PRIVATE KEY-----", "token=", "token='",
        "password:", "://",
        "://a:b", "a.", ".aaaaaa.", "M" * 27 + ".", "-----BEGIN PRIVATE KEY-----\nA: b\n", "secret.secret",
        "-----BEGIN PRIVATE KEY-----\n\n", "-----BEGIN PRIVATE KEY-----\n" + ("k:" + "aB3/" * 16 + "\n") * 9,
        "k:" + "aB3/" * 16 + "\n", ("k:" + "aB3/" * 16 + "\n") * 9 + "-----END PRIVATE KEY-----\n",
        "curl -u ", "curl -u a:", "machine a.b login ", "password>", "-u",
        "-----END " + "PRIVATE KEY-----\n", "-----END " + "PRIVATE KEY-----" + "x" * 5000,
        "-----BEGIN " + "PRIVATE KEY-----\\n" + ("<li>" + "aB3/x7Q" * 9 + "</li>") * 9,
        "<li>" + "aB3/x7Q" * 9 + "</li>", ("<li>" + "aB3/x7Q" * 9 + "</li>") * 99 + "-----END " + "PRIVATE KEY-----",
        "SG.", ":AA", "gh" + "p_",
        "secret\u0130",
        "Bearer ", "Basic AAAA", "token='" + "a" * 30,
        "pwd   ", "xox" + "b-", '"private_key_id"   ', " ", "A", "token:a = ",
    ],
)  # fmt: skip
def test_hostile_text_takes_no_more_than_linear_time(unit: str) -> None:
    assert_linear(scan.find, repeated(unit), 500_000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            "@@ -3,2 +3,2 @@ {0}\n {0}\n {0}\n -----END RSA PRIVATE " + "KEY-----\n+after\n",
            "{0}\n {0}\n {0}\n -----END",
        ),
        ("  12  3  |{0}\n  13  4  |{0}\n  14  5  |-----END PRIVATE " + "KEY-----", "{0}\n  13  4  |{0}\n"),
        ("x = 1\n{0}\n-----END PRIVATE " + "KEY-----", "{0}\n-----END"),
    ],
)
def test_the_rest_of_a_private_key_is_found_from_its_end(text: str, value: str) -> None:
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
    text = text.format(line)
    (match,) = scan.find(text)
    assert match.kind == "private-key"
    assert text[match.start : match.end].startswith(value.format(line))


@pytest.mark.parametrize("mark", ["...", "…", "", "… and so on"])
@pytest.mark.parametrize("kind", ["github-token", "anthropic-key", "google-api-key"])
def test_the_beginning_of_a_secret_that_a_limit_has_cut_is_found(kind: str, mark: str) -> None:
    begun = SAMPLES[kind][:26]
    assert [(m.kind, m.start, m.end) for m in scan.find(f"no {begun}{mark}")] == [(kind, 3, 29)]


def test_a_secret_in_a_carrier_is_the_whole_of_what_stands_for_it() -> None:
    token = SAMPLES["github-token"]
    text = '{"a": "' + "".join(f"\\u{ord(char):04x}" for char in token) + '"}'
    (match,) = scan.find(text)
    assert (match.value, text[: match.start], text[match.end :]) == (token, '{"a": "', '"}')


def test_a_key_without_end_ends_with_its_string() -> None:
    text = '{"key": "' + PEM.replace("\n", "\\n") + '", "next": "value"}'
    (match,) = scan.find(text)
    assert text[match.end :] == '", "next": "value"}'


KEY_LINES = [*PEM.split("\n"), _run(WORD, 12) + "Qw==", PEM_END[1:]]
LED = {
    "grep -n": lambda number, line: f"src/keys/k.pem:{number}:{line}",
    "grep -C": lambda number, line: f"k.pem:{number}:{line}" if number == 1 else f"k.pem-{number}-{line}",
    "git blame": lambda number, line: (
        f"{'^abc123' if number % 3 else 'def4567'} ({('Ada', 'Bob')[number % 2]} 2026-01-02 03:04:05 {number:2}) {line}"
    ),
    "a log": lambda number, line: (
        f"2026-01-02T03:04:{number:02}Z {('INFO', 'WARNING')[number % 2]} app[{number * 7}]: {line}"
    ),
    "cat -A": lambda number, line: f"{line}$",
    "grep of CRLF by cat -A": lambda number, line: f"k.pem:{number}:{line}^M$",
    "containers": lambda number, line: f"web_1  | {line}",
}


@pytest.mark.parametrize("lead", LED)
@pytest.mark.parametrize(("first", "last"), [(0, None), (0, -1), (0, -3), (1, None), (4, None)])
def test_a_private_key_is_found_whatever_stands_before_each_of_its_lines(
    lead: str, first: int, last: int | None
) -> None:
    lines = [LED[lead](number, line) for number, line in enumerate(KEY_LINES, 1)][first:last]
    text = "\n".join(["to begin", *lines, "the end", ""])
    spans = [(match.start, match.end) for match in scan.find(text) if match.kind == "private-key"]
    left = "".join(
        text[end:start] for (_, end), (start, _) in zip([(0, 0), *spans], [*spans, (len(text), 0)], strict=True)
    )
    assert not [body for body in KEY_LINES if body[:12] in left]
    assert left.startswith("to begin\n")
    assert "the end" in left or lead == "cat -A"


FOLLOWED = {
    "docker's log": lambda number, line: json.dumps(
        {"log": line + "\n", "stream": "stdout", "time": f"2026-11-20T14:00:{number:02}.{number * 7919 % 100_000:05}Z"}
    ),
    "a log with ids": lambda number, line: json.dumps(
        {"id": "3f" * 32, "log": line + "\n", "request": f"aB3dE5gH7jK9mN1pQ3sT5vW{number:02}"}
    ),
    "a cluster's log": lambda number, line: json.dumps(
        {"log": line + "\n", "pod": {"name": f"web-7d4b-{number}", "label": "b" * 200, "id": "ab12" * 16}}
    ),
    "a log in a log": lambda number, line: json.dumps({"msg": json.dumps({"log": line + "\n", "stream": "stdout"})}),
    "echo": lambda number, line: f'echo "{line}" >> id_rsa',
    "a batch": lambda number, line: f"echo {line}>>k.pem",
    "printf": lambda number, line: f"printf '%s\\n' '{line}' >> key",
    "HTML": lambda number, line: f"{line}<br>",
    "a list": lambda number, line: f"  <li>{line}</li>",
    "a table": lambda number, line: f"<tr><td>{number}</td><td>{line}</td></tr>",
    "Java": lambda number, line: f'    + "{line}\\n"',
    "Go, in a patch": lambda number, line: f'+\t"{line}\\n" + // {number}',
    "CSV": lambda number, line: f'{number},"{line}",x',
}


@pytest.mark.parametrize("form", FOLLOWED)
@pytest.mark.parametrize(("first", "last"), [(0, None), (0, -1), (0, -3), (1, None), (3, None)])
@pytest.mark.parametrize("between", ["\n", "\r\n", ""])
def test_a_private_key_is_found_whatever_stands_behind_each_of_its_lines(
    form: str, first: int, last: int | None, between: str
) -> None:
    lines = [FOLLOWED[form](number, line) for number, line in enumerate(KEY_LINES, 1)][first:last]
    text = between.join(["to begin: ", *lines, " the end"])
    left = _left(text)
    assert not [body for body in KEY_LINES if len(body) > 40 and body[4:24] in left]
    assert left.startswith("to begin: ")
    assert left.endswith(" the end")


def _left(text: str) -> str:
    """`text` without the private keys that are found in it."""
    spans = [(match.start, match.end) for match in scan.find(text) if match.kind == "private-key"]
    ends = zip([(0, 0), *spans], [*spans, (len(text), 0)], strict=True)
    return "".join(text[end:start] for (_, end), (start, _) in ends)


@pytest.mark.parametrize("between", ["\n", " ", '",\n    "'])
def test_names_and_paths_near_the_marks_of_a_key_stay(between: str) -> None:
    begin, end = KEY_LINES[0], KEY_LINES[-1]
    named = [
        "tests/fixtures/Keys2/adapters/Redaction1/private/keys",
        "test_that_AVeryLongName_isLeftAlone",
        "a/B1/" * 12,
    ]
    for text in (
        between.join([*named, f'assert text.endswith("{end}")', *named]),
        between.join([*named, f'assert text.startswith("{begin}")', *named]),
        between.join([*named, f'assert "{begin}" in text and "{end}" in text', *named]),
    ):
        assert all(name in _left(text) for name in named)


def test_a_private_key_is_one_value_whatever_stands_before_its_lines() -> None:
    texts = ["\n".join(LED[lead](number, line) for number, line in enumerate(KEY_LINES, 1)) for lead in LED]
    assert len({match.value for text in texts for match in scan.find(text)}) == 1


def test_lines_that_only_speak_of_a_private_key_stay() -> None:
    begin, end = KEY_LINES[0], KEY_LINES[-1]
    text = f"a.py:3:{begin}\na.py:9:  return understandingEverythingAtOnce\nb.py:4:{'ab12' * 10}\nb.py:5:{end}\n"
    assert all("return" not in text[match.start : match.end] for match in scan.find(text))
