"""`vibe-gate run fix` and `run --fix RUN`: the built-in workflow repairs what a review found."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import answers, fails, passes, said
from command import vibe_gate
from repos import SWALLOWS, Repo, gated
from wire import answering
from working import writes

pytestmark = pytest.mark.usefixtures("quick_agents")

REPAIRED = """\
def load(path):
    try:
        return open(path).read()
    except OSError as error:
        raise SystemExit(f"{path}: {error}") from error
"""
WORSE = SWALLOWS.replace("        pass\n", "        return None\n")

OTHER = "names-are-clear"
FAILS, PASSES = answers(fails(), said(OTHER)), passes("errors-not-swallowed", OTHER)
STILL_FAILS = answers(fails(reason="It returns None now."), said(OTHER))


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    """A gate with one question, no agents and no workflows; an uncommitted change that fails."""
    made = gated(tmp_path / "repo", environ)
    made.write("src/load.py", SWALLOWS)
    return made


@pytest.mark.slow  # five conversations
def test_the_built_in_workflow_repairs_until_the_rubrics_pass(repo):
    asked = []
    steps = (FAILS, *writes("src/load.py", WORSE), STILL_FAILS, *writes("src/load.py", REPAIRED), PASSES)
    with answering(*steps) as model:
        done = vibe_gate("run", "fix", "--json", cwd=repo.path, environ={**repo.environ, **model.environ})
        asked = [request.all_text for request in model.script.requests]
    assert (done.code, done.json["workflow"], done.json["outcome"]) == (0, "fix", "pass"), done.err
    assert "src/load.py:4: except OSError" in asked[1] and "counterexample: a missing file" in asked[1]
    assert "It returns None now." not in asked[1] and "It returns None now." in asked[4]
    assert (repo.path / "src/load.py").read_text() == SWALLOWS
    patch = next((repo.path / done.json["bundle"]).glob("made.patch"))
    repo.git("apply", str(patch))
    assert (repo.path / "src/load.py").read_text() == REPAIRED
