"""The whole report as one Markdown document: a job's summary, and what `--markdown` writes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_gate.report import sections
from vibe_gate.report.markdown import Block, fit
from vibe_gate.report.report import Report

MAX_SUMMARY = 1_000_000
"""Bytes; GitHub takes 1 MiB a step, and other lines of the step count too."""


def job_summary(report: Report, downgrades: Sequence[str] = ()) -> str:
    """All that a comment has, and what was held back; `MAX_SUMMARY` bytes at most."""
    summary = report.summary
    first = "\n\n".join(filter(None, [sections.reason(report), sections.round_line(report.round)]))
    blocks = [
        Block(f"{sections.headline(report)}\n\n{first}", 0),
        sections.downgrades(downgrades),
        *sections.criteria(summary),
        *sections.findings(report, report.anchors, held=True),
        *sections.fixed(report),
        *sections.policy(summary.policy_changes),
        *sections.unreviewed(summary),
        *sections.costs(summary),
        *sections.diffs(report),
        sections.notes(report.notes),
        sections.papers(report),
        sections.again(report),
    ]
    return fit(blocks, MAX_SUMMARY, _missing)


def _missing(what: str, number: int) -> str:
    return f"**{number:,} more {what}** did not fit here: see the bundle."
