"""Workspaces: shared clones that agents write in, read back as trees whatever an agent does to
them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from gitbench import Bench, fingerprint

from vibe_gate.domain.document import plain
from vibe_gate.domain.environment import read_environment
from vibe_gate.errors import InfrastructureError, IntegrityError, UsageError
from vibe_gate.git import Workspace, open_repository

pytestmark = pytest.mark.slow


@contextmanager
def working(bench: Bench, name: str = "run-1") -> Iterator[Workspace]:
    """A workspace of the repository as it stands; what is the user's stays as it is, byte by
    byte.
    """
    with bench.open() as repository:
        before = user_files(bench)
        workspace = repository.workspace(repository.workspaces / name, repository.snapshot())
        yield workspace
        assert user_files(bench) == before
        workspace.close()


def user_files(bench: Bench) -> dict[bytes, tuple[object, ...]]:
    """Everything below the root but the workspaces, and the times of folders that hold them."""
    entries = fingerprint(bench.root)
    git_folder = os.fsencode(bench.root / ".git")
    return {
        path: entry
        for path, entry in entries.items()
        if b"/vibe-gate" not in path and path != git_folder
    }


def agent(workspace: Workspace) -> Bench:
    """Git as an agent runs it in the workspace, its configuration obeyed."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(workspace.root.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    return Bench(workspace.root, environ)


def applies(bench: Bench, workspace: Workspace, tmp_path: Path) -> str:
    """Apply what was made with plain `git apply` in a copy of the user's repository; the snapshot
    that gives.
    """
    before, after = bench.snapshot(), workspace.tree()
    patch = workspace.repository.patch(workspace.change(before, after))
    copy = Bench(tmp_path / "applied", bench.environ)
    subprocess.run(["cp", "-a", str(bench.root), str(copy.root)], check=True)
    if patch:
        copy.git("apply", "-", stdin=patch)
    return copy.snapshot()


def repository_folder(bench: Bench) -> Path:
    """Where the workspaces of this repository are."""
    digest = hashlib.sha256(os.fsencode(bench.root / ".git")).hexdigest()[:12]
    return Path(
        bench.environ["HOME"], ".local/state/vibe-gate/workspaces", f"{bench.root.name}-{digest}"
    )


def test_workspaces_are_in_the_state_directory_if_that_can_be_used(
    seeded: Bench, tmp_path: Path
) -> None:
    common = seeded.root / ".git/vibe-gate/workspaces"
    closed = tmp_path / "closed"
    closed.touch()
    for environ, place in (
        ({"XDG_STATE_HOME": str(tmp_path / "state")}, tmp_path / "state/vibe-gate/workspaces"),
        ({"XDG_STATE_HOME": "relative"}, repository_folder(seeded).parent),
        ({"XDG_STATE_HOME": str(closed / "below")}, common.parent),
        ({"XDG_STATE_HOME": str(seeded.root / "state")}, common.parent),
        ({"HOME": ""}, common.parent),
    ):
        with open_repository(seeded.root, read_environment(seeded.environ | environ)) as repository:
            assert repository.workspaces.parent == place


def test_a_workspace_in_the_repository_is_cleaned_once_there_is_a_state_directory(
    seeded: Bench,
) -> None:
    with seeded.open() as repository:
        inside = seeded.root / ".git/vibe-gate/workspaces/run"
        repository.workspace(inside, repository.snapshot()).close()
        assert repository.remove_old_workspaces(datetime.now(UTC) + timedelta(days=1)) == ["run"]


def test_workspaces_of_a_repository_that_is_gone_are_cleaned_by_another(
    seeded: Bench, tmp_path: Path
) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    shutil.copytree(seeded.root, tmp_path / "disk" / "other")
    other = Bench(tmp_path / "disk" / "other", seeded.environ)
    with other.open() as repository:
        workspace = repository.workspace(repository.workspaces / "gone", EMPTY)
        workspace.close()
    with seeded.open() as repository:
        assert repository.remove_old_workspaces(later) == []
        shutil.rmtree(other.root)
        assert repository.remove_old_workspaces(later) == []  # as if the disk were not mounted
        (tmp_path / "disk" / "another").touch()
        assert repository.remove_old_workspaces(later, dry_run=True) == ["gone"]
        assert (
            repository.remove_old_workspaces(later) == ["gone"]
            and not workspace.folder.parent.exists()
        )


def test_no_link_on_the_way_to_a_workspace_is_followed(seeded: Bench, tmp_path: Path) -> None:
    """Neither to write, nor to clean, nor to open; a file that is a link is replaced."""
    mine, elsewhere = tmp_path / "mine", tmp_path / "elsewhere"
    mine.write_text("kept")
    with seeded.open() as repository:
        workspaces = repository.workspaces
        workspaces.mkdir(parents=True, mode=0o700)
        (workspaces / "repository").symlink_to(mine)
        repository.workspace(workspaces / "run", EMPTY).close()
        assert (mine.read_text(), (workspaces / "repository").read_text()) == (
            "kept",
            f"{seeded.root}/.git",
        )
        later = datetime.now(UTC) + timedelta(days=1)
        for level in (workspaces, workspaces.parent, workspaces.parent.parent):
            level.rename(elsewhere)
            level.symlink_to(elsewhere)
            assert repository.remove_old_workspaces(later) == []
            for opened in (
                lambda: repository.workspace(workspaces / "new", EMPTY),
                lambda: repository.reopen_workspace(workspaces / "run"),
            ):
                with pytest.raises(
                    InfrastructureError, match=f"{level} is not a folder that only you can write to"
                ):
                    opened()
            level.unlink()
            elsewhere.rename(level)
        workspaces.chmod(0o777)
        assert repository.remove_old_workspaces(later) == []
        workspaces.chmod(0o700)
        workspace = repository.reopen_workspace(workspaces / "run")
        shutil.rmtree(workspace.root)
        mine.chmod(0o400)
        workspace.root.symlink_to(mine)
        workspace.restore(EMPTY)
        assert stat.S_IMODE(mine.stat().st_mode) == 0o400
        workspace.close()
        assert repository.remove_old_workspaces(later) == ["run"]


def test_a_workspace_is_the_snapshot_on_the_users_branch(seeded: Bench) -> None:
    seeded.write("a.txt", "edited\n")
    seeded.write("new.txt", "untracked\n")
    seeded.git("checkout", "-q", "-b", "side")
    seeded.git("tag", "v1")
    head = seeded.git("rev-parse", "HEAD")
    with working(seeded) as workspace:
        inside = agent(workspace)
        state = Path(seeded.environ["HOME"], ".local/state/vibe-gate")
        assert workspace.root == repository_folder(seeded) / "run-1/tree"
        folders = [workspace.folder, *list(workspace.folder.parents)[:3]]
        assert folders[-1] == state and {
            stat.S_IMODE(folder.stat().st_mode) for folder in folders
        } == {0o700}
        assert workspace.tree() == seeded.snapshot()
        assert (workspace.root / "new.txt").read_text() == "untracked\n"
        assert (workspace.root / "link").readlink() == Path("a.txt")
        assert inside.git("rev-parse", "HEAD") == head
        assert inside.git("branch", "--show-current") == "side"
        assert inside.git("tag") == "v1"
        assert inside.git("remote") == ""
        assert inside.git("status", "--porcelain").splitlines() == ["M a.txt", "?? new.txt"]
        assert plain(workspace.state()) == {"head": head, "dirty": True}
        inside.git("commit", "-qam", "an agent commits")
        assert workspace.tree() == seeded.snapshot()


def test_everything_an_agent_makes_is_in_the_change_and_applies(
    seeded: Bench, tmp_path: Path
) -> None:
    seeded.write(".gitignore", "*.log\n")
    seeded.write(b"latin-\xe9", "odd\n")
    with working(seeded) as workspace:
        before, root = workspace.tree(), workspace.root
        (root / "a.txt").write_text("edited\n")
        (root / "tool.sh").chmod(0o644)
        (root / "src/app.py").rename(root / "moved.py")
        (root / "src/deep/er/file.txt").unlink()
        (root / "link").unlink()
        (root / "link").symlink_to("tool.sh")
        (root / "binary").write_bytes(b"\0\xff" * 100)
        (root / ":(top)x").write_text("a name like a pattern\n")
        (root / os.fsdecode(b"latin-\xe9")).write_text("edited\n")
        (root / "trace.log").write_text("ignored\n")
        (root / ".vibe-artifacts").mkdir()
        (root / ".vibe-artifacts/x").write_text("never part\n")
        os.mkfifo(root / "pipe")
        change = workspace.change(before, workspace.tree())
        assert {file.shown_path: file.change_type for file in change.files} == {
            ":(top)x": "added", "a.txt": "modified", "binary": "added", '"latin-\\351"': "modified",
            "link": "modified", "moved.py": "renamed", "src/deep/er/file.txt": "deleted", "tool.sh": "modified",
        }  # fmt: skip
        assert change.key == f"tree-{workspace.tree()}"
        assert applies(seeded, workspace, tmp_path) == workspace.tree()


def test_files_become_folders_and_back(seeded: Bench, tmp_path: Path) -> None:
    with working(seeded) as workspace:
        (workspace.root / "a.txt").unlink()
        (workspace.root / "a.txt").mkdir()
        (workspace.root / "a.txt/inside").write_text("x\n")
        subprocess.run(["rm", "-r", workspace.root / "src"], check=True)
        (workspace.root / "src").symlink_to("/etc")
        assert applies(seeded, workspace, tmp_path) == workspace.tree()
        assert workspace.repository.tree(workspace.tree()).links("src") == ["src"]


HOSTILE = """
cd "$1"; run="touch $2"
git config core.fsmonitor "$run; false"
git config core.hooksPath "$1/.hooks"
git config filter.evil.clean "$run; cat"
git config filter.evil.smudge "$run; cat"
git config filter.evil.required true
git config diff.evil.textconv "$run; cat"
git config diff.external "$run"
git config core.excludesFile "$1/hide"
git config core.worktree /
echo '*' > hide; cp hide .git/info/exclude
printf '* filter=evil diff=evil text eol=crlf working-tree-encoding=UTF-16 ident\\n' > .gitattributes
cp .gitattributes .git/info/attributes
mkdir .hooks
for hook in post-index-change pre-commit reference-transaction; do
  printf '#!/bin/sh\\n%s\\n' "$run" > .hooks/$hook; chmod +x .hooks/$hook; done
cp -r .hooks/. .git/hooks 2>/dev/null
printf '$Id$ caf\\303\\251\\r\\n' > made.txt
"""


def test_nothing_that_an_agent_plants_in_its_git_runs_or_hides_a_change(
    seeded: Bench, tmp_path: Path
) -> None:
    with working(seeded) as workspace:
        before, alarm = workspace.tree(), tmp_path / "alarm"
        subprocess.run(
            ["sh", "-c", HOSTILE, "sh", workspace.root, alarm], check=True, env=seeded.environ
        )
        (workspace.root / ".git/index").write_bytes(b"broken")
        tree = workspace.tree()
        names = [file.path for file in workspace.change(before, tree).files]
        assert names == [".gitattributes", ".hooks/post-index-change", ".hooks/pre-commit",
                         ".hooks/reference-transaction", "hide", "made.txt"]  # fmt: skip
        assert workspace.repository.tree(tree).read("made.txt") == b"$Id$ caf\xc3\xa9\r\n"
        workspace.state()
        workspace.restore(before)
        assert workspace.tree() == before
        assert not alarm.exists()


@pytest.mark.parametrize("committed", [True, False])
def test_a_nested_repository_counts_as_its_files(
    seeded: Bench, tmp_path: Path, committed: bool
) -> None:
    with working(seeded) as workspace:
        inner = Bench(workspace.root / "vendor/lib", agent(workspace).environ)
        inner.root.mkdir(parents=True)
        inner.git("init", "-q")
        inner.write("lib.py", "import os\n")
        if committed:
            inner.git(
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "x",
            )
            inner.git("add", "-A")
        agent(workspace).git("init", "-q", "src")
        (workspace.root / "src/app.py").write_text("edited\n")
        change = workspace.change(seeded.snapshot(), workspace.tree())
        assert [file.path for file in change.files] == ["src/app.py", "vendor/lib/lib.py"]
        assert applies(seeded, workspace, tmp_path) == workspace.tree()


def test_a_link_that_leads_outside_is_a_file_and_still_that_link(seeded: Bench) -> None:
    (seeded.root / "out").symlink_to("/etc/passwd")
    (seeded.root / "up").symlink_to("../../secret")
    with working(seeded) as workspace:
        assert workspace.tree() == seeded.snapshot()
        assert not (workspace.root / "out").is_symlink()
        assert (workspace.root / "out").read_text() == "/etc/passwd"
        (workspace.root / "out").write_text("a file of its own\n")
        assert workspace.tree() == workspace.tree()
        (file,) = workspace.change(seeded.snapshot(), workspace.tree()).files
        assert (file.path, file.change_type) == ("out", "type_changed")


CONVERTED = "*.bin filter=lfs diff=lfs merge=lfs -text\n*.txt text eol=crlf\n*.u16 working-tree-encoding=UTF-16\n"


def test_attributes_without_a_filter_program_and_line_endings(
    seeded: Bench, tmp_path: Path
) -> None:
    seeded.write(".gitattributes", CONVERTED)
    seeded.write("model.bin", b"\0raw")
    seeded.write("text.u16", "hi\n".encode("utf-16"))
    seeded.commit("attributes")
    seeded.git("checkout-index", "-f", "-a")
    seeded.write("dos.txt", "one\r\ntwo\r\n")
    with working(seeded) as workspace:
        assert workspace.tree() == seeded.snapshot()
        assert (workspace.root / "dos.txt").read_bytes() == b"one\ntwo\n"
        assert (workspace.root / "text.u16").read_bytes() == b"hi\n"
        assert agent(workspace).git("status", "--porcelain") == "?? dos.txt"
        (workspace.root / "dos.txt").write_bytes(b"one\ntwo\nthree\n")
        (workspace.root / "a.txt").write_bytes(b"edited\n")
        (workspace.root / "text.u16").write_bytes(b"hello\n")
        assert applies(seeded, workspace, tmp_path) == workspace.tree()
    assert (tmp_path / "applied/dos.txt").read_bytes() == b"one\r\ntwo\r\nthree\r\n"


def test_a_submodule_is_an_empty_folder_and_can_be_removed(seeded: Bench, tmp_path: Path) -> None:
    seeded.git(
        "update-index",
        "--add",
        "--cacheinfo",
        f"160000,{seeded.git('rev-parse', 'HEAD')},vendor/sub",
    )
    (seeded.root / "vendor/sub").mkdir(parents=True)
    seeded.git("commit", "-qm", "submodule")
    with working(seeded) as workspace:
        assert workspace.tree() == seeded.snapshot()
        (workspace.root / "vendor/sub/x").write_text("not kept\n")
        assert workspace.tree() == seeded.snapshot()
        subprocess.run(["rm", "-r", workspace.root / "vendor"], check=True)
        (file,) = workspace.change(seeded.snapshot(), workspace.tree()).files
        assert (file.path, file.change_type) == ("vendor/sub", "deleted")


def test_a_linked_worktree_a_sparse_checkout_and_a_detached_head(
    seeded: Bench, tmp_path: Path
) -> None:
    seeded.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = Bench(tmp_path / "linked", seeded.environ)
    linked.git("sparse-checkout", "set", "src")
    linked.write("src/app.py", "edited\n")
    with linked.open() as repository:
        workspace = repository.workspace(repository.workspaces / "run", repository.snapshot())
        assert workspace.folder == repository_folder(seeded) / "run"
        assert workspace.tree() == linked.snapshot()
        assert (workspace.root / "a.txt").exists()  # outside of the cone, and in the snapshot
        assert agent(workspace).git("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
        workspace.remove()
        assert not workspace.folder.exists()


def test_before_the_first_commit_and_in_a_shallow_clone(
    bench: Bench, seeded: Bench, tmp_path: Path
) -> None:
    unborn = Bench(tmp_path / "unborn", bench.environ)
    unborn.root.mkdir()
    unborn.git("init", "-q", "-b", "trunk")
    unborn.write("a", "a\n")
    with working(unborn) as workspace:
        assert workspace.tree() == unborn.snapshot()
        assert plain(workspace.state()) == {"head": "", "dirty": True}
        assert agent(workspace).git("symbolic-ref", "HEAD") == "refs/heads/trunk"
    seeded.commit("second", b="b\n")
    shallow = Bench(tmp_path / "shallow", bench.environ)
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", f"file://{seeded.root}", shallow.root], check=True
    )
    with working(shallow) as workspace:
        assert len(agent(workspace).git("log", "--oneline").splitlines()) == 1


def test_the_users_own_ignore_rules_hold_for_what_agents_make(
    seeded: Bench, tmp_path: Path
) -> None:
    seeded.write(".git/info/exclude", "scratch/\n")
    (tmp_path / "ignore").write_text("*.swp\n")
    seeded.git("config", "core.excludesFile", str(tmp_path / "ignore"))
    seeded.write("forced.swp", "tracked all the same\n")
    seeded.git("add", "-f", "forced.swp")
    with working(seeded) as workspace:
        assert workspace.tree() == seeded.snapshot()
        (workspace.root / "scratch").mkdir()
        (workspace.root / "scratch/x").write_text("x")
        (workspace.root / "b.swp").write_text("x")
        (workspace.root / "forced.swp").write_text("edited\n")
        assert [
            file.path for file in workspace.change(seeded.snapshot(), workspace.tree()).files
        ] == ["forced.swp"]


def test_edits_with_size_and_time_of_before_are_seen(seeded: Bench) -> None:
    with working(seeded) as workspace:
        status = (workspace.root / "a.txt").stat()
        (workspace.root / "a.txt").write_text("two\n")
        os.utime(workspace.root / "a.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert workspace.tree() != seeded.snapshot()


def test_a_pipe_that_git_would_wait_for_is_one_sentence(seeded: Bench) -> None:
    with working(seeded) as workspace:
        os.mkfifo(workspace.root / "src/.gitignore")
        with pytest.raises(UsageError, match=r"src/\.gitignore is a pipe"):
            workspace.tree()


def test_trees_of_turns_outlive_a_collection_and_come_back(seeded: Bench) -> None:
    with working(seeded) as workspace:
        begun = workspace.tree()
        (workspace.root / "a.txt").write_text("first turn\n")
        first = workspace.tree()
        workspace.keep("fix/turn-001", first)
        (workspace.root / "a.txt").write_text("second turn\n")
        (workspace.root / "untracked").write_text("x")
        (workspace.root / "locked").mkdir(mode=0o500)
        workspace.tree()
        agent(workspace).git("commit", "-qam", "an agent commits")
        subprocess.run(
            ["git", f"--git-dir={workspace.folder}/kept.git", "gc", "-q", "--prune=now"], check=True
        )
        workspace.close(files=False)
        assert not workspace.root.exists()
        with seeded.open() as repository:
            reopened = repository.reopen_workspace(workspace.folder)
            assert kept_refs(reopened) == [f"{first} refs/turns/fix/turn-001"]
            reopened.restore(first)
            assert reopened.tree() == first
            assert (reopened.root / "a.txt").read_text() == "first turn\n"
            assert agent(reopened).git("rev-parse", "HEAD") == seeded.git("rev-parse", "HEAD")
            assert len(reopened.change(begun, first).files) == 1
            other = repository.workspace(repository.workspaces / "run-2", first)
            reopened.close()
            other.close()
        with seeded.open() as repository:
            workspace = repository.reopen_workspace(workspace.folder)
            workspace.remove()
        with seeded.open() as repository:
            with pytest.raises(InfrastructureError, match="there is no workspace"):
                repository.reopen_workspace(workspace.folder)
            other = repository.reopen_workspace(
                other.folder
            )  # made from the first one's tree, and whole without it
            other.restore(first)
            other.remove()


def kept_refs(workspace: Workspace) -> list[str]:
    command = [
        "git",
        f"--git-dir={workspace.folder}/kept.git",
        "for-each-ref",
        "--format=%(objectname) %(refname)",
    ]
    return subprocess.run(
        [*command, "refs/turns"], check=True, capture_output=True, text=True
    ).stdout.splitlines()


def test_a_tree_with_bundles_committed_by_mistake_is_whole_and_a_failed_workspace_leaves_nothing(
    seeded: Bench,
) -> None:
    seeded.write(".vibe-artifacts/x", "by mistake\n")
    seeded.git("add", "-f", ".vibe-artifacts")
    seeded.git("commit", "-qm", "bundles")
    with seeded.open() as repository:
        tree = seeded.git("rev-parse", "HEAD^{tree}")
        workspace = repository.workspace(repository.workspaces / "run", tree)
        (workspace.root / ".vibe-artifacts/new").write_text("never part\n")
        assert workspace.tree() == tree
        workspace.remove()
        bad = seeded.git(
            "mktree", stdin=f"120000 blob {seeded.git('rev-parse', 'HEAD:a.txt')}\t.GIT".encode()
        )
        with pytest.raises(UsageError, match="a name that no checkout may hold"):
            repository.workspace(repository.workspaces / "bad", bad)
        assert [folder.name for folder in repository.workspaces.iterdir()] == ["repository"]


def test_old_workspaces_go_and_those_in_use_stay(seeded: Bench) -> None:
    with seeded.open() as repository:
        dead, alive = (
            repository.workspace(repository.workspaces / name, EMPTY) for name in ("dead", "alive")
        )
        dead.close()
        with pytest.raises(InfrastructureError, match="another process uses the workspace"):
            repository.reopen_workspace(alive.folder)
        now = datetime.now(UTC)
        assert repository.remove_old_workspaces(now - timedelta(days=1)) == []
        assert repository.remove_old_workspaces(now + timedelta(days=1)) == ["dead"]
        assert alive.tree() == EMPTY
        alive.close()


EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_a_patch_is_applied_while_the_working_tree_is_the_one_of_the_run(
    seeded: Bench, tmp_path: Path
) -> None:
    seeded.write(".gitattributes", "*.txt text eol=crlf\n")
    seeded.git("config", "apply.whitespace", "error-all")
    seeded.write("dos.txt", "one\r\n")
    with working(seeded) as workspace:
        begun = workspace.tree()
        (workspace.root / "dos.txt").write_text("one\ntwo \n")
        (workspace.root / "src/new.py").write_text("x = 1\n")
        edited = workspace.tree()
        patch = workspace.repository.patch(workspace.change(begun, edited))
    index, head = (seeded.root / ".git/index").read_bytes(), seeded.git("rev-parse", "HEAD")
    with seeded.open() as repository:
        repository.apply(patch, begun, tmp_path / "change.patch")
        assert repository.snapshot() == edited
        with pytest.raises(IntegrityError, match=r"so nothing was applied.*change\.patch"):
            repository.apply(patch, begun, tmp_path / "change.patch")
    assert (seeded.root / "dos.txt").read_bytes() == b"one\r\ntwo \r\n"
    assert ((seeded.root / ".git/index").read_bytes(), seeded.git("rev-parse", "HEAD")) == (
        index,
        head,
    )
