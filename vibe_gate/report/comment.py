"""The one comment at a pull request: the verdict first, then why, and everything else in folds. Pure.

The marker is the first line and the state of the round the last, so that the next run
finds both and a reader of the plain e-mail neither; text inside cannot forge them, for
it only ever stands between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vibe_gate.report import sections
from vibe_gate.report.markdown import Block, fit
from vibe_gate.report.report import Report
from vibe_gate.report.round import RoundState, dump, load

MAX_COMMENT = 65_000
"""Bytes; GitHub takes 65,536 characters, and a byte is at least as short."""

_NAME = re.compile(r"[^A-Za-z0-9._/-]")
_STATE = re.compile(r"<!-- vibe-gate:state ([A-Za-z0-9+/=_-]{1,20000}) -->\Z")


def marker(name: str = "") -> str:
    """The first line of our comment; `name` tells several gates of one repository apart."""
    plain = _NAME.sub(lambda match: f"%{ord(match[0]):x}", name[:100]).replace("--", "-%2d")
    return f"<!-- vibe-gate:summary{' ' + plain if plain else ''} -->"


MARKER = marker()
"""Of the comment of a repository's only gate."""


def comment(report: Report, downgrades: Sequence[str] = ()) -> str:
    """The comment, `MAX_COMMENT` bytes at most; what does not fit is counted, and said to be where."""
    head = f"{marker(report.name)}\n"
    tail = f"\n<!-- vibe-gate:state {dump(report.round.state)} -->\n" if report.round.head else ""
    room = MAX_COMMENT - len(head) - len(tail)
    return (
        head + fit(list(_blocks(report, downgrades)), room, lambda what, number: missing(report, what, number)) + tail
    )


def state_of(body: str) -> RoundState | None:
    """The state in a comment of ours, from its last line and nowhere else."""
    lines = body.rstrip().splitlines()
    if len(lines) < 2 or not lines[0].startswith(MARKER.removesuffix(" -->")):
        return None
    found = _STATE.match(lines[-1])
    return load(found[1]) if found else None


def _blocks(report: Report, downgrades: Sequence[str]) -> list[Block]:
    summary = report.summary
    anchors = report.anchors
    first = "\n\n".join(filter(None, [sections.reason(report), sections.round_line(report.round)]))
    return [
        Block(f"{sections.headline(report)}\n\n{first}", 0),
        sections.downgrades(downgrades),
        *sections.criteria(summary),
        *sections.findings(report, anchors),
        *sections.fixed(report),
        *sections.policy(summary.policy_changes),
        *sections.unreviewed(summary),
        *sections.costs(summary),
        *sections.diffs(report),
        sections.notes(report.notes),
        sections.papers(report),
        sections.again(report),
    ]


def missing(report: Report, what: str, number: int) -> str:
    """The sentence about what was left out."""
    places = ["the job's summary"]
    places += ["the check run's annotations"] if what == "findings" else []
    places += ["the bundle among the job's artifacts"] if report.artifact else []
    named = ", ".join(places[:-1]) + " and " + places[-1] if len(places) > 1 else places[0]
    return f"**{number:,} more {what}** did not fit here: see {named}."
