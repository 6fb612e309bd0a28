"""Exports of trees, hostile ones included."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from gitbench import Bench

from vibe_gate.errors import InfrastructureError, UsageError


def tree_of(bench: Bench, *entries: tuple[str, str, bytes | str]) -> str:
    """A tree made by hand, as no checkout would: mode, name, content (or the id of a tree or
    commit).
    """
    lines = b""
    for mode, name, content in entries:
        kind = {"040000": "tree", "160000": "commit"}.get(mode, "blob")
        blob = (
            content
            if isinstance(content, str)
            else bench.git("hash-object", "-w", "--stdin", stdin=content)
        )
        lines += f"{mode} {kind} {blob}\t{name}".encode() + b"\0"
    return bench.git("mktree", "-z", "--missing", stdin=lines)


def test_content_modes_links_and_submodules(seeded: Bench, tmp_path: Path) -> None:
    seeded.write(".gitattributes", "* text eol=crlf\n")
    seeded.write("odd\nname \udcff", b"\0\xff\n")
    seeded.git("add", "-A")
    seeded.git(
        "update-index",
        "--add",
        "--cacheinfo",
        f"160000,{seeded.git('rev-parse', 'HEAD')},vendor/sub",
    )
    with seeded.open() as repository:
        export = repository.export(repository.index_tree(), tmp_path / "out")
        assert export.root == tmp_path / "out"
        assert stat.S_IMODE(export.root.stat().st_mode) == 0o700
        assert (export.root / "a.txt").read_bytes() == b"one\n"
        assert stat.S_IMODE((export.root / "tool.sh").stat().st_mode) == 0o755
        assert (export.root / "odd\nname \udcff").read_bytes() == b"\0\xff\n"
        assert (export.root / "link").readlink() == Path("a.txt")
        assert list((export.root / "vendor/sub").iterdir()) == []
        assert not (export.root / ".git").exists()
        assert export.unchanged()


def test_every_difference_is_noticed(seeded: Bench, tmp_path: Path) -> None:
    def edit(root: Path) -> None:
        (root / "a.txt").write_text("two\n")

    def add(root: Path) -> None:
        (root / "src/extra").write_text("")

    def add_folder(root: Path) -> None:
        (root / "src/empty").mkdir()

    def delete(root: Path) -> None:
        (root / "src/app.py").unlink()

    def execute(root: Path) -> None:
        (root / "a.txt").chmod(0o755)

    def relink(root: Path) -> None:
        (root / "link").unlink()
        (root / "link").symlink_to("tool.sh")

    def link_instead(root: Path) -> None:
        (root / "src").rename(root.parent / "moved")
        (root / "src").symlink_to(root.parent / "moved")

    def fifo(root: Path) -> None:
        (root / "a.txt").unlink()
        os.mkfifo(root / "a.txt")

    def vanish(root: Path) -> None:
        root.rename(root.parent / "gone")

    with seeded.open() as repository:
        for number, act in enumerate(
            [edit, add, add_folder, delete, execute, relink, link_instead, fifo, vanish]
        ):
            export = repository.export("HEAD", tmp_path / str(number) / "out")
            assert export.unchanged()
            act(export.root)
            assert not export.unchanged(), act.__name__


@pytest.mark.parametrize(
    ("target", "is_link"),
    [
        ("a.txt", True), ("src/../a.txt", True), ("src/deep", True), ("nowhere/at/all", True), (".", True),
        ("/etc/passwd", False), ("../outside", False), ("src/../../outside", False), ("nowhere/../../x", False),
        ("up/x", False), ("side/../../x", False), ("self", True), ("a\x00b", False), ("x" * 5000, False), ("", False),
    ],
)  # fmt: skip
def test_only_links_that_stay_inside_are_links(
    seeded: Bench, tmp_path: Path, target: str, is_link: bool
) -> None:
    head = seeded.git("rev-parse", "HEAD^{tree}")
    entries = [tuple(line.split(maxsplit=3)) for line in seeded.git("ls-tree", head).splitlines()]
    tree = tree_of(
        seeded,
        *((mode, name, blob) for mode, _, blob, name in entries),
        ("120000", "self", target.encode()),
        ("120000", "up", b"../.."),
        ("120000", "side", b"src/deep/../.."),
    )
    with seeded.open() as repository:
        export = repository.export(tree, tmp_path / "out")
        link = export.root / "self"
        assert link.is_symlink() == is_link
        assert not (export.root / "up").is_symlink()
        if not is_link:
            assert link.read_bytes() == target.encode()
        assert export.unchanged()


def test_a_link_through_links_is_followed_before_it_is_trusted(
    seeded: Bench, tmp_path: Path
) -> None:
    inner = tree_of(seeded, ("120000", "hop", b"../jump/../.."))
    tree = tree_of(
        seeded, ("040000", "d", inner), ("120000", "jump", b"d"), ("120000", "fine", b"d/../jump/x")
    )
    with seeded.open() as repository:
        export = repository.export(tree, tmp_path / "out")
        assert not (export.root / "d/hop").is_symlink()
        assert (export.root / "fine").is_symlink()
        assert (export.root / "jump").is_symlink()


@pytest.mark.parametrize(
    "name",
    [
        ".git",
        ".GIT",
        "git~1",
        "GIT~1",
        ".git ",
        ".git. .",
        ".git::$INDEX_ALLOCATION",
        ".g\u200cit",
        "x\\.git",
        "..",
    ],
)
def test_names_that_no_checkout_may_hold_are_refused(
    seeded: Bench, tmp_path: Path, name: str
) -> None:
    blob = seeded.git("hash-object", "-w", "--stdin", stdin=b"x")
    raw = b"100644 " + name.encode() + b"\0" + bytes.fromhex(blob)
    tree = seeded.git("hash-object", "-w", "--literally", "-t", "tree", "--stdin", stdin=raw)
    with (
        seeded.open() as repository,
        pytest.raises(UsageError, match="a name that no checkout may hold"),
    ):
        repository.export(tree, tmp_path / "out")
    nested = seeded.git(
        "hash-object", "-w", "--literally", "-t", "tree", "--stdin",
        stdin=b"40000 " + name.encode() + b"\0" + bytes.fromhex(seeded.git("rev-parse", "HEAD^{tree}")),
    )  # fmt: skip
    with (
        seeded.open() as repository,
        pytest.raises(UsageError, match="a name that no checkout may hold"),
    ):
        repository.export(nested, tmp_path / "out2")


def test_a_tree_that_says_one_name_twice_is_refused(seeded: Bench, tmp_path: Path) -> None:
    blob = bytes.fromhex(seeded.git("hash-object", "-w", "--stdin", stdin=b"/etc"))
    folder = bytes.fromhex(seeded.git("rev-parse", "HEAD^{tree}"))
    raw = b"120000 a\0" + blob + b"40000 a\0" + folder
    tree = seeded.git("hash-object", "-w", "--literally", "-t", "tree", "--stdin", stdin=raw)
    with seeded.open() as repository, pytest.raises(InfrastructureError, match="malformed"):
        repository.export(tree, tmp_path / "out")
    assert not (tmp_path / "out/a").is_symlink()


def test_a_folder_in_use_is_not_written_to(seeded: Bench, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("mine")
    with seeded.open() as repository, pytest.raises(InfrastructureError, match="not empty"):
        repository.export("HEAD", tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine"]
