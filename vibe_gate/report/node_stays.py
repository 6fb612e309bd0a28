"""When the nodes of a run ran, and which of them are parts of others, by its events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from vibe_gate.domain.document import read_text_of

if TYPE_CHECKING:
    from vibe_gate.store.bundle_events import TimelineEvent


class NodeStay(Struct):
    """When a node ran, in milliseconds since 1970."""

    number: int
    """In the order in which nodes came."""
    start: int
    end: int
    status: str = ""
    has_begun: bool = False
    """Whether it ran, or was decided not to."""
    within: str | None = None
    """The node that it is a part of; None: the run itself."""


def read_stays(events: Iterable[tuple[TimelineEvent, Mapping[str, Any]]]) -> dict[str, NodeStay]:
    """Nodes by id. What comes after a node that still runs, or in one that does, is part of it: a
    gate's checks are.
    """
    stays: dict[str, NodeStay] = {}
    within: dict[str, str] = {}
    for event, data in events:
        if event.type == "edge.added":
            source = _running_source(read_text_of(data, "from"), stays, within)
            target = read_text_of(data, "to")
            if source is not None and _comes_later(target, source, stays):
                within.setdefault(target, source)
        elif event.type != "verdict.decided":
            stay = stays.setdefault(event.node_id, NodeStay(len(stays), event.ts, event.ts))
            status = ""
            if event.type == "node.status":
                status = read_text_of(data, "status")
            if not stay.has_begun and status in _BEGINNINGS:
                stay.start = event.ts
                stay.has_begun = True
            stay.status = status or stay.status
            stay.end = event.ts
    for node_id, stay in stays.items():
        stay.within = within.get(node_id)
    return stays


_BEGINNINGS = frozenset({"RUNNING", "SKIPPED", "CANCELLED"})
"""Statuses before which a node only waited."""


def _running_source(
    source: str, stays: Mapping[str, NodeStay], within: Mapping[str, str]
) -> str | None:
    """The source if it runs, else the node that it is a part of, if that does; None if none."""
    name: str | None = source
    while name is not None:
        if name in stays and stays[name].status == "RUNNING":
            return name
        name = within.get(name)
    return None


def _comes_later(target: str, source: str, stays: Mapping[str, NodeStay]) -> bool:
    return target not in stays or stays[source].number < stays[target].number
