"""Never green when nothing was reviewed: a table of states by commit, command and Action
(not_reviewed.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from faces.not_reviewed import (
    STATES,
    Faces,
    State,
    complete_cells,
    faces_in,
    look_at_faces,
)
from scripted_messages_api import ApiError
from wire import answering

pytestmark = pytest.mark.usefixtures("quick_agents")

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "not-reviewed.md"
UNANSWERED = STATES["the API does not accept the key (401)"]


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Faces:
    return faces_in(tmp_path_factory.mktemp("faces"))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if state is UNANSWERED else pytest.mark.slow)
        for name, state in STATES.items()
    ],
)
def test_what_was_not_reviewed_is_green_nowhere_and_the_page_says_what_it_is(name, faces):
    """`python tests/faces/record_not_reviewed.py` writes the page's table anew."""
    cells, green = look_at_faces(name, STATES[name], faces)
    assert not green
    table = read_table()
    assert complete_cells(cells, STATES[name], table) == table[name]


def test_the_page_has_no_other_states():
    assert list(read_table())[2:] == list(STATES)


def read_table() -> dict[str, list[str]]:
    """The cells of the page's first table by the first of each row."""
    table = PAGE.read_text().partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    cells = [row.removeprefix("| ").removesuffix(" |").split(" | ") for row in rows]
    return {row[0]: row for row in cells}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "the model refuses",
        "no folder for temporary files",
    ],  # a verdict, and an error before there is one
)
def test_strict_stops_a_commit_that_was_not_reviewed(name, faces):
    state = STATES[name]
    with answering(*state.steps, repeat_last=True) as model:
        commit = faces.commit(state, model, faces.local(state, model), strict=True)
    assert commit.code == 1 and "PASS" not in commit.text


@pytest.mark.slow
def test_a_persons_commit_says_of_unasked_questions_that_only_checks_passed_and_of_asked_ones_what_an_agents_says(
    faces,
):
    with answering(ApiError(401), repeat_last=True) as model:
        repository = faces.local(UNANSWERED, model)
        commit = faces.commit(UNANSWERED, model, repository, by="person")
        assert (commit.code, commit.text) == (0, "")
        output = repository.run("vibe-gate", "bundles", "show").text
        assert "PASS (checks only) · 1 question not asked: no sign of an AI agent" in output
        always = '[hooks.pre-commit]\njudge = "always"\n'
        commit = faces.commit(
            UNANSWERED, model, faces.local(UNANSWERED, model, always), by="person"
        )
    assert commit.line == "NOT REVIEWED. The commit goes through; CI will block it."


def test_where_only_questions_are_left_out_and_no_check_ran_nothing_is_said_to_pass(faces):
    state = State(
        rubric=UNANSWERED.rubric.partition('[[criterion]]\nid = "no-todo"')[0],
        argv=("HEAD~1", "--no-judge"),
    )
    with answering() as model:
        repository = faces.local(state, model)
        assert faces.commit(state, model, repository, by="person").code == 0
        review = faces.review(state, model, repository)
    assert (review.code, review.line) == (0, "NOTHING REVIEWED · 1 question not asked: --no-judge")
