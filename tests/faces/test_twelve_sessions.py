"""What twelve sessions of Claude Code itself ran, by the check `tests-ran` and without a model."""

from __future__ import annotations

import pytest
from command import vibe_gate
from twelve_sessions import CASES, build_session, review_arguments

pytestmark = pytest.mark.slow

WALKED = (
    "all-call-sites-and-a-commit",
    "tests-again-after-a-command-wrote",
    "never-ran",
    "ran-before-the-last-edit",
    "ran-and-failed",
)
"""The sessions whose calls end otherwise each; the others do part of the same."""


@pytest.mark.parametrize("name", WALKED)
def test_the_check_is_right_about_what_a_session_ran_whatever_it_says(name, tmp_path, environ):
    (case,) = (each_case for each_case in CASES if each_case.name == name)
    root = tmp_path / "repo"
    build_session(case, root, tmp_path / "home", environ)
    arguments = (*review_arguments(case), "--no-judge", "--json")
    summary = vibe_gate(*arguments, cwd=root, environ=environ).json
    outcomes = {rubric["id"]: rubric["criteria"][0]["outcome"] for rubric in summary["rubrics"]}
    assert outcomes["tested"] == case.tests_ran, summary["rubrics"]
    assert (root / summary["bundle"] / "record.json").is_file()
