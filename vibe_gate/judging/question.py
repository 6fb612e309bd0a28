"""Questions: what a judge is asked, reduced to a key. The same key is never paid for twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from vibe_gate.domain.model import Model
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import Vote
from vibe_gate.judging.brief import TEMPLATE_VERSION


@dataclass(frozen=True, slots=True)
class Question:
    """Everything an answer depends on. `message` is "" unless it is shown; `versions` by program."""

    before: str
    after: str
    rubric: str
    model: str
    tools: tuple[str, ...]
    message: str
    versions: Mapping[str, str]
    template: int = TEMPLATE_VERSION

    @property
    def key(self) -> str:
        """sha-256 of the question's canonical JSON, in hex."""
        plain = {
            "before": self.before,
            "after": self.after,
            "rubric": self.rubric,
            "template": self.template,
            "model": self.model,
            "tools": sorted(self.tools),
            "message": hashlib.sha256(self.message.encode("utf-8", "surrogateescape")).hexdigest(),
            "versions": dict(sorted(self.versions.items())),
        }
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class RubricQuestion:
    """A rubric as it is asked once: with the author's `message`, or without it (""). `key` as of `Question`."""

    rubric: Rubric
    message: str
    key: str


class RubricVotes(Model):
    """The answer to one question: votes by criterion id, why voting stopped early, what no judge was shown."""

    votes: dict[str, tuple[Vote, ...]]
    stopped: str = ""
    unreviewed: tuple[Unreviewed, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether asking again could only cost: every vote is an answer, and none is missing.

        A refusal, a lost answer or a fault is not kept: the next run may fare better.
        """
        cast = [vote for votes in self.votes.values() for vote in votes]
        return not self.stopped and bool(cast) and all(vote.said is not None for vote in cast)

    def from_bundle(self, bundle: str) -> RubricVotes:
        """The same for another run: the votes' turns are named from the repository's root, as those of others are."""

        def moved(turn: str) -> str:
            return turn if not turn.startswith("nodes/") else f"{bundle}/{turn}" if bundle else ""

        votes = {
            name: tuple(vote.model_copy(update={"turn": moved(vote.turn)}) for vote in votes)
            for name, votes in self.votes.items()
        }
        return self.model_copy(update={"votes": votes})
