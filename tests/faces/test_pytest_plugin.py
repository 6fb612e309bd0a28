"""The pytest plugin: real pytest through the entry point, the real CLI, a scripted model."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import sdk_alone
from answers import answers
from faces.forked_pytest import run_forked
from lxml import html
from report.written_runs import write
from repos import Repo
from scripted_messages_api import ApiError, Hang, MessagesRequest, Step, Text, ToolUse, Turn, Usage
from wire import answering

from vibe_gate.domain.leaving import PRIVATE
from vibe_gate.faces.pytest_plugin import pages
from vibe_gate.faces.pytest_plugin.attempts import split_test_id

pytest_plugins = ["pytester"]

EXAMPLE = Path(__file__).parents[2] / "examples/pytest"

GATE = 'schema = 1\nrubrics = ["quality"]\n[budget]\nmax_cost_usd = 2\n'
RUBRIC = """\
schema = 1
id = "quality"
[[criterion]]
id = "reads"
kind = "judge"
question = "Does load read the file?"
must = true
"""
FIXER = 'schema = 1\nid = "fixer"\nsystem_prompt = "You repair."\ntools = ["Read", "Write"]\n'
WORKFLOW = """\
schema = 1
id = "twice"
[[stage]]
id = "first"
agent = "fixer"
prompt = "Write 1"
[[stage]]
id = "second"
needs = ["first"]
agent = "fixer"
prompt = "Write 2"
"""
CONFTEST = """
import pytest


@pytest.fixture
def vibe_repo(vibe_repo):
    vibe_repo.write("src/load.py", "def load(path):\\n    return open(path).read()  # TODO\\n")
    vibe_repo.commit("First")
    return vibe_repo
"""
INI = (
    "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nmarkers = slow\n"
)

AT_ONCE = """
import asyncio

from vibe_gate import read_bundle


async def test_another_model(vibe, vibe_repo):
    result = await vibe.run("fixer", "Write one", model="claude-haiku-5")
    assert [file.path for file in result.files.changed()] == ["src/load.py"]
    assert "one" in result.files.get("src/load.py").after.text()
    assert vibe_repo.git("status", "--porcelain") == ""


async def test_two_at_once(vibe, vibe_repo):
    seen = []
    both = [vibe.run("fixer", f"Write {name}", watch=lambda event: seen.append(event.kind)) for name in "ab"]
    vibe.annotate("both are at work")
    first, second = await asyncio.gather(*both)
    remarks = [remark for one in (first, second) for remark in read_bundle(one.bundle_dir.parents[2]).annotations()]
    assert [remark.message for remark in remarks] == ["both are at work"]
    assert "a" in first.files.get("src/load.py").after.text() and seen.count("tool.ended") == 2
    assert [call.name for call in vibe.tools.all()] == ["Write", "Write"]
    assert {event.source async for event in vibe.timeline.events()} == {"sdk", "hook"}
"""

SUITE = """
import pytest
from pydantic import BaseModel
from vibe_gate import Vibe, VibeRepo


class Answer(BaseModel):
    passed: bool
    score: int
    why: str = ""


def test_judged(vibe, vibe_repo):
    result = vibe.sync.run("fixer", "Write poor")
    assert vibe.sync.judge(result, "quality").outcome == "fail"
    vibe.sync.expect(result).to_pass_rubric("quality")


@pytest.mark.parametrize("name", ["good", "poor"], ids=["A::b", "A.b"])
async def test_answered(vibe: Vibe, vibe_repo: VibeRepo, name):
    result = await vibe.run("fixer", f"Write {name}")
    vibe.expect(result).not_.to_stay_under_cost(0.0001)
    true, untrue = vibe.expect(result), vibe.expect(result).not_
    if name == "poor":
        true, untrue = untrue, true
    await true.to_pass_rubric("quality")
    with pytest.raises(AssertionError, match="^(FAIL|not expected: PASS)"):
        await untrue.to_pass_rubric("quality")
    assert (await vibe.judge(result, "quality", "Give a score.", answer=Answer)).score == 3


def test_a_workflow(vibe, vibe_repo):
    result = vibe.sync.workflow("twice")
    assert (result.summary.outcome, len(result.turns())) == ("pass", 2)
    assert len(vibe.files.changed("src/**")) == vibe.tools.used("Write") == 2


@pytest.mark.vibe(repeat=2, pass_rate=0.5)
def test_now_and_then(vibe, vibe_repo, tmp_path):
    assert list(tmp_path.iterdir()) == [vibe_repo.path]
    vibe.sync.run("fixer", "Write sometimes")
    assert vibe.files.changed()[0].after.text().endswith("# right\\n")


@pytest.mark.vibe(repeat=2)
def test_never(vibe, vibe_repo):
    assert not vibe.sync.run("fixer", "Write never").files.changed()
"""


@pytest.fixture
def project(pytester: pytest.Pytester, environ: dict[str, str]) -> pytest.Pytester:
    """A project with a gate, an agent and a workflow, in a repository of its own."""
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST)
    repo = Repo(pytester.path, environ)
    repo.write(".vibe-gate/gate.toml", GATE)
    repo.write(".vibe-gate/rubrics/quality.toml", RUBRIC)
    repo.write(".vibe-gate/agents/fixer.toml", FIXER)
    repo.write(".vibe-gate/workflows/twice.toml", WORKFLOW)
    return pytester


def agent() -> Callable[[MessagesRequest], Step]:
    """A model that does what the prompt says, and a judge that does not like the word "poor"."""
    times = itertools.count()

    def step(request: MessagesRequest) -> Step:
        text = request.all_text
        if "StructuredOutput" in request.tool_names:
            bad = "# poor" in text
            line = {
                "path": "src/load.py",
                "line": 2,
                "quote": "    return open(path).read()  # poor",
                "side": "after",
            }
            fail = {"outcome": "fail", "counterexample": "x -> y", "evidence": [line]}
            verdict = {
                "criterion": "reads",
                "reason": "So it is.",
                **(fail if bad else {"outcome": "pass"}),
            }
            is_gate = '"criterion"' in json.dumps(request.body["tools"])
            free = {"passed": not bad, "score": 3, "why": "\x1b[2J"}
            return Turn(ToolUse("StructuredOutput", answers(verdict) if is_gate else free))
        for word, turn in {
            "HANG": Hang(),
            "KEY": ApiError(401),
            "REFUSE": Turn(stop_reason="refusal"),
        }.items():
            if word in text:
                return turn
        if request.tool_results:
            return Turn(Text("Done."))
        name = re.search(r"Write (\w+)", text)[1]
        if name == "sometimes":
            name = "right" if next(times) % 2 else "wrong"
        content = f"def load(path):\n    return open(path).read()  # {name}\n"
        usage = (
            Usage(output_tokens=min(60_000, request.body["max_tokens"]))
            if "dear" in text
            else Usage()
        )
        return Turn(ToolUse("Write", {"file_path": "src/load.py", "content": content}), usage=usage)

    return step


def outcomes(result: pytest.RunResult) -> list[str]:
    """A line for each test, without what differs from run to run."""
    return sorted(
        line.partition(" - ")[0]
        for line in result.outlines
        if re.match(r"(PASSED|FAILED|ERROR|SKIPPED) ", line)
    )


def totals(result: pytest.RunResult) -> list[str]:
    """The lines of what all agents cost."""
    return [line for line in result.outlines if " in all" in line]


def use(monkeypatch: pytest.MonkeyPatch, model) -> None:
    for name, value in model.environ.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def quick(quick_agents: None, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The agents of the pytest that is started are quick, too."""
    monkeypatch.setenv("PATH", environ["PATH"])
    monkeypatch.setenv("PYTHONPATH", str(sdk_alone.SITE))


@pytest.mark.every_python
@pytest.mark.slow
def test_tests_with_a_loop_of_their_own_give_the_same_live_and_replayed(
    project, monkeypatch, quick
):
    project.makepyfile(test_at_once=AT_ONCE)
    with answering(agent(), repeat_last=True) as model:
        use(monkeypatch, model)
        live = project.runpytest_inprocess("-rA", "--vibe-wire=record")
    live.assert_outcomes(passed=2)
    assert outcomes(project.runpytest_inprocess("-rA")) == outcomes(live)


IN_THE_PROJECT = """
import asyncio


async def test_readers(vibe):
    await asyncio.gather(vibe.run("fixer", "/look a"), vibe.run("fixer", "/look b"))
    await vibe.run("fixer", "Look at c")
"""


@pytest.mark.slow
def test_agents_that_only_read_are_recorded_in_the_project_itself_and_their_notes_are_warnings(
    project, monkeypatch, quick
):
    project.makepyfile(test_project=IN_THE_PROJECT)
    with answering(Turn(Text("Seen.")), repeat_last=True) as model:
        use(monkeypatch, model)
        recorded = project.runpytest_inprocess("--vibe-wire=record")
    recorded.assert_outcomes(passed=1)
    assert len(list(project.path.glob("cassettes/test_project/*/*/*.json"))) == 3
    notes = [line for line in recorded.outlines if "/look" in line]
    assert notes == [
        "  test_project.py:4: RunNote: The prompt of fixer begins with /look, which is sent as text: "
        'setup = "project" in the agent\'s definition has commands of .claude/ expanded.'
    ]
    project.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_suite_gives_the_same_live_and_replayed_without_a_model(project, monkeypatch, quick):
    project.makepyfile(test_suite=SUITE)
    with answering(agent(), repeat_last=True) as model:
        use(monkeypatch, model)
        live = project.runpytest_inprocess("-rA", "--vibe-wire=record", "--junitxml=live.xml")
    live.assert_outcomes(passed=3, failed=3)
    replayed = project.runpytest_inprocess(
        "-rA", "test_suite.py"
    )  # its folder has what the first run left
    assert outcomes(replayed) == outcomes(live)
    assert totals(live) == totals(replayed) != [], (
        "replayed runs cost what they did when they were recorded"
    )
    live.stdout.fnmatch_lines_random(
        [
            "*1 of 2 passed*",
            "E*FAIL*quality: reads failed*",
            "E*src/load.py:2: failure: So it is.*",
            "E*the judge says no*",
            "E*score: 3",
            r"E*why: \x1b[[]2J",
        ]
    )
    assert "vibe_gate/run" not in live.stdout.str(), "tracebacks end at the test's own line"
    assert len(noted_runs(project.path / "live.xml")) == 14


def noted_runs(file: Path) -> list[dict[str, Any]]:
    """The runs that the report names, each with its turns."""
    properties = ElementTree.parse(file).iter("property")
    runs = [json.loads(element.get("value", "")) for element in properties]
    assert all(run["turns"] for run in runs)
    return runs


ENDS = """
import pytest


@pytest.mark.parametrize("word", ["HANG", "KEY", "REFUSE"])
def test_ends(vibe, vibe_repo, word):
    vibe.sync.run("fixer", word, timeout_s=3 if word == "HANG" else 60)


@pytest.mark.parametrize("word", ["HANG", "REFUSE"])
def test_told_otherwise(vibe, vibe_repo, word):
    result = vibe.sync.run("fixer", word, timeout_s=3 if word == "HANG" else 60, check=False)
    assert (result.status, bool(result.error)) == ({"HANG": "timeout", "REFUSE": "refused"}[word], True)


@pytest.mark.vibe(repeat=3)
def test_nobody(vibe, vibe_repo):
    vibe.sync.run("fixr", "Write a")


def test_does_not_fit(vibe, vibe_repo):
    result = vibe.sync.run("fixer", "Write a")
    vibe_repo.write("src/load.py", "other\\n")
    vibe.sync.judge(result, "quality")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_watched(vibe, vibe_repo):
    def stop(event):
        assert event.kind != "tool.started", "no tools"

    await vibe.run("fixer", "Write a").watch(stop)


def test_without_a_loop(vibe, vibe_repo):
    vibe.run("fixer", "Write a")
"""


CHAINED = """
from vibe_gate import Agent, Criterion, Rubric, workflow

OTHER = Agent(id="other", tools=("Read", "Write"))
POOR = {"pattern": "poor"}
NOT_POOR = Criterion(id="c", kind="check", check="forbidden-pattern", options=POOR, must=True)


@workflow("once")
async def once(wf):
    result = await wf.stage("write", agent=OTHER, prompt="Write poor")
    assert result.passed


async def test_chain(vibe, vibe_repo):
    first = await vibe.run("fixer", "Write poor")
    second = await vibe.run(OTHER, "Write good", context=first)
    assert "# poor" in second.files.get("src/load.py").before.text()
    assert [turn.stage for turn in second.chain.turns] == ["fixer", "other"]
    assert "TODO" in second.chain.files.get("src/load.py").before.text()
    rubric = Rubric(id="not-poor", criterion=[NOT_POOR])
    assert (await vibe.judge(second, rubric)).passed
    assert not (await vibe.judge(first, rubric, throw_on_fail=False)).passed
    assert (await vibe.workflow(once)).summary.passed
"""


@pytest.mark.slow
def test_a_chain_of_runs_is_judged_and_a_workflow_made_in_python_is_run(
    project, monkeypatch, quick
):
    project.makepyfile(test_chain=CHAINED)
    with answering(agent(), repeat_last=True) as model:
        use(monkeypatch, model)
        result = project.runpytest_inprocess("--vibe-wire", "live")
    result.assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_agent_that_fails_fails_its_test_and_what_cannot_be_run_is_an_error(
    project, monkeypatch, quick
):
    project.makepyfile(test_ends=ENDS)
    with answering(agent(), repeat_last=True) as model:
        use(monkeypatch, model)
        result = project.runpytest_inprocess("-rA", "-p", "no:asyncio", "--vibe-wire=live")
    assert "interrupt" in sdk_alone.refused(), (
        "the agent that is stopped by its watcher; the quick one ends at once"
    )
    result.assert_outcomes(passed=2, failed=3, errors=4)
    result.stdout.fnmatch_lines_random(
        [
            "E*InfrastructureError: fixer: HTTP 401*",
            "E*UsageError: There is no agent 'fixr'; did you mean 'fixer'?",
            "*0 of 3 passed, 1 carried out; 3 must*",
            "E*UsageError: context: the patch of fixer (*) does not apply to src/load.py, which has changed since*",
            "E*AssertionError: no tools*",
            "E*UsageError: vibe.run is for async tests*",
            "E*AgentFailed: fixer: The [ds]e*",
            "E*AgentFailed: fixer: The model refused*",
            "vibe-gate: 2 passed, 3 failed, 4 errors, $*",
        ]
    )


DEAR = """
import pytest


@pytest.mark.parametrize("number", range(6))
def test_dear(vibe, vibe_repo, number):
    vibe.sync.run("fixer", f"Write dear {number}")
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_share_the_budget_of_the_session(project, monkeypatch, quick):
    project.makepyfile(test_dear=DEAR)
    options = ("-n2", "-v", "-rs", "--vibe-max-usd=1.3", "--junitxml=live.xml")
    with answering(agent(), repeat_last=True) as model:
        use(monkeypatch, model)
        result = run_forked(project, "--vibe-wire=live", *options)
        tokens = [
            min(60_000, request.body["max_tokens"])
            for request in model.script.requests
            if not request.tool_results
        ]
    result.stdout.fnmatch_lines(
        ["vibe-gate: agents may cost $1.30, $0.65 for each of 2 workers", "SKIPPED*budget*"]
    )
    assert 0.6 < sum(tokens) * 10 / 1e6 < 1.3, "10 USD for a million tokens"
    usd = sum(run["usd"] for run in noted_runs(project.path / "live.xml"))
    (total,) = totals(result)
    assert total.endswith(f" {usd:.4f}")


CRASH = """
import os


def test_crash():
    os._exit(3)


def test_agent(vibe, vibe_repo):
    vibe.sync.run("fixer", "Write a")
"""


@pytest.mark.slow
def test_a_worker_that_replaces_one_that_crashed_has_no_share_of_the_budget(
    project, monkeypatch, quick
):
    project.makepyfile(test_crash=CRASH)
    with answering() as model:
        use(monkeypatch, model)
        result = run_forked(project, "-n1", "-rs", "--vibe-wire=live", "--vibe-max-usd=1.3")
    result.stdout.fnmatch_lines(["SKIPPED*this worker replaces one that crashed*"])
    assert not model.script.requests


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["-n1"], ["-p", "no:xdist"]], ids=["xdist", "one"])
def test_ctrl_c_leaves_no_agent(project, monkeypatch, quick, arguments):
    project.makepyfile(
        test_hang="def test_a(vibe, vibe_repo):\n    vibe.sync.run('fixer', 'HANG')\n"
    )
    with answering(agent(), repeat_last=True) as model:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--vibe-wire=live",
            f"--basetemp={project.path}/temporary",
            *arguments,
        ]
        process = subprocess.Popen(
            command,
            env={**os.environ, **model.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for _ in range(900):
            if model.script.requests:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=250)
    assert (process.returncode, b"KeyboardInterrupt" in output) == (2, True), output
    assert subprocess.run(["pgrep", "-f", str(project.path)], capture_output=True).stdout == b""


@pytest.mark.slow
def test_the_examples_suite_passes_from_its_cassettes(pytester, environ):
    shutil.copytree(EXAMPLE, pytester.path, dirs_exist_ok=True)
    Repo(pytester.path, environ)
    result = pytester.runpytest_subprocess("--vibe-strict", "--vibe-report=pages")
    result.stdout.re_match_lines([r"7 in all +27 +[1-9][\d,]* +0\.[0-9]*[1-9]"])
    result.assert_outcomes(passed=7)  # else run `python tests/faces/record_pytest_example.py`
    index = html.fromstring((pytester.path / "pages/index.html").read_text())
    pages = sorted(f"runs/{page.name}" for page in (pytester.path / "pages/runs").glob("2*.html"))
    assert sorted(index.xpath("//table[@id='list']//a/@href")) == pages != []
    assert grid_of(index)[4:6] == [
        ["test_judges.py::test_the_repair_meets_the_rubric", "✓", ""],
        ["test_models.py::test_an_empty_ledger_is_a_list", "✓", "✓"],
    ]
    assert "$0.1004 as recorded" in index.xpath("//header")[0].text_content()
    page = (
        pytester.path
        / "pages"
        / index.xpath("//table[@id='grid']//a[@class='attempt passed']/@href")[0]
    ).read_text()
    assert "<b>test</b> test_fixer.py::test_the_fixer_changes_the_source_alone: passed" in page


@pytest.mark.slow
def test_reports_replace_no_files_of_others_and_follow_no_links(pytester):
    pytester.makeini(INI)
    site, page = pytester.mkdir("site"), "<p>mine</p>"
    (site / "index.html").write_text(page)
    result = pytester.runpytest_inprocess("--vibe-report=site")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --vibe-report: site has files that vibe-gate did not write; name an empty *"]
    )
    (site / "index.html").rename(pytester.path / "mine.html")
    pytester.runpytest_inprocess("--vibe-report=site").stdout.fnmatch_lines(
        ["report: site/index.html"]
    )
    (site / "index.html").unlink()
    (site / "index.html").symlink_to("../mine.html")
    pytester.runpytest_inprocess("--vibe-report=site")
    assert (pytester.path / "mine.html").read_text() == page
    assert "vibe-gate" in (site / "index.html").read_text()


def test_the_page_of_a_run_that_was_shown_prompts_is_without_its_conversations(tmp_path):
    folder = pages.open_folder(tmp_path / "new/pages", tmp_path)
    pages.write_run_pages(folder, [write(tmp_path, shown={"asked": PRIVATE})])
    (page,) = folder.runs.iterdir()
    assert "what was said to agents and judges" in page.read_text()
    assert "Is every type right" not in page.read_text()


def grid_of(index: html.HtmlElement) -> list[list[str]]:
    """Test, and a cell for each model."""
    rows = [[cell.text_content() for cell in row] for row in index.xpath("//table[@id='grid']//tr")]
    return [row[:-4] for row in rows]


PARAMETERS = """
import pytest
from types import SimpleNamespace

MODELS = ["claude-sonnet-5", pytest.param("haiku", id="cheap")]


@pytest.mark.parametrize("size", ["a-b", "c"])
@pytest.mark.parametrize("model", MODELS)
class TestBoth:
    def test_sizes(self, model, size): pass


@pytest.mark.parametrize("llm", MODELS[:1])
def test_another_name(llm): pass


@pytest.mark.parametrize(("model", "size"), [("claude-sonnet-5", 1)])
def test_together(model, size): pass


@pytest.mark.parametrize("model", ["linear", 5])
def test_other_models(model): pass
"""


@pytest.mark.slow
def test_a_test_is_named_without_the_parameter_that_names_its_model(pytester):
    pytester.makeini(INI)
    items = pytester.getitems(PARAMETERS)
    sonnet, haiku = "claude-sonnet-5", "claude-haiku-4-5-20260101"
    models = [haiku if "cheap" in item.name else sonnet for item in items]
    file = items[0].path.name
    assert [split_test_id(item, model)[0].removeprefix(f"{file}::") for item, model in zip(items, models, strict=True)] == [
        "TestBoth::test_sizes[a-b]", "TestBoth::test_sizes[c]", "TestBoth::test_sizes[a-b]", "TestBoth::test_sizes[c]",
        "test_another_name", "test_together[claude-sonnet-5-1]", "test_other_models[linear]", "test_other_models[5]",
    ]  # fmt: skip
    assert [split_test_id(item, "")[1] for item in items] == [
        sonnet,
        sonnet,
        "haiku",
        "haiku",
        "",
        "",
        "linear",
        "",
    ]


PLAIN = """
import pytest


def test_without(): pass


def test_agent(vibe): vibe.sync.run("fixer", "Write a")


@pytest.mark.xfail
@pytest.mark.parametrize("token", ["ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"])
def test_expected_to_fail(vibe, token): vibe.sync.run("fixer", "Write a")


def test_agent_caught(vibe):
    with pytest.raises(Exception):
        vibe.sync.run("fixer", "Write a")


def test_no_such_agent(vibe): vibe.sync.run("fixr", "Write a")


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(1, marks=pytest.mark.vibe(repeet=2)),
        pytest.param(2, marks=pytest.mark.vibe(repeat="3", pass_rate=7)),
        pytest.param(3, marks=pytest.mark.vibe(5)),
    ],
)
def test_wrong(vibe, number): pass


@pytest.mark.vibe(repeat=3, pass_rate=0.5)
@pytest.mark.parametrize("wanted", [2, 1])
def test_again(vibe, tmp_path_factory, wanted):
    made = tmp_path_factory.getbasetemp() / f"times{wanted}"
    made.write_text(made.read_text() + "." if made.exists() else ".")
    assert len(made.read_text()) % wanted == 0
"""


ONE = """
def test_agent(vibe, vibe_repo):
    vibe.sync.run("fixer", "Write a")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("CI", ()),
        ("TF_BUILD", ()),
        ("", ()),
        ("CI", ("--vibe-wire=replay",)),
        ("", ("--vibe-wire=replay",)),
        ("CI", ("-p", "no:cacheprovider")),
        ("", ("-p", "no:cacheprovider")),
    ],
)
def test_a_suite_that_tested_nothing_is_red_in_ci(project, monkeypatch, name, options):
    project.makepyfile(test_one=ONE)
    if name:
        monkeypatch.setenv(name, "true")
    result = project.runpytest_inprocess(*options)
    result.assert_outcomes(failed=1 if name else 0, skipped=0 if name else 1)
    assert result.ret == (1 if name else 0)
    sentence = "vibe-gate: undecided tests were skipped: they tested nothing. In CI, and with --vibe-strict, they fail."
    assert (sentence in result.outlines) == (not name)


@pytest.mark.slow
def test_without_a_cassette_a_test_is_skipped_or_with_strict_fails(project, monkeypatch):
    project.makepyfile(test_plain=PLAIN)
    nested = project.path / "suite"
    nested.mkdir()
    for name in (".vibe-gate", "conftest.py", "tox.ini", "test_plain.py"):
        (project.path / name).rename(nested / name)
    monkeypatch.chdir(nested)
    result = project.runpytest_inprocess("-rA", "--vibe-report=pages")
    result.assert_outcomes(passed=2, skipped=3, failed=1, errors=4)
    marks = {
        "test_agent": "?",
        "test_agent_caught": "?",
        "test_expected_to_fail": "?",
        "test_no_such_agent": "E",
    }
    marks |= {f"test_wrong[{name}]": "E" for name in "123"} | {
        "test_again[1]": "✓✓2 of 2",
        "test_again[2]": "✗✓✗1 of 3",
    }
    text = (nested / "pages/index.html").read_text()
    assert "16C7e42F" not in text
    index = html.fromstring(re.sub(r"\[\[redacted:github-token:\w+\]\]", "", text))
    assert {
        name.removeprefix("test_plain.py::"): mark for name, mark in grid_of(index)[1:-1]
    } == marks
    assert "No agent ran." in index.text_content()
    result.stdout.fnmatch_lines_random(
        [
            'E*repeet: unknown key; did you mean "repeat"? The marker is vibe(timeout_s=None, max_usd=None, repeat=1*',
            'E*repeat: must be a whole number, not "3"; pass_rate: must be at most 1, not 7. The marker is *',
            "E*5: unknown key; known keys here: max_usd, pass_rate, repeat, timeout_s. *",
            "ERROR test_plain.py::test_no_such_agent - UsageError: There is no agent 'fixr*",
            "E*Definitions are read in */suite/.vibe-gate.",
            "*1 of 3 passed; 2 must*",
            "*2 of 3 passed, 2 carried out; 2 must*",
            "SKIPPED*no cassette: record it with `--vibe-wire record`",
            "vibe-gate: 1 passed, 1 failed, 4 errors, 3 undecided (3 without a cassette); -rs shows why",
        ]
    )
    strict = project.runpytest_inprocess("--vibe-strict", "--vibe-repeat-all", "-rA")
    strict.assert_outcomes(passed=2, failed=4, errors=4)
    strict.stdout.fnmatch_lines_random(["*3 of 3 passed; 2 must*"])
    strict.stdout.fnmatch_lines(
        ["FAILED test_plain.py::test_agent_caught - Inconclusive: no cassette: *"]
    )
    project.runpytest_inprocess("--vibe-repeat=1").assert_outcomes(
        passed=2, skipped=3, failed=1, errors=4
    )
    project.runpytest_inprocess("--vibe-repeat=0").assert_outcomes(passed=1, xfailed=1, errors=8)
