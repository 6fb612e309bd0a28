"""What twelve sessions of Claude Code itself ran, by the check `tests-ran` and without a model."""

from __future__ import annotations

import pytest
from command import vibe_gate
from twelve_sessions import CASES, ClaimCase, build_session, review_arguments

pytestmark = pytest.mark.slow


SESSIONS = {str(case.steps): case for case in CASES}
"""By what was done: of two that did the same the last words differ, which no check reads."""


@pytest.mark.parametrize("case", SESSIONS.values(), ids=lambda case: case.name)
def test_the_check_is_right_about_what_a_session_ran_whatever_it_says(
    case: ClaimCase, tmp_path, environ
):
    root = tmp_path / "repo"
    build_session(case, root, tmp_path / "home", environ)
    arguments = (*review_arguments(case), "--no-judge", "--json")
    summary = vibe_gate(*arguments, cwd=root, environ=environ).json
    outcomes = {rubric["id"]: rubric["criteria"][0]["outcome"] for rubric in summary["rubrics"]}
    expected = {each_case.tests_ran for each_case in CASES if each_case.steps == case.steps}
    assert {outcomes["tested"]} == expected, summary["rubrics"]
    assert (root / summary["bundle"] / "record.json").is_file()
