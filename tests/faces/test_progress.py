"""What is shown while a review or a workflow runs."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from command import vibe_gate
from program import git, repository
from rich.console import Console, Group

from vibe_gate.context.listeners import StageStep
from vibe_gate.faces.progress import RunningStages, Spent, spent_by


def test_what_a_stage_spent_is_that_of_its_nodes_and_of_a_review_that_of_its_judges():
    spent_each = Spent(10, 0.5)
    spent = {
        "fix": spent_each,
        "fix-until-asked": spent_each,
        "fix-until-b": spent_each,
        "fixture": spent_each,
    }
    assert spent_by(["fix", "fix-until"], spent, "judge") == {
        "fix": Spent(10, 0.5), "fix-until": Spent(20, 1.0), "judge": Spent(10, 0.5),
    }  # fmt: skip


def end(running: RunningStages, stage: str, text: str) -> None:
    """The stage ends, as the graph tells it."""
    running.show(stage, text)
    running.tick(StageStep(node=stage, kind="ended"))


def render_lines(running: RunningStages) -> list[str]:
    """The lines, without their times."""
    return [line.split("s  ", 1)[1] for line in running.__rich__().plain.splitlines()]


def test_a_workflows_stages_keep_their_lines_whatever_their_names_are_and_a_reviews_follow_each_other():
    running = RunningStages(of_workflow=True)
    running.show("change", "reading the change")
    running.show("change", "agent first")  # a stage of that name
    for stage in ("checks", "judge", "seal", "fix"):
        running.show(stage, f"agent {stage}")
    assert render_lines(running) == [
        "change: agent first", "checks: agent checks", "judge: agent judge", "bundle: agent seal", "fix: agent fix",
    ]  # fmt: skip
    end(running, "judge", "pass · $0.0100")
    assert len(render_lines(running)) == 4 and "judge: agent judge" not in render_lines(running)
    running.meter("ended", 900, 0.0125)  # costs no other stage anything
    running.show("judge", "agent judge")
    assert "judge: agent judge" in render_lines(running)
    reviewed = RunningStages()
    for stage in ("change", "checks", "judge", "judge"):
        reviewed.show(stage, "text")
    assert render_lines(reviewed) == ["judge: text"]


def test_stages_that_have_not_begun_share_a_line_until_they_begin_or_are_skipped():
    running = RunningStages(of_workflow=True)
    running.show("change", "reading the change")
    for node in ("fix", "praise", "publish\x1b[2J"):
        running.tick(StageStep(node=node, kind="ready"))
    running.show("fix", "agent fixer")
    end(running, "praise", "skipped: not review.passed")
    running.tick(StageStep(node="fix", kind="tool.started", tool="Read", target="a.py", answers=2))
    first, second = running.__rich__().plain.splitlines()
    assert first.endswith("s  fix: 2 answers · Read a.py")
    assert second.strip() == r"ready: publish\x1b[2J"


@pytest.mark.parametrize("columns", [80, 40])
def test_a_stage_that_runs_has_one_line_with_its_time_tokens_and_cost(columns):
    running, out = RunningStages(of_workflow=True), StringIO()
    running.show("change", "reading the change")
    running.show("fix", "agent \x1b[31mfixer" + "x" * 200)
    running.meter("fix", 900, 0.0125)
    running.meter("fix", 12_000, 0.1)
    running.show("look", "1 answer")
    end(running, "look", "pass")  # and is gone
    Console(file=out, width=columns).print(Group(running))  # as rich.live does
    (line,) = out.getvalue().splitlines()
    assert line.startswith("    0 s   12.9k tokens $0.1125  fix: ") and len(line) <= columns
    assert "\x1b" not in line


def test_in_ci_each_line_says_when_it_was(tmp_path, environ):
    repo = repository(tmp_path / "r")
    (repo / "a.py").write_text("a = 1\n")
    git(repo, "add", "-A")
    review = vibe_gate(
        "review", "--staged", "--no-judge", cwd=repo, environ={**environ, "CI": "true"}
    )
    assert re.fullmatch(r"( +\d+ s  (change|checks|bundle): .*\n)+", review.err)
