"""The walk, in-process: a real repository, a scripted model; the CLI itself where how it ends is
the subject.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from answers import CHANGES, HANDLER, answer_to, answers, fails, passes
from bundle_schemas import find_problems
from msgspec import UNSET
from repos import GATE, RUBRIC, SWALLOWS, Repo, gated, swallowing
from scripted_messages_api import ApiError, Hang, MessagesRequest, Text, ToolUse, Turn, Usage
from walks import LAST, await_review, run_review
from wire import answer, answering

from vibe_gate.agent import program_versions
from vibe_gate.domain.agent_hint import VariableHint
from vibe_gate.domain.calibration import Baseline, CriterionBaseline
from vibe_gate.domain.change import Selection
from vibe_gate.domain.label import Label
from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.receipt import parse
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import DefinitionError, UsageError
from vibe_gate.gate.trusted import own_gate
from vibe_gate.gate.writing import baseline_toml
from vibe_gate.judging.brief import TEMPLATE_VERSION
from vibe_gate.report.sentences import missing_key_note
from vibe_gate.report.waits import find_waits
from vibe_gate.run.review_result import Review
from vibe_gate.store.clone_state import open_state
from vibe_gate.version import __version__

pytestmark = pytest.mark.usefixtures("quick_agents")

PASSES = passes("errors-not-swallowed", "names-are-clear")
FAILS = answers(fails(), answer_to("names-are-clear"))


@dataclass
class Walk:
    """Reviews of one repository with one environment."""

    repo: Repo
    environ: dict[str, str]
    asked: list[MessagesRequest] = field(default_factory=list)
    """What the model of the last `answered` was asked."""

    @contextmanager
    def answering(self, *steps: Any, repeat_last: bool = False) -> Iterator[None]:
        """A model that says these things, for all reviews of the block."""
        before = self.environ
        with answering(*steps, repeat_last=repeat_last) as model:
            self.environ, self.asked = before | model.environ, model.script.requests
            yield
        self.environ = before

    def __call__(self, selection: Selection = LAST, **request: Any) -> Review:
        return run_review(self.repo.path, self.environ, selection, **request)


def events(walk: Walk, summary: Summary) -> list[dict[str, Any]]:
    lines = (walk.repo.path / summary.bundle / "events.ndjson").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture
def walk(tmp_path: Path, environ: dict[str, str]) -> Walk:
    return Walk(swallowing(tmp_path / "repo", environ), environ)


def outcomes(summary: Summary) -> dict[str, str]:
    return {
        criterion.id: criterion.outcome
        for rubric in summary.rubrics
        for criterion in rubric.criteria
    }


def review_with(walk: Walk, *steps: Any, **request: Any) -> Summary:
    with walk.answering(*steps):
        return walk(**request).summary


def change(walk: Walk, path: str = "src/load.py", text: str = SWALLOWS) -> Walk:
    """The walk, after a commit of one file."""
    walk.repo.write(path, text)
    walk.repo.commit("Change")
    return walk


@pytest.mark.every_python
def test_a_good_change_passes(walk):
    measurements: list[tuple[str, int, float]] = []
    summary = review_with(walk, PASSES, meter=lambda *spent: measurements.append(spent))
    assert (summary.outcome, summary.exit_code) == ("pass", 0)
    cost = summary.cost  # what a terminal shows while it grows
    assert measurements == [
        ("judge-quality", cost.input_tokens + cost.output_tokens, pytest.approx(cost.usd))
    ]
    assert summary.rubrics[0].score == 1.0
    assert [
        vote.changes for criterion in summary.rubrics[0].criteria for vote in criterion.votes
    ] == [CHANGES] * 2


@pytest.mark.every_python
def test_a_fail_with_evidence_fails_and_points_at_its_lines(walk):
    summary = review_with(walk, FAILS)
    assert (summary.outcome, summary.exit_code) == ("fail", 1)
    (finding,) = summary.findings
    assert (finding.path, finding.line, finding.end_line, finding.level) == (
        "src/load.py",
        4,
        4,
        "failure",
    )
    assert finding.evidence[0].standing == "holds"
    assert len(finding.fingerprint) == 16


def test_a_judge_blocks_when_it_has_earned_to_and_no_longer_when_a_person_says_that_it_was_wrong(
    walk,
):
    def trusted(trust: str) -> Summary:
        walk.repo.write(".vibe-gate/gate.toml", f"{GATE}[trust]\n{trust}\n")
        return review_with(walk, FAILS, definitions="worktree")

    def stands(summary: Summary) -> tuple[int, str, Any]:
        criterion, (finding,) = summary.rubrics[0].criteria[0], summary.findings
        return summary.exit_code, finding.level, criterion.would_block

    advised = trusted('uncalibrated = "advise"')
    assert stands(advised) == (0, "warning", True)
    [claim] = parse((walk.repo.path / advised.bundle / "receipt.json").read_bytes()).receipt.rubrics
    assert claim.advised == ("errors-not-swallowed",), (
        "no receipt claims that it passed what it failed"
    )
    measured = {
        "id": "errors-not-swallowed",
        "clean": 78,
        "clean_blocked": 0,
        "defective": 9,
        "found": 9,
    }
    quality = advised.rubrics[0]
    criterion_baseline, judge_model = CriterionBaseline(**measured), "claude-sonnet-5"
    walk.repo.write(".vibe-gate/baseline/quality.toml", baseline_toml(Baseline(
        schema=1, rubric="quality", digest=quality.digest, criterion=(criterion_baseline,), model=judge_model,
        template=TEMPLATE_VERSION, created_at="2026-11-27T00:00:00Z",
    )))  # fmt: skip
    assert stands(trusted('block = "earned"')) == (1, "failure", UNSET)
    with open_state(str(walk.repo.path / ".git")) as state:
        state.labels.append(Label(
            ts=datetime(2026, 11, 27, tzinfo=UTC), finding=advised.findings[0].fingerprint, rubric="quality", right=False,
            criterion="errors-not-swallowed", digest=quality.digest, model=judge_model, by="Ada <ada@x.org>", source="cli",
        ))  # fmt: skip
    back = trusted('block = "earned"')
    assert stands(back) == (0, "warning", True)
    assert (
        back.rubrics[0].criteria[0].trust.sentence
        == "calibrated: 1 of 79 clean blocked, 9 of 9 found"
    )


def test_a_baseline_that_a_change_brings_does_not_count_for_itself(walk):
    walk.repo.write(".vibe-gate/gate.toml", f'{GATE}[trust]\nuncalibrated = "advise"\n')
    walk.repo.commit("Trust")
    digest = own_gate(walk.repo.path).rubrics[0].digest
    walk.repo.write(".vibe-gate/baseline/quality.toml", baseline_toml(Baseline(
        schema=1, rubric="quality", digest=digest, model="claude-sonnet-5", template=TEMPLATE_VERSION,
        created_at="2026-11-27T00:00:00Z",
        criterion=(CriterionBaseline(id="errors-not-swallowed", clean=300, clean_blocked=0, defective=9, found=9),),
    )))  # fmt: skip
    for path, code, state in (
        ("src/more.py", 4, "uncalibrated"),
        ("src/third.py", 0, "calibrated"),
    ):
        summary = change(walk, path)(judge="never").summary
        assert (summary.exit_code, summary.rubrics[0].criteria[0].trust.state) == (code, state)


def test_invented_evidence_turns_a_fail_into_an_abstention(walk):
    summary = review_with(
        walk,
        answers(
            fails(HANDLER | {"quote": "    except Exception: return 0"}),
            answer_to("names-are-clear"),
        ),
    )
    criterion = summary.rubrics[0].criteria[0]
    assert (criterion.outcome, criterion.votes[0].said) == ("abstain", "fail")
    assert criterion.votes[0].evidence[0].why == "the quoted text is not in the file"
    assert summary.exit_code == 3


@pytest.mark.slow
def test_form_alone_costs_no_further_request(walk):
    """A line break in a quote, no side, a wrong number: each once cost up to five requests, and the
    answer.
    """
    loose = {"path": "src/load.py", "line": 90, "quote": "    except OSError:\n        pass\n"}
    summary = review_with(
        walk, answers(fails(loose), answer_to("names-are-clear", "PASS", evidence=None))
    )
    assert len(walk.asked) == 1
    (finding,) = summary.findings
    assert (finding.path, finding.line, finding.evidence[0].quote) == (
        "src/load.py",
        4,
        "except OSError:",
    )
    assert outcomes(summary) == {"errors-not-swallowed": "fail", "names-are-clear": "pass"}


@pytest.mark.slow
@pytest.mark.parametrize("mended", [True, False])
def test_an_answer_that_does_not_fit_goes_back_once_with_a_sentence_of_ours(walk, mended):
    wrong = answers(answer_to("errors-not-swallowed", "perhaps"), answer_to("names-are-clear"))
    summary = review_with(walk, wrong, PASSES if mended else wrong)
    assert len(walk.asked) == 2
    sentence = 'errors-not-swallowed has the outcome "perhaps"; the outcomes are pass, not_applicable, fail, abstain'
    (result,) = walk.asked[1].tool_results
    assert f"{sentence}. Give the whole answer once more, with only that changed." in result.text
    assert outcomes(summary) == {
        "errors-not-swallowed": "pass" if mended else "abstain",
        "names-are-clear": "pass",
    }
    assert mended or sentence in summary.rubrics[0].criteria[0].reason


@pytest.mark.slow
def test_an_answer_that_speaks_of_a_criterion_twice_decides_nothing(walk):
    summary = review_with(walk, *[passes("errors-not-swallowed", "errors-not-swallowed")] * 2)
    assert outcomes(summary) == {"errors-not-swallowed": "abstain", "names-are-clear": "abstain"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([Turn(Text("No."), stop_reason="refusal")], "refus"),
        ([Turn(Text("Well, let me"), stop_reason="max_tokens")], "token"),
        ([Turn(Text("All fine!"))] * 8, "answer"),
        ([Turn(ToolUse("StructuredOutput", PASSES), ToolUse("StructuredOutput", FAILS))], "answer"),
    ],
    ids=["refusal", "max_tokens", "no structured answer", "two answers"],
)
def test_no_usable_answer_is_inconclusive_never_a_pass_or_a_fail(walk, steps, reason):
    summary = review_with(walk, *steps)
    assert (summary.outcome, summary.exit_code) == ("inconclusive", 3)
    assert set(outcomes(summary).values()) == {"abstain"}
    assert reason in summary.rubrics[0].criteria[0].reason
    assert [item.path for item in summary.unreviewed] == ["src/load.py"]


@pytest.mark.slow
@pytest.mark.usefixtures("real_cli")
def test_an_infrastructure_fault_is_an_error_within_the_deadline(walk):
    import claude_agent_sdk  # noqa: F401  loaded here, it takes nothing of the deadline

    for deadline_s in (8, 40, 200):  # where others use the machine, it has begun by then
        summary = review_with(walk, *[ApiError(500)] * 12, deadline_s=deadline_s)
        (log,) = (walk.repo.path / summary.bundle).glob("nodes/judge-*/turn-001/events.ndjson")
        events = [json.loads(line) for line in log.read_text().splitlines()]
        waited = find_waits((event["ts"], event) for event in events)
        if waited:
            break
    assert (summary.outcome, summary.exit_code) == ("error", 3)
    assert "The deadline of" not in summary.unreviewed[0].reason
    assert [item.path for item in summary.unreviewed] == ["src/load.py"]
    assert events[0]["ts"] <= waited[0][0] and waited[-1][1] <= events[-1]["ts"]
    assert 500 < sum(end - start for start, end in waited) < deadline_s * 1_000


@pytest.mark.slow
@pytest.mark.usefixtures("real_cli")
def test_a_model_that_hangs_costs_no_more_than_the_deadline(walk):
    summary = review_with(walk, *[Hang()] * 5, deadline_s=4)
    assert summary.exit_code == 3
    assert "deadline of 4 s" in summary.unreviewed[0].reason


@pytest.mark.slow
def test_a_budget_that_does_not_pay_for_the_question_sends_no_request(walk):
    summary = review_with(walk, PASSES, max_cost_usd=0.000001)
    assert walk.asked == []
    assert (summary.outcome, summary.exit_code) == ("inconclusive", 3)
    assert "budget" in summary.unreviewed[0].reason


@pytest.mark.slow
@pytest.mark.usefixtures("real_cli")
def test_a_budget_reached_mid_run_is_an_event_and_both_name_what_was_not_reviewed(walk):
    looks = Turn(ToolUse("Read", {"file_path": "src/load.py"}), usage=Usage(100, 200_000))
    summary = review_with(walk, looks, PASSES, max_cost_usd=0.5)
    assert len(walk.asked) == 1
    assert (summary.outcome, summary.exit_code) == ("inconclusive", 3)
    assert [(item.path, "budget" in item.reason) for item in summary.unreviewed] == [
        ("src/load.py", True)
    ]
    (event,) = [event for event in events(walk, summary) if event["type"] == "budget.reached"]
    assert [item["path"] for item in event["data"]["not_asked"]] == ["src/load.py"]
    assert event["data"]["limit_usd"] == 0.5


@pytest.mark.slow
def test_a_change_of_12000_lines_is_asked_part_by_part(walk):
    change(walk, "src/table.py", "".join(f"v{i:05d} = {i}\n" for i in range(12_000)))
    with walk.answering(PASSES, repeat_last=True):
        summary = walk(max_cost_usd=50.0).summary
    requests = "".join(json.dumps(request.body) for request in walk.asked)
    assert all(f"v{i:05d} = " in requests for i in range(0, 12_000, 97))
    assert len(walk.asked) > 2
    assert (summary.outcome, summary.unreviewed) == ("pass", ())


def test_without_a_key_judge_criteria_are_inconclusive_with_one_line_of_advice(walk):
    review = walk()
    assert (review.summary.outcome, review.summary.exit_code) == ("inconclusive", 3)
    notes = (*missing_key_note(review.summary), *review.notes)
    assert sum("ANTHROPIC_API_KEY" in note for note in notes) == 1
    assert review.summary.cost.basis == "none"


def test_no_judge_asks_nobody_and_says_what_was_not_reviewed(walk):
    summary = walk(judge="never").summary
    assert (summary.outcome, summary.exit_code) == ("pass", 0)
    assert summary.unreviewed[0].reason == "not asked: --no-judge"
    run_record = json.loads((walk.repo.path / summary.bundle / "run.json").read_text())
    assert run_record["versions"] == {"vibe-gate": __version__} and "questions" not in run_record


def test_a_failing_must_check_binds_and_spares_the_judge(walk, tmp_path, environ):
    check = '[[criterion]]\nid = "no-marker"\nkind = "check"\ncheck = "no-conflict-markers"\nmust = true\n'
    walk.repo = gated(tmp_path / "other", environ, rubric=RUBRIC + check)
    change(walk, text="<<<<<<< ours\na = 1\n=======\na = 2\n>>>>>>> theirs\n")
    summary = review_with(walk, PASSES)
    assert walk.asked == []
    assert (summary.outcome, summary.exit_code) == ("fail", 1)
    assert "no-marker" in summary.unreviewed[0].reason


def test_a_failed_check_keeps_its_finding_if_another_rubric_gives_its_id_to_another_check(
    walk, tmp_path, environ
):
    """Else whoever overrides the findings of the one lets the other pass unseen."""

    def rubric(name: str, **checks: str) -> str:
        rows = (
            f'[[criterion]]\nid = "{id}"\nkind = "check"\n{check}\nmust = true\n'
            for id, check in checks.items()
        )
        return f'schema = 1\nid = "{name}"\n' + "".join(rows)

    text = 'check = "forbidden-pattern"\noptions.pattern = "bad"'
    lines = 'check = "no-deleted-files"'
    gate = 'schema = 1\nrubrics = ["quality", "second"]\n'
    walk.repo = gated(tmp_path / "two", environ, gate, rubric("quality", first=text, shared=lines))
    walk.repo.write(".vibe-gate/rubrics/second.toml", rubric("second", shared=text))
    walk.repo.commit("A second rubric")
    walk.repo.git("rm", "-q", "src/load.py")
    summary = change(walk, "a.py", "bad = 1\n")(judge="never").summary
    assert [(finding.criterion, finding.path) for finding in summary.findings] == [
        ("shared", ""),
        ("first", "a.py"),
        ("shared", "src/load.py"),
    ]


@pytest.mark.slow
def test_a_check_that_the_deadline_leaves_no_time_is_an_error_that_says_so(walk, tmp_path, environ):
    late = """
[[criterion]]
id = "sleeps"
kind = "check"
command = ["sleep", "60"]
[[criterion]]
id = "no-secret"
kind = "check"
check = "no-secrets"
must = true
"""
    walk.repo = gated(tmp_path / "late", environ, rubric=RUBRIC + late)
    summary = change(walk)(judge="never", deadline_s=3).summary
    checks = {criterion.id: criterion for criterion in summary.rubrics[0].criteria}
    assert checks["no-secret"].outcome == "error"
    assert "deadline" in checks["no-secret"].reason
    assert summary.exit_code == 3


@pytest.mark.slow
def test_new_only_runs_a_failing_command_on_the_tree_before_the_change_too(walk, tmp_path, environ):
    lint = """
[[criterion]]
id = "lint"
kind = "check"
command = ["sh", "-c", "for n in 1 2 3; do [ $n -gt $(cat bad) ] || echo f.py:$n: bad; done; [ $(cat bad) = 0 ]"]
options = { new_only = true }
must = true
"""
    walk.repo = gated(tmp_path / "linted", environ, rubric=RUBRIC + lint)
    outcomes = []
    walk.repo.commit(**{"bad": "1", "f.py": "1\n2\n3\n"})
    for bad in ("1 ", "3", "2", "0", "1"):
        walk.repo.commit(bad=bad)
        summary = walk(judge="never").summary
        outcomes.append(
            next(
                criterion.outcome
                for criterion in summary.rubrics[0].criteria
                if criterion.id == "lint"
            )
        )
    assert outcomes == ["pass", "fail", "pass", "pass", "fail"]
    [log] = walk.repo.path.glob(
        f".vibe-artifacts/{walk.repo.git('rev-parse', 'HEAD~4')}/*/checks.log"
    )
    assert "(exit code 1)\n" in log.read_text()
    assert "(exit code 1, on the tree before the change)\n" in log.read_text()


def test_nothing_to_review_records_nothing_and_passes(walk):
    summary = walk(Selection("staged")).summary
    assert (summary.run_id, summary.exit_code) == ("", 0)
    assert not (walk.repo.path / ".vibe-artifacts").exists()


@pytest.mark.slow
def test_a_change_of_the_gate_needs_a_human(walk):
    softer = RUBRIC.replace("must = true", "must = false")
    walk.repo.write(".vibe-gate/rubrics/quality.toml", softer)
    walk.repo.commit("Tune the rubric")
    summary = review_with(walk, PASSES)
    assert (summary.outcome, summary.exit_code) == ("pass", 4)
    (change,) = summary.policy_changes
    assert (change.path, change.level) == (".vibe-gate/rubrics/quality.toml", "block")
    assert "-must = true\n+must = false" in change.diff


@pytest.mark.slow
def test_definitions_that_do_not_parse_are_not_let_in_and_stop_later_reviews_until_they_are_repaired(
    walk,
):
    walk.repo.write(".vibe-gate/gate.toml", 'schema = 1\nrubric = ["quality"]\n')
    walk.repo.commit("Break the gate")
    with pytest.raises(DefinitionError, match="rubrics"):
        walk()
    walk.repo.commit("Next", a="x\n")
    with pytest.raises(DefinitionError, match="rubrics"):
        walk()
    walk.repo.write(".vibe-gate/gate.toml", GATE)
    walk.repo.commit("Repair the gate")
    assert review_with(walk, PASSES).exit_code == 4


def test_an_unknown_rubric_is_answered_with_the_nearest(walk):
    with pytest.raises(UsageError, match="quality"):
        walk(rubrics=("qualty",))


def test_a_review_leaves_index_head_refs_and_working_tree_as_they_were(walk):
    walk.repo.write("src/load.py", SWALLOWS + "# more\n")
    walk.repo.git("add", "-A")
    walk.repo.write("src/new.py", "x = 1\n")

    def state() -> dict[str, bytes]:
        return {
            str(path.relative_to(walk.repo.path)): path.read_bytes()
            for path in sorted(walk.repo.path.rglob("*"))
            if path.is_file() and not {".vibe-artifacts", "vibe-gate"} & {*path.parts}
        }

    before = state()
    for selection in (
        Selection("worktree"),
        Selection("staged"),
        Selection("commit"),
        Selection("range", "HEAD~1"),
    ):
        walk(selection)
    assert state() == before


@pytest.mark.slow
def test_files_that_change_during_the_review_are_an_integrity_error(walk):
    walk.repo.write("src/load.py", SWALLOWS + "x = 1\n")

    def meanwhile(request: Any) -> Turn:
        walk.repo.write("src/load.py", SWALLOWS + "x = 2\n")
        walk.repo.write("z.py", "")
        return answer(PASSES)

    with walk.answering(meanwhile):
        review = walk(selection=Selection("worktree"))
    assert (review.summary.outcome, review.summary.exit_code) == ("error", 5)
    assert review.notes[0] == "The verdict is not about the files that are there now. Review again."
    assert "Changed during the review: src/load.py and 1 more file." in review.notes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["0123456789abcdef-1.json", "notes.json"])
def test_what_a_review_records_in_the_working_tree_is_no_change_and_any_other_file_is(walk, name):
    """Of a recording of its own, and of another that is recorded beside it."""
    walk.repo.write("src/load.py", SWALLOWS + "x = 1\n")
    recordings = walk.repo.path / "cassettes"

    def meanwhile(request: Any) -> Turn:
        walk.repo.write(f"cassettes/other/{name}", "{}")
        return answer(PASSES)

    with walk.answering(meanwhile):
        review = walk(
            selection=Selection("worktree"), wire=Wire("record", recordings / "own", recordings)
        )
    assert len(list((recordings / "own").glob("*.json"))) == 1
    changed = [note for note in review.notes if note.startswith("Changed")]
    if name == "notes.json":
        assert changed == [f"Changed during the review: cassettes/other/{name}."]
    else:
        assert (changed, review.summary.outcome) == ([], "pass")


@pytest.mark.slow
def test_votes_that_are_needed_are_asked_at_once_and_stop_when_the_outcome_cannot_change(
    walk, tmp_path, environ
):
    walk.repo = gated(
        tmp_path / "voting",
        environ,
        rubric=RUBRIC.replace("schema = 1\n", "schema = 1\nvotes = 3\n"),
    )
    first = answers(fails(), answer_to("names-are-clear"))
    second = answers(answer_to("errors-not-swallowed"), answer_to("names-are-clear"))
    both_asked = Barrier(2, timeout=250)

    def side_by_side(content: dict[str, Any]) -> Callable[[Any], Turn]:
        def wait(_: Any) -> Turn:
            both_asked.wait()
            return answer(content)

        return wait

    summary = review_with(change(walk), side_by_side(first), side_by_side(second), answers(fails()))
    errors, names = summary.rubrics[0].criteria
    assert (errors.outcome, errors.decided_by, len(errors.votes)) == ("fail", "majority", 3)
    assert (names.outcome, names.decided_by, len(names.votes)) == ("pass", "unanimous", 2)
    assert len(walk.asked) == 3
    nodes = [event["node_id"] for event in events(walk, summary) if event["type"] == "node.added"]
    assert nodes == ["checks", "judge-quality"]


@pytest.mark.slow
@pytest.mark.usefixtures("real_cli")
def test_the_bundle_says_everything_and_is_sealed(walk, tmp_path, environ):
    summary = review_with(walk, FAILS)
    bundle = walk.repo.path / summary.bundle
    assert bundle.parts[-2] == summary.key == walk.repo.git("rev-parse", "HEAD")
    stored = json.loads((bundle / "summary.json").read_text())
    assert set(stored["digests"]) >= {"events.ndjson", "run.json", "graph.json", "change.patch"}
    run_record = json.loads((bundle / "run.json").read_text())
    programs = program_versions(environ["PATH"], tmp_path)
    assert run_record["versions"] == {"vibe-gate": __version__, **programs} and len(programs) == 2
    assert set(run_record["questions"]) == {
        "quality/errors-not-swallowed",
        "quality/names-are-clear",
    }
    stored.pop("digests")
    stored.pop("redacted", None)
    assert stored == json.loads(summary.to_json())
    turn = bundle / "nodes/judge-quality/turn-001"
    assert json.loads((turn / "summary.json").read_text())["metrics"]["totalTokens"] > 0
    assert "StructuredOutput" in (turn / "events.ndjson").read_text()
    before = walk.repo.git("show", "HEAD~1:src/load.py")
    assert any(before in path.read_text() for path in (bundle / "files").glob("*/*"))


def test_the_reviewed_change_can_be_applied_from_the_bundle(walk):
    summary = walk(judge="never").summary
    patch = walk.repo.path / summary.bundle / "change.patch"
    walk.repo.git("checkout", "-q", "HEAD~1")
    walk.repo.git("apply", "--index", str(patch))
    assert walk.repo.git("write-tree") == summary.change.after


@pytest.mark.parametrize("planted", ["file", "link"])
def test_a_store_that_cannot_be_written_costs_the_bundle_but_not_the_verdict(
    walk, tmp_path, planted
):
    store = walk.repo.path / ".vibe-artifacts"
    if planted == "file":
        store.write_text("in the way")
    else:
        store.symlink_to(tmp_path)
    review = walk(judge="never")
    assert (review.summary.outcome, review.summary.bundle) == ("pass", "")
    assert any(note.startswith("Unrecorded") for note in review.notes)


@pytest.mark.slow
def test_a_recorded_review_replays_offline_and_what_was_not_recorded_is_an_error_that_shows_the_difference(
    walk, tmp_path
):
    live = review_with(walk, FAILS, wire=Wire("record", tmp_path / "cassette"))
    replayed = walk(wire=Wire("replay", tmp_path / "cassette")).summary
    assert (replayed.rubrics, replayed.findings, replayed.exit_code) == (
        live.rubrics,
        live.findings,
        1,
    )
    walk.repo.write("src/load.py", SWALLOWS.replace("OSError", "ValueError"))
    walk.repo.git("commit", "-qa", "--amend", "-m", "Other")
    review = walk(wire=Wire("replay", tmp_path / "cassette"))
    assert (review.summary.outcome, review.summary.exit_code) == ("error", 3)
    assert any("ValueError" in note for note in review.notes)


TRUST = {
    "state": "uncalibrated", "sentence": "", "blocks": True, "clean": 0, "blocked": 0, "defective": 0, "found": 0,
    "wrong": 0, "flips": 0,
}  # fmt: skip
DOCUMENT = {
    "schema": 1, "run_id": "", "key": "", "workflow": "", "outcome": "", "exit_code": 0, "bundle": "",
    "trusted": {"revision": "", "bootstrap": False, "branch": ""},
    "change": {"before": "", "after": "", "base_commit": "", "head_commit": "", "patch_id": "", "range_patch_id": "",
               "files": [{"path": "", "old_path": None, "change_type": "", "added": 0, "deleted": 0, "binary": False}]},
    "rubrics": [{"id": "", "digest": "", "outcome": "", "score": 0.0, "coverage": 0.0, "pass_threshold": 0.7,
                 "criteria": [{"id": "", "kind": "", "must": False, "weight": 1, "outcome": "", "decided_by": "",
                               "votes": [], "reason": "", "trust": TRUST}]}],
    "findings": [], "policy_changes": [], "unreviewed": [], "agent_authored": {"decision": False, "hints": []},
    "cost": {
        "usd": 0.0, "basis": "", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "by_node": {},
        "by_model": {},
    },
    "cache": {"hits": 0, "misses": 0}, "duration_ms": 0,
}  # fmt: skip


def shape(value: Any) -> Any:
    """Keys and nesting; open maps and lists without an example stay closed."""
    if isinstance(value, dict):
        return {
            key: {} if key in ("by_node", "by_model") else shape(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [shape(value[0])]
    return "list" if isinstance(value, list) else "value"


@pytest.mark.slow
def test_the_document_has_exactly_the_keys_of_the_contract(walk):
    document = json.loads(review_with(walk, FAILS).to_json())
    document["findings"] = []
    document["rubrics"][0]["criteria"][0]["votes"] = []
    assert shape(document) == shape(DOCUMENT)
    assert list(document) == list(DOCUMENT)


@pytest.mark.slow
def test_the_same_question_is_never_paid_twice_and_needs_no_key_the_second_time(walk, tmp_path):
    with walk.answering(FAILS):
        first = walk()
    second = walk()
    walk.repo.git("commit", "-q", "--amend", "-m", "Another message")
    amended = walk()
    walk.repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "other"))
    walk.repo.path = tmp_path / "other"
    elsewhere = walk(Selection("range", "HEAD~1", "HEAD"))
    for later in (second, amended, elsewhere):
        assert later.summary.exit_code == 1
        assert later.summary.findings == first.summary.findings
        assert {c.decided_by for c in later.summary.rubrics[0].criteria} == {"cache"}
        assert (later.summary.cache.hits, later.summary.cache.misses) == (2, 0)
        assert later.summary.cost.usd == 0
    assert (first.summary.cache.hits, first.summary.cache.misses) == (0, 2)


@pytest.mark.slow
def test_force_another_model_another_rubric_or_a_damaged_cache_ask_again(walk):
    with walk.answering(PASSES, repeat_last=True):
        walk()
        walk(force=True)
        walk.repo.write(".vibe-gate/gate.toml", GATE + '[model]\ndefault = "another-model"\n')
        walk(definitions="worktree")
        walk.repo.write(".vibe-gate/rubrics/quality.toml", RUBRIC.replace("log it", "report it"))
        walk(definitions="worktree")
        with closing(
            sqlite3.connect(walk.repo.path / ".git/vibe-gate/state.db", isolation_level=None)
        ) as database:
            database.execute("UPDATE answers SET answer = substr(answer, 1, 40)")
        walk(definitions="worktree")
    assert len(walk.asked) == 5


@pytest.mark.slow
def test_an_answer_that_was_no_answer_is_asked_for_again(walk):
    with walk.answering(Turn(Text("No."), stop_reason="refusal"), PASSES):
        assert [walk().summary.exit_code, walk().summary.exit_code] == [3, 0]


@pytest.mark.slow
def test_the_authors_prose_is_withheld_unless_a_rubric_asks_and_then_the_worse_answer_counts(
    walk, tmp_path, environ
):
    walk.repo.git("commit", "-q", "--amend", "-m", "PROSE: perfectly safe")
    review_with(walk, PASSES)
    assert "PROSE" not in json.dumps(walk.asked[0].body)
    sees = RUBRIC.replace('id = "quality"\n', 'id = "quality"\nsees = ["message"]\n', 1)
    walk.repo = gated(tmp_path / "sees", environ, rubric=sees)
    walk.repo.write("src/load.py", SWALLOWS)
    walk.repo.commit("PROSE: perfectly safe")

    def persuaded(request: Any) -> Turn:
        return answer(PASSES if "PROSE" in json.dumps(request.body) else FAILS)

    assert review_with(walk, persuaded, persuaded).exit_code == 1
    assert len(walk.asked) == 2


HINTS = {
    "Co-Authored-By: Claude <noreply@anthropic.com>": "trailer Co-Authored-By: Claude",
    "🤖 Generated with [Claude Code](https://claude.com)": "message: generated with Claude Code",
    "Entire-Checkpoint: 0123abc": "trailer Entire-Checkpoint: 0123abc",
    " co-authored-by\u00a0: C < noreply@anthropic.com >": "trailer co-authored-by: Claude",
}


def test_hints_that_an_agent_wrote_the_change_are_said(walk):
    for line, hint in HINTS.items():
        walk.repo.git("commit", "-q", "--amend", "-m", f"Fix\n\n{line}\n")
        authored = walk(judge="never").summary.agent_authored
        assert (authored.decision, authored.hints[0].sentence.endswith(hint)) == (True, True), (
            authored.hints
        )


def test_a_change_by_a_person_has_no_hints_and_the_environment_speaks_of_uncommitted_work_only(
    walk,
):
    walk.environ["CLAUDECODE"] = "1"
    assert walk(judge="never").summary.agent_authored.hints == ()
    walk.repo.write("src/more.py", "x = 1\n")
    authored = walk(Selection("worktree"), judge="never").summary.agent_authored
    assert authored.hints == (VariableHint(name="CLAUDECODE", agent="Claude Code"),)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude-haiku-5-5", "sonnet"])
@pytest.mark.usefixtures("real_cli")
def test_a_session_has_one_cost_also_of_a_model_that_our_table_does_not_know(walk, name):
    walk.repo.write(".vibe-gate/gate.toml", GATE + f'[model]\ndefault = "{name}"\n')
    dear = answer(PASSES, usage=Usage(2_000, 3_000))
    summary = review_with(walk, dear, definitions="worktree", max_cost_usd=5.0)
    assert (summary.outcome, summary.cost.basis) == ("pass", "known")
    turn = walk.repo.path / summary.bundle / "nodes/judge-quality/turn-001"
    stored_cost = json.loads((turn / "summary.json").read_text())["metrics"]["totalCostUsd"]
    events = [json.loads(line) for line in (turn / "events.ndjson").read_text().splitlines()]
    *answers, usage = [event for event in events if event["type"] == "usage"]
    assert find_problems(turn.parents[2])[0] == []
    assert answers and sum(answer["cost"] for answer in answers) == pytest.approx(usage["cost"])
    by_node, by_model = summary.cost.by_node, summary.cost.by_model
    costs = (stored_cost, usage["cost"], summary.cost.usd, *by_node.values(), *by_model.values())
    assert costs == pytest.approx([summary.cost.usd] * 5)


@pytest.mark.slow
def test_a_days_budget_is_shared_by_all_runs_of_the_day(walk):
    walk.repo.write(
        ".vibe-gate/gate.toml", GATE + "[budget]\nmax_cost_usd = 0.50\nper_day_usd = 0.60\n"
    )
    walk.repo.commit("Set a day's budget")
    dear = answer(PASSES, usage=Usage(1_000, 36_000))
    with walk.answering(dear, PASSES):
        walk.repo.write("a.py", "a = 1\n")
        first = walk(Selection("worktree")).summary
        walk.repo.write("a.py", "a = 2\n")
        second = walk(Selection("worktree")).summary
    assert first.cost.usd > 0.1
    spent = open_state(walk.repo.path / ".git").spending.spent(datetime.now(UTC))
    assert spent == pytest.approx(first.cost.usd + second.cost.usd)
    assert first.cost.usd + second.cost.usd <= 0.60


@pytest.mark.slow
def test_a_day_that_is_spent_sends_no_request_and_says_budget(walk):
    walk.repo.write(".vibe-gate/gate.toml", GATE + "[budget]\nper_day_usd = 0.0001\n")
    walk.repo.commit("Set a day's budget")
    walk.repo.write("a.py", "a = 1\n")
    summary = review_with(walk, PASSES, selection=Selection("worktree"))
    assert walk.asked == []
    assert (summary.exit_code, "budget" in summary.unreviewed[0].reason) == (3, True)


@pytest.mark.slow
def test_a_secret_that_a_model_repeats_reaches_neither_the_bundle_nor_the_screen(walk):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    failing = fails() | {"reason": f"The token {token} is dropped."}
    summary = review_with(walk, answers(failing, answer_to("names-are-clear")))
    assert token not in summary.to_json()
    assert "[redacted:" in summary.findings[0].message


def test_a_secret_in_an_answer_that_fits_no_form_is_hidden_before_the_sentence_is_cut(walk):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    for entry in (answer_to("names-are-clear", token), answer_to(f"{token}{'x' * 99}")):
        summary = review_with(walk, *[answers(entry)] * 2, force=True)
        reasons = [criterion.reason for criterion in summary.rubrics[0].criteria]
        assert all(
            "does not fit its form" in reason and token[:8] not in reason for reason in reasons
        )


@pytest.mark.slow
@pytest.mark.parametrize("place", ["upstream", "branch from before the gate", "orphan branch"])
def test_what_the_remotes_default_branch_demands_binds_wherever_one_stands(
    walk, tmp_path, environ, place
):
    """Softening the gate in one commit and using that in the next must not work, pushed or not."""
    origin = tmp_path / "origin"
    walk.repo.git("clone", "-q", "--bare", ".", str(origin))
    walk.repo.git("remote", "add", "origin", str(origin))
    walk.repo.git("fetch", "-q", "origin")
    walk.repo.git("remote", "set-head", "origin", "-a")
    if place == "upstream":
        walk.repo.git("branch", "-q", "-u", "origin/main")
    elif place == "branch from before the gate":
        empty = walk.repo.git("hash-object", "-t", "tree", "-w", "/dev/null")
        walk.repo.git(
            "checkout", "-q", "-b", "fork", walk.repo.git("commit-tree", empty, "-m", "Older")
        )
    else:
        walk.repo.git("checkout", "-q", "--orphan", "own")
    walk.repo.write(".vibe-gate/gate.toml", GATE)
    walk.repo.write(
        ".vibe-gate/rubrics/quality.toml", RUBRIC.replace("must = true", "must = false")
    )
    walk.repo.commit("Soften")
    change(walk, "src/more.py")
    summary = review_with(
        walk, answers(fails(HANDLER | {"path": "src/more.py"}), answer_to("names-are-clear"))
    )
    assert summary.trusted.revision == walk.repo.git("rev-parse", "origin/main")
    assert (summary.rubrics[0].criteria[0].must, summary.exit_code) == (True, 1)


@pytest.mark.slow
def test_a_review_can_be_awaited_where_a_loop_runs_already(walk):
    ticks = []

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0.01)

    async def beside() -> Review:
        ticking = asyncio.create_task(tick())
        review = await await_review(walk.repo.path, walk.environ)
        ticking.cancel()
        return review

    with walk.answering(PASSES):
        assert asyncio.run(beside()).summary.outcome == "pass"
    assert len(ticks) > 3


def test_a_link_in_place_of_a_folder_that_criteria_speak_of_needs_a_human(walk, tmp_path, environ):
    scoped = RUBRIC.replace('kind = "judge"\n', 'kind = "judge"\npaths = ["src/**"]\n')
    walk.repo = gated(tmp_path / "scoped", environ, rubric=scoped)
    walk.repo.git("mv", "src", "lib")
    (walk.repo.path / "src").symlink_to("lib")
    walk.repo.commit("Move")
    summary = walk(judge="never").summary
    assert summary.exit_code == 4
    assert [(change.path, change.level) for change in summary.policy_changes] == [("src", "block")]


def test_a_git_in_the_reviewed_tree_is_not_the_one_that_runs(walk, tmp_path):
    planted = walk.repo.write("git", f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    planted.chmod(0o755)
    walk.environ["PATH"] = ".:" + walk.environ["PATH"]
    walk(Selection("worktree"), judge="never")
    assert not (tmp_path / "ran").exists()


def test_a_gitleaks_file_allows_from_the_trusted_revision_and_not_from_the_change(
    tmp_path, environ
):
    key, allows = "AK" + "IAZ7QWERTYUIOPASDF", "[allowlist]\nregexes = ['^AKIAZ7']\n"
    rubric = 'schema = 1\nid = "quality"\n[[criterion]]\nid = "secrets"\nkind = "check"\ncheck = "no-secrets"\n'
    repo = gated(tmp_path / "repo", environ, rubric=rubric)
    repo.commit(**{".gitleaks.toml": allows, "a.py": f"k = '{key}'\n"})
    brought = run_review(repo.path, environ, LAST).summary
    assert (brought.outcome, brought.findings[0].criterion) == ("fail", "secrets")
    assert (
        "This change's .gitleaks.toml counts once it is merged."
        in brought.rubrics[0].criteria[0].reason
    )
    repo.commit(**{"b.py": f"k = '{key}'\n"})
    assert run_review(repo.path, environ, LAST).summary.outcome == "pass"
