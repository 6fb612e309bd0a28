"""Documents of a bundle that follow from its events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from vibe_gate.domain import tolerant_reading
from vibe_gate.domain.event import MAX_EVENTS, Event
from vibe_gate.domain.graph import MAX_PARTS, fold
from vibe_gate.store import names
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import encode_document, lines
from vibe_gate.store.place import MAX_DOCUMENT_BYTES
from vibe_gate.store.strict import parse_object


def sessions(completed: list[tuple[str, str]]) -> dict[str, Any]:
    """sessions.json from the sessions' nodes and ids, in the order of the turns."""
    nodes: dict[str, list[str]] = {}
    for node_id, session_id in completed:
        if session_id:
            nodes.setdefault(node_id, []).append(session_id)
    return {"schema": 1, "nodes": nodes}


def rebuilt(bundle: Folder, name: str) -> bytes | None:
    """The bytes of graph.json or sessions.json; None for another file, or where the events do not tell. OSError."""
    if name not in {names.GRAPH, names.SESSIONS}:
        return None
    try:
        if name == names.GRAPH:
            return fold(_events(bundle)).to_json().encode()
        return encode_document(sessions(_completed(_events(bundle))))
    except (FileNotFoundError, ValueError):
        return None


def _events(bundle: Folder) -> Iterator[Event]:
    """Streamed, for a log may be anybody's. ValueError, also where it has more than any run's."""
    for line in islice(lines(bundle, names.EVENTS), MAX_EVENTS):
        yield tolerant_reading.read_event(parse_object(line))


def vouched(bundle: Folder, name: str) -> str:
    """The sha-256 that the summary has for a file; "" where it has none or is no summary. OSError."""
    try:
        digests = parse_object(bundle.read(names.SUMMARY, MAX_DOCUMENT_BYTES)).get("digests")
    except ValueError:
        return ""
    return str(digests.get(name, "")) if isinstance(digests, dict) else ""


def _completed(events: Iterable[Event]) -> list[tuple[str, str]]:
    """Node and session of every turn, in the order in which the turns were opened. ValueError: they are too many."""
    session_of: dict[tuple[str, str], str] = {}
    for event in events:
        if event.type == "turn.started":
            session_of.setdefault((event.node_id or "", event.data["turn"]), "")
        elif event.type == "turn.completed" and (turn := (event.node_id or "", event.data["turn"])) in session_of:
            session_of[turn] = str(event.data.get("session_id", ""))
        if len(session_of) > MAX_PARTS:
            raise ValueError(f"more than {MAX_PARTS:,} turns")
    return [(turn[0], session) for turn, session in session_of.items()]
