"""`vibe-gate stats` over runs that were recorded: one judged, two answered by the cache, older and
unfinished ones.
"""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from answers import answer_to, answers, fails
from bundle_words import START
from command import vibe_gate
from recorded import Kind, begun, record_run
from repos import swallowing
from wire import answering

from vibe_gate.domain.bundles import began

pytestmark = pytest.mark.usefixtures("quick_agents")


def test_without_a_run_a_sentence_stands_for_the_figures(repo, environ):
    def stats(*argv):
        return vibe_gate("stats", *argv, cwd=repo, environ=environ)

    assert stats().out == "No runs yet; `vibe-gate review` records one.\n"
    assert stats("--since", "7d").out == "No runs match; `vibe-gate bundles list` shows all runs.\n"
    assert stats("--json").json["runs"] == 0


@pytest.mark.slow
def test_stored_runs_are_added_up(tmp_path, environ):
    repo = swallowing(tmp_path / "repo", environ)

    def run(*argv, **variables):
        return vibe_gate(*argv, cwd=repo.path, environ={**environ, **variables})

    with answering(answers(fails(), answer_to("names-are-clear"))) as model:
        first = run("review", "HEAD~1..HEAD", "--json", **model.environ).json
    run("review", "HEAD~1..HEAD")
    repo.git("config", "user.name", "Ada")
    repo.git("config", "user.email", "ada@example.org")
    fingerprint = first["findings"][0]["fingerprint"]
    run("override", fingerprint, "--reason", "meant")
    run("label", fingerprint, "right")
    run("review", "HEAD~1..HEAD")
    record_run(repo.path, START, Kind(rubrics=()))
    begun(repo.path, START + timedelta(hours=1))
    future = datetime.now(UTC) + timedelta(days=2)
    record_run(repo.path, future)

    total = run("stats", "--json").json
    usd, node = first["cost"]["usd"], first["cost"]["by_node"]
    assert list(node) == ["judge-quality"] and usd > 0
    assert total == {
        "schema": 1, "since": None, "runs": 4, "outcomes": {"fail": 2, "pass": 1, "nothing": 1},
        "not_counted": {"foreign": 1, "running": 1}, "usd": pytest.approx(usd + 0.0125), "usd_at_most": False,
        "usd_by_day": {began(first["run_id"])[:10]: usd, "2026-01-02": 0.0125},
        "usd_by_model": first["cost"]["by_model"], "usd_by_rubric": {"quality": usd},
        "findings": {"kept": 0, "overridden": 1, "suppressed": 0},
        "disputes": {"refuted": 0, "standing": 0},
        "hits": 4, "misses": 2, "saved_usd": pytest.approx(2 * usd),
        "criteria": [{"rubric": "quality", "criterion": "errors-not-swallowed", "found": 1, "right": 1, "wrong": 0,
                      "unanswered": 0, "precision": {"value": 1.0, "low": pytest.approx(0.025), "high": 1.0}}],
        "usd_per_right": {"quality": usd}, "would_have_blocked": {},
        "outcomes_by_day": {began(first["run_id"])[:10]: {"pass": 1, "fail": 2}, "2026-01-02": {"nothing": 1}},
        "authors": {"human": {"runs": 4, "failed": 2, "usd": pytest.approx(usd + 0.0125)}}, "agents": {},
    }  # fmt: skip

    text = run("stats", "--since", "7d").out.splitlines()
    assert text[:3] == [
        "3 runs: 2 fail, 1 pass",
        "not counted: 1 foreign",
        "findings: 0 kept, 1 overridden, 0 suppressed",
    ]
    assert text[3] == f"from earlier verdicts: 4 of 6 answers, at least ${2 * usd:.4f} saved"
    assert text[-9:] == [
        "rubric        USD",
        f"quality    {usd:.4f}",
        "",
        "findings of                       found  right  wrong   open  right, 95 %",
        "quality",
        "  errors-not-swallowed                1      1      0      0  100% (3% to 100%)",
        "",
        "for each right finding of       USD",
        f"quality                      {usd:.4f}",
    ]
    shutil.rmtree(repo.path / first["bundle"])
    assert (
        "answers saved" not in (second_output := run("stats").out)
        and "from earlier verdicts: 4 of 4 answers" in second_output
    )
    assert run("stats", "--since", "soon").code == 2

    for summary in repo.path.glob(".vibe-artifacts/*/*/summary.json"):
        summary.write_text(
            re.sub(r'"(\.vibe-artifacts/[^/"]+)/[^"]*/turn-001"', r'"\1"', summary.read_text())
        )
    assert "saved" not in (odd := run("stats").out) and "from earlier verdicts: 4 of " in odd
