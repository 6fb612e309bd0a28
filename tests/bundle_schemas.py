"""The published JSON Schemas, and which of them a file below `.vibe-artifacts` is held to."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[1] / "docs/reference/schemas"
SUFFIX = ".schema.json"

_TURN = r"(?:.*/)?nodes/[^/]+/turn-\d+/"
SCHEMA_BY_FILE = {
    _TURN + r"summary\.json": "turn-summary",
    _TURN + r"events\.ndjson": "turn-event",
    _TURN + r"hooks\.ndjson": "turn-hook",
    r"(?:.*/)?captures/[^/]+/meta\.json": "capture-meta",
    r"(?:.*/)?captures/[^/]+/events\.jsonl": "capture-event",
    r"(?:.*/)?captures/[^/]+/writes\.jsonl": "capture-write",
    r"(?:.*/)?sessions/[^/]+/meta\.json": "session-meta",
    r"(?:.*/)?sessions/[^/]+/messages\.jsonl": "session-message",
    r"(?:.*/)?run\.json": "run",
    r"(?:.*/)?events\.ndjson": "run-event",
    r"(?:.*/)?graph\.json": "graph",
    r"(?:.*/)?sessions\.json": "sessions",
    r"(?:.*/)?summary\.json": "summary",
    r"(?:.*/)?receipt\.json": "receipt",
    r"(?:.*/)?record\.json": "record",
    r"(?:.*/)?annotations\.ndjson": "annotation",
}
"""By a pattern of the file's place; the first that matches is it."""

OPEN = frozenset({"turn-event", "turn-hook", "session-message"})
"""Whose members the agent's program chooses."""


def read_schema(name: str) -> dict[str, Any]:
    """A published schema."""
    return json.loads((FOLDER / f"{name}{SUFFIX}").read_text())


def find_problems(folder: Path, *, allow_unknown: bool = False) -> tuple[list[str], set[str]]:
    """What the schemas say against the files below a folder, and which schemas were asked.

    `allow_unknown`: members that no schema names are right, as in a bundle of another version.
    """
    problems: list[str] = []
    names: set[str] = set()
    for path in sorted(folder.rglob("*.json*")) + sorted(folder.rglob("*.ndjson")):
        name = _schema_of_file(path)
        if name is None:
            continue
        for used_name, document in _documents_in(path, name):
            names.add(used_name)
            is_open = allow_unknown or used_name in OPEN
            for problem in check_document(used_name, document, is_open=is_open):
                problems.append(f"{path.relative_to(folder)}: {problem}")
    return problems, names


def check_document(name: str, document: Any, *, is_open: bool = False) -> Iterator[str]:
    """What a schema says against a document."""
    schema = read_schema(name)
    if not is_open:
        schema = _closed(schema)
    for error in Draft202012Validator(schema).iter_errors(document):
        yield f"{error.json_path}: {error.message[:200]}"


def _schema_of_file(path: Path) -> str | None:
    place = str(path)
    for pattern, name in SCHEMA_BY_FILE.items():
        if re.fullmatch(pattern, place):
            return name
    return None


def _documents_in(path: Path, name: str) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        yield name, document
        if name == "receipt":
            yield "receipt-statement", json.loads(base64.b64decode(document["payload"]))
        return
    for line in path.read_text().splitlines():
        yield name, json.loads(line)


def _closed(schema: Any) -> Any:
    """The schema with no members but those that it names, wherever it names any."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and schema.get("properties"):
        closed.setdefault("additionalProperties", False)
    return closed
