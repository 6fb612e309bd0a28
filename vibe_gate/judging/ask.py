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
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib import metadata
from pathlib import Path

from pydantic import ValidationError

from vibe_gate import __version__
from vibe_gate.agent import Ending
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Cost
from vibe_gate.gate.case import Case
from vibe_gate.gateway import Gateway, Spending, Upstream, Wire, find_upstream, wire_from
from vibe_gate.judging.heard import Heard
from vibe_gate.judging.question import Judged, Question
from vibe_gate.judging.votes import SESSIONS_AT_ONCE, TOOLS, Answered, Courtroom, judge
from vibe_gate.store.spending import DayLedger
from vibe_gate.store.verdicts import VerdictCache

NO_KEY = "no credentials for a model"
ADVICE = (
    "No judge was asked: set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN, or "
    "ANTHROPIC_BASE_URL for a local model; or leave the judge out with --no-judge."
)


def hear(case: Case, rubrics: list[Rubric], now: datetime, tell: Callable[[str], None] = lambda _: None) -> Heard:
    """Ask the judge criteria of `rubrics` about the case's change, unless the same was asked before.

    Where another review asks the same at this moment, its answer is waited for; `tell` hears of it.
    Raises GatewayError where the wire is set up wrongly (a cassette that is not there).
    """
    wire = wire_from(case.environ, case.request.wire, case.request.cassette)
    cache = VerdictCache(case.repository.common_dir)
    # A recording must hold the conversation and a replay must show it: neither uses what is known.
    keys = questions(case, rubrics) if wire.mode == "live" else {}
    known = {} if case.request.force else _known(cache, keys, now)
    asking = [rubric for rubric in rubrics if rubric.id not in known]
    if not asking:
        return Heard(known, Cost(), cached=frozenset(known))
    upstream = find_upstream(case.environ)
    if upstream is None and wire.mode != "replay":
        return Heard(known, Cost(), cached=frozenset(known), notes=(ADVICE,), silence=NO_KEY)
    if not keys or case.request.force:
        return _ask(case, asking, known, (wire, upstream), now)
    claimed = {key for rubric in asking for key in (keys[rubric.id], _key(case, rubric, ""))}
    waiting = partial(tell, "another review asks the same just now; waiting for its answer")
    # Half of the time that is left is enough to ask after all, where the other one gets stuck.
    until = time.monotonic() + (case.ends_at - time.monotonic()) / 2
    with cache.asking(claimed, until, waiting):
        known |= _known(cache, {rubric.id: keys[rubric.id] for rubric in asking}, now)
        asking = [rubric for rubric in asking if rubric.id not in known]
        if not asking:
            return Heard(known, Cost(), cached=frozenset(known))
        return _ask(case, asking, known, (wire, upstream), now)


def _ask(
    case: Case, asking: list[Rubric], known: dict[str, Judged], way: tuple[Wire, Upstream | None], now: datetime
) -> Heard:
    """Ask what is not `known`, and keep the answers."""
    cache, ledger = VerdictCache(case.repository.common_dir), DayLedger(case.repository.common_dir)
    live = way[0].mode == "live"
    keys = questions(case, asking) if live else {}
    plain = {rubric.id: _key(case, rubric, "") for rubric in asking if live and "message" in rubric.sees}
    halves = {} if case.request.force else _known(cache, plain, now)
    with tempfile.TemporaryDirectory(prefix="vibe-gate-") as folder:
        export = case.repository.export(case.change.after, Path(folder) / "tree")
        budget = min(case.max_cost_usd, _left_today(case, ledger, now))
        answered, spending, notes = _session(case, asking, (*way, budget), (Path(folder), halves))
        intact = export.unchanged()
    judged = {name: said.judged for name, said in answered.items()}
    kept = {keys[name]: said for name, said in judged.items() if name in keys}
    kept |= {plain[name]: said.plain for name, said in answered.items() if said.plain and name in plain}
    unkept = ""
    for key, one in kept.items():
        if intact and one.is_final:
            entry = one.from_bundle(case.run.relative).model_dump(mode="json")
            unkept = cache.put(key, case.redactor.value(entry), now) or unkept
    cache.prune(now)
    uncounted = ledger.add(spending.usd, case.run.run_id, now)
    notes += tuple(_unkept(unkept, uncounted))
    # Only what was answered just now, all of it: who answered what was known, this run cannot vouch for.
    final = {name: keys[name] for name, said in judged.items() if said.is_final and name in keys and name not in halves}
    return Heard(
        known | judged, _cost(spending), frozenset(known), notes, intact=intact, questions=final if intact else {},
        halves=frozenset(halves),
    )  # fmt: skip


def _unkept(verdict: str, spending: str) -> Iterator[str]:
    """What the next review will not know, as sentences for people."""
    if verdict:
        yield f"The answers are kept nowhere, so the same question is paid for again ({verdict})."
    if spending:
        yield f"What was spent is not counted on this day's budget ({spending})."


def _left_today(case: Case, ledger: DayLedger, now: datetime) -> float:
    a_day = case.gate.file.budget.per_day_usd
    return math.inf if a_day is None else max(a_day - ledger.spent(now), 0.0)


def questions(case: Case, rubrics: list[Rubric]) -> dict[str, str]:
    """What is asked about each rubric, as keys by rubric id: the same key, the same question."""
    return {rubric.id: _key(case, rubric, case.message) for rubric in rubrics}


def _key(case: Case, rubric: Rubric, message: str) -> str:
    return Question(
        before=case.change.before,
        after=case.change.after,
        rubric=rubric.digest,
        model=rubric.model or case.model,
        tools=TOOLS,
        message=message if "message" in rubric.sees else "",
        versions={"vibe-gate": __version__, "claude-agent-sdk": metadata.version("claude-agent-sdk")},
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
    case: Case,
    rubrics: list[Rubric],
    door: tuple[Wire, Upstream | None, float],
    given: tuple[Path, dict[str, Judged]],
) -> tuple[dict[str, Answered], Spending, tuple[str, ...]]:
    nonce = secrets.token_hex(16)
    folder, halves = given
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
            redact=case.redactor.text,
        )
        judged = asyncio.run(_all(rubrics, court, halves))
        return judged, gateway.spent(), tuple(gateway.unmatched)


def _settle(gateway: Gateway, node: str, ending: Ending) -> None:
    """A session that went past the gateway is counted as its own agent counted it."""
    if gateway.passed_through:
        gateway.add(node, ending.by_model, ending.cost_basis, (ending.input_tokens, ending.output_tokens))


async def _all(rubrics: list[Rubric], court: Courtroom, halves: dict[str, Judged]) -> dict[str, Answered]:
    places = asyncio.Semaphore(SESSIONS_AT_ONCE)
    async with asyncio.TaskGroup() as group:
        tasks = {
            rubric.id: group.create_task(judge(rubric, court, places, halves.get(rubric.id))) for rubric in rubrics
        }
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
