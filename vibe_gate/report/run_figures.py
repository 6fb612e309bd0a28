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

FORM = 5
"""Of the extract: another number for another meaning, so that what is kept of the old one is made
anew.
"""


class FoundFinding(Struct, frozen=True, array_like=True):
    """A finding."""

    fingerprint: str
    criterion: str
    path: str
    sources: tuple[str, ...]
    """RUBRIC/CRITERION that fail with it."""
    advises: tuple[str, ...]
    """RUBRIC/CRITERION that would have blocked by it."""
    state: str
    """One of "overridden", "suppressed", "refuted" or "kept"."""
    grounds: str = ""
    """As of `queries.waiver_grounds`."""


class RunFigures(Struct, frozen=True, array_like=True):
    """Of one sealed run."""

    agents: tuple[str, ...] = ()
    """By name."""
    usd_by_model: dict[str, float] = {}
    usd_by_rubric: dict[str, float] = {}
    usd_by_node: dict[str, float] = {}
    hits: int = 0
    """Criteria that earlier verdicts answered."""
    misses: int = 0
    """Criteria that were asked."""
    reused: tuple[str, ...] = ()
    """KEY/RUN/NODE of the conversations that answered whole rubrics in its place."""
    judged: tuple[str, ...] = ()
    """RUBRIC/CRITERION that ask a judge."""
    findings: tuple[FoundFinding, ...] = ()
    labels: tuple[Label, ...] = ()
    disputes: dict[str, str] = {}
    """What disputes of its findings came to, by the run that asked: a run asks about one."""


def extract_figures(summary: Summary) -> RunFigures:
    """The extract of a run's summary."""
    reused: set[str] = set()
    judged = []
    for rubric in summary.rubrics:
        if summary.cache.hits:
            reused |= _reused_conversations(rubric)
        for criterion in rubric.criteria:
            if criterion.kind == "judge":
                judged.append(f"{rubric.id}/{criterion.id}")
    return RunFigures(
        agents=agents_named(summary.agent_authored.hints),
        usd_by_model=summary.cost.by_model,
        usd_by_rubric=_usd_by_rubric(summary),
        usd_by_node=summary.cost.by_node,
        hits=summary.cache.hits,
        misses=summary.cache.misses,
        reused=tuple(sorted(reused)),
        judged=tuple(judged),
        findings=tuple(_extract_finding(finding, summary) for finding in summary.findings),
        labels=summary.labels or (),
        disputes=_disputes(summary),
    )


def _disputes(summary: Summary) -> dict[str, str]:
    """As `RunFigures.disputes`."""
    outcomes: dict[str, str] = {}
    for finding in summary.findings:
        look = finding.second_look
        if look is not UNSET and look.is_disputed and look.dispute is not UNSET:
            outcomes[look.dispute.run] = look.outcome
    return outcomes


def _extract_finding(finding: Finding, summary: Summary) -> FoundFinding:
    sources: dict[str, None] = {}
    for source in summary.sources(finding):
        sources[f"{source.rubric}/{source.criterion}"] = None
    advises: dict[str, None] = {}
    if finding.level == "warning":
        for rubric, criterion in queries.sources_of_finding(finding, summary):
            if criterion.would_block is True:
                advises[f"{rubric.id}/{criterion.id}"] = None
    return FoundFinding(
        fingerprint=finding.fingerprint,
        criterion=finding.criterion,
        path=finding.path,
        sources=tuple(sources),
        advises=tuple(advises),
        state=_finding_state(finding),
        grounds=queries.waiver_grounds(finding),
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
        if not text:
            return None
        return _DECODER.decode(text)
    except (DecodeError, UnicodeEncodeError):
        return None


def _finding_state(finding: Finding) -> str:
    """As `FoundFinding.state`."""
    if queries.waiver_text(finding):
        if queries.is_overridden(finding):
            return "overridden"
        return "suppressed"
    if finding.is_refuted:
        return "refuted"
    return "kept"


def _turns(rubric: RubricResult) -> set[str]:
    """The folders of the turns of its votes and their second looks."""
    turns = set()
    for criterion in rubric.criteria:
        for vote in criterion.votes:
            turns.add(vote.turn)
            for defect in vote.defects:
                if defect.second_look is not UNSET:
                    turns.add(defect.second_look.turn)
    return turns - {""}


def _usd_by_rubric(summary: Summary) -> dict[str, float]:
    rubric_of_node = {}
    for rubric in summary.rubrics:
        for turn in _turns(rubric):
            if turn.startswith("nodes/"):
                rubric_of_node[turn.split("/")[1]] = rubric.id
    names = []
    if summary.workflow == "review":
        names = [rubric.id for rubric in summary.rubrics]
    total: dict[str, float] = {}
    for node, usd in summary.cost.by_node.items():
        name = rubric_of_node.get(node) or _rubric_by_name(node, names)
        total[name] = total.get(name, 0.0) + usd
    return total


def _rubric_by_name(node: str, rubrics: Iterable[str]) -> str:
    """The rubric of a review's judge that gave no answer, by its node's name (a budget was reached,
    say).
    """
    matches = []
    for rubric in rubrics:
        if re.fullmatch(rf"(judge|second-look)-{re.escape(rubric)}(-[a-z]+)?", node):
            matches.append(rubric)
    return max(matches, key=len, default=OTHER)


def _reused_conversations(rubric: RubricResult) -> set[str]:
    """The conversations of a rubric that were not held again; none if some were: then nothing is
    saved.
    """
    turns = _turns(rubric)
    if any(turn.startswith("nodes/") for turn in turns):
        return set()
    conversations = set()
    for turn in turns:
        parts = turn.split("/")
        if turn.startswith(STORE) and len(parts) > 4:
            conversations.add("/".join((parts[1], parts[2], parts[4])))
    return conversations
