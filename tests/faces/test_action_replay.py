"""`replay` in the Action: what a pull request's own rubrics would have said of earlier runs."""

from __future__ import annotations

import pytest
from answers import passes
from faces.jobs import FORBIDDEN, GATE, Project, make_project
from repos import RUBRIC
from wire import KEY, answer, answering, costing


def propose_rubric(project: Project, old: str, new: str) -> str:
    """A pull request that edits the rubric."""
    head = project.branch(
        "rubric", **{".vibe-gate/rubrics/quality.toml": FORBIDDEN.replace(old, new)}
    )
    project.pull(head, 9)
    return head


@pytest.fixture
def history(project: Project) -> Project:
    """Two pull requests were reviewed, one blocked; the project's folder has the archives of their
    artifacts.
    """
    for number, (name, body) in enumerate(
        {"clean": "x = 2\n", "todo": "x = 2  # TODO\n"}.items(), 1
    ):
        head = project.branch(name, **{"src/a.py": body})
        project.pull(head, number)
        project.review_pull(head, number=number, VIBE_GATE_INPUT_ARTIFACT="full")
        next(project.folder.rglob("bundle.tar.xz")).rename(project.place / f"{name}.tar.xz")
    return project


def review(project: Project, head: str, **inputs: str) -> str:
    """What the comment says of the pull request that edits the rubric, above its folds."""
    project.review_pull(head, number=9, VIBE_GATE_INPUT_REPLAY="30", **inputs)
    return project.ours[-1]


@pytest.mark.slow
def test_the_comment_shows_above_the_approval_what_the_new_rubric_would_have_said_of_earlier_runs(
    history,
):
    head = propose_rubric(history, 'pattern = "TODO"', 'pattern = "x = 2$"')
    comment = review(history, head, VIBE_GATE_INPUT_REPLAY_FROM=str(history.place), depth=1)
    assert "NEEDS APPROVAL" in comment
    opening, _, next_steps = comment.partition("**Next:**")
    assert (
        "of the last 2 runs: Would have blocked 1 of 2, would no longer block 1; $0.00." in opening
    )
    assert "approve" in next_steps
    assert "`quality/no-todo`<br>" in next_steps
    assert "would no longer block 1" in history.summary
    assert history.outputs["verdict"] == "needs-approval"


@pytest.mark.slow
def test_nothing_is_replayed_where_no_rubric_changes_or_no_run_is_there(history):
    comment = review(history, propose_rubric(history, "TODO", "FIXME"))
    assert "No earlier run is stored here" in comment
    head = history.branch("code", **{"src/b.py": "y = 1\n"})
    history.pull(head, 9)
    comment = review(history, head, VIBE_GATE_INPUT_REPLAY_FROM=str(history.place))
    assert "of the last" not in comment
    assert "stored here" not in comment


@pytest.mark.slow
def test_archives_that_are_no_bundles_are_refused_and_the_verdict_stays(history):
    (history.place / "a.tar.xz").write_bytes(b"no archive")
    comment = review(
        history,
        propose_rubric(history, "TODO", "FIXME"),
        VIBE_GATE_INPUT_REPLAY_FROM=str(history.place),
    )
    assert "of the last 2 runs: " in comment
    assert "1 archive refused, the first: The archive is refused" in comment


@pytest.mark.slow
def test_no_command_of_a_pull_request_is_run_for_a_replay(history):
    command = 'schema = 1\nid = "quality"\n[[criterion]]\nid = "ran"\nkind = "check"\ncommand = ["touch", "/tmp/never"]\n'
    head = history.branch("rubric", **{".vibe-gate/rubrics/quality.toml": command})
    history.pull(head, 9)
    comment = review(history, head, VIBE_GATE_INPUT_REPLAY_FROM=str(history.place))
    assert "of the last 2 runs: Would have blocked 0 of 2, would no longer block 0" in comment
    assert not list(history.checkout.glob(".vibe-artifacts/replay-*/*/checks.log"))


@pytest.mark.slow
def test_the_earlier_runs_come_from_the_store_that_the_team_shares(project, tmp_path):
    pytest.importorskip("obstore", reason="obstore is not installed here")
    team = tmp_path / "team"
    team.mkdir()
    project.origin.git("checkout", "-q", "main")
    project.origin.commit(
        "Share", **{".vibe-gate/gate.toml": f'{GATE}[store]\nurl = "{team.as_uri()}"\n'}
    )
    project.origin.git("config", "--global", "vibe-gate.store", team.as_uri())
    key = {"VIBE_GATE_STORE_KEY": "correct horse battery staple"}
    head = project.branch("todo", **{"src/a.py": "x = 2  # TODO\n"})
    project.pull(head, 1)
    project.review_pull(head, number=1, **key)
    comment = review(project, propose_rubric(project, "TODO", "FIXME"), **key)
    assert (
        "of the last 1 run: Would have blocked 0 of 1, would no longer block 1; $0.00." in comment
    )
    assert "No earlier run is stored here" in review(
        project, project.origin.git("rev-parse", "rubric")
    )


@pytest.mark.slow
@pytest.mark.usefixtures("quick_agents")
def test_replays_have_a_budget_of_their_own_and_their_answers_travel(tmp_path, environ, github):
    project = make_project(tmp_path, environ, github, RUBRIC)
    dear = answer(passes("errors-not-swallowed", "names-are-clear"), usage=costing(20_000))
    with answering(dear, repeat_last=True) as model:
        variables = {"ANTHROPIC_BASE_URL": model.base_url, "VIBE_GATE_INPUT_ANTHROPIC_API_KEY": KEY}
        variables |= {
            "VIBE_GATE_INPUT_MAX_COST_USD": "2",
            "VIBE_GATE_ANSWERS": str(tmp_path / "cached"),
        }
        for number in (1, 2, 3):
            head = project.branch(f"topic-{number}", **{"src/a.py": f"x = {number + 1}\n"})
            project.pull(head, number)
            project.review_pull(head, number=number, VIBE_GATE_INPUT_ARTIFACT="full", **variables)
            next(project.folder.rglob("bundle.tar.xz")).rename(project.place / f"{number}.tar.xz")
        other = RUBRIC.replace("Does every new handler", "Does every handler")
        head = project.branch("rubric", **{".vibe-gate/rubrics/quality.toml": other})
        project.pull(head, 9)
        budget = {
            "VIBE_GATE_INPUT_REPLAY_FROM": str(project.place),
            "VIBE_GATE_INPUT_REPLAY_MAX_COST_USD": "0.15",
        }
        requests_before = len(model.script.requests)
        comment = review(project, head, **variables, **budget)
        # The review's own, and one replay's.
        assert len(model.script.requests) - requests_before == 2
        assert "would no longer block 0; $0.20." in comment
        assert comment.count("the budget is used up") == 2
        requests_before = len(model.script.requests)
        comment = review(project, head, **variables, **budget)
        assert len(model.script.requests) - requests_before == 1
        assert comment.count("the budget is used up") == 1
