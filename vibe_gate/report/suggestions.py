"""What checks would write, and what a workflow's agents changed, as suggested changes at the lines
of a pull request.

Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.change import FileDiff, Hunk
from vibe_gate.domain.escape import counted
from vibe_gate.forge import LineComment
from vibe_gate.report.anchors import Anchors
from vibe_gate.report.finding_comments import MAX_LINES
from vibe_gate.report.markdown import fence_code

MAX_SUGGESTIONS = 50
"""Of one review: more bury a pull request, and the patch has all."""

MAX_SUGGESTION = 20_000
"""Characters of one suggestion: a third of what a comment may have; nobody looks through more
before committing it.
"""

_MARKER = "<!-- vibe-gate:suggestion "
_MARKED = re.compile(
    r"(?:<!-- vibe-gate:finding [0-9a-f]{16} -->\s+)?" + _MARKER + r"([0-9a-f]{16}) -->\s"
)
"""At the beginning of a comment, or behind the marker of the finding that it is about."""

BY_AGENT = "An agent changed this. Read it before you commit it."
BY_CHECK = "A check would write this. Read it before you commit it."


class Suggestions(Struct, frozen=True):
    """What is suggested of what agents changed."""

    comments: tuple[LineComment, ...] = ()
    note: str = ""
    """A sentence about where all of it is; "" if nothing changed."""


def make_suggestions(
    files: tuple[FileDiff, ...], steering: Collection[str], anchors: Anchors, place: str
) -> Suggestions:
    """A comment for each hunk of text that lies in one hunk of the pull request, `MAX_SUGGESTIONS`
    at most.

    `files`: what agents changed in the reviewed files. None for a file of `steering` (shown paths),
    which decides about a gate or steers agents: people write those. `place` says where the patch
    is, behind "the whole patch ".
    """
    if not files:
        return Suggestions()
    comments = make_suggestion_comments(files, steering, anchors, BY_AGENT)
    hunks = max(sum(len(file.hunks) for file in files), len(files))
    note = (
        f"{len(comments)} of {counted(hunks, 'change')} by agents can be committed as suggested; "
        f"the whole patch {place}."
    )
    if steering:
        note += (
            f" Look at {', '.join(sorted(steering))} there: "
            "affects agents, tests or the gate, so not suggested."
        )
    return Suggestions(comments, note)


def make_suggestion_comments(
    files: Iterable[FileDiff], steering: Collection[str], anchors: Anchors, lead: str
) -> tuple[LineComment, ...]:
    """A comment for each hunk that fits, each once; `lead` says whose it is. See
    `make_suggestions`.
    """
    comments: dict[str, LineComment] = {}
    for file in files:
        if file.shown_path in steering:
            continue
        for hunk in file.hunks:
            comment = _hunk_comment(file, hunk, anchors, lead)
            if comment is not None:
                comments[comment.fingerprint] = comment
    return tuple(comments.values())[:MAX_SUGGESTIONS]


def merge_comments(
    finding_comments: Sequence[LineComment], suggestions: Sequence[LineComment]
) -> list[LineComment]:
    """Comments about findings and suggestions, as one comment where a suggestion is about the lines
    of one finding.
    """
    comments = list(finding_comments)
    for suggestion in suggestions:
        near = []
        for comment in comments:
            if _is_at_lines_of(comment, suggestion):
                near.append(comment)
        if len(near) != 1 or read_suggestion_marker(near[0].body):
            comments.append(suggestion)
        else:
            comments[comments.index(near[0])] = _merge(near[0], suggestion)
    return comments


def _is_at_lines_of(comment: LineComment, suggestion: LineComment) -> bool:
    """Whether the comment stands at one of the lines that are replaced."""
    if (comment.path, comment.side) != (suggestion.path, suggestion.side):
        return False
    first = suggestion.start_line or suggestion.line
    return first <= comment.line <= suggestion.line


def _merge(comment: LineComment, suggestion: LineComment) -> LineComment:
    """Both markers, then both texts."""
    marker, _, text = comment.body.partition("\n")
    suggestion_marker, _, suggestion_text = suggestion.body.partition("\n")
    body = f"{marker}\n{suggestion_marker}\n{text}\n{suggestion_text}"
    return replace(suggestion, body=body, fingerprint=comment.fingerprint)


def read_suggestion_marker(body: str) -> str:
    """The fingerprint of a suggestion of ours, "" for any other comment."""
    match = _MARKED.match(body)
    if not match:
        return ""
    return match[1]


def _hunk_comment(file: FileDiff, hunk: Hunk, anchors: Anchors, lead: str) -> LineComment | None:
    """The hunk as a comment; None if it does not fit one."""
    before, after = file.before, file.after
    if before is None or after is None or before.mode != after.mode or file.old_name != file.path:
        return None
    start, end, text = _replacement(hunk)
    block = _suggestion_block(text)
    if not block or end - start >= MAX_LINES or not anchors.holds(file.shown_path, start, end):
        return None
    contents = f"{file.path}\0{start}\0{end}\0{block}".encode("utf-8", "surrogateescape")
    fingerprint = hashlib.sha256(contents).hexdigest()[:16]
    body = f"{_MARKER}{fingerprint} -->\n{lead}\n\n{block}\n"
    return LineComment(file.path, body, end, "RIGHT", start, fingerprint)


def _replacement(hunk: Hunk) -> tuple[int, int, bytes]:
    """The lines of the file that the hunk replaces, without context, and what comes in their place.

    What is only added comes with the line before it, or after it: a suggestion replaces a line at
    least.
    """
    lines = hunk.lines
    changed = [index for index, line in enumerate(lines) if line.origin != " "]
    first, last = changed[0], changed[-1]
    if all(line.origin == "+" for line in lines[first : last + 1]):
        if first:
            first -= 1
        else:
            last = min(last + 1, len(lines) - 1)
    replaced = lines[first : last + 1]
    start = hunk.old_start + sum(line.origin != "+" for line in lines[:first])
    end = start + sum(line.origin != "+" for line in replaced) - 1
    text = b"".join(line.content for line in replaced if line.origin != "-")
    return start, end, text


def _suggestion_block(raw: bytes) -> str:
    """The block of Markdown from which GitHub takes exactly these lines; "" if there is none.

    None for other line endings than LF, no newline at the end, bytes that are no text, and
    characters that hide.
    """
    text = raw.decode("utf-8", "surrogateescape")
    if not text:
        return "```suggestion\n```"
    if len(text) > MAX_SUGGESTION:
        return ""
    block = fence_code(text, "suggestion", uncut=True)
    inside = block[block.index("\n") + 1 : block.rindex("\n") + 1]
    if inside != text:
        return ""
    return block
