"""`vibe-gate review A..B --each`: a line and a run for each commit, going on where it was, one exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Done, vibe_gate
from repos import Repo

TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def history(tmp_path: Path, environ: dict[str, str]) -> Repo:
    """Five commits after the first, tagged `start`: fine, secret, empty, merged branch, merge."""
    repo = Repo(tmp_path / "repo", environ)
    repo.commit("First", **{"a.txt": "one\n"})
    repo.git("tag", "start")
    repo.commit("Fine", **{"a.txt": "two\n"})
    repo.commit("Secret", **{"b.py": f'KEY = "{TOKEN}"\n'})
    repo.commit("Empty")
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("Side", **{"c.txt": "side\n"})
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
    return repo


def each(repo: Repo, *options: str, what: str = "start..HEAD") -> Done:
    return vibe_gate("review", what, "--each", "--jobs", "1", *options, cwd=repo.path, environ=repo.environ)


def documents(done: Done) -> list[dict]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_every_commit_has_a_line_and_a_run_oldest_first_and_the_worst_decides(history: Repo) -> None:
    done = each(history)
    words = [line.split(None, 2)[1:] for line in done.out.splitlines()[:5]]
    assert words == [
        ["pass", "Fine"], ["fail", "Secret"], ["pass", "Empty"], ["pass", "Side"], ["pass", "Merge side"],
    ]  # fmt: skip
    assert "fail: 1 commit" in done.out
    assert "5 commits: 1 fail, 4 pass" in done.out
    assert done.code == 1
    assert len(list(history.path.glob(".vibe-artifacts/*/*/summary.json"))) == 4  # nothing to review in the empty one


def test_what_is_recorded_is_not_reviewed_again(history: Repo) -> None:
    each(history, what="start..HEAD~1")
    again = documents(each(history, "--json"))
    assert [row["recorded"] for row in again[:-1]] == [True, True, False, False, False]
    assert again[-1]["kind"] == "total"
    assert again[-1]["exit_code"] == 1
    assert len(list(history.path.glob(".vibe-artifacts/*/*"))) == 4
    forced = documents(each(history, "--json", "--force"))
    assert not any(row["recorded"] for row in forced[:-1])


def test_other_definitions_or_another_question_are_another_batch(history: Repo) -> None:
    first = documents(each(history, "--json"))[-1]["batch"]
    assert documents(each(history, "--json", "--no-judge"))[-1]["batch"] != first
    history.write(".vibe-gate/gate.toml", 'schema = 1\nrubrics = ["safety"]\n')
    assert documents(each(history, "--json", "--definitions", "worktree", "--table"))[-1]["batch"] != first


def test_the_table_tells_what_is_recorded_and_names_what_is_not(history: Repo) -> None:
    each(history, what="start..HEAD~1")
    done = each(history, "--table")
    assert "missing: 2 commits" in done.out
    assert "Merge side" in done.out
    assert done.code == 1
    assert each(history, "--table", what="HEAD~1..HEAD").code == 3


def test_shards_together_are_the_range_and_merges_can_be_left_out(history: Repo) -> None:
    parts = [documents(each(history, "--json", "--shard", f"{number}/3"))[:-1] for number in (1, 2, 3)]
    names = [row["commit"] for part in parts for row in part]
    assert sorted(names) == sorted(history.git("rev-list", "start..HEAD").split())
    assert not any(row["recorded"] for part in parts for row in part)
    every = documents(each(history, "--json", "--no-merges"))[:-1]
    assert [row["title"] for row in every] == ["Fine", "Secret", "Empty", "Side"]


def test_what_cannot_be_read_is_an_error_of_its_commit_alone(history: Repo) -> None:
    history.commit("Broken gate", **{".vibe-gate/gate.toml": "schema = \n"})
    history.commit("Next", **{"a.txt": "three\n"})
    rows = documents(each(history, "--json", "--no-judge", what="HEAD~3..HEAD"))
    broken = next(row for row in rows if row.get("title") == "Broken gate")
    assert (broken["outcome"], broken["exit_code"], broken["run_id"]) == ("error", 2, "")
    assert "gate.toml:1" in broken["why"]
    assert next(row for row in rows if row.get("title") == "Merge side")["outcome"] == "pass"
    assert rows[-1]["exit_code"] == 2


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["start..HEAD", "--each", "--html"], "--html is for one review, and --each makes many; use one of them."),
        (["--each", "--staged"], "--staged is for one review, and --each makes many; use one of them."),
        (["HEAD~1", "--each"], "--each needs a range: `vibe-gate review A..B --each`."),
        (["start..HEAD", "--shard", "1/2"], "--shard belongs to --each."),
        (["start..HEAD", "--each", "--shard", "3/2"], "--shard '3/2' is not K/N"),
        (["start..HEAD", "--each", "--rubric", "nope"], "There is no rubric 'nope'"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_review(history: Repo, argv: list[str], sentence: str) -> None:
    done = vibe_gate("review", *argv, cwd=history.path, environ=history.environ)
    assert (done.code, sentence in done.err) == (2, True), done.err
    assert not (history.path / ".vibe-artifacts").exists()


def test_an_empty_range_is_a_pass(history: Repo) -> None:
    done = each(history, what="HEAD..start")
    assert (done.code, done.out) == (0, "0 commits: nothing to review\n")
