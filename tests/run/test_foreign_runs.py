"""A run or a session that did not begin in this clone is read; nothing of it is carried out."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from command import CommandResult, vibe_gate
from repos import Repo
from wire import answering
from working import FIXED, WORSE, WorkingRepo, writes

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository

PROMPT = "Take the keys."
CHANGE = "HEAD~1..HEAD"
STORE = ".vibe-artifacts"

pytestmark = pytest.mark.usefixtures("quick_agents")


class Clone(Repo):
    """A clone of a stranger's repository, in which nothing has been run."""

    def __init__(self, stranger: WorkingRepo, path: Path) -> None:
        super().__init__(path, stranger.environ)
        self.git("pull", "-q", str(stranger.path), "main")

    def gate(self, *argv: str, **environ: str) -> CommandResult:
        return vibe_gate(*argv, cwd=self.path, environ={**self.environ, **environ})

    def run_ids(self) -> list[str]:
        """The runs of the store, the oldest first."""
        return sorted(path.parent.name for path in self.path.glob(f"{STORE}/*/*/run.json"))


@pytest.fixture
def stranger(tmp_path: Path, environ: dict[str, str]) -> WorkingRepo:
    """A repository with an unfinished run, whose run.json wants an agent to work and its patch to
    be applied.
    """
    repo = WorkingRepo(tmp_path / "stranger", environ)
    repo.commit("Second")
    argv = (
        "--agent",
        "fixer",
        "--prompt",
        PROMPT,
        "--apply",
        "--max-cost-usd",
        "900",
        "--interactive",
        CHANGE,
    )
    assert repo.run(*argv).code == 3
    (run,) = repo.path.glob(f"{STORE}/*/*/run.json")
    run_document = json.loads(run.read_text())
    run.write_text(json.dumps(run_document | {"mode": "auto"}))
    return repo


@pytest.fixture
def clone(stranger: WorkingRepo, tmp_path: Path) -> Clone:
    return Clone(stranger, tmp_path / "clone")


def bundle_of(repo: WorkingRepo) -> Path:
    (bundle,) = (path.parent for path in repo.path.glob(f"{STORE}/*/*/run.json"))
    return bundle


def archive_of(bundle: Path, target: Path) -> str:
    """Pack a run as `tar` does."""
    with tarfile.open(target, "w:xz") as tar:
        tar.add(
            bundle, f"{bundle.parent.name}/{bundle.name}", filter=lambda info: without_lock(info)
        )
    return str(target)


def without_lock(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if info.name.endswith(".lock") else info


def copy_run(bundle: Path, clone: Clone) -> str:
    shutil.copytree(bundle, clone.path / STORE / bundle.parent.name / bundle.name)
    clone.write(f"{STORE}/.gitignore", "*\n")
    return bundle.name


def refuses_to_go_on(clone: Clone, run_id: str) -> list[CommandResult]:
    """`vibe-gate resume` without and with the run's name; neither asked a model or made a
    workspace.
    """
    with answering(*writes("src/load.py", FIXED)) as model:
        runs = [
            clone.gate("resume", **model.environ),
            clone.gate("resume", run_id, **model.environ),
        ]
        assert not model.script.requests
    assert clone.git("status", "--porcelain") == ""
    with open_repository(clone.path, read_environment(clone.environ)) as repository:
        assert not repository.workspaces.exists()
    return runs


def test_an_archive_of_a_run_that_did_not_end_is_refused_whole(stranger, clone, tmp_path):
    archive = archive_of(bundle_of(stranger), tmp_path / "runs.tar.xz")
    result = clone.gate("bundles", "import", archive)
    assert result.code == 5 and "did not end, and only runs that ended are imported" in " ".join(
        result.err.split()
    )
    assert clone.run_ids() == []


def test_an_imported_run_that_ended_is_never_resumed(stranger, clone, tmp_path):
    place = {"cwd": stranger.path, "environ": stranger.environ}
    run_id = vibe_gate("review", CHANGE, "--no-judge", "--json", **place).json["run_id"]
    archive = str(tmp_path / "runs.tar.xz")
    assert vibe_gate("bundles", "export", run_id, "-o", archive, **place).code == 0
    assert clone.gate("bundles", "import", archive).code == 0
    refused = clone.gate("resume", run_id)
    assert refused.code == 2
    assert "did not begin in this clone: imported runs are never resumed" in " ".join(
        refused.err.split()
    )


def test_a_run_that_was_copied_into_the_store_is_not_resumed(stranger, clone):
    newest, by_name = refuses_to_go_on(clone, copy_run(bundle_of(stranger), clone))
    assert newest.code == 2 and "1 unfinished run did not begin in this clone" in " ".join(
        newest.err.split()
    )
    assert by_name.code == 5 and "did not begin in this clone" in " ".join(by_name.err.split())


def test_a_run_that_git_tracks_is_not_resumed(stranger, clone):
    run_id = copy_run(bundle_of(stranger), clone)
    clone.git("add", "-f", STORE)
    clone.git("commit", "-q", "-m", "Runs")
    newest, by_name = refuses_to_go_on(clone, run_id)
    assert (newest.code, by_name.code) == (2, 5) and "is foreign" in by_name.err


def test_a_run_whose_clone_lost_its_state_is_not_resumed(stranger):
    shutil.rmtree(stranger.path / ".git/vibe-gate")
    by_name = vibe_gate(
        "resume", bundle_of(stranger).name, cwd=stranger.path, environ=stranger.environ
    )
    assert by_name.code == 5 and "did not begin in this clone" in " ".join(by_name.err.split())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prompt", "Take the keys, now."),
        ("workflow", "fix"),
        ("mode", "auto"),
        ("definitions", {}),
        ("key", "0" * 40),
        ("request", {"apply": False}),
        ("request", {"max_cost_usd": 1e9}),
        ("request", {"deadline_s": 1e9}),
        ("request", {"agent": "reviewer"}),
        ("request", {"definitions": "worktree"}),
        ("request", {"model": "--dangerously-skip-permissions"}),
        ("request", None),
    ],
)
def test_nothing_that_an_edited_run_json_says_is_believed(stranger, name, value):
    path = bundle_of(stranger) / "run.json"
    run_document = json.loads(path.read_text()) | {"mode": "interactive"}
    new = {**run_document[name], **value} if name == "request" and value else value
    path.write_text(json.dumps(run_document | {name: new}))
    with answering(*writes("src/load.py", FIXED)) as model:
        environ = {**stranger.environ, **model.environ}
        resumption = vibe_gate("resume", "--auto", cwd=stranger.path, environ=environ)
        assert not model.script.requests
    sentence = " ".join(resumption.err.split())
    assert resumption.code == 5, resumption.err
    assert f"its run.json was changed since it began ({name})" in sentence, resumption.err


def test_a_run_of_this_clone_still_goes_on(stranger):
    path = bundle_of(stranger) / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"mode": "interactive"}))
    with answering(*writes("src/load.py", FIXED)) as model:
        environ = {**stranger.environ, **model.environ}
        resumption = vibe_gate("resume", "--approve", "fixer", cwd=stranger.path, environ=environ)
        assert PROMPT in model.script.requests[0].all_text
    assert (resumption.code, (stranger.path / "src/load.py").read_text()) == (0, FIXED), (
        resumption.out + resumption.err
    )


@pytest.fixture
def with_imported(stranger: WorkingRepo, clone: Clone, tmp_path: Path) -> Clone:
    """A clone with a failed review of its own, and a newer, sealed run of the stranger."""
    clone.write("src/load.py", WORSE.format("mine"))
    assert clone.gate("review").code == 1
    assert vibe_gate("review", CHANGE, cwd=stranger.path, environ=stranger.environ).code == 1
    archive = tmp_path / "ended.tar.xz"
    newest = max(path.parent.name for path in stranger.path.glob(f"{STORE}/*/*/summary.json"))
    exported = ("bundles", "export", newest, "-o", str(archive))
    assert vibe_gate(*exported, cwd=stranger.path, environ=stranger.environ).code == 0
    assert clone.gate("bundles", "import", str(archive)).code == 0
    assert clone.run_ids()[-1] == newest
    return clone


@pytest.mark.parametrize("command", [("report", "-o", "-"), ("bundles", "show"), ("viz", "--json")])
def test_the_newest_run_is_one_that_began_here(with_imported, command):
    own_run, imported = with_imported.run_ids()
    output = with_imported.gate(*command).out
    assert own_run in output and imported not in output


def test_an_imported_run_is_repaired_and_posted_by_name_alone(with_imported):
    own_run, imported = with_imported.run_ids()
    assert f"run {own_run}" in with_imported.gate("run", "--fix").err
    for path in [*with_imported.path.glob(f"{STORE}/*/*")]:
        if path.is_dir() and path.name != imported:
            shutil.rmtree(path)
    fix, post = with_imported.gate("run", "--fix"), with_imported.gate("post")
    assert fix.code == 2 and "No run to fix began in this clone" in fix.err
    assert post.code == 2 and f"vibe-gate post {imported}" in " ".join(post.err.split())
    assert imported in with_imported.gate("bundles", "show").out
