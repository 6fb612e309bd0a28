"""What a day with a coding agent asks of the model: 60 turns, 25 of them with edits, 8 commits, one
push, one pull request, with the stop hook off, on checks and on judge.

    python bench/turns.py [--turns 60]

The agent is its hooks' events; hooks, git, commits, push and the review of the pull request (in
another clone that shares the team's store) are real. The model answers at once and passes
everything. Every fifth turn with edits writes a secret first: with the stop hook it is repaired in
the same turn, without it the commit is refused and the agent repairs then. Counted are the requests
at the model's wire by the place where they were made, and the turns that were held; timed is the
stop hook, whole processes by wall clock, its median by kind of turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "faces"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _pairs import PROGRAMS
from answers import passes
from clean_environ import clean_environ
from stopping import CLEAN, SECRET, TEAM_GATE, HookedAgentSession
from wire import Model, answering

TURNS = 60
EDITS = 25
COMMITS = 8
HELD_EVERY = 5
"""Of the turns with edits, which one begins with something that fails."""

FORK = PROGRAMS / "hook-script"
"""What tests have start a hook: a fork, not an interpreter of its own."""

STORE_KEY = "a key of a team that exists in this bench alone"

RUBRIC = """\
schema = 1
id = "quality"
[[criterion]]
id = "clear"
kind = "judge"
must = true
question = "Is every new line clear?"
[[criterion]]
id = "no-secrets"
kind = "check"
check = "no-secrets"
must = true
"""


class TimedSession(HookedAgentSession):
    """Its hooks are whole processes, as the agent's settings start them."""

    def hook(self, script: str, event: dict[str, Any]) -> str:
        document = {"session_id": self.session, "cwd": str(self.root), **event}
        command = self.command(script)
        if FORK.exists():
            command = [str(FORK), *command[3:]]
        process = subprocess.run(
            command,
            cwd=self.root,
            env=self.environ,
            input=json.dumps(document),
            capture_output=True,
            text=True,
        )
        if process.returncode != 0 or process.stderr:
            raise SystemExit(f"{script}.py ended with {process.returncode}: {process.stderr}")
        return process.stdout


@dataclass
class Day:
    """One working day in one clone."""

    place: Path
    review: str
    """`[hooks.stop] review` of its gate."""

    model: Model
    requests: Counter[str] = field(default_factory=Counter)
    """By the place at which they were made."""

    stop_ms: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Wall clock of the stop hook by the kind of turn."""

    held_turns: int = 0
    refused_commits: int = 0

    def __post_init__(self) -> None:
        self.root = self.place / "clone"
        self.origin = self.place / "origin.git"
        self.store = self.place / "store"
        environ = clean_environ(self.place / "home") | self.model.environ
        environ["PATH"] = f"{PROGRAMS}{os.pathsep}{environ['PATH']}"
        environ["VIBE_GATE_STORE_KEY"] = STORE_KEY
        self.environ = environ

    def run(self, *argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, cwd=cwd or self.root, env=self.environ, capture_output=True, text=True
        )

    def succeed(self, *argv: str, cwd: Path | None = None) -> None:
        process = self.run(*argv, cwd=cwd)
        if process.returncode != 0:
            output = process.stderr or process.stdout
            raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}: {output[-2000:]}")

    def count(self, place: str, asked_before: int) -> None:
        self.requests[place] += len(self.model.script.requests) - asked_before

    def begin(self) -> HookedAgentSession:
        """The repository, its gate on the trusted branch, its hooks, and a session of the agent."""
        self.place.mkdir()
        (self.place / "home").mkdir()
        self.store.mkdir()
        self.succeed("git", "init", "-q", "--bare", "-b", "main", str(self.origin), cwd=self.place)
        self.succeed("git", "clone", "-q", str(self.origin), str(self.root), cwd=self.place)
        rubrics = self.root / ".vibe-gate" / "rubrics"
        rubrics.mkdir(parents=True)
        gate = TEAM_GATE.format(store=self.store.as_uri(), review=self.review)
        (rubrics.parent / "gate.toml").write_text(gate)
        (rubrics / "quality.toml").write_text(RUBRIC)
        self.succeed("git", "config", "--global", "vibe-gate.store", self.store.as_uri())
        self.succeed("git", "checkout", "-q", "-b", "main")
        self.succeed("git", "add", "-A")
        self.succeed("git", "commit", "-q", "-m", "The gate")
        self.succeed("git", "push", "-q", "origin", "main")
        self.succeed("git", "checkout", "-q", "-b", "feature")
        self.succeed("vibe-gate", "install", "git")
        self.succeed("vibe-gate", "install", "claude", "--stop")
        session = TimedSession(self.root, self.environ)
        session.prompt()
        return session

    def turn(self, session: HookedAgentSession, edits: list[str]) -> None:
        """One prompt: what the agent writes, one version after the other as long as it is held."""
        session.prompt()
        again = False
        for text in edits or [""]:
            if text:
                session.write("work.py", text)
            asked_before = len(self.model.script.requests)
            began_at = time.perf_counter()
            answer = session.stop(after_block=again)
            kind = "with edits" if text else "without edits"
            self.stop_ms[kind].append((time.perf_counter() - began_at) * 1000)
            self.count("stop", asked_before)
            if not answer.holds:
                return
            self.held_turns += not again
            again = True

    def commit(self, title: str) -> bool:
        """Whether git let the commit through."""
        self.succeed("git", "add", "-A")
        asked_before = len(self.model.script.requests)
        process = self.run("git", "commit", "-q", "-m", title)
        self.count("commit", asked_before)
        self.refused_commits += process.returncode != 0
        return process.returncode == 0

    def push(self) -> None:
        asked_before = len(self.model.script.requests)
        self.succeed("git", "push", "-q", "origin", "feature")
        self.count("push", asked_before)

    def review_pull_request(self) -> None:
        """The pull request's job: a clone of its own, with the team's store."""
        checkout = self.place / "checkout"
        self.succeed("git", "clone", "-q", str(self.origin), str(checkout), cwd=self.place)
        asked_before = len(self.model.script.requests)
        words = ("vibe-gate", "review", "origin/main...origin/feature")
        self.succeed(*words, cwd=checkout)
        self.count("pull request", asked_before)


def spend_day(day: Day, turns: int) -> None:
    """Work through the turns, commit what is there now and then, and push at the end."""
    session = day.begin()
    edited = 0
    committed = 0
    for number in range(1, turns + 1):
        edits_until_now = number * EDITS // TURNS
        if edits_until_now == edited:
            day.turn(session, [])
            continue
        edited = edits_until_now
        clean = CLEAN + f"# version {number}\n"
        versions = [SECRET, clean] if edited % HELD_EVERY == 0 else [clean]
        first_version = versions[:1] if day.review == "never" else versions
        day.turn(session, first_version)
        if edited * COMMITS // EDITS == committed:
            continue
        committed = edited * COMMITS // EDITS
        if not day.commit(f"Work {committed}"):
            day.turn(session, [clean])
            if not day.commit(f"Work {committed}"):
                raise SystemExit("the repaired commit was refused")
    day.push()
    day.review_pull_request()


def print_day(day: Day) -> None:
    places = ("stop", "commit", "push", "pull request")
    counts = "".join(f"{day.requests[place]:>14}" for place in places)
    medians = [
        f"{statistics.median(day.stop_ms[kind]):,.0f} ms {kind}" for kind in sorted(day.stop_ms)
    ]
    print(f"{day.review:<8}{counts}{sum(day.requests.values()):>8}{day.held_turns:>7}"
          f"{day.refused_commits:>9}   {', '.join(medians)}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=TURNS)
    turns = parser.parse_args().turns
    print("requests by place:")
    heads = "".join(f"{place:>14}" for place in ("stop", "commit", "push", "pull request"))
    print(f"{'':<8}{heads}{'all':>8}{'held':>7}{'refused':>9}   stop hook, median wall clock")
    for review in ("never", "checks", "judge"):
        with (
            tempfile.TemporaryDirectory() as folder,
            answering(passes("clear"), repeat_last=True) as model,
        ):
            day = Day(Path(folder) / "day", review, model)
            spend_day(day, turns)
            print_day(day)


if __name__ == "__main__":
    main()
