"""A check of text that could not read new text is no pass."""

from __future__ import annotations

import pytest
from check_runs import ask
from command import vibe_gate
from domain.changes import file_change, version
from msgspec.structs import replace
from repos import Repo

from vibe_gate.domain.change import LARGEST_READ, FileDiff, FileVersion
from vibe_gate.git.tree_diff import MAX_HUNK_BYTES

OF_TEXT = [
    ("no-secrets", {}),
    ("no-conflict-markers", {}),
    ("no-invisible-unicode", {}),
    ("forbidden-pattern", {"pattern": "x"}),
]
SMALL = version(b"select 1;\n")
LARGE = FileVersion("b" * 40, 0o100644, LARGEST_READ + 1)
OTHER = replace(LARGE, blob="c" * 40)
BINARY = FileVersion("d" * 40, 0o100644, MAX_HUNK_BYTES + 1)
EMPTY = version(b"")


def unread(
    before: FileVersion | None, after: FileVersion | None, old_path: str | None = None
) -> FileDiff:
    """A file that is named only."""
    file = file_change("db/app.sql", b"a\n", b"b\n", old_path=old_path)
    return replace(file, before=before, after=after, binary=True, hunks=(), added=0, deleted=0)


@pytest.mark.parametrize(("check", "options"), OF_TEXT)
@pytest.mark.parametrize("sides", [(None, LARGE), (SMALL, LARGE), (LARGE, OTHER), (LARGE, SMALL)])
def test_new_text_that_is_too_large_to_read_is_an_error(check, options, sides):
    result = ask(check, unread(*sides), file_change("a.py", None, b"a = 1\n"), **options)
    assert result.outcome == "error"
    assert result.reason == (
        "Text of more than 100,000,000 bytes is not read: let git ignore the file, split it, or name it in `exclude` "
        "of the criterion's options: db/app.sql."
    )


@pytest.mark.parametrize(("check", "options"), OF_TEXT)
@pytest.mark.parametrize(
    "file",
    [
        unread(LARGE, None),
        unread(LARGE, LARGE, "db/old.sql"),
        unread(LARGE, replace(LARGE, mode=0o100755)),
    ],
)
def test_a_large_file_that_brings_nothing_new_is_no_error(check, options, file):
    result = ask(check, file, **options)
    assert (result.outcome, result.reason.endswith(" Too large to read: db/app.sql.")) == (
        "pass",
        True,
    )


@pytest.mark.parametrize(("check", "options"), OF_TEXT)
def test_binary_content_is_no_text_and_is_named(check, options):
    result = ask(check, unread(None, LARGE), is_binary=lambda side: side == LARGE, **options)
    assert (result.outcome, result.reason.endswith(" Too large to read: db/app.sql.")) == (
        "pass",
        True,
    )


@pytest.mark.parametrize(("check", "options"), OF_TEXT)
@pytest.mark.parametrize("sides", [(None, BINARY), (SMALL, BINARY), (BINARY, SMALL)])
def test_binary_content_that_is_too_large_for_lines_is_named(check, options, sides):
    result = ask(check, unread(*sides), file_change("a.py", None, b"a = 1\n"), **options)
    assert (result.outcome, result.reason.partition(". ")[2]) == (
        "pass",
        "Large binary, not searched: db/app.sql.",
    )


@pytest.mark.parametrize(
    "sides",
    [(BINARY, None), (BINARY, BINARY), (BINARY, replace(BINARY, mode=0o100755)), (BINARY, EMPTY)],
)
def test_a_large_binary_file_without_new_content_is_not_named(sides):
    result = ask("no-conflict-markers", unread(*sides), file_change("a.py", None, b"a = 1\n"))
    assert "not searched" not in result.reason


def test_a_check_of_names_does_not_speak_of_lines():
    result = ask("forbidden-paths", unread(None, BINARY), paths=["docs/**"])
    assert "not searched" not in result.reason


def test_long_names_of_files_that_were_not_searched_leave_the_reason_whole():
    many = [
        replace(unread(None, side), path=f"{'d' * 200}/{side.size}.sql") for side in (LARGE, BINARY)
    ]
    result = ask("no-conflict-markers", *many, is_binary=lambda side: True)
    assert result.reason.startswith("No conflict marker in 2 changed files. Too large to read: ddd")
    assert "ddd…. Large binary, not searched: ddd" in result.reason


@pytest.mark.parametrize(("check", "options"), OF_TEXT)
def test_a_large_file_that_moves_out_of_excluded_paths_is_an_error(check, options):
    moved = unread(LARGE, LARGE, "dumps/app.sql")
    assert ask(check, moved, exclude=["dumps/**"], **options).outcome == "error"
    assert ask(check, moved, exclude=["dumps/**", "db/**"], **options).outcome == "not_applicable"


def test_what_was_found_elsewhere_stays_a_fail():
    secret = file_change("a.py", None, b"token = 'ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5'\n")
    result = ask("no-secrets", unread(None, LARGE), secret)
    assert (result.outcome, result.reason) == (
        "fail",
        "1 secret: a.py. Too large to read: db/app.sql.",
    )


@pytest.mark.parametrize("check", ["no-deleted-tests", "no-skipped-tests"])
def test_a_check_of_tests_reads_test_files_alone(check):
    test = file_change("tests/test_a.py", b"def test_a(): ...\n", b"def test_a(): pass\n")
    assert ask(check, unread(SMALL, LARGE), test).outcome == "pass"
    assert (
        ask(check, replace(unread(SMALL, LARGE), path="tests/test_b.py"), test).outcome == "error"
    )


def test_a_check_of_names_needs_no_content():
    assert ask("forbidden-paths", unread(None, LARGE), paths=["docs/**"]).outcome == "pass"


@pytest.mark.slow  # 100 MB
def test_large_text_ends_a_review_without_a_pass_and_a_large_binary_file_does_not(
    tmp_path, environ
):
    repo = Repo(tmp_path / "repo", environ)
    assert vibe_gate("init", "--checks-only", cwd=repo.path, environ=environ).code == 0
    repo.commit("Gate")
    secret = b"token = ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5\n"
    repo.write("app.sql", secret.ljust(LARGEST_READ + 1, b"\n"))
    result = vibe_gate("review", "--json", cwd=repo.path, environ=environ)
    assert (result.code, result.json["outcome"]) == (3, "error")
    repo.write(".gitignore", "app.sql\n")
    with (repo.path / "core").open("wb") as file:
        file.truncate(LARGEST_READ + 1)
    assert vibe_gate("review", "--json", cwd=repo.path, environ=environ).code == 0
