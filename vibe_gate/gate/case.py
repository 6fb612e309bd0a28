"""A case: one review under way, with everything that its steps share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vibe_gate.domain.change import Change, Selection
from vibe_gate.domain.gate import Gate, HookName, HookRule, JudgeWhen
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import AgentAuthored
from vibe_gate.git import Repository
from vibe_gate.secrets.redaction import Redactor
from vibe_gate.store import RunRecorder

CHECKS_NODE = "checks"
"""The graph's node of the checks, which every judge's node comes after."""

_STRICTEST: tuple[JudgeWhen, ...] = ("always", "agent-authored", "never")


@dataclass(frozen=True, slots=True)
class Request:
    """What a face asks for. USD and seconds; None takes the gate's own setting.

    `base` is the pull request's base: definitions are read there. `definitions` is a
    revision or "worktree" and overrides it. `wire` and `cassette` choose how the
    model is reached (None: `VIBE_GATE_WIRE` and `VIBE_GATE_CASSETTE`, else live).
    `force` asks again what an earlier run has answered. `stage` is the git hook that
    asks: the gate's `[hooks.STAGE]` then says whether a judge is asked at all, and the
    author git would name is looked at; `called` is the stage by whose name the hook was called, where only variables
    say that it is another one: the stricter rule of both counts. `message` is what the commit will say, as far
    as the hook knows it. `approval` is asked where the change needs a person's approval,
    and nowhere else: whose word lets it pass (a forge's approving review), or None.
    `settled` is called just before a judge would be asked, and says why none has to be,
    or "". `reuse` takes over a pass that somebody who is listed, and is not the author,
    signed for exactly this question (receipts in bundles and notes).
    """

    selection: Selection
    rubrics: tuple[str, ...] = ()
    judge: bool = True
    base: str | None = None
    definitions: str | None = None
    max_cost_usd: float | None = None
    deadline_s: float | None = None
    wire: Literal["live", "record", "replay"] | None = None
    cassette: Path | None = None
    strict: bool = False
    force: bool = False
    stage: HookName | None = None
    called: HookName | None = None
    message: str = ""
    approval: Callable[[], Waiver | None] | None = None
    settled: Callable[[], str] | None = None
    reuse: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """The change, the gate it is held against, and where it is written down.

    `ends_at` is the deadline on `time.monotonic`, in seconds; `message` the author's
    prose, for rubrics that ask to see it.
    """

    request: Request
    repository: Repository
    change: Change
    gate: Gate
    rubrics: tuple[Rubric, ...]
    run: RunRecorder
    redactor: Redactor
    environ: Mapping[str, str]
    ends_at: float
    authored: AgentAuthored
    message: str

    @property
    def unasked(self) -> str:
        """Why no judge is wanted here, or "" where one is."""
        if not self.request.judge:
            return "not asked (--no-judge)"
        if self.request.stage is None:
            return ""
        stages = (self.request.stage, self.request.called or self.request.stage)
        rules = {stage: self.gate.file.hooks.get(stage, HookRule()).judge for stage in stages}
        judge = min(rules.values(), key=_STRICTEST.index)
        if judge == "never":
            return f'not asked ([hooks.{self.request.stage}] judge = "never")'
        if judge == "agent-authored" and not self.authored.decision:
            return "not asked: nothing hints at an agent's work"
        return ""

    @property
    def model(self) -> str:
        """The language model where a rubric names none; ANTHROPIC_MODEL where there are no definitions at all."""
        own = self.environ.get("ANTHROPIC_MODEL") if self.gate.origin == "built-in" else None
        return own or self.gate.file.model.default

    @property
    def max_cost_usd(self) -> float:
        """The ceiling of this run, in USD."""
        return self.request.max_cost_usd or self.gate.file.budget.max_cost_usd
