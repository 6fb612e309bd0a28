"""What a face asks for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.context.mode import LiveMode, Mode
from vibe_gate.domain.cause import Cause, NoJudge
from vibe_gate.domain.change import Selection
from vibe_gate.domain.gate import Budget, Gate
from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.waiver import Waiver

JudgeWish = Literal["never", "if checks pass", "always"]
"""When a judge is asked: never; unless a `must` check fails; also then, unless it found a
secret.
"""


class ForgeJob(Struct, frozen=True):
    """What people said at the forge in whose job the review runs, and what the job can show there.

    In such a job a pass counts that somebody who is listed, and is not the author, signed for
    exactly this question.
    """

    find_approval: Callable[[], Waiver | None] | None = None
    """Gives, if the change edits the gate, whose word lets that pass."""

    accepted: tuple[Waiver, ...] = ()
    """Findings that people let pass."""

    read_issues: Callable[[], str] | None = None
    """Gives the text of the issues that the pull request closes, if a rubric sees them."""

    shows_repairs: bool = False
    """Whether what checks would write in place of what they object to is shown, so that it may take
    time.
    """


class LastWords(Struct, frozen=True):
    """What an agent says whose turn ends at this moment: its own event may not be kept yet."""

    session: str
    """As captured sessions are named."""

    at: datetime

    text: str


class ReviewRequest(Struct, frozen=True):
    """What is wanted of a review (which change, by which rubrics, within which limits), and how it
    is carried out.
    """

    selection: Selection

    rubrics: tuple[str, ...] = ()
    """Ids of the rubrics to ask; () for those that the gate has for the change."""

    judge: JudgeWish = "if checks pass"

    force: bool = False
    """Whether to ask again what is answered already."""

    base: str | None = None
    """The revision that the change is to go into, where definitions are read; None if no pull
    request names one.
    """

    definitions: str | None = None
    """Where definitions are read instead: a revision, or "worktree"."""

    max_cost_usd: float | None = None
    """None: the gate's own limit."""

    deadline_s: float | None = None
    """Seconds for the whole run; None: the gate's own limit."""

    wire: Wire = Wire()
    """How the model is reached."""

    forge: ForgeJob | None = None
    """The job of a forge that asks; None anywhere else."""

    mode: Mode = LiveMode()

    last_words: LastWords | None = None
    """What an agent says whose turn ends at this moment; None at any other."""

    def budget_in(self, gate: Gate) -> Budget:
        """The gate's, with the request's own limit in USD."""
        budget = gate.file.budget
        return replace(budget, max_cost_usd=self.max_cost_usd or budget.max_cost_usd)

    def unasked_by_rule(self, gate: Gate, *, by_agent: bool) -> Cause | None:
        """Why no judge is wanted; None if one is. `by_agent`: there are signs that an agent wrote
        the change.
        """
        if self.judge == "never":
            return NoJudge()
        return self.mode.unasked_by_rule(gate, by_agent=by_agent)
