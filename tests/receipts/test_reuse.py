"""A verdict of somebody else, taken over or not: `review` with `reuse`, at the wire, with real keys
and real notes.
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import signing
from answers import answers, fails, passes
from repos import Repo
from standing import TIDY
from walks import run_review
from wire import answering

from vibe_gate.agent import sdk_version
from vibe_gate.context.review_request import ForgeJob
from vibe_gate.domain.change import Selection
from vibe_gate.run.review_result import Review

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_agents")]


SIGNERS = ".vibe-gate/allowed_signers"
GATE = 'schema = 1\nrubrics = ["tidy", "clear"]\n'
CLEAR = """\
schema = 1
id = "clear"
[[criterion]]
id = "clear"
kind = "judge"
must = true
question = "Is every new line clear?"
"""
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


LINE = {"path": "src/pay.py", "line": 1, "quote": "def pay(a):", "side": "after"}
ANSWERS = {"pass": passes("clear"), "fail": answers(fails(LINE, criterion="clear"))}


@dataclasses.dataclass
class Place:
    """A repository of Ada's change, and a clone by which CI looks at it."""

    repo: Repo
    keys: Path

    def review(self, folder: Path | None = None, **options: Any) -> Review:
        selection = Selection("range", left="HEAD~1", right="HEAD")
        return run_review(folder or self.repo.path, self.repo.environ, selection, **options)

    def review_as_bob(self, outcome: str = "pass", **options: Any) -> Review:
        """Bob reviews it."""
        with answering(ANSWERS[outcome]) as model:
            self.repo.environ |= model.environ
            return self.review(**options)

    def ci(self, folder: Path, revision: str = "main") -> Path:
        """A fresh clone with the notes, as CI has it."""
        self.repo.git("clone", "-q", "-b", revision, ".", str(folder))
        fetch = ["git", "fetch", "-q", "origin", "refs/notes/vibe-gate:refs/notes/vibe-gate"]
        subprocess.run(fetch, cwd=folder, env=self.repo.environ, capture_output=True)
        return folder

    def review_in_ci(
        self, folder: Path, outcome: str = "pass", **options: Any
    ) -> tuple[Review, int]:
        """Review in the clone as CI does; the review, and how many requests it sent."""
        with answering(ANSWERS[outcome]) as model:
            self.repo.environ |= model.environ
            review = self.review(folder, forge=ForgeJob(), **options)
            return review, len(model.script.requests)


def create_place(folder: Path, environ: dict[str, str], gate: str = GATE) -> Place:
    """A repository whose gate lists Bob as a signer; Bob reviews, Ada writes."""
    key = signing.key(folder / "keys")
    repo = Repo(folder / "repo", environ)
    repo.git("config", "user.name", "Ada")
    repo.git("config", "user.email", "ada@example.org")
    repo.write(".vibe-gate/gate.toml", gate)
    repo.write(".vibe-gate/rubrics/tidy.toml", TIDY)
    repo.write(".vibe-gate/rubrics/clear.toml", CLEAR)
    repo.write(SIGNERS, f"bob@example.org {signing.public(key)}\n")
    repo.commit("First")
    repo.commit("Change", **{"src/pay.py": "def pay(a):\n    return a\n"})
    repo.git("config", "vibe-gate.receipts", "notes")
    signing.sign_with(repo, key)
    return Place(repo, folder / "keys")


@pytest.fixture
def place(tmp_path, environ) -> Place:
    return create_place(tmp_path, environ)


@pytest.fixture(scope="module")
def passed_folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("passed")


@pytest.fixture
def passed(passed_folder, tmp_path, environ) -> Place:
    """A place where Bob's review passed; it is made once and copied."""
    if not (passed_folder / "repo").exists():
        create_place(passed_folder, environ).review_as_bob()
    shutil.copytree(passed_folder / "repo", tmp_path / "repo")
    return Place(Repo(tmp_path / "repo", environ), passed_folder / "keys")


def test_a_pass_with_a_fail_that_only_advised_is_not_taken_over(tmp_path, environ):
    """The receipt has no finding that could be shown, and CI may trust the judge more."""
    place = create_place(tmp_path, environ, f'{GATE}[trust]\nuncalibrated = "advise"\n')
    first = place.review_as_bob("fail")
    assert (first.exit_code, [finding.level for finding in first.findings]) == (0, ["warning"])
    review, requests = place.review_in_ci(place.ci(tmp_path / "ci"), "fail")
    assert (review.exit_code, [finding.level for finding in review.findings], requests > 0) == (
        0,
        ["warning"],
        True,
    )


def test_a_pass_that_a_listed_signer_signed_is_taken_over_without_a_request(passed, tmp_path):
    review, requests = passed.review_in_ci(passed.ci(tmp_path / "ci"))
    assert (review.summary.outcome, review.summary.exit_code, requests) == ("pass", 0, 0)
    [tidy, clear] = review.summary.rubrics
    assert [criterion.decided_by for criterion in (*tidy.criteria, *clear.criteria)] == [
        "check",
        "check",
        "cache",
    ]
    assert "the verdict of bob@example.org at " in clear.criteria[0].reason
    assert any("is reused" in note and "refs/notes/vibe-gate" in note for note in review.notes)
    assert passed.review_in_ci(passed.ci(tmp_path / "forced"), force=True)[1] == 1


def test_it_is_taken_over_whatever_version_of_the_sdk_is_installed_here(
    passed, tmp_path, monkeypatch, request
):
    another = tmp_path / "site/claude_agent_sdk-99.0.dist-info"
    another.mkdir(parents=True)
    (another / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: claude-agent-sdk\nVersion: 99.0\n"
    )
    monkeypatch.syspath_prepend(another.parent)
    request.addfinalizer(sdk_version.cache_clear)
    sdk_version.cache_clear()
    assert sdk_version() == "99.0"
    assert passed.review_in_ci(passed.ci(tmp_path / "ci"))[1] == 0


def test_what_was_taken_over_cannot_be_taken_over_again(passed, tmp_path):
    clone = passed.ci(tmp_path / "ci")
    passed.review_in_ci(clone)
    subprocess.run(
        ["git", "update-ref", "-d", "refs/notes/vibe-gate"],
        cwd=clone,
        env=passed.repo.environ,
        check=True,
    )
    assert passed.review_in_ci(clone)[1] == 1


def test_the_author_cannot_vouch_for_the_change(place, tmp_path):
    for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        place.repo.environ.pop(name, None)
    place.repo.git("config", "user.email", "bob@example.org")
    place.repo.git("commit", "-q", "--amend", "--no-edit", "--reset-author")
    place.review_as_bob()
    assert place.review_in_ci(place.ci(tmp_path / "ci"))[1] == 1


def test_a_key_that_is_not_listed_or_only_by_the_change_itself_counts_for_nothing(place, tmp_path):
    eve = signing.key(place.keys, "eve")
    signing.sign_with(place.repo, eve)
    place.review_as_bob()
    assert place.review_in_ci(place.ci(tmp_path / "ci"))[1] == 1
    place.repo.write(SIGNERS, f"eve@example.org {signing.public(eve)}\n")
    place.repo.git("commit", "-qa", "--amend", "--no-edit")
    place.review_as_bob()
    assert place.review_in_ci(place.ci(tmp_path / "listed"))[1] == 1


def test_a_fail_is_asked_again(place, tmp_path):
    assert place.review_as_bob("fail").summary.outcome == "fail"
    assert place.review_in_ci(place.ci(tmp_path / "ci"))[1] == 1


def test_an_amended_message_is_the_same_question_and_an_amended_tree_another(passed, tmp_path):
    passed.repo.git("commit", "-q", "--amend", "-m", "Another message")
    assert passed.review_in_ci(passed.ci(tmp_path / "message"))[1] == 0
    passed.repo.write("src/pay.py", "def pay(a):\n    return  a\n")
    passed.repo.git("commit", "-qa", "--amend", "--no-edit")
    assert passed.review_in_ci(passed.ci(tmp_path / "tree"))[1] == 1


def test_checks_run_all_the_same_and_one_that_fails_here_has_the_judge_asked(place, tmp_path):
    flag = tmp_path / "flag"
    check = f'[[criterion]]\nid = "calm"\nkind = "check"\ncommand = ["test", "!", "-e", "{flag}"]\n'
    place.repo.git("reset", "-q", "--hard", "HEAD~1")
    place.repo.commit("Command", **{".vibe-gate/rubrics/clear.toml": CLEAR + check})
    place.repo.commit("Change", **{"src/pay.py": "def pay(a):\n    return a\n"})
    place.review_as_bob()
    assert place.review_in_ci(place.ci(tmp_path / "calm"))[1] == 0
    flag.touch()
    review, requests = place.review_in_ci(place.ci(tmp_path / "not"))
    assert (review.summary.rubrics[1].criteria[1].outcome, review.summary.outcome, requests) == (
        "fail",
        "fail",
        1,
    )


def test_a_receipt_that_was_altered_is_left_aside(passed, tmp_path):
    note = passed.repo.git("notes", "--ref", "vibe-gate", "show", "HEAD")
    passed.repo.git(
        "notes",
        "--ref",
        "vibe-gate",
        "add",
        "-f",
        "-m",
        note.replace('sig":"', 'sig":"AAAA', 1),
        "HEAD",
    )
    assert passed.review_in_ci(passed.ci(tmp_path / "ci"))[1] == 1


def test_an_answer_that_was_known_before_is_nobodys_word_whoever_signs_it(place, tmp_path):
    place.repo.git("config", "gpg.format", "openpgp")
    place.review_as_bob()  # by whom, and with which model, nobody knows
    place.repo.git("config", "gpg.format", "ssh")
    summary = place.review().summary
    assert (summary.outcome, summary.cache.hits) == ("pass", 1)
    assert place.review_in_ci(place.ci(tmp_path / "ci"))[1] == 1


def test_the_review_that_asked_counts_though_a_later_one_knew_the_answer(passed, tmp_path):
    assert passed.review().summary.cache.hits == 1
    assert passed.review_in_ci(passed.ci(tmp_path / "ci"))[1] == 0
