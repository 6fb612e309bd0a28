"""Snapshots against git's own full re-hash, in every state that a working tree can be in."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from gitbench import Bench, fingerprint

from vibe_gate.domain.paths import quote
from vibe_gate.errors import InfrastructureError, UsageError

Holds = Callable[[Bench], str]


def test_a_clean_tree_is_heads_tree(seeded: Bench, holds: Holds) -> None:
    assert holds(seeded) == seeded.git("rev-parse", "HEAD^{tree}")


STATES = {
    "edits, additions and deletions": "echo two >a.txt; mkdir new; echo new >new/untracked; rm src/deep/er/file.txt",
    "staged and edited again": "echo one >b.txt; echo two >a.txt; git add -A; echo three >a.txt; rm b.txt",
    "only the exec bit": "chmod +x a.txt; chmod -x tool.sh",
    "exec bits where core.fileMode is false": "git config core.fileMode false; echo x | tee a.txt tool.sh >new.sh; "
    "chmod +x a.txt new.sh; chmod -x tool.sh",
    "a folder that became a link": "mv src ../elsewhere; ln -s ../elsewhere src; echo stolen >src/app.py",
    "links where core.symlinks is false": "git config core.symlinks false; rm link; printf tool.sh >link",
    "a folder that became a file": "rm -r src; echo file >src",
    "and a folder again": "rm -r src; echo file >src; git add -A; rm src; mkdir src; echo x >src/app.py",
    "a file that became a folder": "rm a.txt; mkdir a.txt; echo x >a.txt/x",
    "and is gone": "rm a.txt; mkdir a.txt; echo x >a.txt/x; git add -A; rm -r a.txt",
    "core.autocrlf": r"printf 'a\r\n' >kept; git add -A; git commit -qm crlf; git config core.autocrlf true; "
    r"printf 'one\r\n' | tee a.txt new >>kept; printf 'mixed\r\nends\n' >src/app.py; printf 'a\0b\r\n' >binary",
    "attributes in a folder, in info and not yet tracked": "echo '*.txt text' >src/.gitattributes; "
    r"echo '*.py text' >.git/info/attributes; printf 'a\r\n' | tee src/deep/new.txt >src/app.py",
    "attributes that are only in the index": "echo '*.py text' >src/.gitattributes; git add -A; git commit -qm x; "
    r"rm src/.gitattributes; printf 'b\r\n' >src/app.py",
    "tracked and ignored": "echo secret >.gitignore; echo x >secret; git add -f secret .gitignore",
    "removed from the index, ignored": "echo secret >.gitignore; echo x >secret; git add -f secret; git commit -qm x; "
    "git rm -q --cached secret a.txt",
    "a nested repository": "git init -q nested; cd nested; echo x >x; git add x; git commit -qm x; echo y >y",
    "an embedded bare repository": "git init -q --bare embedded.git",
    "an index of version 4 with extensions": "git config core.untrackedCache true; git update-index --index-version 4 "
    "--force-untracked-cache; git status -s; echo new >src/new; git update-index --assume-unchanged src/app.py; "
    "echo hidden >src/app.py",
    "a split index": "git update-index --split-index; echo edited >a.txt; "
    "git update-index --assume-unchanged src/app.py; echo hidden >src/app.py",
    "a flagged file with a staged change": "echo 1 >a.txt; git add a.txt; git update-index --assume-unchanged a.txt",
    "and edited": "echo 1 >a.txt; git add a.txt; git update-index --assume-unchanged a.txt; echo 2 >a.txt",
    "an intent to add": "echo x | tee soon >src/gone; git add -N soon src/gone; rm src/gone",
    "a conflict": "git checkout -qb side; echo theirs >a.txt; git rm -q tool.sh; git commit -qam theirs; "
    "git checkout -q main; echo ours | tee a.txt >tool.sh; git commit -qam ours; git merge -q side || true",
    "empty folders and files": "mkdir -p void/inner; : >empty; : >a.txt",
    "line ends under a text attribute": r"echo '*.txt text' >.gitattributes; git add -A; git commit -qm x; "
    r"printf 'one\r\n' >a.txt",
    "ident and encodings": r"printf '*.c ident\n*.u working-tree-encoding=UTF-16LE eol=crlf\n' >.gitattributes; "
    r"git add -A; git commit -qm x; echo '/* $Id: 0123456789 $ */' >x.c; printf 'h\0i\0\r\0\n\0' >y.u",
    "a file with both flags that is not there": "git update-index --assume-unchanged a.txt; "
    "git update-index --skip-worktree a.txt; rm a.txt",
    "names that git quotes": r"""mkdir 'a "b'; for n in '"q"' 'back\\slash\n' 'a "b/é' "$(printf 'new\nline')"; """
    r"""do echo x >"$n"; done; git add -A; git commit -qm x; rm '"q"'; for n in *; do [ -d "$n" ] || """
    r"""echo y >"$n"; done; echo y >'a "b/é'""",
    "nothing left": "git rm -qr --cached .; rm -r $(ls)",
    "names of other case": "git config core.ignoreCase true; echo x >A.TXT; mkdir SRC; echo x >SRC/new; echo x >a.txt",
}
"""What people do in the working tree of `seeded`."""


@pytest.mark.parametrize("state", STATES)
def test_a_snapshot_is_what_git_would_add_in_every_state(
    seeded: Bench, holds: Holds, state: str
) -> None:
    subprocess.run(STATES[state], shell=True, check=True, cwd=seeded.root, env=seeded.environ)
    holds(seeded)


@pytest.mark.slow
def test_a_second_look_sees_whatever_differs_from_the_snapshot(seeded: Bench) -> None:
    seeded.write("untracked", "x\n")
    with seeded.open() as repository:
        taken = repository.snapshot()
        assert repository.still_holds(taken)
        for change, undo in {
            "echo two >a.txt": "git checkout -q a.txt", "rm a.txt": "git checkout -q a.txt", "echo y >new": "rm new",
            "echo y >untracked": "echo x >untracked", "rm untracked": "echo x >untracked",
            "chmod +x a.txt": "chmod -x a.txt", "ln -sf tool.sh link": "ln -sf a.txt link",
        }.items():  # fmt: skip
            subprocess.run(change, shell=True, check=True, cwd=seeded.root, env=seeded.environ)
            assert not repository.still_holds(taken), change
            subprocess.run(undo, shell=True, check=True, cwd=seeded.root, env=seeded.environ)
            assert repository.still_holds(taken), undo
    with seeded.open() as repository:
        assert repository.still_holds(taken)
        assert not repository.still_holds(seeded.git("rev-parse", "HEAD^{tree}"))


def test_in_a_repository_from_a_disk_that_ignores_case_names_are_what_they_are_on_this_disk(
    seeded: Bench,
) -> None:
    """Git's own look would lose the new name at first, and stop at a folder of which it knows
    another case.
    """
    seeded.git("config", "core.ignoreCase", "true")
    (seeded.root / "a.txt").rename(seeded.root / "A.txt")
    (seeded.root / "SRC").mkdir()
    (seeded.root / "src" / "app.py").rename(seeded.root / "SRC" / "App.py")
    (seeded.root / "src" / "more.py").write_text("")
    with seeded.open() as repository:
        taken = repository.snapshot()
        assert repository.still_holds(taken)
        names = repository.tree(taken).list("")
        assert {"A.txt", "SRC/App.py", "src/more.py"} <= {*names}
        assert {"a.txt", "src/app.py"}.isdisjoint(names)


def test_links_of_every_kind(seeded: Bench, holds: Holds, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    for name, target in {
        "loop": "loop",
        "dangling": "nowhere",
        "out": str(outside),
        "up": "../outside/secret",
    }.items():
        (seeded.root / name).symlink_to(target)
    (seeded.root / "link").unlink()
    (seeded.root / "link").symlink_to("tool.sh")
    taken = holds(seeded)
    with seeded.open() as repository:
        assert b"secret" not in b"".join(
            repository.tree(repository.snapshot()).read(p) or b"" for p in ["out/secret"]
        )
        assert repository.snapshot() == taken


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


def test_a_file_that_vanishes_while_git_adds_is_left_out(seeded: Bench) -> None:
    seeded.git("config", "--global", "filter.build.clean", "rm -f z-temporary; cat")
    seeded.write(".gitattributes", "a-* filter=build\n")
    seeded.write("a-built", "x\n")
    seeded.write("z-temporary", "y\n")
    with seeded.open() as repository:
        tree = repository.tree(repository.snapshot())
        assert (tree.read("a-built"), tree.read("z-temporary")) == (b"x\n", None)


def test_a_required_filter_that_fails_is_one_sentence(seeded: Bench) -> None:
    seeded.git("config", "--global", "filter.bad.clean", "false")
    seeded.git("config", "--global", "filter.bad.required", "true")
    seeded.write(".gitattributes", "*.bad filter=bad\n")
    seeded.write("x.bad", "x\n")
    with pytest.raises(UsageError, match=r"could not convert.*bad"):
        seeded.snapshot()


def test_ignored_files_are_left_out_unless_tracked(
    seeded: Bench, holds: Holds, environ: dict[str, str]
) -> None:
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


def with_submodule(bench: Bench, tmp_path: Path) -> Bench:
    library = Bench(tmp_path / "library", bench.environ)
    library.root.mkdir()
    library.git("init", "-q")
    library.commit("library", **{"lib.txt": "1\n"})
    bench.git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(library.root),
        "vendor/lib",
    )
    bench.commit("submodule")
    return Bench(bench.root / "vendor/lib", bench.environ)


@pytest.mark.slow
def test_submodules_clean_dirty_moved_on_and_gone(
    seeded: Bench, oracle: Holds, tmp_path: Path
) -> None:
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
    # a copy's submodule points back to the original, so git is asked in place, with an index of its
    # own
    scratch = {"GIT_INDEX_FILE": str(tmp_path / "index")}
    seeded.git("read-tree", "HEAD", env=scratch)
    seeded.git("add", "-A", env=scratch)
    assert moved == seeded.git("write-tree", env=scratch) != head
    with inner.open() as repository:
        assert repository.root == inner.root
        assert repository.snapshot() == inner.git("rev-parse", "HEAD^{tree}")


def test_a_nested_repository_without_a_commit_is_one_sentence(seeded: Bench) -> None:
    seeded.write("nested/x", "x\n")
    seeded.git("init", "-q", "nested")
    with pytest.raises(
        UsageError, match=r"^nested is a git repository of its own without a commit"
    ):
        seeded.snapshot()


@pytest.mark.parametrize("cone", [True, False])
def test_a_sparse_checkout_deletes_nothing(seeded: Bench, holds: Holds, cone: bool) -> None:
    seeded.commit("more", **{"docs/a.md": "a\n", "docs/b.md": "b\n", "src/x.py": "x\n"})
    seeded.git(
        "sparse-checkout", "set", *([] if cone else ["--no-cone"]), "src" if cone else "/src/"
    )
    assert not (seeded.root / "docs").exists()
    assert seeded.snapshot() == seeded.git("rev-parse", "HEAD^{tree}")
    seeded.write("src/x.py", "edited\n")
    seeded.write("src/new.py", "new\n")
    holds(seeded)


def test_racy_edits_of_the_same_size_and_time(seeded: Bench, holds: Holds) -> None:
    path = seeded.write("a.txt", "two\n")
    seeded.git("add", "a.txt")
    status = path.stat()
    path.write_text("six\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    index = seeded.root / ".git/index"
    os.utime(index, ns=(status.st_mtime_ns, status.st_mtime_ns))
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


@pytest.mark.slow
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


ODD_NAMES = [
    b"latin-\xe9", "caf\u00e9".encode(), "cafe\u0301".encode(), b"new\nline", b"tab\there", b"esc\x1b[31m", b'quo"te',
    b"-leading", b":(top)magic", "bidi\u202egpj.exe".encode(), "tag\U000e0041".encode(), b"a\\b", b" space ", b"*",
    b"\xff/\xfe",
]  # fmt: skip


@pytest.mark.slow
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
    working_folder = Path.cwd()
    os.chdir(seeded.root)
    try:
        listener.bind("socket")
    finally:
        os.chdir(working_folder)
    holds(seeded)
    (seeded.root / "a.txt").unlink()
    os.mkfifo(seeded.root / "a.txt")
    with pytest.raises(UsageError, match=r"^a\.txt is tracked, and no file or link any more"):
        seeded.snapshot()
    listener.close()


@pytest.fixture
def slow_add(seeded: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A repository whose `git add` does not end, and a git door that waits for it half a second."""
    program = tmp_path / "programs" / "git"
    program.parent.mkdir()
    git = shutil.which("git")
    program.write_text(
        f'#!/bin/sh\ncase " $* " in *" add "*) exec sleep 60;; esac\nexec {git} "$@"\n'
    )
    program.chmod(0o755)
    seeded.environ["PATH"] = f"{program.parent}:{seeded.environ['PATH']}"
    monkeypatch.setattr("vibe_gate.git.program.PATIENCE_S", 0.5)
    return seeded


@pytest.mark.parametrize(
    ("name", "is_tracked"), [("core.4711", False), ("a.txt", True), ("a[b] *\n.bin", False)]
)
def test_when_git_takes_too_long_to_store_files_the_largest_is_named(
    slow_add: Bench, name: str, is_tracked: bool
) -> None:
    slow_add.write("small", "x")
    slow_add.write(name, "x" * 70_000)
    slow_add.write(".gitignore", "ignored\n")
    slow_add.write("ignored", "x" * 90_000)
    with pytest.raises(InfrastructureError) as raised:
        slow_add.snapshot()
    sentence = str(raised.value)
    assert sentence.startswith("git did not store the files of the working tree within 0.5 seconds")
    assert f"the largest is {quote(name)} (70,000 bytes): add it to .gitignore" in sentence
    assert "FIFO" not in sentence


def test_when_git_waits_for_a_fifo_of_ignore_rules_the_fifo_is_named(
    seeded: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vibe_gate.git.program.PATIENCE_S", 0.5)
    monkeypatch.setattr("vibe_gate.git.snapshot._LISTING_S", 0.5)
    os.mkfifo(seeded.root / "src" / ".gitignore")
    with pytest.raises(
        InfrastructureError, match=r"cannot list them: remove FIFOs named \.gitignore"
    ):
        seeded.snapshot()


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
        out.truncate(64 << 20)
    seeded.write("huge2", b"x" * (9 << 20))
    with seeded.open() as repository:
        Path("/proc/self/clear_refs").write_text("5")  # forgets what other tests held
        before = _peak()
        tree = repository.tree(repository.snapshot())
        assert _peak() - before < 40 << 20
        assert repository.git_dir == seeded.root / ".git"
        entry = tree.entry(b"huge")
        assert entry is not None
        assert entry.id == seeded.git("hash-object", "huge")
        assert tree.read("huge2") == b"x" * (9 << 20)
        repository.export(tree.id, tmp_path / "export")
        assert (tmp_path / "export/huge").stat().st_size == 64 << 20


def _peak() -> int:
    line = next(
        x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM")
    )
    return int(line.split()[1]) << 10


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
