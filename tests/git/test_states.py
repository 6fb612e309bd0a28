"""What git means by odd states, and what a hostile repository may not make us run. Hooks:
faces/test_frameworks.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from gitbench import Bench, fingerprint

from vibe_gate.domain.change import Selection
from vibe_gate.errors import UsageError


def test_while_a_conflict_is_unresolved_there_is_no_tree_to_commit(seeded: Bench) -> None:
    seeded.git("checkout", "-qb", "side")
    seeded.commit("theirs", **{"a.txt": "theirs\n"})
    seeded.git("checkout", "-q", "main")
    seeded.commit("ours", **{"a.txt": "ours\n"})
    seeded.git("merge", "-q", "side", ok=False)
    with seeded.open() as repository:
        for ask in (repository.index_tree, lambda: repository.change(Selection("staged"))):
            with pytest.raises(UsageError, match=r"a\.txt has an unresolved conflict"):
                ask()


def test_a_relative_and_an_absolute_index_file(seeded: Bench, tmp_path: Path) -> None:
    other = tmp_path / "other-index"
    env = {"GIT_INDEX_FILE": str(other)}
    seeded.git("read-tree", "HEAD", env=env)
    seeded.write("a.txt", "in the other index\n")
    seeded.git("add", "a.txt", env=env)
    expected = seeded.git("write-tree", env=env)
    with seeded.open(GIT_INDEX_FILE=str(other)) as repository:
        assert repository.index_tree() == expected
    with seeded.open(GIT_INDEX_FILE="../other-index") as repository:
        assert repository.index_tree() == expected
    with seeded.open() as repository:
        assert repository.index_tree() == seeded.git("rev-parse", "HEAD^{tree}")


def test_the_staged_tree_of_every_kind_of_entry(seeded: Bench) -> None:
    seeded.write("staged", "x")
    (seeded.root / "a.txt").chmod(0o755)
    (seeded.root / "src/app.py").unlink()
    (seeded.root / "src/app.py").symlink_to("nowhere")
    (seeded.root / "src/deep/er/file.txt").unlink()
    seeded.git("add", "-A")
    seeded.git(
        "update-index", "--add", "--cacheinfo", f"160000,{seeded.git('rev-parse', 'HEAD')},sub"
    )
    seeded.write("soon", "intent to add\n")
    seeded.write("only/soon", "intent to add\n")
    seeded.git("add", "-N", "soon", "only/soon")
    before = fingerprint(seeded.root)
    with seeded.open() as repository:
        tree = repository.index_tree()
        change = repository.change(Selection("staged"))
    assert fingerprint(seeded.root) == before
    assert tree == change.after == seeded.git("write-tree")


def plant(bench: Bench, mark: Path) -> str:
    """A command that leaves a mark when it is run, whatever its arguments and input."""
    script = bench.root.parent / "planted.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    return str(script)


def test_nothing_that_a_repository_plants_is_run(seeded: Bench, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = plant(seeded, mark)
    seeded.commit(
        "attributes",
        **{".gitattributes": "*.txt filter=evil diff=evil merge=evil\n*.py filter=a=b\n"},
    )
    for key in ["core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "diff.external",
                "diff.evil.textconv", "diff.evil.command", "merge.evil.driver", "filter.evil.clean",
                "filter.evil.smudge", "filter.evil.process", "filter.a=b.clean", "filter.a=b.process",
                "core.alternateRefsCommand", "gpg.program", "alias.status", "credential.helper",
                "uploadpack.packObjectsHook", "interactive.diffFilter"]:  # fmt: skip
        seeded.git("config", key, command)
    seeded.git("config", "filter.evil.required", "true")
    seeded.write(".git/more", f'[filter "hidden"]\n\tclean = {command}\n')
    seeded.git("config", "include.path", "more")
    seeded.write(".git/info/attributes", "new.txt filter=hidden\n")
    for name in [
        "post-index-change",
        "pre-commit",
        "post-checkout",
        "reference-transaction",
        "fsmonitor-watchman",
    ]:
        seeded.write(f".git/hooks/{name}", f"#!/bin/sh\ntouch {mark}\n").chmod(0o755)
    mark.unlink(missing_ok=True)
    os.utime(seeded.root / "a.txt", ns=(1, 1))
    seeded.write("src/app.py", "edited\n")
    seeded.write("new.txt", "new\n")
    before = fingerprint(seeded.root)
    with seeded.open() as repository:
        change = repository.change(Selection("worktree"))
        repository.change(Selection("staged"))
        repository.change(Selection("commit", "HEAD"))
        repository.patch(change)
        export = repository.export(change.after, tmp_path / "export")
        assert export.unchanged()
        assert repository.upstream_base() is None
        assert repository.tree(change.after).read("new.txt") == b"new\n"
        assert [file.path for file in change.files] == ["new.txt", "src/app.py"]
    assert not mark.exists()
    assert fingerprint(seeded.root) == before


def test_a_submodules_own_configuration_is_not_run(seeded: Bench, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = plant(seeded, mark)
    inner = Bench(seeded.root / "sub", seeded.environ)
    inner.root.mkdir()
    inner.git("init", "-q")
    inner.commit("inner", **{"x.txt": "x\n", ".gitattributes": "*.txt filter=evil\n"})
    seeded.git("add", "sub")
    seeded.commit("submodule")
    inner.git("config", "filter.evil.clean", command)
    inner.git("config", "core.fsmonitor", command)
    inner.write("x.txt", "y\n")
    seeded.snapshot()
    inner.git(
        "-c",
        "core.fsmonitor=false",
        "-c",
        "filter.evil.clean=",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "moved",
    )
    mark.unlink(missing_ok=True)
    seeded.snapshot()
    assert not mark.exists()


@pytest.mark.slow
def test_the_users_own_configuration_can_allow_local_filters(seeded: Bench, tmp_path: Path) -> None:
    seeded.git("config", "filter.local.clean", "tr a-z A-Z")
    seeded.write(".gitattributes", "*.txt filter=local\n")
    seeded.write("a.txt", "edited\n")
    with seeded.open() as repository:
        assert repository.tree(repository.snapshot()).read("a.txt") == b"edited\n"
    seeded.git("config", "vibe-gate.allowLocalFilters", "true")
    with seeded.open() as repository:
        assert repository.tree(repository.snapshot()).read("a.txt") == b"edited\n"
    seeded.git("config", "--global", "vibe-gate.allowLocalFilters", "true")
    with seeded.open() as repository:
        assert repository.tree(repository.snapshot()).read("a.txt") == b"EDITED\n"
    seeded.git("config", "--global", "--unset", "vibe-gate.allowLocalFilters")
    seeded.git("config", "--global", "filter.local.clean", "tr e E")  # a local copy gives way to it
    with seeded.open() as repository:
        assert repository.tree(repository.snapshot()).read("a.txt") == b"EditEd\n"


def scramble(bench: Bench, chance: random.Random) -> None:
    """One random act of a person or an agent."""
    names = ["a", "b", "d/a", "d/e/a", "d/e/b", "a/x", "link", "n\nl", "\udcff", ".gitignore"]
    name = chance.choice(names)
    path = bench.root / name
    act = chance.choice(["write", "write", "write", "delete", "link", "mode", "add", "add all", "uncache", "intend",
                         "flag", "skip", "commit", "folder"])  # fmt: skip
    if act in {"write", "link", "folder"}:
        for above in [*reversed(path.relative_to(bench.root).parents)][1:]:
            if (bench.root / above).is_symlink() or (bench.root / above).is_file():
                (bench.root / above).unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
    if act in {"write", "link", "delete", "folder"} and (path.is_symlink() or path.exists()):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if act == "write":
        ignored = ["b\n", "*.x\n", ""]
        path.write_text(
            chance.choice(
                ignored if name == ".gitignore" else ["", "1\n", "2\r\n", "$Id: x$\n", "33\n"]
            )
        )
    elif act == "link":
        path.symlink_to(chance.choice(["a", "d", "..", "nowhere"]))
    elif act == "folder":
        path.mkdir()
    elif act == "mode" and path.is_file() and not path.is_symlink():
        path.chmod(chance.choice([0o644, 0o755]))
    elif act == "commit":
        bench.git("commit", "-q", "--allow-empty", "-m", "c", ok=False)
    elif act in ACTS:
        bench.git(*ACTS[act], *([] if act == "add all" else ["--", name]), ok=False)


ACTS = {
    "add": ["add", "-f"],
    "add all": ["add", "-A"],
    "uncache": ["rm", "-q", "--cached"],
    "intend": ["add", "-f", "-N"],
    "flag": ["update-index", "--assume-unchanged"],
    "skip": ["update-index", "--skip-worktree"],
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("FUZZ_SEEDS", "2"))))
def test_random_states(bench: Bench, holds: Callable[[Bench], str], seed: int) -> None:
    chance = random.Random(seed)
    # Not scrambled: git itself leaves an unchanged file as it is when only its attributes change.
    bench.write("d/e/.gitattributes", "* text ident\n")
    for _ in range(6):
        for _ in range(chance.randint(1, 12)):
            scramble(bench, chance)
        holds(bench)
        written = bench.git("write-tree", ok=False)
        with bench.open() as repository:
            assert repository.index_tree() == written
