"""action.yml, its lock and the example workflows, read as files: what must agree agrees."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from acting import EXAMPLES, INSTALL, PINNED, ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from repos import Repo

ACTION = (ROOT / "action.yml").read_text()
WORKFLOWS = sorted(EXAMPLES.glob("*.yml"))
LOCKS = ("requirements.txt", "requirements-agent.txt", "requirements-store.txt")
LOCK = "".join((INSTALL / name).read_text() for name in LOCKS)
LOCKED = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", LOCK, re.MULTILINE)
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def block(name: str) -> str:
    """A top-level part of action.yml."""
    return ACTION.split(f"\n{name}:\n", 1)[1].split("\n\n", 1)[0]


INPUTS = re.findall(r"^  ([a-z-]+):$", block("inputs"), re.MULTILINE)


@pytest.mark.parametrize(
    "requirement", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["store"]]
)
def test_the_lock_holds_a_release_that_pyproject_allows(requirement):
    dependency = Requirement(requirement)
    version = LOCKED.get(canonicalize_name(dependency.name))
    assert version is not None, f"`nox -s lock`: {dependency.name} is not locked"
    assert dependency.specifier.contains(version), (
        f"`nox -s lock`: {dependency.name} {version} is not {dependency.specifier}"
    )


def test_every_locked_release_has_hashes_and_nothing_says_where_it_is_from():
    entries = re.split(r"\n(?=[A-Za-z0-9])", LOCK.strip())
    assert len(entries) == len(LOCKED) > len(PROJECT["dependencies"])
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in LOCK
    assert not re.search(r"^-", LOCK, re.MULTILINE)


def test_the_action_brings_the_python_that_its_script_expects():
    script = (INSTALL / "step.sh").read_text()
    values = dict(re.findall(r"^(OLDEST|NEWEST|FALLBACK)=(\d+)", script, re.MULTILINE))
    assert PROJECT["requires-python"] == f">=3.{values['OLDEST']}"
    assert re.findall(r'python-version: "([\d.]+)"', ACTION) == [f"3.{values['FALLBACK']}"]
    assert int(values["OLDEST"]) <= sys.version_info.minor <= int(values["NEWEST"])


@pytest.mark.parametrize("path", [ROOT / "action.yml", *WORKFLOWS], ids=lambda path: path.name)
def test_every_action_is_pinned_by_commit_with_its_version_beside_it(path: Path):
    uses = [
        line.strip(" -")
        for line in path.read_text().splitlines()
        if re.match(r"\s*(- )?uses:", line)
    ]
    assert uses or path.name == "strict-2-again.yml"
    assert [line for line in uses if not PINNED.fullmatch(line)] == []


def test_one_action_is_pinned_to_one_commit_everywhere():
    pins: dict[str, set[str]] = {}
    for path in [ROOT / "action.yml", *WORKFLOWS]:
        for repository, _, commit in PINNED.findall(path.read_text()):
            pins.setdefault(repository, set()).add(commit)
    assert {repository: len(commits) for repository, commits in pins.items()} == dict.fromkeys(
        pins, 1
    )


def test_no_expression_is_pasted_into_a_script():
    scripts = re.findall(r"^ *run: (.+)$", ACTION, re.MULTILINE)
    assert len(scripts) == 3
    assert [script for script in scripts if "${{" in script] == []


@pytest.mark.parametrize("name", [name for name in INPUTS if name != "cache"])
def test_every_input_reaches_the_gate_through_its_environment(name):
    variable = "VIBE_GATE_INPUT_" + name.upper().replace("-", "_")
    assert f"        {variable}: ${{{{ inputs.{name} }}}}\n" in ACTION


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_an_example_gives_no_more_than_it_needs(path: Path):
    text = path.read_text()
    assert "\npermissions: {}\n" in text
    assert "\nconcurrency:\n" in text
    assert "pull_request_target" not in text
    assert text.count("timeout-minutes:") == text.count("runs-on:")
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")
    needs_history = 0 if "from-artifact:" in text else text.count("actions/checkout@")
    assert text.count("fetch-depth: 0") == needs_history


AGAIN = (EXAMPLES / "strict-2-again.yml").read_text()

GH = """#!/bin/sh
echo "$@" >> "$SEEN"
case "$*" in
  *workflows/vibe-gate.yml/runs*) echo "$FOUND" ;;
  *--jq*) [ "$(grep -c -- .status "$SEEN")" -gt 1 ] && echo completed || echo in_progress ;;
esac
"""


def run_again_script(folder: Path, run_id: str) -> tuple[int, list[str]]:
    """Run the script of strict-2-again.yml with a `gh` that writes down what it is asked."""
    script = textwrap.dedent(AGAIN.split("        run: |\n")[1]).replace("sleep 15", "sleep 0")
    (folder / "gh").write_text(GH)
    (folder / "gh").chmod(0o755)
    environ = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "SEEN": str(folder / "seen"),
        "FOUND": run_id,
        "GITHUB_REPOSITORY": "octo/hello",
        "GATE": "vibe-gate.yml",
        "HEAD": "a" * 40,
        "BRANCH": "$(x)&y",
    }
    result = subprocess.run(
        ["bash", "-e", "-c", script], env=environ, capture_output=True, text=True
    )
    return result.returncode, (folder / "seen").read_text().splitlines()


def test_another_look_runs_the_gates_job_again_once_it_has_ended(tmp_path):
    code, calls = run_again_script(tmp_path, "99")
    assert code == 0
    assert calls[0].startswith(
        "api -X GET repos/octo/hello/actions/workflows/vibe-gate.yml/runs -f event=pull_request"
    )
    assert "-f branch=$(x)&y" in calls[0]
    assert calls[1:3] == ["api repos/octo/hello/actions/runs/99 --jq .status"] * 2
    assert calls[3:] == ["api -X POST repos/octo/hello/actions/runs/99/rerun"]


ENDED = [("f", "cancelled"), ("e", None), ("b", "failure"), ("a", "success")]


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize("nights", [ENDED, ENDED[:2]], ids=["a later night", "the first"])
def test_a_night_begins_where_the_last_one_ended_and_the_first_at_the_newest_commit(
    tmp_path, environ, nights
):
    repo = Repo(tmp_path / "repo", environ)
    parent = repo.commit("One", a="1")
    repo.commit("Two", a="2")
    text = (EXAMPLES / "nightly.yml").read_text()
    script = textwrap.dedent(text.split("        run: |\n")[1].split("      - uses")[0])
    (tmp_path / "gh").write_text(
        '#!/bin/sh\necho "$4 $6" > "$SEEN"\nprintf %s "$RUNS" | jq -r "$8"\n'
    )
    (tmp_path / "gh").chmod(0o755)
    runs = {
        "workflow_runs": [
            {"head_sha": digit * 40, "conclusion": conclusion} for digit, conclusion in nights
        ]
    }
    around = {"PATH": f"{tmp_path}:{environ['PATH']}", "SEEN": str(tmp_path / "seen"), "RUNS": json.dumps(runs),
              "GITHUB_REPOSITORY": "octo/hello", "GITHUB_OUTPUT": str(tmp_path / "output"),
              "GITHUB_WORKFLOW_REF": "octo/hello/.github/workflows/night.yml@refs/heads/main"}  # fmt: skip
    subprocess.run(["bash", "-e", "-c", script], cwd=repo.path, env=environ | around, check=True)
    assert (
        tmp_path / "seen"
    ).read_text() == "repos/octo/hello/actions/workflows/night.yml/runs event=schedule\n"
    assert (
        tmp_path / "output"
    ).read_text() == f"commit={'b' * 40 if nights == ENDED else parent}\n"


def test_another_look_without_a_first_one_is_red(tmp_path):
    code, calls = run_again_script(tmp_path, "")
    assert (code, len(calls)) == (1, 1)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_job_of_the_gate_is_paid_for_by_reviews_or_passes_by_being_skipped(path: Path):
    text = path.read_text()
    if (
        "uses: vibe-gate/vibe-gate@" in text
        and "workflow_run:" not in text
        and "issue_comment:" not in text
    ):
        assert "pull_request_review" not in text or not re.search(
            "workflow:|cache:", text
        )  # these would ask a model
        assert set(re.findall(r"^ {4}if: (.*)", text, re.MULTILINE)) <= {"always()"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_an_approval_makes_the_gate_look_again(path: Path):
    text = path.read_text()
    if "\n  pull_request:" in text:
        assert (
            "\n  pull_request_review:" in text
            or path.with_stem(f"{path.stem}-2-again") in WORKFLOWS
        )


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "README.md"], ids=lambda path: path.name)
def test_a_draft_that_becomes_ready_is_reviewed(path: Path):
    text = path.read_text()
    assert len(re.findall(r"\bpull_request: *(\{|\n|#|$)", text)) == text.count("ready_for_review]")


def test_the_job_that_may_write_for_forks_never_checks_the_change_out():
    text = (EXAMPLES / "fork-safe-2-post.yml").read_text()
    (checkout,) = re.findall(r"uses: actions/checkout@.*\n( +with:.*\n(?: {10}.*\n)+)", text)
    assert "ref:" not in checkout
    assert "repository:" not in checkout
    assert "secrets." not in text + (EXAMPLES / "fork-safe-1-review.yml").read_text()


def test_the_snippet_of_the_readme_is_the_simple_example():
    """It works by copy and paste because the example does."""
    snippet = (
        (ROOT / "README.md")
        .read_text()
        .split("# .github/workflows/vibe-gate.yml\n", 1)[1]
        .split("```", 1)[0]
    )
    example = (EXAMPLES / "simple.yml").read_text()
    steps = "    steps:\n" + example.split("    steps:\n", 1)[1]
    assert steps.replace(" # the gate compares with the merge base", "") in snippet
