"""A failure of vibe-gate itself in a git hook: said loudly, recorded, and in the way only if the
gate wants that.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from hooked import ROOT, Hooked, ProgramResult, start_repository

BLOCK = 'schema = 1\nrubrics = []\n[on]\ninconclusive = "{}"\n'

STOPPABLE = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push")

MODULES = {"commit-msg": "message", "post-commit": "record", "post-rewrite": "record"}
"""The module of each hook's own work; of the others `reviewing`."""


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of vibe-gate, in each of which one module crashes."""
    return tmp_path_factory.mktemp("copies")


def broken_program(copies: Path, module: str, text: str) -> list[str]:
    """The command of a vibe-gate in which importing, or calling, a module of the hooks crashes."""
    copy = copies / module.replace("/", "-")
    if not copy.exists():
        shutil.copytree(ROOT / "vibe_gate", copy / "vibe_gate")  # with what is compiled
        file = copy / "vibe_gate" / f"{module}.py"
        file.write_text(file.read_text() + text)
    start = f"import sys; sys.path.insert(0, {str(copy)!r})"
    return [
        sys.executable,
        "-c",
        f"{start}; from vibe_gate.faces.cli import main; sys.exit(main())",
    ]


@pytest.fixture
def repository(tmp_path: Path, environ: dict[str, str]) -> Hooked:
    return start_repository(tmp_path / "repository", environ)


def with_rule(repository: Hooked, rule: str) -> Hooked:
    """Commit a gate that says what a hook does without a verdict, and stage a change."""
    (repository.path / ".vibe-gate").mkdir()
    (repository.path / ".vibe-gate" / "gate.toml").write_text(BLOCK.format(rule))
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "gate")
    repository.write(a="x\n")
    repository.git("add", "a")
    return repository


def run_hook(repository: Hooked, program: list[str], stage: str) -> ProgramResult:
    head = repository.git("rev-parse", "HEAD")
    lines = {
        "pre-push": f"refs/heads/main {head} refs/heads/main {'0' * 40}\n",
        "post-rewrite": f"{head} {head}\n",
    }
    words = {
        "pre-push": ["origin", "/nowhere"],
        "post-rewrite": ["amend"],
        "commit-msg": ["/dev/null"],
    }
    command = [*program, "hook", stage, "--", *words.get(stage, [])]
    return repository.run(*command, stdin=lines.get(stage, ""), GIT_INDEX_FILE=".git/index")


# Each crashes when it is called: a function of the module is gone.
CRASHES = {
    "reviewing": "del review_in, Repository\n",
    "message": "del agent_hints\n",
    "record": "del _report_failure, Updates\n",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "rule"),
    [("pre-commit", "warn"), ("pre-commit", "pass"), *((stage, "block") for stage in STOPPABLE)],
)
def test_a_crash_is_loud_recorded_and_stops_git_where_the_gate_wants_it(
    repository, copies, stage, rule
):
    module = MODULES.get(stage, "reviewing")
    program = broken_program(copies, f"faces/git_hook/{module}", CRASHES[module])
    result = run_hook(with_rule(repository, rule), program, stage)
    assert "this is a bug, please report it" in result.text
    assert "!!!!!!!!!!!!\nvibe-gate: NOT REVIEWED. The " in result.text
    (record,) = repository.records()
    assert (record["kind"], record["stage"]) == ("not-reviewed", stage)
    assert (result.code, record.get("blocked", False)) == (
        (3, True) if rule == "block" else (0, False)
    )
    assert ("is stopped" in result.text) is (rule == "block")


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["post-commit", "post-rewrite"])
def test_after_a_commit_a_crash_is_loud_and_recorded_with_the_commit(repository, copies, stage):
    program = broken_program(copies, "faces/git_hook/record", CRASHES["record"])
    result = run_hook(with_rule(repository, "block"), program, stage)
    assert "vibe-gate: NOT RECORDED whether a hook let the commit through" in result.text
    (record,) = repository.records()
    assert (record["kind"], record["stage"]) == ("not-reviewed", stage)
    assert record["commit"] == repository.git("rev-parse", "HEAD")
    assert result.code == 0


@pytest.mark.slow
def test_a_ref_that_could_not_be_checked_is_said_loudly(repository, copies):
    program = broken_program(copies, "faces/git_hook/record", CRASHES["record"])
    head = repository.git("rev-parse", "HEAD")
    command = [*program, "hook", "reference-transaction", "--", "prepared"]
    result = repository.run(*command, stdin=f"{'0' * 40} {head} refs/heads/x\n", CLAUDECODE="1")
    assert (result.code, "!!!!\nvibe-gate: NOT CHECKED whether" in result.text) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "rule", "code"), [("pre-commit", "warn", 0), ("pre-push", "block", 3)]
)
def test_without_a_package_of_ours_the_gate_that_lies_there_decides(
    repository, copies, stage, rule, code
):
    program = broken_program(copies, "domain/provenance", "import something_that_is_gone\n")
    result = run_hook(with_rule(repository, rule), program, stage)
    assert (result.code, "missing or broken" in result.text) == (code, True)
    assert f"NOT REVIEWED. The {'push' if stage == 'pre-push' else 'commit'} " in result.text


@pytest.mark.slow
def test_a_gate_that_cannot_be_read_either_is_looked_for_in_the_working_tree(repository, copies):
    program = broken_program(copies, "gate/trusted", "del load_gate, trusted_revision\n")
    result = run_hook(with_rule(repository, "block"), program, "pre-push")
    assert (result.code, "The push is stopped" in result.text) == (3, True)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["pre-commit", "commit-msg", "post-commit"])
def test_that_nothing_can_be_recorded_is_said(repository, copies, stage):
    module = MODULES.get(stage, "reviewing")
    program = broken_program(copies, f"faces/git_hook/{module}", CRASHES[module])
    with_rule(repository, "warn")
    (repository.path / ".git" / "vibe-gate" / "state.db").mkdir(parents=True)
    result = run_hook(repository, program, stage)
    assert (result.code, "vibe-gate: not recorded: " in result.text) == (0, True)
    assert "NOT RE" in result.text


@pytest.mark.slow
def test_a_hook_that_works_is_not_in_the_way(repository):
    with_rule(repository, "block")
    for stage in STOPPABLE:
        result = run_hook(repository, ["vibe-gate"], stage)
        assert result.code == 0, result.text
        assert "NOT REVIEWED" not in result.text
