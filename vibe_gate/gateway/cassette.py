"""Cassettes: recorded answers as readable files.

A cassette is a directory with one JSON file for each exchange, `<digest>-<n>.json`: the
first 16 digits of the request's digest, and the number of this answer among those to
the same request. A file is

    {"schema": 1, "digest": sha-256 of the normal form, "number": n, "node": node id,
     "request": the normal form (see `normal`), redacted, for people and for differences,
     "response": {"status": 200, "events": [...]} or {"status": 429, "body": {...}, "retry_after": "..."}}

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
from typing import Any

from vibe_gate.errors import GatewayError
from vibe_gate.gateway.normal import Json, digest, mapped, replace

SCHEMA = 1
LONGEST_MEMBER = 500
"""Characters of a value up to which its name may tell that it is a secret."""
MAX_FILE = 100_000_000
"""Bytes of one exchange: far beyond what a model's context holds."""
SHOWN_DIFFERENCE = 60
"""Lines of a difference to the nearest recorded request: one screen."""

_KIND_OF_ID = re.compile(r"[a-z]{1,10}(?=_)")
"""`toolu` of `toolu_01A...`; what a model calls otherwise is not kept."""

_JOINED = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


class Cassette:
    """The exchanges of one directory; thread-safe."""

    def __init__(self, directory: Path, redact: Callable[[str], str]) -> None:
        self._directory = directory
        self._redact = redact
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._exchanges: dict[str, list[Json]] = {}

    def load(self) -> None:
        """Read every exchange. GatewayError where the directory or a file cannot be used."""
        if not self._directory.is_dir():
            raise GatewayError(f"There is no cassette at {self._directory}; record one with --wire record.")
        for path in sorted(self._directory.glob("*.json")):
            exchange = _read(path)
            self._exchanges.setdefault(exchange["digest"], []).append(exchange)
        for exchanges in self._exchanges.values():
            exchanges.sort(key=lambda exchange: int(exchange["number"]))

    def next(self, request: Json, placeholders: Mapping[str, str]) -> Json | None:
        """The next recorded response to this request with literals put back, or None."""
        key = digest(request)
        with self._lock:
            number = self._numbers.get(key, 0)
            recorded = self._exchanges.get(key, [])
            if number >= len(recorded):
                return None
            self._numbers[key] = number + 1
        return _restored(recorded[number]["response"], placeholders)

    def write(self, node_id: str, request: Json, response: Json, placeholders: Mapping[str, str]) -> None:
        """Keep one exchange. GatewayError if it cannot be written."""
        key = digest(request)
        with self._lock:
            number = self._numbers[key] = self._numbers.get(key, 0) + 1
        kept = {"request": request, "response": replace(_with_own_ids(response, key, number), placeholders)}
        exchange = {"schema": SCHEMA, "digest": key, "number": number, "node": node_id}
        text = json.dumps(exchange | _redacted(kept, self._redact), indent=1, sort_keys=True, ensure_ascii=False)
        path = self._directory / f"{key[:16]}-{number}.json"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            partial.write_bytes(text.encode("utf-8", "replace") + b"\n")
            partial.replace(path)
        except OSError as error:
            raise GatewayError(f"The cassette {self._directory} cannot be written: {error.strerror}.") from error

    def difference(self, request: Json) -> str:
        """Why this request has no answer: how it differs from the nearest recorded one."""
        key = digest(request)
        if key in self._exchanges:
            return f"recorded {len(self._exchanges[key])} times, asked once more"
        asked = _lines(mapped(request, self._redact))
        nearest = max(
            (_lines(exchanges[0]["request"]) for exchanges in self._exchanges.values()),
            key=lambda lines: difflib.SequenceMatcher(None, lines, asked, autojunk=False).quick_ratio(),
            default=None,
        )
        if nearest is None:
            return "the cassette is empty"
        lines = list(difflib.unified_diff(nearest, asked, "recorded", "asked", n=1, lineterm=""))
        more = len(lines) - SHOWN_DIFFERENCE
        return "\n".join(lines[:SHOWN_DIFFERENCE] + ([f"... and {more} more lines"] if more > 0 else []))


def joined(events: list[Json]) -> list[Json]:
    """The events of a stream with the deltas of each block joined, without pings and signatures."""
    result: list[Json] = []
    places: dict[
        tuple[str, object], int
    ] = {}  # where the pieces of a block's kind are gathered; others may come in between
    for event in events:
        delta = event.get("delta")
        kind = delta.get("type") if isinstance(delta, dict) else None
        if event.get("type") == "ping" or kind == "signature_delta":
            continue
        block = (str(event.get("index")), kind)
        if kind in _JOINED and block in places:
            field = _JOINED[str(kind)]
            first = result[places[block]]
            whole = first["delta"][field] + event["delta"][field]
            result[places[block]] = {**first, "delta": {**first["delta"], field: whole}}
            continue
        if kind in _JOINED:
            places[block] = len(result)
        elif event.get("type") in ("content_block_start", "content_block_stop"):
            places = {other: place for other, place in places.items() if other[0] != block[0]}
        result.append(event)
    return result


def _read(path: Path) -> Json:
    if not path.is_file() or path.is_symlink() or path.stat().st_size > MAX_FILE:  # a FIFO or a device never ends
        raise GatewayError(f"The cassette's file {path.name} is not an ordinary file of at most {MAX_FILE:,} bytes.")
    try:
        exchange = json.loads(path.read_bytes(), parse_constant=_refuse)
    except (OSError, ValueError, RecursionError) as error:
        raise GatewayError(f"The cassette's file {path.name} cannot be read: {error}.") from error
    if not isinstance(exchange, dict) or exchange.get("schema") != SCHEMA:
        raise GatewayError(f"The cassette's file {path.name} is not of schema {SCHEMA}; record it again.")
    status = exchange["response"].get("status") if isinstance(exchange.get("response"), dict) else None
    numbered = isinstance(exchange.get("digest"), str) and isinstance(exchange.get("number"), int)
    if not numbered or not isinstance(status, int) or not 100 <= status <= 599:
        raise GatewayError(f"The cassette's file {path.name} is not whole; record it again.")
    return exchange


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _restored(response: Json, placeholders: Mapping[str, str]) -> Json:
    """The response with literals in place of what stands for them; inside JSON text, as JSON escapes them."""
    literals = {name: literal for literal, name in placeholders.items()}
    escaped = {name: json.dumps(literal)[1:-1] for name, literal in literals.items()}

    def restore(value: Any, key: str = "") -> Any:  # noqa: ANN401 any JSON
        if isinstance(value, dict):
            return {name: restore(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [restore(item) for item in value]
        return replace(value, escaped if key == "partial_json" else literals)

    restored: Json = restore(response)
    return restored


def _redacted(value: Any, redact: Callable[[str], str], field: str = "") -> Any:  # noqa: ANN401 any JSON
    """Every string redacted, short ones with the name that makes them secret; JSON in a string stays JSON."""
    if isinstance(value, dict):
        return {redact(name): _redacted(item, redact, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_redacted(item, redact) for item in value]
    if field == "partial_json":
        with contextlib.suppress(ValueError):
            return json.dumps(_redacted(json.loads(value), redact), ensure_ascii=False)
    return _redacted_text(value, redact, field) if isinstance(value, str) else value


def _redacted_text(value: str, redact: Callable[[str], str], field: str) -> str:
    if field and len(value) <= LONGEST_MEMBER:
        head, tail = f'"{field}": "', '"'
        told = redact(head + value + tail)
        if told.startswith(head) and told.endswith(tail):
            value = told[len(head) : -len(tail)]
    return redact(value)


def _with_own_ids(response: Json, key: str, number: int) -> Json:
    """Ids that follow from the request, so that recording again changes nothing that did not change."""
    ids: dict[str, str] = {}

    def rename(value: Any, field: str = "") -> Any:  # noqa: ANN401 any JSON
        if isinstance(value, dict):
            return {name: rename(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [rename(item) for item in value]
        if field == "id" and isinstance(value, str):
            kind = found[0] if (found := _KIND_OF_ID.match(value)) else "id"
            return ids.setdefault(value, f"{kind}_{key[:12]}_{number}_{len(ids) + 1}")
        return "" if field == "signature" else value

    renamed: Json = rename(response)
    return renamed


def _lines(request: Json) -> list[str]:
    """The request for people: its texts as lines, not as escaped strings."""
    text = json.dumps(request, indent=1, sort_keys=True, ensure_ascii=False)
    return text.replace("\\n", "\n").splitlines()
