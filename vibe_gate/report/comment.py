"""The Markdown documents of a run: the comment, and the job summary that `--markdown` writes. Pure.

In sight: the verdict, why, what to do next, the findings. Everything else is in folds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from vibe_gate.report.comment_change import changed_files_block, policy_blocks, unreviewed_blocks
from vibe_gate.report.comment_details import details_block
from vibe_gate.report.comment_diffs import FindingDiffs, made_files_block, risky_files_block
from vibe_gate.report.comment_findings import earlier_finding_blocks, finding_blocks
from vibe_gate.report.comment_markup import list_first
from vibe_gate.report.comment_opening import opening_block
from vibe_gate.report.comment_rubrics import replayed_block, rubric_blocks
from vibe_gate.report.markdown import Block, escape_prose, fit_blocks
from vibe_gate.report.report import Report
from vibe_gate.report.round_state import RoundState, dump_state, explain_state, load_state
from vibe_gate.report.run_files import place_beside_comment, places_beside_summary

MAX_COMMENT = 65_000
"""Bytes; GitHub takes 65,536 characters, and a byte is at least as short."""

_NAME = re.compile(r"[^A-Za-z0-9._/-]")

_STATE = re.compile(r"<!-- vibe-gate:state ([A-Za-z0-9+/=_-]{1,20000}) -->\Z")


def comment_marker(name: str = "") -> str:
    """The first line of our comment; `name` tells several gates of one repository apart."""
    if not name:
        return "<!-- vibe-gate:summary -->"
    plain = _NAME.sub(lambda match: f"%{ord(match[0]):x}", name[:100]).replace("--", "-%2d")
    return f"<!-- vibe-gate:summary {plain} -->"


MARKER = comment_marker()
"""Of the comment of a repository's only gate."""


def render_comment(report: Report, downgrades: Sequence[str] = ()) -> str:
    """The comment, `MAX_COMMENT` bytes at most; what does not fit is counted, and said to be
    where.
    """
    head = f"{comment_marker(report.name)}\n"
    tail = ""
    if report.round.head:
        tail = render_state_line(_state(report))
    room = MAX_COMMENT - len(head) - len(tail)
    parts = _blocks(report, downgrades)
    return head + fit_blocks(parts, room, {"": place_beside_comment(report)}) + tail


def _state(report: Report) -> RoundState:
    run = report.round.run
    if not run and report.links:
        run = report.links.run
    state = report.round.state
    if not report.claimed:  # what a fork says of its cost is no figure of this repository
        state = state.with_cost(report.usd)
    return explain_state(state, report.summary, run)


def render_state_line(state: RoundState) -> str:
    """The end of a comment of ours: what the next round has to know, unseen."""
    return f"\n<!-- vibe-gate:state {dump_state(state)} -->\n"


def read_comment_state(body: str) -> RoundState | None:
    """The state in a comment of ours, from its last line and nowhere else."""
    lines = body.rstrip().splitlines()
    if len(lines) < 2 or not lines[0].startswith(MARKER.removesuffix(" -->")):
        return None
    match = _STATE.match(lines[-1])
    if not match:
        return None
    return load_state(match[1])


def _blocks(report: Report, downgrades: Sequence[str], *, is_complete: bool = False) -> list[Block]:
    """All parts of a document in their order; `is_complete`: findings too that are otherwise only
    counted.
    """
    summary = report.summary
    findings = [
        *finding_blocks(report, FindingDiffs(report), is_complete=is_complete),
        *earlier_finding_blocks(report),
        changed_files_block(summary),
        risky_files_block(report),
        made_files_block(report),
    ]
    facts = [
        *rubric_blocks(summary),
        *policy_blocks(summary),
        *unreviewed_blocks(summary),
        details_block(report),
        _downgrades_block(downgrades),
    ]
    return [opening_block(report), replayed_block(report), *findings, *facts]


def check_summary_blocks(
    report: Report, downgrades: Sequence[str], without: Collection[str]
) -> list[Block]:
    """The parts of a check run's summary: what stands at lines (`without`, identities) and diffs
    are not said again.
    """
    facts = [
        *rubric_blocks(report.summary),
        *unreviewed_blocks(report.summary),
        details_block(report),
        _downgrades_block(downgrades),
    ]
    return [opening_block(report), *finding_blocks(report, without=without), *facts]


def _downgrades_block(downgrades: Sequence[str]) -> Block:
    """What could not be posted, in sight: below the folds."""
    if not downgrades:
        return Block("")
    text = f"**Not everything was posted:**\n\n{list_first(downgrades, escape_prose)}"
    return Block(text, 0, "what could not be posted")


MAX_SUMMARY = 1_000_000
"""Bytes; GitHub takes 1 MiB a step, and other lines of the step count too."""


def render_job_summary(report: Report, downgrades: Sequence[str] = ()) -> str:
    """The comment's parts and the findings that it held back; `MAX_SUMMARY` bytes at most."""
    blocks = _blocks(report, downgrades, is_complete=True)
    return fit_blocks(blocks, MAX_SUMMARY, places_beside_summary(report))
