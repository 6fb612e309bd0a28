"""One store for all working trees of a clone: where runs of linked worktrees go, and what outlives
the worktrees.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from repos import Repo
from walks import run_review

from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository
from vibe_gate.receipts.verify_range import VerifyRequest, verify_commits
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import Lock
from vibe_gate.store.worktree_move import move_worktree_store

SESSION = "11111111-2222-3333-4444-555555555555"


class Clone(Repo):
    """A repository with an empty gate, and a linked worktree on branch `feature` with one
    commit.
    """

    def __init__(self, path: Path, environ: dict[str, str]) -> None:
        super().__init__(path, environ)
        self.commit("Gate", **{".vibe-gate/gate.toml": "schema = 1\nrubrics = []\n"})

    def linked(self, top: Path) -> Repo:
        self.git("worktree", "add", "-q", "-b", "feature", os.fspath(top))
        worktree = Repo.__new__(Repo)
        worktree.path, worktree.environ = top, self.environ
        worktree.commit("Add", a="one\n")
        return worktree

    def status(self, revision: str) -> str:
        verification = verify_commits(
            VerifyRequest(revision),
            start=self.path,
            environment=read_environment(self.environ),
            now=datetime.now(UTC),
        )
        return verification.commits[0][1].status


@pytest.fixture
def clone(tmp_path: Path, environ: dict[str, str]) -> Clone:
    return Clone(tmp_path / "repo", environ)


def runs_in(root: Path) -> list[str]:
    return sorted(path.parent.name for path in root.glob(f"{STORE}/*/2*/run.json"))


def review(worktree: Repo) -> tuple[str, tuple[str, ...]]:
    """Review the worktree's commit; the run's id, and its notes."""
    result = run_review(worktree.path, worktree.environ, Selection("commit", "HEAD"))
    return result.summary.run_id, result.notes


@pytest.mark.parametrize(
    "place", ["repo/.claude/worktrees/one", "repo/.worktrees/one", "elsewhere/one"]
)
def test_a_review_in_a_linked_worktree_outlives_it(
    clone: Clone, tmp_path: Path, place: str
) -> None:
    worktree = clone.linked(tmp_path / place)
    run_id, _ = review(worktree)
    assert runs_in(clone.path) == [run_id]
    assert not (worktree.path / STORE).exists()
    clone.git("worktree", "remove", os.fspath(worktree.path))
    assert clone.status("feature") == "reviewed"


def test_run_json_names_the_linked_worktree_and_only_that(clone: Clone, tmp_path: Path) -> None:
    worktree = clone.linked(tmp_path / "one")
    for place in (worktree, clone):
        review(place)
    documents = [json.loads(path.read_text()) for path in clone.path.glob(f"{STORE}/*/2*/run.json")]
    assert sorted(document.get("worktree", "") for document in documents) == ["", "one"]


def test_without_a_main_working_tree_the_store_is_in_the_common_git_directory(
    clone: Clone, tmp_path: Path, environ: dict[str, str]
) -> None:
    clone.git("clone", "-q", "--bare", ".", os.fspath(tmp_path / "bare.git"))
    bare = Clone.__new__(Clone)
    bare.path, bare.environ = tmp_path / "bare.git", dict(environ)
    worktree = bare.linked(tmp_path / "one")
    run_id, _ = review(worktree)
    assert runs_in(bare.path) == [run_id]
    with open_repository(worktree.path, read_environment(environ)) as repository:
        assert (repository.store_root, repository.tracked_in_store()) == (bare.path, frozenset())


def test_a_linked_worktree_of_a_submodule_uses_the_submodules_store(
    clone: Clone, tmp_path: Path, environ: dict[str, str]
) -> None:
    outer = Repo(tmp_path / "outer", environ)
    outer.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "-q", os.fspath(clone.path), "sub"
    )
    submodule = Clone.__new__(Clone)
    submodule.path, submodule.environ = outer.path / "sub", dict(environ)
    run_id, _ = review(submodule.linked(tmp_path / "one"))
    assert runs_in(submodule.path) == [run_id]


def block_with_a_file(clone: Clone) -> Callable[[], None]:
    (clone.path / STORE).write_text("no folder")
    return (clone.path / STORE).unlink


def block_with_a_link(clone: Clone) -> Callable[[], None]:
    target = clone.path.parent / "elsewhere"
    target.mkdir()
    (clone.path / STORE).symlink_to(target)
    return (clone.path / STORE).unlink


def block_by_tracking(clone: Clone) -> Callable[[], None]:
    clone.write(f"{STORE}/x", "x\n")
    clone.git("add", "-f", STORE)
    return lambda: print(clone.git("rm", "-rqf", STORE))


@pytest.mark.slow
@pytest.mark.parametrize("block", [block_with_a_file, block_with_a_link, block_by_tracking])
def test_where_the_shared_store_cannot_be_written_the_worktree_keeps_its_own_until_it_can(
    clone: Clone, tmp_path: Path, block: Callable[[Clone], Callable[[], None]]
) -> None:
    worktree = clone.linked(tmp_path / "one")
    free = block(clone)
    run_id, notes = review(worktree)
    assert runs_in(worktree.path) == [run_id]
    assert [note for note in notes if "so this worktree keeps its own" in note]
    free()
    clone.commit("More", b="b\n")
    _, notes = review(clone)
    assert [note for note in notes if note.startswith("Moved 1 run of worktree ../one to ")]
    assert run_id in runs_in(clone.path)
    assert runs_in(worktree.path) == []


# A store that a worktree kept


@pytest.fixture
def worktree(clone: Clone, tmp_path: Path) -> Repo:
    """A linked worktree with a store of its own: a run, and a captured session."""
    worktree = clone.linked(tmp_path / "one")
    review(worktree)
    shutil.move(clone.path / STORE, worktree.path / STORE)
    capture(worktree.path)
    return worktree


def capture(root: Path) -> Path:
    folder = root / STORE / "captures/claude_20260102_030405_11111111"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text("")
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # an old one would be cleaned away
    meta = {
        "schema": 1,
        "agent": "claude",
        "session_id": SESSION,
        "started_at": at,
        "updated_at": at,
    }
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def take_over(clone: Clone) -> tuple[str, ...]:
    """Review a commit in the clone, which first moves the stores of worktrees; the notes about
    those.
    """
    clone.commit("Later", later=os.urandom(8).hex())
    notes = run_review(clone.path, clone.environ, Selection("commit", "HEAD")).notes
    return tuple(note for note in notes if "worktree" in note)


LEFT = "`git worktree remove` would delete what stays there. The next command tries again."


@pytest.mark.slow
def test_runs_and_sessions_of_a_worktrees_own_store_are_taken_over(
    clone: Clone, worktree: Repo
) -> None:
    [run_id] = runs_in(worktree.path)
    notes = take_over(clone)
    assert [
        note
        for note in notes
        if note.startswith("Moved 1 run and 1 session of worktree ../one to ")
    ]
    assert not [note for note in notes if LEFT in note]
    assert run_id in runs_in(clone.path)
    assert (clone.path / STORE / "captures/claude_20260102_030405_11111111/meta.json").is_file()
    assert runs_in(worktree.path) == []
    assert clone.status("feature") == "reviewed"


@pytest.mark.slow
def test_a_run_that_is_being_written_stays_until_it_ended(clone: Clone, worktree: Repo) -> None:
    [run_id] = runs_in(worktree.path)
    [folder] = worktree.path.glob(f"{STORE}/*/2*")
    lock = Lock(Folder.at(folder))
    assert "1 run or session stays in worktree ../one (1 being written); " + LEFT in take_over(
        clone
    )
    assert runs_in(worktree.path) == [run_id]
    lock.release()
    assert not [note for note in take_over(clone) if LEFT in note]
    assert run_id in runs_in(clone.path)


@pytest.mark.slow
def test_a_run_that_is_there_already_is_not_replaced(clone: Clone, worktree: Repo) -> None:
    [run_id] = runs_in(worktree.path)
    shutil.copytree(worktree.path / STORE, clone.path / STORE)
    [document] = worktree.path.glob(f"{STORE}/*/2*/run.json")
    document.chmod(0o600)
    document.write_text("{}")
    shutil.rmtree(clone.path / STORE / "captures")
    assert "1 run or session stays in worktree ../one (1 already there); " + LEFT in take_over(
        clone
    )
    assert runs_in(worktree.path) == [run_id]
    assert next(clone.path.glob(f"{STORE}/*/{run_id}/run.json")).read_text() != "{}"


@pytest.mark.slow
def test_what_stays_is_counted_by_its_reason(clone: Clone, worktree: Repo) -> None:
    [run] = worktree.path.glob(f"{STORE}/*/2*")
    second = shutil.copytree(run, run.parent / "20260102T030405600Z-00000000")
    shutil.copytree(second, clone.path / second.relative_to(worktree.path))
    clone.write(f"{STORE}/.gitignore", "*\n")
    capture = worktree.path / STORE / "captures/claude_20260102_030405_11111111"
    locks = [Lock(Folder.at(folder)) for folder in (run, capture)]
    assert take_over(clone) == (
        "3 runs and sessions stay in worktree ../one (1 already there, 2 being written); " + LEFT,
    )
    for lock in locks:
        lock.release()


def test_a_captured_session_whose_name_is_taken_gets_another(clone: Clone, worktree: Repo) -> None:
    capture(clone.path)
    clone.write(f"{STORE}/.gitignore", "*\n")
    take_over(clone)
    names = sorted(path.name for path in (clone.path / STORE / "captures").iterdir())
    assert len(names) == 2
    assert names[1].startswith("claude_20260102_030405_11111111-")


@pytest.mark.slow
def test_a_mark_that_keeps_all_runs_of_a_change_goes_along(clone: Clone, worktree: Repo) -> None:
    [key] = [path.parent for path in worktree.path.glob(f"{STORE}/*/2*")]
    (key / ".vibe-keep").touch()
    take_over(clone)
    assert (clone.path / STORE / key.name / ".vibe-keep").exists()


def test_a_store_that_git_tracks_is_not_taken_over(clone: Clone, worktree: Repo) -> None:
    worktree.git("add", "-f", STORE)
    [run_id] = runs_in(worktree.path)
    take_over(clone)
    assert runs_in(worktree.path) == [run_id]
    assert run_id not in runs_in(clone.path)


@pytest.mark.slow
def test_a_store_that_is_a_link_is_not_followed(
    clone: Clone, worktree: Repo, tmp_path: Path
) -> None:
    shutil.move(worktree.path / STORE, tmp_path / "elsewhere")
    (worktree.path / STORE).symlink_to(tmp_path / "elsewhere")
    take_over(clone)
    assert list((tmp_path / "elsewhere").glob("*/2*"))
    assert len(runs_in(clone.path)) == 1


@pytest.mark.slow
def test_a_folder_that_only_claims_to_be_a_linked_worktree_is_not_asked(
    clone: Clone, worktree: Repo
) -> None:
    fake = clone.path / "fake"
    fake.mkdir()
    shutil.copy(worktree.path / ".git", fake / ".git")
    shutil.move(worktree.path / STORE, fake / STORE)
    take_over(clone)
    assert list(fake.glob(f"{STORE}/*/2*"))


def test_several_processes_take_each_run_over_once(clone: Clone, worktree: Repo) -> None:
    [run] = worktree.path.glob(f"{STORE}/*/2*")
    for number in range(20):
        shutil.copytree(run, run.parent / f"20260102T0304056{number:02d}Z-0000{number:04d}")
    root = clone.path

    def moved(_: int) -> int:
        with open_state(clone.path / ".git") as state:
            return move_worktree_store(worktree.path, root, (), state).runs

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(moved, range(4))) == 21
    assert len(runs_in(root)) == 21


def test_a_store_on_another_disk_is_copied(clone: Clone, environ: dict[str, str]) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == clone.path.stat().st_dev:
        pytest.skip("no second file system")
    top = shared / f"vibe-gate-{os.getpid()}"
    try:
        worktree = clone.linked(top)
        run_id, _ = review(worktree)
        before = {
            path.name: path.read_bytes() for path in clone.path.glob(f"{STORE}/*/{run_id}/*.json")
        }
        shutil.move(clone.path / STORE, worktree.path / STORE)
        take_over(clone)
        assert {
            path.name: path.read_bytes() for path in clone.path.glob(f"{STORE}/*/{run_id}/*.json")
        } == before
        assert runs_in(worktree.path) == []
    finally:
        shutil.rmtree(top, ignore_errors=True)
