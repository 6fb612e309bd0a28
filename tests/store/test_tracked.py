"""Whether git may track something of the store, told from the bytes of its index."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vibe_gate.store.tracked import may_be_tracked

AROUND = (".a", ".vibe-a", ".vibe-artifactory", ".vibe-artifacts.md", ".vibe-gate/gate.toml", "b" * 5000, "z")
"""Names before and behind the store's, which share much with it, and one that is too long for two bytes of flags."""


def git(where: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=where, check=True)


def repository(where: Path, *names: str, version: str = "4", ids: str = "sha1") -> Path:
    """Whose index alone has these names: some are longer than a file's may be."""
    where.mkdir()
    git(where, "init", "-q", f"--object-format={ids}")
    (where / "one").write_text("")
    blob = subprocess.run(
        ["git", "hash-object", "-w", "one"], cwd=where, capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = "".join(f"100644 {blob}\t{name}\n" for name in names)
    git(where, "update-index", "--index-version", version)
    subprocess.run(["git", "update-index", "--index-info"], cwd=where, input=lines, text=True, check=True)
    return where


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_a_name_of_the_store_is_found_among_names_like_it(tmp_path, version):
    assert may_be_tracked(str(repository(tmp_path / "r", ".vibe-artifacts/x", *AROUND, version=version)))
    assert may_be_tracked(str(repository(tmp_path / "link", ".vibe-artifacts", ".vibe-a", version=version)))
    assert not may_be_tracked(str(repository(tmp_path / "no", ".a", ".vibe-gate/gate.toml", "z", version=version)))
    assert not may_be_tracked(str(repository(tmp_path / "empty", version=version)))


def test_names_before_and_behind_the_stores_are_told_apart_in_version_4(tmp_path):
    names = tuple(name for name in AROUND if not name.startswith(".vibe-artifacts"))
    assert not may_be_tracked(str(repository(tmp_path / "r", *names)))


def test_what_is_only_intended_to_be_added_is_found_behind_entries_with_more_flags(tmp_path):
    where = repository(tmp_path / "r", ".b", ".c")
    (where / ".a").write_text("")
    git(where, "add", "-N", ".a")
    assert not may_be_tracked(str(where))
    (where / ".vibe-artifacts").mkdir()
    (where / ".vibe-artifacts/x").write_text("")
    git(where, "add", "-N", "-f", ".vibe-artifacts/x")
    assert may_be_tracked(str(where))


def test_a_linked_working_tree_has_an_index_of_its_own(tmp_path):
    where = repository(tmp_path / "r", ".vibe-artifacts/x")
    git(where, "commit", "-q", "-m", "theirs")
    git(where, "worktree", "add", "-q", "--no-checkout", "--detach", str(tmp_path / "linked"))
    git(tmp_path / "linked", "update-index", "--index-version", "4")
    git(tmp_path / "linked", "read-tree", "--empty")
    assert not may_be_tracked(str(tmp_path / "linked"))
    git(tmp_path / "linked", "read-tree", "HEAD")
    assert may_be_tracked(str(tmp_path / "linked"))


def test_every_doubt_is_a_yes(tmp_path):
    where = repository(tmp_path / "r", *AROUND[:3], "z")
    index = where / ".git/index"
    right = index.read_bytes()
    assert not may_be_tracked(str(where))
    for size in range(8, 200):
        index.write_bytes(right[:size])
        assert may_be_tracked(str(where)), size
    index.write_bytes(right[:4] + b"\0\0\0\5" + right[8:])
    assert may_be_tracked(str(where))
    index.write_bytes(right)
    git(where, "update-index", "--split-index")
    assert may_be_tracked(str(where))
    assert may_be_tracked(str(repository(tmp_path / "long", "z", ids="sha256")))


def entry(left_out: bytes, name: bytes) -> bytes:
    """One of version 4, of a file of which all but the name is 0."""
    return bytes(62) + left_out + name + b"\0"


@pytest.mark.parametrize(
    "entries",
    [
        [entry(b"\xff" * 4_000_000 + b"\0", b"a")],  # read to its end as a number, this takes an hour
        [entry(b"\x80\x80\x80\0", b"a")],
        [entry(b"\0", b"-"), entry(b"\2", b"a")],
        [entry(b"\0", b"-" * 4097), entry(b"\0", b"a")],
        [entry(b"\0", b"--------")] * 300_000,  # each path with all before it: 360 GB
    ],
    ids=["number", "beyond nothing", "beyond a path", "long path", "growing paths"],
)
def test_an_absurd_index_is_a_doubt_at_once(tmp_path, entries):
    where = repository(tmp_path / "r")
    count = len(entries).to_bytes(4, "big")
    (where / ".git/index").write_bytes(b"DIRC\0\0\0\4" + count + b"".join(entries) + bytes(20))
    assert may_be_tracked(str(where))
