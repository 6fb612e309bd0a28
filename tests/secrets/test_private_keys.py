"""Private keys: found whole, whatever a program wrote before and behind each of their lines."""

from __future__ import annotations

import json

import pytest
from growth import assert_linear, repeated
from samples import filled

from vibe_gate.secrets import find_secrets

BEGIN, END = "-----BEGIN RSA " + "PRIVATE KEY-----", "-----END RSA " + "PRIVATE KEY-----"
BODY = filled("".join(f"{{base64:{63 - number}}}{'7' * number}a\n" for number in range(6))).split()
KEY = [BEGIN, *BODY, filled("{word:12}Qw=="), END]
FAR = "y " * 900
"""More than may stand between two lines of a key."""
TWO_DIGITS, ONE_DIGIT = "abCDefGHij" * 6 + "a7b8", "abCDefGHij" * 6 + "a7bb"
FORMS = {
    "grep -n": lambda number, line: f"src/keys/k.pem:{number}:{line}",
    "grep -C": lambda number, line: f"k.pem:{number}:{line}" if number == 1 else f"k.pem-{number}-{line}",
    "git blame": lambda number, line: (
        f"{'^abc123' if number % 3 else 'def4567'} ({('Ada', 'Bob')[number % 2]} 2026-01-02 03:04:05 {number:2}) {line}"
    ),
    "a log": lambda number, line: f"2026-01-02T03:04:{number:02}Z {('INFO', 'WARNING')[number % 2]} app[{number}]: {line}",
    "cat -A": lambda number, line: f"{line}$",
    "containers": lambda number, line: f"web_1  | {line}",
    "a hunk": lambda number, line: f"-{line}",
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
    "HTML": lambda number, line: f"{line}<br>",
    "a table": lambda number, line: f"<tr><td>{number}</td><td>{line}</td></tr>",
    "Go, in a patch": lambda number, line: f'+\t"{line}\\n" + // {number}',
    "CSV": lambda number, line: f'{number},"{line}",x',
}  # fmt: skip


def left_of(text: str) -> str:
    """`text` without the private keys that are found in it."""
    spans = [
        (match.start, match.end) for match in find_secrets(text) if match.kind == "private-key"
    ]
    ends = zip([(0, 0), *spans], [*spans, (len(text), 0)], strict=True)
    return "".join(text[end:start] for (_, end), (start, _) in ends)


PARTS = (slice(None), slice(-1), slice(-3), slice(1, None), slice(4, None))
"""The lines of a key that are there."""


def assert_key_is_found(lines: list[str], between: str) -> None:
    for part in PARTS:
        remainder = left_of(between.join(["to begin: ", *lines[part], " the end"]))
        assert not [body for body in BODY if body[4:24] in remainder]
        assert remainder.startswith("to begin: ")
        assert remainder.endswith(" the end")


@pytest.mark.parametrize("between", ["\n", "\r\n"])
def test_a_key_is_found_in_every_form_whole_and_in_parts(
    between: str, subtests: pytest.Subtests
) -> None:
    for name, form in FORMS.items():
        with subtests.test(form=name):
            assert_key_is_found([form(number, line) for number, line in enumerate(KEY, 1)], between)


PARTED_FORMS = [name for name, form in FORMS.items() if not form(1, "x").endswith("x")]
"""Those in which something besides the line's end parts the lines."""


def test_a_key_without_ends_of_lines_is_found_where_its_form_parts_them(
    subtests: pytest.Subtests,
) -> None:
    assert len(PARTED_FORMS) == 10
    for name in PARTED_FORMS:
        with subtests.test(form=name):
            assert_key_is_found(
                [FORMS[name](number, line) for number, line in enumerate(KEY, 1)], ""
            )


def test_a_key_has_one_value_in_every_form() -> None:
    texts = [
        "\n".join(FORMS[form](number, line) for number, line in enumerate(KEY, 1)) for form in FORMS
    ]
    assert len({match.value for text in texts for match in find_secrets(text)}) == 1


@pytest.mark.parametrize(
    ("text", "remaining"),
    [
        (
            '{"key": "' + "\\n".join(KEY[:-2]) + '", "next": "value"}',
            '{"key": "", "next": "value"}',
        ),
        (f'key = "{BEGIN}{"".join(BODY)}{END}"', 'key = ""'),
        (
            f"{BEGIN}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,2CA1B3\n\n"
            + "\n".join(KEY[1:])
            + "\nx",
            "\nx",
        ),
        (f"a\n{BODY[0]}\n{END}\nb", "a\n\nb"),
        (f"a\n{BODY[0]}\n{END}\nand\n{BODY[1]}\n{END}\nb", "a\n\nand\n\nb"),
        (f"{FAR}\n" + "\n".join(KEY) + "\nb", f"{FAR}\n\nb"),
        (f"{BODY[0]}\n{FAR}\n{BODY[1]}\n{END}\nb", f"{BODY[0]}\n{FAR}\n\nb"),
        (f"a\n{BEGIN}\n{TWO_DIGITS}\nb", "a\n\nb"),
        (f"a\n{BEGIN}\n{ONE_DIGIT}\nb", f"a\n{BEGIN}\n{ONE_DIGIT}\nb"),
        (f"a\n{BEGIN}\n{BODY[0]}\nb", "a\n\nb"),
    ],
)
def test_a_key_ends_with_its_end_line_or_its_string(text: str, remaining: str) -> None:
    assert left_of(text) == remaining


@pytest.mark.parametrize("between", ["\n", " ", '",\n    "'])
def test_names_and_paths_near_the_marks_of_a_key_stay(between: str) -> None:
    names = [
        "tests/fixtures/Keys2/adapters/Redaction1/private/keys",
        "test_that_AVeryLongName_isLeftAlone",
        "a/B1/" * 12,
    ]
    for name in (
        f'.endswith("{END}")',
        f'.startswith("{BEGIN}")',
        f'"{BEGIN}" in text and "{END}" in text',
    ):
        assert left_of(between.join([*names, name, *names])) == between.join([*names, name, *names])


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PUBLIC KEY-----\n" + "aB3/" * 16 + "\n-----END PUBLIC KEY-----",
        f"{BEGIN}\nMIIEpAIBAAKCAQEA...\n{END}",
        f"a.py:3:{BEGIN}\na.py:9:  return understandingEverythingAtOnce\nb.py:4:{'ab12' * 10}\nb.py:5:{END}\n",
    ],
)
def test_what_only_speaks_of_a_key_stays(text: str) -> None:
    assert find_secrets(text) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        f"{BEGIN}\n", f"{END}\n", f"{BEGIN}\nA: b\n", f"{BEGIN}\n" + ("k:" + "aB3/" * 16 + "\n") * 9,
        "k:" + "aB3/" * 16 + "\n", f"{END}" + "x" * 5000, f"{BEGIN}\\n" + ("<li>" + "aB3/x7Q" * 9 + "</li>") * 9,
        ("<li>" + "aB3/x7Q" * 9 + "</li>") * 99 + END, "aB3/x7Q" * 900 + END, BEGIN + "aB3/x7Q" * 900, "-----BEGIN ",
    ],
)  # fmt: skip
def test_hostile_text_takes_no_more_than_linear_time(unit: str) -> None:
    assert_linear(find_secrets, repeated(unit), 300_000)
