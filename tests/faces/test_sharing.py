"""[share] prompts: what leaves with a push, when nobody is asked, and what a refusal leaves as it
was.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command import run_unforked
from repos import Repo

from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.faces.git_hook.call import Hook
from vibe_gate.faces.git_hook.sharing import share_prompts, without_password
from vibe_gate.gate.shared_prompts import MAX_PROMPT, MAX_SESSION, read_shared_prompts
from vibe_gate.gate.trusted import gate_for
from vibe_gate.git import open_repository
from vibe_gate.run.fact_finding import prompt_claim
from vibe_gate.secrets import Redactor
from vibe_gate.store import captures
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.store import open_store

NOW = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)
SESSION = "1f3c9a1e-1111-2222-3333-444455556666"
KEY = "sk-ant-api03-" + "Zq7" * 31 + "AA"
GATE = 'schema = 1\n[share]\nprompts = "{}"\n'
MADE = {"src/total.py": "def sum_up(): ...\n"}


class Typed:
    """A terminal at which these answers are typed, one a question."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.shown = ""

    def say(self, text: str) -> None:
        self.shown += text

    def ask(self, question: str) -> str:
        self.say(question)
        return self.answers.pop(0)


class Shared:
    """A clone whose main is at a remote beside it, and a commit that a captured session wrote."""

    def __init__(self, folder: Path, environ: dict[str, str], prompts: str) -> None:
        self.repo = Repo(folder / "repo", environ)
        self.remote = str(folder / "remote")
        self.repo.git("config", "user.name", "Ada")
        self.repo.git("init", "-q", "--bare", self.remote)
        self.repo.git("remote", "add", "origin", self.remote)
        self.repo.commit("First", **{".vibe-gate/gate.toml": GATE.format(prompts)})
        self.repo.git("push", "-q", "origin", "main")
        self.repo.git("remote", "set-head", "origin", "main")

    def commit_from_session(
        self, *prompts: str, files: dict[str, str] = MADE, session: str = SESSION, later: str = ""
    ) -> str:
        """Have a captured session asked this write these files, and commit them; what is asked
        `later` came of it.
        """
        events: list[object] = [
            {"hook_event_name": "UserPromptSubmit", "prompt": text} for text in prompts
        ]
        for path, text in files.items():
            tool = {
                "tool_name": "Write",
                "tool_input": {"file_path": f"/x/{path}", "content": text},
            }
            events.append({"hook_event_name": "PostToolUse", **tool, "tool_response": {}})
        events += [{"hook_event_name": "UserPromptSubmit", "prompt": later}] if later else []
        folder = self.repo.path / ".git/vibe-gate/captures" / session
        folder.mkdir(parents=True, exist_ok=True)
        ms = int(NOW.timestamp() * 1000)
        lines = [
            json.dumps({"ts": ms + n, "event": event}) + "\n" for n, event in enumerate(events)
        ]
        (folder / "events.ndjson").write_text("".join(lines))
        shelf = open_store(self.repo.path, Redactor({}), lambda: NOW).captures()
        captures.fold_captures(open_state(self.repo.path / ".git"), shelf, Redactor({}), NOW)
        return self.repo.commit("Change", **files)

    def push(
        self, terminal: Typed | None = None, since: str = "origin/main", **environ: str
    ) -> str:
        """What the hook says of a push of main, and nothing else is pushed."""
        messages: list[str] = []
        hook = Hook(
            "pre-push", ("origin", self.remote), read_environment({**self.repo.environ, **environ}), self.repo.path,
            lambda: NOW, 1, lambda: "", messages.append, open_state, terminal=lambda: nullcontext(terminal),  # type: ignore[arg-type,return-value]
        )  # fmt: skip
        commits = tuple(self.repo.git("rev-list", "--reverse", f"{since}..main").split())
        share_prompts(hook, {Selection("range", since, "main"): commits}, self.remote)
        return "\n".join(messages)

    def notes(self) -> dict[str, list[dict[str, Any]]]:
        """By commit, the lines of the remote's notes."""
        git = ("--git-dir", self.remote)
        if not self.repo.git(*git, "for-each-ref", "refs/notes"):
            return {}
        rows = self.repo.git(*git, "ls-tree", "-r", "refs/notes/vibe-gate-prompts").splitlines()
        return {
            row.split("\t")[1].replace("/", ""): [
                json.loads(line)
                for line in self.repo.git(*git, "cat-file", "blob", row.split()[2]).splitlines()
            ]
            for row in rows
        }


@pytest.fixture
def shared(tmp_path, environ) -> Shared:
    return Shared(tmp_path, environ, "redacted")


@pytest.mark.slow
def test_whoever_agrees_has_seen_who_what_and_where_and_only_that_leaves(shared):
    commit = shared.commit_from_session(
        "Rename total", f"Use {KEY}\nand \x1b[2J" + "x" * 99, later="A question of another day"
    )
    terminal = Typed("s", "y")
    output = shared.push(terminal)
    assert f"2 prompts of 1 session shared (redacted) with {shared.remote}: git notes" in output
    screen, full_text = terminal.shown.split("Share this?", 1)
    for part in ("Ada <", shared.remote, "refs/notes/vibe-gate-prompts", "2 prompts of 1 session, on 1 commit",
                 "Claude Code session 1f3c9a1e\n    1: Rename total\n    2: Use ",
                 "also at --dry-run, and if the push is refused.\n\n"):  # fmt: skip
        assert part in screen
    assert "x" * 99 in full_text
    for text in (terminal.shown, json.dumps(shared.notes())):
        assert KEY not in text
        assert "another day" not in text
    assert "\x1b" not in terminal.shown
    [[line]] = shared.notes().values()
    assert line["prompts"][0]["text"] == "Rename total"
    assert (list(shared.notes()), line["agent"], line["session"], line["turns"]) == (
        [commit],
        "claude",
        SESSION,
        2,
    )
    with open_repository(shared.repo.path, read_environment(shared.repo.environ)) as repository:
        state, change = (
            open_state(shared.repo.path / ".git"),
            repository.change(Selection("commit")),
        )
        gate = gate_for(repository, change, base=None, definitions=None)
        local_claim = prompt_claim(change, gate, repository, state, str)
        assert (local_claim.is_private, "Rename total" in local_claim.text) == (True, True)
        assert [prompt.turn for prompt in read_shared_prompts(repository, {commit})] == [1, 2]
        assert read_shared_prompts(repository, {"0" * 40}) == ()
        # Elsewhere the notes say the same.
        foreign_claim = prompt_claim(
            change, gate, repository, open_state(shared.repo.path.parent), str
        )
        assert (foreign_claim.is_private, foreign_claim.text) == (False, local_claim.text)


@pytest.mark.slow  # seven pushes
def test_without_a_terminal_nothing_leaves_before_this_clone_has_agreed(shared):
    shared.commit_from_session("Rename total")
    assert "nobody can be asked without a terminal" in shared.push()
    for agent in ({"CLAUDECODE": "1"}, {"CI": "true"}):
        assert "a person has to agree" in shared.push(Typed("y"), **agent)
    assert "you did not agree" in shared.push(Typed(""))
    assert shared.notes() == {}
    assert "shared" in shared.push(Typed("a"))
    assert len(shared.notes()) == 1
    shared.commit_from_session("And now this", files={"b": "b\n"}, session="2" * 8)
    assert f"2 prompts of 2 sessions shared (redacted) with {shared.remote}: " in shared.push(
        CLAUDECODE="1"
    )
    assert len(shared.notes()) == 2
    setting = f"vibe-gate.{shared.remote}.sharePrompts"
    assert shared.repo.git("config", setting) == "redacted"
    shared.repo.git("config", setting, "digest")  # to less than would leave
    shared.commit_from_session("More", files={"c": "c\n"}, session="3" * 8)
    assert "stay here" in shared.push()
    # Where the default branch is not known, the trusted revision may be the change's own.
    shared.repo.git("config", setting, "redacted")
    shared.repo.git("remote", "set-head", "origin", "--delete")
    shared.repo.git("update-ref", "refs/remotes/origin/other", "origin/main")
    shared.repo.git("update-ref", "-d", "refs/remotes/origin/main")
    before = shared.notes()
    output = shared.push(since="origin/other")
    assert "stay here: " in output
    assert "remote set-head" in output
    assert shared.notes() == before
    shared.repo.git("config", "vibe-gate.sharePrompts", "never")
    assert shared.push(Typed(), since="origin/other") == ""


@pytest.mark.slow
@pytest.mark.parametrize("prompts", ["never", "digest"])
def test_a_digest_has_no_word_of_a_prompt_and_never_means_never(tmp_path, environ, prompts):
    shared = Shared(tmp_path, environ, prompts)
    # A change cannot turn on for itself what the trusted revision does not say.
    shared.commit_from_session(
        "Rename total", files={**MADE, ".vibe-gate/gate.toml": GATE.format("redacted")}
    )
    terminal = Typed("s", "y")
    output = shared.push(terminal)
    if prompts == "never":
        assert (output, terminal.shown, shared.notes()) == ("", "", {})
        return
    [[line]] = shared.notes().values()
    assert "prompts" not in line or line["prompts"] == []
    assert (line["turns"], len(str(line["sha256"]))) == (1, 64)
    assert "Rename" not in terminal.shown + json.dumps(line)
    assert str(line["sha256"]) in terminal.shown


@pytest.mark.slow  # two pushes and a colleague's
def test_an_amended_or_rebased_commit_has_what_was_asked_for_and_a_colleagues_line_stays(shared):
    first = shared.commit_from_session("Rename total")
    shared.repo.git("commit", "-q", "--amend", "-m", "Other words")
    amended = shared.repo.git("rev-parse", "HEAD")
    shared.push(Typed("y"))
    assert list(shared.notes()) == [amended]
    # After a conflict the file is another; the hooks recorded which commit it was.
    shared.repo.commit("Mine", **{"src/total.py": "def sum_up(): return 1\n"})
    shared.repo.git("reset", "-q", "--soft", "HEAD~2")
    rebased = shared.repo.commit("Rebased")
    from vibe_gate.domain.provenance import Record

    record = Record(
        ts=NOW.isoformat(), kind="rewritten", stage="post-rewrite", old=amended, commit=rebased
    )
    open_state(shared.repo.path / ".git").hook_records.append(record)
    colleague = json.dumps(
        {"schema": 1, "agent": "codex", "session": "c", "turns": 1, "sha256": "0", "prompts": []}
    )
    git = shared.repo.git
    git("fetch", "-q", "origin", "refs/notes/vibe-gate-prompts:refs/notes/other")
    git("notes", "--ref", "other", "add", "-m", colleague, rebased)
    git("push", "-q", "origin", "refs/notes/other:refs/notes/vibe-gate-prompts")
    shared.push(Typed("y"))
    assert [line["agent"] for line in shared.notes()[rebased]] == ["codex", "claude"]
    assert first not in shared.notes()


@pytest.mark.slow  # a prompt of five megabytes, redacted
def test_what_is_refused_or_too_long_never_stops_the_push(shared):
    shared.commit_from_session("Begin", *["y" * 500] * 60, "z" * 5_000_000, "End")
    hook = Path(shared.remote, "hooks/pre-receive")
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    assert "are not shared: " in shared.push(Typed("y"))
    hook.unlink()
    terminal = Typed("y")
    shared.push(terminal)
    assert "... and " in terminal.shown
    [[line]] = shared.notes().values()
    texts = [prompt["text"] for prompt in line["prompts"]]
    assert (texts[0], texts[-1], line["turns"]) == ("Begin", "End", 63)
    assert sum(map(len, texts)) <= MAX_SESSION
    assert max(map(len, texts)) < MAX_PROMPT + 100
    assert "4,992,000 characters left out here" in json.dumps(texts)


def test_a_password_of_a_url_is_neither_shown_nor_kept():
    assert without_password("https://ada:s3cret@example.org/x.git") == "https://example.org/x.git"
    for plain in (
        "https://example.org/x",
        "git@example.org:x",
        "ssh://git@example.org/x",
        "/tmp/a@b",
        "https://[x",
    ):
        assert without_password(plain) == plain


@pytest.mark.slow  # git itself, its hooks and a terminal, in processes
def test_a_push_at_a_terminal_asks_there_and_git_goes_on(tmp_path, environ):
    shared = Shared(tmp_path, environ, "redacted")
    assert run_unforked("install", "git", cwd=shared.repo.path, environ=environ).code == 0
    shared.commit_from_session("Rename total")

    def pushed(answer: bytes) -> tuple[int, str]:
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(shared.repo.path)
            os.execvpe("git", ["git", "push", "origin", "main"], environ)
        text, ends = b"", time.monotonic() + 60
        while time.monotonic() < ends and select.select([master], [], [], 60)[0]:
            try:
                text += os.read(master, 65536)
            except OSError:
                break
            if answer and text.rstrip().endswith(b"n: no [n]"):
                os.write(master, answer)
                answer = b""
        os.close(master)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text.decode()

    code, text = pushed(b"\x03")
    assert code != 0, text
    assert "Traceback" not in text
    assert shared.repo.git("--git-dir", shared.remote, "rev-parse", "main") != shared.repo.git(
        "rev-parse", "main"
    )
    assert shared.notes() == {}
    code, text = pushed(b"y\n")
    assert code == 0, text
    assert "1: Rename total" in text
    assert "1 prompt of 1 session shared (redacted)" in text
    assert shared.repo.git("--git-dir", shared.remote, "rev-parse", "main") == shared.repo.git(
        "rev-parse", "main"
    )
    assert len(shared.notes()) == 1
    shared.commit_from_session("More", files={"b": "b\n"}, session="2" * 8)
    result = subprocess.run(
        ["git", "push", "origin", "main"], cwd=shared.repo.path, env=environ, start_new_session=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0
    assert "nobody can be asked without a terminal" in result.stdout
    assert len(shared.notes()) == 1
