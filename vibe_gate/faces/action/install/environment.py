"""Builds the Action's virtual environment; run by path, with the standard library only (`step.sh build`).

    python -I environment.py PLACE KEY

PLACE/wheels may hold what a cache brought. Nothing of it is believed: every wheel, cached or fetched, is installed only
if its SHA-256 stands in requirements.txt, which comes with the Action itself, at the commit the workflow names.
PLACE/venv is the result. GITHUB_OUTPUT learns `fetched=true` if the wheels are worth saving.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

LOCK = Path(__file__).with_name("requirements.txt")
PROJECT = Path(__file__).resolve().parents[4]
"""The folder that holds the package `vibe_gate`: the Action's own path."""

LOCKED = ("--require-hashes", "--only-binary", ":all:", "--no-deps", "--requirement", str(LOCK))


def main(place: Path, key: str) -> int:
    """Make `place`/venv ready; 0, or the exit code of what could not be done, after it said why not."""
    began = time.monotonic()
    venv, wheels = place / "venv", place / "wheels"
    stamp = venv / "vibe-gate-ready"
    if stamp.is_file() and stamp.read_text() == key:
        _use_package(venv)
        _say("The environment of an earlier step of this job is used again.")
        return 0
    place.mkdir(parents=True, exist_ok=True)
    code = _run(sys.executable, "-I", "-m", "venv", "--clear", str(venv))
    fetched = not code and not _install_cached(venv, wheels)
    if fetched:
        shutil.rmtree(wheels, ignore_errors=True)
        code = _pip(venv, "download", "--dest", str(wheels), *LOCKED) or _install(venv, wheels)
    if code:
        _say("::error title=vibe-gate::The locked packages could not be installed; the lines above say why.")
        return code
    _use_package(venv)
    stamp.write_text(key)
    whence = "fetched" if fetched else "from the cache"
    _say(f"Ready after {time.monotonic() - began:.0f} s: packages {whence}, every hash checked.")
    if fetched:
        _output("fetched=true")
    return 0


def _install_cached(venv: Path, wheels: Path) -> bool:
    """Whether the cache's wheels were all that the lock names; prints a warning if not."""
    if not wheels.is_dir() or not any(wheels.iterdir()):
        return False
    if _install(venv, wheels) == 0:
        return True
    _say("::warning title=vibe-gate::The cached packages are not what the lock names; they are fetched anew.")
    return False


def _install(venv: Path, wheels: Path) -> int:
    # Compiling all of it takes longer than compiling what a run imports. Isolated: from this folder, whatever pip's
    # configuration adds; it has its say where packages are fetched.
    return _pip(venv, "install", "--isolated", "--no-index", "--find-links", str(wheels), "--no-compile", *LOCKED)


def _pip(venv: Path, *arguments: str) -> int:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    return _run(str(venv / "bin" / "python"), "-I", "-m", "pip", arguments[0], *quiet, *arguments[1:])


def _use_package(venv: Path) -> None:
    """Let the environment read the package from the Action's path: nothing to build, nothing to fetch for a build."""
    link = next((venv / "lib").glob("python3.*/site-packages")) / "vibe-gate.pth"
    link.unlink(missing_ok=True)
    link.write_text(f"{PROJECT}\n")


def _run(*argv: str) -> int:
    # From / because no file of the checkout has a say in what is installed.
    return subprocess.run(argv, cwd="/", stdin=subprocess.DEVNULL, check=False).returncode


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _output(line: str) -> None:
    if path := os.environ.get("GITHUB_OUTPUT"):
        with open(path, "a", encoding="utf-8") as outputs:
            outputs.write(f"{line}\n")


def _arguments(argv: Sequence[str]) -> tuple[Path, str]:
    place, key = argv
    return Path(place), key


if __name__ == "__main__":
    sys.exit(main(*_arguments(sys.argv[1:])))
