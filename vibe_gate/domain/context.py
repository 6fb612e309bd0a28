"""What a face asks for, what is reviewed, and what one run shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.bundles import replay_key
from vibe_gate.domain.change import Change, Selection
from vibe_gate.domain.gate import Budget, CounterexampleRule, Gate, HookName, HookRule
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Claim, Criterion, Rubric, Sight
from vibe_gate.domain.summary import AgentAuthored
from vibe_gate.domain.verdict import NO_JUDGE, NOT_NOW, TrustBadge

if TYPE_CHECKING:
    from vibe_gate.run.deadline import Deadline
    from vibe_gate.secrets import Redactor
    from vibe_gate.store import RunRecorder, State, Store

WireMode = Literal["live", "record", "replay"]
"""How the model is reached: asked, asked and recorded into a cassette, or replayed from one."""

CHECKS_NODE = "checks"
"""The graph's node of the checks, which every judge's node comes after."""


def repeated(index: int) -> str:
    """What follows a node's id when it is used once more: "" for index 0, then -b, -c ..., -aa ..."""
    letters, number = "", index + 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return f"-{letters}" if index else ""


class Progress(Protocol):
    """Hears what a walk is doing; `stage` is change, checks, judge or seal, or a node of a workflow."""

    def __call__(self, stage: str, text: str, /) -> object:
        """Tell people."""
        ...


def unheard(stage: str, text: str, /) -> None:
    """Progress that nobody is shown: of one of many, or where scripts and tests hear through watchers."""


Meter = Callable[[str, int, float], object]
"""Hears, in any thread, of each answer of a model that was paid for: the node's id, its tokens and USD."""


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


class ProofEnvironment(Struct, frozen=True):
    """What the tests run with that fails may bring. `folder` has programs in `bin`; None: those of PATH. `named`: the
    folder as gate.toml names it, "" if the environment does. `lack`: why no test can run here, a clause.
    """

    rule: CounterexampleRule
    folder: Path | None = None
    named: str = ""
    lack: str = ""


class Facts(Struct, frozen=True):
    """What is known of a change before anything is asked about it: the gate in force, the rubrics that it must pass,
    what is known besides (`claims`: what its author says, what was asked for), signs of agents.

    `stage`: the node of the workflow's stage that asks; "" in a review, which is one gate stage. `replay_of`: the run
    whose change is judged again. `agents`: the nodes of
    agents that it comes after, oldest first, each with its stage. `trust`: by ids of rubric and criterion, what is
    known of the gate's judges. `tests`: with what a fail's test would be run; None if the gate asks for none.
    """

    change: Change
    gate: Gate
    rubrics: tuple[Rubric, ...]
    claims: tuple[Claim, ...]
    authored: AgentAuthored
    stage: str = ""
    replay_of: str = ""
    agents: Mapping[str, str] = MappingProxyType({})
    trust: Mapping[tuple[str, str], TrustBadge] = MappingProxyType({})
    tests: ProofEnvironment | None = None

    @property
    def key(self) -> str:
        """The key of its runs."""
        return replay_key(self.replay_of) if self.replay_of else self.change.key

    @property
    def asks_for_tests(self) -> CounterexampleRule | None:
        """How a test is run that a fail may bring; None if none can be."""
        return self.tests.rule if self.tests and not self.tests.lack else None

    @property
    def checks_node(self) -> str:
        """The graph's node of its checks."""
        return f"{self.stage}-{CHECKS_NODE}" if self.stage else CHECKS_NODE

    @property
    def rubrics_with_judge(self) -> tuple[Rubric, ...]:
        """The rubrics with a question to a judge that concerns this change."""
        return tuple(rubric for rubric in self.rubrics if self.judge_questions(rubric))

    def judge_questions(self, rubric: Rubric) -> tuple[Criterion, ...]:
        """The rubric's questions to a judge that concern a changed file and need no claim that is not known."""
        answerable = rubric.knowing(self.known).judge_criteria
        files = self.change.files
        return tuple(criterion for criterion in answerable if any(map(criterion.concerns, files)))

    @property
    def known(self) -> frozenset[Sight]:
        """The kinds of claims that there are."""
        return frozenset(claim.kind for claim in self.claims)


class World(Struct, frozen=True):
    """What a run has of the world outside: environment, clock, shared state, the store, what is secret."""

    environ: Mapping[str, str]
    clock: Callable[[], datetime]
    state: State
    store: Store
    redactor: Redactor
    worktree: str
    """Git's name of the linked worktree that the run is in; "" of the main one."""


class RunContext(World, frozen=True):
    """What everything in one run shares: the world outside, where it is written down, when it ends."""

    record: RunRecorder
    deadline: Deadline
