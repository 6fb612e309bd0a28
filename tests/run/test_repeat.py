"""`vibe-gate replay RUN` of a workflow's or an agent's run: carried out again, and compared."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import CommandResult, vibe_gate
from test_workflows import FIX
from wire import answering
from working import CHECKED, FIXED, FIXER, WORSE, WorkingRepo, says, writes

from vibe_gate import Agent, RunResult, run_agent
from vibe_gate.domain.begun_run import BegunRun, resume_request
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.errors import IntegrityError, UsageError
from vibe_gate.run.repeated_run import kept_run_to_repeat
from vibe_gate.run.resume import can_resume, kept_run

pytestmark = pytest.mark.usefixtures("quick_agents")

CHECK = """\
schema = 1
id = "check"
[[stage]]
id = "check"
rubrics = ["clean"]
"""
"""A workflow that asks no model."""


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> WorkingRepo:
    return WorkingRepo(tmp_path / "repo", environ, fix=FIX, check=CHECK)


def replay(repo: WorkingRepo, *argv: str, steps: tuple[Any, ...] = ()) -> CommandResult:
    """`vibe-gate replay ARGV`, with a model where steps are given."""
    if not steps:
        return vibe_gate("replay", *argv, cwd=repo.path, environ=repo.environ)
    with answering(*steps) as model:
        return vibe_gate("replay", *argv, cwd=repo.path, environ=repo.environ | model.environ)


def run_document(repo: WorkingRepo, bundle: str) -> dict[str, Any]:
    return json.loads((repo.path / bundle / "run.json").read_text())


@pytest.mark.slow
def test_from_its_cassette_a_run_is_the_same_whatever_happened_to_files_and_definitions(
    repo, tmp_path
):
    cassette = ("--cassette", str(tmp_path / "cassette"))
    argv = ("--agent", "fixer", "--prompt", "Go.", "--apply", "--json", "--wire", "record")
    with answering(*writes("src/load.py", FIXED)) as model:
        run = repo.run(*argv, *cassette, model=model.environ)
    assert run.code == 0, run.err
    run_id = run.json["run_id"]
    repo.write(".vibe-gate/agents/fixer.toml", FIXER.replace("You repair.", "You destroy."))
    repo.commit("Another agent, and the repaired file")
    repo.write("src/other.py", "X = 1\n")
    state = repo.state()

    repetition = replay(repo, run_id, "--wire", "replay", *cassette)
    assert repetition.code == 0, repetition.err
    rows = repetition.out.splitlines()
    assert rows[1:3] == [
        f"of        {run_id} (fixer)",
        "the same  outcome pass, 1 stage, 1 changed file, last messages, 1 tool call",
    ]
    assert "at most" not in repetition.err
    assert repo.state() == state

    other = replay(
        repo, run_id, "--wire", "replay", *cassette, "--definitions", "worktree", "--json"
    )
    assert (other.code, other.json["outcome_after"]) == (3, "error")
    assert '\n-  "You repair."\n+  "You destroy."\n' in other.err
    assert f"definitions are not those of run {run_id}: .vibe-gate/agents/fixer.toml." in other.err

    repeat = run_document(repo, other.json["bundle"])
    assert (repeat["replay_of"], repeat["key"]) == (run_id, f"replay-{run_id}")
    assert "request" not in repeat
    assert not (repo.path / other.json["bundle"] / "receipt.json").exists()
    assert (
        other.json["repeat"]
        not in vibe_gate("bundles", "list", cwd=repo.path, environ=repo.environ).out
    )
    twice = replay(repo, other.json["repeat"])
    assert (twice.code, f"is itself a repeat; name the run {run_id}" in twice.err) == (2, True)
    assert vibe_gate("bundles", "verify", cwd=repo.path, environ=repo.environ).code == 0


@pytest.mark.slow
def test_live_the_agents_work_again_and_what_they_do_otherwise_is_shown(repo):
    worse = writes("src/load.py", WORSE.format(1))
    with answering(*worse, *writes("src/load.py", FIXED)) as model:
        run = repo.run("fix", "--json", model=model.environ)
    assert run.code == 0, run.err
    run_id, state = run.json["run_id"], repo.state()
    sooner = writes("src/load.py", FIXED.replace("open", "Open"), "Repaired\nat once.")
    repetition = replay(repo, run_id, steps=sooner)
    assert (repetition.code, repo.state()) == (0, state), repetition.err
    assert f"Repeating run {run_id}, which cost $0.0016: at most $5.00" in repetition.err
    assert repetition.out.splitlines()[2:11] == [
        "outcome   pass in both",
        "stage     fix: another last message",
        "          - Done.",
        "          + Repaired",
        "          + at once.",
        "stage     fix-until: fail -> pass",
        "stage     fix-b: pass -> did not run",
        "stage     fix-until-b: nothing -> did not run",
        "criterion clean/no-todo: not_applicable -> pass",
    ]
    assert "file      src/load.py: 2 lines differ" in repetition.out
    assert "calls     Write 2 -> 1" in repetition.out
    never = [step for _ in range(3) for step in writes("src/load.py", WORSE.format(_))]
    failed = replay(repo, run_id, "--json", "--max-cost-usd", "1", steps=tuple(never))
    assert (failed.code, failed.json["outcome_after"]) == (1, "fail")
    assert "at most $1.00 (--max-cost-usd)" in failed.err


@pytest.mark.slow
def test_a_repair_begins_again_with_the_findings_and_files_of_the_run_that_it_fixed(repo):
    assert vibe_gate("review", cwd=repo.path, environ=repo.environ).code == 1
    with answering(*writes("src/load.py", FIXED)) as model:
        run = repo.run("--fix", "--json", model=model.environ)
    assert run.code == 0, run.err
    repo.write("src/load.py", "def load(path):\n    return None\n")
    repetition = replay(repo, run.json["run_id"], steps=writes("src/load.py", FIXED))
    assert (repetition.code, "the same  outcome pass" in repetition.out) == (0, True), (
        repetition.out + repetition.err
    )


@pytest.mark.slow
def test_what_a_person_denied_is_denied_again_and_nobody_is_asked(repo):
    argv = ("--agent", "fixer", "--prompt", "Go.", "--interactive", "--json")
    assert repo.run(*argv).code == 3
    run = vibe_gate("resume", "--deny", "fixer", "--json", cwd=repo.path, environ=repo.environ)
    repetition = replay(repo, run.json["run_id"], steps=(says("Never asked."),))
    assert (repetition.code, "the same  outcome inconclusive" in repetition.out) == (0, True), (
        repetition.err
    )
    assert repo.run(*argv).code == 3
    environ = repo.environ
    with answering(*writes("src/load.py", FIXED)) as model:
        run = vibe_gate(
            "resume", "--approve", "fixer", "--json", cwd=repo.path, environ=environ | model.environ
        )
    repetition = replay(repo, run.json["run_id"], steps=writes("src/load.py", FIXED))
    assert (repetition.code, "the same  outcome pass" in repetition.out) == (0, True), (
        repetition.err
    )


def test_a_run_is_repeated_by_the_definitions_that_it_began_with_or_refused_with_their_name(repo):
    run = repo.run("check", "--definitions", "worktree", "--json")
    assert (run.code, run.json["outcome"]) == (1, "fail"), run.err
    run_id = run.json["run_id"]
    repo.write("src/load.py", FIXED)
    assert "the same  outcome fail" in replay(repo, run_id).out
    repo.write(".vibe-gate/rubrics/clean.toml", CHECKED.replace("TODO", "FIXME"))
    refused = replay(repo, run_id)
    assert refused.code == 2
    assert "those here differ (.vibe-gate/rubrics/clean.toml)" in refused.err
    other = replay(repo, run_id, "--definitions", "worktree")
    assert (other.code, "outcome   fail -> pass" in other.out) == (1, True), other.out


def test_definitions_of_a_revision_that_is_gone_are_those_on_disk_if_they_agree(repo):
    repo.write("src/load.py", "x = 1  # TODO\n")
    repo.commit("Change")
    run = repo.run("check", "HEAD~1..HEAD", "--definitions", "HEAD", "--json")
    assert run.code == 1, run.err
    run_id = run.json["run_id"]
    assert "the same  outcome fail" in replay(repo, run_id).out
    repo.git("commit", "-q", "--amend", "--reset-author", "-m", "Other")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert "the same  outcome fail" in replay(repo, run_id).out
    repo.write(".vibe-gate/rubrics/clean.toml", CHECKED.replace("TODO", "FIXME"))
    repo.commit("Another rubric")
    refused = replay(repo, run_id)
    revision = run.json["trusted"]["revision"][:12]
    assert (refused.code, f"commit {revision} is not in this clone" in refused.err) == (2, True)


def test_a_review_of_the_first_commit_by_a_workflow_is_repeated_about_that_commit(repo):
    argv = ("review", "--commit", "HEAD", "--workflow", "check", "--definitions", "HEAD", "--json")
    run = vibe_gate(*argv, cwd=repo.path, environ=repo.environ)
    assert run.code == 4, run.err  # it brings the gate
    repetition = replay(repo, run.json["run_id"], "--json")
    assert (repetition.code, repetition.json["same"]) == (0, True), repetition.err
    change = run_document(repo, repetition.json["bundle"])["change"]
    assert change == run_document(repo, run.json["bundle"])["change"]


def test_files_that_neither_git_nor_the_bundle_has_are_named(repo):
    secret = "ghp_" + "A1b2C3d4E5" * 3 + "F6g7H8"
    repo.write("src/load.py", f'TOKEN = "{secret}"\n')
    run = repo.run("check", "--json")
    repo.write("src/load.py", FIXED)
    repetition = replay(repo, run.json["run_id"])
    assert (
        repetition.code,
        "files that it began with are not in this clone" in repetition.err,
    ) == (3, True)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["RUN", "--judge", "claude-opus-4-8"], "--judge is for reviews"),
        (["RUN", "--rubric", "clean"], "--rubric is for reviews"),
        (["RUN", "--jobs", "2"], "--jobs is for reviews"),
        (["RUN", "--shard", "1/2"], "--shard is for reviews"),
        (["RUN", "--table"], "--table is for reviews"),
        (["HEAD"], "whose agents would work again. To repeat it, name it: `vibe-gate replay RUN`"),
        (["RUN", "--definitions", "nowhere"], "names no revision"),
    ],
)
def test_what_does_not_fit_the_run_of_a_workflow_is_told(repo, argv, sentence):
    repo.commit("Change")
    run_id = repo.run("check", "HEAD~1..HEAD", "--json").json["run_id"]
    repetition = replay(repo, *(run_id if word == "RUN" else word for word in argv))
    assert (repetition.code, sentence.replace("RUN", run_id) in repetition.err) == (2, True), (
        repetition.err
    )


def test_runs_of_workflows_are_counted_and_not_repeated_among_reviews(repo):
    run_id = repo.run("check", "--json").json["run_id"]
    review = vibe_gate("review", "--json", cwd=repo.path, environ=repo.environ)
    repetition = replay(repo, "--since", "1d")
    assert repetition.code == 0, repetition.err
    first, second = repetition.out.splitlines()[-2:]
    assert first.startswith("Not repeated: 1 run of workflows and agents")
    assert second == f"  {run_id}"
    document = replay(repo, "--since", "1d", "--json").json
    assert (document["not_repeated"], document["totals"]["runs"]) == ([run_id], 1)
    named_repetition = replay(repo, run_id, review.json["run_id"], "--json").json
    assert "name it alone" in named_repetition["runs"][0]["why"]


def test_a_run_that_did_not_end_and_one_that_came_from_elsewhere_are_refused(repo, tmp_path):
    argv = ("--agent", "fixer", "--prompt", "Go.", "--interactive")
    assert repo.run(*argv).code == 3
    (bundle,) = repo.path.glob(".vibe-artifacts/*/*")
    waiting = replay(repo, bundle.name)
    assert (waiting.code, f"`vibe-gate resume {bundle.name}`" in waiting.err) == (2, True)
    run_id = repo.run("check", "--json").json["run_id"]
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", repo.path, clone], check=True)
    shutil.copytree(repo.path / ".vibe-artifacts", clone / ".vibe-artifacts")
    foreign = vibe_gate("replay", run_id, cwd=clone, environ=repo.environ)
    assert (foreign.code, "is not repeated: it did not begin in this clone" in foreign.err) == (
        5, True
    )  # fmt: skip


@pytest.mark.slow
def test_an_agent_that_a_script_ran_is_repeated_as_it_was_defined_there(repo, monkeypatch):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    agent = Agent(id="mine", system_prompt="You say whether it is well.", max_turns=7)
    monkeypatch.chdir(repo.path)
    with answering({"ok": True}) as model:
        for name, value in (repo.environ | model.environ).items():
            monkeypatch.setenv(name, value)
        result = asyncio.run(await_agent(agent, "Is it?", schema=schema))
        other = asyncio.run(await_agent(agent, "And now?", context=result))
    run_id = result.bundle_dir.parents[2].name
    repetition = replay(repo, run_id, steps=({"ok": False},))
    assert repetition.code == 0, repetition.err
    assert repetition.out.splitlines()[2:6] == [
        "outcome   pass in both",
        "stage     mine: another last message",
        '          -  "ok": true',
        '          +  "ok": false',
    ]
    handed_over = replay(repo, other.bundle_dir.parents[2].name)
    assert (
        handed_over.code,
        "or the context or session that its agent went on with" in handed_over.err,
    ) == (2, True)
    assert vibe_gate("resume", cwd=repo.path, environ=repo.environ).code == 2


async def await_agent(agent: Agent, prompt: str, **fields: Any) -> RunResult:
    return await run_agent(agent, prompt, **fields)


REQUEST: dict[str, Any] = {
    "selection": {"kind": "worktree", "left": "HEAD", "right": "HEAD", "also": ""},
    "base": None,
    "definitions": None,
    "max_cost_usd": None,
    "deadline_s": None,
    "agent": "fixer",
    "session": "",
    "model": None,
    "reviewing": False,
    "apply": True,
    "fix": "",
}
DOCUMENT: dict[str, Any] = {
    "run_id": "run-1",
    "key": "tree-1",
    "workflow": "fixer",
    "mode": "auto",
    "prompt": "Go.",
    "change": {"before": "b", "after": "a", "base_commit": "", "kind": "worktree"},
    "definitions": {"gate.toml": "d"},
    "trusted": {"revision": "c" * 40, "origin": "trusted"},
    "request": REQUEST,
}
ENTRY = RunEntry("run-1", "tree-1")


def test_a_run_is_repeated_as_the_clone_noted_it():
    noted_run = kept_run_to_repeat(ENTRY, DOCUMENT, BegunRun("", resume_request(DOCUMENT)))
    assert noted_run.prompt == "Go."
    assert noted_run.change.kind == "worktree"
    assert noted_run.trusted.revision == "c" * 40


@pytest.mark.parametrize(
    ("document", "noted", "error", "sentence"),
    [
        ({}, None, IntegrityError, "it did not begin in this clone"),
        ({}, {"request": ""}, UsageError, "cannot be repeated"),
        ({}, {"trusted": {"revision": "d" * 40}}, IntegrityError, "was changed since it began"),
        ({"prompt": "Run."}, {}, IntegrityError, "was changed since it began (prompt)"),
        ({"definitions": {}}, {}, IntegrityError, "was changed since it began (definitions)"),
    ],
)
def test_what_the_clone_did_not_note_is_never_repeated(document, noted, error, sentence):
    begun = None if noted is None else BegunRun("", resume_request(DOCUMENT | noted))
    if noted == {"request": ""}:
        begun = BegunRun("", "")
    with pytest.raises(error) as refused:
        kept_run_to_repeat(ENTRY, DOCUMENT | document, begun)
    assert sentence in str(refused.value)


AGENT_RUN: dict[str, Any] = {
    "agent": {"schema": 1, "id": "mine"},
    "schema": None,
    "model": None,
    "timeout_s": None,
    "max_cost_usd": 0.5,
}


def test_one_agent_of_a_script_is_noted_and_cannot_be_resumed():
    document = DOCUMENT | {"agent_run": AGENT_RUN}
    begun = BegunRun("", resume_request(document))
    begun_run = kept_run_to_repeat(ENTRY, document, begun)
    assert begun_run.agent_run is not None
    assert begun_run.agent_run.agent == Agent(id="mine")
    of_gate = DOCUMENT | {"agent_run": AGENT_RUN | {"agent": "fixer"}}
    noted = kept_run_to_repeat(ENTRY, of_gate, BegunRun("", resume_request(of_gate)))
    assert noted.agent_run is not None
    assert noted.agent_run.agent == "fixer"
    assert (can_resume(begun), can_resume(BegunRun("", resume_request(DOCUMENT)))) == (False, True)
    with pytest.raises(UsageError, match="cannot be resumed"):
        kept_run(ENTRY, document, begun)


@pytest.mark.parametrize(
    "document",
    [
        DOCUMENT | {"prompt": "Use [redacted:github-token:0a1b2c3d]."},
        DOCUMENT
        | {"agent_run": AGENT_RUN | {"agent": {"id": "mine", "system_prompt": "[redacted:x:0]"}}},
    ],
)
def test_a_secret_in_what_an_agent_was_asked_is_not_asked_again(document):
    with pytest.raises(UsageError, match="there was a secret"):
        kept_run_to_repeat(ENTRY, document, BegunRun("", resume_request(document)))


def test_a_run_that_went_on_with_a_session_is_not_repeated():
    document = DOCUMENT | {"request": REQUEST | {"session": "5e"}}
    with pytest.raises(UsageError, match="went on with a session"):
        kept_run_to_repeat(ENTRY, document, BegunRun("", resume_request(document)))
