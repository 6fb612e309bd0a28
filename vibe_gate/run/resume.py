"""Going on with a run that died: what its stages had come to is given again while they are asked the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from vibe_gate.domain.change import Change, Selection
from vibe_gate.domain.context import ReviewRequest
from vibe_gate.domain.event import EndedStage
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.summary import Cost
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.run.result import OUTCOMES, StageResult
from vibe_gate.store import RunResult, read_bundle

if TYPE_CHECKING:
    from pathlib import Path

    from vibe_gate.run.tree import RunTree

_LIMITS = ("base", "definitions", "max_cost_usd", "deadline_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A run that is gone on with: its id and key, the trees of its change, the digests of its definitions, its mode."""

    run_id: str
    key: str
    before: str
    after: str
    mode: str
    definitions: Mapping[str, str] = field(default_factory=dict)

    def require_same(self, change: Change, gate: Gate) -> None:
        """InfrastructureError: the run would be about something else now."""
        if (change.key, change.before, change.after) != (self.key, self.before, self.after):
            raise InfrastructureError(
                f"Run {self.run_id} is about {self.key[:17]}, tree {self.after[:12]}; the change is {change.key[:17]}, "
                f"tree {change.after[:12]} now. Bring its commit and files back, or begin a new run."
            )
        if dict(gate.digests) != dict(self.definitions):
            names = sorted(set(gate.digests) ^ set(self.definitions.items()))
            raise InfrastructureError(f"Run {self.run_id} began with other definitions: {names[0][0]} differs.")


def told(review: ReviewRequest, **more: Any) -> dict[str, Any]:  # noqa: ANN401  of RunRequest
    """What run.json keeps of a request, so that it can be made again."""
    return {"selection": asdict(review.selection), **{name: getattr(review, name) for name in _LIMITS}, **more}


def review_of(request: Mapping[str, Any], **more: Any) -> ReviewRequest:  # noqa: ANN401
    """The request that `told` kept; `more` as of ReviewRequest. UsageError: it is none."""
    try:
        kept = {name: request[name] for name in _LIMITS}
        return ReviewRequest(Selection(**request["selection"]), **kept, **more)
    except (KeyError, TypeError):
        raise UsageError("run.json does not say what the run was asked, so it cannot be resumed.") from None


async def given_again(
    id: str, node: str, agent: str, asked: tuple[str, str], kept: EndedStage, tree: RunTree, bundle: Path
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
    tree.left(kept.after, readable=False)
    made = tree.workspace.change(kept.before, kept.after) if kept.after != kept.before else None
    turn = read_bundle(bundle / kept.turn)
    said = await _result(turn)
    answer, outcome = said.get("structured_output"), OUTCOMES.get(kept.status, "error")  # type: ignore[call-overload]
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


def plus(one: Cost, other: Cost) -> Cost:
    """Both together."""

    def summed(name: str) -> dict[str, float]:
        first, second = getattr(one, name), getattr(other, name)
        return {key: first.get(key, 0.0) + second.get(key, 0.0) for key in {**first, **second}}

    bases = {cost.basis for cost in (one, other)}
    return Cost(
        usd=round(one.usd + other.usd, 6),
        basis="unknown" if "unknown" in bases else "known" if "known" in bases else "none",
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        by_node=summed("by_node"),
        by_model=summed("by_model"),
    )
