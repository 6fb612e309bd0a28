"""A repository whose lines people and agents type, one after the other, with a record of who typed
what.

Agents' writes are left in the spool as capture leaves them, with times of their own.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from repos import Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.matching import match_lines
from vibe_gate.git import open_repository
from vibe_gate.run.line_origins import line_origins
from vibe_gate.secrets import Redactor
from vibe_gate.store import captures
from vibe_gate.store.captured_writes import WritingSessions
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.store import open_store

START = 1_790_000_000
PERSON = "person"


class History:
    """`now` ticks a minute at each step. `typed`: by path, of each line whose it is: "person" or a
    session.
    """

    def __init__(self, path, environ):
        self.repo = Repo(path, environ)
        self.now = START
        self.typed: dict[str, list[str]] = {}
        self.commits = 0

    def lines(self, path: str) -> list[str]:
        file = self.repo.path / path
        text = file.read_bytes().decode() if file.exists() else ""
        return text.replace("\r", "").splitlines()

    def event(self, session: str, **data) -> None:
        self.now += 60
        folder = self.repo.path / ".git" / "vibe-gate" / "captures" / session
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "events.ndjson", "a") as file:
            file.write(
                json.dumps({"ts": self.now * 1000, "event": {"session_id": session, **data}}) + "\n"
            )

    def add_prompt(self, session: str, text: str) -> None:
        self.event(session, hook_event_name="UserPromptSubmit", prompt=text)

    def edit(self, path: str, text: str, by: str = PERSON, tool: str = "Edit") -> None:
        """Give the file this text by a person or a session; lines that stay keep their author."""
        old, before = self.lines(path), self._text(path)
        self.repo.write(path, text)
        new = self.lines(path)
        came = match_lines(old, new)
        typists = self.typed.get(path, [])
        self.typed[path] = [typists[at] if at >= 0 else by for at in came]
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
        tool_input = (
            {"file_path": place, "content": lf[1]} if tool == "Write" else {"file_path": place}
        )
        self.event(
            session=by,
            hook_event_name="PostToolUse",
            tool_name=tool,
            tool_use_id=f"toolu_{self.now}",
            tool_input=tool_input,
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
            path,
            "".join(f"{line}\n" for line in now),
            by,
            "Edit" if (self.repo.path / path).exists() else "Write",
        )

    def git(self, *argv: str) -> str:
        self.now += 60
        date = f"{self.now} +0000"
        self.repo.environ |= {
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
            "GIT_EDITOR": "true",
        }
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
        assert captures.fold_captures(open_state(common), shelf, redactor, now)[1] == ""

    def origins(self, path: str, revision: str = "HEAD", lines=()):
        self.fold()
        with open_repository(self.repo.path, read_environment(self.repo.environ)) as repository:
            return line_origins(
                repository, WritingSessions([self.repo.path]), revision, path, lines
            )

    def authors_of_lines(self, path: str, revision: str = "HEAD") -> list[str]:
        """For each line the id of the session that wrote it, "person", or "unknown"."""
        return [origin.session or origin.by for origin in self.origins(path, revision)]


COMMON = ("}", "    return None", "", "    pass", "    except OSError:", ")")
"""Lines that everybody types."""

AGENTS = ("aaaaaaaa-session", "bbbbbbbb-session")


def forty_commits(history: History, chance) -> int:
    """Forty commits in which two agents and a person write three files; how many of them were
    rewritten.
    """
    rewritten = 0
    for path in ("one.py", "two.py", "three.py"):
        history.put(path, 0, *_draw_lines(chance, PERSON, 25))
    history.commit("First")
    for number in range(2, 41):
        path = chance.choice([*history.typed])
        for by in chance.sample([PERSON, *AGENTS], chance.randint(1, 3)):
            if by != PERSON:
                history.add_prompt(by, f"Change {path}, please ({number})")
            for _ in range(chance.randint(1, 4)):
                _typed(history, chance, path, by)
        if number % 10 == 3:
            _formatted(history, path)
        if number % 10 == 5:
            history.commit(f"Commit {number}")
            _typed(history, chance, path, chance.choice(AGENTS))
            history.commit(f"Commit {number}, amended", "--amend")
            history.commits -= 1
            rewritten += 1
        elif number % 10 == 7:
            _squashed(history, chance, path, number)
            rewritten += 2
        elif number % 10 == 9:
            _rebased(history, chance, number)
            rewritten += 2
        elif number == 24:
            _moved(history, path, number)
        elif number == 28:
            history.commit(f"Commit {number}")
            history.git("revert", "--no-edit", "HEAD")
            history.git("revert", "--no-edit", "HEAD")
        else:
            history.commit(f"Commit {number}")
    return rewritten


def _draw_lines(chance, by: str, most: int = 8) -> list[str]:
    """Random lines, of which a third are such as everybody types."""
    return [
        chance.choice(COMMON)
        if chance.random() < 0.35
        else f"    {by[:3]}_{chance.randrange(10**6)} = call('some', one)"
        for _ in range(chance.randint(1, most))
    ]


def _typed(history: History, chance, path: str, by: str) -> None:
    now = history.lines(path)
    at = chance.randrange(len(now) + 1)
    instead = chance.choice([0, 0, 0, 1, 2]) if len(now) > 20 else 0
    history.put(path, at, *_draw_lines(chance, by), by=by, instead=instead)


def _formatted(history: History, path: str) -> None:
    """A formatter breaks up some lines; who typed them did so all the same."""
    lines, typed = [], []
    for number, (line, by) in enumerate(zip(history.lines(path), history.typed[path], strict=True)):
        if "call('some', one)" in line and number % 3 == 0:
            start = line.replace("'some', one)", "")
            lines += [start, '        "some",', "        one,", "    )"]
            typed += [by] * 4
        else:
            lines.append(line)
            typed.append(by)
    history.repo.write(path, "".join(f"{line}\n" for line in lines))
    history.typed[path] = typed
    history.now += 60


def _squashed(history: History, chance, path: str, number: int) -> None:
    """Three commits become one."""
    for step in range(3):
        _typed(history, chance, path, [PERSON, *AGENTS][step])
        history.commit(f"Step {step}")
    history.commits -= 3
    history.git("reset", "-q", "--soft", "HEAD~3")
    history.commit(f"Commit {number}, squashed")


def _rebased(history: History, chance, number: int) -> None:
    """Two commits on a branch, of two files, while the main branch gets another one of the first:
    rebased onto it.
    """
    first, second = sorted(history.typed)[:2]
    history.commit(f"Commit {number}")
    branch = history.repo.git("branch", "--show-current")
    before = {path: list(by) for path, by in history.typed.items()}
    old_count = len(before[first])
    history.git("checkout", "-q", "-b", f"topic{number}")
    history.put(first, 0, *_draw_lines(chance, AGENTS[0]), by=AGENTS[0])
    history.commit("Topic, first")
    _typed(history, chance, second, AGENTS[1])
    _typed(history, chance, second, PERSON)
    history.commit("Topic, second")
    topic = {path: list(by) for path, by in history.typed.items()}
    history.git("checkout", "-q", branch)
    history.typed = before
    history.put(first, len(history.lines(first)), *_draw_lines(chance, PERSON))
    history.commit("Meanwhile")
    main = list(history.typed[first])
    history.git("checkout", "-q", f"topic{number}")
    history.git("rebase", "-q", branch)
    history.git("checkout", "-q", branch)
    history.git("merge", "-q", "--ff-only", f"topic{number}")
    added = len(topic[first]) - old_count
    history.typed[first] = topic[first][:added] + main
    history.typed[second] = topic[second]


def _moved(history: History, path: str, number: int) -> None:
    (history.repo.path / "moved").mkdir(exist_ok=True)
    history.git("mv", path, f"moved/{path}")
    history.typed[f"moved/{path}"] = history.typed.pop(path)
    history.commit(f"Commit {number}, moved")
