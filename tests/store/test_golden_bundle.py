"""A bundle that an earlier version wrote loads for ever."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bundle_words import KEY, View, tree

from vibe_gate.store.run_result import read_bundle

TESTS = Path(__file__).parents[1]


@pytest.fixture(params=["bundle-1", "bundle-2"])
def bundle(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, as a download of an artifact would be."""
    return shutil.copytree(TESTS / "golden" / request.param, tmp_path / request.param)


def test_its_verdict_reads_with_every_part(bundle: Path) -> None:
    run = View(bundle)
    summary = run.summary
    assert (run.state, summary.key, summary.outcome, summary.exit_code) == (
        "sealed",
        KEY,
        "fail",
        4,
    )
    assert [file.path for file in summary.change.files] == ["pay.py", '"caf\\351"']
    (rubric,) = summary.rubrics
    assert [(criterion.id, criterion.outcome) for criterion in rubric.criteria] == [
        ("no-secrets", "pass"),
        ("price", "fail"),
    ]
    assert rubric.criteria[1].votes[0].evidence[0].standing == "relocated"
    assert summary.findings[0].evidence == rubric.criteria[1].votes[0].evidence
    assert (summary.cost.usd, summary.agent_authored.decision, summary.cache.hits) == (
        0.0125,
        True,
        1,
    )


def test_its_graph_is_rebuilt_to_the_same_bytes(bundle: Path) -> None:
    graph = View(bundle).graph()
    assert graph.to_json() == (bundle / "graph.json").read_text()
    assert [(node.id, node.turns) for node in graph.nodes] == [
        ("judge-quality", ("turn-001", "turn-002")),
        ("fix", ("turn-001",)),
    ]


def test_its_contents_are_read_wherever_its_version_kept_them(bundle: Path) -> None:
    run = read_bundle(bundle)
    (changed,) = [file for file in run.files.changed() if file.path == "pay.py"]
    assert (changed.before.text(), changed.after.text()) == ("old\n", "new\n")
    (by_agent,) = read_bundle(bundle / "nodes/fix/turn-001").files.changed()
    assert (by_agent.before.text(), by_agent.after.text()) == ("old\n", "new\n")
    assert run.content(changed.after.sha256) == b"new\n"


@pytest.mark.slow
def test_this_version_writes_it_the_same_twice(tmp_path: Path) -> None:
    script = TESTS / "golden/write_bundle.py"
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    for name in ("first", "second"):
        subprocess.run([sys.executable, str(script), str(tmp_path / name)], check=True, env=env)
    assert tree(tmp_path / "first") == tree(tmp_path / "second")
