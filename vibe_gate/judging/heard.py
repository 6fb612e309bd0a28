"""What came of asking the judges, or why none was asked: then nothing of theirs has been loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vibe_gate.domain.summary import CacheUse, Cost

if TYPE_CHECKING:
    from vibe_gate.judging.question import Judged


@dataclass(frozen=True, slots=True)
class Heard:
    """What the judges said, by rubric id; `cached` are the rubrics answered by an earlier run, `halves` those of which
    it answered what is asked without the message.

    `silence` says why none was asked, and `chosen` that this is what the user
    wanted. `intact`: the exported tree is still what it was. `questions` are the keys
    of what was answered for good in this run, all of it. `vouched` are the scores of rubrics whose pass was
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
    halves: frozenset[str] = frozenset()

    @property
    def cache(self) -> CacheUse:
        """Criteria that an earlier run answered, in part or all, and criteria about which something was asked."""
        return CacheUse(
            hits=sum(len(said.votes) for name, said in self.judged.items() if name in self.cached | self.halves),
            misses=sum(len(said.votes) for name, said in self.judged.items() if name not in self.cached),
        )
