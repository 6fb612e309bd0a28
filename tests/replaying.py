"""A repository with stored runs, a scripted model that judges them, and their replays."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime
from typing import Any

from answers import answer_to, answers, fails
from repos import GATE, Repo
from scripted_messages_api import MessagesRequest, Turn
from walks import run_review
from wire import answer

from vibe_gate.context.mode import Batch, ReplayTrial
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.replayed import ReplayRow
from vibe_gate.domain.summary import Summary
from vibe_gate.git import open_repository
from vibe_gate.run.replay import ReplayTask, replay_run_in
from vibe_gate.store.clone_state import open_state

RUBRIC = """\
schema = 1
id = "quality"
[[criterion]]
id = "errors-not-swallowed"
kind = "judge"
must = true
question = "Does every KIND handler say why?"
"""
FORBIDDEN = """\
schema = 1
id = "quality"
[[criterion]]
id = "pattern"
kind = "check"
check = "forbidden-pattern"
options = { pattern = "PATTERN" }
must = true
"""
SWALLOWS = "def load(path):\n    try:\n        return open(path).read()\n    except OSError:\n        pass\n"
LOGS = SWALLOWS.replace("pass", "raise")
HANDLER = {"path": "src/load.py", "line": 4, "quote": "    except OSError:", "side": "after"}


def judge(request: MessagesRequest) -> Turn:
    """A fail of what drops an error, of any handler if the question is strict, of none if it is
    lax.
    """
    text = request.all_text
    if "second look" in request.system_text:
        return answer(
            {"trace": "load", "outcome": "stands", "reason": "It happens.", "evidence": []}
        )
    drops = "+|        pass" in text
    if "Does every strict" in text or ("Does every new" in text and drops):
        return answer(answers(fails(HANDLER)))
    return answer(answers(answer_to("errors-not-swallowed")))


class History:
    """Commits of one repository, each reviewed: every third drops an error. `asked` counts
    requests.
    """

    def __init__(
        self, repo: Repo, environ: dict[str, str], requests: list[MessagesRequest] | None
    ) -> None:
        self.repo, self.environ, self.requests = (
            repo,
            repo.environ | environ,
            [] if requests is None else requests,
        )
        self.path = repo.path
        self.define("new") if requests is not None else self.forbid("pass$")
        repo.write("src/load.py", "def load(path):\n    return open(path).read()\n")
        self.base = repo.commit("First")

    def define(self, kind: str) -> None:
        self.repo.write(".vibe-gate/gate.toml", GATE)
        self.repo.write(".vibe-gate/rubrics/quality.toml", RUBRIC.replace("KIND", kind))

    def forbid(self, pattern: str) -> None:
        """A rubric that asks no model."""
        self.repo.write(".vibe-gate/gate.toml", GATE)
        self.repo.write(".vibe-gate/rubrics/quality.toml", FORBIDDEN.replace("PATTERN", pattern))

    def reviewed(self, number: int) -> Summary:
        self.repo.git("checkout", "-q", "--detach", self.base)
        body = SWALLOWS if number % 3 == 0 else LOGS
        self.repo.commit(f"Change {number}", **{"src/load.py": f"{body}# {number}\n"})
        return run_review(self.path, self.environ).summary

    def replayed(self, *runs: Summary, **trial: Any) -> list[ReplayRow]:
        return self.replayed_by_name(*((run.run_id, run.key) for run in runs), **trial)

    def replayed_by_name(
        self, *runs: tuple[str, str], gates: dict[str, Gate] | None = None, **trial: Any
    ) -> list[ReplayRow]:
        """`gates`: those that the runs of one batch share."""
        request = ReviewRequest(Selection("range"), definitions="worktree")
        tried = ReplayTrial(Batch("b"), **trial)
        batch_gates = {} if gates is None else gates
        with open_repository(self.path, read_environment(self.environ)) as repository:
            return [
                asyncio.run(
                    replay_run_in(
                        ReplayTask(self.path, run_id, key, request, tried),
                        repository,
                        batch_gates,
                        clock=lambda: datetime.now(UTC),
                    )
                )
                for run_id, key in runs
            ]

    def requests_of(self, *runs: Summary, **trial: Any) -> tuple[list[ReplayRow], int]:
        before = len(self.requests)
        return self.replayed(*runs, **trial), len(self.requests) - before

    def forget_answers(self) -> None:
        with open_repository(self.path, read_environment(self.environ)) as repository:
            shutil.rmtree(open_state(repository.common_dir).folder)
