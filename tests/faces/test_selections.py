"""What a user selects is what is reviewed: the command against `git diff --name-status -M` as the
oracle.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import forked
import pytest
from command import vibe_gate
from repos import Repo

LETTERS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "T": "type_changed"}


def changes_by_git(repo: Repo, *argv: str) -> list[tuple[str, str]]:
    """(change type, path) of every file, as git says."""
    fields = repo.git("diff", "--name-status", "-M", "-z", *argv).split("\0")[:-1]
    changes = []
    while fields:
        letter = fields.pop(0)[0]
        if letter == "R":
            fields.pop(0)
        changes.append((LETTERS[letter], fields.pop(0)))
    return sorted(changes)


def changes_by_review(repo: Repo, *argv: str) -> list[tuple[str, str]]:
    """(change type, path) of every file, as `vibe-gate review` says."""
    review = vibe_gate("review", *argv, "--no-judge", "--json", cwd=repo.path, environ=repo.environ)
    assert review.code in (0, 1, 4), review.err
    return sorted((file["change_type"], file["path"]) for file in review.json["change"]["files"])


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    """Two branches, a merge, a rename with edits, a deletion, modes and links."""
    repo = Repo(tmp_path / "repo", environ)
    body = "".join(f"line {i} of the file\n" for i in range(30))
    repo.commit(
        "Root", **{"a.py": body, "b.py": "b = 1\n", "gone.py": "g = 1\n", "run.sh": "#!/bin/sh\n"}
    )
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("Side", **{"side.py": "s = 1\n"})
    repo.git("checkout", "-q", "main")
    (repo.path / "gone.py").unlink()
    (repo.path / "a.py").unlink()
    (repo.path / "run.sh").chmod(0o755)
    repo.commit("Main", **{"moved.py": body + "one more\n", "b.py": "b = 2\n"})
    repo.git("merge", "-q", "--no-ff", "-m", "Merge", "side")
    (repo.path / "b.py").unlink()
    (repo.path / "b.py").symlink_to("moved.py")
    repo.commit("Link")
    return repo


@pytest.mark.parametrize(
    ("argv", "against"),
    [
        (["HEAD~1"], ["HEAD~1"]),
        (["HEAD~2..HEAD"], ["HEAD~2..HEAD"]),
        (["..side"], ["..side"]),
        (["main...side"], ["main...side"]),
        (["--commit", "HEAD~1"], ["HEAD~1^1", "HEAD~1"]),
        (["--commit", "HEAD^{/Merge}"], ["HEAD~1^1", "HEAD~1"]),
    ],
    ids=lambda argv: " ".join(argv),
)
def test_revisions_and_ranges_mean_what_they_mean_to_git_diff(repo, argv, against):
    assert changes_by_review(repo, *argv) == changes_by_git(repo, *against)


def test_the_root_commit_is_reviewed_against_nothing(repo):
    root = repo.git("rev-list", "--max-parents=0", "HEAD")
    empty = repo.git("hash-object", "-t", "tree", "/dev/null")
    assert changes_by_review(repo, "--commit", root) == changes_by_git(repo, empty, root)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("commit", "linked"),
    [
        ("commit -qm x", True),
        ("commit -qam x", False),
        ("commit -qm x --only b2.py", True),
        ("commit -q --amend --no-edit", False),
    ],
)
def test_in_a_hook_exactly_the_tree_that_is_committed_is_reviewed(repo, tmp_path, commit, linked):
    repo.commit("More", **{"b2.py": "b = 1\n", "c.py": "c = 1\n"})
    hook = repo.path / ".git/hooks/pre-commit"
    program = shlex.quote(str(forked.programs() / "vibe-gate"))
    command = f"{program} review --staged --no-judge --json"
    hook.write_text(f'#!/bin/sh\n{command} > "{tmp_path}/reviewed.json"\nexit 0\n')
    hook.chmod(0o755)
    if linked:
        repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
        repo.path = tmp_path / "linked"
    repo.write("b2.py", "b = 2\n")
    repo.write("c.py", "c = 2\n")
    repo.git("add", "c.py")
    repo.write("c.py", "c = 3\n")
    repo.git(*commit.split())
    document = json.loads((tmp_path / "reviewed.json").read_text())
    assert document["change"]["after"] == repo.git("rev-parse", "HEAD^{tree}")


def test_bundles_that_the_users_gitignore_lists_are_no_part_of_the_change(repo):
    repo.write(".gitignore", ".vibe-artifacts/\n")
    assert changes_by_review(repo) == changes_by_review(repo) == [("added", ".gitignore")]


def test_a_shallow_clone_says_that_history_ends_there(repo, tmp_path, environ):
    repo.git("clone", "-q", "--depth", "1", f"file://{repo.path}", str(tmp_path / "shallow"))
    review = vibe_gate("review", "--commit", "HEAD", cwd=tmp_path / "shallow", environ=environ)
    assert (review.code, "git fetch --deepen" in review.err) == (2, True)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["a.py"], "a.py is a file or folder; give a commit, branch or range"),
        (["HEAD~1"], "HEAD is the first commit; `--commit HEAD` is all that it brings."),
        (["HEAD~2"], "HEAD~2 names no revision here."),
        (["--rubric", "nope"], "There is no rubric 'nope'"),
    ],
)
def test_what_selects_nothing_says_what_to_give(tmp_path, environ, argv, sentence):
    repo = Repo(tmp_path / "repo", environ)
    repo.commit("Root", **{"a.py": "a = 1\n"})
    review = vibe_gate("review", *argv, cwd=repo.path, environ=environ)
    assert (review.code, sentence in review.err) == (2, True), review.err


def test_a_shown_run_of_a_tree_that_is_committed_since_says_nothing_of_committing(
    tmp_path, environ
):
    repo = Repo(tmp_path / "repo", environ)
    repo.commit("Root", **{"a.py": "a = 1\n"})
    repo.write("a.py", "a = 2\n")
    assert vibe_gate("review", "--no-judge", cwd=repo.path, environ=environ).out.endswith(
        "  next    git commit\n"
    )
    repo.commit("Change")
    assert vibe_gate("bundles", "show", cwd=repo.path, environ=environ).out.endswith(
        "  next    nothing to do\n"
    )
