"""The oracle: for every commit of a history, what we see is what `git diff --name-status -M -l0`
prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from gitoracle import Oracle

from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.environment import read_environment
from vibe_gate.git import Repository, open_repository

pytestmark = pytest.mark.slow

OTHER_LINES = re.compile(rb"(?m)^(?:similarity index (?!100)\d+%|(?:old|new) mode \d+)\n")
"""Lines of an edited rename: libgit2 measures in another way what stays, and writes modes below
it.
"""


def open_any(git_dir: Path, environ: Mapping[str, str]) -> Repository:
    """Open any repository, bare ones too: only its objects are read."""
    git_dir = git_dir.resolve()
    return open_repository(
        git_dir.parent,
        read_environment(
            {**environ, "GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(git_dir.parent)}
        ),
    )


def find_disagreements(git_dir: Path, environ: Mapping[str, str]) -> tuple[int, list[object]]:
    """How many commits were compared, and every commit in which we and git do not say the same."""
    oracle = Oracle(git_dir, environ)
    differing: list[object] = []
    with open_any(git_dir, environ) as repository:
        commits = oracle.commits()
        for start in range(0, len(commits), 500):
            for commit, change in repository.changes_of(commits[start : start + 500]).items():
                differing += [
                    (commit, *difference) for difference in compare_change(oracle, change)
                ]
    return len(commits), differing


def compare_change(oracle: Oracle, change: Change) -> list[tuple[object, ...]]:
    theirs = oracle.changes(change.before, change.after)
    if [describe_file(file) for file in change.files] != [
        (row.type, row.old_path, row.path, row.modes) for row in theirs
    ]:
        return [("files",)]
    differing: list[tuple[object, ...]] = []
    for file, row in zip(change.files, theirs, strict=True):
        expected = (row.added, row.deleted)
        if row.added is None:
            if not file.hunks and file.binary:
                continue
            old = [row.old_path] if row.old_path is not None else []
            expected = oracle.text_counts(change.before, change.after, [*old, row.path])
        if file.change_type != "type_changed" and (file.added, file.deleted) != expected:
            differing.append((file.shown_path, (file.added, file.deleted), expected))
    return differing


def describe_file(file: FileDiff) -> tuple[str, bytes | None, bytes, tuple[int, int]]:
    old_path = None if file.old_path is None else paths.encode(file.old_path)
    modes = (file.before.mode if file.before else 0, file.after.mode if file.after else 0)
    return file.change_type, old_path, paths.encode(file.path), modes


def test_every_commit_of_the_generated_history_is_seen_as_git_sees_it(
    generated: Path, environ: dict[str, str]
) -> None:
    count, differing = find_disagreements(generated / ".git", environ)
    assert differing == []
    assert count > 35


def test_every_patch_of_the_generated_history_applies_and_every_id_is_git_patch_id_of_the_text(
    generated: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    oracle = Oracle(generated / ".git", environ)
    index = {"GIT_INDEX_FILE": str(tmp_path / "index")}
    with open_any(generated / ".git", environ) as repository:
        changes = repository.changes_of(oracle.commits())
        ids = {commit: change.patch_id for commit, change in changes.items() if change.patch_id}
        assert repository.patch_ids(oracle.commits()) == ids
        for change in changes.values():
            patch = repository.patch(change)
            oracle.git("read-tree", change.before if change.base_commit else "--empty", **index)
            if patch:
                oracle.git("apply", "--cached", stdin=patch, **index)
            written = oracle.git("write-tree", **index).decode().strip()
            assert written == change.after
            diff = oracle.diff(change.before, change.after, "--full-index")
            text = paths.encode(
                "".join(repository.file_patch(change, file) for file in change.files)
            )
            assert OTHER_LINES.sub(b"", text) == OTHER_LINES.sub(b"", diff)
            expected = oracle.git("patch-id", "--stable", stdin=text).split()
            assert change.range_patch_id == (expected[0].decode() if expected else "")
