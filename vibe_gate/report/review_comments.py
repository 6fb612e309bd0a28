"""New findings as comments at lines of the diff. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vibe_gate.domain.verdict import Finding
from vibe_gate.report import sections, words
from vibe_gate.report.anchors import Anchors, DiffSide
from vibe_gate.report.check_run import own_path
from vibe_gate.report.links import Links
from vibe_gate.report.markdown import code, fence, prose
from vibe_gate.report.report import Report
from vibe_gate.report.round import identity
from vibe_gate.report.suggestion import suggest

FINDING_MARKER = "<!-- vibe-gate:finding "
"""Begins the first line of a comment of ours about a finding; its fingerprint follows."""

MAX_COMMENTS = 50
"""Comments of one review, the gravest first: more bury a pull request, and all are in the summary comment."""

MAX_LINES = 100
"""Lines that one comment may span; a longer place is marked at its first lines."""

_MARKED = re.compile(FINDING_MARKER + r"([0-9a-f]{16}) -->\Z")
_FIXED = "**Fixed** at "
_GRAVITY = {"failure": 0, "warning": 1, "notice": 2}


@dataclass(frozen=True, slots=True)
class ReviewComment:
    """What the forge's review takes; `path` is the repository's own. One line: `start_line` and `start_side` None."""

    path: str
    body: str
    line: int
    side: DiffSide
    start_line: int | None
    start_side: DiffSide | None
    fingerprint: str


def review_comments(report: Report, anchors: Anchors) -> tuple[ReviewComment, ...]:
    """The new findings that stand at lines of the diff, `MAX_COMMENTS` at most; what somebody let pass is left out."""
    ordered = sorted(report.round.new, key=lambda finding: _GRAVITY[finding.level])
    made = (_comment(finding, report, anchors) for finding in ordered if not words.waiver(finding))
    return tuple([comment for comment in made if comment is not None][:MAX_COMMENTS])


def finding_of(body: str) -> str:
    """The fingerprint of the finding that a comment of ours is about, "" for any other comment."""
    lines = body.splitlines()
    found = _MARKED.match(lines[0].rstrip()) if lines else None
    return found[1] if found else ""


def fixed_body(old_body: str, commit: str, links: Links | None = None) -> str:
    """The comment of a finding that is gone: says so first and keeps what it said; the same text where it says so."""
    lines = old_body.replace("\r\n", "\n").split("\n")
    if is_fixed(old_body) or not finding_of(old_body):
        return old_body
    rest = "\n".join(lines[1:]).strip("\n")
    return f"{lines[0].rstrip()}\n{_FIXED}{sections.commit(commit, links)}.\n\n{rest}\n"


def is_fixed(body: str) -> bool:
    """Whether a comment of ours says already that its finding is gone."""
    lines = body.splitlines()
    return bool(finding_of(body)) and len(lines) > 1 and lines[1].startswith(_FIXED)


def _comment(finding: Finding, report: Report, anchors: Anchors) -> ReviewComment | None:
    path = own_path(finding.path)
    if not path or finding.line == 0:
        return None
    side: DiffSide = "LEFT" if sections.is_removed(finding) else "RIGHT"
    end = min(max(finding.end_line, finding.line), finding.line + MAX_LINES - 1)
    while end > finding.line and not anchors.holds(finding.path, finding.line, end, side):
        end -= 1
    if not anchors.holds(finding.path, finding.line, end, side):
        return None
    several = end > finding.line
    return ReviewComment(
        path=path,
        body=_body(finding, report, anchors),
        line=end,
        side=side,
        start_line=finding.line if several else None,
        start_side=side if several else None,
        fingerprint=identity(finding),
    )


def _body(finding: Finding, report: Report, anchors: Anchors) -> str:
    name = f" · {code(finding.fingerprint[: words.SHORT_FINGERPRINT])}" if finding.fingerprint else ""
    parts = [f"**{finding.level}** · {code(finding.criterion, 64)}{name}", prose(finding.message)]
    against = sections.counterexample(finding, report.summary)
    if against:
        parts.append(f"Counterexample: {prose(against, 500)}")
    change = suggest(finding, anchors)
    if change is not None:
        parts.append(fence(change.after, "suggestion", whole=True))
    return f"{FINDING_MARKER}{identity(finding)} -->\n" + "\n\n".join(filter(None, parts)) + "\n"
