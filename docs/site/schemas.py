"""The JSON Schemas of a bundle's files, made of the types that write and read them.

python docs/site/schemas.py            print which files of docs/reference/schemas/ differ from the types; exit code 1 if
                                       one does
python docs/site/schemas.py --write    write them
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import reference
from msgspec import Struct

from vibe_gate.domain import bundle_files, receipt
from vibe_gate.domain.document import schema_of
from vibe_gate.domain.event import Event
from vibe_gate.domain.session_record import CapturedRecord
from vibe_gate.sessions import SessionMeta
from vibe_gate.store.captures import CaptureMeta
from vibe_gate.store.stored_writes import WriteLine
from vibe_gate.store.turn_summary import TurnSummary

FOLDER = Path(__file__).resolve().parents[1] / "reference" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

SCHEMAS: dict[str, tuple[type[Struct], str]] = {
    "run": (bundle_files.RunDocument, "run.json"),
    "run-event": (Event, "a line of events.ndjson"),
    "graph": (bundle_files.GraphDocument, "graph.json"),
    "sessions": (bundle_files.SessionsDocument, "sessions.json"),
    "summary": (bundle_files.SealedSummary, "summary.json"),
    "receipt": (receipt.Envelope, "receipt.json"),
    "receipt-statement": (receipt.Statement, "the payload of receipt.json"),
    "record": (CapturedRecord, "record.json"),
    "annotation": (bundle_files.AnnotationLine, "a line of annotations.ndjson"),
    "turn-event": (bundle_files.TurnEvent, "a line of a turn's events.ndjson"),
    "turn-hook": (bundle_files.HookEvent, "a line of a turn's hooks.ndjson"),
    "turn-summary": (TurnSummary, "a turn's summary.json"),
    "capture-meta": (CaptureMeta, "meta.json of a captured session"),
    "capture-event": (
        bundle_files.CapturedEventLine,
        "a line of a captured session's events.jsonl",
    ),
    "capture-write": (WriteLine, "a line of a captured session's writes.jsonl"),
    "session-meta": (SessionMeta, "meta.json of a session"),
    "session-message": (bundle_files.MessageLine, "a line of a session's messages.jsonl"),
}
"""By the name of the schema: the type, and which file it is of."""


def main(argv: list[str]) -> int:
    """Compare the files with the types, or write them. 1: a file differs."""
    texts = {f"{name}.schema.json": render_schema(name) for name in SCHEMAS}
    FOLDER.mkdir(exist_ok=True)
    differing_names = []
    for path in FOLDER.glob("*.json"):
        if path.name not in texts:
            differing_names.append(path.name)
    for name, text in texts.items():
        path = FOLDER / name
        if path.exists() and path.read_text() == text:
            continue
        differing_names.append(name)
        if argv == ["--write"]:
            path.write_text(text)
    if not differing_names or argv == ["--write"]:
        return 0
    print(f"differ from the types: {', '.join(sorted(differing_names))}")
    print("Write them anew: python docs/site/schemas.py --write")
    return 1


def render_schema(name: str) -> str:
    """The schema as JSON text."""
    kind, file = SCHEMAS[name]
    schema = schema_of(kind)
    if kind is Event:
        _add_event_data(schema)
    _describe_members(kind.__name__, schema)
    for title, definition in schema.get("$defs", {}).items():
        _describe_members(title, definition)
    head = {"$schema": DIALECT, "$id": f"urn:vibe-gate:schema:{name}:1", "title": file}
    return json.dumps(head | {**schema, "title": file}, indent=1) + "\n"


def _describe_members(title: str, schema: dict[str, Any]) -> None:
    """Add what stands below the fields of the class."""
    meanings = reference.field_meanings().get(title, {})
    for name, member in schema.get("properties", {}).items():
        field_name = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
        if field_name in meanings and isinstance(member, dict):
            member.setdefault("description", meanings[field_name])


def _add_event_data(schema: dict[str, Any]) -> None:
    """Say what `data` holds, by the event's type."""
    rules = []
    for event_type, kind in bundle_files.EVENT_DATA.items():
        data_schema = schema_of(kind)
        schema.setdefault("$defs", {}).update(data_schema.pop("$defs", {}))
        schema["$defs"][kind.__name__] = data_schema
        rules.append(
            {
                "if": {"properties": {"type": {"const": event_type}}},
                "then": {"properties": {"data": {"$ref": f"#/$defs/{kind.__name__}"}}},
            }
        )
    schema["allOf"] = rules


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
