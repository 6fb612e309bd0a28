"""The pytest plugin: real pytest through the entry point, the real CLI, a scripted model."""

from __future__ import annotations

import pytest
from scripted_messages_api import Text, ToolUse, Turn
from wire import answering

pytest_plugins = ["pytester"]

FIXED = "def load(path):\n    return open(path).read()\n"
FIXES = (Turn(ToolUse("Write", {"file_path": "src/load.py", "content": FIXED})), Turn(Text("Done.")))
"""An agent that repairs one file and ends."""

SUITE = """
import pytest
from vibe_gate import Agent

FIXER = Agent(id="fixer", system_prompt="You repair.", tools=("Read", "Write"))


@pytest.fixture
def vibe_repo(vibe_repo):
    vibe_repo.write("src/load.py", "def load(path):\\n    return open(path).read()  # TODO\\n")
    vibe_repo.commit("First")
    return vibe_repo


async def test_awaited(vibe, vibe_repo):
    result = await vibe.run(FIXER, "Take the TODO out.")
    assert [file.path for file in vibe.files.changed("src/**")] == ["src/load.py"]
    assert vibe.tools.used("Write") == 1 == len(result.files.changed())


def test_blocking(vibe, vibe_repo):
    result = vibe.sync.run(FIXER, "Take it out.")
    assert result.git.changed_count == 1
    assert vibe_repo.git("status", "--porcelain") == ""
"""


@pytest.fixture
def project(pytester: pytest.Pytester, environ: dict[str, str]) -> pytest.Pytester:
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def model_of(monkeypatch: pytest.MonkeyPatch, model) -> None:
    for name, value in model.environ.items():
        monkeypatch.setenv(name, value)


def test_agents_run_live_and_from_a_cassette_in_async_and_other_tests(project, monkeypatch):
    project.makepyfile(test_suite=SUITE)
    with answering(*FIXES, *FIXES) as model:
        model_of(monkeypatch, model)
        project.runpytest_subprocess("--vibe-wire=record").assert_outcomes(passed=2)
        assert len(model.script.requests) == 4
    project.runpytest_subprocess().assert_outcomes(passed=2)
