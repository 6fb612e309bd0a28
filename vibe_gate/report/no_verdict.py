"""What is said in place of a verdict: why the job did not review this commit, and what to do.
Pure.
"""

from __future__ import annotations

from msgspec import Struct

from vibe_gate.domain.escape import safe, shorten_text
from vibe_gate.forge import CheckRun
from vibe_gate.report import queries
from vibe_gate.report.annotations import MAX_TITLE
from vibe_gate.report.comment import (
    MAX_COMMENT,
    comment_marker,
    read_comment_state,
    render_state_line,
)
from vibe_gate.report.comment_markup import link_commit
from vibe_gate.report.links import Links
from vibe_gate.report.markdown import Block, escape_prose, fit_blocks, link_code

HEADLINE = "NOT REVIEWED"

_PLACES = {"": "the job's log"}
"""Where to find what does not fit."""

MAX_REASONS_TOLD = 20
"""Mistakes of a gate that are named one by one; the job's log has all."""


class NoVerdict(Struct, frozen=True):
    """Why a job has no verdict on a commit."""

    head: str
    """The commit."""
    reasons: tuple[str, ...]
    """A sentence each."""
    name: str
    """As a Report's."""
    links: Links
    next: str = "repair this and push; if the cause was outside of the change, re-run the job"
    """What the reader does, without a full stop."""
    blocks: bool = True
    """Whether the job fails."""
    quiet: bool = False
    """Whether it is said only where a verdict stood."""


def no_verdict_comment(no_verdict: NoVerdict, before: str) -> str:
    """The comment in place of `before` (ours, or ""), whose round the next verdict goes on from."""
    name = ""
    if no_verdict.name:
        name = f" ({escape_prose(no_verdict.name, 100)})"
    commit = link_commit(no_verdict.head, no_verdict.links)
    headline = Block(f"### vibe-gate{name}: {HEADLINE} · {commit}", 0, "the verdict")
    marker = f"{comment_marker(no_verdict.name)}\n"
    state = read_comment_state(before)
    state_line = ""
    if state:
        state_line = render_state_line(state)
    room = MAX_COMMENT - len(marker) - len(state_line)
    text = fit_blocks([headline, *_blocks(no_verdict)], room, _PLACES)
    return marker + text + state_line


def no_verdict_check(no_verdict: NoVerdict) -> CheckRun:
    """The check run: as the comment."""
    title = safe(f"{HEADLINE} · {queries.reason_in_words(no_verdict.reasons[0])}")
    return CheckRun(
        title=shorten_text(title, MAX_TITLE),
        summary=fit_blocks(_blocks(no_verdict), MAX_COMMENT, _PLACES),
        text="",
        conclusion="failure" if no_verdict.blocks else "neutral",
    )


def _blocks(no_verdict: NoVerdict) -> list[Block]:
    commit = link_commit(no_verdict.head, no_verdict.links)
    lines = [f"vibe-gate did not review {commit}:\n"]
    lines += [f"- {escape_prose(reason)}" for reason in no_verdict.reasons[:MAX_REASONS_TOLD]]
    if len(no_verdict.reasons) > MAX_REASONS_TOLD:
        lines.append(f"- and {len(no_verdict.reasons) - MAX_REASONS_TOLD:,} more.")
    page = ""
    if no_verdict.links.run_url:
        page = f" ({link_code('the job', no_verdict.links.run_url)})"
    next_line = (
        f"**Next:** {no_verdict.next}{page}. No verdict on an earlier commit counts for this one."
    )
    return [Block("\n".join(lines), 0, "the reasons"), Block(next_line, 0, "the next step")]
