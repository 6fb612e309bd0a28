"""A pull request's job whose rubric sees what was asked for, and the issues that the pull request
closes.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from answers import answer_to, answers
from faces import events
from faces.jobs import FIX, FIXER, GATE, Project, make_project
from scripted_messages_api import Text, ToolUse, Turn
from store.test_captured_prompts import capture, prompt_event, wrote
from wire import answering

from vibe_gate.domain.leaving import WHY_NOT

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


def share_prompt(project: Project, head: str, text: str = PROMPT) -> None:
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
    project.origin.git(
        "notes", "--ref", "vibe-gate-prompts", "add", "-f", "-m", json.dumps(line), head
    )


@pytest.mark.parametrize("prompts", ["redacted", "digest"])
def test_notes_of_the_commits_are_shown_to_the_judge_where_the_base_says_so_and_posted_nowhere(
    tmp_path, environ, github, prompts
):
    project = make_project(tmp_path, environ, github, ASKED)
    project.origin.commit(
        "Share", **{".vibe-gate/gate.toml": f'{GATE}[share]\nprompts = "{prompts}"\n'}
    )
    # What the change itself says of sharing counts for nothing.
    head = project.branch("topic", **{"src/b.py": "y = 2\n"})
    project.pull(head)
    share_prompt(project, head)
    github.add_closed_issue(7, 12, "Rename total", "It is named badly.")
    reason = f"Nobody asked for it; the request says: {PROMPT}."
    fail = answer_to(
        "asked-for",
        "fail",
        reason=reason,
        counterexample=f"{PROMPT} -> y is added",
        evidence=[LINE],
    )
    prompt_answers = [fail] if prompts == "redacted" else []
    with answering(answers(*prompt_answers, answer_to("as-reported"))) as model:
        key = {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": model.environ["ANTHROPIC_API_KEY"]}
        job = project.review_pull(
            head, ANTHROPIC_BASE_URL=model.environ["ANTHROPIC_BASE_URL"], **key
        )
    request = json.dumps(model.script.requests[0].body)
    assert "#12: Rename total" in request
    assert (PROMPT in request) == (prompts == "redacted")
    assert job.code == (1 if prompts == "redacted" else 0), job.out + job.err
    posted = [
        *project.ours,
        *(json.dumps(check_run.sent) for check_run in github.check_runs),
        project.summary,
        job.out,
        job.err,
    ]
    posted += [comment.body for comment in github.review_comments]
    posted += [
        path.read_text()
        for path in project.folder.rglob("*")
        if path.is_file() and path.suffix != ".gz"
    ]
    for text in posted:
        assert "marvellous function" not in text
    if prompts == "digest":
        assert "what was asked for is not known" in project.summary


NOW_MS = int((datetime.now(UTC) - datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)).total_seconds() * 1000)
SECRET_PLAN = "rename it, because project Bluebird waits for it"


@pytest.mark.parametrize(
    ("visibility", "artifact"),
    [
        ("public", "none"),
        ("public", "summary"),
        ("public", "full"),
        ("private", "none"),
        ("private", "full"),
        ("unknown", "full"),
    ],
)
def test_what_agents_changed_is_posted_whatever_is_uploaded_unless_a_model_was_shown_a_private_prompt(
    tmp_path, environ, github, visibility, artifact
):
    is_private = visibility == "private"
    project = make_project(tmp_path, environ, github, ASKED)
    project.origin.commit(
        "Repair", **{".vibe-gate/workflows/fix.toml": FIX, ".vibe-gate/agents/fixer.toml": FIXER}
    )
    head = project.branch("topic", **{"src/b.py": "y = 2\n"})
    project.pull(head)
    project.check_out(head)
    if is_private:  # a runner that keeps its workspace, in which people work with an agent, too
        git_folder = project.checkout / ".git"
        capture(
            git_folder, project.checkout, prompt_event(SECRET_PLAN), wrote("y = 2\n"), at=NOW_MS
        )
    if visibility == "unknown":
        (project.checkout / ".vibe-artifacts").write_text("in the way")
    github.add_closed_issue(7, 12, "Rename total", "It is named badly.")
    not_reported = answer_to(
        "as-reported",
        "fail",
        reason="Nobody reported it.",
        counterexample="y -> 2",
        evidence=[LINE],
    )
    prompt_answers = [answer_to("asked-for")] if is_private else []
    repair = ToolUse("Write", {"file_path": "src/b.py", "content": "y = 3  # Bluebird\n"})
    event = events.pull_request(project.main(), head)
    with answering(
        answers(*prompt_answers, not_reported), Turn(repair), Turn(Text("Done."))
    ) as model:
        project.act(
            "pull_request",
            event,
            ANTHROPIC_BASE_URL=model.environ["ANTHROPIC_BASE_URL"],
            VIBE_GATE_INPUT_ANTHROPIC_API_KEY=model.environ["ANTHROPIC_API_KEY"],
            VIBE_GATE_INPUT_WORKFLOW="fix",
            VIBE_GATE_INPUT_ARTIFACT=artifact,
            VIBE_GATE_BEGAN="1700000000",
        )
    texts = [
        project.ours[0],
        project.summary,
        *(comment.body for comment in github.review_comments),
    ]
    folder = project.outputs["artifact-path"]
    uploaded = list(Path(folder).iterdir()) if folder else []
    names = {path.name for path in uploaded}
    if visibility != "public":
        reason = WHY_NOT if is_private else "the run was not recorded, so "
        assert "Bluebird" not in "".join(texts)
        assert f"stay in the job: {reason}" in project.ours[0]
        assert bool(uploaded) == (is_private and artifact != "none")
        assert not {"made.patch", "bundle.tar.xz"} & names
        assert all(b"Bluebird" not in path.read_bytes() for path in uploaded)
        return
    assert "+y = 3  # Bluebird" in project.ours[0]
    assert "```suggestion\ny = 3  # Bluebird\n```" in "".join(texts)
    assert ("made.patch" in names) == (artifact != "none")
    assert ("bundle.tar.xz" in names) == (artifact == "full")
    patch_place = "not uploaded (`artifact: none`)" if artifact == "none" else "in the artifact"
    assert re.search(rf"the whole patch is .*{re.escape(patch_place)}", project.ours[0])
