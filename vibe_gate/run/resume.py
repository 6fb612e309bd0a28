"""Going on with a run that died: what its stages had come to is given again while they are asked
the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.begun_run import RESUMED_FIELDS, BegunRun
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.change import Change, Selection
from vibe_gate.domain.document import Named, first_mistake, parse_object, read
from vibe_gate.domain.escape import show_text
from vibe_gate.domain.event import EndedStage
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.rubric import model_name
from vibe_gate.domain.wire import end_kind
from vibe_gate.errors import InfrastructureError, IntegrityError, UsageError
from vibe_gate.run.run_tree import RunTree
from vibe_gate.run.stage_result import OUTCOMES, StageResult
from vibe_gate.store.run_result import RunResult, read_bundle

REVIEW_FIELDS = ("base", "definitions", "max_cost_usd", "deadline_s")
"""Fields of a ReviewRequest that run.json keeps of a run."""

RUN_FIELDS = ("agent", "session", "model", "reviewing", "apply", "fix")
"""Fields of a RunRequest that it keeps."""


_AGENT_RUN = "agent_run"


def _require_model(name: str, model: str | None) -> None:
    try:
        if model is not None:
            model_name(model)
    except ValueError as error:
        raise ValueError(f"{name}.model: {error}") from None


class KeptRequest(Struct, frozen=True, kw_only=True):
    """What is kept of a RunRequest, so that it can be made again."""

    selection: Selection
    base: str | None
    definitions: str | None
    max_cost_usd: Annotated[float, Meta(gt=0)] | None
    deadline_s: Annotated[float, Meta(gt=0)] | None
    agent: str
    session: str
    model: str | None
    apply: bool
    reviewing: bool
    fix: str = ""

    def require_model(self) -> None:
        """ValueError: the model is a word that the agent's command line would take for something
        else.
        """
        _require_model("request", self.model)

    def review(self, **fields: Any) -> ReviewRequest:  # noqa: ANN401
        """The review's request; `fields` as of ReviewRequest."""
        return ReviewRequest(
            self.selection, **{name: getattr(self, name) for name in REVIEW_FIELDS}, **fields
        )


class KeptAgentRun(Struct, frozen=True, kw_only=True):
    """What is kept of one agent that a script ran, so that it can be run again: all but its prompt.
    None as of StageRequest.
    """

    agent: Agent | str
    """An agent that the script defined, or the id of one of the gate."""
    schema: dict[str, Any] | None = None
    """The JSON schema of the answer."""
    model: str | None = None
    timeout_s: Annotated[float, Meta(gt=0)] | None = None
    max_cost_usd: Annotated[float, Meta(gt=0)] | None = None


class KeptChange(Struct, frozen=True, kw_only=True):
    """The change by its ids."""

    before: str
    """A tree."""

    after: str
    """A tree."""

    base_commit: str = ""

    head_commit: str = ""

    patch_id: str = ""

    kind: Literal["worktree", "range", "staged", "commit"] = "range"


class KeptGate(Struct, frozen=True, kw_only=True):
    """Where the definitions were read."""

    revision: str = ""
    """A commit, "worktree", or "" if there was none."""

    origin: str = ""
    """As of Gate."""


class KeptRun(Struct, frozen=True, kw_only=True):
    """What `resume` and `replay` go by: what the clone noted of the run when it began."""

    run_id: str
    key: str
    workflow: str
    mode: Literal["auto", "interactive"]
    prompt: str
    change: KeptChange
    definitions: Named[str]
    """Digests by name."""
    trusted: KeptGate
    """Where the definitions were read."""
    agent_run: KeptAgentRun | None = None
    """Of a script's run of one agent."""
    request: KeptRequest

    def require_same(self, change: Change, gate: Gate) -> None:
        """InfrastructureError: the run would be about something else now."""
        kept_trees = (self.change.before, self.change.after)
        if change.key != self.key or (change.before, change.after) != kept_trees:
            raise InfrastructureError(
                f"Run {self.run_id} is about {self.key[:17]}, tree {self.change.after[:12]}; "
                f"the change is {change.key[:17]}, tree {change.after[:12]} now. "
                "Bring its commit and files back, or begin a new run."
            )
        differing_names = self.list_other_definitions(gate)
        if differing_names:
            raise InfrastructureError(
                f"Run {self.run_id} began with other definitions: {differing_names[0]} differs."
            )

    def list_other_definitions(self, gate: Gate) -> list[str]:
        """The names of the definitions of which the gate has others than the run began with."""
        differences = set(gate.digests) ^ set(self.definitions.items())
        return sorted({name for name, _ in differences})


def kept_run(
    run: RunEntry,
    run_document: Mapping[str, Any],
    begun: BegunRun | None,
    use: Literal["resumed", "repeated"] = "resumed",
) -> KeptRun:
    """The run to go on with, or to repeat (`use`). Nothing of its run.json (`run_document`) is
    believed: `begun` is what this clone noted.

    IntegrityError: it did not begin in this clone, or its run.json was changed. UsageError: it is
    not a workflow's.
    """
    if begun is None:
        raise IntegrityError(
            f"Run {run.run_id} is not {use}: it did not begin in this clone "
            "(it was imported or copied), and its prompt would run with your key. "
            "Begin a run of your own: `vibe-gate run`."
        )
    if use == "resumed" and not can_resume(begun):
        raise UsageError(
            f"Run {run.run_id} cannot be resumed: only what `vibe-gate run` began can. "
            "Begin it again."
        )
    if not begun.request:
        raise UsageError(
            f"Run {run.run_id} cannot be repeated: a script or a test began it, and its code, or the "
            "context or session that its agent went on with, is not in the bundle. "
            "Begin it again there."
        )
    record = _parse_record(begun)
    changed_names = []
    for name in RESUMED_FIELDS:
        if run_document.get(name) != record.get(name):
            changed_names.append(name)
    if changed_names or run.key != record.get("key"):
        names = ", ".join(changed_names) or "key"
        raise IntegrityError(
            f"Run {run.run_id} is not {use}: its run.json was changed since it began ({names}). "
            "Begin a new run."
        )
    try:
        kept_run = read(KeptRun, record)
        kept_run.request.require_model()
        if kept_run.agent_run is not None:
            _require_model(_AGENT_RUN, kept_run.agent_run.model)
    except ValueError as error:
        mistake = show_text(first_mistake(error))
        raise UsageError(
            f"Run {run.run_id} cannot be {use}: its record in state.db is wrong ({mistake}). "
            "Begin it again."
        ) from None
    return kept_run


def can_resume(begun: BegunRun) -> bool:
    """Whether a run that this clone noted so is one that can be gone on with: not a script's."""
    return bool(begun.request) and _AGENT_RUN not in _parse_record(begun)


def _parse_record(begun: BegunRun) -> dict[str, Any]:
    """What the clone noted of the run, {} if the row is damaged."""
    try:
        return parse_object(begun.request.encode())
    except ValueError:
        return {}


async def restore_result(
    id: str,
    node: str,
    agent: str,
    digests: tuple[str, str],
    ended_stage: EndedStage,
    tree: RunTree,
    bundle: Path,
) -> StageResult:
    """The result that a stage had before the run died. InfrastructureError, which names it:
    something is not as it was when the stage ran.

    Args:
        id: The stage's.
        node: The stage's, in the run's graph.
        agent: The agent's id.
        digests: Of the agent and of its prompt, as they are now.
        ended_stage: What is recorded of the stage.
        tree: The run's files; the stage's are put there.
        bundle: The run's folder.
    """
    _require_same_stage(node, digests, ended_stage, tree)
    before, after = ended_stage.before, ended_stage.after
    test_id = f"{bundle.name}/{ended_stage.turn.removeprefix('nodes/')}"
    tree.end_turn(after, agent, id, test_id, is_readable=False)
    patch = b""
    if after != before:
        change = tree.workspace.change(before, after)
        patch = tree.repository.patch(change) if change.files else b""
    turn_bundle = bundle / ended_stage.turn
    final_event = await _final_event(read_bundle(turn_bundle))
    answer = final_event.get("structured_output")
    outcome = OUTCOMES.get(end_kind(ended_stage.status), "error")
    return StageResult(
        id=id,
        node=node,
        outcome=outcome,
        reason="" if outcome == "pass" else ended_stage.reason,
        before=before,
        after=after,
        agent=agent,
        status=ended_stage.status,
        message=str(final_event.get("result") or ""),
        answer=answer if isinstance(answer, dict) else None,
        session_id=ended_stage.session_id,
        patch=patch,
        bundle=turn_bundle,
    )


def _require_same_stage(
    node: str, digests: tuple[str, str], ended_stage: EndedStage, tree: RunTree
) -> None:
    """InfrastructureError: the stage would be asked something else now."""
    agent_digest, prompt_digest = digests
    values = {
        "agent": (ended_stage.digest, agent_digest),
        "prompt": (ended_stage.prompt, prompt_digest),
        "tree": (ended_stage.before, tree.now),
    }
    differences = [name for name, (recorded, current) in values.items() if recorded != current]
    if differences:
        raise InfrastructureError(
            f"The stage {node} cannot give its recorded result, as this differs from the first "
            f"time: {', '.join(differences)}. Bring it back, or begin a new run."
        )


async def _final_event(turn: RunResult) -> dict[str, Any]:
    """The last word of the session's stream: its final message, and the answer to a schema."""
    content: dict[str, Any] = {}
    async for event in turn.timeline.events():
        if event.type == "result":
            content = event.load()
    return content
