"""Cassettes: recorded answers as readable files.

A cassette is a directory with one JSON file for each exchange, `<digest>-<n>.json`: the
first 16 digits of the request's digest, and the number of this answer among those to
the same request. A file is

    {"schema": 1, "digest": sha-256 of the normal form (see `normal.digest`), "number": n, "node":
    node id,
     "request": the normal form (see `normal`), redacted, for people and for differences,
     "response": {"status": 200, "events": [...]} or {"status": 400, "body": {...}}}

with sorted keys, indented, so that it reads and differs well. Events are those of the
stream with the deltas of a block joined: a secret cannot hide by being cut in two, and
the chunks of one day do not matter on another. Ids are made from the digest, signatures
of thinking are left out, strings are redacted; headers are not kept at all.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.document import parse_object, plain, read
from vibe_gate.domain.escape import list_names, safe
from vibe_gate.domain.model_wire import SETUP_DIFFERENCE, Wire
from vibe_gate.errors import GatewayError
from vibe_gate.gateway.normal_request import (
    Json,
    digest_request,
    fill_template,
    loose_results,
    map_texts,
)

SCHEMA = 1
LONGEST_MEMBER = 500
"""Characters of a value up to which its name may tell that it is a secret."""
SHOWN_DIFFERENCE = 60
"""Lines of a difference to the nearest recorded request: one screen."""

_SHOWN_PARTS = 3

_KIND_OF_ID = re.compile(r"[a-z]{1,10}(?=_)")
"""`toolu` of `toolu_01A...`; what a model calls otherwise is not kept."""

_JOINED = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


class RecordedResponse(Struct, frozen=True, kw_only=True):
    """A recorded answer: `events` of a stream, or the `body` of one that came in one piece."""

    status: Annotated[
        int, Meta(ge=200, le=599)
    ]  # after a lower one the agent's program waits for another
    events: tuple[Json, ...] | None = None
    body: Any = None


_FILE_NAME = re.compile(r"[0-9a-f]{16}-[1-9][0-9]*\.(?:json|partial)")
"""Of one exchange, and of one that is being written."""


def is_recorded_by(wire: Wire, path: Path) -> bool:
    """Whether a file of this absolute path, without symbolic links, is one that recording with this
    wire writes.
    """
    if wire.mode != "record" or wire.cassette is None or not _FILE_NAME.fullmatch(path.name):
        return False
    if path.parent == wire.cassette.resolve():
        return True
    return wire.recordings is not None and path.is_relative_to(wire.recordings.resolve())


class RecordedExchange(Struct, frozen=True, kw_only=True):
    """One file."""

    schema: Literal[1]
    digest: str
    number: int
    node: str = ""
    request: Json
    response: RecordedResponse


class Cassette:
    """The exchanges of one directory; thread-safe."""

    def __init__(self, directory: Path, redact: Callable[[str], str]) -> None:
        self._directory = directory
        self._redact = redact
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._exchanges: dict[str, list[RecordedExchange]] = {}
        self.notes: list[str] = []
        """Where a command, a page or a server said something else than in the recording, which is
        no reason to fail.
        """

    def load(self) -> None:
        """Read every exchange. GatewayError if the directory or a file cannot be used."""
        if not self._directory.is_dir():
            raise GatewayError(
                f"There is no cassette at {self._directory}; record one with --wire record."
            )
        for path in sorted(self._directory.glob("*.json")):
            exchange = _read(path)
            self._exchanges.setdefault(exchange.digest, []).append(exchange)
        for exchanges in self._exchanges.values():
            exchanges.sort(key=lambda exchange: exchange.number)

    def next(self, request: Json, placeholders: Mapping[str, str]) -> RecordedResponse | None:
        """The next recorded response to this request with literals put back, or None."""
        key = digest_request(request)
        with self._lock:
            number = self._numbers.get(key, 0)
            recorded = self._exchanges.get(key, [])
            if number >= len(recorded):
                return None
            self._numbers[key] = number + 1
        self._compare(recorded[number], request)
        return _restored(recorded[number].response, placeholders)

    def write(
        self, node_id: str, request: Json, response: Json, placeholders: Mapping[str, str]
    ) -> None:
        """Keep one exchange. GatewayError if it cannot be written."""
        key = digest_request(request)
        with self._lock:
            number = self._numbers[key] = self._numbers.get(key, 0) + 1
        fill = fill_template(placeholders)
        response = map_texts(_with_own_ids(response, key, number), lambda text, _: fill(text))
        content = {"request": request, "response": response}
        exchange = {"schema": SCHEMA, "digest": key, "number": number, "node": node_id}
        exchange |= map_texts(content, _redacted(self._redact))
        text = json.dumps(exchange, indent=1, sort_keys=True, ensure_ascii=False)
        self._write_file(f"{key[:16]}-{number}.json", text.encode("utf-8", "replace") + b"\n")

    def _write_file(self, name: str, content: bytes) -> None:
        """Write a file of the cassette whole. GatewayError."""
        path = self._directory / name
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            partial.write_bytes(content)
            partial.replace(path)
        except OSError as error:
            raise GatewayError(
                f"The cassette {self._directory} cannot be written: {error.strerror}."
            ) from error

    def _compare(self, recorded: RecordedExchange, request: Json) -> None:
        recorded_results = loose_results(recorded.request)
        results = loose_results(map_texts(request, _redacted(self._redact)))
        differing: list[str] = []
        for number, result in results.items():
            if result != recorded_results.get(number):
                differing.append(str(number))
        if differing:
            numbers = ", ".join(differing)
            self.notes.append(
                f"{recorded.node}: what call {numbers} gave differs from the recording"
            )

    def difference(self, request: Json) -> str:
        """Why this request has no answer: how it differs from the nearest recorded one."""
        key = digest_request(request)
        if key in self._exchanges:
            return f"recorded {len(self._exchanges[key])} times, asked once more"
        if not self._exchanges:
            return "the cassette is empty"
        request_lines = _lines(map_texts(request, lambda text, _: self._redact(text)))

        def likeness(recorded: Json) -> float:
            lines = _lines(recorded)
            matcher = difflib.SequenceMatcher(None, lines, request_lines, autojunk=False)
            return matcher.quick_ratio()

        recorded_requests = [rows[0].request for rows in self._exchanges.values()]
        nearest = max(recorded_requests, key=likeness)
        recorded_lines = _lines(nearest)
        diff = difflib.unified_diff(
            recorded_lines, request_lines, "recorded", "asked", n=1, lineterm=""
        )
        lines = list(diff)
        if not lines:
            return "it differs from the recorded one in what was redacted"
        hidden_count = len(lines) - SHOWN_DIFFERENCE
        if hidden_count > 0:
            lines = [*lines[:SHOWN_DIFFERENCE], f"... and {hidden_count} more lines"]
        setup_difference = _setup_difference(nearest, request)
        if setup_difference:
            lines.insert(0, setup_difference)
        return "\n".join(lines)


def join_path(events: list[Json]) -> list[Json]:
    """The events of a stream with the deltas of each block joined, without pings and signatures."""
    joined_events: list[Json] = []
    first_deltas: dict[tuple[str, str], Json] = {}
    """By block and kind; the others are added to it."""

    for event in events:
        delta = event.get("delta")
        kind = str(delta.get("type")) if isinstance(delta, dict) else ""
        if event.get("type") == "ping" or kind == "signature_delta":
            continue
        if kind not in _JOINED:
            joined_events.append(event)
            continue
        block = (str(event.get("index")), kind)
        field = _JOINED[kind]
        if block in first_deltas:
            first_deltas[block][field] += event["delta"][field]
        else:
            first_deltas[block] = dict(event["delta"])
            joined_events.append(event | {"delta": first_deltas[block]})
    return joined_events


def _read(path: Path) -> RecordedExchange:
    try:
        if path.is_symlink() or not path.is_file():  # a FIFO or a device never ends
            raise GatewayError(f"The cassette's file {safe(str(path))} is not an ordinary file.")
        return read(RecordedExchange, parse_object(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise GatewayError(
            f"The cassette's file {safe(str(path))} is not of schema {SCHEMA}; record it again."
        ) from error


def _restored(response: RecordedResponse, placeholders: Mapping[str, str]) -> RecordedResponse:
    """The response with literals in place of what stands for them; inside JSON text, as JSON
    escapes them.
    """
    literals: dict[str, str] = {}
    escaped_literals: dict[str, str] = {}
    for literal, name in placeholders.items():
        literals[name] = literal
        escaped_literals[name] = json.dumps(literal)[1:-1]
    fill = fill_template(literals)
    fill_escaped = fill_template(escaped_literals)

    def restore(text: str, field: str) -> str:
        if field == "partial_json":
            return fill_escaped(text)
        return fill(text)

    fields = {name: value for name, value in plain(response).items() if name != "status"}
    return replace(response, **map_texts(fields, restore))


def _redacted(redact: Callable[[str], str]) -> Callable[[str, str], str]:
    """Redaction of every string, short ones with the name that makes them secret; JSON in a string
    stays JSON.
    """

    def change(value: str, field: str) -> str:
        if field == "partial_json":
            with contextlib.suppress(ValueError):
                return json.dumps(map_texts(json.loads(value), change), ensure_ascii=False)
        if field and len(value) <= LONGEST_MEMBER:
            head, tail = f'"{field}": "', '"'
            member = redact(head + value + tail)
            if member.startswith(head) and member.endswith(tail):
                value = member[len(head) : -len(tail)]
        return redact(value)

    return change


def _with_own_ids(response: Json, key: str, number: int) -> Json:
    """Ids that follow from the request, so that recording again changes nothing that did not
    change.
    """
    ids: dict[str, str] = {}

    def rename(value: str, field: str) -> str:
        if field == "id":
            match = _KIND_OF_ID.match(value)
            kind = match[0] if match else "id"
            return ids.setdefault(value, f"{kind}_{key[:12]}_{number}_{len(ids) + 1}")
        if field == "signature":
            return ""
        return value

    renamed: Json = map_texts(response, rename)
    return renamed


def _setup_difference(recorded: Json, request: Json) -> str:
    """Which parts of the project's set-up differ; "" if none does. Digests would say nothing, and
    the texts that follow from them not which file to look at.
    """
    recorded_digests = recorded.get("setup") or {}
    digests = request.get("setup") or {}
    differences = []
    for path in sorted(recorded_digests.keys() | digests.keys()):
        if path not in digests:
            differences.append(f"{safe(path)} is gone")
        elif path not in recorded_digests:
            differences.append(f"{safe(path)} is new")
        elif digests[path] != recorded_digests[path]:
            differences.append(f"{safe(path)} changed")
    if not differences:
        return ""
    return SETUP_DIFFERENCE + list_names(differences, _SHOWN_PARTS)


def _lines(request: Json) -> list[str]:
    """The request for people: its texts as lines, not as escaped strings."""
    text = json.dumps(request, indent=1, sort_keys=True, ensure_ascii=False)
    return text.replace("\\n", "\n").splitlines()
