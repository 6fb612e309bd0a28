"""Going on with a run that died: what its stages had come to is given again while they are asked
the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from vibe_gate.context.review_request import ReviewRequest
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

LIMITS = ("base", "definitions", "max_cost_usd", "deadline_s")
"""Fields of a ReviewRequest that run.json keeps of a run."""

OWN = ("agent", "session", "model", "reviewing", "apply", "fix")
"""Fields of a RunRequest that it keeps."""


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
        try:
            if self.model is not None:
                model_name(self.model)
        except ValueError as error:
            raise ValueError(f"request.model: {error}") from None

    def review(self, **more: Any) -> ReviewRequest:  # noqa: ANN401
        """The review's request; `more` as of ReviewRequest."""
        return ReviewRequest(
            self.selection, **{name: getattr(self, name) for name in LIMITS}, **more
        )


class KeptTrees(Struct, frozen=True, kw_only=True):
    """The trees of the change."""

    before: str
    after: str


class KeptRun(Struct, frozen=True, kw_only=True):
    """What `resume` goes by: what the clone noted of the run when it began."""

    run_id: str
    key: str
    workflow: str
    mode: Literal["auto", "interactive"]
    prompt: str
    change: KeptTrees
    definitions: Named[str]
    request: KeptRequest

    def require_same(self, change: Change, gate: Gate) -> None:
        """InfrastructureError: the run would be about something else now."""
        if (change.key, change.before, change.after) != (
            self.key,
            self.change.before,
            self.change.after,
        ):
            raise InfrastructureError(
                f"Run {self.run_id} is about {self.key[:17]}, tree {self.change.after[:12]}; the change is "
                f"{change.key[:17]}, tree {change.after[:12]} now. Bring its commit and files back, or begin a new run."
            )
        if dict(gate.digests) != self.definitions:
            names = sorted(set(gate.digests) ^ set(self.definitions.items()))
            raise InfrastructureError(
                f"Run {self.run_id} began with other definitions: {names[0][0]} differs."
            )


def kept_run(run: RunEntry, about: Mapping[str, Any], begun: BegunRun | None) -> KeptRun:
    """The run to go on with. Nothing of its run.json (`about`) is believed: `begun` is what this
    clone noted.

    IntegrityError: it did not begin in this clone, or its run.json was changed. UsageError: it is
    not a workflow's.
    """
    if begun is None:
        raise IntegrityError(
            f"Run {run.run_id} is not resumed: it did not begin in this clone (it was imported or copied), and its "
            "prompt would run with your key. Begin a run of your own: `vibe-gate run`."
        )
    if not begun.request:
        raise UsageError(
            f"Run {run.run_id} cannot be resumed: only what `vibe-gate run` began can. Begin it again."
        )
    noted = _noted(begun)
    changed = [name for name in RESUMED_FIELDS if about.get(name) != noted.get(name)]
    if changed or run.key != noted.get("key"):
        names = ", ".join(changed) or "key"
        raise IntegrityError(
            f"Run {run.run_id} is not resumed: its run.json was changed since it began ({names}). Begin a new run."
        )
    try:
        kept = read(KeptRun, noted)
        kept.request.require_model()
        return kept
    except ValueError as error:
        why = show_text(first_mistake(error))
        raise UsageError(
            f"Run {run.run_id} cannot be resumed: its record in state.db is wrong ({why}). Begin it again."
        ) from None


def _noted(begun: BegunRun) -> dict[str, Any]:
    """What was noted, {} if the row is damaged."""
    try:
        return parse_object(begun.request.encode())
    except ValueError:
        return {}


async def restore_result(
    id: str,
    node: str,
    agent: str,
    asked: tuple[str, str],
    kept: EndedStage,
    tree: RunTree,
    bundle: Path,
) -> StageResult:
    """The result that the stage had; `asked` are the digests of its agent and its prompt.

    InfrastructureError, which names it: something is not as it was when the stage ran.
    """
    was = {"agent": kept.digest, "prompt": kept.prompt, "tree": kept.before}
    now = {"agent": asked[0], "prompt": asked[1], "tree": tree.now}
    if other := [name for name, value in was.items() if now[name] != value]:
        raise InfrastructureError(
            f"The stage {node} cannot give its recorded result, as this differs from the first time: "
            f"{', '.join(other)}. Bring it back, or begin a new run."
        )
    tree.end_turn(kept.after, agent, is_readable=False)
    made = tree.workspace.change(kept.before, kept.after) if kept.after != kept.before else None
    turn = read_bundle(bundle / kept.turn)
    said = await _result(turn)
    answer, outcome = said.get("structured_output"), OUTCOMES.get(end_kind(kept.status), "error")
    return StageResult(
        id=id,
        node=node,
        outcome=outcome,
        reason="" if outcome == "pass" else kept.reason,
        before=kept.before,
        after=kept.after,
        agent=agent,
        status=kept.status,
        message=str(said.get("result") or ""),
        answer=answer if isinstance(answer, dict) else None,
        session_id=kept.session_id,
        patch=tree.repository.patch(made) if made and made.files else b"",
        bundle=bundle / kept.turn,
    )


async def _result(turn: RunResult) -> dict[str, Any]:
    """The last word of the session's stream: its final message, and the answer to a schema."""
    found: dict[str, Any] = {}
    async for event in turn.timeline.events():
        if event.type == "result":
            found = event.load()
    return found
