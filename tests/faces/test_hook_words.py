"""What a hook says, and that it says it once."""

from __future__ import annotations

import pytest
from hooked import PASSES, Hooked
from wire import answering

pytestmark = pytest.mark.usefixtures("quick_agents")


@pytest.fixture
def waiting(judging: Hooked) -> Hooked:
    """A gate whose only criterion is a judge's, and a change that waits to be committed."""
    judging.write(a="x\n")
    return judging


MESSAGE = "x\n\nCo-authored-by: Claude <noreply@anthropic.com>\n"


def test_that_nothing_was_reviewed_is_said_once_in_four_lines(waiting):
    output = waiting.git("commit", "-q", "-a", "-m", MESSAGE, CLAUDECODE="1")
    assert output.count("NOT REVIEWED. The commit goes through") == 1
    assert (len(output.splitlines()), "asking about" in output) == (4, False)
    assert [record["kind"] for record in waiting.records()] == ["not-reviewed"]


def test_a_model_that_fails_is_asked_once_for_a_commit(waiting):
    with answering({"changes": "", "answers": []}, repeat_last=True) as model:
        output = waiting.git("commit", "-a", "-m", "x", CLAUDECODE="1", **model.environ)
        request_count = len(model.script.requests)
        waiting.run(
            "vibe-gate",
            "hook",
            "commit-msg",
            "--",
            ".git/COMMIT_EDITMSG",
            CLAUDECODE="1",
            **model.environ,
        )
        assert len(model.script.requests) == request_count > 0
    assert output.count("NOT REVIEWED. The commit goes through") == 1


def test_of_what_git_picks_by_itself_the_hook_says_nothing(waiting):
    waiting.git("commit", "-q", "-a", "--no-verify", "-m", "x")
    waiting.git("checkout", "-q", "-b", "other", "HEAD~1")
    waiting.write(b="elsewhere\n")
    waiting.git("commit", "-q", "-a", "--no-verify", "-m", "y")
    output = waiting.git("cherry-pick", "main")
    assert "vibe-gate:" not in output  # `verify` speaks of it, once for all of a rebase's picks


def test_answers_and_spending_that_cannot_be_kept_are_said(waiting):
    (waiting.path / ".git" / "vibe-gate" / "state.db").mkdir(parents=True)
    with answering(PASSES, repeat_last=True) as model:
        output = waiting.git("commit", "-a", "-m", "x", CLAUDECODE="1", **model.environ)
    assert "The answers are kept nowhere, so the same question is paid for again" in output
    assert "not counted on this day's budget" in output
