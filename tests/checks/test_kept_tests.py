"""Tests that go, and tests that are switched off."""

from __future__ import annotations

import pytest
from checks.asked import ask, places
from domain.changes import added, deleted, file_change
from growth import assert_linear

from vibe_gate.domain.change import REGULAR_MODE, SYMLINK_MODE, FileDiff

ONE = b"def test_one():\n    assert 1\n"
TWO = b"\n\nasync def test_two():\n    assert 2\n"


@pytest.mark.parametrize(
    ("files", "gone"),
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
        ((file_change("test_a.py", ONE, b""), file_change("test_b.py", ONE + b"1\n", ONE)), [("test_a.py", 1)]),
        ((file_change("old/a.py", ONE, ONE, old_path="tests/test_a.py"),), [("tests/test_a.py", 0)]),
        ((file_change("tests/test_b.py", ONE + TWO, ONE, old_path="tests/test_a.py"),), [("tests/test_a.py", 5)]),
        ((file_change("test_a.py", ONE, b"/dev/null", modes=(REGULAR_MODE, SYMLINK_MODE)),), [("test_a.py", 0)]),
        ((file_change("test_a.py", b"class T:\r\n  def test_x(self):\r\n    pass\r\n", b"\r\n"),), [("test_a.py", 2)]),
    ],
)
def test_a_test_that_goes_is_found_unless_it_stands_elsewhere(
    files: tuple[FileDiff, ...], gone: list[tuple[str, int]]
) -> None:
    assert places(ask("no-deleted-tests", *files)) == gone


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
    assert places(ask("no-deleted-tests", file_change("ATest.java", before, before.replace(b"  @Test\n", b"")))) != []


def test_a_source_file_without_tests_may_go_in_a_language_with_tests_beside_code() -> None:
    assert ask("no-deleted-tests", deleted("src/lib.rs", b"fn a() {}\n")).outcome == "pass"


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    ["a.test.js", "ATest.java", "a_test.go", "test_a.py", "a_spec.rb", "a_test.cc", "ATest.kt", "tests/a.rs"],
)
def test_a_huge_test_file_is_read_in_linear_time(path: str) -> None:
    def lines(size: int) -> bytes:
        return b"it" * (size // 2) + b"\n" + b"@Test " * (size // 6) + b"\n" + b" " * size

    def read(both: tuple[FileDiff, FileDiff]) -> None:
        ask("no-deleted-tests", both[0])
        ask("no-skipped-tests", both[1])

    assert_linear(
        read,
        lambda size: (file_change(path, lines(size) + b"\n" * (size // 5), b"\n"), added(path, lines(size))),
        80_000,
    )


# no-skipped-tests


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("test_a.py", "@pytest.mark.skip"),
        ("test_a.py", "    pytest.skip('later')"),
        ("test_a.py", "@unittest.skip('x')"),
        ("test_a.py", "@unittest.expectedFailure"),
        ("test_a.py", "        self.skipTest('x')"),
        ("test_a.py", "raise unittest.SkipTest"),
        ("tests/test_a.py", "__test__ = False"),
        ("a.test.ts", "it.skip('x', () => {})"),
        ("a.test.ts", "describe.only('x', () => {})"),
        ("a.test.ts", "xit('x', () => {})"),
        ("a.spec.js", "  test.todo('x')"),
        ("a.spec.js", "    this.skip()"),
        ("a.spec.js", "test.each.skip; describe.skip.each([1])('x')"),
        ("ATest.java", "  @Ignore"),
        ("ATest.java", '  @Disabled("x") @Test void a() {'),
        ("ATest.java", "  assumeTrue(false);"),
        ("a_test.go", '\tt.Skip("x")'),
        ("src/lib.rs", "    #[ignore]"),
        ("src/lib.rs", '#[cfg_attr(feature = "x", ignore)]'),
        ("ATests.cs", '[Fact(Skip = "x")]'),
        ("a_spec.rb", "  xit 'x' do"),
        ("a_test.cc", "TEST(Sum, DISABLED_Adds) {"),
    ],
)
def test_an_added_line_that_switches_a_test_off_is_found(path: str, line: str) -> None:
    before = b"\n\n"
    assert places(ask("no-skipped-tests", file_change(path, before, before + line.encode() + b"\n"))) == [(path, 3)]


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
def test_a_file_full_of_skips_is_counted_and_the_first_thousand_shown() -> None:
    result = ask("no-skipped-tests", added("ATest.java", b"@Ignore\n" * 100_000))
    assert len(result.findings) == 1_000
    assert result.reason == "100,000 disabled tests: ATest.java. Only the first 1,000 are findings here."


def test_a_skip_for_a_reason_that_the_rubric_allows_is_fine() -> None:
    file = added("test_a.py", b"@pytest.mark.skipif(os.name == 'nt', reason='x')\n@pytest.mark.skip\n")
    assert places(ask("no-skipped-tests", file, allow=["os\\.name"])) == [("test_a.py", 2)]


def test_a_marker_that_stood_there_before_is_not_this_changes() -> None:
    skip = b"@pytest.mark.skip\n"
    assert places(ask("no-skipped-tests", file_change("test_a.py", skip + b"1\n", skip + b"2\n"))) == []
    assert places(ask("no-skipped-tests", file_change("test_b.py", skip, skip, old_path="test_a.py"))) == []
    assert ask("no-skipped-tests", deleted("test_a.py", skip)).outcome == "not_applicable"
