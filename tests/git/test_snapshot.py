"""Snapshots against git's own full re-hash, in every state that a working tree can be in."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from gitbench import Bench, fingerprint

from vibe_gate.errors import InfrastructureError, UsageError

Holds = Callable[[Bench], str]


def test_a_clean_tree_is_heads_tree(seeded: Bench, holds: Holds) -> None:
    assert holds(seeded) == seeded.git("rev-parse", "HEAD^{tree}")


def test_plain_edits_additions_and_deletions(seeded: Bench, holds: Holds) -> None:
    seeded.write("a.txt", "two\n")
    seeded.write("new/untracked.txt", "new\n")
    (seeded.root / "src/deep/er/file.txt").unlink()
    holds(seeded)


def test_staged_and_then_edited_again(seeded: Bench, holds: Holds) -> None:
    seeded.write("a.txt", "staged\n")
    seeded.write("b.txt", "staged\n")
    seeded.git("add", "-A")
    seeded.write("a.txt", "edited\n")
    (seeded.root / "b.txt").unlink()
    holds(seeded)


def test_only_the_exec_bit(seeded: Bench, holds: Holds) -> None:
    (seeded.root / "a.txt").chmod(0o755)
    (seeded.root / "tool.sh").chmod(0o644)
    holds(seeded)


def test_exec_bits_do_not_count_where_core_filemode_is_false(seeded: Bench, holds: Holds) -> None:
    seeded.git("config", "core.fileMode", "false")
    seeded.write("a.txt", "edited\n").chmod(0o755)
    seeded.write("tool.sh", "edited\n").chmod(0o644)
    seeded.write("new.sh", "new\n").chmod(0o755)
    holds(seeded)


def test_links_of_every_kind(seeded: Bench, holds: Holds, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    for name, target in {"loop": "loop", "dangling": "nowhere", "out": str(outside), "up": "../outside/secret"}.items():
        (seeded.root / name).symlink_to(target)
    (seeded.root / "link").unlink()
    (seeded.root / "link").symlink_to("tool.sh")
    taken = holds(seeded)
    with seeded.open() as repository:
        assert b"secret" not in b"".join(repository.tree(repository.snapshot()).read(p) or b"" for p in ["out/secret"])
        assert repository.snapshot() == taken


def test_a_folder_that_became_a_link_is_not_entered(seeded: Bench, holds: Holds, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (seeded.root / "src").rename(elsewhere)
    (seeded.root / "src").symlink_to(elsewhere)
    (elsewhere / "app.py").write_text("stolen\n")
    holds(seeded)


def test_core_symlinks_false_keeps_links_as_links(seeded: Bench, holds: Holds) -> None:
    seeded.git("config", "core.symlinks", "false")
    (seeded.root / "link").unlink()
    seeded.write("link", "tool.sh")
    holds(seeded)


def test_a_folder_becomes_a_file(seeded: Bench, holds: Holds) -> None:
    for path in ["src/deep/er/file.txt", "src/app.py"]:
        (seeded.root / path).unlink()
    for path in ["src/deep/er", "src/deep", "src"]:
        (seeded.root / path).rmdir()
    seeded.write("src", "now a file\n")
    holds(seeded)
    seeded.git("add", "-A")
    (seeded.root / "src").unlink()
    seeded.write("src/app.py", "a folder again\n")
    holds(seeded)


def test_a_file_becomes_a_folder(seeded: Bench, holds: Holds) -> None:
    (seeded.root / "a.txt").unlink()
    seeded.write("a.txt/inner/x", "x\n")
    holds(seeded)
    seeded.git("add", "-A")
    (seeded.root / "a.txt/inner/x").unlink()
    (seeded.root / "a.txt/inner").rmdir()
    (seeded.root / "a.txt").rmdir()
    holds(seeded)


@pytest.mark.parametrize("autocrlf", ["true", "input"])
def test_line_endings_under_autocrlf(seeded: Bench, holds: Holds, autocrlf: str) -> None:
    seeded.write("kept.txt", "committed\r\nwith crlf\r\n")
    seeded.commit("crlf in the index")
    seeded.git("config", "core.autocrlf", autocrlf)
    seeded.write("a.txt", "one\r\n")
    seeded.write("kept.txt", "committed\r\nwith crlf\r\nand edited\r\n")
    seeded.write("new.txt", "new\r\n")
    seeded.write("src/app.py", "mixed\r\nends\n")
    seeded.write("binary", b"a\0b\r\n")
    holds(seeded)


def test_only_line_endings_changed_under_a_text_attribute(seeded: Bench, holds: Holds) -> None:
    seeded.commit("attributes", **{".gitattributes": "*.txt text\n"})
    seeded.write("a.txt", "one\r\n")
    assert holds(seeded) == seeded.git("rev-parse", "HEAD^{tree}")


def test_ident_and_encodings(seeded: Bench, holds: Holds) -> None:
    seeded.commit("attributes", **{".gitattributes": "*.c ident\n*.u working-tree-encoding=UTF-16LE eol=crlf\n"})
    seeded.write("x.c", "/* $Id: 0123456789 $ */\n")
    seeded.write("y.u", "hello\r\nworld\r\n".encode("utf-16-le"))
    holds(seeded)


def test_attributes_in_a_subfolder_in_info_and_not_yet_tracked(seeded: Bench, holds: Holds) -> None:
    seeded.write("src/.gitattributes", "*.txt text\n")
    seeded.write(".git/info/attributes", "*.py text\n")
    seeded.write("src/deep/er/new.txt", "a\r\n")
    seeded.write("src/app.py", "b\r\n")
    holds(seeded)


def test_attributes_that_are_only_in_the_index(seeded: Bench, holds: Holds) -> None:
    seeded.commit("attributes", **{"src/.gitattributes": "*.py text\n"})
    (seeded.root / "src/.gitattributes").unlink()
    seeded.write("src/app.py", "b\r\n")
    holds(seeded)


def test_a_filter_of_the_users_own_configuration_runs(seeded: Bench, holds: Holds) -> None:
    seeded.git("config", "--global", "filter.upper.clean", "tr a-z A-Z")
    seeded.git("config", "--global", "filter.upper.required", "true")
    seeded.commit("attributes", **{".gitattributes": "*.up filter=upper\n", "old.up": "old\n"})
    seeded.write("old.up", "older\n")
    seeded.write("odd\nname.up", "new\n")
    taken = holds(seeded)
    with seeded.open() as repository:
        assert repository.tree(repository.snapshot()).read("odd\nname.up") == b"NEW\n"
        assert repository.snapshot() == taken


def test_a_required_filter_that_fails_is_one_sentence(seeded: Bench) -> None:
    seeded.git("config", "--global", "filter.bad.clean", "false")
    seeded.git("config", "--global", "filter.bad.required", "true")
    seeded.write(".gitattributes", "*.bad filter=bad\n")
    seeded.write("x.bad", "x\n")
    with pytest.raises(UsageError, match=r"could not convert.*bad"):
        seeded.snapshot()


def test_ignored_files_are_left_out_unless_tracked(seeded: Bench, holds: Holds, environ: dict[str, str]) -> None:
    seeded.write("kept.log", "tracked all the same\n")
    seeded.write("lib/kept.o", "tracked\n")
    seeded.commit("tracked")
    seeded.commit("ignore", **{".gitignore": "*.log\n"})
    seeded.write(".git/info/exclude", "*.o\n")
    excludes = Path(environ["HOME"]) / "ignore"
    excludes.write_text("*.tmp\n")
    seeded.git("config", "--global", "core.excludesFile", str(excludes))
    for path in ["kept.log", "other.log", "lib/kept.o", "lib/other.o", "x.tmp", "real.txt"]:
        seeded.write(path, "edited\n")
    holds(seeded)


def test_removed_from_the_index_and_ignored_is_gone(seeded: Bench, holds: Holds) -> None:
    seeded.commit("ignore", **{".gitignore": "secret\n"})
    seeded.write("secret", "x")
    seeded.git("add", "-f", "secret")
    holds(seeded)
    seeded.commit("tracked")
    seeded.git("rm", "-q", "--cached", "secret", "a.txt")
    holds(seeded)


def with_submodule(bench: Bench, tmp_path: Path) -> Bench:
    library = Bench(tmp_path / "library", bench.environ)
    library.root.mkdir()
    library.git("init", "-q")
    library.commit("library", **{"lib.txt": "1\n"})
    bench.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.root), "vendor/lib")
    bench.commit("submodule")
    return Bench(bench.root / "vendor/lib", bench.environ)


def test_submodules_clean_dirty_moved_on_and_gone(seeded: Bench, oracle: Holds, tmp_path: Path) -> None:
    inner = with_submodule(seeded, tmp_path)
    head = seeded.git("rev-parse", "HEAD^{tree}")
    assert seeded.snapshot() == head
    inner.write("lib.txt", "dirty\n")
    inner.write("untracked", "dirty\n")
    assert seeded.snapshot() == head
    inner.commit("moved on")
    before = fingerprint(seeded.root)
    moved = seeded.snapshot()
    assert fingerprint(seeded.root) == before
    # a copy's submodule points back to the original, so git is asked in place, with an index of its own
    scratch = {"GIT_INDEX_FILE": str(tmp_path / "index")}
    seeded.git("read-tree", "HEAD", env=scratch)
    seeded.git("add", "-A", env=scratch)
    assert moved == seeded.git("write-tree", env=scratch) != head
    with inner.open() as repository:
        assert repository.root == inner.root
        assert repository.snapshot() == inner.git("rev-parse", "HEAD^{tree}")


def test_a_nested_repository_is_its_commit(seeded: Bench, holds: Holds) -> None:
    nested = Bench(seeded.root / "nested", seeded.environ)
    nested.root.mkdir()
    nested.git("init", "-q")
    nested.commit("nested", x="x\n")
    nested.write("y", "y\n")
    holds(seeded)


def test_a_nested_repository_without_a_commit_is_one_sentence(seeded: Bench) -> None:
    seeded.write("nested/x", "x\n")
    seeded.git("init", "-q", "nested")
    with pytest.raises(UsageError, match=r"^nested is a git repository of its own without a commit"):
        seeded.snapshot()


def test_an_embedded_bare_repository_is_plain_files(seeded: Bench, holds: Holds) -> None:
    seeded.git("init", "-q", "--bare", "embedded.git")
    holds(seeded)


@pytest.mark.parametrize("cone", [True, False])
def test_a_sparse_checkout_deletes_nothing(seeded: Bench, holds: Holds, cone: bool) -> None:
    seeded.commit("more", **{"docs/a.md": "a\n", "docs/b.md": "b\n", "src/x.py": "x\n"})
    seeded.git("sparse-checkout", "set", *([] if cone else ["--no-cone"]), "src" if cone else "/src/")
    assert not (seeded.root / "docs").exists()
    assert seeded.snapshot() == seeded.git("rev-parse", "HEAD^{tree}")
    seeded.write("src/x.py", "edited\n")
    seeded.write("src/new.py", "new\n")
    holds(seeded)


def test_a_linked_worktree(seeded: Bench, tmp_path: Path) -> None:
    seeded.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "side")
    linked = Bench(tmp_path / "linked", seeded.environ)
    linked.write("a.txt", "edited\n")
    linked.write("new", "new\n")
    before = fingerprint(seeded.root), fingerprint(linked.root)
    taken = linked.snapshot()
    assert (fingerprint(seeded.root), fingerprint(linked.root)) == before
    linked.git("add", "-A")
    assert taken == linked.git("write-tree")
    assert seeded.snapshot() == seeded.git("rev-parse", "HEAD^{tree}")


def test_racy_edits_of_the_same_size_and_time(seeded: Bench, holds: Holds) -> None:
    path = seeded.write("a.txt", "two\n")
    seeded.git("add", "a.txt")
    about = path.stat()
    path.write_text("six\n")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    index = seeded.root / ".git/index"
    os.utime(index, ns=(about.st_mtime_ns, about.st_mtime_ns))
    holds(seeded)


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_index_versions_and_extensions(seeded: Bench, holds: Holds, version: str) -> None:
    seeded.git("config", "core.untrackedCache", "true")
    seeded.git("update-index", "--index-version", version, "--force-untracked-cache")
    seeded.git("status")
    seeded.write("src/new", "new\n")
    seeded.write("a.txt", "edited\n")
    holds(seeded)
    seeded.git("update-index", "--assume-unchanged", "src/app.py")
    seeded.write("src/app.py", "hidden\n")
    holds(seeded)


def test_a_split_index(seeded: Bench, holds: Holds) -> None:
    seeded.git("update-index", "--split-index")
    seeded.write("a.txt", "edited\n")
    seeded.git("update-index", "--assume-unchanged", "src/app.py")
    seeded.write("src/app.py", "hidden\n")
    holds(seeded)


def test_a_sparse_index(seeded: Bench, holds: Holds) -> None:
    seeded.commit("more", **{"docs/a.md": "a\n", "docs/b.md": "b\n"})
    seeded.git("sparse-checkout", "set", "--sparse-index", "src")
    assert holds(seeded) == seeded.git("rev-parse", "HEAD^{tree}")
    seeded.write("src/app.py", "edited\n")
    seeded.write("docs/b.md", "there all the same\n")
    with seeded.open() as repository:
        tree = repository.tree(repository.snapshot())
        assert tree.list("docs") == ["docs/a.md", "docs/b.md"]
        assert tree.read("docs/b.md") == b"there all the same\n"


def test_edits_behind_flags_are_seen(seeded: Bench, holds: Holds) -> None:
    seeded.git("update-index", "--assume-unchanged", "a.txt", "tool.sh", "src/app.py")
    seeded.git("update-index", "--skip-worktree", "src/deep/er/file.txt", "link")
    seeded.write("a.txt", "hidden\n")
    seeded.write("src/deep/er/file.txt", "hidden too\n")
    (seeded.root / "tool.sh").unlink()
    (seeded.root / "link").unlink()
    taken = seeded.snapshot()
    with seeded.open() as repository:
        tree = repository.tree(repository.snapshot())
        assert tree.read("a.txt") == b"hidden\n"
        assert tree.read("src/deep/er/file.txt") == b"hidden too\n"
        assert tree.read("tool.sh") is None
    assert holds(seeded) == taken


def test_a_file_with_both_flags_and_not_there_is_not_deleted(seeded: Bench, holds: Holds) -> None:
    seeded.git("update-index", "--assume-unchanged", "a.txt")
    seeded.git("update-index", "--skip-worktree", "a.txt")
    (seeded.root / "a.txt").unlink()
    assert holds(seeded) == seeded.git("rev-parse", "HEAD^{tree}")


def test_a_flagged_file_with_a_staged_change(seeded: Bench, holds: Holds) -> None:
    seeded.write("a.txt", "staged\n")
    seeded.git("add", "a.txt")
    seeded.git("update-index", "--assume-unchanged", "a.txt")
    holds(seeded)
    seeded.write("a.txt", "edited\n")
    holds(seeded)


def test_an_intent_to_add_is_its_file(seeded: Bench, holds: Holds) -> None:
    seeded.write("soon.txt", "content\n")
    seeded.write("sub/gone.txt", "content\n")
    seeded.git("add", "-N", "soon.txt", "sub/gone.txt")
    (seeded.root / "sub/gone.txt").unlink()
    holds(seeded)


def test_a_conflict_is_the_working_files(seeded: Bench, holds: Holds) -> None:
    seeded.commit("base", f="base\n", g="base\n")
    seeded.git("checkout", "-qb", "side")
    seeded.commit("theirs", f="theirs\n")
    seeded.git("rm", "-q", "g")
    seeded.git("commit", "-qm", "gone")
    seeded.git("checkout", "-q", "main")
    seeded.commit("ours", f="ours\n", g="ours\n")
    seeded.git("merge", "side", ok=False)
    holds(seeded)


ODD_NAMES = [
    b"latin-\xe9", "caf\u00e9".encode(), "cafe\u0301".encode(), b"new\nline", b"tab\there", b"esc\x1b[31m", b'quo"te',
    b"-leading", b":(top)magic", "bidi\u202egpj.exe".encode(), "tag\U000e0041".encode(), b"a\\b", b" space ", b"*",
    b"\xff/\xfe",
]  # fmt: skip


def test_odd_names(seeded: Bench, holds: Holds) -> None:
    for name in ODD_NAMES:
        seeded.write(name, name)
    holds(seeded)
    seeded.commit("odd")
    for name in ODD_NAMES:
        seeded.write(name, name + b" edited")
    seeded.write(".git/info/attributes", "* text\n")
    holds(seeded)


def test_a_path_longer_than_the_system_takes_at_once(seeded: Bench, holds: Holds) -> None:
    folder = os.open(seeded.root, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=folder)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    seeded.write("a.txt", "edited\n")
    with seeded.open() as repository:  # git does not see so deep either
        assert repository.tree(repository.snapshot()).read("a.txt") == b"edited\n"


def test_fifos_and_sockets_are_not_read(seeded: Bench, holds: Holds) -> None:
    os.mkfifo(seeded.root / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(seeded.root)
    try:
        listener.bind("socket")
    finally:
        os.chdir(here)
    holds(seeded)
    (seeded.root / "a.txt").unlink()
    os.mkfifo(seeded.root / "a.txt")
    with pytest.raises(UsageError, match=r"^a\.txt is tracked, and no file or link any more"):
        seeded.snapshot()
    listener.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_or_folder_is_one_sentence(seeded: Bench) -> None:
    seeded.write("hidden", "x").chmod(0)
    with pytest.raises(UsageError, match=r"^hidden cannot be read \(Permission denied\)"):
        seeded.snapshot()
    (seeded.root / "hidden").unlink()
    seeded.write("closed/x", "x")
    (seeded.root / "closed").chmod(0)
    try:
        with pytest.raises(UsageError, match="closed"):
            seeded.snapshot()
    finally:
        (seeded.root / "closed").chmod(0o755)


def test_empty_folders_and_files(seeded: Bench, holds: Holds) -> None:
    (seeded.root / "void/inner").mkdir(parents=True)
    seeded.write("empty")
    seeded.write("a.txt")
    holds(seeded)


def test_before_the_first_commit(bench: Bench, holds: Holds) -> None:
    holds(bench)
    bench.write("a", "a\n")
    bench.write("d/b", "b\n")
    bench.git("add", "a")
    bench.write("a", "edited\n")
    holds(bench)


@pytest.mark.slow
def test_a_huge_untracked_file_is_never_held_whole(seeded: Bench, tmp_path: Path) -> None:
    with (seeded.root / "huge").open("wb") as out:
        out.truncate(200 << 20)
    seeded.write("huge2", b"x" * (9 << 20))
    with seeded.open() as repository:
        before = _peak()
        tree = repository.tree(repository.snapshot())
        assert _peak() - before < 80 << 20
        assert repository.git_dir == seeded.root / ".git"
        entry = tree.entry(b"huge")
        assert entry is not None
        assert entry.id == seeded.git("hash-object", "huge")
        assert tree.read("huge2") == b"x" * (9 << 20)
        repository.export(tree.id, tmp_path / "export")
        assert (tmp_path / "export/huge").stat().st_size == 200 << 20


def _peak() -> int:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def test_case_collisions(seeded: Bench, holds: Holds) -> None:
    seeded.git("config", "core.ignoreCase", "true")
    seeded.write("A.TXT", "other\n")
    seeded.write("SRC/new.py", "new\n")
    seeded.write("a.txt", "edited\n")
    holds(seeded)


def test_artifacts_at_the_root_are_never_part_of_it(seeded: Bench) -> None:
    clean = seeded.git("rev-parse", "HEAD^{tree}")
    seeded.write(".vibe-artifacts/run/summary.json", "{}")
    assert seeded.snapshot() == clean
    seeded.git("add", "-f", ".vibe-artifacts")
    assert seeded.snapshot() == clean
    seeded.git("commit", "-qm", "by mistake")
    assert seeded.snapshot() == clean
    seeded.write("sub/.vibe-artifacts", "elsewhere it is a name like any other")
    assert seeded.snapshot() != clean


def test_a_bad_index_is_one_sentence(seeded: Bench) -> None:
    (seeded.root / ".git/index").write_bytes(b"DIRC\0\0\0\2\0\0\0\5" + b"x" * 40)
    with pytest.raises(InfrastructureError, match=r"could not read.*index"):
        seeded.snapshot()


def test_a_snapshot_can_be_taken_again_and_again(seeded: Bench) -> None:
    with seeded.open() as repository:
        first = repository.snapshot()
        seeded.write("a.txt", "edited\n")
        second = repository.snapshot()
        seeded.git("checkout", "-q", "--", "a.txt")
        assert repository.snapshot() == first != second
