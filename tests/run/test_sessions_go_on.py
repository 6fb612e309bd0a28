"""Sessions that go on: an agent works, a later run knows what was said and has the files."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from command import CommandResult, begun, vibe_gate
from scripted_messages_api import Hang, ToolUse, Turn
from wire import answering
from working import WorkingRepo, pid_of_agents, says

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("quick_agents"),
]


class Talk(WorkingRepo):
    """A repository without uncommitted work, and what its agents said."""

    def __init__(self, path: Path, environ) -> None:
        super().__init__(path, environ)
        self.commit("Second")

    def sessions(self, *argv: str, model=None) -> CommandResult:
        return vibe_gate(
            "sessions",
            *argv,
            cwd=self.path,
            environ={**self.environ, **(model.environ if model else {})},
        )

    def document(self, *argv: str, model=None) -> dict:
        result = self.sessions(*argv, "--json", model=model)
        assert result.code == 0, result.err
        return json.loads(result.out)

    def all(self) -> list[dict]:
        return self.document("list")["sessions"]


@pytest.fixture
def repo(tmp_path, environ) -> Talk:
    return Talk(tmp_path / "repo", environ)


def turn(number: int, content: str = "") -> list[Turn]:
    """An agent that writes a file of its own at each turn."""
    call = ToolUse("Write", {"file_path": f"n{number}.txt", "content": content or f"{number}\n"})
    return [Turn(call), says(f"Wrote {number}.")]


def three_turns(repo: Talk, model) -> dict:
    assert repo.run("--agent", "fixer", "--prompt", "Turn 1.", model=model.environ).code == 0
    for number in (2, 3):
        continuation = repo.sessions("continue", f"Turn {number}.", model=model)
        assert continuation.code == 0, continuation.out + continuation.err
    (session,) = repo.all()
    return session


def list_patched_files(repo: Talk, session: dict) -> list[str]:
    """The files that the last turn of a session left, besides those of the repository."""
    patch = repo.path / ".vibe-artifacts"
    (run,) = patch.glob(f"*/{session['turns'][-1]['run']}")
    text = (run / "made.patch").read_text()
    return sorted(
        line.split(" b/")[-1] for line in text.splitlines() if line.startswith("diff --git")
    )


def clone_with_sessions(repo: Talk, folder: Path) -> Talk:
    """A clone for a user with another home, into which the stored sessions were copied."""
    clone = Talk.__new__(Talk)
    home = folder / "another-home"
    home.mkdir()
    clone.path, clone.environ = folder / "clone", {**repo.environ, "HOME": str(home)}
    repo.git("clone", "-q", str(repo.path), str(clone.path))
    shutil.copytree(repo.path / ".vibe-artifacts/sessions", clone.path / ".vibe-artifacts/sessions")
    (clone.path / ".vibe-artifacts/.gitignore").write_text("*\n")
    return clone


def trees_after(session: dict) -> list[str]:
    """The tree that each turn of a session left."""
    return [turn_document["after"] for turn_document in session["turns"]]


def test_three_turns_rewound_to_two_forked_and_resumed_in_another_clone_with_another_home(
    repo, tmp_path
):
    before = repo.state()
    steps = [step for number in range(1, 4) for step in turn(number)]
    with answering(*steps, *turn(6), *turn(7), *turn(8)) as model:
        # Three turns: each begins with the files and the words of those before it.
        session = three_turns(repo, model)
        assert [turn_document["status"] for turn_document in session["turns"]] == ["done"] * 3
        first, second, third = session["turns"]
        assert (first["after"], second["after"]) == (second["before"], third["before"])
        assert len(set(trees_after(session))) == 3
        assert list_patched_files(repo, session) == [f"n{number}.txt" for number in range(1, 4)]
        request_text = model.script.requests[-1].all_text
        for number in range(1, 4):
            assert f"Turn {number}." in request_text and f"n{number}.txt" in request_text

        # Rewound to two turns: the third is gone from files, words and cost.
        rewound = repo.document("rewind", session["id"], "--to", "2")
        assert trees_after(rewound) == trees_after(session)[:2]
        assert repo.sessions("continue", "Turn 6.", model=model).code == 0
        newest = repo.all()[0]
        assert newest["id"] == rewound["id"]
        assert list_patched_files(repo, newest) == ["n1.txt", "n2.txt", "n6.txt"]
        request_text = model.script.requests[-1].all_text
        assert "Turn 2." in request_text and "Turn 6." in request_text
        assert "Turn 3." not in request_text
        assert newest["usd"] > session["usd"] * 2 / 3

        # Forked after the first turn.
        fork = repo.document("fork", session["id"], "--at", "1")
        assert repo.sessions("resume", fork["id"], "Turn 7.", model=model).code == 0
        (fork,) = [listed for listed in repo.all() if listed["id"] == fork["id"]]
        assert list_patched_files(repo, fork) == ["n1.txt", "n7.txt"]
        assert fork["parent_session_id"] == session["session_id"]

        # Resumed in another clone, once its owner took the session over.
        clone = clone_with_sessions(repo, tmp_path)
        name = rewound["session_id"][:12]
        assert clone.sessions("resume", name, "Turn 8.", model=model).code == 5
        assert clone.sessions("migrate", name).code == 0
        resumption = clone.sessions("resume", name, "Turn 8.", model=model)
        assert resumption.code == 0, resumption.out + resumption.err
        assert "not in this clone" not in resumption.out + resumption.err
        resumed = clone.all()[0]
        assert list_patched_files(clone, resumed) == ["n1.txt", "n2.txt", "n6.txt", "n8.txt"]
        assert trees_after(resumed)[:3] == trees_after(newest)
        request_text = model.script.requests[-1].all_text
        assert "Turn 6." in request_text
        assert str(repo.path) not in request_text and "{{workspace}}" not in request_text
        assert resumed["usd"] > newest["usd"]
        assert not model.script.unexpected

    # Where it began, nothing changed.
    assert repo.state() == before
    (original,) = [listed for listed in repo.all() if listed["id"] == session["id"]]
    assert len(original["turns"]) == 3


def test_a_patch_takes_back_nothing_that_the_user_did_meanwhile(repo):
    with answering(*turn(1), *turn(2)) as model:
        assert (
            repo.run("--agent", "fixer", "--prompt", "Begin.", "--apply", model=model.environ).code
            == 0
        )
        assert repo.git("status", "--porcelain", "-uall") == "?? n1.txt"
        repo.write("mine.txt", "mine\n")
        continuation = repo.sessions("continue", "Go on.", "--apply", model=model)
    assert (
        continuation.code == 5
        and "git apply -3" in continuation.err
        and "✓ DONE · no rubric judged it" in continuation.out
    )
    command = continuation.out.splitlines()[-1].removeprefix("apply     ")
    assert command.startswith("git apply -3 ") and len(command) <= 70
    assert list_patched_files(repo, repo.all()[0]) == ["n2.txt"]
    assert repo.git("status", "--porcelain", "-uall") == "?? mine.txt\n?? n1.txt"


@pytest.mark.parametrize(
    ("turns", "files"),
    [
        ([turn(1), [says("Nothing to do.")]], ["n1.txt", "n9.txt"]),
        ([[says("Nothing to do.")], turn(1), [says("Still nothing.")]], ["n1.txt", "n9.txt"]),
        ([turn(1, "a"), turn(1, "b"), turn(1, "a")], ["n1.txt", "n9.txt"]),
    ],
)
def test_a_session_goes_on_with_its_files_when_its_workspaces_are_gone(repo, turns, files):
    with answering(*(step for steps in turns for step in steps), *turn(9)) as model:
        assert repo.run("--agent", "fixer", "--prompt", "Turn 0.", model=model.environ).code == 0
        for number in range(1, len(turns)):
            assert repo.sessions("continue", f"Turn {number}.", model=model).code == 0
        with open_repository(repo.path, read_environment(repo.environ)) as repository:
            shutil.rmtree(repository.workspaces)
        continuation = repo.sessions("continue", "Go on.", model=model)
    assert continuation.code == 0 and "not in this clone" not in continuation.out + continuation.err
    assert list_patched_files(repo, repo.all()[0]) == files


SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


def test_a_secret_that_an_agent_wrote_is_redacted_and_the_session_goes_on(repo):
    with answering(*turn(1, f"token = {SECRET}\n"), *turn(2)) as model:
        assert (
            repo.run("--agent", "fixer", "--prompt", f"Write {SECRET}.", model=model.environ).code
            == 0
        )
        stored = "".join(
            path.read_text()
            for path in (repo.path / ".vibe-artifacts/sessions").rglob("*.*")
            if path.is_file()
        )
        assert SECRET not in stored and "n1.txt" in stored
        continuation = repo.sessions("continue", "Go on.", model=model)
        assert continuation.code == 0, continuation.out + continuation.err
        assert list_patched_files(repo, repo.all()[0]) == [
            "n1.txt",
            "n2.txt",
        ]  # the files are those of the workspace
    assert vibe_gate("bundles", "verify", cwd=repo.path, environ=repo.environ).code == 0


def test_of_two_who_go_on_with_a_session_at_once_the_second_is_told_who_the_first_is(repo):
    with answering(*turn(1), Hang()) as model:
        assert repo.run("--agent", "fixer", "--prompt", "Begin.", model=model.environ).code == 0
        environ = {**repo.environ, **model.environ}
        with begun("sessions", "continue", "Go on.", cwd=repo.path, environ=environ) as first:
            until(lambda: len(model.script.requests) == 3)
            second = repo.sessions("continue", "I, too.", model=model)
            told_pid = re.search(r"in use by process (\d+)", second.out.splitlines()[0])
            assert second.code == 3
            os.kill(int(told_pid[1]), signal.SIGINT)
            first.communicate(timeout=60)
            ended_run = max(
                path.parent.name for path in repo.path.glob(".vibe-artifacts/*/*/summary.json")
            )
            refused = vibe_gate("resume", ended_run, cwd=repo.path, environ=environ)
            assert refused.code == 2 and "nothing to resume" in refused.err
    (session,) = repo.all()
    assert session["turns"][0]["status"] == "done"


@pytest.mark.usefixtures("real_cli")
def test_a_turn_that_was_killed_is_begun_again_in_its_session_from_the_last_finished_one(repo):
    with answering(*turn(1), turn(2)[0], Hang(), *turn(3), *turn(4)) as model:
        assert repo.run("--agent", "fixer", "--prompt", "Begin.", model=model.environ).code == 0
        environ = {**repo.environ, **model.environ}
        with begun("sessions", "continue", "Be killed.", cwd=repo.path, environ=environ) as first:
            until(lambda: len(model.script.requests) == 4)
            os.kill(pid_of_agents(repo), signal.SIGKILL)
            first.communicate(timeout=60)
        stored = next((repo.path / ".vibe-artifacts/sessions").glob("*/messages.jsonl"))
        assert "Be killed." in stored.read_text()
        with stored.open("ab") as file:
            file.write(b'{"type":"user","torn')
        resumption = vibe_gate("resume", "--json", cwd=repo.path, environ=environ)
        assert resumption.code == 0, resumption.err
        request_text = model.script.requests[-1].all_text
        (session,) = repo.all()
        assert len(session["turns"]) == 2 and list_patched_files(repo, session) == [
            "n1.txt",
            "n3.txt",
        ]
        assert resumption.json["cost"]["usd"] == pytest.approx(
            session["turns"][1]["usd"] * 3 / 2
        )  # the cut request, too
        assert repo.sessions("continue", "Go on.", model=model).code == 0
    assert (
        request_text.count("Be killed.") == 1
        and "Wrote 1." in request_text
        and "n2.txt" not in request_text
    )


def until(happened, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
