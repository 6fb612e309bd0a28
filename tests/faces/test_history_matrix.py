"""The example with eight jobs and a last one, two of the eight as act runs them: their parts are the
whole, and a gap is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import forked
import pytest
from acting import Job, Runner, example
from repos import Repo, gated

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # three jobs, and act itself

COMMITS = 8
CHECKED = 'schema = 1\nid = "quality"\n[[criterion]]\nid = "clean"\nkind = "check"\ncheck = "no-conflict-markers"\n'
GATE = """\
#!/bin/sh
case "$*" in *"--shard $FAILING/"*) echo "the disk is full" >&2; exit 3;; esac
exec {program} "$@"
"""


@pytest.fixture
def history(tmp_path: Path, environ: dict[str, str]) -> Repo:
    repo = gated(tmp_path / "repo", environ, rubric=CHECKED)
    repo.commit("First", **{"a.txt": "0\n"})
    repo.git("tag", "start")
    for number in range(1, COMMITS + 1):
        repo.commit(f"Change {number}", **{"a.txt": f"{number}\n"})
    return repo


def in_two_parts(history: Repo, workflow: str) -> None:
    """Make the workflow one of two jobs and a last one: eight show nothing more."""
    text = (history.path / workflow).read_text()
    for eight, two in (("[1, 2, 3, 4, 5, 6, 7, 8]", "[1, 2]"), ("$PART/8", "$PART/2")):
        assert text.count(eight) == 1
        text = text.replace(eight, two)
    history.write(workflow, text)


def run_workflow(place: Path, history: Repo, environ: Mapping[str, str], failing: str = "") -> Job:
    """The workflow's end. Packages are not installed: `vibe-gate` is the one under test, and fails
    in one part.
    """
    programs = place / "programs"
    programs.mkdir(parents=True)
    for name, text in (
        ("vibe-gate", GATE.format(program=forked.programs() / "vibe-gate")),
        ("pipx", "#!/bin/sh\n"),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path = f"{programs}:{environ['PATH']}"
    runner = Runner(place / "runner", None, {**environ, "PATH": path, "FAILING": failing})
    payload = {
        "inputs": {"range": "start..HEAD"},
        "repository": {"full_name": "octo/hello", "default_branch": "main"},
    }
    workflow = example(history, "history-matrix.yml")
    in_two_parts(history, workflow)
    return runner.run(
        history.path, "workflow_dispatch", payload, workflow, FAILING=failing, PATH=path
    )


def imported_commits(job: Job) -> list[str]:
    """The commits whose runs the last job has."""
    return re.findall(r"\S+ imported, about ([0-9a-f]{40})", job.log)


def test_the_parts_are_the_whole(history, tmp_path, environ):
    job = run_workflow(tmp_path, history, environ)
    assert job.code == 0, job.log
    assert sorted(imported_commits(job)) == sorted(history.git("rev-list", "start..HEAD").split())
    assert f"{COMMITS} commits: {COMMITS} pass" in job.log


def test_of_a_part_that_failed_every_commit_is_named(history, tmp_path, environ):
    job = run_workflow(tmp_path, history, environ, failing="2")
    assert job.code == 1, job.log
    missing = set(history.git("rev-list", "start..HEAD").split()) - set(imported_commits(job))
    assert 0 < len(missing) < COMMITS
    table = job.log[job.log.index("missing: ") :]
    assert {commit for commit in missing if commit[:12] in table} == missing
