"""How the Action gets what it runs: nothing of the checkout, and nothing that its lock does not
name.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import sdk_alone
from acting import INSTALL, ROOT, build, run_find_step, shorten, wheel
from answers import passes
from repos import SWALLOWS, Repo, gated
from wire import KEY, answering

from vibe_gate.agent import find_cli

GETTING_STARTED = ROOT / "docs" / "getting-started.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
]  # the lock is fetched once for all, in the time of whichever test comes first


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """An Action whose lock holds one small package; its step.sh."""
    install = tmp_path / "action" / "vibe_gate" / "faces" / "action" / "install"
    shutil.copytree(INSTALL, install)
    shorten(install / "requirements.txt")
    return install / "step.sh"


def plant_program(folder: Path, name: str, says: Path) -> None:
    """A program in the checkout that leaves a mark when it is run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ntouch {says}\nexit 0\n")
    (folder / name).chmod(0o755)


def review(python: Path, repo: Repo, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = [python, "-I", "-m", "vibe_gate", "review", "HEAD~1"]
    return subprocess.run(argv, capture_output=True, text=True, cwd=repo.path, env=environ)


def claude_of(python: Path, environ: dict[str, str]) -> str:
    """What `doctor` says of the agent's program."""
    argv = [python, "-I", "-m", "vibe_gate", "doctor", "--json"]
    result = subprocess.run(argv, capture_output=True, text=True, env=environ)
    return next(
        point["what"] for point in json.loads(result.stdout)["points"] if point["name"] == "claude"
    )


def pip_for(python: Path) -> list[str | Path]:
    """The tests' own pip, at work in another environment: the Action's has none."""
    return [sys.executable, "-I", "-m", "pip", "--python", python]


def test_the_lock_for_checks_installs_whole_with_every_hash_checked_and_doctor_says_what_it_lacks(
    built, ambient
):
    assert (
        "packages fetched, every hash checked" in (built / "vibe-gate-checks" / "said").read_text()
    )
    python = built / "vibe-gate-checks" / "venv" / "bin" / "python"
    check = subprocess.run([*pip_for(python), "check"], capture_output=True, text=True, env=ambient)
    assert (check.returncode, check.stdout) == (0, "No broken requirements found.\n")
    assert claude_of(python, ambient).startswith("claude-agent-sdk is not installed")


def test_the_lock_for_agents_names_packages_that_the_index_has_with_these_hashes(built, ambient):
    """Nothing is unpacked: it is the program of Claude Code above all, and the environment of the
    tests has one.
    """
    python = built / "vibe-gate-checks" / "venv" / "bin" / "python"
    command = "install --dry-run --require-hashes --only-binary :all: --no-deps --requirement"
    argv = [*pip_for(python), *command.split(), INSTALL / "requirements-agent.txt"]
    result = subprocess.run(argv, capture_output=True, text=True, env=ambient)
    assert "Would install" in result.stdout and " claude-agent-sdk-" in result.stdout, result.stderr


def test_a_judge_that_is_wanted_where_the_sdk_is_not_installed_leaves_the_change_not_reviewed(
    built, tmp_path, environ
):
    repo = gated(tmp_path / "r", environ)
    repo.commit("Load robustly", **{"src/load.py": SWALLOWS})
    keyed = environ | {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    result = review(built / "vibe-gate-checks" / "venv" / "bin" / "python", repo, keyed)
    assert result.returncode == 3, result.stderr
    assert result.stdout.startswith("? NOT REVIEWED"), result.stdout
    assert "claude-agent-sdk is not installed: 2 judge questions skipped." in result.stdout


def test_the_small_installation_of_the_docs_has_no_bundled_program_and_judges_with_the_one_on_path(
    built, ambient, environ, tmp_path
):
    (command,) = re.findall(
        "^pip (install --no-binary .*) vibe-gate ", GETTING_STARTED.read_text(), re.MULTILINE
    )
    venv = tmp_path / "venv"
    subprocess.run(
        ["cp", "-al", built / "vibe-gate-checks" / "venv", venv], check=True
    )  # vibe-gate, and the rest
    (packages,) = (venv / "lib").glob("python3.*/site-packages")
    python = venv / "bin" / "python"
    sdk = next(
        requirement
        for requirement in metadata.requires("vibe-gate")
        if requirement.startswith("claude-agent-sdk")
    )
    pip = [*pip_for(python), "-q", *command.split(), sdk]
    subprocess.run(pip, check=True, env=ambient, cwd=tmp_path)
    assert not (packages / "claude_agent_sdk" / "_bundled" / "claude").exists()

    without = environ["PATH"].removeprefix(f"{sdk_alone.REAL}:")
    path_environ = environ | {"PATH": f"{tmp_path}:{without}"}
    assert claude_of(python, path_environ).startswith("Claude Code was not found")
    (tmp_path / "claude").symlink_to(find_cli(environ["PATH"]))
    assert (
        claude_of(python, path_environ)
        == f"{tmp_path}/claude (claude-agent-sdk does not bundle one)"
    )
    repo = gated(tmp_path / "r", environ)
    repo.commit("Load robustly", **{"src/load.py": SWALLOWS})
    with answering(passes("errors-not-swallowed", "names-are-clear")) as model:
        keyed = path_environ | {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.base_url}
        result = review(python, repo, keyed)
    assert result.stdout.startswith("✓ PASS"), result.stdout + result.stderr


def test_a_second_use_in_the_same_job_installs_nothing(built, ambient, tmp_path):
    place = tmp_path / "vibe-gate"
    subprocess.run(["cp", "-al", built / "vibe-gate-checks", place], check=True)
    key = (place / "venv" / "vibe-gate-ready").read_text()
    installation = build(place, ambient | {"PIP_NO_INDEX": "1"}, key=key)
    assert (installation.returncode, installation.stdout) == (
        0,
        "The environment of an earlier step of this job is used again.\n",
    )


def test_a_cached_wheel_with_other_bytes_is_said_and_fetched_anew(built, small, ambient, tmp_path):
    place, index = tmp_path / "vibe-gate", tmp_path / "index"
    good, cached = wheel(index, built), wheel(place / "wheels", built, b"\0")
    installation = build(
        place, ambient | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}, small
    )
    assert installation.returncode == 0, installation.stderr
    assert (
        "::warning title=vibe-gate::The cached packages are not what the lock names"
        in installation.stdout
    )
    assert cached.read_bytes() == good.read_bytes()
    outputs = (tmp_path / "outputs").read_text()
    assert "fetched=true" in outputs and re.search(
        r"^ready=\d+ s \(\d+ MiB of packages fetched\)$", outputs, re.M
    )


def test_no_program_of_the_checkout_is_taken_for_python(ambient, tmp_path):
    checkout, mark = tmp_path / "checkout", tmp_path / "ran"
    for name in ("python3", "python", "python3.14", "sha256sum", "cut", "dirname"):
        plant_program(checkout / "bin", name, mark)
    (checkout / "to-itself").symlink_to(checkout / "bin")
    (tmp_path / "way-in").symlink_to(checkout / "bin")
    (checkout / ".python-version").write_text("9.9.9\n")
    (checkout / "sitecustomize.py").write_text("raise SystemExit('ran')\n")
    path = f"{checkout}/bin:bin:.:{checkout}/to-itself:{tmp_path}/way-in:{ambient['PATH']}"
    places = {"GITHUB_WORKSPACE": str(checkout), "PYTHONPATH": str(checkout)}
    code, output, outputs = run_find_step(tmp_path, ambient, PATH=path, **places)
    assert code == 0, output
    assert not mark.exists()
    assert outputs["python"] and not Path(outputs["python"]).is_relative_to(checkout)


@pytest.mark.parametrize(
    ("variables", "kind"),
    [
        ({}, "checks"),
        ({"VIBE_GATE_HAS_KEY": "false", "ANTHROPIC_API_KEY": ""}, "checks"),
        (
            {"VIBE_GATE_HAS_KEY": "true", "VIBE_GATE_JUDGE": "false", "ANTHROPIC_API_KEY": "k"},
            "checks",
        ),
        ({"VIBE_GATE_HAS_KEY": "true", "VIBE_GATE_JUDGE": "true"}, "agent"),
        ({"VIBE_GATE_HAS_KEY": "false", "CLAUDE_CODE_USE_BEDROCK": "1"}, "agent"),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, "agent"),
        ({"VIBE_GATE_STORE_KEY": "a team's secret"}, "checks-store"),
        ({"VIBE_GATE_STORE_KEY": "a team's secret", "VIBE_GATE_HAS_KEY": "true"}, "agent-store"),
    ],
)
def test_without_credentials_or_judges_the_sdk_is_left_out_and_the_key_names_all_of_it(
    ambient, tmp_path, variables, kind
):
    _, output, outputs = run_find_step(tmp_path, ambient, **variables)
    assert outputs["key"].startswith(f"vibe-gate-{kind}-Linux-X64-python3.")
    assert len(outputs["key"].rsplit("-", 1)[1]) == 32
    assert outputs["place"] == str(tmp_path / f"vibe-gate-{kind}")
    assert outputs["wheels"] == f"{outputs['place']}/wheels"
    assert ("not installed" in output) == kind.startswith("checks")


def test_without_a_python_the_action_is_told_to_bring_one(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "cut", "sha256sum"):
        (tools / name).symlink_to(shutil.which(name) or "")
    code, output, outputs = run_find_step(
        tmp_path, {"PATH": str(tools), "RUNNER_TOOL_CACHE": str(tmp_path)}
    )
    assert code == 0, output
    assert outputs["python"] == ""
    assert "-python3.13-" in outputs["key"]
    assert "actions/setup-python brings one" in output


def test_windows_is_refused_with_a_sentence(ambient, tmp_path):
    result = subprocess.run(
        ["bash", str(INSTALL / "step.sh"), "find"],
        env=ambient | {"RUNNER_OS": "Windows", "RUNNER_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert (result.returncode, result.stdout.count("Linux and macOS")) == (2, 1)
