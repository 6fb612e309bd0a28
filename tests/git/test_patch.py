"""Patches: `git apply` takes them, people can read them, their ids are git's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import histories
import pygit2
import pytest
from gitoracle import Oracle

from vibe_gate.domain.change import EMPTY_TREE
from vibe_gate.git import diff, patch


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    return histories.build(tmp_path_factory.mktemp("patches") / "repo", environ)


def trees_of(oracle: Oracle, subject: str) -> tuple[str, str]:
    """Trees before and after the commit of that subject."""
    found = oracle.git("log", "--all", f"--grep=^{subject}$", "--format=%T %P").decode().split()
    before = oracle.git("rev-parse", found[1] + "^{tree}").decode().strip() if len(found) > 1 else EMPTY_TREE
    return before, found[0]


@pytest.mark.parametrize(
    "subject",
    [
        "Edit",
        "Add odd names",
        "Move odd names",
        "Edit contents",
        "Take the newline away, empty a file",
        "Change modes only",
        "File to symlink, symlink to file, symlink elsewhere",
        "Submodule is renamed, symlink too",
        "Directory to file, file to directory",
        "And back, the same content",
        "Rename",
        "Rename 1,550 files with edits",
        "Edit 40,000 lines",
    ],
)
def test_git_apply_makes_exactly_the_after_tree_from_the_before_tree(
    subject: str, generated: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    before, after = trees_of(Oracle(generated / ".git", environ), subject)
    made = patch.unified(pygit2.Repository(str(generated)), before, after)
    work = tmp_path / "work"

    def git(*arguments: str, given: bytes = b"") -> bytes:
        command = ["git", "-C", str(work), *arguments]
        done = subprocess.run(command, env=environ, input=given, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    clone = ["git", "clone", "-q", "--shared", "--no-checkout", str(generated), str(work)]
    subprocess.run(clone, env=environ, check=True, capture_output=True)
    git("read-tree", "-m", "-u", before)
    for line in git("ls-files", "-s", "-z").split(b"\0"):
        if line.startswith(b"160000"):
            (work / line.split(b"\t")[1].decode()).mkdir(exist_ok=True)
    git("apply", "--index", given=made)
    assert git("write-tree").decode().strip() == after
    assert git("diff", "--name-only", "--ignore-submodules=all") == b""
    git("apply", "--index", "-R", given=made)
    assert git("write-tree").decode().strip() == before


def text_of(generated: Path, environ: dict[str, str], subject: str, path: str) -> str:
    repo = pygit2.Repository(str(generated))
    trees = trees_of(Oracle(generated / ".git", environ), subject)
    (file,) = (file for file in diff.files(repo, *trees) if file.path == path)
    return patch.file_text(repo, file)


def test_one_file_reads_as_in_git_diff(generated: Path, environ: dict[str, str]) -> None:
    oracle = Oracle(generated / ".git", environ)
    expected = oracle.diff(*trees_of(oracle, "Edit"), "--full-index").decode()
    assert text_of(generated, environ, "Edit", "src/app.py") == expected


def test_what_is_not_visible_is_escaped_for_people(generated: Path, environ: dict[str, str]) -> None:
    text = text_of(generated, environ, "Edit contents", "c/nul")
    assert "-\\x00nul\n+\\x00NUL\n" in text
    text = text_of(generated, environ, "Edit contents", "c/latin1")
    assert "-Gr\\xfc\\xdfe\n" in text
    text = text_of(generated, environ, "Edit contents", "c/crlf")
    assert "-one\\r\n" in text
    text = text_of(generated, environ, "Edit odd names", "es\x1b[31mc")
    assert "\x1b" not in text
    text = text_of(generated, environ, "Edit odd names", "bidi\u202egpj")
    assert "\u202e" not in text


def test_a_large_binary_file_is_told_in_one_line(generated: Path, environ: dict[str, str]) -> None:
    text = text_of(generated, environ, "Edit contents", "c/large-binary")
    assert text.splitlines()[-1] == "Binary contents of 1,100,001 and 1,100,001 bytes differ"


def test_a_file_that_became_a_symlink_is_told_as_both(generated: Path, environ: dict[str, str]) -> None:
    text = text_of(generated, environ, "File to symlink, the same bytes", "k/target")
    assert "deleted file mode 100644" in text
    assert "new file mode 120000" in text


def test_nothing_that_differs_is_no_patch_and_no_id(generated: Path) -> None:
    repo = pygit2.Repository(str(generated))
    tree = str(repo.head.peel(pygit2.Tree).id)
    assert patch.unified(repo, tree, tree) == b""
    assert patch.patch_id(repo, tree, tree) == ""


def test_the_id_of_a_change_survives_being_moved_in_its_file(generated: Path, environ: dict[str, str]) -> None:
    repo = pygit2.Repository(str(generated))

    def tree(content: bytes) -> str:
        builder = repo.TreeBuilder()
        builder.insert("a", repo.create_blob(content), pygit2.enums.FileMode.BLOB)
        return str(builder.write())

    body = b"".join(b"%d\n" % number for number in range(20))
    here = patch.patch_id(repo, tree(body), tree(body.replace(b"10\n", b"ten\n")))
    moved = patch.patch_id(repo, tree(b"new\n" + body), tree(b"new\n" + body.replace(b"10\n", b" te n\n")))
    assert here == moved
    assert len(here) == 40
