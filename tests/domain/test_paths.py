"""Paths: held as bytes allow, shown safely, matched whole."""

from __future__ import annotations

import json
import unicodedata
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vibe_gate.domain import paths

names = st.binary(max_size=60).filter(lambda raw: b"\0" not in raw)


@given(names)
@example(b'"quoted"')
@example(b"\\302\\")
@example(b'"\\"')
@example("a\u202eb".encode())
@example(b"\xed\xa0\x80")
@example(b"\xf0\x9f\x98\x80\xff7")
def test_any_name_of_git_comes_back_from_what_is_shown(raw: bytes) -> None:
    path = paths.decode(raw)
    assert paths.encode(path) == raw
    assert paths.encode(paths.unquote(paths.quote(path))) == raw


@given(names)
def test_what_is_shown_is_safe_for_json_terminals_and_utf8(raw: bytes) -> None:
    quoted = paths.quote(paths.decode(raw))
    assert json.loads(json.dumps(quoted)) == quoted
    assert quoted.encode("utf-8").decode("utf-8") == quoted
    assert not any(
        unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for char in quoted
    )


@given(st.text())
def test_anything_can_be_unquoted_though_a_model_wrote_it(text: str) -> None:
    paths.unquote(text)


@pytest.mark.parametrize("path", ["\ud800", "a\udfffb", '"\udbff"', "\udc80\ud800"])
def test_a_lone_surrogate_out_of_json_is_shown_as_bytes(path: str) -> None:
    quoted = paths.quote(path)
    assert quoted.isascii()
    assert paths.encode(paths.unquote(path)) == path.strip('"').encode("utf-8", "surrogatepass")
    assert paths.quote(paths.unquote(quoted)) == quoted


@pytest.mark.parametrize(
    ("raw", "quoted"),
    [
        (b"src/a.py", "src/a.py"),
        ("é 中/b c".encode(), "é 中/b c"),
        (b"a\nb", '"a\\nb"'),
        (b"tab\there", '"tab\\there"'),
        (b'say "hi"', 'say "hi"'),
        (b'"hi"', '"\\"hi\\""'),
        (b"back\\slash", "back\\slash"),
        (b"back\\\n", '"back\\\\\\n"'),
        (b"caf\xe9", '"caf\\351"'),
        (b"\x1b[31m", '"\\033[31m"'),
        ("a\u202eb".encode(), '"a\\342\\200\\256b"'),
        (b"", ""),
    ],
)
def test_names_are_shown_as_git_shows_them(raw: bytes, quoted: str) -> None:
    assert paths.quote(paths.decode(raw)) == quoted


@pytest.mark.parametrize(
    ("pattern", "hits", "misses"),
    [
        (
            "src/**",
            ["src/a", "src/a/b/c", "src/a\nb", "src/\n"],
            ["src", "xsrc/a", "a/src/b", "src/"],
        ),
        ("src/*", ["src/a", "src/a\nb"], ["src/a/b", "a/src/b"]),
        ("*.py", ["a.py", "d/e/a.py", "a\n.py", ".py"], ["a.pyc", "a.py/b", "a.py\n"]),
        ("/*.py", ["a.py"], ["d/a.py"]),
        (
            "**/test_*.py",
            ["test_a.py", "a/b/test_a.py", "a\n/test_\n.py"],
            ["atest_a.py", "a/test_a.pyx"],
        ),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb", "x/a/b"]),
        ("a/**/b/**/c", ["a/b/c", "a/1/b/2/3/c"], ["a/c", "b/c"]),
        ("docs/", ["docs/a", "x/docs/a/b"], ["docs", "docsx/a"]),
        ("/docs/", ["docs/a"], ["x/docs/a"]),
        ("**", ["a", "a/b", "\n"], []),
        ("*", ["a", "a/b", "\n"], []),
        ("a?c", ["abc", "x/a\nc", "aéc"], ["ac", "a/c", "abbc"]),
        ("[a-c]x", ["ax", "bx"], ["dx", "-x", "[x"]),
        ("[!a-c]x", ["dx", "\nx"], ["ax", "/x"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]a]x", ["]x", "ax"], ["bx"]),
        ("[!]a]x", ["bx"], ["]x", "ax"]),
        ("[a-]x", ["ax", "-x"], ["bx"]),
        ("[[a]x", ["[x", "ax"], ["bx"]),
        ("[a&&b]x", ["&x", "ax"], ["cx"]),
        ("[z-a]x", [], ["zx", "ax", "mx"]),
        ("[a", ["[a"], ["a"]),
        ("[]", ["[]"], ["a"]),
        ("[!", ["[!"], ["a"]),
        ("d/[+-9]", ["d/5", "d/."], ["d//"]),
        ("[\\d]", ["d", "\\"], ["5"]),
        ("a\\b", ["a\\b"], ["ab"]),
        ("a.b+(c)|d$", ["a.b+(c)|d$"], ["axb+(c)|d$"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("x/a*b*c", ["x/abc", "x/a1b2c", "x/abbcc"], ["x/acb", "x/a/bc"]),
        ("", [], ["", "a", "a/b"]),
        ("caf\udce9/*", ["caf\udce9/a"], ["café/a"]),
        (".vibe-gate/**", [".vibe-gate/a"], ["x/.vibe-gate/a", ".vibe-gatex/a"]),
    ],
)
def test_a_glob_matches_the_whole_path(pattern: str, hits: list[str], misses: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [path for path in hits if not paths.matches_any_glob(path, (pattern,))] == []
        assert [path for path in misses if paths.matches_any_glob(path, (pattern,))] == []


@given(st.text(), st.text())
def test_any_pattern_can_be_asked_about_any_path(path: str, pattern: str) -> None:
    paths.matches_any_glob(path, (pattern,))


@pytest.mark.parametrize("pattern", ["*a" * 12 + "*b", "**/a/" * 6 + "b", "**/*a*a*a/**/*a*a*b"])
def test_a_hostile_name_does_not_make_a_glob_slow(pattern: str) -> None:
    for path in ("a" * 4000, "a/" * 2000 + "a"):
        assert not paths.matches_any_glob(
            path, (pattern,)
        )  # a slow one takes hours: the clock of the test ends it


def test_no_pattern_matches_nothing() -> None:
    assert not paths.matches_any_glob("a", ())
