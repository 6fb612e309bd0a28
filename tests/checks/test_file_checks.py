"""Checks of which files a change touches, and of what kind they are."""

from __future__ import annotations

from typing import Any

import pytest
from check_runs import ask, places
from domain.changes import added, deleted, file_change

from vibe_gate.domain.change import REGULAR_MODE, SUBMODULE_MODE, SYMLINK_MODE, FileDiff
from vibe_gate.domain.gate import POLICY_BLOCK


def edited(path: str | bytes, old_path: str | None = None) -> FileDiff:
    return file_change(path, b"1\n2\n", b"1\n3\n", old_path=old_path)


def moved(old: str, new: str) -> FileDiff:
    return file_change(new, b"1\n", b"1\n", old_path=old)


def shown_lines(check: str, *files: FileDiff, **options: Any) -> list[str]:
    """The paths that the check's findings point at."""
    return [path for path, _ in places(ask(check, *files, **options))]


PATH_BOUND: dict[str, dict[str, Any]] = {
    "no-secrets": {}, "no-conflict-markers": {}, "no-deleted-files": {}, "no-deleted-tests": {}, "no-skipped-tests": {},
    "only-paths": {"paths": ["a"]}, "forbidden-paths": {"paths": ["a"]}, "forbidden-pattern": {"pattern": "x"},
    "required-companion": {"changed": ["a"]}, "max-changed-lines": {}, "no-binary": {}, "no-large-files": {},
    "no-invisible-unicode": {}, "no-escaping-symlinks": {}, "no-policy-change": {},
}  # fmt: skip


@pytest.mark.parametrize("check", PATH_BOUND)
@pytest.mark.parametrize("files", [(), (added("other.py", b"x\n"),)])
def test_a_check_without_files_to_look_at_is_not_applicable(
    check: str, files: tuple[FileDiff, ...]
) -> None:
    assert ask(check, *files, only=("src/**",), **PATH_BOUND[check]).outcome == "not_applicable"


def test_a_check_says_whether_paths_or_the_check_itself_leave_all_files_out() -> None:
    suppressions = added(".vibe-gate/suppressions.toml", b"x\n")
    by_check = ask("forbidden-pattern", suppressions, pattern="x")
    by_paths = ask("forbidden-pattern", suppressions, only=("src/**",), pattern="x")
    assert "leaves out all changed files" in by_check.reason
    assert by_paths.reason == "No changed file matches the criterion's paths."


# no-deleted-files


def test_deleted_files_are_found_by_name() -> None:
    assert shown_lines(
        "no-deleted-files", deleted("a", b"x"), edited("b"), deleted(b"c\n\xff", b"")
    ) == [
        "a",
        '"c\\n\\377"',
    ]


@pytest.mark.parametrize(
    "file", [added("a", b""), edited("a"), moved("a", "b"), file_change("a", b"x", b"")]
)
def test_added_edited_moved_and_emptied_files_are_not_deleted(file: FileDiff) -> None:
    assert shown_lines("no-deleted-files", file) == []


def test_a_file_moved_out_of_the_guarded_paths_is_as_good_as_deleted() -> None:
    assert shown_lines("no-deleted-files", moved("src/a", "old/a"), only=("src/**",)) == ["src/a"]
    assert shown_lines("no-deleted-files", moved("src/a", "src/b"), only=("src/**",)) == []


# only-paths, forbidden-paths


@pytest.mark.parametrize(
    ("file", "outside"),
    [
        (edited("src/a.py"), []),
        (edited("docs/a.md"), ["docs/a.md"]),
        (moved("src/a", "lib/a"), ["lib/a"]),
        (moved("lib/a", "src/a"), ["lib/a"]),
        (edited(b"src\n/a.py"), ['"src\\n/a.py"']),
    ],
)
def test_only_the_allowed_paths_may_change(file: FileDiff, outside: list[str]) -> None:
    assert shown_lines("only-paths", file, paths=["src/**"]) == outside


@pytest.mark.parametrize(
    ("file", "hit"),
    [
        (edited("migrations/1.sql"), ["migrations/1.sql"]),
        (moved("migrations/1.sql", "old/1.sql"), ["migrations/1.sql"]),
        (moved("new/1.sql", "migrations/1.sql"), ["migrations/1.sql"]),
        (edited("app/migrations/1.sql"), []),
        (edited("deep/down/.env"), ["deep/down/.env"]),
    ],
)
def test_forbidden_paths_are_found_under_either_name(file: FileDiff, hit: list[str]) -> None:
    assert shown_lines("forbidden-paths", file, paths=["migrations/**", ".env"]) == hit


# required-companion


@pytest.mark.parametrize(
    ("files", "outcome"),
    [
        ((edited("src/a.py"),), "fail"),
        ((edited("src/a.py"), edited("tests/test_a.py")), "pass"),
        ((edited("src/a.py"), added("src/a.test.ts", b"it\n")), "pass"),
        ((edited("src/a.py"), deleted("tests/test_a.py", b"x\n")), "fail"),
        ((edited("src/a.py"), file_change("tests/test_a.py", b"1\n2\n", b"1\n")), "fail"),
        ((edited("src/a.py"), moved("tests/test_a.py", "tests/test_b.py")), "fail"),
        ((edited("docs/a.md"),), "not_applicable"),
        ((moved("src/a.py", "lib/a.py"),), "fail"),
    ],
)
def test_what_belongs_together_changes_together(files: tuple[FileDiff, ...], outcome: str) -> None:
    assert ask("required-companion", *files, changed=["src/**"]).outcome == outcome


# max-changed-lines


@pytest.mark.parametrize(
    ("files", "limit", "outcome"),
    [
        ((edited("a"),), 2, "pass"),
        ((edited("a"),), 1, "fail"),
        ((deleted("a", b"x\n" * 9),), 8, "fail"),
        ((moved("a", "b"),), 0, "pass"),
        ((added("a.bin", b"\0\n" * 900),), 10, "pass"),
        ((edited("poetry.lock"), edited("a")), 2, "pass"),
    ],
)
def test_changed_lines_are_added_and_deleted_ones_of_text(
    files: tuple, limit: int, outcome: str
) -> None:
    assert ask("max-changed-lines", *files, max=limit, exclude=["*.lock"]).outcome == outcome


def test_the_largest_files_are_named() -> None:
    result = ask("max-changed-lines", added("big", b"x\n" * 900), added("small", b"x\n"))
    assert (
        result.reason == "901 changed lines (901 added, 0 deleted) in 2 files; at most 500 allowed."
    )
    assert "big (900), small (1)" in result.findings[0].message


# no-binary, no-large-files


@pytest.mark.parametrize(
    ("file", "hit"),
    [
        (added("a.png", b"\x89PNG\0\n"), True),
        (file_change("a", b"text\n", b"\0b"), True),
        (file_change("a", b"\0a", b"text\n"), False),
        (deleted("a", b"\0a"), False),
        (file_change("b", b"\0a", b"\0a", old_path="a"), False),
        (added("a", b"x" * 8000 + b"\0"), False),
        (added("a.png", b"no picture\n"), False),
    ],
)
def test_binary_means_what_git_means_by_it(file: FileDiff, hit: bool) -> None:
    assert bool(shown_lines("no-binary", file)) == hit


@pytest.mark.parametrize(
    ("file", "hit"),
    [
        (added("a", b"x" * 1024), False),
        (added("a", b"x" * 1025), True),
        (file_change("a", b"x", b"x" * 1025), True),
        (file_change("a", b"x" * 2000, b"x" * 1000), False),
        (file_change("b", b"x" * 2000, b"x" * 2000, old_path="a"), False),
        (added("sub", b"x" * 2000, mode=SUBMODULE_MODE), False),
        (added("data/a", b"x" * 2000), False),
    ],
)
def test_large_means_new_content_over_the_ceiling(file: FileDiff, hit: bool) -> None:
    result = ask("no-large-files", file, added("b", b""), max_kb=1, exclude=["data/**"])
    assert bool(result.findings) == hit


# no-escaping-symlinks


@pytest.mark.parametrize(
    ("path", "target", "flaw"),
    [
        ("a", b"b", ""),
        ("a/b/c", b"../../d", ""),
        ("a/b/c", b"../../../d", "leaves the tree"),
        ("a", b"b/../../c", "leaves the tree"),
        ("a", b"/etc/passwd", "is absolute"),
        ("a", b"C:\\Windows", "is absolute"),
        ("a", b"..\\x", "leaves the tree"),
        ("a", b"\\\\host\\share", "is absolute"),
        ("a", b"~/.ssh", "leads to a home directory"),
        ("a", b".git/config", "leads into .git"),
        ("a", b"sub/.git", "leads into .git"),
        ("a", b"git~1/config", "leads into .git"),
        ("a", ".g\u200cit/config".encode(), "leads into .git"),
        ("a", b".git::$INDEX_ALLOCATION/x", "leads into .git"),
        ("a", b".gitignore", ""),
        ("a", b"", "has no usable target"),
    ],
)
def test_links_stay_in_the_tree(path: str, target: bytes, flaw: str) -> None:
    result = ask("no-escaping-symlinks", added(path, target, mode=SYMLINK_MODE))
    assert result.outcome == ("fail" if flaw else "pass")
    assert all(f"This link {flaw}" in finding.message for finding in result.findings)


def test_a_file_that_becomes_a_link_counts_and_a_file_that_looks_like_one_does_not() -> None:
    link = file_change("a", b"x", b"../b", modes=(REGULAR_MODE, SYMLINK_MODE))
    missing_file_change = file_change("c", b"../b", b"x", modes=(SYMLINK_MODE, REGULAR_MODE))
    assert shown_lines(
        "no-escaping-symlinks", link, missing_file_change, added("d", b"/etc/passwd")
    ) == ["a"]


# no-policy-change


@pytest.mark.parametrize(
    ("file", "hit"),
    [
        (edited(".vibe-gate/gate.toml"), [".vibe-gate/gate.toml"]),
        (added(".github/workflows/x.yml", b"x"), [".github/workflows/x.yml"]),
        (moved(".vibe-gate/rubrics/a.toml", "a.toml"), [".vibe-gate/rubrics/a.toml"]),
        (edited("src/a.py"), []),
    ],
)
def test_the_gates_own_definitions_do_not_change(file: FileDiff, hit: list[str]) -> None:
    assert shown_lines("no-policy-change", file, policy=POLICY_BLOCK) == hit
