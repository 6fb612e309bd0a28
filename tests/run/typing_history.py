"""A repository whose lines people and agents type, one after the other, with a record of who typed what.

Agents' writes are left in the spool as capture leaves them, with times of their own.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from repos import Repo

from vibe_gate.domain.matching import matches
from vibe_gate.git import open_repository
from vibe_gate.run.blame import line_origins
from vibe_gate.secrets import Redactor
from vibe_gate.store import captures, open_state, open_store

START = 1_790_000_000
PERSON = "person"


class History:
    """`now` ticks a minute at each step. `typed`: by path, of each line whose it is: "person" or a session."""

    def __init__(self, path, environ):
        self.repo = Repo(path, environ)
        self.now = START
        self.typed: dict[str, list[str]] = {}
        self.commits = 0

    def lines(self, path: str) -> list[str]:
        file = self.repo.path / path
        text = file.read_bytes().decode() if file.exists() else ""
        return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []

    def event(self, session: str, **data) -> None:
        self.now += 60
        folder = self.repo.path / ".git" / "vibe-gate" / "captures" / session
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "events.ndjson", "a") as file:
            file.write(json.dumps({"ts": self.now * 1000, "event": {"session_id": session, **data}}) + "\n")

    def asked(self, session: str, text: str) -> None:
        self.event(session, hook_event_name="UserPromptSubmit", prompt=text)

    def edit(self, path: str, text: str, by: str = PERSON, tool: str = "Edit") -> None:
        """Whoever it is gives the file this text; the lines that stay keep their typist."""
        old, before = self.lines(path), self._text(path)
        self.repo.write(path, text)
        new = self.lines(path)
        came = matches(old, new)
        known = self.typed.get(path, [])
        self.typed[path] = [known[at] if at >= 0 else by for at in came]
        if by == PERSON:
            self.now += 60
            return
        lf = [part if part is None else part.replace("\r\n", "\n") for part in (before, text)]
        answer = {"type": "update", "content": lf[1], "originalFile": lf[0]}
        if tool == "Edit":
            answer = {"originalFile": lf[0] or "", "oldString": lf[0] or "", "newString": lf[1]}
        elif before is None:
            answer["type"] = "create"
        place = str(self.repo.path / path)
        asked = {"file_path": place, "content": lf[1]} if tool == "Write" else {"file_path": place}
        self.event(
            session=by,
            hook_event_name="PostToolUse",
            tool_name=tool,
            tool_use_id=f"toolu_{self.now}",
            tool_input=asked,
            tool_response=answer,
        )

    def _text(self, path: str) -> str | None:
        file = self.repo.path / path
        return file.read_bytes().decode() if file.exists() else None

    def put(self, path: str, at: int, *lines: str, by: str = PERSON, instead: int = 0) -> None:
        """Put lines at a place (from 0), in place of some."""
        now = self.lines(path)
        now[at : at + instead] = lines
        self.edit(
            path, "".join(f"{line}\n" for line in now), by, "Edit" if (self.repo.path / path).exists() else "Write"
        )

    def git(self, *argv: str) -> str:
        self.now += 60
        date = f"{self.now} +0000"
        self.repo.environ |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "GIT_EDITOR": "true"}
        return self.repo.git(*argv)

    def commit(self, message: str = "Change", *options: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message, *options)
        self.commits += 1
        return self.repo.git("rev-parse", "HEAD")

    def fold(self) -> None:
        redactor, now = Redactor({}), datetime.fromtimestamp(self.now, UTC)
        shelf = open_store(self.repo.path, redactor, lambda: now).captures()
        common = self.repo.path / ".git"
        assert captures.fold(open_state(common), shelf, redactor, now)[1] == ""

    def origins(self, path: str, revision: str = "HEAD", lines=()):
        self.fold()
        with open_repository(self.repo.path, self.repo.environ) as repository:
            return line_origins(repository, [self.repo.path], revision, path, lines)

    def told(self, path: str, revision: str = "HEAD") -> list[str]:
        """Of each line the session, or "person", or "unknown"."""
        return [origin.session or origin.by for origin in self.origins(path, revision)]
