"""Files whose names are patterns to git, beside files that those would match: each is only
itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gitbench import Bench

from vibe_gate.domain.change import Selection
from vibe_gate.git import Repository

NAMES = (
    "app/[id]/page.tsx", "app/[...slug]/page.tsx", "*", "**", "?", "a\\b", "-x", "--", "!x", "#x", ":(top)x",
    ":!x", ":/x", ":(exclude)x", "^x", "x y", 'x"y', "x\ty", "x\ny", "{a,b}", "~", "@", "HEAD", "x:1", "ü",
)  # fmt: skip
PATTERNS = ("app/[id]/page.tsx", "**", "?", "a\\b", ":(top)x", ":!x", "^x", "{a,b}")
"""One name of each kind of pattern."""

OTHERS = (
    "app/i/page.tsx",
    "app/d/page.tsx",
    "x",
    "b",
    "ab",
    "a",
    "any",
    "deep/x",
    "deep/*x",
    "1",
    "u",
)
"""What some of the names would match as patterns."""


@pytest.fixture
def three_commits(bench: Bench) -> Bench:
    """Three commits: all files, a second line in the others, and a second line in those of
    NAMES.
    """
    for path in (*NAMES, *OTHERS):
        bench.write(path, f"first of {path!r}\n")
    bench.commit("first")
    for path in OTHERS:
        bench.write(path, f"first of {path!r}\nsecond\n")
    bench.commit("others")
    for path in NAMES:
        bench.write(path, f"first of {path!r}\nsecond\n")
    bench.commit("names")
    return bench


def assert_each_is_itself(
    repository: Repository, bench: Bench, tmp_path: Path, paths: tuple[str, ...] = NAMES
) -> None:
    first, second, third = (
        bench.git("rev-parse", revision) for revision in ("HEAD~2", "HEAD~1", "HEAD")
    )
    change = repository.change(Selection("commit", "HEAD"))
    assert {file.path for file in change.files} == set(NAMES)
    for path in paths:
        assert [row.commit for row in repository.blamed(third, path)] == [first, third], path
        assert repository.blame(third, path, [2]) == {2: third}, path
        history = repository.history_of(third, path)
        assert [(at.commit, at.path) for at in history] == [(third, path), (first, path)], path
        assert repository.tracked(path) == {path}, path
        assert not repository.counts(bench.root / path), path
        exported = repository.export(third, tmp_path / path.encode().hex(), {path})
        assert list(exported.files) == [path], path
    for path in OTHERS:
        assert [row.commit for row in repository.blamed(third, path)] == [first, second], path
        assert [at.commit for at in repository.history_of(third, path)] == [second, first], path


@pytest.mark.slow
def test_every_question_about_a_file_is_about_it_alone(
    three_commits: Bench, tmp_path: Path
) -> None:
    with three_commits.open() as repository:
        assert_each_is_itself(repository, three_commits, tmp_path)


def test_variables_of_the_user_make_no_patterns_of_paths(
    three_commits: Bench, tmp_path: Path
) -> None:
    kinds = ("GLOB", "NOGLOB", "ICASE", "LITERAL")  # git refuses the first two together
    environ = {f"GIT_{kind}_PATHSPECS": "1" for kind in kinds}
    with three_commits.open(**environ) as repository:
        assert_each_is_itself(repository, three_commits, tmp_path, PATTERNS)


def test_a_new_file_counts_for_itself_and_is_in_the_snapshot(bench: Bench) -> None:
    for other in OTHERS:
        bench.write(other, "x\n")
    bench.commit("others")
    files = {path: bench.write(path, f"new {path}\n") for path in NAMES}
    with bench.open() as repository:
        change = repository.change(Selection("worktree"))
        assert {file.path for file in change.files} == set(NAMES)
        tree = repository.tree(change.after)
        for path, file in files.items():
            assert tree.read(path) == f"new {path}\n".encode()
            assert repository.counts(file), path
            file.unlink()
            assert not repository.counts(file), path


def test_a_workspace_has_new_files_of_any_name_but_those_that_git_ignores(
    three_commits: Bench, tmp_path: Path
) -> None:
    three_commits.write(".gitignore", "*.log\n/\\*-ignored\n")
    three_commits.commit("ignore")
    with three_commits.open() as repository:
        workspace = repository.workspace(repository.workspace_of("run"), repository.snapshot())
        for path in (*NAMES, "*.log", "*-ignored", "x-ignored"):
            target = workspace.root / f"new/{path}" if path in NAMES else workspace.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("new\n")
        tree = repository.tree(workspace.tree())
        new = {
            path
            for path in tree.list("")
            if path.startswith("new/") or path.endswith(("ignored", ".log"))
        }
        workspace.remove()
    assert new == {f"new/{path}" for path in NAMES} | {"x-ignored"}


def test_labelled_cases_alone_are_left_out_of_a_search(three_commits: Bench) -> None:
    three_commits.write(".vibe-gate/cases/q/a.py", "needle\n")
    for path in NAMES:
        three_commits.write(path, "needle\n")
    three_commits.commit("needles")
    with three_commits.open() as repository:
        lines = repository.search(repository.tree_of(repository.head()), ["needle"]).lines
    assert {line.path for line in lines} == set(NAMES)


def test_a_word_is_found_whatever_is_searched_beside_it(bench: Bench) -> None:
    lines = ["foo", "foo2", "a_foo", "foo-bar2", "foo-bar", "x$foo", "$foo", "a.b", "axb", "(foo)"]
    bench.write("a.py", "\n".join([*lines, ""]))
    bench.commit("words")
    with bench.open() as repository:
        tree = repository.tree_of(repository.head())

        def search_lines(*words: str) -> list[str]:
            return [line.text.decode() for line in repository.search(tree, words).lines]

        assert search_lines("foo") == ["foo", "foo-bar2", "foo-bar", "x$foo", "$foo", "(foo)"]
        assert search_lines("foo", "foo-bar") == search_lines("foo")
        assert search_lines("foo-bar", "a.b") == ["foo-bar", "a.b"]
        assert search_lines("$foo", "foo2") == ["foo2", "$foo"]
