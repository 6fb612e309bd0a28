"""What a workflow's agents changed, as suggested changes at the lines of a pull request. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass

from vibe_gate.domain.change import FileDiff, Hunk
from vibe_gate.domain.escape import counted
from vibe_gate.forge import LineComment
from vibe_gate.report.annotations import MAX_LINES
from vibe_gate.report.markdown import fence
from vibe_gate.report.report import Anchors

MAX_SUGGESTIONS = 50
"""Of one review: more bury a pull request, and the patch has all."""

MAX_SUGGESTION = 20_000
"""Characters of one suggestion: a third of what a comment may have; nobody looks through more before committing it."""

_MARKER = "<!-- vibe-gate:suggestion "
_MARKED = re.compile(_MARKER + r"([0-9a-f]{16}) -->\s")


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Comments that suggest what agents changed, and a sentence about where the rest is; "" if nothing changed."""

    comments: tuple[LineComment, ...] = ()
    note: str = ""


def suggestions(files: tuple[FileDiff, ...], steering: Collection[str], anchors: Anchors, rest: str) -> Suggestions:
    """A comment for each hunk of text that lies in one hunk of the pull request, `MAX_SUGGESTIONS` at most.

    `files`: what agents changed in the reviewed files. None for a file of `steering` (shown paths), which decides about
    a gate or steers agents: people write those. `rest` says where all of it is, behind "all of it ".
    """
    if not files:
        return Suggestions()
    hunks = [(file, hunk) for file in files for hunk in file.hunks]
    made = [each for file, hunk in hunks if file.shown_path not in steering and (each := _comment(file, hunk, anchors))]
    made = made[:MAX_SUGGESTIONS]
    changes = max(len(hunks), len(files))
    said = f"{len(made)} of {counted(changes, 'change')} by agents can be committed as suggested; all of it {rest}."
    if steering:
        said += f" Look at {', '.join(sorted(steering))} there: affects agents, tests or the gate, so not suggested."
    return Suggestions(tuple(made), said)


def suggestion_of(body: str) -> str:
    """The fingerprint of a suggestion of ours, "" for any other comment."""
    found = _MARKED.match(body)
    return found[1] if found else ""


def _comment(file: FileDiff, hunk: Hunk, anchors: Anchors) -> LineComment | None:
    """The hunk as a comment; None if it does not fit one."""
    before, after = file.before, file.after
    if before is None or after is None or before.mode != after.mode or file.old_name != file.path:
        return None
    start, end, text = _replacement(hunk)
    block = _block(text)
    if not block or end - start >= MAX_LINES or not anchors.holds(file.shown_path, start, end):
        return None
    held = f"{file.path}\0{start}\0{end}\0{block}".encode("utf-8", "surrogateescape")
    own = hashlib.sha256(held).hexdigest()[:16]
    several = end > start
    return LineComment(
        path=file.path,
        body=f"{_MARKER}{own} -->\nAn agent changed this. Read it before you commit it.\n\n{block}\n",
        line=end,
        side="RIGHT",
        start_line=start if several else None,
        start_side="RIGHT" if several else None,
        fingerprint=own,
    )


def _replacement(hunk: Hunk) -> tuple[int, int, bytes]:
    """The lines of the file that the hunk replaces, without context, and what comes in their place.

    What is only added comes with the line before it, or after it: a suggestion replaces a line at least.
    """
    changed = [index for index, line in enumerate(hunk.lines) if line.origin != " "]
    first, last = changed[0], changed[-1]
    if all(line.origin == "+" for line in hunk.lines[first : last + 1]):
        first, last = (first - 1, last) if first else (first, min(last + 1, len(hunk.lines) - 1))
    kept = hunk.lines[first : last + 1]
    start = hunk.old_start + sum(line.origin != "+" for line in hunk.lines[:first])
    text = b"".join(line.content for line in kept if line.origin != "-")
    return start, start + sum(line.origin != "+" for line in kept) - 1, text


def _block(raw: bytes) -> str:
    """The block of Markdown from which GitHub takes exactly these lines; "" if there is none.

    None for other line endings than LF, no newline at the end, bytes that are no text, and characters that hide.
    """
    text = raw.decode("utf-8", "surrogateescape")
    if not text:
        return "```suggestion\n```"
    block = fence(text, "suggestion", whole=True)
    return (
        block if len(text) <= MAX_SUGGESTION and block[block.index("\n") + 1 : block.rindex("\n") + 1] == text else ""
    )
