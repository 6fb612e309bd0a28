"""`vibe-gate action` as the runner starts it: a real checkout, a real review, a loopback GitHub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from contract.github import loopback_github
from faces import events
from faces.jobs import Project, project, todos


@pytest.fixture
def github():
    with loopback_github() as started:
        yield started


@pytest.fixture
def made(tmp_path: Path, environ: dict[str, str], github) -> Project:
    return project(tmp_path, environ, github)


def test_a_failing_pull_request_gets_comment_check_run_summary_and_outputs(made):
    head = made.branch("topic", **{"src/a.py": todos(1)})
    made.pull(head)
    done = made.review_pull(head)
    assert done.code == 1, done.err
    assert len(made.ours) == 1
    assert made.github.check_runs[0].sent["conclusion"] == "failure"
    assert made.github.check_runs[0].sent["head_sha"] == head
    out = made.outputs
    assert out["verdict"] == "fail"
    assert out["comment-url"].startswith("http")
    assert Path(out["report"]).read_text() == made.summary
    assert {path.name for path in Path(out["artifact-path"]).iterdir()} == {
        "summary.json", "receipt.json", "run.json", "events.ndjson", "report.md",
    }  # fmt: skip
    assert json.loads(Path(out["artifact-path"], "summary.json").read_text())["run_id"] == out["run"]
