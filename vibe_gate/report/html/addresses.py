"""Places of the page: what its links lead to, and the ids of what stands there
(`app/src/hash.ts`).
"""

from __future__ import annotations

from urllib.parse import quote

from vibe_gate.report.folds import Fold


def finding_element_id(index: int) -> str:
    """The id of the element of the finding with that index in the summary."""
    return f"x-{index + 1}"


def node_element_id(name: str) -> str:
    """The id of a node's line in the list of the graph's nodes."""
    return f"n={name}"


def round_element_id(name: str) -> str:
    """The id of what a gate's round came to, in the list of rounds."""
    return f"round={name}"


def fold_element_id(fold: Fold) -> str:
    """The id of what a fold of the graph opens."""
    return f"{fold.kind}={fold.node}"


def link_to_element(id: str) -> str:
    """A link to the element with that id."""
    return f"#{_quoted(id, '/:=')}"


def place_link(kind: str, target: str) -> str:
    """A link to a criterion or vote ("c"), or to a turn or event ("e")."""
    return f"#{kind}={_quoted(target, '/:')}"


def file_link(path: str, line: str = "", turn: str = "") -> str:
    """A link to a changed file, or a line of it; with `turn` as that turn changed it."""
    # A colon of the path itself is not the one before the line.
    before = ""
    if turn:
        before = f"e={_quoted(turn, '/:')}&"
    return f"#{before}f={_quoted(path, '/')}" + (f":{line}" if line else "")


def _quoted(text: str, safe: str) -> str:
    return quote(text, safe=safe, errors="surrogatepass")
