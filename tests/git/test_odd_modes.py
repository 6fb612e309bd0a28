"""Trees with modes that git does not write itself are read as git reads them: what it checks out is
what is judged.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from command import vibe_gate
from repos import Repo

from vibe_gate.domain.change import (
    EXECUTABLE_MODE,
    REGULAR_MODE,
    SUBMODULE_MODE,
    SYMLINK_MODE,
    TREE_MODE,
)
from vibe_gate.git.git_object import canonical_mode, parse_tree


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    repo = Repo(tmp_path / "repo", environ)
    repo.write("a.txt", "a\n")
    repo.write("src/b.txt", "b\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "first")
    return repo


def write_tree(repo: Repo, *entries: str) -> str:
    """The id of a tree with these lines of `git ls-tree`, as they are written."""
    return repo.git(
        "mktree", "--missing", stdin="".join(f"{entry}\n" for entry in entries).encode()
    )


def commit_tree(repo: Repo, tree: str) -> str:
    return repo.git("commit-tree", "-p", "HEAD", "-m", "odd", tree)


@pytest.mark.parametrize("mode", ["120000", "120777", "120755", "120644"])
def test_a_link_out_of_the_tree_is_one_whatever_its_mode(repo: Repo, mode: str) -> None:
    target = repo.git("hash-object", "-w", "--stdin", stdin=b"/etc/passwd")
    commit = commit_tree(
        repo,
        write_tree(repo, *repo.git("ls-tree", "HEAD").splitlines(), f"{mode} blob {target}\tl"),
    )
    review = vibe_gate(
        "review", "--commit", commit, "--concise", cwd=repo.path, environ=repo.environ
    )
    assert review.code == 1
    assert "l:1: failure: This link is absolute: /etc/passwd" in review.out


def test_files_that_an_old_git_wrote_are_no_change(repo: Repo) -> None:
    entries = repo.git("ls-tree", "HEAD").replace("100644 blob", "100664 blob").splitlines()
    repo.git("reset", "-q", "--hard", commit_tree(repo, write_tree(repo, *entries)))
    repo.write("src/b.txt", "b\nc\n")
    repo.git("add", "-A")
    review = vibe_gate(
        "review", "--staged", "--no-judge", "--json", cwd=repo.path, environ=repo.environ
    )
    assert [file["path"] for file in review.json["change"]["files"]] == ["src/b.txt"]


def test_the_patch_of_an_old_mode_applies(repo: Repo) -> None:
    changed = repo.git("hash-object", "-w", "--stdin", stdin=b"changed\n")
    entries = [f"100664 blob {changed}\ta.txt", *repo.git("ls-tree", "HEAD", "src").splitlines()]
    commit = commit_tree(repo, write_tree(repo, *entries))
    review = vibe_gate(
        "review", "--commit", commit, "--no-judge", "--json", cwd=repo.path, environ=repo.environ
    )
    repo.git("apply", str(repo.path / review.json["bundle"] / "change.patch"))
    assert (repo.path / "a.txt").read_text() == "changed\n"


def test_an_entry_of_another_kind_than_its_tree_says_is_damage_and_not_missing(repo: Repo) -> None:
    tree = repo.git("rev-parse", "HEAD:src")
    content = b"100644 l\0" + bytes.fromhex(tree)
    odd_tree = repo.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=content)
    commit = commit_tree(repo, odd_tree)
    review = vibe_gate("review", "--commit", commit, cwd=repo.path, environ=repo.environ)
    assert review.code in (3, 5)
    assert "fetch it" not in review.err


def test_an_object_that_says_it_is_larger_than_anything_is_damaged(repo: Repo) -> None:
    name = "ce" + "0" * 38
    (repo.path / ".git/objects/ce").mkdir(exist_ok=True)
    (repo.path / ".git/objects/ce" / name[2:]).write_bytes(
        zlib.compress(b"blob " + b"9" * 50 + b"\0hello")
    )
    commit = commit_tree(repo, write_tree(repo, f"100644 blob {name}\tl"))
    review = vibe_gate("review", "--commit", commit, cwd=repo.path, environ=repo.environ)
    assert review.code == 5
    assert "damaged" in review.err


@pytest.mark.parametrize(
    ("mode", "canonical"),
    [
        (0o100644, REGULAR_MODE), (0o100664, REGULAR_MODE), (0o100755, EXECUTABLE_MODE), (0o100700, EXECUTABLE_MODE),
        (0o100655, REGULAR_MODE), (0o120777, SYMLINK_MODE), (0o40755, TREE_MODE), (0o160755, SUBMODULE_MODE),
        (0, SUBMODULE_MODE), (0o1100644, REGULAR_MODE),
    ],
)  # fmt: skip
def test_modes_are_what_git_takes_them_for(mode: int, canonical: int) -> None:
    assert canonical_mode(mode) == canonical


ID = b"i" * 20


@pytest.mark.parametrize(
    "data", [b"100644", b"100644 a", b"100644 a\0short", b"-1 a\0" + ID, b"9 a\0" + ID]
)
def test_what_is_no_tree_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_tree(data)
