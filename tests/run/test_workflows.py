"""`vibe-gate run`: real repositories, the real CLI of the agent, a scripted model."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from answers import answers, fails, passes
from bundle_schemas import find_problems
from command import on_a_terminal, vibe_gate
from lxml import html
from scripted_messages_api import MessagesRequest, ToolUse, Turn
from wire import answering
from working import CHECKED, FIXED, FIXER, WORSE, WorkingRepo, says, writes

from vibe_gate.report.html import render_run_page as page_of
from vibe_gate.store.bundle_listing import find_bundles
from vibe_gate.store.run_result import read_bundle

pytestmark = pytest.mark.usefixtures("quick_agents")

GITHUB_TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"

GATES = """\
schema = 1
id = "gates"
[[stage]]
id = "first"
rubrics = ["clean"]
[[stage]]
id = "second"
needs = ["first"]
when = "first.failed"
rubrics = ["clean"]
[[stage]]
id = "third"
needs = ["first"]
rubrics = ["clean"]
"""

FIX = """\
schema = 1
id = "fix"
[[stage]]
id = "review"
rubrics = ["clean"]
[[stage]]
id = "fix"
needs = ["review"]
when = "review.failed"
agent = "fixer"
prompt = "Repair what the review found."
context = ["review"]
until = { rubrics = ["clean"], max_iterations = 3 }
"""

UNJUDGED = """\
schema = 1
id = "unjudged"
[[stage]]
id = "look"
agent = "reviewer"
prompt = "Look."
[[stage]]
id = "fix"
needs = ["look"]
agent = "fixer"
prompt = "Repair."
"""

BROKEN = """\
from vibe_gate import workflow

@workflow("broken")
async def steps(wf):
    raise ValueError("no luck")
"""

ELSEWHERE = """\
from vibe_gate import workflow

@workflow("elsewhere")
async def steps(wf):
    there = await wf.stage("over.there", agent="fixer", prompt="Write.", workspace="../other")
    assert there.changed and b"X = 1" in there.patch
"""

LOOP = """\
from vibe_gate import workflow

@workflow("loop")
async def steps(wf):
    done = await wf.until(lambda last: False, lambda: wf.stage("fix", agent="fixer", prompt="Fix."), max_iterations=2)
    assert not done.converged and done.last.passed and not wf.results[-1].passed
"""


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> WorkingRepo:
    further_workflows = {
        "unjudged": UNJUDGED,
        "python": PYTHON,
        "broken": BROKEN,
        "unloadable": "import nothing_like_that\n",
    }
    return WorkingRepo(
        tmp_path / "repo",
        environ,
        gates=GATES,
        fix=FIX,
        **further_workflows,
        elsewhere=ELSEWHERE,
        loop=LOOP,
    )


def graph(repo: WorkingRepo, summary: dict) -> dict:
    return json.loads((repo.path / summary["bundle"] / "graph.json").read_text())


def rounds(repo: WorkingRepo, summary: dict) -> list[str]:
    """What the run's page says of its gates, one after the other, with the findings that stand
    nowhere else in it.
    """
    page = html.fromstring(asyncio.run(page_of(read_bundle(repo.path / summary["bundle"]))))
    gates = page.xpath("//h2[.='Rounds']/following-sibling::ol[1]/li")
    return [" ".join(gate.text_content().split()) for gate in gates]


def statuses(repo: WorkingRepo, summary: dict) -> dict[str, str]:
    return {node["id"]: node["status"] for node in graph(repo, summary)["nodes"]}


def test_gate_stages_run_in_order_and_the_last_ones_decide(repo):
    run = repo.run("gates", "--json")
    assert (run.code, run.json["outcome"], run.json["workflow"]) == (1, "fail", "gates")
    assert statuses(repo, run.json) == {
        "first": "DONE", "first-checks": "DONE", "second": "DONE", "second-checks": "DONE", "third": "SKIPPED",
    }  # fmt: skip
    assert [rubric["outcome"] for rubric in run.json["rubrics"]] == ["fail"]
    assert rounds(repo, run.json) == [
        "first fail 1 finding",
        "second fail 0 new, 1 still open, 0 fixed",
    ]


@pytest.mark.slow
@pytest.mark.every_python
@pytest.mark.usefixtures("real_cli")
def test_one_agent_writes_in_a_clone_and_its_patch_applies(repo):
    before = repo.state()
    with answering(*writes("src/load.py", FIXED)) as model:
        run = repo.run("--agent", "fixer", "--prompt", "Take the TODO out.", model=model.environ)
    assert (run.code, repo.state()) == (0, before), run.err
    assert "changed   1 file +1 −1 · src/load.py" in run.out
    then = run.out.splitlines()[-1]
    assert len(then) <= 80
    subprocess.run(["sh", "-c", then.removeprefix("apply ")], cwd=repo.path, check=True)
    assert (repo.path / "src/load.py").read_text() == FIXED


@pytest.mark.slow
def test_a_fix_is_repeated_until_its_rubrics_pass(repo):
    requests: list[MessagesRequest] = []
    better = FIXED.replace("read()", "read().strip()")
    steps = (*writes("src/load.py", WORSE.format(1)), *writes("src/load.py", better))
    with answering(*steps) as model:
        run = repo.run("fix", "--json", model=model.environ)
        requests = model.script.requests
    assert (run.code, run.json["outcome"]) == (0, "pass"), run.err
    assert statuses(repo, run.json) == {
        "review": "DONE", "review-checks": "DONE", "fix": "DONE", "fix-until": "DONE", "fix-until-checks": "DONE",
        "fix-b": "DONE", "fix-until-b": "DONE", "fix-until-b-checks": "DONE",
    }  # fmt: skip
    assert "src/load.py:2: failure" in requests[0].all_text
    assert [file["path"] for file in run.json["change"]["files"]] == ["src/load.py"]
    first, second, third = rounds(repo, run.json)
    assert first.startswith("review fail 1 finding found Matches the forbidden pattern")
    assert second.startswith("fix-until fail ")
    assert third.startswith(
        "fix-until-b pass 0 new, 0 still open, 1 fixed fixed Matches the forbidden pattern"
    )
    assert set(run.json["cost"]["by_node"]) == {"fix", "fix-b"}
    assert run.json["agent_authored"] == {
        "decision": True,
        "hints": [{"code": "run_agent", "agent": "fixer"}],
    }


@pytest.mark.slow
def test_neither_an_agent_that_changes_nothing_nor_a_gate_that_looks_at_nothing_is_shown_as_a_pass(
    repo,
):
    repo.git("stash", "-q")
    repo.write(".vibe-gate/workflows/fix.toml", FIX.replace('when = "review.failed"\n', ""))
    repo.commit("Whatever the review says")
    with answering(says("Nothing to do.")) as model:
        run = repo.run("fix", model=model.environ)
    stages = [
        row.partition(" · ")[0].split(None, 1)[1]
        for row in run.out.splitlines()
        if row.startswith("stage")
    ]
    assert (run.code, run.out.splitlines()[0]) == (
        0,
        "· NOTHING REVIEWED · no criterion applies to this change",
    ), run.out
    assert stages == ["review: nothing", "fix: unchanged", "fix-until: nothing"]
    graph_list = vibe_gate("viz", "--layout", "list", cwd=repo.path, environ=repo.environ).out
    assert "DONE unchanged  fix " in graph_list and "DONE nothing    fix-until " in graph_list
    page = asyncio.run(
        page_of(read_bundle(next(repo.path.glob(".vibe-artifacts/*/*/summary.json")).parent))
    )
    assert 'class="pass"' not in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ([WORSE.format(number) for number in (1, 2, 3)], "capped after 3 of 3"),
        ([WORSE.format(1), WORSE.format(1)], "stalled after 2 of 3"),
        ([WORSE.format(1), WORSE.format(2), WORSE.format(1)], "oscillating after 3 of 3"),
    ],
)
def test_a_loop_that_cannot_pass_ends_with_its_reason(repo, contents, reason):
    with answering(
        *(step for content in contents for step in writes("src/load.py", content))
    ) as model:
        run = repo.run("fix", model=model.environ)
    assert (run.code, f": {reason}" in run.out) == (1, True), run.out + run.err


@pytest.mark.slow
def test_a_loop_in_python_that_does_not_pass_is_no_pass(repo):
    steps = (*writes("src/load.py", WORSE.format(1)), *writes("src/load.py", WORSE.format(2)))
    with answering(*steps) as model:
        run = repo.run("loop", model=model.environ)
    assert (run.code, "fix-b: capped after 2 of 2" in run.out) == (3, True), run.out + run.err


@pytest.mark.slow
def test_apply_puts_the_change_into_the_working_tree(repo):
    with answering(*writes("src/load.py", FIXED)) as model:
        run = repo.run("--agent", "fixer", "--prompt", "Go.", "--apply", model=model.environ)
    assert (run.code, (repo.path / "src/load.py").read_text()) == (0, FIXED), run.err


@pytest.mark.slow
@pytest.mark.usefixtures("real_cli")
def test_apply_leaves_what_steers_agents_to_a_person(repo):
    planted = ToolUse("Bash", {"command": "mkdir .claude && echo '{}' > .claude/settings.json"})
    with answering(Turn(planted), *writes("src/load.py", FIXED)) as model:
        run = repo.run("--agent", "fixer", "--prompt", "Go.", "--apply", model=model.environ)
    assert "look at   .claude/settings.json: affects agents" in run.out
    assert (
        run.code,
        (repo.path / ".claude").exists(),
        "TODO" in (repo.path / "src/load.py").read_text(),
    ) == (
        0,
        False,
        True,
    )


@pytest.mark.parametrize("when", ["", 'when = "first.failed"\n'])
@pytest.mark.parametrize("command", ["run", "review"])
def test_no_later_gate_takes_a_fail_about_the_same_files_back(repo, command, when):
    repo.git("stash", "-q")
    repo.write(
        ".vibe-gate/rubrics/other.toml",
        CHECKED.replace('"clean"', '"other"').replace("TODO", "FIXME"),
    )
    first, second = (
        '[[stage]]\nid = "first"\nrubrics = ["clean"]\n',
        '[[stage]]\nid = "second"\nrubrics = ["other"]\n',
    )
    needs = 'needs = ["first"]\n' if when else ""
    repo.write(
        ".vibe-gate/workflows/two.toml", f'schema = 1\nid = "two"\n{first}{second}{needs}{when}'
    )
    repo.commit("Two gates")
    repo.git("stash", "pop", "-q")
    argv = ("run", "two") if command == "run" else ("review", "--workflow", "two")
    result = vibe_gate(*argv, cwd=repo.path, environ=repo.environ)
    assert (result.code, "✗ FAIL" in result.out) == (1, True), result.out + result.err


@pytest.mark.slow
def test_a_repair_that_nobody_judged_is_no_pass(repo):
    workflow = (
        "from vibe_gate import workflow\n\n\n@workflow('unproven')\nasync def unproven(wf):\n"
        "    await wf.stage('first', rubrics=['clean'])\n"
        "    await wf.stage('fix', agent='fixer', prompt='Repair it.')\n"
    )
    repo.git("stash", "-q")
    repo.write(".vibe-gate/workflows/unproven.py", workflow)
    repo.commit("Not judged again")
    repo.git("stash", "pop", "-q")
    with answering(*writes("src/load.py", FIXED)) as model:
        run = repo.run("unproven", "--apply", model=model.environ)
    last = run.out.partition("\nchanged")[2]
    assert "made.patch" in last and "(not applied: the run did not pass)" in " ".join(
        last.split()
    ), run.out
    assert "git apply" not in run.out
    assert (run.code, "first: fail, and what changed since was not judged" in run.out) == (
        3,
        True,
    ), run.out
    assert "TODO" in (repo.path / "src/load.py").read_text()


def test_a_run_that_must_ask_a_person_and_cannot_waits(repo):
    with answering(says("never asked")) as model:
        run = repo.run("--agent", "fixer", "--prompt", "Go.", "--interactive", model=model.environ)
    assert run.code == 3 and "vibe-gate: blocked: fixer. `vibe-gate resume 20" in run.err
    assert "--approve fixer`" in run.err and "`--deny fixer`" in run.err
    assert model.script.requests == []


@pytest.mark.slow
def test_at_a_terminal_a_person_is_told_what_waits_and_may_deny_it_or_leave_the_rest_for_later(
    repo,
):
    def answer_prompt(typed: bytes) -> tuple[int, str]:
        environ = {**repo.environ, **model.environ}
        return on_a_terminal(repo.path, environ, "run", "unjudged", "--interactive", typed=typed)

    with answering(says("Fine.")) as model:
        code, text = answer_prompt(b"what?\ny\nq\n")
        denied = answer_prompt(b"n\n")
    assert (
        code,
        "stage look waits for you\r\n  agent   reviewer (isolation none)\r\n" in text,
    ) == (3, True), text
    assert (
        text.count("Begin? y: yes") == 3
        and "  tools   Read, Grep, Glob\r\n  prompt  Look.\r\n" in text
    )
    assert "vibe-gate: blocked: fix" in text and len(model.script.requests) == 1
    assert (denied[0], "look: a person denied it" in denied[1]) == (3, True), denied[1]


@pytest.mark.slow
@pytest.mark.usefixtures("real_cli")
def test_a_pipe_that_git_would_wait_for_ends_the_stage_and_seals_the_run(repo):
    with answering(
        Turn(ToolUse("Bash", {"command": "mkfifo src/.gitignore"})), says("Done.")
    ) as model:
        run = repo.run("--agent", "fixer", "--prompt", "Go.", model=model.environ)
    assert (run.code, "fixer: src/.gitignore is a pipe or device" in run.out) == (3, True), (
        run.out + run.err
    )
    assert "incomplete" not in vibe_gate("bundles", "list", cwd=repo.path, environ=repo.environ).out


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (("gate",), "did you mean 'gates'"),
        (("--agent", "fixer", "--prompt", " "), "The prompt is empty"),
    ],
)
def test_a_run_that_cannot_be_meant_is_refused(repo, argv, sentence):
    run = repo.run(*argv)
    assert (run.code, sentence in run.err) == (2, True), run.err


ASKED = """\
schema = 1
id = "asked"
second_look = "never"
[[criterion]]
id = "done"
kind = "judge"
must = true
question = "Is nothing left to do?"
"""


@pytest.mark.slow
def test_judges_and_agents_share_one_way_to_the_model_and_what_it_costs_is_told_by_stage(repo):
    repo.git("stash", "-q")
    repo.write(".vibe-gate/rubrics/asked.toml", ASKED)
    repo.write(".vibe-gate/workflows/fix.toml", FIX.replace("clean", "asked"))
    repo.commit("A judge")
    repo.git("stash", "pop", "-q")
    line = {
        "path": "src/load.py",
        "line": 2,
        "quote": "return open(path).read()  # TODO",
        "side": "after",
    }
    failed = answers(
        fails(line, criterion="done", reason="A TODO is left.", counterexample="any call")
    )
    better = FIXED.replace("read()", "read().strip()")
    with answering(failed, *writes("src/load.py", better), passes("done")) as model:
        run = repo.run("fix", model=model.environ)
    assert (run.code, model.script.finished) == (0, True), run.out + run.err
    assert (
        "| [open] src/load.py:2: failure: A TODO is left. [done]"
        in model.script.requests[1].all_text
    )
    stages = [
        row.partition(" · ")[0]
        for row in run.out.splitlines()
        if row.startswith("stage") and "$0.000" in row
    ]
    assert stages == ["stage     review: fail", "stage     fix: pass", "stage     fix-until: pass"]


@pytest.mark.slow
def test_a_review_with_a_workflow_judges_the_change_as_it_is_and_offers_the_repair(repo):
    with answering(*writes("src/load.py", FIXED)) as model:
        review = vibe_gate(
            "review", "--workflow", "fix", cwd=repo.path, environ={**repo.environ, **model.environ}
        )
    assert review.code == 1, review.out
    assert review.out.splitlines()[0] == "✗ FAIL · clean: no-todo failed (must)", review.out
    assert "changed   1 file +1 −1 · src/load.py" in review.out
    assert [run.author for run in find_bundles(repo.path)] == ["human"]  # whose change was judged


@pytest.mark.slow
def test_the_markdown_of_a_review_has_the_patch_of_its_agents(repo):
    review = ("review", "--workflow", "fix", "--markdown", ".git/report.md")
    with answering(*writes("src/load.py", FIXED)) as model:
        vibe_gate(*review, cwd=repo.path, environ={**repo.environ, **model.environ})
    text = (repo.path / ".git/report.md").read_text()
    _, _, changes_text = text.partition("What agents changed: diffs of 1 file")
    assert "src/load.py` (+1 −1)" in changes_text and "TODO" in changes_text


@pytest.mark.slow
def test_a_workflow_without_rubrics_gives_a_review_no_verdict(repo):
    with answering(says("Fine."), *writes("src/load.py", FIXED)) as model:
        argv = ("review", "--workflow", "unjudged", "--json")
        review = vibe_gate(*argv, cwd=repo.path, environ={**repo.environ, **model.environ})
    assert (review.code, review.json["outcome"], review.json["workflow"]) == (
        3,
        "inconclusive",
        "unjudged",
    ), review.err


PYTHON = """\
import asyncio
from vibe_gate import workflow

@workflow("python", timeout=60)
async def steps(wf):
    first, second = await asyncio.gather(*(wf.stage(f"look-{n}", agent="reviewer", prompt="Look.") for n in "ab"))
    assert first.passed and not first.changed and first.message == second.message == "Fine."
    fixed = await wf.stage("fix", agent="fixer", prompt="Repair.", context=[first, second])
    assert fixed.changed and [file.path for file in fixed.files] == ["src/load.py"]
    assert [file.path for file in wf.files.by_stage("fix")] == ["src/load.py"]
    assert len(wf.files.by_stage()) == len(wf.files.all_changed()) == 1
    assert [call.stage for call in wf.tools.all()] == ["fix"]
    events = [event async for event in wf.timeline.events()]
    assert len(events) > 10
    assert {event.stage for event in events} == {"", "look-a", "look-b", "fix"}
    judged = await wf.judge(fixed, rubrics=["clean"])
    assert judged.passed and fixed.todos.all_completed
"""


@pytest.mark.every_python
@pytest.mark.slow
def test_python_stages_run_side_by_side_and_give_their_results(repo):
    with answering(says("Fine."), says("Fine."), *writes("src/load.py", FIXED)) as model:
        run = repo.run("python", "--json", model=model.environ)
    assert (run.code, run.json["outcome"]) == (0, "pass"), run.err
    edges = {tuple(edge) for edge in graph(repo, run.json)["edges"]}
    assert {("look-a", "fix"), ("look-b", "fix"), ("fix", "fix-judge")} <= edges
    assert ("look-a", "look-b") not in edges
    problems, names = find_problems(repo.path / run.json["bundle"])
    assert problems == [] and {"receipt", "receipt-statement", "turn-hook"} <= names
    (fix,) = [node for node in graph(repo, run.json)["nodes"] if node["id"] == "fix"]
    assert (fix["stage"], fix["config"]["isolation"], fix["last"]["files"]) == ("fix", "clone", 1)
    assert fix["last"]["message"] and fix["last"]["status"] == "done"


def test_an_error_of_a_python_workflow_names_its_line(repo):
    run = repo.run("broken")
    first_line = "! ERROR · .vibe-gate/workflows/broken.py:5: ValueError: no luck"
    assert (run.code, run.out.splitlines()[0], run.out.count("no luck")) == (3, first_line, 1)


def test_a_python_workflow_that_does_not_load_is_a_mistake_of_its_line(repo):
    run = repo.run("unloadable")
    assert (run.code, run.err.splitlines()[-1]) == (
        2, "vibe-gate: .vibe-gate/workflows/unloadable.py:1: ModuleNotFoundError: No module named 'nothing_like_that'",
    )  # fmt: skip


@pytest.mark.slow
def test_a_change_of_the_working_tree_meanwhile_keeps_the_patch_from_being_applied(repo):
    def meddle(request: MessagesRequest) -> Turn:
        repo.write("src/other.py", "X = 1\n")
        return says("Done.")

    with answering(writes("src/load.py", FIXED)[0], meddle) as model:
        run = repo.run("--agent", "fixer", "--prompt", "Go.", "--apply", model=model.environ)
    assert (run.code, "made.patch" in run.err) == (5, True), run.err
    assert (repo.path / "src/load.py").read_text() != FIXED


@pytest.mark.slow
@pytest.mark.parametrize("level", ["clone", "sandbox"])
@pytest.mark.usefixtures("real_cli")
def test_writes_outside_to_git_and_to_settings_are_refused(repo, level, tmp_path):
    agent = FIXER.replace('"fixer"', f'"{level}"') + f'isolation = "{level}"\n'
    repo.write(f".vibe-gate/agents/{level}.toml", agent)
    key = f".claude/{'a' * 40}/{GITHUB_TOKEN}"  # a limit would leave a part of it
    paths = [str(tmp_path / "outside.txt"), ".git/hooks/pre-commit", key, "../up.txt", "inside.txt"]
    message = Turn(*(ToolUse("Write", {"file_path": path, "content": "x\n"}) for path in paths))
    with answering(message, says("Done.")) as model:
        argv = ("--agent", level, "--prompt", "Go.", "--definitions", "worktree")
        run = repo.run(*argv, model=model.environ)
    results = model.script.requests[1].tool_results
    assert [result.is_error for result in results] == [True, True, True, True, False], (
        run.err + run.out
    )
    assert "changed   1 file +1 −0 · inside.txt" in run.out
    assert GITHUB_TOKEN[:8] not in run.out
    assert (
        f"{level}: 4 tool calls refused: Write /" in run.out
        and ", Write .git/hooks/pre-commit, " in run.out
    )
    assert not (tmp_path / "outside.txt").exists()


@pytest.mark.slow
def test_a_stage_in_another_repository_works_in_a_clone_of_that_one(repo, tmp_path, environ):
    other = WorkingRepo(tmp_path / "other", environ)
    before = other.state(), repo.state()
    with answering(*writes("src/new.py", "X = 1\n")) as model:
        run = repo.run("elsewhere", "--json", model=model.environ)
    assert (run.code, (other.state(), repo.state())) == (0, before), run.err
    turn = repo.path / run.json["bundle"] / "nodes/over.there/turn-001/turn.patch"
    assert b"+X = 1" in turn.read_bytes()
