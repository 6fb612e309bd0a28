"""A pull request's job whose rubric sees what was asked for, and the issues that the pull request
closes.
"""

from __future__ import annotations

import json

import pytest
from answers import answers, said
from faces.jobs import GATE, Project, project
from wire import answering

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_agents")]  # jobs, each a process

ASKED = """\
schema = 1
id = "quality"
sees = ["prompt", "issue"]
second_look = "never"
[[criterion]]
id = "asked-for"
kind = "judge"
must = true
needs = "prompt"
question = "Is everything asked for?"
[[criterion]]
id = "as-reported"
kind = "judge"
needs = "issue"
question = "Does the change do what the issues ask for?"
"""
PROMPT = "rename the marvellous function total to sum_up and nothing besides"
LINE = {"path": "src/b.py", "line": 1, "quote": "y = 2", "side": "after"}


def shared(made: Project, head: str, text: str = PROMPT) -> None:
    """Have the origin's notes say that this was asked for the commit."""
    prompt = {"turn": 1, "at": "2026-11-27T10:00:00Z", "text": text}
    line = {
        "schema": 1,
        "agent": "claude",
        "session": "1f3c9a1e",
        "turns": 1,
        "sha256": "0" * 64,
        "prompts": [prompt],
    }
    made.origin.git(
        "notes", "--ref", "vibe-gate-prompts", "add", "-f", "-m", json.dumps(line), head
    )


@pytest.mark.parametrize("prompts", ["redacted", "digest"])
def test_notes_of_the_commits_are_shown_to_the_judge_where_the_base_says_so_and_posted_nowhere(
    tmp_path, environ, github, prompts
):
    made = project(tmp_path, environ, github, ASKED)
    made.origin.commit(
        "Share", **{".vibe-gate/gate.toml": f'{GATE}[share]\nprompts = "{prompts}"\n'}
    )
    # What the change itself says of sharing counts for nothing.
    head = made.branch("topic", **{"src/b.py": "y = 2\n"})
    made.pull(head)
    shared(made, head)
    github.add_closed_issue(7, 12, "Rename total", "It is named badly.")
    reason = f"Nobody asked for it; the request says: {PROMPT}."
    fail = said(
        "asked-for",
        "fail",
        reason=reason,
        counterexample=f"{PROMPT} -> y is added",
        evidence=[LINE],
    )
    given = [fail] if prompts == "redacted" else []
    with answering(answers(*given, said("as-reported"))) as model:
        key = {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": model.environ["ANTHROPIC_API_KEY"]}
        done = made.review_pull(head, ANTHROPIC_BASE_URL=model.environ["ANTHROPIC_BASE_URL"], **key)
    request = json.dumps(model.script.requests[0].body)
    assert "#12: Rename total" in request
    assert (PROMPT in request) == (prompts == "redacted")
    assert done.code == (1 if prompts == "redacted" else 0), done.out + done.err
    posted = [
        *made.ours,
        *(json.dumps(one.sent) for one in github.check_runs),
        made.summary,
        done.out,
        done.err,
    ]
    posted += [one.body for one in github.review_comments]
    posted += [
        path.read_text()
        for path in made.folder.rglob("*")
        if path.is_file() and path.suffix != ".gz"
    ]
    for text in posted:
        assert "marvellous function" not in text
    if prompts == "digest":
        assert "what was asked for is not known" in made.summary
