"""Which judge questions are told of as not asked, and the line of an agent's signs."""

from __future__ import annotations

import pytest
from command import vibe_gate
from hooked import Hooked
from repos import GATE, Repo

from vibe_gate.report.sentences import agent_signs

PATHS: dict[str, tuple[str, ...]] = {
    "of-src": ("src/**",),
    "of-docs": ("docs/**",),
    "of-words": ("docs/**", "*.md"),
}
"""The criteria of the gate, each with its paths."""


@pytest.fixture
def repo(tmp_path, environ) -> Repo:
    rubric = 'schema = 1\nid = "quality"\n'
    for name, paths in PATHS.items():
        rubric += f'[[criterion]]\nid = "{name}"\nkind = "judge"\nquestion = "Is it?"\npaths = {list(paths)}\n'
    repo = Repo(tmp_path / "repository", environ)
    repo.commit(
        **{
            ".vibe-gate/gate.toml": GATE,
            ".vibe-gate/rubrics/quality.toml": rubric,
            "other.c": "1\n",
        }
    )
    return repo


@pytest.mark.parametrize(
    ("path", "questions"),
    [("src/a.py", 1), ("README.md", 1), ("docs/a.md", 2)],
)
def test_only_questions_whose_paths_match_are_counted_as_skipped(repo, environ, path, questions):
    repo.commit(**{path: "x\n", "other.c": "2\n"})
    review = vibe_gate("review", "HEAD~1", cwd=repo.path, environ=environ)
    counted = f"{questions} judge question{'s' if questions > 1 else ''} skipped"
    assert f"No API key: {counted}." in review.out
    document = vibe_gate("review", "HEAD~1", "--json", cwd=repo.path, environ=environ).json
    assert {place["path"]: place["reason"] for place in document["unreviewed"]} == {
        path: "not asked: no API key",
        "other.c": "no judge criterion concerns this path",
    }


def test_a_change_that_no_question_concerns_needs_no_key(repo, environ):
    repo.commit(**{"other.c": "2\n"})
    review = vibe_gate("review", "HEAD~1", cwd=repo.path, environ=environ)
    assert review.code == 0
    assert "key" not in review.out
    assert "question not asked" not in review.out


def test_all_questions_whose_paths_match_are_counted(repo, environ):
    repo.commit(**{"src/a.py": "x\n", "docs/a.md": "x\n"})
    review = vibe_gate("review", "HEAD~1", cwd=repo.path, environ=environ)
    assert "No API key: 3 judge questions skipped." in review.out


@pytest.mark.parametrize(
    ("hints", "line"),
    [
        ((), ""),
        (("a",), "a"),
        (("a", "b", "c"), "a; b; c"),
        (("a", "b", "c", "d"), "a; b; c; and 1 more"),
        (tuple("abcdefg"), "a; b; c; and 4 more"),
    ],
)
def test_at_most_three_signs_of_an_agent_are_named(hints, line):
    assert agent_signs(hints) == line


def test_a_hook_names_an_agents_signs_on_one_line(judging: Hooked):
    judging.write(a="x\n")
    variables = {
        "CLAUDECODE": "1",
        "CURSOR_AGENT": "1",
        "GEMINI_CLI": "1",
        "OPENCODE": "1",
        "CRUSH": "1",
    }
    output = judging.git("commit", "-q", "-a", "-m", "x", **variables)
    (line,) = [line for line in output.splitlines() if "Signs:" in line]
    assert line.count(";") == 3
    assert line.endswith("; and 2 more")
