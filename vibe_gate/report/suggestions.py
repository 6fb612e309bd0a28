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
    """Comments that suggest what agents changed, and a sentence about where the rest is; "" if
    nothing changed.
    """

    comments: tuple[LineComment, ...] = ()
    note: str = ""


def make_suggestions(
    files: tuple[FileDiff, ...], steering: Collection[str], anchors: Anchors, rest: str
) -> Suggestions:
    """A comment for each hunk of text that lies in one hunk of the pull request, `MAX_SUGGESTIONS`
    at most.

    `files`: what agents changed in the reviewed files. None for a file of `steering` (shown paths),
    which decides about a gate or steers agents: people write those. `rest` says where all of it is,
    behind "all of it ".
    """
    if not files:
        return Suggestions()
    made = make_suggestion_comments(files, steering, anchors, BY_AGENT)
    changes = max(sum(len(file.hunks) for file in files), len(files))
    said = f"{len(made)} of {counted(changes, 'change')} by agents can be committed as suggested; all of it {rest}."
    if steering:
        said += f" Look at {', '.join(sorted(steering))} there: affects agents, tests or the gate, so not suggested."
    return Suggestions(made, said)


def make_suggestion_comments(
    files: Iterable[FileDiff], steering: Collection[str], anchors: Anchors, lead: str
) -> tuple[LineComment, ...]:
    """A comment for each hunk that fits, each once; `lead` says whose it is. See `make_suggestions`."""
    hunks = (
        (file, hunk) for file in files for hunk in file.hunks if file.shown_path not in steering
    )
    made = (_comment(file, hunk, anchors, lead) for file, hunk in hunks)
    once = {one.fingerprint: one for one in made if one is not None}
    return tuple(once.values())[:MAX_SUGGESTIONS]


def merge_comments(
    about: Sequence[LineComment], suggested: Sequence[LineComment]
) -> list[LineComment]:
    """Comments about findings and suggestions, as one comment where a suggestion is about the lines
    of one finding.
    """
    told = list(about)
    for one in suggested:
        first = one.start_line or one.line
        near = (each for each in told if (each.path, each.side) == (one.path, one.side))
        at = [each for each in near if first <= each.line <= one.line]
        if len(at) != 1 or read_suggestion_marker(at[0].body):
            told.append(one)
            continue
        head, _, said = at[0].body.partition("\n")
        mark, _, offered = one.body.partition("\n")
        body = f"{head}\n{mark}\n{said}\n{offered}"
        told[told.index(at[0])] = replace(one, body=body, fingerprint=at[0].fingerprint)
    return told


def read_suggestion_marker(body: str) -> str:
    """The fingerprint of a suggestion of ours, "" for any other comment."""
    found = _MARKED.match(body)
    return found[1] if found else ""


def _comment(file: FileDiff, hunk: Hunk, anchors: Anchors, lead: str) -> LineComment | None:
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
    return LineComment(
        file.path, f"{_MARKER}{own} -->\n{lead}\n\n{block}\n", end, "RIGHT", start, own
    )


def _replacement(hunk: Hunk) -> tuple[int, int, bytes]:
    """The lines of the file that the hunk replaces, without context, and what comes in their place.

    What is only added comes with the line before it, or after it: a suggestion replaces a line at
    least.
    """
    lines = hunk.lines
    changed = [index for index, line in enumerate(lines) if line.origin != " "]
    first, last = changed[0], changed[-1]
    if all(line.origin == "+" for line in lines[first : last + 1]):
        first, last = (first - 1, last) if first else (first, min(last + 1, len(lines) - 1))
    kept = lines[first : last + 1]
    start = hunk.old_start + sum(line.origin != "+" for line in lines[:first])
    text = b"".join(line.content for line in kept if line.origin != "-")
    return start, start + sum(line.origin != "+" for line in kept) - 1, text


def _block(raw: bytes) -> str:
    """The block of Markdown from which GitHub takes exactly these lines; "" if there is none.

    None for other line endings than LF, no newline at the end, bytes that are no text, and
    characters that hide.
    """
    text = raw.decode("utf-8", "surrogateescape")
    if not text:
        return "```suggestion\n```"
    block = fence_code(text, "suggestion", whole=True)
    return (
        block
        if len(text) <= MAX_SUGGESTION
        and block[block.index("\n") + 1 : block.rindex("\n") + 1] == text
        else ""
    )
