"""How the Action gets what it runs: nothing of the checkout, and nothing that its lock does not name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from acting import INSTALL, run_step, shorten, wheel

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


def build(
    place: Path, environ: dict[str, str], script: Path = INSTALL / "step.sh", key: str = "key"
) -> subprocess.CompletedProcess[str]:
    outputs = place.with_name("outputs")
    outputs.touch()
    variables = {"VIBE_GATE_PYTHON": sys.executable, "VIBE_GATE_PLACE": str(place), "VIBE_GATE_KEY": key}
    return run_step("build", environ, script, **variables, GITHUB_OUTPUT=str(outputs))


def found(place: Path, environ: dict[str, str], **more: str) -> tuple[int, str, dict[str, str]]:
    outputs = place / "outputs"
    done = run_step("find", environ, RUNNER_TEMP=str(place), GITHUB_OUTPUT=str(outputs), **more)
    lines = outputs.read_text().splitlines() if outputs.exists() else []
    return done.returncode, done.stdout, dict(line.split("=", 1) for line in lines)


def planted(folder: Path, name: str, says: Path) -> None:
    """A program in the checkout that leaves a mark when it is run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ntouch {says}\nexit 0\n")
    (folder / name).chmod(0o755)


def test_the_lock_installs_whole_with_every_hash_checked(built, ambient):
    assert "packages fetched, every hash checked" in (built / "said").read_text()
    python = built / "venv" / "bin" / "python"
    check = subprocess.run([python, "-I", "-m", "pip", "check"], capture_output=True, text=True, env=ambient)
    assert (check.returncode, check.stdout) == (0, "No broken requirements found.\n")
    version = subprocess.run([python, "-I", "-m", "vibe_gate", "--version"], capture_output=True, text=True, cwd="/")
    assert version.stdout.startswith("vibe-gate ")


def test_a_second_use_in_the_same_job_installs_nothing(built, ambient, tmp_path):
    place = tmp_path / "vibe-gate"
    subprocess.run(["cp", "-al", built, place], check=True)
    key = (place / "venv" / "vibe-gate-ready").read_text()
    done = build(place, ambient | {"PIP_NO_INDEX": "1"}, key=key)
    assert (done.returncode, done.stdout) == (0, "The environment of an earlier step of this job is used again.\n")


def test_a_cached_wheel_with_other_bytes_is_said_and_fetched_anew(built, small, ambient, tmp_path):
    place, index = tmp_path / "vibe-gate", tmp_path / "index"
    good, cached = wheel(index, built), wheel(place / "wheels", built, b"\0")
    done = build(place, ambient | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}, small)
    assert done.returncode == 0, done.stderr
    assert "::warning title=vibe-gate::The cached packages are not what the lock names" in done.stdout
    assert cached.read_bytes() == good.read_bytes()
    assert "fetched=true" in (tmp_path / "outputs").read_text()


def test_no_program_of_the_checkout_is_taken_for_python(ambient, tmp_path):
    checkout, mark = tmp_path / "checkout", tmp_path / "ran"
    for name in ("python3", "python", "python3.14", "sha256sum", "cut", "dirname"):
        planted(checkout / "bin", name, mark)
    (checkout / "to-itself").symlink_to(checkout / "bin")
    (tmp_path / "way-in").symlink_to(checkout / "bin")
    (checkout / ".python-version").write_text("9.9.9\n")
    (checkout / "sitecustomize.py").write_text("raise SystemExit('ran')\n")
    path = f"{checkout}/bin:bin:.:{checkout}/to-itself:{tmp_path}/way-in:{ambient['PATH']}"
    places = {"GITHUB_WORKSPACE": str(checkout), "PYTHONPATH": str(checkout)}
    code, said, outputs = found(tmp_path, ambient, PATH=path, **places)
    assert code == 0, said
    assert not mark.exists()
    assert outputs["python"] and not Path(outputs["python"]).is_relative_to(checkout)


def test_the_key_names_the_machine_the_python_and_the_lock(ambient, tmp_path):
    _, _, outputs = found(tmp_path, ambient)
    assert outputs["key"].startswith("vibe-gate-Linux-X64-python3.")
    assert len(outputs["key"].rsplit("-", 1)[1]) == 32
    assert outputs["wheels"] == f"{outputs['place']}/wheels"
    assert outputs["place"].startswith(str(tmp_path))


def test_without_a_python_the_action_is_told_to_bring_one(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "cut", "sha256sum"):
        (tools / name).symlink_to(shutil.which(name) or "")
    code, said, outputs = found(tmp_path, {"PATH": str(tools), "RUNNER_TOOL_CACHE": str(tmp_path)})
    assert code == 0, said
    assert outputs["python"] == ""
    assert "-python3.13-" in outputs["key"]
    assert "actions/setup-python brings one" in said


def test_windows_is_refused_with_a_sentence(ambient, tmp_path):
    done = subprocess.run(
        ["bash", str(INSTALL / "step.sh"), "find"],
        env=ambient | {"RUNNER_OS": "Windows", "RUNNER_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert (done.returncode, done.stdout.count("Linux and macOS")) == (2, 1)
