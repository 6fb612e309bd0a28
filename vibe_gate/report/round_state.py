"""What one round of a pull request leaves to the next, packed into a line of a comment. Pure.

Anybody may have written what stands in a comment, so `load_state` takes it for hostile; what it
says decides about repetition only, never about a verdict.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.document import Count, plain, read
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding, SecondLook, short
from vibe_gate.report import queries, sentences
from vibe_gate.report.reported_finding import (
    MAX_QUOTE,
    MAX_SOURCES,
    MAX_VOTES,
    Commit,
    ReportedFinding,
    ReportedVote,
    finding_identity,
)

MAX_STATE = 12_000
"""Characters of a dumped state: a fifth of what a comment may hold, enough for 400 findings."""

_MAX_JSON = 1 << 20
"""Bytes that a state may unpack to; more is a bomb."""

_SHORT_MESSAGE = 60
"""Characters of a message that are kept where whole ones do not fit."""

MAX_EXPLAINED = 4_000
"""Characters of a state that has votes and quotations; where it would have more, only the job's
artifact has them.
"""

MAX_NUMBER = 1_000_000
"""Rounds that are counted. The number travels in a comment that others may edit: past it, it
stays.
"""

MAX_SEEN = 10_000
"""Findings of a state. What is more is not remembered, and so is said again."""

_MAX_USD = 1e9


class RoundState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is carried to the next round."""

    schema: Literal[1] = 1
    number: Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
    head: Commit
    run: Count = 0
    """The number of the workflow's run that reviewed; 0 outside of one."""
    findings: Annotated[tuple[ReportedFinding, ...], Meta(max_length=MAX_SEEN)] = ()
    usd: Annotated[float, Meta(ge=0, le=_MAX_USD)] = 0.0
    """What the `runs` until then cost, their replays included."""
    runs: Count = 0
    """Those that cost something."""

    def with_cost(self, usd: float) -> RoundState:
        """The state after one more run, which cost that much."""
        if usd <= 0:
            return self
        total = round(self.usd + usd, 6)
        return replace(self, usd=min(total, _MAX_USD), runs=self.runs + 1)


def explain_state(state: RoundState, summary: Summary, run: int) -> RoundState:
    """The state with the run's number and who found its findings; with what decided these, if there
    is room.
    """
    findings_by_name = {finding_identity(finding): finding for finding in summary.findings}
    with_sources = []
    with_reasons = []
    for reported in state.findings:
        finding = findings_by_name.get(reported.fingerprint)
        if finding is None:
            with_sources.append(reported)
            with_reasons.append(reported)
            continue
        sourced = replace(reported, found_by=summary.sources(finding)[:MAX_SOURCES])
        with_sources.append(sourced)
        with_reasons.append(_with_reasons(sourced, finding, summary))
    without_reasons = replace(state, run=run, findings=tuple(with_sources))
    full = replace(state, run=run, findings=tuple(with_reasons))
    if len(_packed(full)) <= MAX_EXPLAINED:
        return full
    return without_reasons


def _with_reasons(reported: ReportedFinding, finding: Finding, summary: Summary) -> ReportedFinding:
    """With the quoted lines, the votes and the second look behind the finding."""
    sources = queries.sources_of_finding(finding, summary)
    votes = sources[0][1].votes[:MAX_VOTES] if sources else ()
    counterexample = queries.counterexample_of(finding, summary)
    look = finding.second_look
    return replace(
        reported,
        quote="\n".join(line.quote for line in finding.evidence)[:MAX_QUOTE],
        counterexample=counterexample[:MAX_QUOTE],
        second_look="" if look is UNSET else _look_words(look),
        votes=tuple(
            ReportedVote(outcome=vote.outcome, reason=short(vote.reason)) for vote in votes
        ),
    )


def _look_words(look: SecondLook) -> str:
    """What a second look came to, and what was said against the finding."""
    parts = [sentences.second_look_sentence(look), sentences.dispute_sentence(look)]
    return " ".join(filter(None, parts))[:MAX_QUOTE]


def dump_state(state: RoundState) -> str:
    """The state as one line of base64, `MAX_STATE` characters at most.

    What does not fit is left out: the ends of messages and the quoted lines first, then findings, the fixed ones before
    the others.
    """
    text = _packed(state)
    open_findings = [finding for finding in state.findings if not finding.fixed]
    fixed_findings = [finding for finding in state.findings if finding.fixed]
    short_findings = []
    for finding in (*open_findings, *fixed_findings):
        short_message = finding.message[:_SHORT_MESSAGE]
        short_findings.append(replace(finding, message=short_message, lines=()))
    while len(text) > MAX_STATE:
        text = _packed(replace(state, findings=tuple(short_findings)))
        short_findings = short_findings[: len(short_findings) * 3 // 4]
    return text


def load_state(text: str) -> RoundState | None:
    """The state that `dump_state` wrote; None for anything else."""
    if not text or len(text) > MAX_STATE:
        return None
    try:
        packed = base64.b64decode(text, validate=True)
        unpacking = zlib.decompressobj()
        raw = unpacking.decompress(packed, _MAX_JSON)
        if not unpacking.eof or unpacking.unused_data:
            return None
        state = read(RoundState, json.loads(raw))
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        return None
    fingerprints = {finding.fingerprint for finding in state.findings}
    if len(fingerprints) != len(state.findings):
        return None
    return state


def _packed(state: RoundState) -> str:
    text = json.dumps(plain(state), separators=(",", ":"), sort_keys=True)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()
