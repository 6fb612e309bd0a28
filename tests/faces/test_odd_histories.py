"""Every command on commits that no program expects, on files whose names are patterns to git, and
under a user's configuration that changes all that git prints.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import CommandResult, vibe_gate
from odd_commits import WORST, write_odd_history
from repos import Repo

SESSION = "0f3c9a1e-1111-2222-3333-444455556666"
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]")
"""What no line for people may hold, whoever wrote it."""


def assert_answered(result: CommandResult) -> None:
    """An answer without what a terminal would obey; of a replay without a key, that nothing was
    replayed.
    """
    assert "this is a bug" not in result.err
    assert "Traceback" not in result.err
    assert result.code in ((3,) if "replay" in result.args else (0, 1)), (
        f"{result.args}: {result.code} {result.err}"
    )
    assert not UNSAFE.search(result.out + result.err), repr(UNSAFE.search(result.out + result.err))


@pytest.fixture
def odd(tmp_path: Path, environ: dict[str, str]) -> tuple[Repo, list[str]]:
    """A repository whose history is odd from its second commit to the last but one; the ids of
    those.
    """
    repo = Repo(tmp_path / "repo", environ)
    repo.commit("First", **{"a.py": "x = 1\n"})
    ids = write_odd_history(repo.git, repo.write, "odd.py", WORST)
    repo.commit("Last", **{"a.py": "x = 2\n"})
    return repo, list(ids.values())


@pytest.mark.slow
def test_commands_answer_about_commits_that_no_program_expects(odd: tuple[Repo, list[str]]) -> None:
    repo, ids = odd
    for command in (
        f"review {ids[0]}..{ids[-1]} --no-judge --concise",
        f"verify {ids[0]}~1..HEAD",
        f"blame odd.py:3-9 {ids[-1]}",
        f"trace {ids[0]}~1..HEAD",
        "bundles list",
    ):
        assert_answered(vibe_gate(*command.split(), cwd=repo.path, environ=repo.environ))


@pytest.mark.slow
def test_every_command_answers_about_commits_that_no_program_expects(
    odd: tuple[Repo, list[str]],
) -> None:
    repo, ids = odd
    for command in (
        f"review {ids[0]}..{ids[-1]} --no-judge --html {repo.path.parent}/page.html",
        "review --commit HEAD~1 --no-judge --json",
        f"review {ids[0]}~1..{ids[2]} --each --no-judge --jobs 1",
        f"verify {ids[0]}~1..HEAD --json",
        "blame odd.py",
        "report -o ../run.html",
        "report --all -o ../site",
        "stats",
        "stats --json",
        "bundles list --json",
        "bundles show",
        "bundles verify",
        f"replay {ids[0]}~1..HEAD",
        "viz",
        f"calibrate --from-history {ids[0]}~1..HEAD",
    ):
        assert_answered(vibe_gate(*command.split(), cwd=repo.path, environ=repo.environ))


@pytest.mark.slow
def test_no_author_of_a_commit_without_a_date_is_called_a_person(
    odd: tuple[Repo, list[str]],
) -> None:
    repo, _ = odd
    result = vibe_gate("blame", "odd.py", "--json", cwd=repo.path, environ=repo.environ)
    assert {line["by"] for line in result.json["lines"]} == {"unknown"}


@pytest.mark.parametrize("form", WORST)
def test_a_push_of_an_odd_commit_is_reviewed(
    tmp_path: Path, environ: dict[str, str], form: str
) -> None:
    repo = Repo(tmp_path / "repo", environ)
    base = repo.commit("First", **{"a.py": "x = 1\n"})
    vibe_gate("install", "git", cwd=repo.path, environ=environ)
    repo.commit("Seen", **{"b.py": "x = 1\n"})
    repo.write("key.py", 'k = "AKIA2OGYBAH6QLSM3RZT"\n')
    repo.git("add", "-A")
    write_odd_history(repo.git, repo.write, "odd.py", [form])
    row = f"refs/heads/main {repo.git('rev-parse', 'HEAD')} refs/heads/main {base}\n"
    push = ("hook", "pre-push", "origin", "../o.git")
    result = vibe_gate(*push, cwd=repo.path, environ=environ, stdin=row.encode())
    assert "this is a bug" not in result.err + result.out
    assert "older than the gate" not in result.out
    assert result.code == 1
    assert "AKIA" in result.out
