"""What twelve sessions of Claude Code itself ran, by the check `tests-ran` and without a model."""

from __future__ import annotations

import pytest
from command import vibe_gate
from twelve_sessions import CASES, ClaimCase, build_session, review_arguments

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_check_is_right_about_what_a_session_ran_whatever_it_says(
    case: ClaimCase, tmp_path, environ
):
    root = tmp_path / "repo"
    build_session(case, root, tmp_path / "home", environ)
    arguments = (*review_arguments(case), "--no-judge", "--json")
    summary = vibe_gate(*arguments, cwd=root, environ=environ).json
    outcomes = {rubric["id"]: rubric["criteria"][0]["outcome"] for rubric in summary["rubrics"]}
    assert outcomes["tested"] == case.tests_ran, summary["rubrics"]
    assert (root / summary["bundle"] / "record.json").is_file()
