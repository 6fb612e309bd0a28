"""`vibe-gate test`: labelled cases of the rubrics, live, recorded and replayed, on real
repositories.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from answers import answer_to, answers, fails, passes
from command import CommandResult, vibe_gate
from faces.forked_pytest import run_forked
from lxml import html
from program import ROOT
from repos import GOOD, RUBRIC, SWALLOWS, Repo, gated
from wire import answering

from vibe_gate.domain.verdict import CriterionResult, RubricResult
from vibe_gate.gate.cases import Case, CaseFile
from vibe_gate.run.case_reviews import compare_with_expected
from vibe_gate.store.clone_state import open_state

pytestmark = pytest.mark.usefixtures("quick_agents")

pytest_plugins = ["pytester"]

CASES = ".vibe-gate/cases"
CHECKED = 'schema = 1\nid = "hygiene"\n[[criterion]]\nid = "clean"\nkind = "check"\ncheck = "no-conflict-markers"\n'
CONFLICT = "<<<<<<< ours\nA = 1\n=======\nA = 2\n>>>>>>> theirs\n"
SECRET = "KEY = 'ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a'\n"


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    """A gate with a rubric of each kind, and two cases of the judge's."""
    repository = gated(tmp_path / "repo", environ)
    repository.write(".vibe-gate/rubrics/hygiene.toml", CHECKED)
    case(
        repository,
        "dropped",
        'outcome = "fail"\n[expect]\nerrors-not-swallowed = "fail"\n',
        SWALLOWS,
    )
    case(
        repository,
        "kept",
        '[expect]\nerrors-not-swallowed = "pass"\n',
        GOOD.replace("path", "name"),
    )
    return repository


def case(repo: Repo, name: str, expected: str, after: str | bytes, rubric: str = "quality") -> None:
    repo.write(f"{CASES}/{name}/case.toml", f'schema = 1\nrubric = "{rubric}"\n{expected}')
    repo.write(f"{CASES}/{name}/before/src/load.py", GOOD)
    repo.write(f"{CASES}/{name}/after/src/load.py", after)


def run_cases(repo: Repo, *argv: str, **environ: str) -> CommandResult:
    return vibe_gate("test", *argv, cwd=repo.path, environ=repo.environ | environ)


@pytest.mark.slow
def test_cases_are_recorded_once_and_replayed_until_the_rubric_or_the_expectation_changes(
    repo: Repo,
) -> None:
    (repo.path / CASES / "kept/after/link").symlink_to("/etc/hostname")
    signer, signed = repo.path.parent / "signer", repo.path.parent / "signed"
    signer.write_text(f"#!/bin/sh\ntouch {signed}\nexit 1\n")
    signer.chmod(0o755)
    for name, value in (
        ("gpg.format", "ssh"),
        ("user.signingKey", "key"),
        ("gpg.ssh.program", str(signer)),
    ):
        repo.git("config", "--global", name, value)
    assert run_cases(repo).out.splitlines() == [
        "dropped: no cassette: record it with `vibe-gate test --wire record`",
        "kept: no cassette: record it with `vibe-gate test --wire record`",
        "2 cases: 2 no cassette",
    ]
    good = passes("errors-not-swallowed", "names-are-clear")
    with answering(answers(fails(), answer_to("names-are-clear")), good) as model:
        recorded = run_cases(repo, "--wire", "record", **model.environ)
    assert (recorded.code, len(model.script.requests)) == (0, 2), recorded.out + recorded.err
    assert "2 cases: 2 ok · $" in recorded.out
    assert not signed.exists()
    assert open_state(repo.path / ".git").spending.spent(datetime.now(UTC)) > 0
    replayed = run_cases(repo, "quality", "--json").json
    assert replayed["exit_code"] == 0
    assert [(result["name"], result["status"], result["usd"]) for result in replayed["cases"]] == [
        ("dropped", "ok", 0.0),
        ("kept", "ok", 0.0),
    ]
    assert (
        repo.git("status", "--porcelain", "--ignored")
        == "?? .vibe-gate/cases/\n?? .vibe-gate/rubrics/hygiene.toml"
    )
    case(repo, "kept", '[expect]\nerrors-not-swallowed = "abstain"\n', GOOD.replace("path", "name"))
    failed = run_cases(repo)
    assert failed.code == 1
    assert (
        "kept: FAIL: errors-not-swallowed: expected abstain, got pass (So it is.)\n" in failed.out
    )
    rubric = repo.path / ".vibe-gate/rubrics/quality.toml"
    rubric.write_text(rubric.read_text().replace("say why not?", "say why?"))
    stale = run_cases(repo)
    assert (
        stale.code,
        stale.out.count("undecided: errors-not-swallowed: The cassette holds no answer"),
    ) == (3, 2)


def test_a_case_of_checks_needs_no_cassette_and_counts_what_stands_in_hostile_trees(
    repo: Repo,
) -> None:
    shutil.rmtree(repo.path / CASES)
    case(repo, "conflict", 'outcome = "fail"\n[expect]\nclean = "fail"\n', CONFLICT, "hygiene")
    repo.write(f"{CASES}/conflict/after/.vibe-gate/gate.toml", "schema = 7\n")
    repo.write(f"{CASES}/conflict/after/a\n\x1b[31mb", "B = 1\n")
    result = run_cases(repo)
    assert (result.code, result.out) == (0, "conflict: ok\n1 case: 1 ok\n"), result.err
    case(repo, "same", 'outcome = "pass"\n', GOOD, "hygiene")
    (repo.path / CASES / "linked").symlink_to("conflict")
    (repo.path / CASES / "conflict/cassette").symlink_to(repo.path.parent)
    wrong = run_cases(repo)
    assert wrong.code == 2
    assert wrong.err.splitlines() == [
        "vibe-gate: .vibe-gate/cases/conflict/cassette:1: symbolic links (and submodules) are not followed; "
        "put the file or folder itself here",
        "vibe-gate: .vibe-gate/cases/linked:1: symbolic links (and submodules) are not followed; "
        "put the file or folder itself here",
        "vibe-gate: .vibe-gate/cases/same:1: before/ and after/ hold the same files",
    ]
    assert run_cases(repo, "hygene").code == 2


def test_a_case_names_two_commits_or_a_commit_and_a_patch_and_says_which_commit_is_not_here(
    repo: Repo,
) -> None:
    shutil.rmtree(repo.path / CASES)
    base = repo.commit("Base", **{"src/load.py": GOOD})
    head = repo.commit("Conflict", **{"src/load.py": CONFLICT})
    patch = repo.git("diff", base, head) + "\n"
    repo.commit("Back", **{"src/load.py": GOOD})
    case_text = f'schema = 1\nrubric = "hygiene"\noutcome = "fail"\nbase = "{base}"\n'
    repo.write(f"{CASES}/commits/case.toml", f'{case_text}head = "{head}"\n')
    repo.write(f"{CASES}/gone/case.toml", f'{case_text}head = "{"a" * 40}"\n')
    for name, text in (("patched", patch), ("other", patch.replace("-def", "-deff"))):
        repo.write(f"{CASES}/{name}/case.toml", case_text)
        repo.write(f"{CASES}/{name}/change.patch", text)
    result = run_cases(repo)
    assert result.out.splitlines() == [
        "commits: ok",
        "gone: undecided: commit aaaaaaaaaaaa is not in this clone; fetch it (in a shallow one: "
        "`git fetch --unshallow`)",
        f"other: undecided: change.patch does not apply to commit {base[:12]}",
        "patched: ok",
        "4 cases: 2 ok, 2 undecided",
    ], result.err
    assert result.code == 3


def test_a_case_holds_what_the_gate_refuses_elsewhere_and_is_still_a_change_of_the_gate(
    repo: Repo,
) -> None:
    repo.write(".vibe-gate/gate.toml", 'schema = 1\nrubrics = ["quality", "hygiene"]\n')
    repo.commit("A gate")
    case(repo, "conflict", 'outcome = "fail"\n', CONFLICT + SECRET, "hygiene")
    summary = vibe_gate("review", "--json", cwd=repo.path, environ=repo.environ).json
    assert (summary["exit_code"], summary["outcome"]) == (4, "pass")
    assert {
        criterion["outcome"] for rubric in summary["rubrics"] for criterion in rubric["criteria"]
    } == {"not_applicable"}
    assert len(summary["policy_changes"]) == 3
    repo.write("src/load.py", CONFLICT)
    summary = vibe_gate("review", "--no-judge", "--json", cwd=repo.path, environ=repo.environ).json
    assert {finding["path"] for finding in summary["findings"]} == {"src/load.py"}


@pytest.mark.slow
def test_the_examples_cases_hold_from_their_cassettes(
    pytester: pytest.Pytester, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples/cases", pytester.path / "inner/project")
    result = run_cases(Repo(pytester.path / "inner/project", environ))
    assert (result.code, result.out) == (0, "reported: ok\nswallowed: ok\n2 cases: 2 ok\n"), (
        "run `python tests/run/record_cases.py`"
    )
    (pytester.path / "inner/project/.git").rename(pytester.path / ".git")
    monkeypatch.chdir("inner/project")
    monkeypatch.setenv("PATH", environ["PATH"])
    nested = pytester.runpytest_inprocess("--vibe-cases", "--rootdir=.")
    nested.assert_outcomes(passed=2)
    nested.stdout.re_match_lines([r"2 in all +3 +360 +0\.0012"])


@pytest.mark.slow
def test_pytest_runs_cases_as_items_and_collects_no_test_that_a_case_holds(
    pytester: pytest.Pytester, environ: dict[str, str]
) -> None:
    repo = Repo(pytester.path, environ)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(test_own="def test_own(): pass")
    repo.write(".vibe-gate/rubrics/hygiene.toml", CHECKED)
    repo.write(".vibe-gate/rubrics/quality.toml", RUBRIC)
    case(repo, "asked", 'outcome = "pass"\n', SWALLOWS)
    case(repo, "right", 'outcome = "fail"\n', CONFLICT, "hygiene")
    case(repo, "wrong", 'outcome = "pass"\n', CONFLICT, "hygiene")
    repo.write(f"{CASES}/right/after/test_material.py", "def test_of_the_case(): assert False")
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
    result = run_forked(
        pytester, "--vibe-cases", "-rs", "-n", "2", "--vibe-report=pages", ".", CASES
    )
    result.assert_outcomes(passed=2, failed=1, skipped=1)
    grid = html.fromstring((pytester.path / "pages/index.html").read_text()).xpath(
        "//table[@id='grid']/tbody/tr"
    )
    cells = [(row[0].text_content(), row[1].text_content()) for row in grid]
    assert cells == [
        (f"{CASES}/{name}", mark) for name, mark in (("asked", "?"), ("right", "✓"), ("wrong", "✗"))
    ]
    result.stdout.fnmatch_lines_random(
        [
            "*case wrong*",
            "rubric hygiene: expected pass, got fail",
            f"SKIPPED * {CASES}/asked/case.toml:1: no cassette: record it with `vibe-gate test --wire record`",
        ]
    )
    strict = pytester.runpytest_inprocess(
        "--vibe-cases", "--vibe-strict", "-k", "asked or own", CASES
    )
    strict.assert_outcomes(failed=1, deselected=2)
    repo.write(f"{CASES}/asked/case.toml", "schema = 1\n")
    broken = pytester.runpytest_inprocess("--vibe-cases")
    assert broken.ret == pytest.ExitCode.USAGE_ERROR
    broken.stderr.fnmatch_lines(
        [f"ERROR: --vibe-cases: {CASES}/asked/case.toml:1: rubric: is missing"]
    )


@pytest.mark.parametrize(
    ("outcome", "expect", "came_out", "rubric", "failed", "undecided"),
    [
        (None, {"a": "fail"}, "fail unanimous", "fail", 0, 0),
        (None, {"a": "fail"}, "pass unanimous", "pass", 1, 0),
        ("fail", {"a": "pass"}, "pass cache", "pass", 1, 0),
        (None, {"a": "abstain"}, "abstain majority", "inconclusive", 0, 0),
        (None, {"a": "abstain"}, "abstain none", "inconclusive", 0, 1),  # nobody was asked
        (None, {"a": "pass"}, "error majority", "error", 0, 1),
        ("inconclusive", {}, "abstain majority", "inconclusive", 0, 0),
        ("inconclusive", {}, "abstain none", "inconclusive", 0, 1),
        ("pass", {}, "abstain none", "pass", 0, 0),  # the rest was enough
        ("pass", {}, "abstain none", "fail", 1, 0),  # another criterion failed
        ("fail", {"a": "fail"}, "abstain none", "fail", 0, 1),
    ],
)
def test_what_nobody_decided_is_neither_right_nor_wrong(
    outcome, expect, came_out, rubric, failed, undecided
) -> None:
    criterion_outcome, by = came_out.split()
    criterion = CriterionResult(
        id="a",
        kind="judge",
        must=False,
        weight=1,
        outcome=criterion_outcome,
        decided_by=by,
        reason="So.",
    )
    result = RubricResult(
        id="quality", digest="", outcome=rubric, score=1, coverage=1, criteria=(criterion,)
    )
    file = CaseFile(schema=1, rubric="quality", outcome=outcome, expect=expect)
    assert tuple(map(len, compare_with_expected(Case("x", f"{CASES}/x", file), result))) == (
        failed,
        undecided,
    )
