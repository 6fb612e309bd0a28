"""A store that a team shares: two clones of one repository, a folder as the store, a scripted model at the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from answers import passes
from command import vibe_gate
from repos import GATE, SWALLOWS, Repo, gated
from walks import LAST, walked
from wire import answer, answering

from vibe_gate.run.review import Review

pytest.importorskip("obstore", reason="obstore is not installed here")
pytestmark = pytest.mark.usefixtures("quick_agents")

SECRET = "correct horse battery staple"
PASSES = passes("errors-not-swallowed", "names-are-clear")


class Team:
    """One repository on a server's disk, its clones, and the folder that they share."""

    def __init__(self, place: Path, environ: dict[str, str]) -> None:
        self.place, self.environ = place, environ | {"VIBE_GATE_STORE_KEY": SECRET}
        self.folder = place / "team"
        self.folder.mkdir()
        self.url = self.folder.as_uri()
        origin = gated(place / "origin", environ, gate=f'{GATE}[store]\nurl = "{self.url}"\n')
        origin.commit("Load robustly", **{"src/load.py": SWALLOWS})
        self.origin = origin

    def clone(self, name: str) -> Repo:
        self.origin.git("clone", "-q", str(self.origin.path), str(self.place / name))
        return Repo(self.place / name, self.environ)

    def review(self, repo: Repo, *steps: Any, environ: dict[str, str] | None = None, **request: Any) -> Review:
        """A review of the last commit, its run uploaded; the model has these answers and no more."""
        with answering(*map(answer, steps)) as model:
            done = walked(repo.path, self.environ | model.environ | (environ or {}), LAST, **request)
            self.told = done.unshared.upload() if done.unshared else ()
        assert len(model.script.requests) == len(steps)
        assert not model.script.unexpected
        return done

    def objects(self, folder: str = "") -> list[Path]:
        return sorted(path for path in (self.folder / folder).rglob("*") if path.is_file())


@pytest.fixture
def team(tmp_path: Path, environ: dict[str, str]) -> Team:
    return Team(tmp_path, environ)


def test_a_second_clone_asks_nothing_that_the_first_was_answered(team: Team) -> None:
    first, second = team.clone("a"), team.clone("b")
    assert team.review(first, PASSES).outcome == "pass"
    assert [*map(str, team.told)] == []
    assert team.objects("answers")
    assert not team.objects("claims")
    assert len(team.objects("runs")) == 1
    done = team.review(second)
    assert done.outcome == "pass"
    assert done.notes == ()
    assert (done.summary.cache.hits, done.summary.cache.misses) == (2, 0)


@pytest.mark.slow  # eight commands, a process each
def test_runs_there_are_listed_shown_verified_exported_reported_and_cleaned(team: Team) -> None:
    first, second = team.clone("a"), team.clone("b")
    run = team.review(first, PASSES).summary.run_id

    def told(*argv: str, code: int = 0) -> str:
        done = vibe_gate(*argv, cwd=second.path, environ=team.environ)
        assert done.code == code, done.err
        return done.out

    (entry,) = json.loads(told("bundles", "list", "--store", "--json"))["bundles"]
    assert (entry["run_id"], entry["outcome"]) == (run, "pass")
    assert entry["rubrics"] == [{"id": "quality", "outcome": "pass"}]
    assert "No runs yet" in told("bundles", "list")
    assert "PASS" in told("bundles", "show", "--store", "HEAD")
    assert told("bundles", "verify", "--store") == "Checked 1 run, 2 answers: all genuine.\n"
    assert "1 run," in told("bundles", "export", "--store", run[:12], "-o", "run.tar.gz")
    assert "imported" in told("bundles", "import", "run.tar.gz")
    assert "<html" in told("report", run, "--store", "-o", "-")
    assert "0 runs would be deleted" in told("bundles", "clean", "--store", "--dry-run")
