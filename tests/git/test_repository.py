"""Opening repositories and resolving what a user asks for into a change."""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from pathlib import Path

import pytest
from gitbench import Bench, fingerprint

from vibe_gate.domain.change import EMPTY_TREE, Selection
from vibe_gate.errors import (
    GateError,
    IntegrityError,
    RevisionError,
    UnsupportedRepository,
    UsageError,
)
from vibe_gate.git.revisions import MAX_SHOWN


def test_the_repository_is_found_from_any_subfolder(seeded: Bench) -> None:
    with seeded.open(start=seeded.root / "src/deep") as repository:
        assert repository.root == seeded.root
        assert repository.git_dir == repository.common_dir == seeded.root / ".git"


def test_a_linked_worktree_has_its_own_git_dir(seeded: Bench, tmp_path: Path) -> None:
    seeded.git("worktree", "add", "-q", str(tmp_path / "linked"))
    with seeded.open(start=tmp_path / "linked") as repository:
        assert repository.root == tmp_path / "linked"
        assert repository.git_dir == seeded.root / ".git/worktrees/linked"
        assert repository.common_dir == seeded.root / ".git"
        assert repository.resolve("HEAD") == seeded.git("rev-parse", "HEAD")


def test_git_dir_and_work_tree_come_from_the_environment(seeded: Bench, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with seeded.open(start=tmp_path, GIT_DIR="repo/.git", GIT_WORK_TREE="elsewhere") as repository:
        assert repository.root == tmp_path / "elsewhere"
        assert repository.git_dir == seeded.root / ".git"
        assert repository.snapshot() == EMPTY_TREE


def test_core_worktree_is_followed(seeded: Bench, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/only").write_text("x")
    seeded.git("config", "core.worktree", str(tmp_path / "elsewhere"))
    with seeded.open() as repository:
        assert repository.root == tmp_path / "elsewhere"
        assert repository.tree(repository.snapshot()).list("") == ["only"]


@pytest.mark.parametrize("inside", [False, True])
def test_no_repository_is_one_sentence(seeded: Bench, tmp_path: Path, inside: bool) -> None:
    folder, sentence = (
        (seeded.root / ".git", "is inside .git")
        if inside
        else (tmp_path, "is not inside a git repository")
    )
    with pytest.raises(UsageError, match=sentence):
        seeded.open(start=folder)


def test_a_bare_repository_is_one_sentence(seeded: Bench, tmp_path: Path) -> None:
    seeded.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    with pytest.raises(UsageError, match=r"bare\.git is a bare repository"):
        seeded.open(start=tmp_path / "bare.git")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_owners_repository_is_one_sentence(seeded: Bench) -> None:
    for path in [seeded.root, seeded.root / ".git"]:
        os.chown(path, 12345, 12345)
    with pytest.raises(UsageError, match=r"git config --global --add safe\.directory"):
        seeded.open()
    seeded.git("config", "--global", "--add", "safe.directory", str(seeded.root))
    assert seeded.snapshot() == seeded.git("rev-parse", "HEAD^{tree}")


def refusal_of(bench: Bench) -> str:
    with pytest.raises(UnsupportedRepository) as caught:
        bench.open()
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_sha256_is_named(tmp_path: Path, environ: dict[str, str]) -> None:
    bench = Bench(tmp_path, environ)
    bench.git("init", "-q", "--object-format=sha256")
    assert "names its objects by sha256" in refusal_of(bench)


def test_an_unknown_extension_is_named(seeded: Bench) -> None:
    seeded.git("config", "core.repositoryFormatVersion", "1")
    seeded.git("config", "extensions.futureThing", "true")
    assert "futurething" in refusal_of(seeded)


def test_a_partial_clone_is_named(seeded: Bench, tmp_path: Path) -> None:
    seeded.git("config", "uploadpack.allowFilter", "true")
    seeded.git(
        "clone",
        "-q",
        "--filter=blob:none",
        "--no-checkout",
        f"file://{seeded.root}",
        str(tmp_path / "partial"),
    )
    assert "partial clone" in refusal_of(Bench(tmp_path / "partial", seeded.environ))


def test_git_missing_is_one_sentence(seeded: Bench) -> None:
    with pytest.raises(GateError, match="git was not found on PATH"):
        seeded.open(PATH="/nonexistent")


REVISIONS = [
    "HEAD",
    "main",
    "HEAD~1",
    "HEAD^",
    "HEAD@{0}",
    "@",
    "v1",
    "v1^{}",
    ":/second",
    "HEAD^{/first}",
    "main@{0}",
]
NO_COMMITS = [
    "nowhere",
    "-HEAD",
    "--all",
    "HEAD~99",
    "HEAD^{tree}",
    "HEAD:a.txt",
    "a\x1bb",
    "x\0y",
    "HEAD..main",
]


def test_the_whole_revision_grammar_and_what_is_no_commit(seeded: Bench) -> None:
    seeded.commit("second commit")
    seeded.git("tag", "-a", "v1", "-m", "tagged")
    with seeded.open() as repository:
        for revision in REVISIONS:
            unambiguous = revision if ":/" in revision else f"{revision}^0"
            assert repository.resolve(revision) == seeded.git("rev-parse", unambiguous)
        for revision in NO_COMMITS:
            with pytest.raises(RevisionError) as caught:
                repository.resolve(revision)
            assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("beginning", ["", "-", "\x1b"])
def test_a_long_revision_that_names_nothing_is_told_by_its_beginning(
    seeded: Bench, beginning: str
) -> None:
    with seeded.open() as repository, pytest.raises(RevisionError) as caught:
        repository.resolve(beginning + "a" * 100_000)
    assert "a…" in str(caught.value)
    assert len(str(caught.value)) < 2 * MAX_SHOWN


def test_a_root_commit_is_a_change_from_nothing(seeded: Bench) -> None:
    with seeded.open() as repository:
        change = repository.change(Selection("commit", "HEAD"))
    assert (change.before, change.base_commit) == (EMPTY_TREE, "")
    assert change.head_commit == change.key == seeded.git("rev-parse", "HEAD")
    assert {file.path for file in change.files} == {
        "a.txt",
        "link",
        "src/app.py",
        "src/deep/er/file.txt",
        "tool.sh",
    }
    assert change.patch_id == change.range_patch_id != ""


def merge_branches(bench: Bench, *branches: str) -> None:
    for name in branches:
        bench.git("checkout", "-qb", name, "main")
        bench.commit(name, **{f"{name}.txt": name})
    bench.git("checkout", "-q", "main")
    bench.commit("on main", **{"main.txt": "main"})
    bench.git("merge", "-q", "--no-ff", "-m", "merge", *branches)


def test_ranges_and_merge_bases(seeded: Bench) -> None:
    base = seeded.git("rev-parse", "HEAD")
    merge_branches(seeded, "one")
    with seeded.open() as repository:
        straight = repository.change(Selection("range", "one", "main"))
        since = repository.change(Selection("merge_base", "main^1", "one"))
        implied = repository.change(Selection("range", "one", ""))
    assert {file.path for file in straight.files} == {"main.txt"}
    assert (straight.kind, straight.base_commit, straight.patch_id) == (
        "range",
        seeded.git("rev-parse", "one"),
        "",
    )
    assert straight == implied
    assert (since.base_commit, since.head_commit) == (base, seeded.git("rev-parse", "one"))
    assert {file.path for file in since.files} == {"one.txt"}
    assert since.patch_id == since.range_patch_id != ""


def cross_branches(bench: Bench) -> tuple[str, str, str]:
    """Two branches that merged each other's commits: main took the removal of hole.txt, topic took
    it back.
    """
    bench.git("checkout", "-q", "-b", "harden")
    hardened = bench.commit("harden", **{"a.txt": "hard\n"})
    bench.git("checkout", "-q", "main")
    other = bench.commit("other", **{"b.txt": "b\n"})
    bench.git("merge", "-q", "--no-ff", "-m", "Merge harden", "harden")
    topic = bench.git(
        "commit-tree",
        f"{other}^{{tree}}",
        "-p",
        other,
        "-p",
        hardened,
        "-m",
        "Merge, the other way",
    )
    bench.git("branch", "topic", topic)
    return bench.git("rev-parse", "main"), topic, hardened


def test_of_several_merge_bases_none_is_taken_but_the_left_side_itself(seeded: Bench) -> None:
    main, topic, hardened = cross_branches(seeded)
    assert len(seeded.git("merge-base", "--all", "main", "topic").split()) == 2
    with seeded.open() as repository:
        change = repository.change(Selection("merge_base", "main", "topic"))
        assert (change.base_commit, change.head_commit) == (main, topic)
        assert [file.path for file in change.files] == ["a.txt"]
        [remark] = repository.remarks
        assert remark.startswith(
            f"main...topic has 2 merge bases (merges that cross), so the change was taken against {main[:12]}"
        )
    seeded.git("checkout", "-q", "topic")
    seeded.git("update-ref", "refs/remotes/origin/main", main)
    seeded.git("remote", "add", "origin", "https://127.0.0.1:1/none")
    with seeded.open() as repository:
        assert repository.upstream_base() == main
        pushed = repository.unpushed(topic, hardened, repository.remote_tips(""))
        assert ([commit.id for commit in pushed.commits], len(pushed.bases), pushed.bases[0]) == (
            [topic],
            2,
            hardened,
        )
        change = repository.change(Selection("range", hardened, topic, pushed.bases[1]))
        assert ([file.path for file in change.files], change.base_commit) == (["a.txt"], hardened)


def test_a_shallow_clone_does_not_take_an_older_merge_base_for_the_best(
    seeded: Bench, tmp_path: Path
) -> None:
    old = seeded.commit("old", **{"a.txt": "soft\n"})
    main = seeded.commit("main", **{"a.txt": "hard\n"})
    chain = main
    for number in range(6):
        chain = seeded.git("commit-tree", f"{old}^{{tree}}", "-p", chain, "-m", f"{number}")
    head = seeded.git("commit-tree", f"{old}^{{tree}}", "-p", old, "-p", chain, "-m", "head")
    seeded.git("branch", "topic", head)
    shallow = Bench(tmp_path / "shallow", seeded.environ)
    shallow.root.mkdir()
    shallow.git("init", "-q")
    shallow.git("fetch", "-q", "--depth=3", f"file://{seeded.root}", "main:main-too", "topic:topic")
    with shallow.open() as repository:
        assert shallow.git("merge-base", main, head) == old
        with pytest.raises(
            RevisionError, match="cannot be told here, for this clone is shallow: run `git fetch"
        ):
            repository.change(Selection("merge_base", main, head))
    shallow.git("fetch", "-q", "--depth=9", f"file://{seeded.root}", "topic", "main")
    with shallow.open() as repository:
        assert repository.change(Selection("merge_base", main, head)).base_commit == main


def test_no_merge_base_is_one_sentence(seeded: Bench) -> None:
    seeded.git("checkout", "-q", "--orphan", "other")
    seeded.commit("other root")
    with (
        seeded.open() as repository,
        pytest.raises(RevisionError, match=r"main\.\.\.other has no merge base"),
    ):
        repository.change(Selection("merge_base", "main", "other"))


def test_the_working_tree_against_a_revision(seeded: Bench) -> None:
    first = seeded.git("rev-parse", "HEAD")
    second = seeded.commit("second", **{"b.txt": "b\n"})
    with seeded.open() as repository:
        clean = repository.change(Selection("worktree", "HEAD"))
        committed = repository.change(Selection("worktree", "HEAD~1"))
        seeded.write("a.txt", "edited\n")
        dirty = repository.change(Selection("worktree", ""))
        combined = repository.change(Selection("worktree", "HEAD~1"))
        single = repository.change(Selection("commit", "HEAD"))
    assert (clean.files, clean.head_commit) == ((), second)
    assert (committed.base_commit, committed.head_commit, committed.patch_id) == (
        first,
        second,
        single.patch_id,
    )
    assert (dirty.head_commit, dirty.key) == ("", f"tree-{dirty.after}")
    assert dirty.patch_id == dirty.range_patch_id != ""
    assert combined.patch_id == ""
    assert combined.range_patch_id != dirty.range_patch_id
    assert {file.path for file in combined.files} == {"a.txt", "b.txt"}


def test_an_unborn_branch(bench: Bench) -> None:
    bench.write("a", "a\n")
    bench.git("add", "a")
    bench.write("b", "b\n")
    with bench.open() as repository:
        staged = repository.change(Selection("staged"))
        worktree = repository.change(Selection("worktree"))
        with pytest.raises(RevisionError, match="no commit yet"):
            repository.change(Selection("commit", "HEAD"))
    assert [file.path for file in staged.files] == ["a"]
    assert (staged.before, staged.base_commit) == (EMPTY_TREE, "")
    assert [file.path for file in worktree.files] == ["a", "b"]


def test_the_edge_of_a_shallow_clone(seeded: Bench, tmp_path: Path) -> None:
    for number in range(3):
        seeded.commit(f"{number}", **{"a.txt": f"{number}\n"})
    seeded.git("clone", "-q", "--depth=2", f"file://{seeded.root}", str(tmp_path / "shallow"))
    with Bench(tmp_path / "shallow", seeded.environ).open() as repository:
        assert len(repository.change(Selection("commit", "HEAD")).files) == 1
        assert len(repository.change(Selection("range", "HEAD~1", "HEAD")).files) == 1
        with pytest.raises(RevisionError, match=r"git fetch --deepen=1"):
            repository.change(Selection("commit", "HEAD~1"))
        with pytest.raises(RevisionError, match=r"shallow.*git fetch --deepen"):
            repository.change(Selection("range", "HEAD~2", "HEAD"))


def test_replace_refs_and_grafts_hide_nothing(seeded: Bench) -> None:
    first = seeded.git("rev-parse", "HEAD")
    evil = seeded.commit("evil", **{"evil.txt": "evil\n"})
    seeded.git("replace", "--graft", evil)
    innocent = seeded.git("commit-tree", "-p", first, "-m", "innocent", f"{first}^{{tree}}")
    seeded.git("replace", "-f", evil, innocent)
    with seeded.open() as repository:
        assert [file.path for file in repository.change(Selection("commit", "HEAD")).files] == [
            "evil.txt"
        ]
    seeded.git("replace", "-d", evil)
    seeded.write(".git/info/grafts", f"{evil}\n")
    with seeded.open() as repository:
        assert repository.resolve("HEAD~1") == first
        assert [file.path for file in repository.change(Selection("commit", "HEAD")).files] == [
            "evil.txt"
        ]


def test_alternates_are_read(seeded: Bench, tmp_path: Path) -> None:
    seeded.git("clone", "-q", "--shared", ".", str(tmp_path / "one"))
    seeded.git("clone", "-q", "--shared", str(tmp_path / "one"), str(tmp_path / "two"))
    with Bench(tmp_path / "two", seeded.environ).open() as repository:
        change = repository.change(Selection("commit", "HEAD"))
        after = change.files[0].after
        assert after is not None
        assert repository.read(after) == b"one\n"
        assert repository.patch(change).startswith(b"diff --git")


def test_trees_are_read_as_blobs_only(seeded: Bench) -> None:
    seeded.commit("more", **{"src2/b.py": "b", "src/a b.py": "x"})
    with seeded.open() as repository:
        tree = repository.tree("HEAD")
        assert tree.id == seeded.git("rev-parse", "HEAD^{tree}")
        assert repository.tree(tree.id).read("a.txt") == b"one\n"
        assert tree.read("src/deep/er/file.txt") == b"deep\n"
        for path in [
            "link",
            "src",
            "link/x",
            "a.txt/x",
            "nowhere",
            "",
            "src/../a.txt",
            "./a.txt",
            "/a.txt",
        ]:
            assert tree.read(path) is None, path
        assert (
            tree.list("src")
            == tree.list("src/")
            == ["src/a b.py", "src/app.py", "src/deep/er/file.txt"]
        )
        assert tree.list("") == sorted(["a.txt", "src2/b.py", "tool.sh", *tree.list("src")])
        assert tree.list("src", without="src/deep") == ["src/a b.py", "src/app.py"]
        assert tree.list("src", without="src/de") == tree.list("src")
        assert tree.list("a.txt") == tree.list("nowhere") == tree.list("sr") == []
        with pytest.raises(RevisionError):
            repository.tree("0" * 40)
        with pytest.raises(RevisionError):
            repository.tree(seeded.git("rev-parse", "HEAD:a.txt"))


def test_configuration_is_read_as_git_reads_it(seeded: Bench) -> None:
    seeded.git("config", "--global", "vibe-gate.trust", "origin/main")
    seeded.git("config", "branch.Main.remote", "Upper")
    seeded.write(".git/config", (seeded.root / ".git/config").read_text() + "[vibe-gate]\n\tbare\n")
    with seeded.open() as repository:
        assert (
            repository.config("vibe-gate.trust")
            == repository.config("VIBE-GATE.Trust")
            == "origin/main"
        )
        assert repository.config("branch.Main.remote") == "Upper"
        assert repository.config("branch.main.remote") is None
        assert repository.config("vibe-gate.bare") == "true"


def test_a_command_line_sets_nothing_of_ours(seeded: Bench) -> None:
    seeded.write("of.cfg", "[vibe-gate]\n\ttrust = lax\n")
    pairs = {
        "vibe-gate.trust": "lax",
        "VIBE-GATE.x": "y",
        "include.path": f"{seeded.root}/of.cfg",
        "branch.x.y": "z",
    }
    for number, (name, value) in enumerate(pairs.items()):
        seeded.environ |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    seeded.environ |= {"GIT_CONFIG_COUNT": "4", "GIT_CONFIG_PARAMETERS": "'vibe-gate.trust'='lax'"}
    with seeded.open() as repository:
        values = [
            repository.config(name) for name in ("vibe-gate.trust", "vibe-gate.x", "branch.x.y")
        ]
        assert values == [None, None, "z"]


@pytest.mark.slow
def test_the_upstream_base(seeded: Bench, tmp_path: Path) -> None:
    base = seeded.git("rev-parse", "HEAD")
    seeded.git("clone", "-q", ".", str(tmp_path / "clone"))
    clone = Bench(tmp_path / "clone", seeded.environ)

    def bases() -> list[str | None]:
        with clone.open() as repository:
            return [repository.upstream_base()]

    clone.git("checkout", "-qb", "feature")
    clone.commit("soften", a="a")
    upstream_bases = bases()  # never pushed, but what others pushed binds
    clone.git("checkout", "-q", "--detach")
    upstream_bases += bases()
    clone.git("checkout", "-q", "feature")
    clone.git("push", "-qu", "origin", "feature")
    clone.commit("use", b="b")
    upstream_bases += bases()
    clone.git("remote", "set-head", "origin", "-d")
    assert [*upstream_bases, *bases()] == [base] * 4


def test_a_remote_whose_head_leads_to_a_branch_that_is_gone_has_no_default_branch(
    seeded: Bench,
) -> None:
    seeded.git("remote", "add", "origin", "/nowhere")
    seeded.git("update-ref", "refs/remotes/origin/main", "HEAD")
    seeded.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone")
    with seeded.open() as repository:
        assert repository.remote_default() is None
        assert repository.unknown_default


def test_what_is_tracked_is_asked_anew_of_another_index(seeded: Bench) -> None:
    seeded.write(".vibe-artifacts/x", "x\n")
    with seeded.open() as repository:
        assert repository.tracked(".vibe-artifacts") == frozenset()
        seeded.git("add", "-f", ".vibe-artifacts")
        assert repository.tracked(".vibe-artifacts") == {".vibe-artifacts/x"}


def test_the_default_branch_is_that_of_the_remote_that_the_branch_follows(seeded: Bench) -> None:
    first = seeded.git("rev-parse", "HEAD")
    second = seeded.commit("second", a="a")
    for remote, default, tip in (("origin", "main", first), ("fork", "trunk", second)):
        seeded.git("remote", "add", remote, "/nowhere")
        seeded.git("update-ref", f"refs/remotes/{remote}/{default}", tip)
    seeded.git("symbolic-ref", "refs/remotes/fork/HEAD", "refs/remotes/fork/trunk")
    defaults = []
    for followed in (".", "origin", "fork"):
        seeded.git("config", "branch.main.remote", followed)
        with seeded.open() as repository:
            defaults.append((repository.remote_default(), repository.remote_default_name))
    assert defaults == [(first, "origin/main"), (first, "origin/main"), (second, "fork/trunk")]


def test_nothing_is_left_behind(seeded: Bench, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    seeded.write("a.txt", "edited\n")
    seeded.write(".gitattributes", "* text\n")
    before = fingerprint(seeded.root)
    with seeded.open(TMPDIR=str(scratch)) as repository:
        change = repository.change(Selection("worktree"))
        assert repository.patch(change)
        repository.export(change.after, tmp_path / "export")
        assert list(scratch.iterdir())
    assert list(scratch.iterdir()) == []
    assert fingerprint(seeded.root) == before
    repository = seeded.open(TMPDIR=str(scratch))
    repository.close()
    assert list(scratch.iterdir()) == []
    shutil.rmtree(tmp_path / "export")


@pytest.mark.parametrize("revision", ["HEAD^{tree}", "HEAD:gate.toml"])
def test_an_object_that_is_not_what_its_name_says_is_not_read(seeded: Bench, revision: str) -> None:
    seeded.commit("gate", **{"gate.toml": "a gate\n"})
    name, kind = seeded.git("rev-parse", revision), seeded.git("cat-file", "-t", revision)
    content = (
        seeded.git("cat-file", kind, name)
        .encode("utf-8", "surrogateescape")
        .replace(b"gate", b"soft")
        + b"\n"
    )
    file = seeded.root / ".git/objects" / name[:2] / name[2:]
    file.unlink()
    file.write_bytes(zlib.compress(b"%s %d\0%s" % (kind.encode(), len(content), content)))
    with seeded.open() as repository, pytest.raises(IntegrityError, match="damaged"):
        repository.tree("HEAD").read("gate.toml")


def test_a_false_commit_graph_gives_no_commit_other_parents(seeded: Bench) -> None:
    first, second = seeded.git("rev-parse", "HEAD"), seeded.commit("more")
    seeded.git("-c", "commitGraph.generationVersion=1", "commit-graph", "write", "--reachable")
    graph = seeded.root / ".git/objects/info/commit-graph"
    data = bytearray(graph.read_bytes())
    table = {
        bytes(data[at : at + 4]): int.from_bytes(data[at + 4 : at + 12])
        for at in range(8, 8 + 12 * data[6], 12)
    }
    names = data[table[b"OIDL"] : table[b"CDAT"]]
    parent = table[b"CDAT"] + 36 * (names.index(bytes.fromhex(second)) // 20) + 20
    data[parent : parent + 4] = 0x70000000.to_bytes(4)
    data[-20:] = hashlib.sha1(data[:-20], usedforsecurity=False).digest()
    graph.chmod(0o644)
    graph.write_bytes(data)
    assert first not in seeded.git("rev-list", "HEAD")
    with seeded.open() as repository:
        assert repository.is_ancestor(first, second)
        assert repository.merge_base(first, second, "") == first
        assert second in repository.span(first, second)
