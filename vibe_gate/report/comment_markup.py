"""Lists, links and addresses that the parts of a comment share. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from vibe_gate.report import sentences
from vibe_gate.report.links import Links
from vibe_gate.report.markdown import link_code
from vibe_gate.version import __version__

DOCS = f"https://github.com/vibe-gate/vibe-gate/blob/v{__version__}/docs"
"""The documents of this version."""

GLOSSARY = f"{DOCS}/reference/glossary.md"

MAX_SENTENCES = 20
"""Notes or downgrades that are told one by one."""

MAX_PLACES = 10
"""Places that share a reason or a message and are named one by one; summary.json has all."""

Thing = TypeVar("Thing")

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")


def is_commit(text: str) -> bool:
    """Whether it is a full commit id."""
    return _COMMIT.match(text) is not None


def link_commit(id: str, links: Links | None) -> str:
    """A commit by its short id, linked where the forge is known."""
    address = ""
    if links and is_commit(id):
        address = links.commit(id)
    return link_code(id[: sentences.SHORT_ID], address)


def list_first(things: Sequence[Thing], show: Callable[[Thing], str]) -> str:
    """A list, the first of many."""
    lines = [f"- {show(thing)}" for thing in things[:MAX_SENTENCES]]
    if len(things) > MAX_SENTENCES:
        lines.append(f"- and {len(things) - MAX_SENTENCES:,} more.")
    return "\n".join(lines)


def join_first(places: Sequence[str], most: int = MAX_PLACES) -> str:
    """The first of many."""
    text = ", ".join(places[:most])
    if len(places) > most:
        text += f" and {len(places) - most:,} more"
    return text
