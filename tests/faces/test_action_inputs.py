"""The Action's inputs: empty means the default, and everything that is wrong is said at once."""

from __future__ import annotations

import pytest

from vibe_gate.errors import UsageError
from vibe_gate.faces.action.inputs import Inputs, inputs_of, right_inputs


def input_variables(**inputs: str) -> dict[str, str]:
    return {f"VIBE_GATE_INPUT_{name}": value for name, value in inputs.items()}


def test_nothing_and_empty_are_the_defaults():
    every = [name.upper() for name in Inputs.model_fields]
    assert inputs_of({}) == inputs_of(input_variables(**dict.fromkeys(every, " "))) == Inputs()


def test_each_input_is_read():
    assert inputs_of(
        input_variables(
            ANTHROPIC_API_KEY="k", GITHUB_TOKEN="t", BASE="main", HEAD="v1", RUBRICS="quality, pay  docs",
            WORKFLOW="review", MODE="warn", MAX_COST_USD="0.5", POST="check-run",
            ARTIFACT="full", JUDGE="false", DRAFTS="skip",
        )
    ) == Inputs(
        anthropic_api_key="k", github_token="t", base="main", head="v1", rubrics="quality pay docs", mode="warn",
        max_cost_usd=0.5, post="check-run", artifact="full",
        judge=False, drafts="skip",
    )  # fmt: skip


def test_the_token_of_the_job_serves_where_none_is_given():
    assert inputs_of({"GITHUB_TOKEN": "ghs_job"}).github_token == "ghs_job"
    assert (
        inputs_of(
            {"GITHUB_TOKEN": "ghs_job"} | input_variables(GITHUB_TOKEN="ghs_own")
        ).github_token
        == "ghs_own"
    )


def test_a_gate_that_is_narrowed_has_a_name_of_its_own():
    assert inputs_of({}).name == ""
    assert inputs_of(input_variables(RUBRICS="pay docs")).name == "pay,docs"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("MODE", "strict", "mode is strict; write block or warn."),
        ("JUDGE", "maybe", "judge is maybe; write true or false."),
        ("POST", "false", "post is false; write lines, comment, check-run or none."),
        ("DRAFTS", "true", "drafts is true; write skip, checks or review."),
        (
            "MAX_COST_USD",
            "-1",
            "max-cost-usd is -1; write a number of US dollars above zero, as 0.50.",
        ),
        ("MAX_COST_USD", "inf", "max-cost-usd is inf; write a number"),
        ("RUBRICS", "../x", "rubrics is ../x; write ids of rubrics"),
        ("BASE", "--output=x", "base is --output=x; write one branch, tag or commit."),
        ("BASE", "a\nb", r'base is "a\nb"; write one branch'),
        ("HEAD", "a..b", "head is a..b; write one branch, tag or commit."),
        ("ARTIFACT", "all", "artifact is all; write summary, full or none."),
        (
            "WORKFLOW",
            "../fix",
            "workflow is ../fix; write the id of a workflow (lower-case letters, digits, '.', '_', '-').",
        ),
    ],
)
def test_a_wrong_value_is_one_clear_sentence(name, value, sentence):
    with pytest.raises(UsageError) as caught:
        inputs_of(input_variables(**{name: value}))
    assert sentence in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(UsageError) as caught:
        inputs_of(input_variables(MODE="x", ARTIFACT="y", POST="z"))
    assert len(str(caught.value).splitlines()) == 3


def test_in_place_of_a_wrong_way_to_post_stands_the_check_run_alone():
    inputs = right_inputs(input_variables(MODE="x", POST="comments"))
    assert inputs == Inputs(post="check-run")
    assert right_inputs(input_variables(MODE="x")).post == "lines"


def test_a_traceback_shows_no_secret():
    assert "sk-ant" not in repr(
        inputs_of(input_variables(ANTHROPIC_API_KEY="sk-ant-x", GITHUB_TOKEN="ghs_x"))
    )
    assert "ghs_" not in repr(
        inputs_of(input_variables(ANTHROPIC_API_KEY="sk-ant-x", GITHUB_TOKEN="ghs_x"))
    )
