"""Which commits are reviewed again when the same command is given."""

from __future__ import annotations

from typing import Any

import pytest
from summaries import criterion, finding, rubric, summary, waived, waiver

from vibe_gate.domain.cause import NoKey
from vibe_gate.domain.commit_row import worst
from vibe_gate.domain.summary import Summary, Trusted
from vibe_gate.domain.verdict import Vote
from vibe_gate.run.each import counts_here, is_summary_settled

CANNOT_TELL = Vote(outcome="abstain", said="abstain", reason="It cannot be told.")
OVERRIDE = waiver("Ada", "known")
SUPPRESSION = waiver("jo", "known", local=False)
NO_ANSWER = Vote(outcome="abstain", said=None, reason="The budget is used up.")


def judged_summary(outcome: str, *votes: Vote, code: int = 3, **fields: Any) -> Summary:
    kind = {
        "kind": "judge",
        "decided_by": "unanimous" if votes else "none",
        "votes": votes,
        **fields,
    }
    run = {0: "pass", 1: "fail", 4: "pass"}.get(code, "inconclusive")
    return summary(
        outcome=run, exit_code=code, rubrics=(rubric(criterion("c", outcome, **kind), outcome=run),)
    )


@pytest.mark.parametrize(
    ("recorded", "settled", "with_key"),
    [
        (summary(), True, True),
        (judged_summary("fail", code=1), True, True),
        (judged_summary("pass", code=4), True, True),
        (judged_summary("abstain", CANNOT_TELL), True, True),
        (judged_summary("abstain", NO_ANSWER), False, False),
        (judged_summary("abstain", CANNOT_TELL, NO_ANSWER), False, False),
        (judged_summary("abstain"), False, False),
        (judged_summary("error", NO_ANSWER), False, False),
        (judged_summary("abstain", code=0, cause=NoKey()), True, False),
        (judged_summary("pass", code=5), False, False),
    ],
)
def test_a_commit_is_reviewed_again_if_an_answer_is_missing_that_can_be_had(
    recorded: Summary, settled: bool, with_key: bool
) -> None:
    assert (
        is_summary_settled(recorded, can_ask=False),
        is_summary_settled(recorded, can_ask=True),
    ) == (
        settled,
        with_key,
    )


@pytest.mark.parametrize(
    ("recorded", "in_ci"),
    [
        (summary(), True),
        (judged_summary("not_applicable", code=0, cause=NoKey()), False),
        (
            judged_summary("abstain", code=0, cause=NoKey()),
            True,
        ),  # its gate demands it: no pass without its other criteria
        (judged_summary("fail", code=1), True),
        (summary(findings=(waived(finding(), OVERRIDE),)), False),
        (summary(findings=(waived(finding(), SUPPRESSION),)), True),
        (summary(findings=(finding(level="notice", waiver=SUPPRESSION.sentence),)), False),
        (summary(findings=(finding(criterion="policy", level="notice"),)), False),
        (summary(trusted=Trusted(revision="1" * 40, bootstrap=True)), False),
    ],
)
def test_a_recorded_pass_counts_in_ci_only_if_it_would_be_one_there(
    recorded: Summary, in_ci: bool
) -> None:
    assert counts_here(recorded, in_ci=False)
    assert counts_here(recorded, in_ci=True) == in_ci


def test_of_many_exit_codes_the_worst_is_the_one() -> None:
    assert [worst(codes) for codes in ([], [0, 0], [0, 4], [4, 3], [3, 2], [2, 1], [1, 5, 0])] == [
        0,
        0,
        4,
        3,
        2,
        1,
        5,
    ]
