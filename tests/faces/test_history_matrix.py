"""The example with eight jobs and a last one, as act runs it: their parts are the whole, and a gap
is named.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from acting import Job, Runner, example
from repos import Repo, gated

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # nine jobs, and act itself

COMMITS = 20
CHECKED = 'schema = 1\nid = "quality"\n[[criterion]]\nid = "clean"\nkind = "check"\ncheck = "no-conflict-markers"\n'
GATE = """\
#!/bin/sh
case "$*" in *"--shard $FAILING/8"*) echo "the disk is full" >&2; exit 3;; esac
exec {python} -m vibe_gate "$@"
"""


@pytest.fixture
def history(tmp_path: Path, environ: dict[str, str]) -> Repo:
    repo = gated(tmp_path / "repo", environ, rubric=CHECKED)
    repo.commit("First", **{"a.txt": "0\n"})
    repo.git("tag", "start")
    for number in range(1, COMMITS + 1):
        repo.commit(f"Change {number}", **{"a.txt": f"{number}\n"})
    return repo


def ran(place: Path, history: Repo, environ: Mapping[str, str], failing: str = "") -> Job:
    """The workflow's end. Packages are not installed: `vibe-gate` is the one under test, and fails
    in one part.
    """
    programs = place / "programs"
    programs.mkdir(parents=True)
    for name, text in (("vibe-gate", GATE.format(python=sys.executable)), ("pipx", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path = f"{programs}:{environ['PATH']}"
    runner = Runner(place / "runner", None, {**environ, "PATH": path, "FAILING": failing})
    payload = {
        "inputs": {"range": "start..HEAD"},
        "repository": {"full_name": "octo/hello", "default_branch": "main"},
    }
    workflow = example(history, "history-matrix.yml")
    return runner.run(
        history.path, "workflow_dispatch", payload, workflow, FAILING=failing, PATH=path
    )


def test_eight_parts_are_the_whole_and_of_a_part_that_failed_every_commit_is_named(
    history, tmp_path, environ
):
    job = ran(tmp_path / "whole", history, environ)
    assert job.code == 0, job.log
    imported = re.findall(r"\S+ imported, about ([0-9a-f]{40})", job.log)
    assert sorted(imported) == sorted(history.git("rev-list", "start..HEAD").split())
    assert f"{COMMITS} commits: {COMMITS} pass" in job.log

    failing = next(
        part
        for part in "12345678"
        if f"{part}.tar.gz" in {p.name for p in job.artifacts.rglob("*.gz")}
    )
    job = ran(tmp_path / "gap", history, environ, failing)
    assert job.code == 1, job.log
    imported = re.findall(r"\S+ imported, about ([0-9a-f]{40})", job.log)
    missing = set(history.git("rev-list", "start..HEAD").split()) - set(imported)
    assert missing
    table = job.log[job.log.index("missing: ") :]
    assert {name for name in missing if name[:12] in table} == missing
