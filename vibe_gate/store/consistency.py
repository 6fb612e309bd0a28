"""What a summary vouches for, and whether a sealed run's summary, log and receipt say the same.

Digests alone do not tell a forged summary: whoever changes it can compute them anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from vibe_gate.domain import model, receipt
from vibe_gate.domain.bundles import impossible
from vibe_gate.domain.escape import expression
from vibe_gate.domain.event import Event
from vibe_gate.domain.rubric import IDENTIFIER
from vibe_gate.domain.summary import Summary
from vibe_gate.store import names
from vibe_gate.store.folder import Folder

_ID = expression(IDENTIFIER)


def digests(bundle: Folder) -> dict[str, str]:
    """sha-256 by name relative to the bundle: the run's own files, and every file of every turn but its contents.

    Contents under `files/` are named by their hash. OSError.
    """
    present = set(bundle.files())
    found = {name: digest(bundle, name) for name in names.VOUCHED if name in present}
    if "nodes" not in bundle.folders():
        return found
    nodes = bundle.folder("nodes")
    for node_id in nodes.folders():
        node = nodes.folder(node_id)
        for turn_name in node.folders():
            turn = node.folder(turn_name)
            found |= {f"nodes/{node_id}/{turn_name}/{name}": digest(turn, name) for name in turn.files()}
    return found


def digest(folder: Folder, name: str) -> str:
    """sha-256 in hex of a regular file, streamed. OSError."""
    with open(folder.reading(name), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_summary(document: Mapping[str, Any]) -> Summary:
    """A run's summary.json as a model. ValueError, also for an outcome or id that no review writes."""
    known = {name: value for name, value in document.items() if name not in {"digests", "redacted"}}
    summary = model.read(Summary, known)
    ids = (name for rubric in summary.rubrics for name in (rubric.id, *(item.id for item in rubric.criteria)))
    wrong = next((name for name in ids if not _ID.fullmatch(name)), None)
    if wrong is not None:
        raise ValueError(f"no rubric or criterion can have the id {wrong[:100]!r}")
    if why := impossible(summary.outcome, summary.exit_code):
        raise ValueError(why)
    return summary


def contradicted(event: Event, summary: Summary) -> str:
    """What an event of a sealed run and its summary disagree about; "" if nothing."""
    if event.type == "run.completed" and event.data.get("status") != "completed":
        return "it says that the run ended without a verdict, and the summary has one"
    said = (event.data.get("outcome"), event.data.get("exit_code"))
    if event.type in {"run.completed", "verdict.decided"} and said != (summary.outcome, summary.exit_code):
        verdict = f"{summary.outcome}, {summary.exit_code}"
        return f"{event.type} says another outcome or exit code than the summary ({verdict})"
    return ""


NOT_ENDED = "it has no run.completed, and the summary has a verdict"


def contradiction(events: Iterable[Event], summary: Summary) -> str:
    """What the events of a sealed run and its summary disagree about; "" if nothing."""
    has_ended = False
    for event in events:
        if why := contradicted(event, summary):
            return why
        has_ended = has_ended or event.type == "run.completed"
    return "" if has_ended else NOT_ENDED


def receipt_fault(raw: bytes, document: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """What is wrong with receipt.json; "" if nothing. Signatures are not checked.

    `document` is the summary as it is stored, without `digests`; `files` the digests without the receipt's own.
    """
    try:
        return receipt.contradiction(receipt.parse(raw).receipt, document, files)
    except (ValueError, RecursionError) as error:
        return f"it is not a receipt: {str(error).partition(chr(10))[0]}"
    except (KeyError, TypeError):
        return "its receipt vouches for another summary"


def sessions_document(completed: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """sessions.json from pairs of node and session id, in the order of the turns."""
    nodes: dict[str, list[str]] = {}
    for node_id, session_id in completed:
        if session_id:
            nodes.setdefault(node_id, []).append(session_id)
    return {"schema": 1, "nodes": nodes}
