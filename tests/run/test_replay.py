"""Stored runs judged again: a real repository, a scripted model whose requests are counted at the
wire.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from replaying import LOGS, RUBRIC, SWALLOWS, History, judge
from repos import Repo
from walks import run_review
from wire import answering

from vibe_gate.context.mode import Batch, ReplayTrial
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.domain.cause import BudgetReached, NoKey
from vibe_gate.domain.change import Change, Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.label import Label
from vibe_gate.domain.replayed import (
    NOT_YET,
    ReplayRow,
    RubricChoice,
    compare_with_replay,
    sum_rows,
)
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult
from vibe_gate.git import open_repository
from vibe_gate.report.replays import render_replay_lines, replay_sentences
from vibe_gate.run.replay import plan_replays
from vibe_gate.run.run_documents import empty_summary
from vibe_gate.store.bundle_listing import find_bundles
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.worktree_bundles import Bundles

pytestmark = pytest.mark.usefixtures("quick_agents")

GOLDEN = Path(__file__).parents[1] / "golden" / "bundle-1"
NOTHING = empty_summary(Change("commit", "", "", "", "", "", "", ()))


def alter(summary: Path) -> None:
    """Change the outcome that a summary says from pass to fail."""
    text = summary.read_text().replace('"pass"', '"fail"').replace('"exit_code":0', '"exit_code":1')
    summary.write_text(text)


@pytest.fixture
def history(tmp_path: Path, environ: dict[str, str]) -> Iterator[History]:
    with answering(judge, repeat_last=True) as model:
        yield History(Repo(tmp_path / "repo", environ), model.environ, model.script.requests)


@pytest.fixture
def checked(tmp_path: Path, environ: dict[str, str]) -> History:
    """Its rubric is a check: a line that ends in `pass` blocks."""
    return History(Repo(tmp_path / "repo", environ), environ, None)


def test_the_built_in_gate_is_read_once_for_a_batch_but_not_for_a_change_that_brings_its_own(
    checked,
):
    checked.repo.git("rm", "-rq", ".vibe-gate")
    checked.base = checked.repo.commit("No gate")
    runs = [checked.reviewed(number) for number in range(3)]
    checked.repo.git("checkout", "-q", "--detach", checked.base)
    checked.forbid("pass$")
    checked.repo.commit("A gate", **{"src/load.py": "x = 1\n"})
    bringing_run = run_review(checked.path, checked.environ).summary
    checked.repo.git("checkout", "-q", "--detach", checked.base)
    gates: dict[str, Gate] = {}
    names = [(run.run_id, run.key) for run in (*runs, bringing_run)]
    *rows, bringing_row = checked.replayed_by_name(*names, gates=gates)
    assert [row.why for row in (*rows, bringing_row)] == [""] * 4
    assert gates["b"].origin == "built-in"
    replay = read_bundle(checked.path / bringing_row.bundle)
    assert replay.run_document["trusted"]["origin"] == "bootstrap"
    (second_row,) = checked.replayed_by_name(names[0], gates={"b": gates["b"]})
    assert second_row.changes == rows[0].changes


@pytest.mark.slow
def test_nothing_is_asked_under_the_same_rubric_also_by_the_stored_runs_own_answers(history):
    runs = [history.reviewed(number) for number in (0, 1)]
    rows, request_count = history.requests_of(*runs)
    assert (request_count, [row.changes for row in rows], [row.why for row in rows]) == (
        0,
        [(), ()],
        ["", ""],
    )
    history.forget_answers()
    rows, request_count = history.requests_of(*runs)
    assert (request_count, [row.changes for row in rows]) == (0, [(), ()])
    # What a bundle says is believed of its own run only: a review asks.
    run_review(history.path, history.environ)
    assert len(history.requests) > request_count


@pytest.mark.slow
def test_a_change_that_was_never_committed_is_made_again_from_its_stored_patch(checked):
    repo = checked.repo
    repo.commit(
        "More",
        **{"a.txt": "one\ntwo\n" * 9, "mode.sh": "echo\n", "bin": bytes(range(256)), "link": "x"},
    )
    (checked.path / "a.txt").rename(checked.path / "ü moved.txt")
    (checked.path / "mode.sh").chmod(0o755)
    (checked.path / "link").unlink()
    (checked.path / "link").symlink_to("mode.sh")
    repo.write("bin", bytes(reversed(range(256))))
    repo.write("src/load.py", SWALLOWS.replace("\n", "\r\n").removesuffix("\r\n"))
    run = run_review(checked.path, checked.environ, Selection("worktree")).summary
    repo.git("clean", "-qfd")
    repo.git("checkout", "-qf", ".")
    checked.forbid("nothing")
    (row,) = checked.replayed(run)
    assert (row.why, row.blocked, row.blocks) == ("", True, False)
    replay_result = read_bundle(checked.path / row.bundle)
    assert (replay_result.summary.change.after, replay_result.run_document["replay_of"]) == (
        run.change.after,
        run.run_id,
    )


@pytest.mark.slow
def test_of_two_trees_one_is_enough(checked, tmp_path):
    run = checked.reviewed(0)
    checked.repo.git("checkout", "-q", "-B", "main")
    checked.repo.git(
        "clone", "-q", "--depth", "1", f"file://{checked.path}", str(tmp_path / "shallow")
    )
    shutil.copytree(checked.path / ".vibe-artifacts", tmp_path / "shallow" / ".vibe-artifacts")
    checked.path = tmp_path / "shallow"
    (row,) = checked.replayed(run)
    assert (row.why, row.blocked, row.blocks) == ("", True, True)
    assert read_bundle(checked.path / row.bundle).summary.change.before == run.change.before


@pytest.mark.slow
def test_a_run_whose_contents_cannot_be_had_is_named_with_the_reason(checked):
    deleted = checked.reviewed(1)
    shutil.rmtree(checked.path / deleted.bundle)
    checked.repo.write("src/load.py", f"TOKEN = 'ghp_{'a1B2' * 9}'\n")
    redacted = run_review(checked.path, checked.environ, Selection("worktree")).summary
    checked.repo.git("checkout", "-qf", ".")
    old = json.loads((GOLDEN / "summary.json").read_text())
    shutil.copytree(GOLDEN, checked.path / ".vibe-artifacts" / old["key"] / old["run_id"])
    incomplete, altered = checked.reviewed(2), checked.reviewed(4)
    (checked.path / incomplete.bundle / "change.patch").unlink()
    alter(checked.path / altered.bundle / "summary.json")
    names = [(run.run_id, run.key) for run in (deleted, redacted, incomplete, altered)]
    reasons = [row.why for row in checked.replayed_by_name(*names, (old["run_id"], old["key"]))]
    assert reasons[0] == "its bundle is not here: deleted, or never in this clone"
    assert (
        reasons[1]
        == "secrets were redacted from what is stored of its files, and git has them no more"
    )
    assert "change.patch" in reasons[2]
    assert "is corrupt: the receipt belongs to another run." in reasons[3]
    assert reasons[4].startswith("neither tree of its change is in this clone (")


@pytest.mark.slow
def test_replays_are_found_as_nothing_but_replays(checked):
    run = checked.reviewed(0)
    checked.forbid("nothing")
    (row,) = checked.replayed(run)
    assert [entry.run_id for entry in find_bundles(checked.path)] == [run.run_id]
    assert [
        entry.run_id for entry in find_bundles(checked.path, commit=run.change.head_commit)
    ] == [run.run_id]
    (entry,) = (entry for entry in find_bundles(checked.path, replays=True) if entry.replay_of)
    assert (entry.run_id, entry.replay_of, entry.outcome) == (row.replay, run.run_id, "pass")
    assert not (checked.path / row.bundle / "receipt.json").exists()


@pytest.mark.slow
def test_what_a_run_said_before_is_not_believed_if_it_was_altered_since_its_replay(checked):
    run = checked.reviewed(1)
    (row,) = checked.replayed(run)
    request = ReviewRequest(Selection("range"), definitions="worktree")
    trial = ReplayTrial(Batch("b"))
    with open_repository(checked.path, read_environment(checked.environ)) as repository:
        bundles = Bundles(checked.path, Provenance(datetime.now(UTC), repository.tracked(STORE)))
        chosen = [RunEntry(run.run_id, run.key)]
        (recorded_row,) = plan_replays(
            repository, bundles, chosen, request, trial, can_ask=False
        ).recorded_rows
        assert recorded_row.recorded is True
        assert recorded_row.replay == row.replay
        assert recorded_row.why == ""
        alter(checked.path / run.bundle / "summary.json")
        (recorded_row,) = plan_replays(
            repository, bundles, chosen, request, trial, can_ask=False
        ).recorded_rows
    assert "is corrupt: the receipt belongs to another run." in recorded_row.why


@pytest.mark.slow
def test_another_model_is_asked_in_place_of_every_judge(history):
    run = history.reviewed(1)
    (row,), request_count = history.requests_of(run, judge_model="claude-opus-4-8")
    assert request_count == 1
    assert history.requests[-1].body["model"] == "claude-opus-4-8"
    assert row.changes == ()


# Comparisons


def summary_with(outcome: str, finding: str = "", rubric: str = "quality") -> Summary:
    criterion = CriterionResult(
        id="c",
        kind="check",
        must=True,
        weight=1,
        outcome=outcome if outcome in ("pass", "fail") else "abstain",
        decided_by="check",
    )
    return replace(
        NOTHING,
        outcome=outcome,
        rubrics=(
            RubricResult(
                id=rubric, digest="", outcome=outcome, score=0, coverage=1, criteria=(criterion,)
            ),
        ),
        findings=(
            Finding(
                path="a",
                line=1,
                end_line=1,
                level="failure",
                criterion="c",
                message="m",
                fingerprint=finding,
            ),
        )
        if finding
        else (),
    )


def label_of(finding: str, *, right: bool) -> Label:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Label(
        ts=at,
        finding=finding,
        rubric="quality",
        criterion="c",
        right=right,
        by="Ada",
        digest="",
        source="cli",
    )


def test_what_people_said_of_runs_that_are_blocked_no_longer_or_newly_is_counted():
    a, b, c = (letter * 16 for letter in "abc")
    labels = [label_of(a, right=False), label_of(b, right=True), label_of(c, right=False)]
    rows = [
        compare_with_replay(summary_with("fail", a), summary_with("pass"), RubricChoice(), labels),
        compare_with_replay(summary_with("fail", b), summary_with("pass"), RubricChoice(), labels),
        compare_with_replay(
            summary_with("fail", "d" * 16), summary_with("pass"), RubricChoice(), labels
        ),
        compare_with_replay(summary_with("pass"), summary_with("fail", c), RubricChoice(), labels),
        compare_with_replay(
            summary_with("pass"),
            summary_with("fail", rubric="other"),
            RubricChoice(("quality",)),
            labels,
        ),
        compare_with_replay(
            summary_with("fail", a), summary_with("inconclusive"), RubricChoice(), labels
        ),
        ReplayRow(run_id="x", why="gone"),
    ]
    assert [row.said for row in rows] == ["wrong", "right", "", "wrong", "", "wrong", ""]
    assert [change.before for change in rows[0].changes] == ["fail"]
    assert [change.fingerprint for change in rows[0].changes[0].findings] == [a]
    total = sum_rows(rows)
    assert (total.runs, total.replayed, total.new, total.new_wrong, total.open) == (7, 6, 1, 1, 1)
    assert (total.gone, total.gone_wrong, total.gone_right) == (3, 1, 1)


@pytest.mark.slow
def test_a_rubric_whose_questions_are_the_same_asks_nothing(history):
    run = history.reviewed(0)
    history.forget_answers()
    history.repo.write(
        ".vibe-gate/rubrics/quality.toml",
        RUBRIC.replace("KIND", "new").replace("must = true\n", ""),
    )
    (row,), request_count = history.requests_of(run)
    assert (request_count, row.blocked, row.blocks, row.changes) == (0, True, True, ())


@pytest.mark.slow
def test_a_rubric_that_sees_a_message_which_nothing_here_has_cannot_be_asked(history):
    history.repo.git("checkout", "-q", "-b", "lost", history.base)
    history.repo.commit("Lost", **{"src/load.py": LOGS})
    run = run_review(history.path, history.environ).summary
    history.repo.git("checkout", "-q", "main")
    history.repo.git("branch", "-qD", "lost")
    history.repo.git("reflog", "expire", "--expire=now", "--all")
    history.repo.git("gc", "-q", "--prune=now")
    history.define("lax")
    (row,) = history.replayed(run)
    assert (row.why, row.blocks) == ("", False)
    history.repo.write(
        ".vibe-gate/rubrics/quality.toml", RUBRIC.replace("[[", 'sees = ["message"]\n[[', 1)
    )
    (row,) = history.replayed(run)
    assert row.why.startswith("rubric quality sees the commit message")


@pytest.mark.slow
def test_stored_runs_under_the_same_a_stricter_and_a_laxer_rubric(history):
    runs = [history.reviewed(number) for number in range(3)]
    assert [run.outcome for run in runs] == ["fail", "pass", "pass"]
    for forgotten in (False, True):
        if forgotten:
            history.forget_answers()
        rows, request_count = history.requests_of(*runs)
        total = sum_rows(rows)
        assert (total.replayed, total.new, total.gone, total.usd) == (3, 0, 0, 0.0)
        assert request_count == 0
    history.define("strict")
    strict_rows, request_count = history.requests_of(*runs)
    assert request_count
    assert history.requests_of(*runs)[1] == 0
    assert [(row.blocked, row.blocks, row.why) for row in strict_rows] == [
        (True, True, ""),
        *[(False, True, "")] * 2,
    ]
    assert sum_rows(strict_rows).new == 2
    (change,) = strict_rows[1].changes
    assert (change.criterion, change.before, change.after) == (
        "errors-not-swallowed",
        "pass",
        "fail",
    )
    assert change.findings[0].path == "src/load.py"
    history.define("lax")
    lax_rows, request_count = history.requests_of(*runs)
    assert request_count
    assert [(row.blocked, row.blocks) for row in lax_rows] == [
        (True, False),
        *[(False, False)] * 2,
    ]
    assert sum_rows(lax_rows).gone == 1


def test_a_rubric_that_came_or_went_without_a_fail_is_not_shown():
    row = compare_with_replay(
        summary_with("pass", rubric="old"), summary_with("pass"), RubricChoice(), ()
    )
    assert [(change.rubric, change.before, change.after) for change in row.changes] == [
        ("quality", "not asked", "pass"),
        ("old", "pass", "not asked"),
    ]
    assert row.visible_changes == ()
    assert (
        len(
            compare_with_replay(
                summary_with("fail", rubric="old"), summary_with("pass"), RubricChoice(), ()
            ).visible_changes
        )
        == 1
    )


def test_questions_that_no_judge_was_asked_for_want_of_a_key_are_one_sentence_and_leave_the_run_undecided():
    def judged(outcome: str, **fields: Any) -> Summary:
        kind = {"kind": "judge", "must": True, "weight": 1, "decided_by": "none"}
        results = tuple(
            CriterionResult(id=name, outcome=outcome, **kind, **fields) for name in "ab"
        )
        run = "inconclusive" if outcome == "abstain" else "pass"
        rubric = RubricResult(
            id="general", digest="", outcome=run, score=0, coverage=1, criteria=results
        )
        return replace(NOTHING, outcome=run, rubrics=(rubric,))

    before = judged("pass")
    rows = [
        compare_with_replay(before, judged(outcome, cause=NoKey()), RubricChoice(), ())
        for outcome in ("not_applicable", "abstain")
    ]
    assert [(row.open, row.unasked, row.visible_changes) for row in rows] == [(True, 2, ())] * 2
    assert [*render_replay_lines(rows)] == [
        "0 of 2 could be judged again (no API key: set ANTHROPIC_API_KEY); $0.00.",
    ]
    assert not compare_with_replay(
        before, judged("not_applicable", cause=NoKey()), RubricChoice(("safety",)), ()
    ).open


def test_a_run_that_is_not_replayed_yet_is_no_run_that_cannot_be_replayed():
    rows = [
        ReplayRow(run_id="a", why=NOT_YET),
        ReplayRow(run_id="b", why=NOT_YET),
        ReplayRow(run_id="c", why="gone"),
    ]
    assert [*render_replay_lines(rows)] == [
        "not replayed yet: 2 runs", "cannot be replayed: 1 run", "  c: gone",
        "0 of 1 could be judged again (gone); $0.00.",
    ]  # fmt: skip


BUDGET = BudgetReached(limit_usd=0.0004)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([ReplayRow(run_id="a", unjudged=BUDGET.reason, cause=BUDGET, open=True, usd=0.0006)] * 3,
         "0 of 3 could be judged again (its budget of $0.001); $0.00."),
        ([ReplayRow(run_id="a", unjudged=BUDGET.reason, cause=BUDGET, open=True, usd=0.25),
          ReplayRow(run_id="b", why="the budget is used up", cause=BUDGET)],
         "0 of 2 could be judged again (its budget of $0.001); $0.25."),
        ([ReplayRow(run_id="a", blocks=True, usd=0.5),
          ReplayRow(run_id="b", why="the budget is used up", cause=BUDGET)],
         "Would have blocked 1 of 1, would no longer block 0; $0.50. "
         "1 of 2 could not be judged again (its budget of $0.001)."),
        ([ReplayRow(run_id="a", unjudged="The model's API does not answer.", open=True)],
         "0 of 1 could be judged again (The model's API does not answer); $0.00."),
        ([ReplayRow(run_id="a", open=True)], "Would have blocked 0 of 1, would no longer block 0; $0.00. 1 run is "
         "undecided now."),
    ],
)  # fmt: skip
def test_runs_that_no_judge_answered_for_are_not_told_as_passed(rows, sentence):
    assert " ".join(replay_sentences(sum_rows(rows), 0.001)) == sentence


def test_a_replay_whose_questions_have_no_answer_was_not_judged():
    def judged(outcome: str, **fields: Any) -> Summary:
        result = CriterionResult(
            id="a", kind="judge", must=True, weight=1, outcome=outcome, decided_by="none", **fields
        )
        rubric = RubricResult(
            id="r", digest="", outcome="inconclusive", score=0, coverage=0, criteria=(result,)
        )
        return replace(NOTHING, outcome="inconclusive", rubrics=(rubric,))

    row = compare_with_replay(NOTHING, judged("abstain", cause=BUDGET), RubricChoice(), ())
    assert (row.unjudged, row.cause, row.open) == (BUDGET.reason, BUDGET, True)
    failed = replace(judged("fail"), outcome="fail")
    failed = replace(failed, rubrics=(replace(failed.rubrics[0], outcome="fail"),))
    assert compare_with_replay(NOTHING, failed, RubricChoice(), ()).unjudged == ""
