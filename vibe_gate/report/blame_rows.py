"""Whose the lines of a file are, for `vibe-gate blame`: neighbours of one origin together, or one
document.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.text import Text

from vibe_gate.domain import paths
from vibe_gate.domain.blame import LineOrigin
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted, safe

MAX_TOOL = 24
"""Letters of the tool whose record claims a line, so that it is seen to be a claim."""

_STYLES = {"agent": "cyan", "person": "green", "unknown": "yellow"}


def build_blame_document(path: str, revision: str, origins: Sequence[LineOrigin]) -> dict[str, Any]:
    """The document of `--json`. `revision` is "" of the working tree."""
    return {
        "file": paths.quote(path),
        "revision": revision,
        "lines": [plain(origin) for origin in origins],
    }


def render_blame_row(
    path: str,
    revision: str,
    origins: Sequence[LineOrigin],
    authors: Mapping[str, str],
    title: Callable[[str], str],
) -> Text:
    """The lines of one origin as one row, in 80 columns. `authors`: by commit its author; `title`
    of a session.
    """
    text = Text()
    version = ""
    if revision:
        version = f" at {safe(revision)}"
    text.append(f"{paths.quote(path)}{version}: {_counts(origins)}\n")
    groups = [list(group) for _, group in groupby(origins, key=_origin)]
    spans = [_span(group) for group in groups]
    span_columns = max(map(len, spans), default=0)
    indent = span_columns + 12
    for group, span in zip(groups, spans, strict=True):
        first = group[0]
        commit = first.commit[:8] or "not yet"
        text.append(f"{span:>{span_columns}}  {commit:8}  ", style="dim")
        head, *further_lines = _words(first, authors, title)
        text.append(f"{_shorten(head, 78 - indent)}\n", style=_STYLES[first.by])
        for line in further_lines:
            text.append(f"{'':{indent}}{_shorten(line, 78 - indent)}\n")
    if any(origin.by == "unknown" and not origin.why for origin in origins):
        text.append("unknown: no session was captured at that time\n")
    return text


def _shorten(text: str, columns: int) -> str:
    return textwrap.shorten(text, columns, placeholder="…")


def _origin(origin: LineOrigin) -> tuple[str, ...]:
    """Equal for lines of which a row says the same: calls of one tool in one turn are not told
    apart.
    """
    turn = (origin.session, str(origin.turn), origin.tool)
    return (origin.commit, origin.by, *turn, origin.why, origin.agent, origin.source)


def _span(group: Sequence[LineOrigin]) -> str:
    first, last = group[0].line, group[-1].line
    if first == last:
        return str(first)
    return f"{first}-{last}"


def _counts(origins: Sequence[LineOrigin]) -> str:
    """How many lines are by whom."""
    by = Counter(origin.by for origin in origins)
    counts = [counted(len(origins), "line")]
    if by["agent"]:
        counts.append(counted(by["agent"], "by an agent", "by agents"))
    if by["person"]:
        counts.append(counted(by["person"], "by a person", "by people"))
    if by["unknown"]:
        counts.append(f"{by['unknown']:,} unknown")
    return ", ".join(counts)


def _agent_name(origin: LineOrigin, title: Callable[[str], str]) -> str:
    """The agent, and by what it is known."""
    if origin.source == "captured":
        return title(origin.session)
    if origin.source == "applied":
        session = ""
        if origin.session:
            session = f", session {origin.session[:8]}"
        return safe(origin.agent + session)
    # First that it is a claim: both names are as long as their record likes.
    return safe(f"{_shorten(origin.source, MAX_TOOL)} says: {origin.agent}")


def _words(
    origin: LineOrigin, authors: Mapping[str, str], title: Callable[[str], str]
) -> Iterator[str]:
    """What the row says of the origin, line by line."""
    author = safe(authors.get(origin.commit, ""))
    if origin.by == "agent":
        words = _agent_name(origin, title)
        if origin.turn:
            words += f", turn {origin.turn}"
        if origin.tool:
            words += f", {safe(origin.tool)}"
        yield words
        if origin.asked:
            yield f'"{safe(origin.asked)}"'
    elif origin.by == "person":
        words = "person"
        if author:
            words += f" ({author})"
        yield words
    else:
        words = "unknown"
        if author:
            words += f" (commit by {author})"
        yield words
        if origin.why:
            yield safe(origin.why)
