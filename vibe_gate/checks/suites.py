"""Which files are tests, which tests a file declares, and how tests are switched off, by language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

TEST_FILES = (
    "test_*.py", "*_test.py", "tests.py", "*.test.*", "*.spec.*", "*-test.js", "*-test.ts", "**/__tests__/**",
    "*_test.go", "*Test.java", "*Tests.java", "*IT.java", "Test*.java", "*Test.kt", "*Tests.kt", "*Test.scala",
    "*Spec.scala", "*Test.cs", "*Tests.cs", "*Test.php", "*Tests.swift", "*Test.swift", "*_spec.rb", "*_test.rb",
    "test_*.rb", "*_test.cc", "*_test.cpp", "*_test.exs", "**/tests/**/*.rs", "tests/**/*.rs", "**/src/test/**",
)  # fmt: skip
"""Names under which test runners find tests. Data beside tests is not a test."""

INLINE_TESTS = ("*.rs",)
"""Files that hold tests beside the code, by the language's custom."""


@dataclass(frozen=True, slots=True)
class DeclaredTest:
    """A test and where it stands; `line` counts from 1."""

    name: str
    line: int
    text: str


_PYTHON = r"\s*(?:async\s+)?def\s+(test\w*)"
_SCRIPT = r"\s*[fx]?(?:it|test|specify)(?:\.[A-Za-z]{1,20}){0,3}\s*\(\s*(?P<quote>['\"`])(?P<name>.{1,200}?)(?P=quote)"
_GO = r"func\s+(?:\([^()]{0,80}\)\s*)?((?:Test|Benchmark|Fuzz|Example)\w*)\s*\("
_RUBY = r"\s*(?:def\s+(test_\w+)|[fx]?(?:it|specify|test)\s*\(?\s*[\"'](.{1,200}?)[\"'])"
_NAMED = r"\s*(?:[a-z]+\s+){0,3}(?:function|func|fun|def)\s+(test\w+)"
_MACRO = r"\s*(TEST(?:_F|_P)?|TYPED_TEST)\s*\(\s*(\w+)\s*,\s*(\w+)"

_ANNOTATION = (
    r"\s*(?:@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|TestTemplate|Property)\b"
    r"|\[(?:Test|Fact|Theory|TestMethod|TestCase|DataTestMethod)\b"
    r"|#\[(?:[a-z_]+::)?(?:test|rstest|test_case|quickcheck|proptest)\b)"
)
_METHOD = (
    r"[^=;(]{0,200}?\b(?:fn|fun|func|def|function|void|Task|[A-Z]\w*(?:<[^<>]{0,60}>)?)\s+(\w+|`[^`]{1,200}`)\s*[(<]"
)
METHOD_WITHIN = 8
"""Lines after an annotation in which the method's own line is looked for; other annotations stand between."""

# Compiled where they are used (`re` keeps them): a change has files of one or two languages.
_LANGUAGES: dict[str, tuple[str, ...]] = {
    "py": (_PYTHON,),
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue"), (_SCRIPT,)),
    "go": (_GO,),
    "rb": (_RUBY,),
    **dict.fromkeys(("php", "swift", "kt", "scala", "groovy"), (_NAMED,)),
    **dict.fromkeys(("cc", "cpp", "cxx", "c", "h", "hpp"), (_MACRO,)),
}
_ANNOTATED = frozenset({"java", "kt", "kts", "scala", "groovy", "cs", "rs", "swift", "php"})

_OFF_PYTHON = (
    r"pytest\.mark\.(?:skip|skipif|xfail)\b|\bmark\.(?:skip|skipif|xfail)\b|pytest\.(?:skip|xfail)\s*\("
    r"|@(?:unittest\.)?(?:skip|skipIf|skipUnless|expectedFailure)\b|\.skipTest\s*\(|raise\s+(?:unittest\.)?SkipTest\b"
    r"|\bcollect_ignore(?:_glob)?\b|__test__\s*=\s*False"
)
_OFF_SCRIPT = (
    r"\b(?:it|test|describe|context|suite|specify)(?:\.(?:each|concurrent|serial|parallel|failing))?\.(?:skip|todo|only|fixme|skipIf|runIf|fails)\b"
    r"|\b(?:xit|xtest|xdescribe|xcontext|xspecify|fit|fdescribe)\s*[(.]|\bthis\.skip\s*\(|\bpending\s*\("
)
_OFF_JVM = (
    r"@(?:org\.junit\.)?(?:Ignore|Disabled\w*|EnabledIf\w*)\b|\b(?:Assume\w*\.|assume)(?:True|False|That)\s*\("
    r"|enabled\s*=\s*false|\bthrow\s+new\s+SkipException"
)
_OFF: dict[str, str] = {
    "py": _OFF_PYTHON,
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue"), _OFF_SCRIPT),
    **dict.fromkeys(("java", "kt", "kts", "scala", "groovy"), _OFF_JVM),
    "go": r"\b[a-zA-Z]\w{0,20}\.(?:Skip|Skipf|SkipNow)\s*\(|//go:build\s+ignore\b",
    "rs": r"#!?\[\s*ignore\b|#!?\[\s*cfg_attr\s*\([^\n]{0,200}\bignore\b",
    "cs": r"\[\s*(?:Ignore|Explicit)\b|\bSkip\s*=\s*\"|Assert\.(?:Ignore|Inconclusive)\s*\(",
    "rb": r"^\s*(?:xit|xdescribe|xcontext|xspecify|fit|fdescribe|skip|pending)\b|\bskip:\s*(?:true|['\"])",
    "php": r"markTest(?:Skipped|Incomplete)\s*\(|#\[\s*(?:Skip|Ignore)|@group\s+skip",
    "swift": r"\bXCTSkip\w*\b|\.disabled\s*\(",
    "exs": r"@tag\s+:?skip|@moduletag\s+:?skip",
    **dict.fromkeys(("cc", "cpp", "cxx", "c", "h", "hpp"), r"\bDISABLED_\w+|\bGTEST_SKIP\b"),
}

_COMMENT: dict[str, tuple[str, ...]] = {"py": ("#",), "rb": ("#",), "exs": ("#",)}
_C_COMMENT = ("//", "*", "/*")


def extension(path: str) -> str:
    """The name's last extension in lower case, without its dot; "" without one."""
    name = path.rsplit("/", 1)[-1]
    return name.rsplit(".", 1)[-1].lower() if "." in name else ""


def declared_tests(path: str, lines: list[str]) -> Iterator[DeclaredTest]:
    """The tests that a file declares, as far as its lines tell; commented ones are none."""
    language = extension(path)
    patterns = [re.compile(source) for source in _LANGUAGES.get(language, ())]
    annotated = language in _ANNOTATED
    waiting = 0
    for number, line in enumerate(lines, start=1):
        if len(line) > 2000 or is_comment(language, line):
            continue
        name = next((found for pattern in patterns if (found := _name(pattern.match(line)))), "")
        if annotated:
            if re.match(_ANNOTATION, line):
                waiting = METHOD_WITHIN
            if waiting and not name:
                name = _name(re.match(_METHOD, _without_attributes(line)))
            waiting = 0 if name else max(0, waiting - 1)
        if name:
            yield DeclaredTest(name, number, line)


def _name(match: re.Match[str] | None) -> str:
    if match is None:
        return ""
    if "name" in match.re.groupindex:
        return match["name"]
    return ".".join(group for group in match.groups() if group)


def _without_attributes(line: str) -> str:
    """The line without leading annotations, whose names look like types: `@Test void a()`, `[Fact] public void A()`."""
    return re.sub(r"^\s*(?:(?:@\w+(?:\([^()]{0,200}\))?|#?\[[^\]]{0,200}\])\s*){1,8}", "", line)


def switched_off(path: str, line: str) -> str:
    """The marker by which `line` skips tests or narrows the run to some; "" without one."""
    language = extension(path)
    pattern = _OFF.get(language)
    if pattern is None or (is_comment(language, line) and not line.lstrip().startswith("//go:build")):
        return ""
    match = re.search(pattern, line)
    return match[0].strip() if match else ""


def is_comment(language: str, line: str) -> bool:
    """Whether the whole line is a comment."""
    return line.lstrip().startswith(_COMMENT.get(language, _C_COMMENT))
