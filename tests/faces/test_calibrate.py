"""`vibe-gate calibrate`: judges measured on labelled cases, at the wire, on real repositories."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from answers import answers, fails, passes
from command import CommandResult, begun, vibe_gate
from repos import GOOD, RUBRIC, SWALLOWS, Repo, gated
from scripted_messages_api import ApiError, Hang, MessagesRequest, Step
from wire import answer, answering

from vibe_gate.domain.calibration import LabelledAnswers, count_cases
from vibe_gate.domain.interval import Interval
from vibe_gate.domain.rubric import Criterion
from vibe_gate.faces.cli.calibrate import render_criterion_measure
from vibe_gate.faces.progress import run_in_loop
from vibe_gate.gate.cases import Case, CaseFile
from vibe_gate.gate.loading import FolderFiles, load_gate
from vibe_gate.judging.trust import badges
from vibe_gate.run.calibrate import CriterionMeasure
from vibe_gate.run.shard import shard_of

pytestmark = pytest.mark.usefixtures("quick_agents")

CASES = ".vibe-gate/cases"
BASELINE = ".vibe-gate/baseline/quality.toml"
CRITERION = "errors-not-swallowed"
ONE_QUESTION = RUBRIC.partition('[[criterion]]\nid = "names')[0]
PASSES, FAILS = passes(CRITERION), answers(fails())


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    """A gate with one question, and no case."""
    return gated(tmp_path / "repo", environ, rubric=ONE_QUESTION)


def case(repo: Repo, name: str, expected: str, after: str) -> Path:
    text = f'schema = 1\nrubric = "quality"\n[expect]\n{CRITERION} = "{expected}"\n'
    repo.write(f"{CASES}/{name}/before/src/load.py", GOOD)
    repo.write(f"{CASES}/{name}/after/src/load.py", after)
    return repo.write(f"{CASES}/{name}/case.toml", text).parent


def calibrate(repo: Repo, *argv: str, **environ: str) -> CommandResult:
    return vibe_gate("calibrate", *argv, cwd=repo.path, environ=repo.environ | environ)


def badge(repo: Repo) -> dict[str, object]:
    """What a review by the definitions as they are says of the judge."""
    argv = ("review", "--json", "--no-judge", "--definitions", "worktree")
    criterion: dict[str, object] = vibe_gate(*argv, cwd=repo.path, environ=repo.environ).json[
        "rubrics"
    ][0]["criteria"][0]
    return criterion["trust"]  # type: ignore[return-value]


def make_blocking_judge(wrong: str) -> Callable[[MessagesRequest], Step]:
    """A judge that sees every handler, and blocks whatever names this, too."""
    return lambda request: answer(
        FAILS if "except OSError" in request.all_text or wrong in request.all_text else PASSES
    )


@pytest.mark.slow  # a dozen reviews
def test_clean_and_defective_cases_are_measured_from_their_cassettes(repo: Repo) -> None:
    """Cases of a kind are the same change, so one recording serves them all."""
    kinds = {
        "clean": (2, "pass", GOOD.replace("path", "name"), PASSES),
        "found": (2, "fail", SWALLOWS, FAILS),
    }
    kinds |= {"blocked": (1, "pass", SWALLOWS.replace("pass", "return ''"), FAILS)}
    kinds |= {"missed": (1, "fail", SWALLOWS.replace("OSError", "KeyError"), PASSES)}
    for kind, (number, expected, after, judged) in kinds.items():
        recorded = case(repo, f"{kind}-0", expected, after)
        with answering(judged) as model:
            vibe_gate(
                "test", "--wire", "record", cwd=repo.path, environ=repo.environ | model.environ
            )
        (repo.path / CASES / f"{kind}-0").rename(repo.path / f"{kind}-0")
        for index in range(number):
            shutil.copytree(repo.path / f"{kind}-0", recorded.with_name(f"{kind}-{index}"))
        (repo.path / CASES).rename(repo.path / kind)
    for kind in kinds:
        shutil.copytree(repo.path / kind, repo.path / CASES, dirs_exist_ok=True)
    calibration = calibrate(repo, "--wire", "replay")
    first, *rows, last = calibration.out.splitlines()
    assert (calibration.code, first) == (
        0,
        "quality · claude-sonnet-5 · 6 cases · rubric 69ed0740",
    )
    assert "    false blocks            1 of 3   33.3%   0.8% to 90.6%" in rows
    assert last == "  written: .vibe-gate/baseline/quality.toml"
    counts = tomllib.loads((repo.path / BASELINE).read_text())["criterion"][0]
    assert counts == {
        "id": CRITERION, "clean": 3, "clean_blocked": 1, "defective": 3, "found": 2, "abstained": 0, "flips": 0,
        "repeats": 1, "agreement": 0.3333,
    }  # fmt: skip


@pytest.mark.slow  # reviews
def test_the_same_cases_twice_give_the_same_figures_and_a_reworded_question_makes_them_stale(
    repo: Repo,
) -> None:
    for name in ("one", "two"):
        case(repo, f"clean-{name}", "pass", GOOD.replace("path", name))
    case(repo, "defect", "fail", SWALLOWS)
    with answering(make_blocking_judge("load(two)"), repeat_last=True) as model:
        recorded = calibrate(repo, "--wire", "record", "--repeat", "2", **model.environ)
        live = calibrate(repo, "--json", "--repeat", "2", **model.environ)
        assert len(model.script.requests) == 12
        written = (repo.path / BASELINE).read_bytes()
        second_run = calibrate(repo, "--json", **model.environ)
        assert len(model.script.requests) == 12
    assert (repo.path / BASELINE).read_bytes() == written
    assert second_run.json["paid_usd"] == 0 < live.json["paid_usd"]
    assert second_run.json["rubrics"] == live.json["rubrics"]
    replayed = calibrate(repo, "--wire", "replay")
    assert replayed.out == recorded.out
    assert "Replaying 6 reviews of cases from their cassettes." in replayed.err
    three_votes = calibrate(repo, "--wire", "replay", "--repeat", "3")
    assert (three_votes.code, three_votes.out.count("undecided: ")) == (3, 3)
    fewer = calibrate(repo, "--wire", "replay", "--repeat", "1")
    assert "Replaced the baseline of 20" in fewer.err and ": claude-sonnet-5, rubric " in fewer.err
    assert fewer.err.rstrip().endswith("3 cases x 2.") and "Replaced" not in replayed.err
    (repo.path / BASELINE).write_bytes(written)
    assert badge(repo)["sentence"] == "calibrated: 0 of 2 clean blocked, 1 of 1 found"
    rubric = repo.path / ".vibe-gate/rubrics/quality.toml"
    rubric.write_text(rubric.read_text().replace("say why not?", "say why?"))
    assert badge(repo)["state"] == "stale"
    stale = calibrate(repo, "--wire", "replay")
    assert (stale.code, (repo.path / BASELINE).read_bytes()) == (3, written)
    assert "3 cases undecided, so no baseline was written; run it again." in stale.out
    gate = load_gate(FolderFiles(repo.path), revision="", origin="trusted")
    assert gate is not None
    assert badges(gate, (), "claude-sonnet-5")["quality", CRITERION].state == "stale"


@pytest.mark.slow  # reviews
def test_a_labelled_finding_is_in_stats_in_calibrate_and_a_case_that_test_runs(repo: Repo) -> None:
    repo.git("config", "user.name", "Ada")
    repo.git("config", "user.email", "ada@example.org")
    repo.commit("A gate")
    repo.commit("Drop errors", **{"src/load.py": SWALLOWS})

    def run(*argv: str, **environ: str) -> CommandResult:
        return vibe_gate(*argv, cwd=repo.path, environ=repo.environ | environ)

    with answering(FAILS, repeat_last=True) as model:
        (finding,) = run("review", "HEAD~1..HEAD", "--json", **model.environ).json["findings"]
        name = finding["fingerprint"]
        for word, expected, code in (("wrong", "pass", 1), ("right", "fail", 0)):
            assert run("label", name, word).code == 0
            (row,) = run("stats", "--json").json["criteria"]
            assert (row["criterion"], row["found"], row[word], row["unanswered"]) == (
                CRITERION,
                1,
                1,
                0,
            )
            added = run("cases", "add", name).out
            folder = repo.path / added.partition(":")[0]
            assert f": rubric quality, expected: {CRITERION} {expected}" in added
            folder.rename(folder.with_name(word))
            measured = calibrate(repo, "--wire", "record", "--json", **model.environ).json[
                "rubrics"
            ][0]["criteria"][0]
            assert measured["labels"] == {"right": 0, "wrong": 0} | {word: 1}
            assert (measured["clean_blocked"], measured["found"]) == (
                (1, 0) if word == "wrong" else (1, 1)
            )
            assert (
                f"labels of this clone: {'0 right, 1' if code else '1 right, 0'} wrong"
                in calibrate(repo, "--wire", "replay").out
            )
            assert f"{word}: {'FAIL' if code else 'ok'}" in run("test").out


@pytest.mark.slow  # reviews
def test_a_refuted_fail_blocks_no_clean_case_and_the_votes_alone_are_told_beside_it(
    repo: Repo,
) -> None:
    rubric = repo.path / ".vibe-gate/rubrics/quality.toml"
    rubric.write_text(rubric.read_text().replace('second_look = "never"\n', ""))
    guarded_case = case(repo, "guarded", "pass", SWALLOWS)
    guard = "    if not os.path.exists(path):"
    for side in ("before", "after"):
        (guarded_case / side / "src/main.py").write_text(
            f"def main(path):\n{guard}\n        raise SystemExit\n    load(path)\n"
        )
    line = {"path": "src/main.py", "line": 2, "quote": guard, "side": "after"}
    look = {
        "trace": "main -> load",
        "outcome": "refuted",
        "reason": "main leaves first.",
        "evidence": [line],
    }
    with answering(FAILS, ApiError(400, "invalid")) as model:
        open_ = calibrate(repo, **model.environ)
    assert (open_.code, "no second look: HTTP 400" in open_.out) == (3, True), (
        "a fail without it measures nothing"
    )
    with answering(FAILS, look) as model:
        calibration = calibrate(repo, "--json", **model.environ)
    sentence = (
        "a second look at each fail, at most $0.5000 ($0.5000 each: max_cost_usd in gate.toml)."
    )
    assert sentence in calibration.err
    (measured,) = calibration.json["rubrics"][0]["criteria"]
    assert (measured["clean_blocked"], measured["without_second_look"]["clean_blocked"]) == (0, 1)


@pytest.mark.slow  # processes
def test_what_was_answered_before_ctrl_c_or_a_used_up_budget_is_not_asked_again(repo: Repo) -> None:
    for name in ("one", "two", "three"):
        case(repo, name, "pass", GOOD.replace("path", name))
    with answering(PASSES, Hang()) as model:
        environ = repo.environ | model.environ
        running = begun("calibrate", "--jobs", "1", cwd=repo.path, environ=environ)
        while len(model.script.requests) < 2 and running.poll() is None:
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGINT)
        _, err = running.communicate(timeout=200)
    assert running.returncode == 130
    assert err.splitlines() == [
        "Asking: 3 reviews of cases: at most 3 conversations, at most $1.50 ($0.5000 each: max_cost_usd in gate.toml).",
        "vibe-gate: interrupted; 1 of 3 answers are kept. The same command goes on from there.",
    ]
    with answering(PASSES, repeat_last=True) as model:
        poor = calibrate(repo, "--max-cost-usd", "0.0011", "--jobs", "1", **model.environ)
        assert poor.code == 3
        assert (
            "(1 of 3 answered before): at most 2 conversations, at most $0.0011 (--max-cost-usd)."
            in poor.err
        )
        assert "The budget of $0.0011 is reached." in poor.out
        last_run = calibrate(repo, **model.environ)
    assert (last_run.code, len(model.script.requests)) == (0, 2), last_run.out


@pytest.mark.parametrize("in_a_task", [True, False])
def test_after_ctrl_c_each_task_ends_its_process_before_the_loop_is_closed(in_a_task: bool) -> None:
    exits = []

    def ctrl_c() -> None:
        raise KeyboardInterrupt

    async def agent(level: int) -> None:
        process = await asyncio.create_subprocess_exec("sleep", "0.05")
        try:
            async with asyncio.TaskGroup() as group:
                if level:
                    group.create_task(agent(level - 1))
                elif not in_a_task:
                    asyncio.get_running_loop().call_soon(ctrl_c)  # now that each has its process
                await asyncio.sleep(0.05)
                if in_a_task and not level:
                    ctrl_c()
                await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            exits.append((level, await process.wait()))

    with pytest.raises(KeyboardInterrupt):
        run_in_loop(agent(4))
    assert exits == [(level, 0) for level in range(5)]


@pytest.mark.slow  # processes
def test_without_a_key_or_a_labelled_question_nothing_is_asked(repo: Repo) -> None:
    case(repo, "open", "abstain", SWALLOWS)
    nothing = calibrate(repo)
    assert (
        nothing.code,
        "no labelled case says how a judge's criterion must come out" in nothing.err,
    ) == (2, True)
    assert calibrate(repo, "--repeat", "101").err == "vibe-gate: --repeat takes at most 100.\n"
    case(repo, "defect", "fail", SWALLOWS)
    assert calibrate(repo).err == (
        "vibe-gate: No API key: set ANTHROPIC_API_KEY, or replay recorded answers with --wire replay.\n"
    )


def test_parts_of_no_labelled_case_are_an_error_and_a_part_without_one_says_so(repo: Repo) -> None:
    nothing = calibrate(repo, "--shard", "1/2")
    assert (
        nothing.code,
        "no labelled case says how a judge's criterion must come out" in nothing.err,
    ) == (2, True)
    case(repo, "defect", "fail", SWALLOWS)
    empty = next(part for number in (1, 2) if not shard_of(part := f"{number}/2").has("defect"))
    calibration = calibrate(repo, "--shard", empty)
    assert (calibration.code, calibration.out) == (0, f"No labelled case is in part {empty}.\n")


QUESTION = Criterion(id="a", kind="judge", must=True, question="Is it?")


def test_a_case_counts_by_the_worst_of_its_repeats_and_flips_make_a_criterion_unsteady() -> None:
    cases = [
        LabelledAnswers(True, ("pass", "pass")),
        LabelledAnswers(True, ("pass", "fail")),
        LabelledAnswers(True, ("abstain", "not_applicable")),
        LabelledAnswers(False, ("fail", "fail")),
        LabelledAnswers(False, ("fail", "abstain")),
    ]
    counts = count_cases("a", cases)
    assert (counts.clean, counts.clean_blocked, counts.defective, counts.found) == (3, 1, 2, 1)
    assert (counts.abstained, counts.flips, counts.repeats, counts.is_unsteady) == (2, 2, 2, True)


def test_the_table_tells_unsteady_criteria_and_what_the_second_look_changed() -> None:
    first = count_cases(
        "a", [LabelledAnswers(True, ("fail", "pass")), LabelledAnswers(False, ("fail", "fail"))]
    )
    final = count_cases(
        "a", [LabelledAnswers(True, ("pass", "pass")), LabelledAnswers(False, ("fail", "fail"))]
    )
    measure = CriterionMeasure(QUESTION, final, first, Interval(6400, 6100, 6700), None)
    assert next(render_criterion_measure(measure, 0.05)).split() == [
        "a",
        "(must)",
        "95",
        "%",
        "interval",
    ]
    assert (
        "    without second look: 1 of 1 clean blocked, 1 of 1 found"
        in render_criterion_measure(measure, 0.05)
    )
    measure = CriterionMeasure(QUESTION, first, first, None, None)
    assert next(render_criterion_measure(measure, 0.05)).startswith("  a (must): unsteady ")


MEASURED = """\
  errors-not-swallowed (must)                      95 % interval
    false blocks           1 of 60    1.7%   0.0% to 8.9%
    found                 27 of 30   90.0%   73.5% to 97.9%
    precision             27 of 28   96.4%   81.7% to 99.9%
    agreement (kappa)                 0.90   0.62 to 0.99
    abstained              0 of 90    0.0%   0.0% to 4.0%
    tokens a case                      120   120 to 120
    USD a case                      0.0004   0.0004 to 0.0004
    clean cases: 60, 1 blocked: at most 7.7% false blocks (95 %)
    does not earn blocking yet: 115 clean cases with 1 blocked would
"""
"""Of sixty clean and thirty defective cases, as docs/guides/calibration.md shows it."""


def test_sixty_clean_and_thirty_defective_cases_are_shown_with_their_intervals() -> None:
    clean, blocked = LabelledAnswers(True, ("pass",)), LabelledAnswers(True, ("fail",))
    detected, missed = LabelledAnswers(False, ("fail",)), LabelledAnswers(False, ("pass",))
    counts = count_cases(CRITERION, [clean] * 59 + [blocked] + [detected] * 27 + [missed] * 3)
    question = Criterion(id=CRITERION, kind="judge", question="Is it?", must=True)
    measure = CriterionMeasure(
        question, counts, counts, Interval(120, 120, 120), Interval(0.0004, 0.0004, 0.0004)
    )
    assert "\n".join(render_criterion_measure(measure, 0.05)).split() == MEASURED.split()


def test_a_case_labels_criteria_by_what_it_expects_and_must_criteria_by_the_rubrics_pass() -> None:
    other = Criterion(id="b", kind="judge", question="Is it?")

    def label(criterion: Criterion, **file: object) -> bool | None:
        return Case("x", "", CaseFile(schema=1, rubric="quality", **file)).is_clean(criterion)  # type: ignore[arg-type]

    assert label(QUESTION, outcome="pass") is True
    assert label(other, outcome="pass") is None
    assert label(QUESTION, outcome="fail") is None
    assert [label(other, expect={"b": outcome}) for outcome in ("pass", "not_applicable", "fail", "abstain")] == [
        True, True, False, None,
    ]  # fmt: skip
