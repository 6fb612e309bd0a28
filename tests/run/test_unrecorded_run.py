"""A run that cannot be recorded hands over what its agents made all the same; one without a model
is no run.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command import vibe_gate
from wire import answering
from working import FIXED, WorkingRepo, writes

pytestmark = pytest.mark.usefixtures("quick_agents")


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> WorkingRepo:
    return WorkingRepo(tmp_path / "repo", environ)


def track_store(repo: WorkingRepo) -> None:
    repo.write(".vibe-artifacts/mine.txt", "mine\n")
    repo.git("add", "-f", ".vibe-artifacts/mine.txt")


def link_store(repo: WorkingRepo) -> None:
    (repo.path.parent / "elsewhere").mkdir()
    (repo.path / ".vibe-artifacts").symlink_to(repo.path.parent / "elsewhere")


def file_as_store(repo: WorkingRepo) -> None:
    repo.write(".vibe-artifacts", "mine\n")


@pytest.mark.parametrize("spoil", [track_store, link_store, file_as_store])
def test_the_patch_of_a_run_that_cannot_be_recorded_is_a_file_that_is_there(repo, spoil):
    spoil(repo)
    with answering(*writes("src/load.py", FIXED)) as model:
        run = repo.run("--agent", "fixer", "--prompt", "Repair it.", model=model.environ)
    assert (run.code, "Unrecorded: " in run.out) == (0, True), run.out + run.err
    command = run.out.splitlines()[-1].removeprefix("apply     ")
    assert command.startswith("git apply .git/vibe-gate/made-")
    repo.git(*command.split()[1:])
    assert (repo.path / "src/load.py").read_text() == FIXED


def test_the_patch_of_a_run_that_is_recorded_stays_in_its_bundle(repo):
    with answering(*writes("src/load.py", FIXED)) as model:
        run = repo.run("--agent", "fixer", "--prompt", "Repair it.", model=model.environ)
    assert (run.code, "git apply .vibe-artifacts/" in run.out) == (0, True)
    assert not list((repo.path / ".git/vibe-gate").glob("made-*"))


@pytest.mark.parametrize(
    "words", [("--agent", "fixer", "--prompt", "Go."), ("fix",), ("fix", "HEAD")]
)
def test_without_a_way_to_the_model_no_run_is_made(repo, words):
    run = repo.run(*words)
    assert (run.code, "No credentials for a model were found" in run.err) == (3, True)
    assert not list(repo.path.glob(".vibe-artifacts/*/*/run.json"))


def test_a_run_that_waits_for_a_person_needs_no_key_yet(repo):
    assert repo.run("--agent", "fixer", "--prompt", "Go.", "--interactive").code == 3
    assert len(list(repo.path.glob(".vibe-artifacts/*/*/run.json"))) == 1


POLICY = 'schema = 1\nrubrics = ["clean"]\n[budget]\nmax_cost_usd = 4\n'


def test_fixing_a_run_that_waits_for_approval_says_what_it_needs(repo):
    repo.write("src/load.py", FIXED)
    repo.write(".vibe-gate/gate.toml", POLICY)
    reviewed = repo.run("--fix")
    assert reviewed.code == 2
    assert vibe_gate("review", cwd=repo.path, environ=repo.environ).code == 4
    repair = repo.run("--fix")
    output = " ".join(repair.out.split())
    assert (
        repair.code == 4
        and "needs a person's approval" in output
        and ".vibe-gate/gate.toml" in output
    )
    assert "vibe-gate override policy --reason" in output
