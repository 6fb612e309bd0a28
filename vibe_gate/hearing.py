"""The hearing: everything a judge needs is put in place, the rubrics are asked, and the place is checked afterwards.

The after tree is exported for reading, a gateway of our own stands between the
agents and the model, and when all is said both the export and the reviewed tree
are computed again: a verdict about something that is no longer there is no verdict.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import tempfile
import time
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib import metadata
from pathlib import Path

from pydantic import ValidationError

from vibe_gate.adapters.agent import Ending
from vibe_gate.adapters.gateway import Gateway, Spending, Upstream, Wire, find_upstream, wire_from
from vibe_gate.adapters.spending import DayLedger
from vibe_gate.adapters.verdicts import VerdictCache
from vibe_gate.case import Case
from vibe_gate.domain.heard import Heard
from vibe_gate.domain.question import Judged, Question
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Cost
from vibe_gate.judge import SESSIONS_AT_ONCE, TOOLS, Courtroom, judge
from vibe_gate.version import VERSION

NO_KEY = "no credentials for a model"
ADVICE = (
    "No judge was asked: set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN, or "
    "ANTHROPIC_BASE_URL for a local model; or leave the judge out with --no-judge."
)


def hear(case: Case, rubrics: list[Rubric], now: datetime) -> Heard:
    """Ask the judge criteria of `rubrics` about the case's change, unless the same was asked before.

    Raises GatewayError where the wire is set up wrongly (a cassette that is not there).
    """
    wire = wire_from(case.environ, case.request.wire, case.request.cassette)
    cache, ledger = VerdictCache(case.repository.common_dir), DayLedger(case.repository.common_dir)
    # A recording must hold the conversation and a replay must show it: neither uses what is known.
    keys = questions(case, rubrics) if wire.mode == "live" else {}
    known = {} if case.request.force else _known(cache, keys, now)
    asking = [rubric for rubric in rubrics if rubric.id not in known]
    if not asking:
        return Heard(known, Cost(), cached=frozenset(known), questions=keys)
    upstream = find_upstream(case.environ)
    if upstream is None and wire.mode != "replay":
        return Heard(known, Cost(), cached=frozenset(known), notes=(ADVICE,), silence=NO_KEY)
    with tempfile.TemporaryDirectory(prefix="vibe-gate-") as folder:
        export = case.repository.export(case.change.after, Path(folder) / "tree")
        budget = min(case.max_cost_usd, _left_today(case, ledger, now))
        judged, spending, notes = _session(case, asking, (wire, upstream, budget), Path(folder))
        intact = export.unchanged()
    for name, said in judged.items():
        if intact and said.is_final and name in keys:
            kept = said.from_bundle(case.run.relative).model_dump(mode="json")
            cache.put(keys[name], case.redactor.value(kept), now)
    cache.prune(now)
    ledger.add(spending.usd, case.run.run_id, now)
    final = {name: keys[name] for name, said in (known | judged).items() if intact and said.is_final and name in keys}
    return Heard(known | judged, _cost(spending), frozenset(known), notes, intact=intact, questions=final)


def _left_today(case: Case, ledger: DayLedger, now: datetime) -> float:
    a_day = case.gate.file.budget.per_day_usd
    return math.inf if a_day is None else max(a_day - ledger.spent(now), 0.0)


def questions(case: Case, rubrics: list[Rubric]) -> dict[str, str]:
    """What is asked about each rubric, as keys by rubric id: the same key, the same question."""
    return {rubric.id: _key(case, rubric) for rubric in rubrics}


def _key(case: Case, rubric: Rubric) -> str:
    return Question(
        before=case.change.before,
        after=case.change.after,
        rubric=rubric.digest,
        model=rubric.model or case.model,
        tools=TOOLS,
        message=case.message if "message" in rubric.sees else "",
        versions={"vibe-gate": VERSION, "claude-agent-sdk": metadata.version("claude-agent-sdk")},
    ).key


def _known(cache: VerdictCache, keys: dict[str, str], now: datetime) -> dict[str, Judged]:
    found: dict[str, Judged] = {}
    for name, key in keys.items():
        verdict = cache.get(key, now)
        if verdict is not None:
            with suppress(ValidationError):  # written by another version, or by someone else: a miss
                found[name] = Judged.model_validate(verdict)
    return found


def _session(
    case: Case, rubrics: list[Rubric], door: tuple[Wire, Upstream | None, float], folder: Path
) -> tuple[dict[str, Judged], Spending, tuple[str, ...]]:
    nonce = secrets.token_hex(16)
    places = {nonce: "{{nonce}}", str(folder): "{{folder}}"}
    wire, upstream, budget = door
    with Gateway(upstream, wire, budget, case.redactor.text, placeholders=places) as gateway:
        court = Courtroom(
            change=case.change,
            tree=folder / "tree",
            homes=folder,
            read=case.repository.read,
            url=gateway.url,
            run=case.run,
            model=case.model,
            max_turns=case.gate.file.budget.max_turns,
            max_cost_usd=budget,
            ends_at=case.ends_at,
            monotonic=time.monotonic,
            environ=case.environ,
            nonce=nonce,
            message=case.message,
            cloud=gateway.cloud,
            settle=partial(_settle, gateway),
        )
        judged = asyncio.run(_all(rubrics, court))
        return judged, gateway.spent(), tuple(gateway.unmatched)


def _settle(gateway: Gateway, node: str, ending: Ending) -> None:
    """A session that went past the gateway is counted as its own agent counted it."""
    if gateway.passed_through:
        gateway.add(node, ending.by_model, ending.cost_basis, (ending.input_tokens, ending.output_tokens))


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
