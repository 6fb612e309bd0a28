"""What the reader of a comment is told to do next, where the cause says it."""

from __future__ import annotations

import pytest
import summaries
from msgspec.structs import replace

from vibe_gate.domain.verdict import CriterionResult, RubricResult
from vibe_gate.errors import FAIL, INCONCLUSIVE
from vibe_gate.report.next_step import at_a_terminal, next_step
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round


def told(reason: str = "", **more: object) -> Report:
    """A report whose judge could not be asked for this reason; or, without one, whose judge said no."""
    outcome = "error" if reason else "fail"
    result = CriterionResult(
        id="a", kind="judge", must=True, weight=1, outcome=outcome, decided_by="none", reason=reason
    )
    rubric = RubricResult(id="r", digest="", outcome=outcome, score=0, coverage=0, criteria=(result,))
    code = INCONCLUSIVE if reason else FAIL
    summary = replace(summaries.summary(), outcome=outcome, exit_code=code, rubrics=(rubric,), findings=())
    return Report(replace(summary, **more), (), first_round((), "a" * 40), review="a1b2..c3d4")


@pytest.mark.parametrize(
    ("reason", "words", "terminal"),
    [
        ("HTTP 404: the model's API does not know this model or address; check both. Details: x", "name a model",
         "name a model"),
        ("HTTP 413: the request is too large for the model's API. Details: x", "split the change", "smaller range"),
        ("HTTP 401: the model's API does not accept the key", "replace the secret", "replace the key"),
        ("HTTP 501: this address does not serve the model's API", "correct `ANTHROPIC_BASE_URL`", "doctor --ask"),
        ("HTTP 500: the model's API failed; try again later", "wait some minutes", "doctor --ask"),
        ("the model's API at 127.0.0.1 cannot be reached", "check that this runner reaches", "doctor --ask"),
        (
            "Text of more than 100,000,000 bytes is not read: let git ignore the file: a.sql.",
            "name it in `exclude`", "let git ignore the file or split it",
        ),
        ("HTTP 529: the model's API is overloaded; try again later", "wait some minutes", "review again"),
    ],
)  # fmt: skip
def test_each_refusal_of_the_models_api_has_a_next_step_of_its_own(reason, words, terminal):
    report = told(reason)
    assert words in next_step(report)
    assert terminal in at_a_terminal(report.summary)


@pytest.mark.parametrize(("workflow", "expected"), [("review", True), ("fix", False), ("own", False)])
def test_a_workflow_that_ran_is_not_the_next_step(workflow, expected):
    assert ("vibe-gate run fix" in next_step(told(workflow=workflow))) is expected
