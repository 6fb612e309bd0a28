"""The hearing: everything a judge needs is put in place, the rubrics are asked, and the place is checked afterwards.

The after tree is exported for reading, a gateway of our own stands between the
agents and the model, and when all is said both the export and the reviewed tree
are computed again: a verdict about something that is no longer there is no verdict.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.adapters.gateway import Gateway, Spending, Upstream, Wire, find_upstream, wire_from
from vibe_gate.case import Case
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Cost
from vibe_gate.judge import SESSIONS_AT_ONCE, Courtroom, Judged, judge

NO_KEY = "no credentials for a model"
ADVICE = (
    "No judge was asked: set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN, or "
    "ANTHROPIC_BASE_URL for a local model; or leave the judge out with --no-judge."
)


@dataclass(frozen=True, slots=True)
class Heard:
    """What the judges said, by rubric id.

    `silence` says why none was asked, and `chosen` that this is what the user
    wanted. `intact`: the exported tree is still what it was.
    """

    judged: dict[str, Judged]
    cost: Cost
    notes: tuple[str, ...] = ()
    silence: str = ""
    chosen: bool = False
    intact: bool = True


def hear(case: Case, rubrics: list[Rubric]) -> Heard:
    """Ask the judge criteria of `rubrics` about the case's change.

    Raises GatewayError where the wire is set up wrongly (a cassette that is not there).
    """
    wire = wire_from(case.environ, case.request.wire, case.request.cassette)
    upstream = find_upstream(case.environ)
    if upstream is None and wire.mode != "replay":
        return Heard({}, Cost(), notes=(ADVICE,), silence=NO_KEY)
    with tempfile.TemporaryDirectory(prefix="vibe-gate-") as folder:
        export = case.repository.export(case.change.after, Path(folder) / "tree")
        judged, spending, notes = _session(case, rubrics, wire, upstream, Path(folder))
        intact = export.unchanged()
    return Heard(judged, _cost(spending), notes, intact=intact)


def _session(
    case: Case, rubrics: list[Rubric], wire: Wire, upstream: Upstream | None, folder: Path
) -> tuple[dict[str, Judged], Spending, tuple[str, ...]]:
    nonce = secrets.token_hex(16)
    places = {nonce: "{{nonce}}", str(folder): "{{folder}}"}
    with Gateway(upstream, wire, case.max_cost_usd, case.redactor.text, placeholders=places) as gateway:
        court = Courtroom(
            change=case.change,
            tree=folder / "tree",
            homes=folder,
            read=case.repository.read,
            url=gateway.url,
            run=case.run,
            model=case.gate.file.model.default,
            max_turns=case.gate.file.budget.max_turns,
            max_cost_usd=case.max_cost_usd,
            ends_at=case.ends_at,
            monotonic=time.monotonic,
            environ=case.environ,
            nonce=nonce,
            message="",
        )
        judged = asyncio.run(_all(rubrics, court))
        return judged, gateway.spent(), tuple(gateway.unmatched)


async def _all(rubrics: list[Rubric], court: Courtroom) -> dict[str, Judged]:
    places = asyncio.Semaphore(SESSIONS_AT_ONCE)
    async with asyncio.TaskGroup() as group:
        tasks = {rubric.id: group.create_task(judge(rubric, court, places)) for rubric in rubrics}
    return {name: task.result() for name, task in tasks.items()}


def _cost(spending: Spending) -> Cost:
    return Cost(
        usd=round(spending.usd, 6),
        basis=spending.basis,
        input_tokens=spending.input_tokens,
        output_tokens=spending.output_tokens,
        by_node=dict(spending.by_node),
        by_model=dict(spending.by_model),
    )
