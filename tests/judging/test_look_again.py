"""Second looks in one process: what is asked about which fail, what is kept, and what an answer
counts for.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from domain.changes import added, change, file_change
from fail_votes import fail_vote
from msgspec import UNSET
from msgspec.structs import replace
from scripted_model import NONCE, EventLog, Script, ScriptedModel, answered, unanswered_end
from text_tree import FileTree, text_tree

from vibe_gate.context.deadline import Deadline
from vibe_gate.context.facts import Facts
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import paths
from vibe_gate.domain.cause import NoKey
from vibe_gate.domain.change import Selection
from vibe_gate.domain.document import read as read_document
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import AgentAuthored, Cost
from vibe_gate.domain.verdict import CheckedEvidence, SecondLook, Vote
from vibe_gate.errors import InfrastructureError
from vibe_gate.gate.loading import built_in_gate
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.cast_vote import RubricVotes
from vibe_gate.judging.decide import OpenFail
from vibe_gate.judging.second_look import MAX_LOOKED, check_look, look_again, look_questions
from vibe_gate.judging.second_look_brief import LOOK_PROMPT, build_look_schema, write_look_objection
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import open_state

GUARD = "    if not os.path.exists(path):"
MAIN = f"""\
import os


def main(path):
{GUARD}
        raise SystemExit
    load(path)
"""
AFTER = FileTree(
    {
        "src/main.py": MAIN.encode(),
        "src/load.py": b"def load(path):\n    return None\n}\n",
        "after/src/main.py": b"another = 'file of that name'\n",
        "a\tb.py": b"checked_before = True\n",
    }
)
BEFORE = FileTree(
    {
        "src/load.py": b"def load(path):\n    return open(path).read()\n",
        "gone.py": b"assert exists(path)\n",
    }
)
CHANGE = change(
    file_change("src/load.py", BEFORE["src/load.py"], AFTER["src/load.py"]),
    added("src/main.py", AFTER["src/main.py"]),
)
NOW = datetime(2026, 3, 1, tzinfo=UTC)
TABBED = paths.quote("a\tb.py")
TOKEN = "gh" + "p_" + "Zq8vW3nB5mK7xL2cR9tY4uI6oP1aS0dF3gH5"
PREVENTS = {"path": "src/main.py", "line": 5, "quote": GUARD, "side": "after"}


def rubric_of(**keys: object) -> Rubric:
    criterion = {"id": "works", "kind": "judge", "question": "Does it work?", "must": True}
    return read_document(Rubric, {"schema": 1, "id": "quality", "criterion": [criterion]} | keys)


def fail_at(line: int, turn: str = "nodes/judge-quality-b/turn-001", **values: Any) -> Vote:
    evidence = CheckedEvidence(
        path="src/load.py", line=line, end_line=line, quote="x", standing="holds"
    )
    reason = values.pop("reason", f"at {line}")
    return fail_vote(reason, evidence, counterexample="a -> b", turn=turn, **values)


class ExportedTrees:
    """A repository with two trees, as second looks use one."""

    def __init__(self) -> None:
        self.exported: dict[str, tuple[Path, Collection[str] | None]] = {}
        self.trees = {CHANGE.after: AFTER, CHANGE.before: BEFORE}
        self.unchanged = {CHANGE.after: True, CHANGE.before: True}
        self.problem = ""

    def kept_export(self) -> AbstractContextManager[None]:
        """Another review has it."""
        return nullcontext()

    def export(
        self,
        tree: str,
        destination: Path,
        only: Collection[str] | None = None,
        *,
        replace: bool = False,
        record: Path | None = None,
    ) -> Any:
        assert not replace
        assert record is None
        if self.problem:
            raise InfrastructureError(self.problem)
        self.exported[tree] = (destination, only)
        return SimpleNamespace(unchanged=lambda: self.unchanged[tree])

    def tree(self, name: str) -> FileTree:
        return self.trees[name]


class Looking:
    """Second looks of one clone at the fails of a rubric with one criterion."""

    def __init__(self, folder: Path, *fails: Vote, stage: str = "", **keys: object) -> None:
        self.rubric, self.folder = rubric_of(**keys), folder
        self.votes = fails or (fail_at(1),)
        self.fingerprint = ""
        gate = built_in_gate(text_tree({}))
        self.facts = Facts(CHANGE, gate, (self.rubric,), (), AgentAuthored(), stage=stage)
        self.repository, self.record = ExportedTrees(), EventLog()
        self.state = open_state(folder / "git")
        self.messages: list[str] = []
        self.deadline = Deadline(time.monotonic(), 60)

    def __call__(
        self, script: Script, votes: list[tuple[Vote, ...]] | None = None, **values: Any
    ) -> Answers:
        """The answers after a second look at each group of votes (by default: at each by
        itself).
        """
        self.model = ScriptedModel(script, self.folder)
        for name in ("wire", "obstacle"):
            if name in values:
                setattr(self.model, name, values.pop(name))
        self.model.gateway.ledger.reached = values.pop("reached", False)
        request = ReviewRequest(Selection("commit"), **values)
        groups = votes or [(vote,) for vote in self.votes]
        criterion = self.rubric.criterion[0]
        self.fails = [
            OpenFail(
                self.rubric,
                criterion,
                tuple(defect for vote in group for defect in vote.defects),
                tuple(vote.turn for vote in group),
                self.fingerprint,
            )
            for group in groups
        ]
        self.run: Any = SimpleNamespace(
            environment=read_environment({}), clock=lambda: NOW, state=self.state, record=self.record,
            redactor=Redactor({}), deadline=self.deadline,
        )  # fmt: skip
        answers = Answers(
            {"quality": (RubricVotes(by_criterion={"works": self.votes}),)}, notes=("before",)
        )
        looking = look_again(
            self.fails,
            answers,
            request,
            self.facts,
            self.repository,
            self.run,
            self.messages.append,
            self.model,
        )
        return asyncio.run(looking)

    def looks(self, script: Script, **values: Any) -> list[SecondLook]:
        """The second look at each vote."""
        return [
            vote.defects[0].second_look
            for vote in self(script, **values).by_rubric["quality"][0].by_criterion["works"]
        ]

    def look(self, script: Script, **values: Any) -> SecondLook:
        (look,) = self.looks(script, **values)
        return look


@pytest.fixture
def looking(tmp_path: Path) -> Looking:
    return Looking(tmp_path)


def look_answer(
    outcome: str, *evidence: dict[str, Any], reason: str = "main leaves first.", **fields: Any
):
    return answered({"answers": [about_fields(1, outcome, *evidence, reason=reason, **fields)]})


def about_fields(
    number: int, outcome: str, *evidence: dict[str, Any], **fields: Any
) -> dict[str, Any]:
    """What an answer says of the finding with that number."""
    answer = {"finding": number, "trace": "", "outcome": outcome, "stops": True}
    return {**answer, "evidence": list(evidence), **fields}


STANDS, REFUTED = look_answer("stands", reason="It happens."), look_answer("refuted", PREVENTS)


def test_a_conversation_is_told_the_fail_and_what_the_run_allows_it(looking: Looking) -> None:
    looking(STANDS)
    (turn,) = looking.model.turns
    assert (turn.node, turn.model, turn.tools) == (
        "second-look-quality",
        "claude-sonnet-5",
        ("Read", "Grep", "Glob"),
    )
    assert (turn.max_turns, turn.max_cost_usd, turn.patience_s) == (20, 0.25, math.inf)
    assert turn.folder == looking.folder / "second-look"
    assert (turn.system_prompt, turn.schema) == (LOOK_PROMPT, build_look_schema())
    assert turn.objection(STANDS.answer) == write_look_objection(1, STANDS.answer) == ""
    assert turn.objection({"answers": []})
    assert NONCE in turn.prompt
    assert "Does it work?" in turn.prompt
    assert "a -> b" in turn.prompt


def test_both_trees_are_there_to_be_read(looking: Looking) -> None:
    looking(STANDS)
    folder = looking.folder / "second-look"
    assert looking.repository.exported == {
        CHANGE.after: (folder / "after", None),
        CHANGE.before: (folder / "before", {"src/load.py"}),
    }


def test_each_look_is_a_node_behind_the_conversation_that_it_is_about(looking: Looking) -> None:
    looking(STANDS)
    assert looking.record.events == [
        (
            "node.added",
            "second-look-quality",
            {
                "kind": "judge",
                "digest": looking.rubric.digest,
                "config": {
                    "model": "claude-sonnet-5",
                    "tools": ["Read", "Grep", "Glob"],
                    "max_turns": 20,
                    "rubrics": ["quality"],
                    "criteria": ["quality/works"],
                },
            },
        ),
        ("edge.added", "", {"from": "judge-quality-b", "to": "second-look-quality"}),
    ]


def test_a_look_at_the_fail_of_an_earlier_run_is_a_node_behind_the_checks(tmp_path: Path) -> None:
    looking = Looking(
        tmp_path, fail_at(1, turn=".vibe-artifacts/commit/run/nodes/judge/turn-001"), stage="review"
    )
    looking(STANDS)
    assert looking.record.events[1] == (
        "edge.added",
        "",
        {"from": "review-checks", "to": looking.model.turns[0].node},
    )
    assert looking.model.turns[0].node == "review-second-look-quality"
    assert looking.model.turns[0].folder == looking.folder / "review" / "second-look"


def test_the_findings_of_one_criterion_are_looked_at_together(tmp_path: Path) -> None:
    looking = Looking(tmp_path, fail_at(1), fail_at(2), fail_at(3))
    answer = {
        "answers": [
            about_fields(3, "stands"),
            about_fields(2, "refuted", PREVENTS),
            about_fields(1, "intended"),
        ]
    }
    looks = looking.looks([answered(answer)])
    (turn,) = looking.model.turns
    assert [row for row in turn.prompt.splitlines() if row.startswith("| finding")] == [
        "| finding 1", "| finding 2", "| finding 3",
    ]  # fmt: skip
    assert [look.outcome for look in looks] == ["undecided", "refuted", "stands"]
    assert looking.messages == ["taking a second look at 3 findings"]
    looking(STANDS)
    assert looking.model.turns == [], "each is kept by itself"


def test_a_finding_that_is_left_out_of_the_answer_is_undecided_and_asked_about_again(
    tmp_path: Path,
) -> None:
    looking = Looking(tmp_path, fail_at(1), fail_at(2))
    looks = looking.looks([answered({"answers": [about_fields(2, "stands")]})])
    assert [(look.outcome, look.said) for look in looks] == [
        ("undecided", None), ("stands", "stands"),
    ]  # fmt: skip
    looks = looking.looks([STANDS])
    assert [look.said for look in looks] == ["stands", "stands"]
    assert looking.model.turns[0].prompt.count("| finding") == 1


def test_more_findings_than_one_conversation_has_have_nodes_of_their_own(tmp_path: Path) -> None:
    looking = Looking(tmp_path, *(fail_at(line) for line in range(1, MAX_LOOKED + 2)))
    answers = {"answers": [about_fields(number, "stands") for number in range(1, MAX_LOOKED + 1)]}
    looks = looking.looks([answered(answers), STANDS])
    assert [turn.node for turn in looking.model.turns] == [
        "second-look-quality", "second-look-quality-b",
    ]  # fmt: skip
    assert {look.said for look in looks} == {"stands"}


def test_votes_at_one_line_get_one_look_and_a_vote_that_is_not_asked_about_none(
    tmp_path: Path,
) -> None:
    first, second, other = fail_at(1), fail_at(1, reason="the same"), fail_at(2)
    looking = Looking(tmp_path, first, second, other)
    looks = looking.looks([REFUTED], votes=[(first, second)])
    assert len(looking.model.turns) == 1
    assert looks[0] == looks[1] != UNSET
    assert looks[2] is UNSET


def test_the_same_fail_in_two_votes_is_asked_about_once(tmp_path: Path) -> None:
    looking = Looking(
        tmp_path, fail_at(1), replace(fail_at(1), turn="nodes/judge-quality/turn-002")
    )
    assert [look.outcome for look in looking.looks([STANDS])] == ["stands", "stands"]
    assert len(looking.model.turns) == 1


@pytest.mark.parametrize(
    ("keys", "model", "fallbacks"),
    [
        ({}, "claude-sonnet-5", []),
        ({"model": "model-a"}, "model-a", []),
        ({"votes": 2, "models": ["model-b", "model-c"]}, "model-b", []),
        # A cheaper one casts the vote, and the last one looks again.
        ({"votes": 1, "models": ["model-b", "model-c"]}, "model-c", []),
        ({"model": "model-a", "fallback": "model-d"}, "model-a", ["model-d"]),
    ],
)
def test_the_rubrics_first_model_is_asked_and_its_fallback_if_that_one_is_gone(
    tmp_path, keys, model, fallbacks
) -> None:
    looking = Looking(tmp_path, **keys)
    missing_result = unanswered_end("api_error", f"HTTP 404 {TOKEN}", is_unavailable=True)
    look = looking.look(
        lambda turn: missing_result if turn.model == model and fallbacks else STANDS
    )
    assert [turn.model for turn in looking.model.turns] == [model, *fallbacks]
    assert look.model == (fallbacks or [model])[0]
    assert TOKEN not in repr(looking.model.unavailable)


def test_the_answers_have_what_it_cost_and_what_is_to_be_said(looking: Looking) -> None:
    answers = looking(STANDS)
    assert (answers.cost, answers.notes, answers.intact) == (
        Cost(usd=0.125), ("before", "a note of the model"), True,
    )  # fmt: skip
    assert looking.messages == ["taking a second look at 1 finding"]
    assert looking.model.is_open
    looking.model.gateway.on_wait("the model, which is overloaded")
    assert looking.messages[-1] == "waiting for the model, which is overloaded"


@pytest.mark.parametrize("tree", [CHANGE.after, CHANGE.before])
def test_a_tree_that_is_not_what_it_was_is_told_and_nothing_is_kept(
    looking: Looking, tree: str
) -> None:
    looking.repository.unchanged[tree] = False
    assert not looking(REFUTED).intact
    looking(REFUTED)
    assert len(looking.model.turns) == 1, "asked again"


def test_a_look_is_kept_with_its_turn_and_taken_by_the_next_run(looking: Looking) -> None:
    first = looking.look(REFUTED)
    second_result = looking.look(STANDS)
    assert (looking.model.turns, looking.model.is_open) == ([], False)
    assert second_result == replace(first, turn=f"commit/run/{first.turn}")


@pytest.mark.parametrize(
    ("values", "turn_count"),
    [
        ({}, 0),
        ({"force": True}, 1),
        ({"wire": SimpleNamespace(mode="record")}, 1),
        ({"wire": SimpleNamespace(mode="replay")}, 1),
    ],
)
def test_neither_force_nor_a_recording_takes_what_is_kept(
    looking: Looking, values: dict[str, Any], turn_count: int
) -> None:
    looking(STANDS)
    looking(STANDS, **values)
    assert len(looking.model.turns) == turn_count


def test_a_recording_keeps_nothing_and_a_forced_run_does(looking: Looking) -> None:
    looking(STANDS, wire=SimpleNamespace(mode="record"))
    looking(STANDS, force=True)
    assert len(looking.model.turns) == 1
    looking(STANDS)
    assert looking.model.turns == []


def test_without_a_way_to_a_model_a_known_look_counts_and_no_other_is_taken(
    looking: Looking,
) -> None:
    assert looking.look(STANDS, obstacle=NoKey()) is UNSET
    looking(STANDS)
    assert looking.look(REFUTED, obstacle=NoKey()).outcome == "stands"


def test_a_look_without_an_answer_leaves_the_fail_and_is_not_kept(looking: Looking) -> None:
    look = looking.look(unanswered_end("refused"))
    assert (look.outcome, look.said, look.reason, look.turn) == (
        "undecided", None, "why: as it was seen", "nodes/judge-quality/turn-001",
    )  # fmt: skip
    assert looking.look(STANDS).outcome == "stands"


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        ({"outcome": "perhaps"}, "stands"),
        ({"outcome": "refuted", "said": "refuted", "reason": "?", "more": 1}, "stands"),
        ({"outcome": "refuted", "said": "refuted", "reason": "?"}, "undecided"),
    ],
)
def test_what_is_kept_counts_for_no_more_than_an_answer_of_now(looking, document, outcome) -> None:
    looking(STANDS)
    (question,) = look_questions(looking.fails, looking.facts, looking.run)
    looking.state.answers.put(question.key, document, NOW)
    assert looking.look(STANDS).outcome == outcome


def test_a_reached_budget_names_the_lines_without_a_second_look(tmp_path: Path) -> None:
    looking = Looking(tmp_path, fail_at(1), fail_at(2))
    looking([answered({"answers": [about_fields(1, "stands")]})], reached=True)
    assert looking.record.events[-1] == (
        "budget.reached", "",
        {"limit_usd": 0.25, "usd": 0.125, "not_asked": [{"path": "src/load.py", "line": 2, "end_line": 2}]},
    )  # fmt: skip


def test_a_budget_that_is_reached_by_the_last_answer_names_none(looking: Looking) -> None:
    looking(STANDS, reached=True)
    assert "budget.reached" not in [event[0] for event in looking.record.events]


def test_trees_that_cannot_be_exported_leave_the_fails(looking: Looking) -> None:
    looking.repository.problem = f"the disk is full {TOKEN}"
    look = looking.look(STANDS)
    assert (look.outcome, look.said) == ("undecided", None)
    assert look.reason.startswith("the disk is full [redacted:")
    assert looking.model.turns == []


def test_a_deadline_that_has_passed_is_named(looking: Looking) -> None:
    looking.deadline = Deadline(time.monotonic() - 61, 60)
    looking.repository.problem = "interrupted"
    assert looking.look(STANDS).reason == "The deadline of 60 s was reached."


def test_lines_of_a_file_that_is_slow_to_parse_are_shown_no_longer_than_the_deadline(
    tmp_path: Path,
) -> None:
    also = CheckedEvidence(path="x.lua", line=1, end_line=1, quote="[[", standing="holds")
    looking = Looking(tmp_path, fail_at(1, also=(also,)))
    tree = FileTree({"src/load.py": AFTER["src/load.py"], "x.lua": b"[[\n" * 15_000})
    looking.repository.trees[CHANGE.after] = tree
    looking.deadline = Deadline(time.monotonic(), 0.5)
    assert looking.look(STANDS).reason == "The deadline of 0.5 s was reached."
    assert looking.deadline.elapsed() < 2
    assert looking.model.turns == []


@pytest.mark.parametrize(
    ("end", "outcome", "reason"),
    [
        (STANDS, "stands", "It happens."),
        (look_answer("Stands", reason="It happens."), "stands", "It happens."),
        (
            look_answer("undecided", reason="It depends", missing="the file"),
            "undecided",
            "It depends. Missing: the file.",
        ),
        (look_answer("undecided", reason="It depends", missing=" "), "undecided", "It depends"),
        (look_answer("stands", reason="So.", missing="nothing"), "stands", "So."),
        (REFUTED, "refuted", "main leaves first."),
        (
            look_answer("refuted"),
            "undecided",
            'Answered "refuted", but no evidence was given: main leaves first.',
        ),
    ],
)
def test_what_an_answer_says_is_what_it_counts_for_but_for_a_bare_refutation(
    looking, end, outcome, reason
) -> None:
    look = looking.look(end)
    assert (look.outcome, look.reason) == (outcome, reason)


def test_only_a_refutation_has_evidence(looking: Looking) -> None:
    assert looking.look(look_answer("stands", PREVENTS)).evidence == ()


def test_an_answer_that_does_not_fit_is_no_look(looking: Looking) -> None:
    look = looking.look(look_answer(f"perhaps {TOKEN}"))
    assert (look.outcome, look.said, look.turn) == (
        "undecided",
        None,
        "nodes/judge-quality/turn-001",
    )
    assert look.reason.startswith("The model's answer does not fit its form.")


@pytest.mark.parametrize("number", [0, 2, 7, -1, "1"])
def test_a_number_of_another_finding_is_no_answer_about_the_only_one(number: object) -> None:
    answer = {"answers": [about_fields(1, "refuted", PREVENTS) | {"finding": number}]}
    assert write_look_objection(1, answer).startswith("The answer does not fit: ")


def test_of_several_findings_each_answer_names_its_own() -> None:
    nameless_answer = about_fields(1, "refuted", PREVENTS)
    del nameless_answer["finding"]
    assert write_look_objection(1, {"answers": [nameless_answer]}) == ""
    answers = {"answers": [nameless_answer, about_fields(2, "stands")]}
    assert "an answer names no finding" in write_look_objection(2, answers)


def test_no_word_of_a_look_has_a_secret(looking: Looking) -> None:
    look = looking.look(look_answer("stands", reason=f"{'so ' * 85}{TOKEN}"))
    assert TOKEN[:12] not in look.reason


@pytest.mark.parametrize(
    ("quoted", "place"),
    [
        ({}, ("src/main.py", 5, "holds", "after")),
        ({"side": ""}, ("src/main.py", 5, "holds", "after")),
        ({"line": 1}, ("src/main.py", 5, "relocated", "after")),
        ({"path": "./src/main.py"}, ("src/main.py", 5, "holds", "after")),
        ({"path": "after/src/main.py"}, ("src/main.py", 5, "holds", "after")),
        ({"path": "before/src/main.py", "side": "before"}, ("before/src/main.py", 5, "void", "before")),
        ({"path": "src/main.py", "side": "before"}, ("src/main.py", 5, "holds", "after")),
        ({"path": "before/gone.py", "quote": "assert exists(path)", "line": 1, "side": "before"},
         ("gone.py", 1, "holds", "before")),
        ({"path": "gone.py", "quote": "assert exists(path)", "line": 1}, ("gone.py", 1, "void", "after")),
        ({"path": TABBED, "quote": "checked_before = True", "line": 1}, (TABBED, 1, "holds", "after")),
        ({"quote": "    if path is None:"}, ("src/main.py", 5, "void", "after")),
    ],
)  # fmt: skip
def test_a_quoted_line_is_looked_up_in_the_tree_that_it_names(looking, quoted, place) -> None:
    (line,) = looking.look(look_answer("refuted", PREVENTS | quoted)).evidence
    assert (line.path, line.line, line.standing, line.side) == place


@pytest.mark.parametrize(
    ("quote", "lines", "outcome"),
    [
        ("def load(path):", [1], "intended"),
        ("def load(path):\n    return None", [1, 2], "undecided"),
        ("def load(path):\n    return False", [2], "undecided"),
        ("def load(path):\n...\n}", [1, 3], "undecided"),
    ],
)
def test_each_line_of_a_quote_is_evidence_of_its_own(looking, quote, lines, outcome) -> None:
    evidence = {"path": "src/load.py", "line": 1, "quote": quote, "side": "after"}
    look = looking.look(look_answer("intended", evidence))
    assert ([line.line for line in look.evidence], look.outcome) == (lines, outcome)


def test_one_invented_line_voids_a_refutation(looking: Looking) -> None:
    look = looking.look(
        look_answer("refuted", PREVENTS, PREVENTS | {"quote": "    if path is None:"})
    )
    assert (look.outcome, look.said) == ("undecided", "refuted")
    assert [line.standing for line in look.evidence] == ["holds", "void"]


def quoted_line(
    path: str = "a.py",
    quote: str = "if path is None:",
    side: str = "after",
    standing: str = "holds",
):
    text = "the quoted text is not in the file" if standing == "void" else ""
    return CheckedEvidence(
        path=path, line=1, end_line=1, quote=quote, standing=standing, side=side, why=text
    )


@pytest.mark.parametrize(
    ("evidence", "flaw"),
    [
        ((quoted_line(),), ""),
        ((quoted_line(), quoted_line("README.md")), ""),
        ((quoted_line(), quoted_line(side="before")), ""),
        ((quoted_line(), quoted_line(quote="}")), ""),
        ((), "no evidence was given"),
        ((quoted_line(standing="void"),), "the quoted text is not in the file"),
        ((quoted_line(), quoted_line(standing="void")), "the quoted text is not in the file"),
        ((quoted_line(quote="  }  "), quoted_line(quote="else:")), "the quotes are too short to prevent anything"),
        ((quoted_line(side="before"), quoted_line(side="before")), "no quoted line stands after the change"),
        ((quoted_line(quote="}"), quoted_line("a.md")), "the quotes are too short to prevent anything"),
        ((quoted_line("a.md"), quoted_line(side="before")), "documentation and the gate's own files prevent nothing"),
        *[((quoted_line(path), quoted_line("docs/a.md")), "documentation and the gate's own files prevent nothing")
          for path in ("README.md", "a/b.rst", "c.txt", "d.adoc", ".vibe-gate/gate.toml")],
    ],
)  # fmt: skip
def test_what_a_refutation_counts_for(evidence: tuple[CheckedEvidence, ...], flaw: str) -> None:
    look = SecondLook(
        outcome="refuted", said="refuted", reason="main leaves first.", evidence=evidence
    )
    checked = check_look(look, CHANGE)
    if not flaw:
        assert checked == look
        return
    assert (checked.outcome, checked.said) == ("undecided", "refuted")
    assert checked.reason == f'Answered "refuted", but {flaw}: main leaves first.'


def test_what_is_no_refutation_needs_no_evidence() -> None:
    for outcome in ("stands", "undecided"):
        look = SecondLook(outcome=outcome, said=outcome, reason="So.")
        assert check_look(look, CHANGE) == look
