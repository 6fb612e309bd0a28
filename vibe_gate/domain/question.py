"""Questions: what a judge is asked, reduced to a key. The same key is never paid for twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from vibe_gate.domain.brief import TEMPLATE_VERSION
from vibe_gate.domain.model import Model
from vibe_gate.domain.summary import CacheUse, Cost, Unreviewed
from vibe_gate.domain.verdict import Vote


@dataclass(frozen=True, slots=True)
class Question:
    """Everything an answer depends on. `message` is "" unless the rubric sees it; `versions` by program."""

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


class Judged(Model):
    """What judges said of one rubric: votes by criterion id, why voting stopped early, what nobody was shown."""

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

    def from_bundle(self, bundle: str) -> Judged:
        """The same for another run: the votes' turns are named from the repository's root."""
        moved = {
            name: tuple(vote.model_copy(update={"turn": f"{bundle}/{vote.turn}" if bundle else ""}) for vote in votes)
            for name, votes in self.votes.items()
        }
        return self.model_copy(update={"votes": moved})


@dataclass(frozen=True, slots=True)
class Heard:
    """What the judges said, by rubric id; `cached` are the rubrics answered by an earlier run.

    `silence` says why none was asked, and `chosen` that this is what the user
    wanted. `intact`: the exported tree is still what it was. `questions` are the keys
    of what was answered for good. `vouched` are the scores of rubrics whose pass was
    taken from a receipt: `silence` then says whose.
    """

    judged: dict[str, Judged]
    cost: Cost
    cached: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    silence: str = ""
    chosen: bool = False
    intact: bool = True
    questions: Mapping[str, str] = field(default_factory=dict)
    vouched: Mapping[str, float] = field(default_factory=dict)

    @property
    def cache(self) -> CacheUse:
        """Criteria answered by an earlier run, and criteria that had to be asked."""
        hits = sum(len(said.votes) for name, said in self.judged.items() if name in self.cached)
        return CacheUse(hits=hits, misses=sum(len(said.votes) for said in self.judged.values()) - hits)
