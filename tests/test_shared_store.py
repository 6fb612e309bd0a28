"""A store that a team shares: two clones of one repository, a folder as the store, a scripted model
at the wire.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from answers import answer_to, answers, fails, passes
from command import run_unforked, vibe_gate
from fail_votes import looks_of
from repos import GATE, RUBRIC, SWALLOWS, Repo, allow_store, gated
from walks import LAST, await_review, run_review
from wire import answer, answering

from vibe_gate.context.mode import HookMode
from vibe_gate.domain.bundles import is_evidence, replay_key
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.errors import UsageError
from vibe_gate.gate.labels import counted_labels
from vibe_gate.gate.trusted import standing_store
from vibe_gate.git import open_repository
from vibe_gate.run.review_result import Review
from vibe_gate.store.clone_state import open_state

pytest.importorskip("obstore", reason="obstore is not installed here")
pytestmark = pytest.mark.usefixtures("quick_agents")

SECRET = "correct horse battery staple"
PASSES = passes("errors-not-swallowed", "names-are-clear")


class Team:
    """One repository on a server's disk, its clones, and the folder that they share."""

    def __init__(self, place: Path, environ: dict[str, str], rubric: str = RUBRIC) -> None:
        self.place, self.environ = place, environ | {"VIBE_GATE_STORE_KEY": SECRET}
        self.folder = place / "team"
        self.folder.mkdir()
        self.url = self.folder.as_uri()
        allow_store(self.url, environ)
        origin = gated(
            place / "origin", environ, gate=f'{GATE}[store]\nurl = "{self.url}"\n', rubric=rubric
        )
        origin.commit("Load robustly", **{"src/load.py": SWALLOWS})
        self.origin = origin

    def clone(self, name: str) -> Repo:
        self.origin.git("clone", "-q", str(self.origin.path), str(self.place / name))
        return Repo(self.place / name, self.environ)

    def review(
        self, repo: Repo, *steps: Any, environ: dict[str, str] | None = None, **request: Any
    ) -> Review:
        """A review of the last commit, its run uploaded; the model has these answers and no
        more.
        """
        with answering(*map(answer, steps)) as model:
            review = run_review(
                repo.path, self.environ | model.environ | (environ or {}), LAST, **request
            )
            self.told = review.unshared.upload() if review.unshared else ()
        assert len(model.script.requests) == len(steps)
        assert not model.script.unexpected
        return review

    def objects(self, folder: str = "") -> list[Path]:
        return sorted(path for path in (self.folder / folder).rglob("*") if path.is_file())


ASKED = """\
schema = 1
id = "quality"
sees = ["prompt"]
second_look = "never"
[[criterion]]
id = "asked-for"
kind = "judge"
needs = "prompt"
question = "Is everything asked for?"
"""


@pytest.mark.slow  # a team, and a walk
def test_a_folder_is_no_store_until_its_user_allows_it(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    team = Team(tmp_path, environ)
    repo = team.clone("anna")
    for url, steps in (("", [PASSES]), ("file:///elsewhere", []), (f"{team.url}/", [])):
        allow_store(url, environ)
        [note] = [note for note in team.review(repo, *steps).notes if "shared store" in note]
        assert (
            note.startswith(f"The shared store {team.url} is not used: ")
            and f"vibe-gate.store {team.url}" in note
        )
        assert list(team.folder.iterdir()) == []
    allow_store(team.url, environ)
    assert [note for note in team.review(repo).notes if "shared store" in note] == []


def capture_prompt(repo: Repo, prompt: str) -> None:
    """An agent's session that was asked this and wrote the change."""
    written = {"file_path": "/x/load.py", "content": SWALLOWS}
    call = {"tool_name": "Write", "tool_input": written, "tool_response": {}}
    events = [
        {"hook_event_name": "UserPromptSubmit", "prompt": prompt},
        {"hook_event_name": "PostToolUse", **call},
    ]
    folder = repo.path / ".git/vibe-gate/captures/0f3c9a1e-1111"
    folder.mkdir(parents=True)
    ms = int(datetime.now(UTC).timestamp() * 1000)
    lines = [json.dumps({"ts": ms, "event": event}) + "\n" for event in events]
    (folder / "events.ndjson").write_text("".join(lines))


def evidence_of(team: Team) -> list[Path]:
    """Runs and answers in the team's store."""
    return [*team.objects("runs"), *team.objects("answers")]


@pytest.mark.slow
def test_a_run_whose_judge_was_shown_a_prompt_and_its_answers_stay_in_the_clone(tmp_path, environ):
    team = Team(tmp_path, environ, ASKED)
    repo = team.clone("one")
    capture_prompt(repo, "make it robust")
    review = team.review(repo, passes("asked-for"))
    assert (review.exit_code, review.unshared, team.objects()) == (0, None, [])
    pushed = vibe_gate("bundles", "push", cwd=repo.path, environ=team.environ)
    assert "A model was shown what an agent was asked for" in pushed.err
    assert evidence_of(team) == []


@pytest.mark.slow
def test_a_second_look_at_a_fail_of_a_judge_who_saw_a_prompt_stays_in_the_clone(tmp_path, environ):
    seeing = ASKED.replace('second_look = "never"\n', "").replace(
        'needs = "prompt"\n', "must = true\n"
    )
    team = Team(tmp_path, environ, seeing)
    repo = team.clone("one")
    capture_prompt(repo, "make it robust")
    failed = answers(fails(criterion="asked-for"))
    look = {"trace": "main -> load", "outcome": "stands", "reason": "So it is.", "evidence": []}
    review = team.review(repo, failed, failed, look)
    assert review.exit_code == 1
    looks = []
    for criterion in review.summary.criteria:
        for vote in criterion.votes:
            looks += looks_of(vote)
    assert {look.outcome for look in looks} == {"stands"}
    # The vote of the judge who was shown no prompt: as about the trees, and as about its brief.
    assert len(evidence_of(team)) == 2


@pytest.fixture
def team(tmp_path: Path, environ: dict[str, str]) -> Team:
    return Team(tmp_path, environ)


@pytest.mark.slow
def test_a_second_clone_asks_nothing_that_the_first_was_answered(team: Team) -> None:
    first, second = team.clone("a"), team.clone("b")
    assert team.review(first, PASSES).outcome == "pass"
    assert [*map(str, team.told)] == []
    assert team.objects("answers")
    assert not team.objects("claims")
    assert len(team.objects("runs")) == 1
    review = team.review(second)
    assert review.outcome == "pass"
    assert review.notes == ()
    assert (review.summary.cache.hits, review.summary.cache.misses) == (2, 0)


@pytest.mark.slow
def test_each_counts_the_runs_that_another_machine_has_made_of_the_same_question(
    team: Team,
) -> None:
    first, second = team.clone("a"), team.clone("b")
    command = ("review", "HEAD~1..HEAD", "--each", "--json")
    with answering(answer(PASSES)) as model:
        environ = team.environ | model.environ
        (first_row, _) = map(
            json.loads, vibe_gate(*command, cwd=first.path, environ=environ).out.splitlines()
        )
    lacking = vibe_gate(*command, "--table", cwd=second.path, environ=environ)
    assert json.loads(lacking.out.splitlines()[0])["outcome"] == "missing"
    brought = vibe_gate(*command, "--table", "--store", cwd=second.path, environ=environ)
    row = json.loads(brought.out.splitlines()[0])
    assert (row["run_id"], row["outcome"], row["recorded"]) == (
        first_row["run_id"],
        "pass",
        True,
    ), brought.err


@pytest.mark.slow  # one waits a second for the other
def test_of_two_clones_at_once_one_asks_and_the_other_waits_for_its_answer(team: Team) -> None:
    first, second = team.clone("a"), team.clone("b")

    async def review_both(environ: dict[str, str]) -> list[Review]:
        return await asyncio.gather(*(await_review(repo.path, environ) for repo in (first, second)))

    with answering(PASSES, repeat_last=True) as model:
        reviews = asyncio.run(review_both(team.environ | model.environ))
    assert len(model.script.requests) == 1
    assert sorted((review.outcome, review.summary.cache.misses) for review in reviews) == [
        ("pass", 0),
        ("pass", 2),
    ]
    assert not team.objects("claims")


def test_replays_and_checks_alone_on_uncommitted_work_are_no_evidence() -> None:
    runs = (("tree-a", "none"), ("tree-a", "known"), ("abc", "none"), (replay_key("r"), "known"))
    assert [is_evidence(key, basis) for key, basis in runs] == [False, True, True, False]


def test_a_hook_that_asks_no_judge_has_no_business_with_the_store(team: Team) -> None:
    repo = team.clone("a")
    repo.write("src/load.py", SWALLOWS + "\n")
    repo.git("add", "-A")
    team.folder.rename(team.folder.with_name("unmounted"))  # nobody notices
    review = run_review(repo.path, team.environ, Selection("staged"), mode=HookMode("pre-commit"))
    assert (review.summary.exit_code, review.notes, review.unshared) == (0, (), None)


@pytest.mark.slow  # a second for a judge, or a program
def test_second_looks_travel_too(tmp_path: Path, environ: dict[str, str]) -> None:
    team = Team(tmp_path, environ, RUBRIC.replace('second_look = "never"\n', ""))
    first, second = team.clone("a"), team.clone("b")
    stands = {"trace": "load", "outcome": "stands", "reason": "So it is.", "evidence": []}
    assert (
        team.review(first, answers(fails(), answer_to("names-are-clear")), stands).outcome == "fail"
    )
    assert team.review(second).outcome == "fail"


@pytest.mark.slow
def test_the_change_names_no_store(team: Team, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    evil.mkdir()
    repo = team.clone("a")
    gate = f'{GATE}[store]\nurl = "{evil.as_uri()}"\n'
    repo.git("checkout", "-q", "-b", "redirect")
    repo.commit("Redirect", **{".vibe-gate/gate.toml": gate})
    repo.commit("Change", **{"src/load.py": SWALLOWS + "\n"})
    for options in ({}, {"definitions": "worktree"}, {"base": "main"}):
        team.review(repo, judge="never", **options)
        assert list(evil.iterdir()) == []
    assert len(team.objects("runs")) == 2  # where the gate is that binds
    # bootstrap: the change brings the first gate
    new = Repo(tmp_path / "new", team.environ)
    new.commit("First", **{"a.py": "1\n"})
    new.commit("Gate", **{".vibe-gate/gate.toml": gate, ".vibe-gate/rubrics/quality.toml": RUBRIC})
    team.review(new, judge="never")
    assert list(evil.iterdir()) == []
    # `bundles` reads the same revision
    assert (
        evil.as_uri()
        not in vibe_gate("bundles", "push", "--json", cwd=repo.path, environ=team.environ).out
    )


@pytest.mark.slow
def test_a_checkout_that_knows_no_branch_but_the_change_has_no_store(
    team: Team, tmp_path: Path
) -> None:
    team.origin.git("checkout", "-q", "-b", "pr")
    evil = tmp_path / "evil"
    evil.mkdir()
    team.origin.commit(
        "Redirect", **{".vibe-gate/gate.toml": f'{GATE}[store]\nurl = "{evil.as_uri()}"\n'}
    )
    team.origin.commit("Change", **{"src/load.py": SWALLOWS + "\n"})
    job = Repo(tmp_path / "job", team.environ)
    job.git("remote", "add", "origin", str(team.origin.path))
    job.git("fetch", "-q", "origin", "+refs/heads/pr:refs/remotes/pull/1/merge")
    job.git("checkout", "-q", "--detach", "refs/remotes/pull/1/merge")

    def store_url() -> str:
        with open_repository(job.path, read_environment(team.environ)) as repository:
            return standing_store(repository, lambda: datetime.now(UTC)).url

    job.git(
        "config", "vibe-gate.store", evil.as_uri()
    )  # what a person allowed once, this change does not name
    [note] = [note for note in team.review(job, judge="never").notes if "shared store" in str(note)]
    assert "is not used: no default branch of the remote origin is known here" in note
    with pytest.raises(
        UsageError, match="no default branch of the remote origin is known here: `git fetch origin`"
    ):
        store_url()
    job.git("config", "--unset", "vibe-gate.store")
    job.git("fetch", "-q", "origin")
    assert store_url() == team.url
    job.git("update-ref", "-d", "refs/remotes/origin/main")
    job.git("config", "vibe-gate.trust", "HEAD~2")
    assert store_url() == team.url
    assert not list(evil.iterdir())


@pytest.mark.slow  # a second for a judge, or a program
def test_without_a_key_nothing_is_shared_and_only_ci_says_so(team: Team) -> None:
    repo = team.clone("a")
    team.environ.pop("VIBE_GATE_STORE_KEY")
    assert team.review(repo, PASSES).notes == ()
    [note] = team.review(repo, environ={"CI": "true", "VIBE_GATE_STORE_KEY": "short"}).notes
    assert (
        note
        == f"The shared store {team.url} is not used: VIBE_GATE_STORE_KEY has fewer than 20 characters."
    )
    assert team.objects() == []


@pytest.mark.slow  # a second for a judge, or a program
def test_a_store_that_is_gone_changes_no_verdict_and_is_told_once(team: Team) -> None:
    repo = team.clone("a")
    team.folder.rename(team.folder.with_name("unmounted"))
    [note] = team.review(repo, PASSES).notes
    assert note.startswith(
        f"The shared store {team.url} is not used: there is no such folder. What it lacks"
    )
    assert team.told == ()
    team.folder.with_name("unmounted").rename(team.folder)
    points = vibe_gate("doctor", "--json", cwd=repo.path, environ=team.environ).json["points"]
    assert [
        (point["state"], point["what"]) for point in points if point["name"] == "shared store"
    ] == [("ok", team.url)]
    pushed = vibe_gate("bundles", "push", "--json", cwd=repo.path, environ=team.environ).json
    assert (len(pushed["uploaded"]), pushed["answers"], pushed["left"]) == (1, 2, 0)
    assert team.review(team.clone("b")).outcome == "pass"


@pytest.mark.slow  # a second for a judge, or a program
def test_neither_the_key_nor_the_credentials_of_the_store_are_written_down(team: Team) -> None:
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY"
    text = f"KEYS = {SECRET!r}, {secret!r}\n"
    team.origin.commit("Leak", **{"src/load.py": text})
    team.review(team.clone("a"), PASSES, environ={"AWS_SECRET_ACCESS_KEY": secret}, judge="always")
    stored = [
        *team.objects(),
        *(path for path in (team.place / "a" / ".vibe-artifacts").rglob("*") if path.is_file()),
    ]
    for path in stored:
        data = path.read_bytes()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        assert SECRET.encode() not in data
        assert secret.encode() not in data


@pytest.mark.slow  # a second for a judge, or a program
def test_where_the_gate_names_no_store_nothing_of_it_is_loaded(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = gated(tmp_path / "repo", environ)
    repo.commit("Change", **{"a.py": "1\n"})
    argv = ("review", "--commit", "HEAD", "--no-judge", "--quiet")
    variables = environ | {"VIBE_GATE_STORE_KEY": SECRET}
    python = ("-X", "importtime")
    result = run_unforked(*argv, cwd=repo.path, environ=variables, python=python)
    assert result.code == 0, result.err
    modules = {line.rpartition("|")[2].strip() for line in result.err.splitlines()}
    assert "vibe_gate.store.run_recorder" in modules
    assert [name for name in modules if any(word in name for word in STORE_WORDS)] == []


STORE_WORDS = ("obstore", "store.shared", "store.coded")
"""In the names of the modules that only a shared store needs."""


@pytest.mark.slow  # eight commands, a process each
def test_runs_there_are_listed_shown_verified_exported_reported_and_cleaned(team: Team) -> None:
    first, second = team.clone("a"), team.clone("b")
    run = team.review(first, PASSES).summary.run_id

    def run_command(*argv: str, code: int = 0) -> str:
        result = vibe_gate(*argv, cwd=second.path, environ=team.environ)
        assert result.code == code, result.err
        return result.out

    (entry,) = json.loads(run_command("bundles", "list", "--store", "--json"))["bundles"]
    assert (entry["run_id"], entry["outcome"]) == (run, "pass")
    assert entry["rubrics"] == [{"id": "quality", "outcome": "pass"}]
    assert "No runs yet" in run_command("bundles", "list")
    assert "PASS" in run_command("bundles", "show", "--store", "HEAD")
    assert run_command("bundles", "verify", "--store") == "Checked 1 run, 2 answers: all genuine.\n"
    assert "1 run," in run_command("bundles", "export", "--store", run[:12], "-o", "run.tar.xz")
    assert "1 run," in run_command("bundles", "export", "--store", run[:12], "--otlp", "run.json")
    assert "imported" in run_command("bundles", "import", "run.tar.xz")
    assert "<html" in run_command("report", run, "--store", "-o", "-")
    site = Path(run_command("report", "--all", "--store", "-o", str(team.place / "site")).strip())
    assert f"runs/{run}.html" in site.read_text()
    assert (site.parent / f"runs/{run}.html").is_file()
    assert "0 runs would be deleted" in run_command("bundles", "clean", "--store", "--dry-run")


def test_verify_names_a_run_by_its_id_and_its_object_once(team: Team) -> None:
    run, key = "20260101T000000000Z-0123abcd", "a" * 40
    name = f"runs/{run}.{key}/{'f' * 180}/{'0' * 64}.{'1' * 64}.tar.xz"
    path = team.folder / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"junk")
    result = vibe_gate("bundles", "verify", "--store", cwd=team.origin.path, environ=team.environ)
    assert (result.code, result.out.splitlines()) == (
        5,
        [
            f"✗ foreign    {run}: it was not uploaded with this VIBE_GATE_STORE_KEY, or its name was altered",
            f"             {name}",
            "Checked 1 run, 0 answers: 1 object not to be believed; the rest is what the team wrote.",
        ],
    )


@pytest.mark.slow  # five commands, a process each
def test_a_label_counts_in_the_figures_of_other_clones_and_blocks_nothing_there(team: Team) -> None:
    first, second = team.clone("a"), team.clone("b")
    review = team.review(first, answers(fails(), answer_to("names-are-clear")))
    finding = review.findings[0].fingerprint
    first.git("config", "user.name", "Ann")
    first.git("config", "user.email", "ann@example.org")

    def run_command(repo: Repo, *argv: str) -> str:
        result = vibe_gate(*argv, cwd=repo.path, environ=team.environ)
        assert result.code == 0, result.err
        return result.out

    run_command(first, "label", finding, "wrong")
    with open_repository(second.path, read_environment(team.environ)) as repository:
        [label], problems = counted_labels(repository, datetime.now(UTC))
    assert (label.finding, label.right, label.by, problems) == (
        finding,
        False,
        "Ann <ann@example.org>",
        (),
    )
    assert len(team.objects("labels")) == 1
    with open_state(second.path / ".git") as state:
        assert state.labels.all() == ()
    run_command(first, "label", "remove", finding)
    assert team.objects("labels") == []
