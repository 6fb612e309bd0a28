"""What a change consists of: nothing hides, nothing is rewritten, every byte is kept."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zlib
from pathlib import Path

import pygit2
import pytest

from vibe_gate.domain.change import (
    EMPTY_TREE,
    LARGEST_READ,
    FileDiff,
    FileVersion,
    HunkLine,
    Selection,
)
from vibe_gate.domain.environment import read_environment
from vibe_gate.errors import GateError, InfrastructureError, IntegrityError, RevisionError
from vibe_gate.git import open_repository
from vibe_gate.git.database import damage_as_error

MAX_HUNK_BYTES = 1_000_000


class Work:
    """A repository with a working tree, changed from one `tree` to the next."""

    def __init__(self, root: Path, environ: dict[str, str]) -> None:
        self.root = root
        self.environ = environ
        root.mkdir()
        self.git("init", "-q")

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        command = ["git", "-C", str(self.root), *arguments]
        result = subprocess.run(
            command, env=self.environ, input=stdin, check=True, capture_output=True
        )
        return result.stdout.decode().strip()

    def tree(self, files: dict[str, bytes]) -> str:
        self.git("rm", "-rfq", "--cached", "--ignore-unmatch", ".")
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            self.git("add", "-f", "--", name)
        return self.git("write-tree")

    def blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=content)

    def large_blob(self, end: bytes) -> str:
        """The blob of a file just above the limit."""
        write_large(self.root / "large", end)
        return self.git("hash-object", "-w", "large")

    def tree_of_blobs(self, blobs: dict[str, str]) -> str:
        rows = [f"100644 blob {blob}\t{name}\n" for name, blob in blobs.items()]
        return self.git("mktree", stdin="".join(rows).encode())

    def files(self, before: str, after: str) -> tuple[FileDiff, ...]:
        """What differs between two trees."""
        ends = [self.git("commit-tree", "-m", "x", tree) for tree in (before, after)]
        with open_repository(self.root, read_environment(self.environ)) as repository:
            return repository.change(Selection("range", *ends)).files

    def changed(self, before: dict[str, bytes], after: dict[str, bytes]) -> FileDiff:
        (file,) = self.files(self.tree(before), self.tree(after))
        return file


@pytest.fixture
def work(tmp_path: Path, environ: dict[str, str]) -> Work:
    return Work(tmp_path / "work", environ)


def lines(file: FileDiff) -> list[HunkLine]:
    return [line for hunk in file.hunks for line in hunk.lines]


def test_an_edit_is_a_hunk_with_three_lines_of_context(work: Work) -> None:
    old = b"".join(b"%d\n" % number for number in range(1, 21))
    file = work.changed({"a": old}, {"a": old.replace(b"10\n", b"ten\nand\n")})
    (hunk,) = file.hunks
    assert (hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines) == (7, 7, 7, 8)
    assert [line.origin for line in hunk.lines] == [" ", " ", " ", "-", "+", "+", " ", " ", " "]
    assert (file.change_type, file.added, file.deleted, file.binary) == ("modified", 2, 1, False)
    assert file.before and file.after
    assert (file.before.size, file.after.size) == (len(old), len(old) + 5)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (b"a\nb", b"a\nb\n", [HunkLine(" ", b"a\n"), HunkLine("-", b"b"), HunkLine("+", b"b\n")]),
        (b"a\nb", b"c\nb", [HunkLine("-", b"a\n"), HunkLine("+", b"c\n"), HunkLine(" ", b"b")]),
        (b"a\r\n", b"a\n", [HunkLine("-", b"a\r\n"), HunkLine("+", b"a\n")]),
        (b"a\rb\n", b"a\rc\n", [HunkLine("-", b"a\rb\n"), HunkLine("+", b"a\rc\n")]),
        (b" a\n", b"\ta \n", [HunkLine("-", b" a\n"), HunkLine("+", b"\ta \n")]),
        (
            b"\\ No newline at end of file\n",
            b"x",
            [HunkLine("-", b"\\ No newline at end of file\n"), HunkLine("+", b"x")],
        ),
        (b"\xff\xfe\n", b"\xe9\n", [HunkLine("-", b"\xff\xfe\n"), HunkLine("+", b"\xe9\n")]),
        (
            b"a\n\0\n",
            b"a\n\0b\n",
            [HunkLine(" ", b"a\n"), HunkLine("-", b"\0\n"), HunkLine("+", b"\0b\n")],
        ),
    ],
    ids=[
        "newline-added",
        "no-newline",
        "line-end",
        "lone-cr",
        "white-space",
        "looks-like-marker",
        "bytes",
        "nul",
    ],
)
def test_lines_keep_their_bytes(
    before: bytes, after: bytes, expected: list[HunkLine], work: Work
) -> None:
    file = work.changed({"a": before}, {"a": after})
    assert lines(file) == expected
    assert file.binary is (b"\0" in before)


def test_an_empty_file_that_appears_is_a_change_without_hunks(work: Work) -> None:
    file = work.changed({}, {"a": b""})
    assert (file.change_type, file.hunks, file.before, file.added) == ("added", (), None, 0)


def test_hunks_of_a_new_and_of_a_deleted_file_count_from_nothing(work: Work) -> None:
    added = work.changed({}, {"a": b"1\n2\n"}).hunks[0]
    deleted = work.changed({"a": b"1\n2\n"}, {}).hunks[0]
    assert (added.old_start, added.old_lines, added.new_start, added.new_lines) == (0, 0, 1, 2)
    assert (deleted.old_start, deleted.old_lines, deleted.new_start, deleted.new_lines) == (
        1,
        2,
        0,
        0,
    )


@pytest.mark.parametrize(
    "attributes",
    [
        "*.py -diff",
        "*.py binary",
        "*.py diff=lies",
        "*.py text eol=crlf",
        "*.py filter=lies",
        "*.py whitespace=-all",
    ],
)
def test_no_attribute_and_no_configuration_changes_what_is_seen(
    attributes: str, work: Work
) -> None:
    before, after = {"a.py": b"one\n two\nthree\n"}, {"a.py": b"one\ntwo\nthree\n"}
    plain = work.changed(before, after)
    (work.root / ".gitattributes").write_text(attributes + "\n")
    work.git("add", ".gitattributes")
    for name, value in {
        "diff.lies.textconv": "true",
        "diff.lies.command": "true",
        "diff.lies.binary": "true",
        "diff.external": "true",
        "diff.orderFile": "/dev/null",
        "diff.context": "0",
        "diff.algorithm": "patience",
        "diff.renames": "false",
        "diff.ignoreSubmodules": "all",
        "diff.noprefix": "true",
        "core.ignoreCase": "true",
        "core.fileMode": "false",
        "core.whitespace": "-trailing-space",
        "core.bigFileThreshold": "1",
    }.items():
        work.git("config", name, value)
    listed = [
        file for file in work.files(work.tree(before), work.tree(after)) if file.path == "a.py"
    ]
    assert listed == [plain]


def test_a_submodule_that_is_to_be_ignored_is_seen_all_the_same(work: Work) -> None:
    trees = [work.git("mktree", stdin=f"160000 commit {c * 40}\tmodule\n".encode()) for c in "12"]
    work.git("config", "diff.ignoreSubmodules", "all")
    (file,) = work.files(*trees)
    assert file.before and file.after
    assert (file.before.blob, file.after.mode, file.after.size) == ("1" * 40, 0o160000, 0)
    assert lines(file) == [
        HunkLine("-", b"Subproject commit " + b"1" * 40 + b"\n"),
        HunkLine("+", b"Subproject commit " + b"2" * 40 + b"\n"),
    ]


def test_a_file_that_becomes_a_symlink_of_the_same_bytes_is_a_change_of_type(work: Work) -> None:
    blob = work.git("hash-object", "-w", "--stdin", stdin=b"target")
    trees = [
        work.git("mktree", stdin=f"{mode} blob {blob}\ta\n".encode())
        for mode in ("100644", "120000")
    ]
    (file,) = work.files(*trees)
    assert file.after
    assert (file.change_type, file.after.mode, file.added, file.deleted) == (
        "type_changed",
        0o120000,
        1,
        1,
    )
    assert lines(file) == [HunkLine("-", b"target"), HunkLine("+", b"target")]


@pytest.mark.slow
def test_a_binary_file_shows_its_lines_up_to_a_limit(work: Work) -> None:
    small, large = b"\0" + b"x" * (MAX_HUNK_BYTES - 1), b"\0" + b"x" * MAX_HUNK_BYTES
    file = work.changed({"a": b"\0"}, {"a": small})
    assert (file.binary, file.added, file.deleted) == (True, 1, 1)
    file = work.changed({"a": b"\0"}, {"a": large})
    assert (file.binary, file.added, file.hunks) == (True, 0, ())
    assert file.after
    assert file.after.size == len(large)


def test_a_text_file_shows_its_lines_whatever_its_size(work: Work) -> None:
    content = b"x" * 100 + b"\n"
    file = work.changed({}, {"a": content * 20_000})
    assert (file.binary, file.added) == (False, 20_000)


def test_a_nul_after_the_first_8000_bytes_makes_no_binary(work: Work) -> None:
    assert not work.changed({}, {"a": b"x" * 8_000 + b"\0"}).binary
    assert work.changed({}, {"a": b"x" * 7_999 + b"\0"}).binary


def test_names_of_any_bytes_are_held_and_sorted_as_git_does(work: Work) -> None:
    names = [b"a\nb", b"caf\xe9", "é".encode(), b"A", b"a-b", b"a/b", b"a.b", b'q"', b"\x1b[0m"]
    blob = work.git("hash-object", "-w", "--stdin", stdin=b"x\n")
    for name in names:
        work.git(
            "update-index", "-z", "--index-info", stdin=f"100644 {blob}\t".encode() + name + b"\0"
        )
    files = work.files(EMPTY_TREE, work.git("write-tree"))
    assert [file.path.encode("utf-8", "surrogateescape") for file in files] == sorted(names)


@pytest.mark.slow
def test_folders_nested_deeper_than_python_recurses_are_read(work: Work) -> None:
    path = "d/" * 1_100 + "x"
    commit = (
        f"commit refs/heads/deep\ncommitter a <a> 0 +0000\ndata 0\nM 100644 inline {path}\ndata 0\n"
    )
    work.git("fast-import", "--quiet", stdin=commit.encode())
    (file,) = work.files(EMPTY_TREE, work.git("rev-parse", "deep^{tree}"))
    assert file.path == path


def test_an_object_that_is_missing_is_named(work: Work) -> None:
    tree = work.git("mktree", "--missing", stdin=f"100644 blob {'3' * 40}\tgone\n".encode())
    with pytest.raises(RevisionError, match=f"Object {'3' * 40} is missing here; fetch it first"):
        work.files(EMPTY_TREE, tree)
    tree = work.git("mktree", "--missing", stdin=f"040000 tree {'4' * 40}\tgone\n".encode())
    with pytest.raises(RevisionError, match=f"{'4' * 40} is missing"):
        work.files(EMPTY_TREE, tree)


@pytest.mark.parametrize(
    "damage",
    [
        b"no zlib",
        b"",
        zlib.compress(b"blob 6\0other\n"),
        zlib.compress(b"blob 6\0right\n")[:-1],
        zlib.compress(b"blob 6\0right\n")[:-8],
        zlib.compress(b"blob 2\0right\n"),
        zlib.compress(b"blob 9\0right\n"),
        zlib.compress(b"blob six\0right\n"),
        zlib.compress(b"blubb 6\0right\n"),
        zlib.compress(b"a" * 100),
    ],
    ids=["no zlib", "empty", "other content", "cut by one byte", "cut short", "longer than it says",
         "shorter than it says", "no size", "no kind", "no header"],
)  # fmt: skip
def test_an_object_that_is_damaged_is_one_sentence(work: Work, damage: bytes) -> None:
    blob = work.git("hash-object", "-w", "--stdin", stdin=b"right\n")
    tree = work.git("mktree", stdin=f"100644 blob {blob}\ta\n".encode())
    file = work.root / ".git/objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(damage)
    commit = work.git("commit-tree", "-m", "x", tree)
    with (
        open_repository(work.root, read_environment(work.environ)) as repository,
        pytest.raises(IntegrityError, match="damaged; run"),
    ):
        [change] = repository.change(Selection("commit", commit)).files
        assert change.after
        repository.read(change.after)


def test_a_tree_with_a_name_twice_is_refused(work: Work) -> None:
    blob = bytes.fromhex(work.git("hash-object", "-w", "--stdin", stdin=b"x\n"))
    content = b"100644 same\0" + blob + b"100644 same\0" + blob
    tree = work.git("hash-object", "-w", "--literally", "-t", "tree", "--stdin", stdin=content)
    with pytest.raises(IntegrityError, match="not well formed"):
        work.files(EMPTY_TREE, tree)


# Files that are not read


@pytest.fixture
def little_memory(tmp_path: Path, environ: dict[str, str]) -> dict[str, str]:
    """An environment whose git has less memory than the largest file that is read."""
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "git"
    program.write_text(
        f'#!/bin/sh\nulimit -v {LARGEST_READ // 1024 - 5000}\nexec {shutil.which("git")} "$@"\n'
    )
    program.chmod(0o755)
    return {**environ, "PATH": f"{programs}:{environ['PATH']}"}


SECRET = b"a secret ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"


def write_large(path: Path, end: bytes) -> None:
    """A file just above the limit; all but its end takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(LARGEST_READ)
        file.seek(0, 2)
        file.write(end)


@pytest.mark.slow
def test_files_above_the_limit_are_hashed_and_named_without_reading_them_into_memory(
    work: Work, little_memory: dict[str, str]
) -> None:
    old, moved, new = (work.large_blob(end) for end in (b"old", b"moved", SECRET))
    small, other_small = (work.blob(content) for content in (b"\0one", b"\0two"))
    files_before = {"deleted": old, "edited": old, "moved": moved, "small.bin": small}
    files_after = {"added": new, "edited": new, "moved away": moved, "small.bin": other_small}
    trees = [work.tree_of_blobs(blobs) for blobs in (files_before, files_after)]
    ends = [work.git("commit-tree", "-m", "x", tree) for tree in trees]

    with open_repository(work.root, read_environment(little_memory)) as repository:
        change = repository.change(Selection("range", *ends))
        patch = repository.patch(change).decode()
        added = change.file("added")
        digest = repository.digest(added.after) if added and added.after else ""
        tree = repository.tree(trees[1])
        sizes = f"has {LARGEST_READ + len(SECRET):,} bytes; at most {LARGEST_READ:,}"
        with pytest.raises(InfrastructureError, match=sizes):
            tree.read("added")
        assert tree.list("") == sorted(files_after)

    assert {
        file.path: (file.change_type, file.is_read, file.hunks == ()) for file in change.files
    } == {
        "added": ("added", False, True),
        "deleted": ("deleted", False, True),
        "edited": ("modified", False, True),
        "moved away": ("renamed", False, True),
        "small.bin": ("modified", True, False),
    }
    assert digest == hashlib.sha256(bytes(LARGEST_READ) + SECRET).hexdigest()
    assert (
        added
        and added.after
        and f"new file mode 100644\nindex {'0' * 40}..{added.after.blob}\n" in patch
    )
    assert "rename from moved\nrename to moved away\n" in patch
    assert "diff --git a/small.bin b/small.bin" in patch and patch.count("GIT binary patch") == 1
    reads_little = ("-c", "core.bigFileThreshold=1m")
    diff = work.git(*reads_little, "diff", "-M100%", "-l0", "--full-index", *ends)
    assert (
        change.range_patch_id
        == work.git("patch-id", "--stable", stdin=diff.encode() + b"\n").split()[0]
    )


@pytest.mark.parametrize(
    ("content", "is_binary"),
    [
        (b"", False),
        (b"text\n" * 100_000, False),
        (b"\0", True),
        (b"x" * 7_999 + b"\0", True),
        (b"x" * 8_000 + b"\0", False),
        (b"\x7fELF\0" + b"x" * 1_000_000, True),
    ],
)
def test_content_is_binary_by_a_nul_among_its_first_bytes(
    work: Work, content: bytes, is_binary: bool
) -> None:
    blob = work.git("hash-object", "-w", "--stdin", stdin=content)
    with open_repository(work.root, read_environment(work.environ)) as repository:
        assert repository.is_binary(FileVersion(blob, 0o100644, LARGEST_READ + 1)) is is_binary
        with pytest.raises(InfrastructureError, match="is missing"):
            repository.is_binary(FileVersion("a" * 40, 0o100644, LARGEST_READ + 1))


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (MemoryError(), 3),
        (pygit2.GitError("failed to inflate packed object"), 5),
        (KeyError("object not found - no match for id (" + "3" * 40 + ")"), 2),
    ],
)
def test_what_libgit2_complains_about_is_one_of_our_errors(
    error: Exception, exit_code: int
) -> None:
    with pytest.raises(GateError) as raised, damage_as_error():
        raise error
    assert raised.value.exit_code == exit_code
