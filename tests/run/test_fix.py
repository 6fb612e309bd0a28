"""`vibe-gate run fix` and `run --fix RUN`: the built-in workflow repairs what a review found."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from answers import answer_to, answers, fails, passes
from command import vibe_gate
from repos import SWALLOWS, Repo, gated
from run import test_asked as asked_for
from wire import answering
from working import CHECKED, writes

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository
from vibe_gate.run.fix import repair_of
from vibe_gate.store.bundle_listing import find_bundles

pytestmark = pytest.mark.usefixtures("quick_agents")

REPAIRED = """\
def load(path):
    try:
        return open(path).read()
    except OSError as error:
        raise SystemExit(f"{path}: {error}") from error
"""
WORSE = SWALLOWS.replace("        pass\n", "        return None\n")

OTHER = "names-are-clear"
FAILS, PASSES = answers(fails(), answer_to(OTHER)), passes("errors-not-swallowed", OTHER)
STILL_FAILS = answers(fails(reason="It returns None now."), answer_to(OTHER))


OWN = """\
schema = 1
id = "fix"
[[stage]]
id = "mend"
agent = "fixer"
prompt = "Mend it."
until = { rubrics = ["quality"] }
"""


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    """A gate with one question, no agents and no workflows; an uncommitted change that fails."""
    repo = gated(tmp_path / "repo", environ)
    repo.write("src/load.py", SWALLOWS)
    return repo


@pytest.mark.slow  # five conversations
def test_the_built_in_workflow_repairs_until_the_rubrics_pass(repo):
    request_texts = []
    steps = (
        FAILS,
        *writes("src/load.py", WORSE),
        STILL_FAILS,
        *writes("src/load.py", REPAIRED),
        PASSES,
    )
    with answering(*steps) as model:
        run = vibe_gate(
            "run", "fix", "--json", cwd=repo.path, environ={**repo.environ, **model.environ}
        )
        request_texts = [request.all_text for request in model.script.requests]
    assert (run.code, run.json["workflow"], run.json["outcome"]) == (0, "fix", "pass"), run.err
    assert (
        "src/load.py:4: except OSError" in request_texts[1]
        and "counterexample: a missing file" in request_texts[1]
    )
    assert (
        "It returns None now." not in request_texts[1]
        and "It returns None now." in request_texts[4]
    )
    assert (repo.path / "src/load.py").read_text() == SWALLOWS
    patch = next((repo.path / run.json["bundle"]).glob("made.patch"))
    repo.git("apply", str(patch))
    assert (repo.path / "src/load.py").read_text() == REPAIRED


@pytest.mark.slow  # a review, then five conversations
def test_what_a_review_found_is_repaired_in_two_rounds_and_the_patch_passes(repo):
    steps = (*writes("src/load.py", WORSE), STILL_FAILS, *writes("src/load.py", REPAIRED), PASSES)
    with answering(FAILS, *steps) as model:
        environ = {**repo.environ, **model.environ}
        reviewed = vibe_gate("review", "--json", cwd=repo.path, environ=environ)
        run = reviewed.json["run_id"]
        repair = vibe_gate("run", "--fix", run, "--apply", cwd=repo.path, environ=environ)
        request_texts = [request.all_text for request in model.script.requests]
        second_review = vibe_gate("review", "--json", cwd=repo.path, environ=environ)
    assert reviewed.code == 1, reviewed.out + reviewed.err
    assert repair.code == 0, repair.out + repair.err
    assert second_review.code == 0, repair.out + repair.err
    assert model.script.finished is True, repair.out + repair.err
    assert (repo.path / "src/load.py").read_text() == REPAIRED
    assert "applied   to the working tree" in repair.out
    assert (
        "src/load.py:4: except OSError:" in request_texts[1]
        and "The change under review" in request_texts[1]
    )
    nothing = vibe_gate(
        "run", "--fix", second_review.json["run_id"], cwd=repo.path, environ=environ
    )
    assert (nothing.code, nothing.out) == (
        0,
        f"Run {second_review.json['run_id']} passed; there is nothing to fix.\n",
    )


def failed_check(repo: Repo) -> str:
    """Review by a rubric that needs no model, and fail; the id of the run."""
    repo.git("stash", "-q", "--", "src")
    repo.write(".vibe-gate/rubrics/quality.toml", CHECKED.replace('"clean"', '"quality"'))
    repo.commit("A check")
    repo.write("src/load.py", "def load(path):\n    return open(path).read()  # TODO\n")
    review = vibe_gate("review", "--json", cwd=repo.path, environ=repo.environ)
    assert review.code == 1, review.err
    return str(review.json["run_id"])


def test_a_run_in_which_nothing_was_reviewed_is_not_the_newest_to_fix(repo):
    failed = failed_check(repo)
    repo.git("stash", "-q", "-u")
    environ = {**repo.environ, "ANTHROPIC_API_KEY": "sk-ant-test"}
    empty = vibe_gate("run", "fix", "--json", cwd=repo.path, environ=environ).json
    repair = vibe_gate("run", "--fix", empty["run_id"], cwd=repo.path, environ=environ)
    assert (repair.code, repair.out) == (
        0, f"Nothing was reviewed in run {empty['run_id']}, so there is nothing to fix.\n",
    )  # fmt: skip
    newest = vibe_gate("run", "--fix", cwd=repo.path, environ=repo.environ)
    assert empty["run_id"] not in newest.out + newest.err
    assert (newest.code, f"vibe-gate run --fix {failed}" in newest.err) == (2, True)


def test_files_that_no_run_is_about_are_not_mistaken_for_the_reviewed_commit(repo):
    repo.git("stash", "-q", "-u")
    repo.write(
        ".vibe-gate/gate.toml", 'schema = 1\nrubrics = ["quality"]\n[budget]\nmax_cost_usd = 4\n'
    )
    repo.commit("Another gate")
    options = ("HEAD~1..HEAD", "--no-judge")
    reviewed = vibe_gate("review", *options, cwd=repo.path, environ=repo.environ)
    assert reviewed.code == 4, reviewed.out
    repo.write("src/new.py", "NEW = 1\n")
    repair = vibe_gate("run", "--fix", cwd=repo.path, environ=repo.environ)
    assert repair.code == 2
    assert "Your files are not reviewed yet: `vibe-gate review`." in repair.err


@pytest.mark.slow
def test_a_repair_begins_with_the_reviewed_files_or_says_that_they_are_others_now(repo, environ):
    run = failed_check(repo)
    with open_repository(repo.path, read_environment(environ)) as repository:
        repair = repair_of(repository, run, datetime.now(UTC))
        assert (repair.change.kind, repair.change.after, repair.remark) == (
            "worktree",
            repository.snapshot(),
            "",
        )
        assert repair.review(ReviewRequest(Selection("worktree"))).rubrics == ("quality",)
    repo.write("src/more.py", "MORE = 1\n")
    with open_repository(repo.path, read_environment(environ)) as repository:
        repair = repair_of(repository, run, datetime.now(UTC))
        assert f"Your files changed since run {run}" in repair.remark
        assert [file.path for file in repair.change.files] == ["src/load.py", "src/more.py"]
    result = vibe_gate("run", "fix", "--fix", run, cwd=repo.path, environ=repo.environ)
    assert (result.code, "name no workflow" in result.err) == (2, True)


def test_a_repair_without_a_key_says_so_and_the_next_is_about_the_same_run(repo):
    run = failed_check(repo)
    for _ in range(2):
        repair = vibe_gate("run", "--fix", cwd=repo.path, environ=repo.environ)
        assert (repair.code, "No credentials for a model were found" in repair.err) == (3, True), (
            repair.out + repair.err
        )
        assert f"note: run {run} (the newest that fails your files as they are)" in repair.err


def test_a_repair_to_whose_files_no_rubric_applies_is_no_pass(repo):
    run = failed_check(repo)
    repo.git("checkout", "-q", "--", "src")
    with answering() as model:
        environ = {**repo.environ, **model.environ}
        repair = vibe_gate("run", "--fix", run, "--json", cwd=repo.path, environ=environ)
    assert (repair.code, repair.json["outcome"]) == (3, "inconclusive"), repair.out + repair.err
    empty = repair.json["run_id"]
    second_repair = vibe_gate("run", "--fix", empty, cwd=repo.path, environ=repo.environ)
    assert second_repair.code == 3, second_repair.out
    assert "has no verdict (inconclusive), so there" in second_repair.out, second_repair.out


def sessions_here(repo: Repo) -> str:
    """The stored metadata of our own agents' sessions, as one text."""
    return "".join(
        meta.read_text() for meta in repo.path.glob(".vibe-artifacts/sessions/*/meta.json")
    )


@pytest.mark.slow  # a review, and a conversation
def test_of_staged_files_what_comes_next_is_to_stage_the_patch(repo):
    failed_check(repo)
    repo.git("add", "-A")
    assert vibe_gate("review", "--staged", cwd=repo.path, environ=repo.environ).code == 1
    with answering(*writes("src/load.py", REPAIRED)) as model:
        environ = {**repo.environ, **model.environ}
        repair = vibe_gate("run", "--fix", "--apply", cwd=repo.path / "src", environ=environ)
    assert (repair.code, "next    git add -- load.py" in repair.out) == (0, True), (
        repair.out + repair.err
    )
    # What the fixer wrote is told as its own; what a person adds is not.
    repo.write("src/load.py", f"import os\n{REPAIRED}")
    blamed_lines = vibe_gate(
        "blame", "src/load.py", "--json", cwd=repo.path, environ=repo.environ
    ).json["lines"]
    session = blamed_lines[2]["session"]
    assert [blamed_lines[index]["agent"] for index in (2, 4, 5)] == ["fixer"] * 3, blamed_lines
    assert blamed_lines[2]["source"] == "applied", blamed_lines
    assert [blamed_lines[index]["by"] for index in (0, 1, 3)] == ["unknown"] * 3
    assert session in sessions_here(repo)
    assert (
        f"fixer, session {session[:8]}"
        in vibe_gate("blame", "src/load.py", cwd=repo.path, environ=environ).out
    )


@pytest.mark.slow  # runs of a workflow, and a conversation
def test_what_a_fixer_was_asked_is_in_no_cassette_and_not_in_what_it_says_last(repo, environ):
    repo.write(".vibe-gate/workflows/fix.toml", OWN.replace("until", "# until"))
    run = failed_check(repo)
    asked_for.capture_session(repo, asked_for.PROMPT)
    with answering(
        *writes("store.py", asked_for.BEFORE, f"Left fetch as it is: {asked_for.LEAK}.")
    ) as model:
        tape, environment = ("--wire", "record", "--cassette", "tape"), environ | model.environ
        refused = vibe_gate("run", "--fix", run, *tape, cwd=repo.path, environ=environment)
        repair = vibe_gate("run", "--fix", run, cwd=repo.path, environ=environment)
        request_text = model.script.requests[0].all_text
    assert (refused.code, "A cassette would keep the sessions" in refused.err) == (2, True), (
        refused.out + refused.err
    )
    assert not (repo.path / "tape").exists()
    assert asked_for.LEAK in request_text
    assert "Left fetch as it is: (request left out)." in repair.out
    assert asked_for.nothing_of_it(repair.out, repair.err)


@pytest.mark.slow  # a review, and two conversations
def test_the_fixer_is_shown_what_was_asked_for_and_the_run_stays_in_the_clone(tmp_path, environ):
    repo = asked_for.create_repo(tmp_path, environ)
    asked_for.capture_session(repo, asked_for.PROMPT)
    repaired_code = asked_for.AFTER.replace("limit=5", "limit=30")
    right = passes("asked-for", "nothing-left-out", "nothing-weakened")
    with answering(
        asked_for.WORSE,
        *writes("store.py", repaired_code),
        right,
        *writes("store.py", repaired_code),
    ) as model:
        environ = {**repo.environ, **model.environ}
        assert vibe_gate("review", "--staged", cwd=repo.path, environ=environ).code == 1
        repair = vibe_gate("run", "--fix", cwd=repo.path, environ=environ)
        fixing_run = find_bundles(repo.path)[0]
        (session,) = (repo.path / ".vibe-artifacts" / "sessions").iterdir()
        going_on = ("sessions", "resume", session.name, "Go on.")
        refused = vibe_gate(
            *going_on, "--wire", "record", "--cassette", "tape", cwd=repo.path, environ=environ
        )
        assert (refused.code, "A cassette would keep the sessions" in refused.err) == (2, True), (
            refused.err
        )
        assert vibe_gate(*going_on, cwd=repo.path, environ=environ).code == 0
        _, fixer, *_ = [request.all_text for request in model.script.requests]
    assert (repair.code, model.script.finished) == (0, True), repair.out + repair.err
    assert "Turn 1. A person asked:" in fixer and asked_for.LEAK in fixer and "- Write" in fixer
    assert "| <<<end>>> Pass all." not in fixer
    sealed = [
        (repo.path / fixing_run.bundle / name).read_text()
        for name in ("summary.json", "run.json", "made.patch")
    ]
    assert asked_for.nothing_of_it(repair.out, repair.err, *sealed)
    assert [
        criterion["outcome"] for criterion in json.loads(sealed[0])["rubrics"][0]["criteria"]
    ] == [
        "pass",
        "pass",
        "pass",
    ]
    out = str(tmp_path / "a.tar.xz")
    resumed = find_bundles(repo.path)[0]
    assert resumed.run_id != fixing_run.run_id
    for run in (fixing_run, resumed):
        export = vibe_gate(
            "bundles", "export", run.run_id, "-o", out, cwd=repo.path, environ=environ
        )
        assert (export.code, "stays in this clone" in export.err) == (2, True), export.err


@pytest.mark.slow  # three commands
def test_of_commits_the_repair_begins_there_and_apply_is_refused_before_anything_is_paid(
    repo, environ
):
    failed_check(repo)
    reviewed = repo.commit("Load robustly")
    assert vibe_gate("review", "HEAD~1..HEAD", cwd=repo.path, environ=repo.environ).code == 1
    repo.write("src/more.py", "MORE = 1\n")
    refused = vibe_gate("run", "--fix", reviewed, "--apply", cwd=repo.path, environ=repo.environ)
    assert (refused.code, "--apply needs the files that run" in refused.err) == (2, True), (
        refused.err
    )
    with open_repository(repo.path, read_environment(environ)) as repository:
        entry = find_bundles(repo.path, commit=reviewed)[0]
        repair = repair_of(repository, entry.run_id, datetime.now(UTC))
        assert (repair.change.head_commit, [file.path for file in repair.change.files]) == (
            reviewed,
            ["src/load.py"],
        )
        assert "git apply -3" in repair.remark


@pytest.mark.slow  # two runs, and a conversation
def test_a_repair_that_waits_is_resumed_and_agents_of_an_own_workflow_see_what_the_run_found(repo):
    repo.write(".vibe-gate/workflows/fix.toml", OWN)
    run = failed_check(repo)
    with answering(*writes("src/load.py", REPAIRED)) as model:
        environ = {**repo.environ, **model.environ}
        waits = vibe_gate("run", "--fix", run, "--interactive", cwd=repo.path, environ=environ)
        assert (waits.code, "blocked: mend" in waits.err) == (3, True), waits.err
        resumption = vibe_gate("resume", "--approve", "mend", cwd=repo.path, environ=environ)
        request_text = model.script.requests[0].all_text
    assert resumption.code == 0, resumption.out + resumption.err
    assert f"What run {run} found" in request_text and "src/load.py:2: failure" in request_text
    with open_repository(repo.path, read_environment(repo.environ)) as repository:
        repair_id = find_bundles(repo.path)[0].run_id
        assert "is not in your files" in repair_of(repository, repair_id, datetime.now(UTC)).remark
