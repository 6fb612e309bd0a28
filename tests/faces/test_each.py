"""`vibe-gate review A..B --each`: a line and a run for each commit, going on where it was, one exit
code.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from answers import passes
from clean_environ import clean_environ
from command import CommandResult, on_a_terminal, vibe_gate
from repos import GATE, RUBRIC, Repo, gated
from wire import answer, answering, costing

from vibe_gate.context.listeners import unheard
from vibe_gate.context.mode import Batch, LiveMode
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.errors import UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.output import now
from vibe_gate.git import open_repository
from vibe_gate.run.review import review_in

TOKEN = "ghp_" + "a1B2" * 9


def review_each(repo: Repo, *options: str, selection: str = "start..HEAD") -> CommandResult:
    return vibe_gate(
        "review", selection, "--each", "--jobs", "1", *options, cwd=repo.path, environ=repo.environ
    )


def documents(result: CommandResult) -> list[dict]:
    return [json.loads(line) for line in result.out.splitlines()]


def runs(repo: Repo) -> int:
    return len(list(repo.path.glob(".vibe-artifacts/*/*/summary.json")))


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CommandResult]:
    """Five commits after the first, tagged `start`: fine, secret, empty, merged branch, merge. All
    but the last are reviewed, and how.
    """
    folder = tmp_path_factory.mktemp("each")
    repo = Repo(folder / "repo", clean_environ(folder))
    repo.git("checkout", "-q", "-b", "main")
    runs_test = "import pytest\n\n\ndef test_c():\n    pass\n"
    repo.commit("First", **{"a.txt": "one\n", "test_c.py": runs_test})
    repo.git("tag", "start")
    repo.commit("Fine", **{"a.txt": "two\n"})
    repo.commit("Secret", **{"b.py": f'KEY = "{TOKEN}"\n'})
    repo.commit("Empty")
    repo.git("checkout", "-q", "-b", "side")
    repo.commit(
        "Side", **{"test_c.py": runs_test.replace("def test_c", "@pytest.mark.skip\ndef test_c")}
    )
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
    return repo.path, review_each(repo, selection="start..side")


@pytest.fixture
def history(reviewed: tuple[Path, CommandResult], tmp_path: Path, environ: dict[str, str]) -> Repo:
    shutil.copytree(reviewed[0], tmp_path / "repo")
    return Repo(tmp_path / "repo", environ)


def test_every_commit_has_a_line_and_a_run_oldest_first_and_the_worst_decides(
    reviewed: tuple[Path, CommandResult], history: Repo
) -> None:
    result = reviewed[1]
    words = [line.split(None, 2)[1:] for line in result.out.splitlines()[:4]]
    side = "Side · checks only · 1 warning"
    assert words == [
        ["pass", "Fine · checks only"],
        ["fail", "Secret"],
        ["pass", "Empty"],
        ["pass", side],
    ]
    assert (
        "checks only: 2 commits, each with 6 questions not asked: no API key\n1 warning in 1 commit\n"
        in result.out
    )
    assert "fail: 1 commit\n" in result.out
    assert "      FAIL · safety: no-secrets failed (must)" in result.out
    assert "4 commits: 1 fail, 3 pass" in result.out
    assert result.code == 1
    assert runs(history) == 3  # there is nothing to review in the empty one


def test_what_is_recorded_is_not_reviewed_again_and_the_table_names_what_is_missing(
    history: Repo,
) -> None:
    table = review_each(history, "--table")
    assert "missing: 1 commit\n" in table.out
    assert "5 commits: 1 fail, 1 missing, 3 pass; 3 recorded before" in table.out
    assert (table.code, review_each(history, "--table", selection="side..HEAD").code) == (1, 3)
    *rows, total = documents(review_each(history, "--json"))
    assert [(row["title"], row["recorded"]) for row in rows[:-1]] == [
        ("Fine", True), ("Secret", True), ("Empty", False), ("Side", True),
    ]  # fmt: skip
    assert (rows[-1]["title"], rows[-1]["recorded"], rows[-1]["kind"]) == (
        "Merge side",
        False,
        "commit",
    )
    assert (total["kind"], total["exit_code"], total["recorded"], total["commits"]) == (
        "total",
        1,
        3,
        5,
    )
    assert runs(history) == 4


def test_in_ci_a_recorded_pass_for_want_of_a_key_does_not_count(history: Repo) -> None:
    history.environ["CI"] = "true"
    rows = documents(review_each(history, "--table", "--json", selection="start..side"))[:-1]
    assert [(row["title"], row["outcome"]) for row in rows] == [
        ("Fine", "missing"), ("Secret", "fail"), ("Empty", "pass"), ("Side", "missing"),
    ]  # fmt: skip
    assert "does not count in CI" in rows[0]["why"]
    side, total = documents(review_each(history, "--json", selection="side~1..side"))
    assert (side["outcome"], side["recorded"], total["exit_code"]) == ("inconclusive", False, 3)


def test_of_a_title_without_end_the_beginning_is_shown(history: Repo) -> None:
    history.commit("Long " * 20_000)
    row = documents(review_each(history, "--table", "--json", selection="HEAD~1..HEAD"))[0]
    assert (len(row["title"]), row["title"][:10], row["title"][-1]) == (200, "Long Long ", "…")


def test_a_run_that_is_not_what_was_sealed_settles_no_commit(history: Repo) -> None:
    fine, secret, side = (
        next(history.path.glob(f".vibe-artifacts/{history.git('rev-parse', name)}/*/"))
        for name in (":/Fine", ":/Secret", "side")
    )
    altered = (secret / "summary.json").read_text().replace('"fail"', '"pass"')
    (secret / "summary.json").write_text(altered.replace('"exit_code":1', '"exit_code":0'))
    shutil.rmtree(side)
    shutil.copytree(fine, side)
    table = review_each(history, "--table", selection="start..side")
    assert (table.code, "4 commits: 2 missing, 2 pass; 1 recorded before" in table.out) == (3, True)
    assert (
        "is corrupt: the receipt belongs to another run. Do not rely on this bundle." in table.out
    )
    assert "is corrupt: it belongs to another run." in table.out
    repeated_rows = {
        row["title"]: row
        for row in documents(review_each(history, "--json", selection="start..side"))[:-1]
    }
    assert {
        title: (row["outcome"], row["recorded"], row["why"][:15])
        for title, row in repeated_rows.items()
    } == {
        "Fine": ("pass", True, ""),
        "Secret": ("fail", False, "reviewed again:"),
        "Empty": ("pass", False, ""),
        "Side": ("pass", False, "reviewed again:"),
    }


def test_what_bears_on_a_verdict_makes_another_batch(history: Repo) -> None:
    def batch(*options: str) -> str:
        return documents(review_each(history, "--table", "--json", *options))[-1]["batch"]

    first = batch()
    (run,) = history.path.glob(f".vibe-artifacts/{history.git('rev-parse', 'side')}/*/run.json")
    assert json.loads(run.read_text())["batch"] == first
    assert batch("--shard", "1/2", "--no-merges", "--max-cost-usd", "1", "--jobs", "2") == first
    history.write(".vibe-gate/gate.toml", 'schema = 1\nrubrics = ["safety"]\n')
    other_batches = [
        batch("--no-judge"),
        batch("--rubric", "safety"),
        batch("--definitions", "worktree"),
    ]
    assert len({first, *other_batches}) == 4


def test_shards_together_are_the_range_and_force_reviews_what_is_recorded(history: Repo) -> None:
    parts = [
        documents(review_each(history, "--json", "--table", "--shard", f"{number}/3"))[:-1]
        for number in (1, 2, 3)
    ]
    names = [row["commit"] for part in parts for row in part]
    assert sorted(names) == sorted(history.git("rev-list", "start..HEAD").split())
    history.write("a.txt", "what is not committed does not count\n")
    forced = documents(review_each(history, "--json", "--force", "--no-merges"))[:-1]
    assert sorted(row["title"] for row in forced) == ["Empty", "Fine", "Secret", "Side"]
    assert not any(row["recorded"] for row in forced)
    assert runs(history) == 6


def test_what_cannot_be_read_is_an_error_of_its_commit_alone(history: Repo) -> None:
    history.commit("Broken gate", **{".vibe-gate/gate.toml": "schema = \n"})
    merge, broken, total = documents(
        review_each(history, "--json", "--no-judge", selection="side..HEAD")
    )
    assert (broken["outcome"], broken["exit_code"], broken["run_id"]) == ("error", 2, "")
    assert "gate.toml:1" in broken["why"]
    assert (merge["title"], merge["outcome"]) == ("Merge side", "pass")
    assert total["exit_code"] == 2


def test_a_root_commit_and_the_end_of_a_shallow_clone_are_rows_too(
    history: Repo, tmp_path: Path
) -> None:
    history.git("checkout", "-q", "--orphan", "other")
    history.commit("Root of another history")
    root, total = documents(review_each(history, "--json", selection="main..other"))
    assert (root["title"], total["outcomes"]["fail"]) == (
        "Root of another history",
        1,
    )  # it brings the secret
    history.git(
        "clone",
        "-q",
        "--depth",
        "2",
        "--branch",
        "main",
        f"file://{history.path}",
        str(tmp_path / "shallow"),
    )
    shallow = Repo(tmp_path / "shallow", history.environ)
    shallow.git("checkout", "-q", "--orphan", "empty")
    shallow.commit("Nothing in common")
    rows = documents(review_each(shallow, "--json", "--no-merges", selection="empty..main"))
    assert any("the history ends at" in row.get("why", "") for row in rows), rows


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (
            ["start..HEAD", "--each", "--html"],
            "--html is for one review, and --each makes many; use one of them.",
        ),
        (
            ["--each", "--staged"],
            "--staged is for one review, and --each makes many; use one of them.",
        ),
        (["HEAD~1", "--each"], "--each needs a range: `vibe-gate review A..B --each`."),
        (["start..HEAD", "--shard", "1/2"], "--shard belongs to --each."),
        (["start..HEAD", "--each", "--shard", "3/2"], "--shard '3/2' is not K/N"),
        (
            ["start..HEAD", "--each", "--cluster", "foo"],
            "--cluster foo is not an address; use tcp://HOST:PORT, tls:",
        ),
        (
            ["start..HEAD", "--each", "--table", "--force"],
            "--table reviews nothing; use one of them.",
        ),
        (["start..HEAD", "--each", "--rubric", "nope"], "There is no rubric 'nope'"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_review(
    history: Repo, argv: list[str], sentence: str
) -> None:
    result = vibe_gate("review", *argv, cwd=history.path, environ=history.environ)
    assert (result.code, sentence in result.err) == (2, True), result.err
    assert runs(history) == 3


def test_code_of_a_change_is_not_run_where_it_reaches_a_clusters_ports(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    check = '[[criterion]]\nid = "tests"\nkind = "check"\ncommand = ["true"]\n'
    repo = gated(tmp_path / "repo", environ, rubric=f'schema = 1\nid = "quality"\n{check}')
    repo.write(
        ".vibe-gate/cases/one/case.toml",
        'schema = 1\nrubric = "quality"\n[expect]\ntests = "pass"\n',
    )
    repo.write(".vibe-gate/cases/one/after/a.py", "A = 1\n")
    repo.commit("A case")

    def read_refusal(*argv: str) -> str:
        result = vibe_gate(*argv, "--cluster", "tcp://127.0.0.1:1", cwd=repo.path, environ=environ)
        assert result.code == 2
        return result.err

    refused = "vibe-gate: The gate runs code of the change (a command check, or [counterexample])"
    for argv in (("review", "HEAD~1..HEAD", "--each"), ("replay", "HEAD~1..HEAD"), ("test",)):
        assert read_refusal(*argv).startswith(refused)
    repo.write(".vibe-gate/rubrics/quality.toml", RUBRIC)
    repo.write(".vibe-gate/gate.toml", f"{GATE}[counterexample]\n")
    repo.commit("Tests of the judge's")
    assert read_refusal("review", "HEAD~1..HEAD", "--each", "--definitions", "HEAD").startswith(
        refused
    )
    # Of a commit that brings the gate nobody knows before its review.
    with (
        open_repository(repo.path, read_environment(environ)) as repository,
        pytest.raises(UsageError, match="runs code of the change"),
    ):
        request = ReviewRequest(
            Selection("commit", left="HEAD~1"),
            definitions="HEAD~1",
            mode=LiveMode(Batch("b", has_open_ports=True)),
        )
        progress.run_walk(review_in(repository, request, clock=now, progress=unheard))


def test_an_empty_range_is_a_pass_with_a_hint_if_its_ends_are_reversed(history: Repo) -> None:
    result = review_each(history, selection="HEAD..start")
    assert (result.code, result.out) == (0, "0 commits: nothing to review\n")
    assert result.err == "HEAD..start has no commits; did you mean start..HEAD?\n"
    assert review_each(history, selection="HEAD..main").err == ""
    replay = vibe_gate("replay", "HEAD..start", cwd=history.path, environ=history.environ)
    assert replay.err.startswith("HEAD..start has no commits; did you mean start..HEAD?\n")


def test_why_criteria_could_not_be_decided_is_said_once_for_all_commits(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    commands = "\n".join(
        f'[[criterion]]\nid = "{name}"\nkind = "check"\nmust = true\ncommand = ["no-such-linter"]'
        for name in ("lint", "format")
    )
    rubric = f'schema = 1\nid = "quality"\n{commands}\n'
    repo = gated(tmp_path / "repo", environ, rubric=rubric)
    repo.git("tag", "start")
    for number in range(3):
        repo.commit(f"Change {number}", **{"src/load.py": f"a = {number}\n"})
    result = review_each(repo, "--no-judge")
    reason = (
        "lint, format could not be decided in 3 commits: no program no-such-linter in PATH; "
        "install no-such-linter, or correct the criterion's command"
    )
    assert (result.code, result.out.count(reason)) == (3, 1), result.out
    assert result.out.count("no program no-such-linter") == 1
    row = documents(review_each(repo, "--no-judge", "--json"))[0]
    cause = {"code": "program_missing", "program": "no-such-linter"}
    assert row["undecided"] == [
        {"criterion": "lint", "cause": cause},
        {"criterion": "format", "cause": cause},
    ]


def test_why_no_judge_was_asked_is_said_once_for_all_commits(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = gated(tmp_path / "repo", environ)
    repo.git("tag", "start")
    for number in range(2):
        repo.commit(f"Change {number}", **{"src/load.py": f"a = {number}\n"})
    result = review_each(repo)
    reason = (
        "errors-not-swallowed, names-are-clear could not be decided in 2 commits: no API key; "
        "set ANTHROPIC_API_KEY"
    )
    assert (result.code, result.out.count(reason)) == (3, 1), result.out


def test_a_run_that_cannot_be_recorded_says_so_in_its_row(history: Repo) -> None:
    shutil.rmtree(history.path / ".vibe-artifacts")
    history.commit("Store", **{".vibe-artifacts/x": "tracked\n"})
    (row, _) = documents(review_each(history, "--json", "--no-judge", selection="HEAD~1..HEAD"))
    assert row["bundle"] == ""
    assert "git tracks 1 file in .vibe-artifacts" in row["why"]


@pytest.mark.slow  # a terminal takes a start of the interpreter
def test_a_terminal_shows_a_bar_with_rate_and_time_left(history: Repo) -> None:
    argv = ("review", "start..HEAD", "--each", "--force", "--no-judge")
    code, text = on_a_terminal(history.path, history.environ, *argv, typed=b" ")
    assert code == 1
    assert "━" in text
    assert "4/4" in text
    assert "/s" in text
    assert "fail          Secret" in text


@pytest.mark.slow  # judges
@pytest.mark.usefixtures("quick_agents")
def test_a_budget_of_all_leaves_commits_that_the_same_command_reviews_later(history: Repo) -> None:
    history.write(".vibe-gate/gate.toml", GATE)
    history.write(".vibe-gate/rubrics/quality.toml", RUBRIC)
    history.commit("Gate")
    for number in range(3):
        history.commit(f"Commit {number}", **{f"src/part{number}.py": f"part = {number}\n"})
    passing_turn = answer(passes("errors-not-swallowed", "names-are-clear"), usage=costing(2_000))
    with answering(passing_turn, repeat_last=True) as model:
        history.environ |= model.environ
        poor = documents(
            review_each(history, "--json", "--max-cost-usd", "0.05", selection="HEAD~3..HEAD")
        )
        request_count = len(model.script.requests)
        later_rows = documents(review_each(history, "--json", selection="HEAD~3..HEAD"))
    assert (poor[-1]["exit_code"], 0.01 < poor[-1]["usd"] <= 0.05) == (3, True), poor
    assert 0 < poor[-1]["outcomes"]["pass"] == request_count < 3
    assert (later_rows[-1]["outcomes"]["pass"], later_rows[-1]["recorded"]) == (3, request_count)
    assert len(model.script.requests) == 3
