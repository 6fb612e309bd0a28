"""Comments about findings at lines of a pull request, and what became of these findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import UNSET

from vibe_gate.domain.verdict import SHORT_FINGERPRINT, Finding
from vibe_gate.forge import DiffSide, LineComment
from vibe_gate.report import finding_places, queries, sentences
from vibe_gate.report.anchors import Anchors
from vibe_gate.report.annotations import forge_path
from vibe_gate.report.comment_findings import (
    MAX_LINKED_PLACES,
    deciding_line_links,
    place_link_of,
    test_fold,
)
from vibe_gate.report.comment_markup import join_first, link_commit
from vibe_gate.report.finding_places import QuotedPlace
from vibe_gate.report.links import Links
from vibe_gate.report.markdown import escape_code, escape_prose
from vibe_gate.report.report import Report
from vibe_gate.report.reported_finding import finding_identity

FINDING_MARKER = "<!-- vibe-gate:finding "
"""Begins the first line of a comment of ours about a finding; its fingerprint follows."""

MAX_COMMENTS = 10
"""New findings that get comments at their lines: more bury a pull request, so then all are
annotations.
"""

MAX_LINES = 100
"""Lines that one comment may span; a longer place is marked at its first lines."""

_MARKED = re.compile(FINDING_MARKER + r"([0-9a-f]{16}) -->\Z")
_FIXED = "**Fixed** at "
_ACCEPTED = "**Accepted** "
_REFUTED = "**Refuted** "
_LEVEL = r"(\*\*(?:failure|warning|notice)\*\*)"
_HEAD_LINE = re.compile(rf"^((?:~~)?{_LEVEL}.* · )`[0-9a-f]{{8}}`", re.MULTILINE)
"""Until the fingerprint."""
_THUMBS = "<sub>👍 right · 👎 wrong</sub>"
_PENDING = "<!-- vibe-gate:thread -->"


def make_review_comments(report: Report, anchors: Anchors) -> tuple[LineComment, ...]:
    """The new findings that stand at lines of the diff; what somebody let pass, or was refuted,
    needs no thread.
    """
    comments = []
    for finding in queries.worst_first(report.round.new, report.summary):
        if queries.waiver_text(finding) or finding.is_refuted:
            continue
        comment = _line_comment(finding, report, anchors)
        if comment is not None:
            comments.append(comment)
    return tuple(comments)


def read_finding_marker(body: str) -> str:
    """The fingerprint of the finding that a comment of ours is about, "" for any other comment."""
    lines = body.splitlines()
    match = None
    if lines:
        match = _MARKED.match(lines[0].rstrip())
    if not match:
        return ""
    return match[1]


def mark_fixed(old_body: str, commit: str, links: Links | None = None) -> str:
    """The comment of a finding that is gone: says so first and keeps what it said; the same text
    where it says so.
    """
    if is_marked_fixed(old_body) or not read_finding_marker(old_body):
        return old_body
    return _with_state(old_body, f"{_FIXED}{link_commit(commit, links)}.")


def mark_accepted(old_body: str, grounds: str) -> str:
    """The comment of a finding that people let pass (`grounds`: by whom, until when and why), or
    not any more ("").

    The same text if it says so already, and if it says that the finding is fixed.
    """
    state = ""
    if grounds:
        state = _ACCEPTED + escape_prose(grounds)
    if is_marked_fixed(old_body) or not read_finding_marker(old_body):
        return old_body
    if _state(old_body) == state:
        return old_body
    pattern, replacement = f"^~~{_LEVEL}~~", r"\1"
    if grounds:
        pattern, replacement = f"^{_LEVEL}", r"~~\1~~"
    body = _with_state(old_body, state)
    return re.sub(pattern, replacement, body, count=1, flags=re.MULTILINE)


def mark_refuted(old_body: str, reason: str) -> str:
    """The comment of a finding that a second look refuted: says so first and keeps what it said."""
    if is_marked_fixed(old_body):
        return old_body
    state = f"{_REFUTED}by a second look: {escape_prose(reason)}"
    return _with_state(mark_accepted(old_body, ""), state)


def with_fingerprint(body: str, fingerprint: str) -> str:
    """The comment with the fingerprint that its finding has now, which `override` wants; its marker
    stays.
    """
    if not _HEAD_LINE.search(body):
        return body
    return _HEAD_LINE.sub(rf"\1`{fingerprint[:SHORT_FINGERPRINT]}`", body, count=1)


def is_marked_fixed(body: str) -> bool:
    """Whether a comment of ours says already that its finding is gone."""
    return _state(body).startswith(_FIXED)


def is_marked_settled(body: str) -> bool:
    """Whether a comment of ours says that its finding is fixed, accepted or refuted: then its
    thread is resolved.
    """
    return bool(_state(body))


def is_thread_pending(body: str) -> bool:
    """Whether the thread of this comment of ours is not yet what its text says."""
    return body.rstrip().endswith(_PENDING)


def mark_thread_pending(body: str, pending: bool) -> str:
    """The comment with or without a note to later runs that its thread could not be resolved or
    reopened.
    """
    if is_thread_pending(body) == pending:
        return body
    if pending:
        return f"{body.rstrip()}\n\n{_PENDING}\n"
    return body.rstrip().removesuffix(_PENDING).rstrip() + "\n"


def _state(body: str) -> str:
    """The second line of a comment about a finding if it says that this is fixed, accepted or
    refuted; else "".
    """
    lines = [line.rstrip() for line in body.splitlines()]
    if len(lines) < 2 or not read_finding_marker(body):
        return ""
    if not lines[1].startswith((_FIXED, _ACCEPTED, _REFUTED)):
        return ""
    return lines[1]


def _with_state(body: str, state: str) -> str:
    """The comment with this second line, in place of another state's; "" for none."""
    lines = body.replace("\r\n", "\n").split("\n")
    first_line = 1
    if _state(body):
        first_line = 2
    text = "\n".join(lines[first_line:]).strip("\n")
    parts = [lines[0].rstrip()]
    if state:
        parts.append(f"{state}\n")
    parts.append(f"{text}\n")
    return "\n".join(filter(None, parts))


def _line_comment(finding: Finding, report: Report, anchors: Anchors) -> LineComment | None:
    """The finding at the first of its places that takes a comment; None if none does."""
    places = finding_places.quoted_places(finding)
    for place in places:
        end = _last_commentable_line(place, anchors)
        if end is None:
            continue
        other_places = [other for other in places if other is not place]
        body = _comment_body(finding, report, other_places)
        return LineComment(
            forge_path(place.path),
            body,
            end,
            _diff_side(place),
            place.place.line,
            finding_identity(finding),
        )
    return None


def _diff_side(place: QuotedPlace) -> DiffSide:
    if place.is_removed:
        return "LEFT"
    return "RIGHT"


def _last_commentable_line(quoted: QuotedPlace, anchors: Anchors) -> int | None:
    """The last line of a comment at as many of the place's lines as take one together; None if the
    first does not.
    """
    place = quoted.place
    if not place.line or not forge_path(place.path):
        return None
    side = _diff_side(quoted)
    end = min(max(place.end_line, place.line), place.line + MAX_LINES - 1)
    while end > place.line and not anchors.holds(place.path, place.line, end, side):
        end -= 1
    if not anchors.holds(place.path, place.line, end, side):
        return None
    return end


def _comment_body(finding: Finding, report: Report, other_places: Sequence[QuotedPlace]) -> str:
    parts = filter(None, _comment_parts(finding, report, other_places))
    marker = f"{FINDING_MARKER}{finding_identity(finding)} -->"
    return f"{marker}\n" + "\n\n".join(parts) + "\n"


def _comment_parts(
    finding: Finding, report: Report, other_places: Sequence[QuotedPlace]
) -> Iterator[str]:
    """The paragraphs of a comment about a finding. `other_places`: where the comment is not."""
    summary = report.summary
    head = [f"**{finding.level}**", escape_code(finding.criterion, 64)]
    if finding.fingerprint:
        head.append(escape_code(finding.fingerprint[:SHORT_FINGERPRINT]))
    head.append(queries.finding_basis(finding))
    yield " · ".join(filter(None, head))
    yield escape_prose(sentences.finding_sentence(finding))
    if other_places:
        links = []
        for place in other_places:
            links.append(place_link_of(place, report.links))
        yield f"Also at {join_first(links, MAX_LINKED_PLACES)}"
    yield from deciding_line_links(finding, report.links)
    counterexample = queries.counterexample_of(finding, summary)
    if counterexample:
        yield f"Counterexample: {escape_prose(counterexample, sentences.MAX_COUNTEREXAMPLE)}"
    if finding.proof is not UNSET:
        yield escape_prose(sentences.proof_sentence(finding.proof))
        yield test_fold(finding.proof)
    if finding.second_look is not UNSET:
        yield escape_prose(sentences.dispute_sentence(finding.second_look))
        yield escape_prose(sentences.second_look_sentence(finding.second_look))
    advice = queries.advice_behind(finding, summary)
    if advice:
        yield f"Would have blocked: {escape_prose(sentences.criterion_badge(advice))}"
    yield _THUMBS
