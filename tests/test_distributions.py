"""The two distributions: what each names, and the small one at work in an environment of exactly
what it needs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from repos import SWALLOWS, Repo, gated
from wire import KEY

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "distributions" / "vibe-gate-core"
WHOLE = ROOT / "distributions" / "vibe-gate"

START = """\
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module("vibe_gate", run_name="__main__", alter_sys=True)
"""
"""`python -m vibe_gate` with the standard library and one folder of packages."""

SAME = ("license", "requires-python", "authors", "keywords", "classifiers", "urls", "scripts")


def read_project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def version() -> str:
    return metadata.version("vibe-gate")


def add_needed(requirements: list[str], names: dict[str, metadata.Distribution]) -> None:
    """Add to `names` the distributions that these requirements come to, extras left out."""
    for requirement in requirements:
        if "extra ==" in requirement:
            continue
        name = re.match(r"[\w.-]+", requirement)
        assert name
        if name[0] in names:
            continue
        try:
            names[name[0]] = metadata.distribution(name[0])
        except metadata.PackageNotFoundError:
            assert ";" in requirement, requirement  # of another platform or Python
            continue
        add_needed(names[name[0]].requires or [], names)


@pytest.fixture(scope="module")
def core_packages(tmp_path_factory) -> Path:
    """A folder of packages: the wheel of vibe-gate-core, and links to all that it requires."""
    folder = tmp_path_factory.mktemp("core")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(build, cwd=CORE, check=True, capture_output=True)
    packages = folder / "packages"
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(packages)
    required: dict[str, metadata.Distribution] = {}
    add_needed(read_project(CORE)["dependencies"], required)
    for distribution in required.values():
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            link = packages / top
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(top))))
    return packages


@pytest.fixture
def core(core_packages, environ):
    """Run a command of vibe-gate-core, with a key whose model is not there."""
    keyed = environ | {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}

    def run(cwd: Path, *argv: str, **variables: str) -> tuple[int, str]:
        command = [sys.executable, "-IS", "-c", START, core_packages, *argv]
        result = subprocess.run(
            command, cwd=cwd, env=keyed | variables, capture_output=True, text=True, check=False
        )
        return result.returncode, " ".join((result.stdout + result.stderr).split())

    return run


def test_both_distributions_come_to_what_a_checkout_installs():
    checkout, core, full = read_project(ROOT), read_project(CORE), read_project(WHOLE)
    pin = f"vibe-gate-core=={version()}"
    assert full["version"] == version()
    assert full["dependencies"][0] == pin
    dependencies = core["dependencies"] + full["dependencies"][1:]
    assert sorted(dependencies) == sorted(checkout["dependencies"])
    assert core["entry-points"] == checkout["entry-points"]
    for name, requirements in core["optional-dependencies"].items():
        assert requirements == checkout["optional-dependencies"][name]
        assert full["optional-dependencies"][name] == [pin.replace("==", f"[{name}]==")]
    for key in SAME:
        assert core[key] == checkout[key] == full[key], key


@pytest.mark.slow
def test_without_the_sdk_checks_decide_and_each_sentence_says_what_to_install(
    core, core_packages, tmp_path, environ
):
    assert not (core_packages / "claude_agent_sdk").exists()
    repo = Repo(tmp_path / "plain", environ)
    repo.commit("First", **{"a.py": "a = 1\n"})
    repo.commit("Second", **{"a.py": "a = 2\n"})
    code, text = core(repo.path, "review", "HEAD~1")
    assert code == 0, text
    headline = "PASS (checks only) · 6 questions not asked: claude-agent-sdk is not installed"
    assert headline in text
    assert "next run `pip install vibe-gate` and review again to ask them" in text
    code, text = core(repo.path, "review", "HEAD~1", CI="true")
    assert (code, "`pip install vibe-gate`" in text) == (3, True), text
    code, text = core(repo.path, "doctor")
    assert f"{version()} (vibe-gate-core), Python" in text
    assert "`pip install vibe-gate` brings it" in text
    assert "in the Action" not in text.lower()
    _, text = core(repo.path, "doctor", GITHUB_ACTIONS="true")
    assert 'In the Action, leave out `judge: "false"`.' in text


@pytest.mark.slow
def test_without_the_sdk_who_demands_a_judge_or_an_agent_gets_exit_code_3_and_what_to_install(
    core, tmp_path, environ
):
    repo = gated(tmp_path / "gated", environ)
    repo.commit("Load robustly", **{"src/load.py": SWALLOWS})
    code, text = core(repo.path, "review", "HEAD~1")
    assert (code, "Run `pip install vibe-gate`, which brings it" in text) == (3, True), text
    code, text = core(repo.path, "run", "--agent", "fixer", "--prompt", "Repair it")
    assert (code, "`pip install vibe-gate` brings it" in text) == (3, True), text


@pytest.mark.slow
def test_without_the_sdk_and_without_a_key_both_are_named_at_once(core, tmp_path, environ):
    repo = gated(tmp_path / "gated", environ)
    repo.commit("Load robustly", **{"src/load.py": SWALLOWS})
    keyless = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""}
    code, text = core(repo.path, "review", "HEAD~1", **keyless)
    assert code == 3, text
    causes = "no API key and no claude-agent-sdk"
    assert f"not asked: {causes}" in text
    assert text.lower().count(causes.lower()) == text.lower().count("no api key"), text
    assert "Run `pip install vibe-gate`, which brings it, and set ANTHROPIC_API_KEY" in text
    assert (
        "next run `pip install vibe-gate`, which has what asks a judge, set ANTHROPIC_API_KEY"
        in text
    )
    code, text = core(repo.path, "run", "--agent", "fixer", "--prompt", "Repair it", **keyless)
    assert code == 3, text
    assert "No credentials for a model were found" in text
    assert "`pip install vibe-gate` brings it" in text


def test_the_hooks_of_the_checks_alone_are_those_of_the_manifest():
    manifest = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    example = ROOT / "examples" / "hooks" / "checks-only" / ".pre-commit-config.yaml"
    hooks = yaml.safe_load(example.read_text())["repos"][0]["hooks"]
    stages = [stage for hook in hooks for stage in hook["stages"]]
    assert stages == [stage for hook in manifest for stage in hook["stages"]]
    for hook in hooks:
        assert hook["additional_dependencies"] == [f"vibe-gate-core=={version()}"]
        assert hook["entry"] == f"vibe-gate hook {hook['stages'][0]}"
