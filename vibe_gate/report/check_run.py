"""A run as a check run: conclusion, summary, and an annotation for each finding at its lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vibe_gate.domain import paths
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import PASS, POLICY_CHANGED
from vibe_gate.report import sections, words
from vibe_gate.report.anchors import Anchors
from vibe_gate.report.markdown import Block, fit
from vibe_gate.report.report import Report
from vibe_gate.report.text import safe

MAX_TEXT = 65_000
"""Bytes of summary and of text; GitHub takes 65,535 characters each."""

MAX_TITLE = 200
"""Characters of a title; GitHub cuts what it cannot show."""

MAX_ANNOTATIONS = 1_000
"""Of one check run: twenty requests, a quarter of what GitHub lets an app write in a minute. The rest is counted."""

Conclusion = Literal["success", "failure", "action_required"]
"""Never neutral or skipped: those satisfy a required check."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One finding at lines of the after side, or at the first line of its file; `path` is the repository's own."""

    path: str
    start_line: int
    end_line: int
    annotation_level: Literal["notice", "warning", "failure"]
    message: str
    title: str = ""
    raw_details: str = ""


@dataclass(frozen=True, slots=True)
class CheckRun:
    """What the Checks API takes, all annotations in order; `text` may be ""."""

    title: str
    summary: str
    text: str
    conclusion: Conclusion
    annotations: tuple[Annotation, ...] = ()


def check_run(report: Report, downgrades: Sequence[str] = ()) -> CheckRun:
    """The check run of the reviewed commit: new and open findings as annotations, the others in the summary.

    `MAX_ANNOTATIONS` of them, the gravest first; where there are more, the summary says so.
    """
    summary = report.summary
    deleted = {file.path for file in summary.change.files if file.change_type == "deleted"}
    made = {finding: annotation(finding, report) for finding in report.round.shown if finding.path not in deleted}
    if len(made) > MAX_ANNOTATIONS:
        gravest = sorted(made, key=lambda finding: sections.GRAVITY[finding.level])[:MAX_ANNOTATIONS]
        kept = set(gravest)
        made = {finding: one for finding, one in made.items() if finding in kept}
        said = f"Of {len(report.round.shown):,} findings, {MAX_ANNOTATIONS:,} are annotations: the gravest first."
        downgrades = (*downgrades, said)
    return CheckRun(
        title=title(summary),
        summary=fit(_blocks(report, downgrades, made), MAX_TEXT, _missing),
        text=fit(list(sections.policy(summary.policy_changes)), MAX_TEXT, _missing) if summary.policy_changes else "",
        conclusion=conclusion(summary.exit_code),
        annotations=tuple(filter(None, made.values())),
    )


def conclusion(exit_code: int) -> Conclusion:
    """What the forge is told."""
    return {PASS: "success", POLICY_CHANGED: "action_required"}.get(exit_code, "failure")  # type: ignore[return-value]


def title(summary: Summary) -> str:
    """The verdict and what decided, as plain text on one line."""
    text = safe(f"{words.verdict(summary)}: {words.why(summary)}".removesuffix(": "))
    return text if len(text) <= MAX_TITLE else text[: MAX_TITLE - 1] + "…"


def annotation(finding: Finding, report: Report) -> Annotation | None:
    """The finding at its lines; None where the forge could not show it: no file, or no path that is text."""
    path = own_path(finding.path)
    if not path:
        return None
    removed = sections.is_removed(finding)
    line = 1 if removed else max(finding.line, 1)
    place = f"(removed: {words.place(finding.path, finding.line, finding.end_line)}) " if removed else ""
    against = sections.counterexample(finding, report.summary)
    details = [f"Counterexample: {safe(against)}"] if against else []
    details += [f"Finding {safe(finding.fingerprint)}"] if finding.fingerprint else []
    return Annotation(
        path=path,
        start_line=line,
        end_line=max(line, finding.end_line) if not removed else line,
        annotation_level=finding.level,
        message=safe(f"{place}{finding.message}") or "(no message)",
        title=safe(finding.criterion)[:MAX_TITLE],
        raw_details="\n".join(details),
    )


def own_path(shown: str) -> str:
    """The path as the forge knows it; "" where there is none, or none that is text."""
    path = paths.unquote(shown)
    try:
        path.encode()
    except UnicodeEncodeError:
        return ""
    return path


def _blocks(report: Report, downgrades: Sequence[str], made: dict[Finding, Annotation | None]) -> list[Block]:
    summary = report.summary
    anchors = Anchors()
    first = "\n\n".join(filter(None, [sections.reason(report), sections.round_line(report.round)]))
    nowhere = [finding for finding in report.round.shown if made.get(finding) is None]
    return [
        Block(f"{sections.headline(report)}\n\n{first}", 0),
        sections.downgrades(downgrades),
        *sections.criteria(summary),
        *(
            Block(sections.item(one, report, anchors), 2, "findings", joins=index > 0)
            for index, one in enumerate(nowhere)
        ),
        *sections.fixed(report),
        *sections.unreviewed(summary),
        *sections.costs(summary),
        sections.notes(report.notes),
        sections.papers(report),
        sections.again(report),
    ]


def _missing(what: str, number: int) -> str:
    return f"**{number:,} more {what}** did not fit here: see the job's summary."
