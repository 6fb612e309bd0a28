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

UNCAPTURED = (
    "No captured session is here, so no line is told to be an agent's: `vibe-gate install claude|gemini|codex` "
    "records them."
)

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
    shown = Text()
    where = f" at {safe(revision)}" if revision else ""
    shown.append(f"{paths.quote(path)}{where}: {_counts(origins)}\n")
    groups = [list(some) for _, some in groupby(origins, key=_origin)]
    width = max((len(_span(some)) for some in groups), default=0)
    for some in groups:
        first = some[0]
        shown.append(f"{_span(some):>{width}}  {first.commit[:8] or 'not yet':8}  ", style="dim")
        head, *more = _words(first, authors, title)
        shown.append(
            f"{textwrap.shorten(head, 78 - width - 12, placeholder='…')}\n", style=_STYLES[first.by]
        )
        for line in more:
            shown.append(
                f"{'':{width + 12}}{textwrap.shorten(line, 78 - width - 12, placeholder='…')}\n"
            )
    if any(origin.by == "unknown" and not origin.why for origin in origins):
        shown.append("unknown: no session was captured at that time\n")
    return shown


def _origin(origin: LineOrigin) -> tuple[str, ...]:
    """Equal for lines of which a row says the same: calls of one tool in one turn are not told
    apart.
    """
    turn = (origin.session, str(origin.turn), origin.tool)
    return (origin.commit, origin.by, *turn, origin.why, origin.agent, origin.source)


def _span(some: Sequence[LineOrigin]) -> str:
    first, last = some[0].line, some[-1].line
    return str(first) if first == last else f"{first}-{last}"


def _counts(origins: Sequence[LineOrigin]) -> str:
    by: Counter[str] = Counter(origin.by for origin in origins)
    parts = [("agent", "by an agent", "by agents"), ("person", "by a person", "by people")]
    told = [
        f"{by[name]:,} {one if by[name] == 1 else many}" for name, one, many in parts if by[name]
    ]
    told += [f"{by['unknown']:,} unknown"] if by["unknown"] else []
    return f"{counted(len(origins), 'line')}{', ' if told else ''}{', '.join(told)}"


def _named(origin: LineOrigin, title: Callable[[str], str]) -> str:
    """The agent, and by what it is known."""
    if origin.source == "captured":
        return title(origin.session)
    if origin.source == "applied":
        return safe(origin.agent + (f", session {origin.session[:8]}" if origin.session else ""))
    # First that it is a claim: both names are as long as their record likes.
    return safe(
        f"{textwrap.shorten(origin.source, MAX_TOOL, placeholder='…')} says: {origin.agent}"
    )


def _words(
    origin: LineOrigin, authors: Mapping[str, str], title: Callable[[str], str]
) -> Iterator[str]:
    author = safe(authors.get(origin.commit, ""))
    if origin.by == "agent":
        turn = f", turn {origin.turn}" if origin.turn else ""
        yield f"{_named(origin, title)}{turn}{f', {safe(origin.tool)}' if origin.tool else ''}"
        if origin.asked:
            yield f'"{safe(origin.asked)}"'
    elif origin.by == "person":
        yield f"person{f' ({author})' if author else ''}"
    else:
        yield f"unknown{f' (commit by {author})' if author else ''}"
        if origin.why:
            yield safe(origin.why)
