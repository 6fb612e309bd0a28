"""Tests that go, and tests that are switched off."""

from __future__ import annotations

import pytest
from check_runs import ask, places
from domain.changes import added, deleted, file_change
from growth import assert_linear

from vibe_gate.checks.check_contract import CheckResult
from vibe_gate.domain.change import REGULAR_MODE, SYMLINK_MODE, FileDiff
from vibe_gate.judging.findings import name_findings

ONE = b"def test_one():\n    assert 1\n"
TWO = b"\n\nasync def test_two():\n    assert 2\n"


@pytest.mark.parametrize(
    ("files", "deleted_places"),
    [
        ((deleted("tests/test_a.py", ONE),), [("tests/test_a.py", 0)]),
        ((deleted("tests/test_a.py", ONE), added("tests/test_b.py", ONE)), []),
        ((deleted("tests/test_a.py", ONE), added("src/b.py", ONE)), [("tests/test_a.py", 0)]),
        ((deleted("tests/test_empty.py", b"x = 1\n"),), [("tests/test_empty.py", 0)]),
        ((file_change("tests/test_a.py", ONE + TWO, ONE),), [("tests/test_a.py", 5)]),
        ((file_change("tests/test_a.py", ONE + TWO, ONE), added("test_c.py", TWO)), []),
        ((file_change("test_a.py", ONE, ONE.replace(b"one", b"uno")),), [("test_a.py", 1)]),
        ((file_change("test_a.py", ONE, b"# " + ONE),), [("test_a.py", 1)]),
        ((file_change("test_a.py", ONE + ONE, ONE),), [("test_a.py", 3)]),
        (
            (file_change("test_a.py", ONE, b""), file_change("test_b.py", ONE + b"1\n", ONE)),
            [("test_a.py", 1)],
        ),
        (
            (file_change("old/a.py", ONE, ONE, old_path="tests/test_a.py"),),
            [("tests/test_a.py", 0)],
        ),
        (
            (file_change("tests/test_b.py", ONE + TWO, ONE, old_path="tests/test_a.py"),),
            [("tests/test_a.py", 5)],
        ),
        (
            (file_change("test_a.py", ONE, b"/dev/null", modes=(REGULAR_MODE, SYMLINK_MODE)),),
            [("test_a.py", 0)],
        ),
        (
            (
                file_change(
                    "test_a.py", b"class T:\r\n  def test_x(self):\r\n    pass\r\n", b"\r\n"
                ),
            ),
            [("test_a.py", 2)],
        ),
    ],
)
def test_a_test_that_goes_is_found_unless_it_stands_elsewhere(
    files: tuple[FileDiff, ...], deleted_places: list[tuple[str, int]]
) -> None:
    assert places(ask("no-deleted-tests", *files)) == deleted_places


@pytest.mark.parametrize(
    ("path", "before", "name"),
    [
        ("a.test.ts", "it('adds', () => {})\n", "adds"),
        ("a.test.js", "test.each([1])(\n)\nit.concurrent('b', f)\n", "b"),
        ("ATest.java", '  @Test\n  @Tag("x")\n  public void adds() {\n', "adds"),
        ("ATest.java", '  @ParameterizedTest(name = "x")\n  void adds(int a) {\n', "adds"),
        ("ATest.kt", "  @Test\n  fun `adds two`() {\n", "`adds two`"),
        ("ATests.cs", "  [Fact]\n  public async Task Adds()\n", "Adds"),
        ("a_test.go", "func TestAdds(t *testing.T) {\n", "TestAdds"),
        ("src/lib.rs", "    #[test]\n    fn adds() {\n", "adds"),
        ("a_spec.rb", "  it 'adds' do\n", "adds"),
        ("a_test.rb", "  def test_adds\n", "test_adds"),
        ("ATest.php", "  public function testAdds(): void\n", "testAdds"),
        ("a_test.cc", "TEST_F(Sum, Adds) {\n", "TEST_F.Sum.Adds"),
    ],
)
def test_a_deleted_test_is_named_in_every_language(path: str, before: str, name: str) -> None:
    (finding,) = ask("no-deleted-tests", file_change(path, before.encode(), b"\n")).findings
    assert finding.message == f"Test {name} was removed."
    assert finding.evidence[0].side == "before"
    assert finding.evidence[0].quote in before


def test_dropping_only_the_annotation_is_dropping_the_test() -> None:
    before = b"class A {\n  @Test\n  void adds() {}\n}\n"
    assert (
        places(
            ask(
                "no-deleted-tests",
                file_change("ATest.java", before, before.replace(b"  @Test\n", b"")),
            )
        )
        != []
    )


def test_a_source_file_without_tests_may_go_in_a_language_with_tests_beside_code() -> None:
    assert ask("no-deleted-tests", deleted("src/lib.rs", b"fn a() {}\n")).outcome == "pass"


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        "a.test.js",
        "ATest.java",
        "a_test.go",
        "test_a.py",
        "a_spec.rb",
        "a_test.cc",
        "ATest.kt",
        "tests/a.rs",
    ],
)
def test_a_huge_test_file_is_read_in_linear_time(path: str) -> None:
    def lines(size: int) -> bytes:
        marked = b"@skip\ndef test_a(x):\n    pytest.skip('\\\"\\\"')\nit.skip('a', (x) => {\n" * (
            size // 50
        )
        return (
            b"it" * (size // 2)
            + b"\n"
            + b"@Test " * (size // 6)
            + b"\n"
            + b" " * size
            + b"\n"
            + marked
        )

    def read(files: tuple[FileDiff, FileDiff]) -> None:
        ask("no-deleted-tests", files[0])
        ask("no-skipped-tests", files[1])

    assert_linear(
        read,
        lambda size: (
            file_change(path, lines(size) + b"\n" * (size // 5), b"\n"),
            added(path, lines(size)),
        ),
        80_000,
    )


# no-skipped-tests


PY = "class TestA:\n    def test_b(self):\n        use()\n\n\ndef test_c(x):\n    use()\n"
JS = "describe('a', () => {\n  it('b', () => {\n    use()\n  })\n})\n"
JAVA = "class ATest {\n  @Test\n  void a() {\n    use();\n  }\n}\n"
GO = 'func TestA(t *testing.T) {\n\tuse()\n\tt.Run("b", func(t *testing.T) {\n\t\tuse()\n\t})\n}\n'
RUST = "mod tests {\n    #[test]\n    fn a() {}\n}\n"
CASES = "@pytest.mark.parametrize('x', [\n    1,\n    (2, 3),\n])\ndef test_c(x):\n    use()\n"


@pytest.mark.parametrize(
    ("path", "before", "old", "new", "lines"),
    [
        ("test_a.py", PY, "def test_c", "@pytest.mark.skip\ndef test_c", [6]),
        ("test_a.py", PY, "def test_c", "@pytest.mark.skipif(\n    WIN,\n    reason=')',\n)\ndef test_c", [6]),
        ("test_a.py", PY, "def test_c", "@pytest.mark.xfail(reason='x')\n@other\ndef test_c", [6]),
        ("test_a.py", PY, "class", "@unittest.skip('x')\nclass", [1]),
        ("test_a.py", PY, "class", "pytestmark = pytest.mark.skip\n\n\nclass", [1]),
        ("test_a.py", PY, "class", "pytestmark = [\n    pytest.mark.skip,\n]\n\n\nclass", [2]),
        ("test_a.py", PY, "class", "if WIN:\n    pytest.skip('x', allow_module_level=True)\n\n\nclass", [2]),
        ("test_a.py", PY, "    def test_b", "    __test__ = False\n\n    def test_b", [2]),
        ("test_a.py", PY, "    def test_b", "    def setUp(self):\n        self.skipTest('x')\n\n    def test_b", [3]),
        (
            "test_a.py", PY, "class",
            "@pytest.fixture(autouse=True)\ndef slow():\n    pytest.skip('x')\n\n\nclass", [3],
        ),
        ("test_a.py", PY, "def test_c", "off = pytest.mark.skip\n\n\n@off\ndef test_c", [9]),
        ("test_a.py", PY, "(x):\n    use()", "(x):\n    if WIN:\n        pytest.skip('x')\n    use()", [8]),
        ("test_a.py", PY, "(self):\n        use()", "(self):\n        raise unittest.SkipTest", [3]),
        ("test_a.py", "def helper():\n    use()\n\n\n" + PY, "use()", "pytest.skip('x')", [2]),
        # The test never runs now: its condition has become a constant, or has gone.
        ("test_a.py", f"@pytest.mark.skipif(WIN, reason='x')\n{PY[:1]}" + PY[1:], "WIN", "True", [1]),
        ("test_a.py", "@pytest.mark.skipif(WIN)\ndef test_a(): ...\n", "skipif(WIN)", "skip", [1]),
        # A second test of that name does not stand for the first.
        ("test_a.py", PY + "class TestD:\n    def test_b(self): ...\n", "    def", "    @skip\n    def", [2]),
        ("test_a.py", CASES, "    1,", "    pytest.param(1, marks=pytest.mark.skip),", [2]),
        ("test_a.py", CASES, "    (2, 3),",
         "    pytest.param(\n        2, 3,\n        marks=pytest.mark.xfail,\n    ),", [5]),
        ("a.test.ts", JS, "it('b'", "it.skip('b'", [2]),
        ("a.test.ts", JS, "it('b'", "xit('b'", [2]),
        ("a.test.ts", JS, "it('b'", "test.todo('b'", [2]),
        ("a.test.ts", JS, "it('b'", "it.skipIf(isWindows)('b'", [2]),
        ("a.test.ts", JS, "it('b'", "(isWindows ? it.skip : it)('b'", [2]),
        ("a.test.ts", JS, "describe('a'", "describe.skip('a'", [1]),
        ("a.spec.js", JS, "    use()", "    this.skip()", [3]),
        ("a.spec.js", JS, "  it(", "  beforeEach(function () {\n    this.skip()\n  })\n  it(", [3]),
        ("a.test.ts", JS, "  it('b'", "  it.only('c', f)\n  it('b'", [2]),
        ("a.test.ts", JS, "describe('a'", "describe.only('a'", [1]),
        ("ATest.java", JAVA, "  @Test", "  @Disabled(\"x\")\n  @Test", [2]),
        ("ATest.java", JAVA, "  @Test", "  @Test @Ignore", [2]),
        ("ATest.java", JAVA, "class", "@DisabledOnOs(OS.MAC)\nclass", [1]),
        ("ATest.java", JAVA, "    use();", "    assumeTrue(false);", [4]),
        ("a_test.go", GO, "\tuse()\n\tt.Run", '\tt.Skip("x")\n\tt.Run', [2]),
        ("a_test.go", GO, "\t\tuse()", "\t\tt.SkipNow()", [4]),
        ("a_test.go", GO, "func", "//go:build ignore\n\nfunc", [1]),
        ("src/lib.rs", RUST, "    #[test]", "    #[test]\n    #[ignore]", [3]),
        ("src/lib.rs", RUST, "    #[test]", '    #[cfg_attr(feature = "x", ignore)]\n    #[test]', [2]),
        ("ATests.cs", "class A {\n  [Fact]\n  public void B() {}\n}\n", "[Fact]", '[Fact(Skip = "x")]', [2]),
        ("a_spec.rb", "describe A do\n  it 'x' do\n", "it 'x'", "xit 'x'", [2]),
        ("a_test.cc", "TEST(Sum, Adds) {\n}\n", "Adds", "DISABLED_Adds", [1]),
        ("a_test.exs", 'test "a" do\n', "test", "@tag :skip\ntest", [1]),
    ],
)  # fmt: skip
def test_a_test_that_ran_before_and_does_not_now_is_found(
    path: str, before: str, old: str, new: str, lines
) -> None:
    assert old in before
    file = file_change(path, before.encode(), before.replace(old, new, 1).encode())
    assert places(ask("no-skipped-tests", file)) == [(path, line) for line in lines]


@pytest.mark.parametrize(
    ("path", "before", "old", "new"),
    [
        # New tests, whatever their condition.
        ("test_a.py", PY, "def test_c", "@pytest.mark.skipif(WIN, reason='x')\ndef test_n(): ...\n\n\ndef test_c"),
        ("test_a.py", PY, "class", "@pytest.mark.skip\nclass TestN:\n    def test_n(self): ...\n\n\nclass"),
        ("test_a.py", PY, "def test_c", "def test_n():\n    if WIN:\n        pytest.skip('x')\n\n\ndef test_c"),
        ("test_a.py", PY, "def test_c", "@pytest.fixture\ndef tool():\n    pytest.skip('x')\n\n\ndef test_c"),
        ("test_a.py", PY, "def test_c", "needs_tool = pytest.mark.skipif(\n    WIN,\n)\n\n\ndef test_c"),
        ("test_a.py", CASES, "    1,", "    1,\n    pytest.param(7, marks=pytest.mark.xfail),"),
        ("test_a.py", CASES, "    1,", "    1,\n    param(\n        7,\n        marks=pytest.mark.skip,\n    ),"),
        ("test_a.py", "", "", "@pytest.mark.skipif(WIN, reason='x')\ndef test_n(): ...\n"),
        ("a.test.ts", JS, "  it('b'", "  it.skipIf(isWindows)('n', f)\n  it('b'"),
        ("a.test.ts", JS, "  it('b'", "  it.todo('n')\n  it('b'"),
        ("a_test.go", GO, "\tuse()\n", '\tuse()\n\tt.Run("n", func(t *testing.T) {\n\t\tt.Skip("x")\n\t})\n'),
        ("ATest.java", JAVA, "  @Test", "  @DisabledOnOs(OS.MAC)\n  @Test\n  void n() {}\n\n  @Test"),
        ("src/lib.rs", RUST, "    #[test]", "    #[ignore]\n    #[test]\n    fn n() {}\n    #[test]"),
        # Conditions that were there, reworded or moved.
        ("test_a.py", f"@pytest.mark.skipif(WIN, reason='x')\n{PY}", "'x'", "'not on Windows'"),
        ("test_a.py", f"@pytest.mark.skipif(WIN, reason='x')\n{PY}", "WIN", "WIN or MAC"),
        ("test_a.py", "@mark.skipif(WIN)\n@mark.parametrize('x', [\n'(',\n])\ndef test_a(x): ...\n", "@mark.p",
         "@mark.skipif(\n    MAC,\n)\n@mark.p"),
        ("test_a.py", f"{PY}\n\n@skip\ndef test_d(): ...\n", "class", "@skip\ndef test_d(): ...\n\n\nclass"),
        ("a.test.ts", JS.replace("it('b'", "it.skip('b'"), "it.skip", "xit"),
        ("a.test.ts", JS.replace("it('b'", "it.only('b'"), "it.only('b', ", "it.only('b', async "),
        # Text that only shows such tests.
        ("test_a.py", PY, "def test_c", 'CODE = """\n@pytest.mark.skip\ndef test_c(): ...\n"""\n\n\ndef test_c'),
    ],
)  # fmt: skip
def test_a_new_test_or_a_condition_that_was_there_is_no_disabled_test(
    path: str, before: str, old: str, new: str
) -> None:
    assert old in before
    after = before.replace("\n\n@skip\ndef test_d(): ...\n", "") if "test_d" in before else before
    change = file_change(path, before.encode(), after.replace(old, new, 1).encode())
    assert places(ask("no-skipped-tests", change)) == []
    if not before:
        assert places(ask("no-skipped-tests", added(path, new.encode()))) == []


def test_a_test_that_moves_to_another_file_and_is_skipped_there_is_found() -> None:
    missing_file_change = file_change("test_a.py", PY.encode(), b"")
    new = added("test_b.py", PY.replace("def test_c", "@pytest.mark.skip\ndef test_c").encode())
    assert places(ask("no-skipped-tests", missing_file_change, new)) == [("test_b.py", 6)]


@pytest.mark.parametrize(
    ("path", "before", "old", "new", "namesake"),
    [
        ("test_a.py", PY, "    def", "    @unittest.skip('x')\n    def", "class TestN:\n    def test_b(self): ...\n"),
        ("test_a.py", PY, "def test_c", "@pytest.mark.skip\ndef test_c", "def test_c(): ...\n"),
        ("a.test.js", JS, "it('b'", "it.skip('b'", "it('b', () => {})\n"),
        ("a_test.go", GO, "\tuse()", '\tt.Skip("x")', "func TestA(t *testing.T) {\n}\n"),
        ("ATest.java", JAVA, "  @Test", "  @Disabled\n  @Test", "class NTest {\n  @Test\n  void a() {\n  }\n}\n"),
    ],
)  # fmt: skip
def test_a_new_test_of_the_same_name_does_not_hide_a_skip(
    path: str, before: str, old: str, new: str, namesake: str
) -> None:
    skipped = file_change(path, before.encode(), before.replace(old, new, 1).encode())
    new_file = added(f"other/{path}", namesake.encode())
    assert [place for place, _ in places(ask("no-skipped-tests", skipped, new_file))] == [path]
    below = before.replace(old, new, 1) + "\n\n" + namesake.replace("test_c()", "test_n()")
    if "class" in namesake:
        same_file = file_change(path, before.encode(), below.encode())
        assert len(places(ask("no-skipped-tests", same_file))) == 1


def test_blocks_of_javascript_with_other_titles_are_other_places() -> None:
    skipped = JS.replace("it('b'", "it.skip('b'")
    change = file_change("a.test.js", JS.encode(), (skipped + JS.replace("'a'", "'new'")).encode())
    assert places(ask("no-skipped-tests", change)) == [("a.test.js", 2)]


def test_of_a_test_that_moves_the_one_that_runs_on_counts() -> None:
    moved_away = file_change("test_a.py", PY.encode(), b"")
    conditional = PY.replace("def test_c", "@pytest.mark.skipif(WIN)\ndef test_c")
    variant = added("test_n.py", conditional.encode())
    assert (
        places(ask("no-skipped-tests", moved_away, added("test_b.py", PY.encode()), variant)) == []
    )
    renamed = file_change("test_b.py", PY.encode(), conditional.encode(), old_path="test_a.py")
    assert places(ask("no-skipped-tests", renamed)) == [("test_b.py", 6)]


ONE_CASE = "@pytest.mark.parametrize('a', [pytest.param(1, marks=pytest.mark.skip)])\ndef test_c(a"
TWO_CASES = """\
@pytest.mark.parametrize(
    "a",
    [
        pytest.param(1, marks=pytest.mark.skip(reason="x")),
        pytest.param(2, marks=[pytest.mark.skip]),
    ],
)
def test_c(a"""


@pytest.mark.parametrize(
    ("new", "lines"),
    [
        (ONE_CASE, [6]),
        (TWO_CASES, [9]),
        ("off = pytest.mark.skip\n\n\n" + ONE_CASE.replace("pytest.mark.skip)", "off)"), [9]),
        (TWO_CASES.replace("marks=[pytest.mark.skip]", "marks=pytest.mark.slow"), []),
        (
            TWO_CASES.replace(
                "        pytest.param(2, marks=[pytest.mark.skip]),\n", "        2,\n"
            ),
            [],
        ),
        (ONE_CASE.replace("'a', [pytest", "'a', [((((pytest"), []),
    ],
)
def test_a_test_of_which_every_case_is_skipped_is_disabled(new: str, lines: list[int]) -> None:
    change = file_change("test_a.py", PY.encode(), PY.replace("def test_c(x", new, 1).encode())
    assert [line for _, line in places(ask("no-skipped-tests", change))] == lines


@pytest.mark.parametrize(
    "line",
    ["pytest.importorskip('nonexistent')", "gone = pytest.importorskip('nonexistent')"],
)
def test_a_file_that_begins_to_need_a_module_is_found(line: str) -> None:
    change = file_change("test_a.py", PY.encode(), f"{line}\n\n\n{PY}".encode())
    assert places(ask("no-skipped-tests", change)) == [("test_a.py", 1)]
    assert places(ask("no-skipped-tests", added("test_a.py", f"{line}\n\n\n{PY}".encode()))) == []


AUTOUSE = "@pytest.fixture(autouse=True)\ndef off():\n    pytest.skip('x')\n"


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (AUTOUSE, [3]),
        ("collect_ignore = ['test_a.py']\n", [1]),
        ("collect_ignore_glob = ['*']\n", [1]),
        ("collect_ignore = []\n", []),
        (AUTOUSE.replace("    pytest", "    if WIN:\n        pytest"), []),
        (AUTOUSE.replace("(autouse=True)", ""), []),
        ("slow = pytest.mark.skip(reason='x')\n", []),
    ],
)
def test_a_conftest_that_switches_tests_off_is_found(content: str, lines: list[int]) -> None:
    new = added("tests/conftest.py", content.encode())
    assert [line for _, line in places(ask("no-skipped-tests", new))] == lines
    old = file_change("tests/conftest.py", b"import pytest\n", f"import pytest\n{content}".encode())
    assert [line - 1 for _, line in places(ask("no-skipped-tests", old))] == lines
    assert places(ask("no-deleted-tests", deleted("tests/conftest.py", content.encode()))) == []


def test_a_finding_names_the_tests_that_are_disabled() -> None:
    def message(old: str, new: str) -> str:
        file = file_change("test_a.py", PY.encode(), PY.replace(old, new, 1).encode())
        return ask("no-skipped-tests", file).findings[0].message

    assert message("def test_c", "@skip\ndef test_c") == "Disables the test test_c (@skip)."
    assert (
        message("class", "pytestmark = mark.skip\nclass")
        == "Disables 2 tests (mark.skip): test_b, test_c."
    )


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("test_a.py", "# @pytest.mark.skip was here"),
        ("test_a.py", "def test_skip_button(): ..."),
        ("test_a.py", "@pytest.mark.parametrize('skip', [1])"),
        ("a.test.ts", "// it.skip('x')"),
        ("a.test.ts", "await page.skip('x'); commit('x'); submit.only"),
        ("ATest.java", "  @IgnoreCase void a() {"),
        ("a_test.go", "scanner.Skipped(1)"),
        ("src/lib.rs", "// #[ignore]"),
        ("src/a.py", "@pytest.mark.skip"),
    ],
)
def test_what_only_mentions_skipping_is_left_alone(path: str, line: str) -> None:
    assert places(ask("no-skipped-tests", added(path, line.encode()))) == []


@pytest.mark.slow
def test_a_file_full_of_skips_is_counted_and_the_first_hundred_places_named() -> None:
    result = ask("no-skipped-tests", file_change("ATest.java", b"\n", b"@Ignore\n" * 10_000))
    (finding,) = result.findings
    assert finding.message == "Disables a test (@Ignore). (10,000 lines)"
    assert len(finding.evidence) == 100
    assert (finding.line, finding.end_line) == (1, 100)
    assert result.reason == "10,000 disabled tests: ATest.java."


def removal(*names: str, before: tuple[str, ...] = tuple("abcdefgh")) -> CheckResult:
    """The answer about a file of tests from which these are gone."""
    texts = {name: f"def test_{name}():\n    assert 1\n" for name in before}
    remaining_texts = [text for name, text in texts.items() if name not in names]
    old, new = "".join(texts.values()).encode(), "".join(remaining_texts).encode()
    return ask("no-deleted-tests", file_change("test_a.py", old, new))


def test_the_tests_that_are_gone_from_a_file_are_one_finding() -> None:
    result = removal(*"abcdefg")
    (finding,) = result.findings
    assert finding.message == "7 tests were removed: test_a, test_b, test_c and 4 more."
    assert places(result) == [("test_a.py", line) for line in range(1, 15, 2)]
    assert {quote.side for quote in finding.evidence} == {"before"}
    assert result.reason == "7 losses of tests: test_a.py."


def fingerprint_of(result: CheckResult) -> str:
    return name_findings(result.findings, {})[0].fingerprint


def test_one_more_removed_test_makes_another_fingerprint() -> None:
    names = [fingerprint_of(removal(*tests)) for tests in ("abcd", "abcde", "abcdg", "a")]
    assert len(set(names)) == 4
    assert fingerprint_of(removal(*"abcd")) == names[0]


def test_tests_that_one_marker_disables_each_are_one_finding() -> None:
    before = b"def test_a(): ...\n\ndef test_b(): ...\n\ndef test_c(): ...\n"
    after = before.replace(b"def", b"@mark.skip\ndef")
    result = ask("no-skipped-tests", file_change("test_a.py", before, after), suggest=True)
    (finding,) = result.findings
    assert finding.message == "Disables 3 tests (mark.skip): test_a, test_b, test_c."
    assert places(result) == [("test_a.py", 1), ("test_a.py", 4), ("test_a.py", 7)]
    assert len(result.repairs) == 3


def test_a_skip_for_a_reason_that_the_rubric_allows_is_fine() -> None:
    before = b"def test_a(): ...\n\ndef test_b(): ...\n"
    after = b"@pytest.mark.skipif(os.name == 'nt')\ndef test_a(): ...\n@pytest.mark.skip\ndef test_b(): ...\n"
    file = file_change("test_a.py", before, after)
    assert places(ask("no-skipped-tests", file, allow=["os\\.name"])) == [("test_a.py", 3)]


def test_a_marker_that_stood_there_before_is_not_this_changes() -> None:
    skip = b"@pytest.mark.skip\n"
    assert (
        places(ask("no-skipped-tests", file_change("test_a.py", skip + b"1\n", skip + b"2\n")))
        == []
    )
    assert (
        places(ask("no-skipped-tests", file_change("test_b.py", skip, skip, old_path="test_a.py")))
        == []
    )
    assert ask("no-skipped-tests", deleted("test_a.py", skip)).outcome == "not_applicable"
