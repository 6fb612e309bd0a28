"""Checks of what added lines say."""

from __future__ import annotations

import pytest
from check_runs import ask, places
from domain.changes import added, deleted, file_change
from growth import assert_linear

from vibe_gate.checks.text_checks import MAX_FOUND, invisible
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.document import to_json
from vibe_gate.judging.findings import name_findings

WALES = "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f"
KEY = b"AK" + b"IAZ7QWERTYUIOPASDF"
TOKEN = b"gh" + b"p_" + b"Zq8vW3nB5mK7xL2cR9tY4uI6oP1aS0dF3gH5"


def many(lines: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(lines))


# no-secrets


@pytest.mark.parametrize(
    ("name", "file", "expected"),
    [
        ("added file", added("a.py", b"x = 1\nkey = '" + KEY + b"'\n"), [("a.py", 2)]),
        (
            "added line",
            file_change("a.py", many(30), many(30) + b"k = '" + KEY + b"'\n"),
            [("a.py", 31)],
        ),
        ("unchanged context", file_change("a.py", KEY + b"\n1\n", KEY + b"\n2\n"), []),
        ("removed line", file_change("a.py", KEY + b"\nx\n", b"x\n"), []),
        ("deleted file", deleted("a.py", KEY + b"\n"), []),
        (
            "rename with edit",
            file_change("b.py", KEY + b"\n1\n", KEY + b"\n" + TOKEN, old_path="a.py"),
            [("b.py", 2)],
        ),
        ("CRLF", added("a", b"a\r\nt = " + TOKEN + b"\r\n"), [("a", 2)]),
        ("NUL hides nothing", added("a.bin", b"\0\n" + TOKEN + b"\n"), [("a.bin", 2)]),
        ("name with newline", added(b"a\nb", TOKEN), [('"a\\nb"', 1)]),
        ("behind an empty line", added("a", b"\n" + KEY), [("a", 2)]),
        ("two on a line", added("a", KEY + b" " + TOKEN), [("a", 1), ("a", 1)]),
        ("minified megabyte", added("a.js", b"x;" * 500_000 + b"'" + TOKEN + b"'"), [("a.js", 1)]),
    ],
)
def test_a_secret_counts_where_this_change_adds_it(
    name: str, file: FileDiff, expected: list[tuple[str, int]]
) -> None:
    result = ask("no-secrets", file)
    assert places(result) == expected
    assert result.outcome == ("fail" if expected else "pass")


def test_a_secret_is_never_repeated() -> None:
    result = ask("no-secrets", added("a", b"a = '" + KEY + b"'; b = '" + TOKEN + b"'\n"))
    reason = result.reason + "".join(to_json(finding) for finding in result.findings)
    assert KEY.decode() not in reason
    assert TOKEN.decode() not in reason
    assert result.findings[0].evidence[0].quote == "a = 'AKIA...'; b = 'ghp_...'"
    assert result.reason == "2 secrets: a."


def test_a_private_key_over_several_lines_is_one_finding_at_its_first_line() -> None:
    pem = (
        b"-----BEGIN "
        + b"PRIVATE KEY-----\n"
        + (b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" + b"\n") * 5
    )
    result = ask("no-secrets", added("key.pem", b"# key\n" + pem + b"-----END PRIVATE KEY-----\n"))
    assert places(result) == [("key.pem", 2)]
    (finding,) = result.findings
    assert finding.evidence[0].quote == "-----BEGIN " + "PRIVATE KEY-----..."
    assert finding.message.startswith("Private key. Revoke it")


def test_allowed_values_and_excluded_files_are_no_secrets() -> None:
    file = added("tests/a.py", KEY)
    assert ask("no-secrets", file, allow=("^AKIAZ7",)).outcome == "pass"
    assert ask("no-secrets", file, exclude=("tests/**",)).outcome == "not_applicable"
    assert ask("no-secrets", file, only=("src/**",)).outcome == "not_applicable"


def test_a_kind_of_secret_is_named_as_its_provider_writes_it() -> None:
    hexes = "0f1e2d3c4b5a69788796a5b4c3d2e1f0" * 4
    names = {
        "npm token": "npm_" + hexes[:36], "PyPI token": "pypi-AgE" + hexes[:60], "NuGet key": "oy2" + hexes[:43],
        "OpenRouter key": "sk-or-v1-" + hexes[:64], "Mapbox token": f"sk.eyJ{hexes[:60]}.{hexes[:22]}",
        "Paystack key": "sk_live_" + hexes[:40], "URL password": "https://u:" + hexes[:20] + "@h.internal/",
    }  # fmt: skip
    result = ask(
        "no-secrets", added("a", "".join(f"{value}\n" for value in names.values()).encode())
    )
    assert [finding.message.split(" (")[0].split(". ")[0] for finding in result.findings] == list(
        names
    )


def test_test_keys_and_documented_examples_are_notices() -> None:
    example, test = b"AKIAIOSFODNN7EXAMPLE", b"sk_te" + b"st_Zk39dkQ0fkqP2mX7Aa"
    result = ask("no-secrets", added("a", example + b"\n" + test + b"\n"))
    assert (result.outcome, result.reason) == ("pass", "No secret in 1 changed file. 2 notices: a.")
    assert [(finding.level, finding.line) for finding in result.findings] == [
        ("notice", 1),
        ("notice", 2),
    ]
    assert result.findings[1].message.startswith("Stripe key (sk_test_...): a test key.")
    both_answer = ask("no-secrets", added("a", test + b"\n" + TOKEN + b"\n"))
    assert (both_answer.outcome, [finding.level for finding in both_answer.findings]) == (
        "fail",
        ["failure", "notice"],
    )


@pytest.mark.parametrize(
    "name", ["Podfile.lock", "ios/Podfile.lock", "gradle.lockfile", "a/package-lock.json", "go.sum"]
)
def test_in_a_lock_file_only_known_forms_are_secrets(name: str) -> None:
    digest = b"  SessionTokenKit: " + b"0f1e2d3c4b5a69788796" * 2 + b"\n"
    assert ask("no-secrets", added("settings.yml", digest)).outcome == "fail"
    assert ask("no-secrets", added(name, digest)).outcome == "pass"
    assert places(ask("no-secrets", added(name, digest + TOKEN + b"\n"))) == [(name, 2)]


@pytest.mark.parametrize("name", ["config/mix.lock", "chart.lock", "go.sum"])
def test_a_file_with_the_name_of_a_lock_file_hides_no_password(name: str) -> None:
    digest, random = (
        b"0f1e2d3c4b5a69788796" * 2,
        b"Zk39dkQ0" + b"fkqP2mX7AaZk39dkQ0" + b"fkqP2mX7AaZk39",
    )
    for line in (
        b"API_SECRET=" + random,
        b"DB_PASSWORD=" + random[:24],
        b"token: " + random,
        b"api_key: " + digest,
    ):
        assert places(ask("no-secrets", added(name, line + b"\n"))) == [(name, 1)], line


ALLOWS = b"""
[allowlist]
paths = ['^tests/fixtures/']
regexes = ['^AKIAZ7']
[[allowlists]]
regexTarget = "line"
regexes = ['(?i)sample']
paths = ['[.]md$']
condition = "AND"
[[allowlists]]
targetRules = ["jwt"]
regexes = ['.']
"""


def test_the_trusted_gitleaks_file_allows_and_the_changes_own_is_told() -> None:
    token = b"t = '" + TOKEN + b"'\n"
    assert ask("no-secrets", added("a", KEY), gitleaks=ALLOWS).reason == (
        "No secret in 1 changed file. 1 secret allowed."
    )
    assert ask("no-secrets", added("tests/fixtures/a", token), gitleaks=ALLOWS).outcome == "pass"
    assert ask("no-secrets", added("a.md", b"Sample: " + token), gitleaks=ALLOWS).outcome == "pass"
    assert ask("no-secrets", added("a", b"sample: " + token), gitleaks=ALLOWS).outcome == "fail"
    for other_line in (
        token + b"# Sample\n",
        b"# Sample\n" + token,
        b"x\n" + token + b"# Sample\n" + token,
    ):
        assert ask("no-secrets", added("a.md", other_line), gitleaks=ALLOWS).outcome == "fail"
    own_answer = ask("no-secrets", added("a", KEY), added(".gitleaks.toml", ALLOWS))
    assert (
        own_answer.reason == "1 secret: a. This change's .gitleaks.toml counts once it is merged."
    )
    for broken in (b"[", b"allowlist = 3", b"[allowlist]\nregexes = ['(']", b"x" * 6_000, b"\xff"):
        answer = ask("no-secrets", added("a", KEY), gitleaks=broken)
        assert answer.outcome == "fail"
        assert answer.reason.endswith("not honoured.")


def test_an_expression_for_lines_sees_each_line_from_its_first_character() -> None:
    allows = b"[allowlist]\nregexTarget = 'line'\nregexes = ['^Sample']\n"
    sample = b"Sample: " + TOKEN + b"\n"
    for content in (sample, b"x\n" + sample, KEY[:4] + b"\n\n" + sample):
        assert ask("no-secrets", added("a", content), gitleaks=allows).outcome == "pass", content
    assert ask("no-secrets", added("a", b" " + sample), gitleaks=allows).outcome == "fail"


def test_of_a_long_line_two_hundred_characters_are_quoted_on_each_side() -> None:
    line = b"b" * 300 + b" '" + TOKEN + b"' " + b"c" * 300
    (finding,) = ask("no-secrets", added("a", line)).findings
    assert finding.evidence[0].quote == "b" * 198 + " 'ghp_...' " + "c" * (200 - len(TOKEN) - 2)


def test_a_hostile_expression_of_an_allowlist_is_answered_at_once() -> None:
    hostile = b"[allowlist]\nregexTarget = 'line'\nregexes = ['^(a+)+$', '(x+x+)+y']\n"
    assert (
        ask("no-secrets", added("a", b"a" * 9_000 + b" " + TOKEN), gitleaks=hostile).outcome
        == "fail"
    )


@pytest.mark.parametrize(
    "comment", [b"# gitleaks:allow", b"// pragma: allowlist secret", b"# pragma: whitelist secret"]
)
def test_a_comment_allows_a_secret_where_it_stood_before_and_is_told_where_the_change_brings_it(
    comment: bytes,
) -> None:
    line = b"k = '" + KEY + b"'  " + comment + b"\n"
    moved = file_change(
        "b.py", b"if a:\n    x\n" + line, b"if a:\n    x\nelse:\n    " + line, old_path="a.py"
    )
    assert ask("no-secrets", moved).reason == "No secret in 1 changed file. 1 secret allowed."
    (finding,) = ask("no-secrets", file_change("a.py", b"k = 1  " + comment, line)).findings
    assert finding.message.endswith(
        "Its allowlist comment comes with this change, so it does not count."
    )


def test_a_comment_on_the_line_above_allows_a_secret_with_its_line() -> None:
    above, line = b"# pragma: allowlist nextline secret\n", b"k = '" + KEY + b"'\n"
    moved = file_change("a.py", above + line + b"x\n" * 9, b"x\n" * 9 + above + line)
    assert ask("no-secrets", moved).outcome == "pass"
    swapped = file_change("a.py", above + b"k = 1\n", above + line)
    (finding,) = ask("no-secrets", swapped).findings
    assert "does not count" in finding.message


def different_keys(count: int, ending: bytes = b"\n") -> bytes:
    """Keys that differ in their last characters."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    keys = []
    for number in range(count):
        tail = bytes(letters[number >> shift & 31] for shift in (15, 10, 5, 0))
        keys.append(KEY[:-4] + tail + ending)
    return b"".join(keys)


def test_many_secrets_are_counted_and_the_first_thousand_shown() -> None:
    result = ask("no-secrets", added("a", different_keys(1_200)))
    assert len(result.findings) == 1_000
    assert all(finding.evidence for finding in result.findings)
    assert result.reason.startswith("1,200 secrets: a.")
    assert result.reason.endswith(" Only the first 1,000 are findings here.")
    assert len(result.reason) <= 280
    (finding,) = ask(
        "no-secrets", added("a", (KEY + b"\n") * 1_200 + TOKEN), gitleaks=ALLOWS
    ).findings
    assert finding.message.startswith("GitHub token (ghp_...).")
    assert finding.line == 1_201


def test_many_notices_are_counted_and_a_secret_behind_them_keeps_its_line() -> None:
    example = b"AKIAIOSFODNN7EXAMPLE\n"
    result = ask("no-secrets", added("a", example * 1_200 + TOKEN))
    assert result.reason.startswith("1 secret: a. 1 notice: a.")
    assert [finding.line for finding in result.findings] == [1_201, 1]
    full_result = ask("no-secrets", added("a", different_keys(60)))
    assert len(full_result.findings) == 60
    assert "Only" not in full_result.reason


def test_a_secret_at_several_places_is_one_finding_with_all_of_them() -> None:
    result = ask("no-secrets", added("a", KEY + b"\nx\n" + KEY + b"\n"), added("b", KEY + b"\n"))
    assert result.reason == "1 secret: a, b."
    assert places(result) == [("a", 1), ("a", 3), ("b", 1)]
    assert len(result.findings) == 1


def test_the_same_secret_at_one_more_place_is_another_finding() -> None:
    once = ask("no-secrets", added("a", KEY + b"\n"))
    twice = ask("no-secrets", added("a", KEY + b"\n"), added("b", KEY + b"\n"))
    names = [name_findings(result.findings, {})[0].fingerprint for result in (once, twice)]
    assert names[0] != names[1]


@pytest.mark.slow
def test_a_line_full_of_secrets_is_answered_in_linear_time() -> None:
    def keys(size: int) -> FileDiff:
        return added("a", different_keys(size, b" "))

    assert_linear(lambda file: ask("no-secrets", file), keys, 3_200)
    assert_linear(lambda file: ask("no-secrets", file, gitleaks=ALLOWS), keys, 3_200)
    result = ask("no-secrets", keys(3_200))
    assert result.reason.startswith("3,200 secrets: a.")
    assert KEY.decode() not in "".join(to_json(finding) for finding in result.findings)


# no-conflict-markers


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        (added("a", b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> topic\n"), [1, 3, 5]),
        (added("a", b"<<<<<<< a\r\n||||||| b\r\n=======\r\n>>>>>>> c\r\n"), [1, 2, 3, 4]),
        (added("a.rst", b"Heading\n=======\n\ntext\n"), []),
        (added("a.rst", b"<<<<<<<< eight\n>>>>>>>quoted\n"), []),
        (added("a", b"x\n<<<<<<<"), [2]),
        (file_change("a", b"<<<<<<< x\n1\n", b"<<<<<<< x\n2\n"), []),
        (added("a", b"\0\n>>>>>>> topic\n"), [2]),
    ],
)
def test_conflict_markers_are_found_at_the_start_of_added_lines(
    file: FileDiff, lines: list[int]
) -> None:
    assert [line for _, line in places(ask("no-conflict-markers", file))] == lines


# forbidden-pattern


def moved(old: str, new: str = "src/a.py") -> FileDiff:
    return file_change(new, many(3) + b"eval(x)\n", many(4) + b"eval(x)\n", old_path=old)


@pytest.mark.parametrize(
    ("move", "file", "scope", "outcome"),
    [
        ("from outside of the paths", moved("lib/a.py"), {"only": ("src/**",)}, "fail"),
        ("into the rubric's scope", moved("lib/a.py"), {"reach": ("src/**",)}, "fail"),
        ("from an excluded place", moved("lib/a.py"), {"exclude": ["lib/**"]}, "fail"),
        ("from a labelled case", moved(".vibe-gate/cases/one/after/a.py"), {}, "fail"),
        ("from the definitions", moved(".vibe-gate/rubrics/a.toml"), {}, "fail"),
        (
            "within the paths",
            moved("src/b.py"),
            {"only": ("src/**",), "reach": ("src/**",)},
            "pass",
        ),
        ("out of the paths", moved("src/a.py", "lib/a.py"), {"only": ("src/**",)}, "pass"),
        ("where every file is looked at", moved("lib/a.py"), {}, "pass"),
    ],
)
def test_of_a_file_that_moves_in_all_lines_count_as_added(move, file, scope, outcome):
    result = ask("forbidden-pattern", file, pattern="eval", **scope)
    assert result.outcome == outcome, move
    assert places(result) == ([("src/a.py", 5)] if outcome == "fail" else [])


@pytest.mark.parametrize(
    ("options", "content", "lines"),
    [
        ({"pattern": r"\bprint\("}, b"print(1)\nx\nprint(2)\n", [1, 3]),
        ({"pattern": "todo"}, b"TODO\n", []),
        ({"pattern": "(?i)todo"}, b"TODO\n", [1]),
        ({"pattern": "^a$"}, b"a\r\nab\n", [1]),
        ({"pattern": "x"}, b"a" * 20_000 + b"x\n", []),
        ({"pattern": "a.b"}, b"a\nb\n", []),
    ],
)
def test_the_pattern_is_searched_in_each_added_line(
    options: dict[str, object], content: bytes, lines: list[int]
) -> None:
    result = ask("forbidden-pattern", added("a.py", content), **options)
    assert [line for _, line in places(result)] == lines


@pytest.mark.slow
def test_a_line_too_long_for_the_pattern_is_scanned_in_part_and_the_reason_says_so() -> None:
    # a*b takes the square of a line's length: of these two megabytes, hours.
    result = ask("forbidden-pattern", added("a", b"a" * 2_000_000), pattern="a*b")
    assert "1 line scanned only up to 10,000 characters" in result.reason


def test_a_match_far_into_a_line_is_quoted_where_it_stands() -> None:
    result = ask("forbidden-pattern", added("a", b" " * 5000 + b"eval(x)"), pattern="eval")
    assert result.findings[0].evidence[0].quote == "eval(x)"


@pytest.mark.parametrize(
    ("path", "scope", "outcome"),
    [
        (".vibe-gate/rubrics/quality.toml", {}, "not_applicable"),
        (".vibe-gate/gate.toml", {"only": ("**/*.toml",)}, "not_applicable"),
        (".vibe-gate/rubrics/quality.toml", {"only": (".vibe-gate/**",)}, "fail"),
        (".vibe-gate/workflows/fix.py", {}, "fail"),
        ("sub/.vibe-gate/rubrics/quality.toml", {}, "fail"),
    ],
)
def test_a_rubric_does_not_trip_over_the_pattern_that_it_states(path, scope, outcome):
    file = added(path, b'options = { pattern = "TODO" }\n')
    assert ask("forbidden-pattern", file, pattern="TODO", **scope).outcome == outcome


def test_definitions_are_searched_for_secrets_markers_and_hidden_characters():
    for check, content in [
        ("no-secrets", b"k = '" + KEY + b"'\n"),
        ("no-conflict-markers", b"<<<<<<< HEAD\n"),
        ("no-invisible-unicode", "# \u202e\n".encode()),
    ]:
        assert ask(check, added(".vibe-gate/rubrics/quality.toml", content)).outcome == "fail", (
            check
        )


# no-invisible-unicode


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("if x:  # \u202e admin\n", [1]),
        ("\n\u2066x\u2069\n", [2]),
        ("a\u200bb\n", [1]),
        ("x\U000e0041\U000e0042\n", [1]),
        ("\U0001f3f4\U000e0061\U000e0062\U000e0063\U000e007f\n", [1]),
        ("s = '\u3164'\n", [1]),
        ("a\u2028b\n", [1]),
        ("\ufeffa\n", []),
        (
            "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3\n",
            [],
        ),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f\n", []),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\n", []),
        ("\u845b\U000e0100\n", []),
        ("naïve 中文 é \u00a0 ok\n", []),
    ],
)
def test_invisible_characters_count_unless_language_or_emoji_need_them(
    content: str, lines: list[int]
) -> None:
    assert [
        line for _, line in places(ask("no-invisible-unicode", added("a", content.encode())))
    ] == lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x\u202e", [("bidirectional control", "U+202E RIGHT-TO-LEFT OVERRIDE")]),
        ("x\U000e0041", [("tag character", "U+E0041 TAG LATIN CAPITAL LETTER A")]),
        ("x\ufe00", [("variation selector", "U+FE00 VARIATION SELECTOR-1")]),
        ("x\u2028", [("line separator", "U+2028 LINE SEPARATOR")]),
        ("x\u200b", [("zero-width character", "U+200B ZERO WIDTH SPACE")]),
        ("x\U000e0002", [("tag character", "U+E0002 unassigned")]),
        # Joiners: between letters that join, at the end of such a word, and between pictures.
        ("\u0645\u200c\u062e", []),
        ("\u0645\u200c\n", []),
        ("\u0645\u200c ", []),
        ("\u0645\u200c a", []),
        ("\u2764\u200d\U0001f525a", []),
        ("\u0645\u200c", ["zero-width character"]),
        ("\u0645\u200ca", ["zero-width character"]),
        ("a\u200c\u0645", ["zero-width character"]),
        ("\u200c\u0645", ["zero-width character"]),
        ("\u2764\u200d\U0001f525", []),
        ("\u2764\u200c\U0001f525", ["zero-width character"]),
        ("\u2764\ufe0f\u200d\U0001f525", []),
        ("a\ufe0f\u200d\U0001f525", ["variation selector", "zero-width character"]),
        ("\u2764\u200da", ["zero-width character"]),
        # Selectors: behind what has variants, and one alone.
        ("1\ufe0f", []),
        ("a\ufe0f", ["variation selector"]),
        ("\ufe0f", ["variation selector"]),
        ("\u2764\ufe0e\ufe0e", ["variation selector"]),
        ("\u2229\ufe00", []),
        ("\u845b\U000e0100", []),
        ("\u0627\U000e0100", ["variation selector"]),
        ("a\U000e0100", ["variation selector"]),
        ("\u2764\ufe00", ["variation selector"]),
        ("x\ufe0f", ["variation selector"]),
        ("\u1820\u180b", []),
        ("a\u180b", ["zero-width character"]),
        # Flags: whole, each by itself, and no tag outside of one.
        (f"{WALES}{WALES}", []),
        (f"{WALES}\U000e0067", ["tag character"]),
        (f"\U000e0067{WALES}", ["tag character"]),
        ("\U0001f3f4\U000e0067\U000e0062\U000e007f", ["tag character"] * 3),
    ],
)
def test_each_invisible_character_is_told_with_its_kind_unless_something_needs_it(
    text: str, expected: list
) -> None:
    characters = invisible(text)
    if expected and isinstance(expected[0], tuple):
        assert [(character.kind, character.name) for character in characters] == expected
    else:
        assert [character.kind for character in characters] == expected


def test_a_byte_order_mark_may_begin_a_file_alone() -> None:
    assert invisible("\ufeffa", file_start=True) == []
    assert len(invisible("\ufeffa")) == 1
    assert [character.position for character in invisible("a\ufeff\ufeff", file_start=True)] == [
        1,
        2,
    ]


def test_no_more_characters_are_told_than_are_of_use() -> None:
    assert len(invisible("\u200b" * (MAX_FOUND + 1))) == MAX_FOUND


def test_invisible_characters_are_found_in_names_and_behind_a_nul() -> None:
    misnamed = added("a\u202egpj.exe", b"x\n")
    hidden = added("b.py", b"\0\xff\n" + "a\u200bb".encode() + b"\n")
    result = ask("no-invisible-unicode", misnamed, hidden)
    assert [finding.message.partition(" ")[0] for finding in result.findings] == ["The", "Contains"]
    assert places(result) == [('"a\\342\\200\\256gpj.exe"', 0), ("b.py", 2)]
    assert "U+202E RIGHT-TO-LEFT OVERRIDE" in result.findings[0].message


@pytest.mark.slow
def test_megabytes_of_hidden_characters_are_answered_in_linear_time() -> None:
    def hidden(size: int) -> FileDiff:
        return added("a", "\u202e".encode() * size)

    assert_linear(lambda file: ask("no-invisible-unicode", file), hidden, 300_000)
    assert places(ask("no-invisible-unicode", hidden(1_000_000))) == [("a", 1)]


def test_real_binary_content_and_unchanged_lines_are_left_alone() -> None:
    image = added("a.png", b"\x89PNG\r\n\0\0" + b"\xe2\x80\xae\xff\n" + b"\xc2\xad\x89\n")
    edited = file_change("a", "\u202e\n1\n".encode(), "\u202e\n2\n".encode())
    assert ask("no-invisible-unicode", image, edited).outcome == "pass"


def test_a_hidden_character_in_a_name_counts_when_the_name_is_new() -> None:
    name = "a\u200bb"
    assert ask("no-invisible-unicode", file_change(name, b"1\n", b"2\n")).outcome == "pass"
    assert (
        ask("no-invisible-unicode", file_change(name, b"1\n", b"1\n", old_path="ab")).outcome
        == "fail"
    )
    assert ask("no-invisible-unicode", deleted(name, b"1\n")).outcome == "pass"
