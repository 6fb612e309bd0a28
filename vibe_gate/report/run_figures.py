"""What figures about many runs take of each: an extract of its summary, small enough to keep beside
the list. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import UNSET, DecodeError, Struct, json

from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.label import Label
from vibe_gate.domain.provenance import agents_named
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding, RubricResult
from vibe_gate.report import queries

OTHER = ""
"""In `usd_by_rubric`: a workflow's agents, and its judges that gave no answer."""

FORM = 4
"""Of the extract: another number for another meaning, so that what is kept of the old one is made
anew.
"""


class FoundFinding(Struct, frozen=True, array_like=True):
    """A finding. `sources` and `advises`: RUBRIC/CRITERION that fail with it, and that would have
    blocked by it.

    `state`: "overridden", "suppressed", "refuted" or "kept"; `grounds`: as of
    `queries.waiver_grounds`.
    """

    fingerprint: str
    criterion: str
    path: str
    sources: tuple[str, ...]
    advises: tuple[str, ...]
    state: str
    grounds: str = ""


class RunFigures(Struct, frozen=True, array_like=True):
    """Of one sealed run. `agents` by name; `judged`: RUBRIC/CRITERION that ask a judge; USD by
    model, rubric and node.

    `hits` and `misses` count criteria. `reused`: KEY/RUN/NODE of the conversations that answered
    whole rubrics in its place.
    """

    agents: tuple[str, ...] = ()
    usd_by_model: dict[str, float] = {}
    usd_by_rubric: dict[str, float] = {}
    usd_by_node: dict[str, float] = {}
    hits: int = 0
    misses: int = 0
    reused: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    findings: tuple[FoundFinding, ...] = ()
    labels: tuple[Label, ...] = ()


def extract_figures(summary: Summary) -> RunFigures:
    """The extract of a run's summary."""
    judged = [
        f"{rubric.id}/{one.id}"
        for rubric in summary.rubrics
        for one in rubric.criteria
        if one.kind == "judge"
    ]
    return RunFigures(
        agents_named(summary.agent_authored.hints),
        summary.cost.by_model,
        _usd_by_rubric(summary),
        summary.cost.by_node,
        summary.cache.hits,
        summary.cache.misses,
        tuple(sorted({place for rubric in summary.rubrics for place in _reused(rubric)}))
        if summary.cache.hits
        else (),
        tuple(judged),
        _findings(summary),
        summary.labels or (),
    )


def pack_figures(figures: RunFigures) -> str:
    """For keeping; "" of figures with half a surrogate pair, which no JSON of others can have."""
    try:
        return json.encode(figures).decode()
    except UnicodeEncodeError:
        return ""


_DECODER = json.Decoder(RunFigures)


def unpack_figures(text: str) -> RunFigures | None:
    """What was packed; None of anything else."""
    try:
        return _DECODER.decode(text) if text else None
    except (DecodeError, UnicodeEncodeError):
        return None


def _findings(summary: Summary) -> tuple[FoundFinding, ...]:
    found = []
    for one in summary.findings:
        sources = dict.fromkeys(
            f"{source.rubric}/{source.criterion}" for source in summary.sources(one)
        )
        advises = dict.fromkeys(
            f"{rubric.id}/{criterion.id}"
            for rubric, criterion in queries.sources_of_finding(one, summary)
            if criterion.would_block is True and one.level == "warning"
        )
        grounds = queries.waiver_grounds(one)
        found.append(
            FoundFinding(
                one.fingerprint,
                one.criterion,
                one.path,
                tuple(sources),
                tuple(advises),
                _finding_state(one),
                grounds,
            )
        )
    return tuple(found)


def _finding_state(finding: Finding) -> str:
    """As `FoundFinding.state`."""
    if queries.waiver_sentence(finding):
        return "overridden" if queries.is_overridden(finding) else "suppressed"
    return "refuted" if finding.is_refuted else "kept"


def _turns(rubric: RubricResult) -> set[str]:
    votes = [vote for criterion in rubric.criteria for vote in criterion.votes]
    looks = (vote.second_look.turn for vote in votes if vote.second_look is not UNSET)
    return {*filter(None, (*(vote.turn for vote in votes), *looks))}


def _usd_by_rubric(summary: Summary) -> dict[str, float]:
    asked = {
        turn.split("/")[1]: rubric.id
        for rubric in summary.rubrics
        for turn in _turns(rubric)
        if turn.startswith("nodes/")
    }
    names = [rubric.id for rubric in summary.rubrics] if summary.workflow == "review" else []
    total: dict[str, float] = {}
    for node, usd in summary.cost.by_node.items():
        name = asked.get(node) or _rubric_of(node, names)
        total[name] = total.get(name, 0.0) + usd
    return total


def _rubric_of(node: str, rubrics: Iterable[str]) -> str:
    """The rubric of a review's judge that gave no answer, by its node's name (a budget was reached,
    say).
    """
    own = [
        one
        for one in rubrics
        if re.fullmatch(rf"(judge|second-look)-{re.escape(one)}(-[a-z]+)?", node)
    ]
    return max(own, key=len, default=OTHER)


def _reused(rubric: RubricResult) -> set[str]:
    """The conversations of a rubric that were not held again; none if some were: then nothing is
    saved.
    """
    turns = _turns(rubric)
    if any(turn.startswith("nodes/") for turn in turns):
        return set()
    places = [turn.split("/") for turn in turns if turn.startswith(STORE)]
    return {"/".join((place[1], place[2], place[4])) for place in places if len(place) > 4}
