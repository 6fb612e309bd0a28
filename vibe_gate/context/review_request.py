"""What a face asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.context.listeners import Meter
from vibe_gate.domain.change import Selection
from vibe_gate.domain.gate import Budget, Gate, HookName, HookRule
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.verdict import NO_JUDGE, NOT_NOW

WireMode = Literal["live", "record", "replay"]
"""How the model is reached: asked, asked and recorded into a cassette, or replayed from one."""


class ReviewRequest(Struct, frozen=True):
    """What a face asks for. USD and seconds; None takes the gate's own setting.

    `base`: the pull request's, where definitions are read; `definitions` (a revision or "worktree") overrides it.
    `wire`, `cassette`: how the model is reached (None: `VIBE_GATE_WIRE`, `VIBE_GATE_CASSETTE`, else live). `force`: ask
    again what is answered. `only_known_answers`: take what was answered before and ask nothing; `unasked` is the reason
    that the other questions get. `ask_anyway`: ask
    although a `must` check fails, unless it found a secret. `stage`: the git hook that asks, whose `[hooks.STAGE]` says
    whether a judge is asked. `message`: what the commit will say. `approval` gives, if the change needs one, whose word
    lets it pass, or None. `accepted`: findings that people let pass at the forge. `issues` gives
    the text of those that the pull request closes, if a rubric sees them. `why_not_needed` says just before a
    judge would be asked why none has to be, or "". `reuse`: take over a pass that somebody who is listed, and is not
    the author, signed for exactly this question. `suggest`: what checks would write in place of what they object to is
    wanted, though it takes time. `alone`: no code but vibe-gate's uses the Claude Agent SDK in this process.
    `calibrating`: the judge itself is tested, so what is known of it has no effect. `batch`: the digest of what many
    reviews are asked; `replay_of`: the run whose change is judged again. Both go into run.json. `model` takes the
    place of every model that the gate names for judges. `runs_commands`: False if the definitions are those of somebody
    who may not run anything here: rubrics with a command are left out, and no fail brings a test. `open_ports`: code
    that runs here reaches ports of Dask's without TLS, so a gate that runs code of the change is refused. `meter`
    hears what it costs while it runs.
    """

    selection: Selection
    rubrics: tuple[str, ...] = ()
    judge: bool = True
    ask_anyway: bool = False
    base: str | None = None
    definitions: str | None = None
    max_cost_usd: float | None = None
    deadline_s: float | None = None
    wire: WireMode | None = None
    cassette: Path | None = None
    strict: bool = False
    force: bool = False
    only_known_answers: bool = False
    unasked: str = NOT_NOW
    stage: HookName | None = None
    message: str = ""
    approval: Callable[[], Waiver | None] | None = None
    accepted: tuple[Waiver, ...] = ()
    issues: Callable[[], str] | None = None
    suggest: bool = False
    why_not_needed: Callable[[], str] | None = None
    reuse: bool = False
    alone: bool = False
    calibrating: bool = False
    batch: str = ""
    replay_of: str = ""
    model: str = ""
    runs_commands: bool = True
    open_ports: bool = False
    meter: Meter | None = None

    @property
    def belongs_to(self) -> dict[str, str]:
        """What run.json says of the batch, and of the run that is replayed; nothing if there is none."""
        return {name: value for name in ("batch", "replay_of") if (value := getattr(self, name))}

    def budget_in(self, gate: Gate) -> Budget:
        """The gate's, with the request's own limit in USD."""
        budget = gate.file.budget
        return replace(budget, max_cost_usd=self.max_cost_usd or budget.max_cost_usd)

    def why_no_judge(self, gate: Gate, *, by_agent: bool) -> str:
        """Why no judge is wanted, or "". `by_agent`: there are signs that an agent wrote the change."""
        if not self.judge:
            return NO_JUDGE
        if self.stage is None:
            return ""
        judge = gate.file.hooks.get(self.stage, HookRule()).judge
        if judge == "never":
            return f'not asked ([hooks.{self.stage}] judge = "never")'
        if judge == "agent-authored" and not by_agent:
            return "not asked: no sign of an AI agent"
        return ""
