"""The view of a run, read from its bundle."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.document import read, read_text_of
from vibe_gate.domain.event import Graph, Node
from vibe_gate.errors import StorageError
from vibe_gate.report.html.authors import WhoWrote
from vibe_gate.report.html.view import (
    MAX_FILES,
    CallView,
    EventHead,
    FileView,
    HunkLines,
    NodeTime,
    TurnView,
    View,
)
from vibe_gate.report.round_record import RoundRecord
from vibe_gate.report.text_graph import graph_of
from vibe_gate.report.turns import KINDS, model_of, sum_tokens, turn_tokens
from vibe_gate.report.waits import find_waits
from vibe_gate.store.changed_files import FileChange
from vibe_gate.store.run_result import RunResult

if TYPE_CHECKING:
    from vibe_gate.store.bundle_events import CapturedCall, TimelineEvent
    from vibe_gate.store.changed_files import StoredContent


MAX_CONTENTS = 50_000_000
"""Bytes of files and events that a page holds, before they are compressed; a browser takes so
much.
"""

MAX_EVENTS = 100_000
"""Events of all logs that a page shows; the bundle has the others."""

MAX_CHAINS = 20
"""Chains of gates that looked again; what two have in common stands in both."""

_UNTOLD = frozenset({"artifact.written", "log.mark"})
"""Events of a run that say nothing beyond the files that are shown."""

STATES = {
    "denied": "refused",
    "missing-post": "unfinished",
    "orphan-post": "unfinished",
    "in-progress": "running",
}
"""The page's words for how a tool call ended, if the store has another."""


class _PackedContents:
    """Contents by id, compressed, each once."""

    def __init__(self) -> None:
        self.packed: dict[str, str] = {}
        self.omitted = 0
        self._size = 0

    def put(self, name: str, data: bytes) -> bool:
        """Keep it; False if there is no room for it."""
        if name in self.packed:
            return True
        if self._size + len(data) > MAX_CONTENTS:
            self.omitted += 1
            return False
        self._size += len(data)
        self.packed[name] = base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()
        return True

    def put_content(self, content: StoredContent | None) -> tuple[str | None, str]:
        """The id of one side's text, and why there is none."""
        if content is None:
            return None, ""
        if not content.has_bytes:
            return None, f"The bundle has only the hash of this file ({content.size:,} bytes)."
        if content.sha256 in self.packed or self.put(content.sha256, content.text().encode()):
            return content.sha256, ""
        return None, "Left out of this page, which would be too large; the bundle has it."


class _ShownEvents(Struct):
    """The events of a run that a page shows."""

    run: list[tuple[TimelineEvent, Mapping[str, Any]]]
    """The run's own, with their contents."""
    by_turn: Mapping[str, list[TimelineEvent]]
    """Those of agents and hooks, by the folder of the turn."""
    omitted: int
    """Events beyond MAX_EVENTS."""

    def ends_of_turns(self) -> dict[str, tuple[int, str]]:
        """When each turn ended, and its status, by its folder."""
        ends = {}
        for event, contents in self.run:
            data = contents.get("data")
            if event.type == "turn.completed" and isinstance(data, dict):
                folder = f"nodes/{event.node_id}/{data.get('turn')}"
                ends[folder] = (event.ts, read_text_of(data, "status"))
        return ends


async def _read_events(result: RunResult) -> _ShownEvents:
    """The first MAX_EVENTS that say something."""
    run_events: list[tuple[TimelineEvent, Mapping[str, Any]]] = []
    by_turn: dict[str, list[TimelineEvent]] = defaultdict(list)
    count = 0
    async for event in result.timeline.events():
        if event.type in _UNTOLD:
            continue
        count += 1
        if count > MAX_EVENTS:
            continue
        if event.source == "run" or not event.turn:
            run_events.append((event, event.load()))
        else:
            by_turn[event.turn].append(event)
    return _ShownEvents(run_events, by_turn, count - MAX_EVENTS)


async def read_view(result: RunResult, who_wrote: WhoWrote, *, conversations: bool) -> View:
    """The run of a bundle, with or without what was said in it. StorageError and IntegrityError as
    of `RunResult`.
    """
    contents = _PackedContents()
    summary = None
    if result.complete:
        summary = result.summary
    graph = graph_of(result, summary)
    changed_files = result.files.changed()
    files = []
    for file in changed_files[:MAX_FILES]:
        files.append(_file_view(file, contents))
    events = await _read_events(result)
    turns = _turn_views(result, graph, events, contents)
    if not conversations:
        turns = [_without_words(turn, contents) for turn in turns]
    gates = _gate_records(events.run)
    omissions = _omissions(
        {
            "changed files": len(changed_files) - len(files),
            "events": events.omitted,
            "contents": contents.omitted,
        }
    )
    if not conversations:
        omissions.append("what was said to agents and judges, because it has prompts")
    return View(
        summary=summary,
        state=result.state,
        about=result.run_document,
        graph=graph,
        times=_node_times(events.run),
        files=files,
        turns=turns,
        events=[_event_head(event, data) for event, data in events.run],
        annotations=result.annotations(),
        contents=contents.packed,
        left_out=tuple(omissions),
        gates=gates,
        rounds=tuple(islice(chains_of_gates(gates), MAX_CHAINS)),
        authors=who_wrote(_added_lines(files)),
        record=result.session_record,
    )


def _omissions(counts: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {name}" for name, count in counts.items() if count > 0]


def _added_lines(files: Iterable[FileView]) -> dict[str, list[int]]:
    """The lines that the change added, by path, of the files that have some."""
    lines_by_path = {}
    for file in files:
        lines: list[int] = []
        for hunk in file.hunks:
            lines += range(hunk.after, hunk.after + hunk.added)
        if lines:
            lines_by_path[file.path] = lines
    return lines_by_path


def _turn_views(
    result: RunResult, graph: Graph, events: _ShownEvents, contents: _PackedContents
) -> list[TurnView]:
    nodes = {node.id: node for node in graph.nodes}
    ends = events.ends_of_turns()
    turns = []
    for turn in result.turns():
        folder = turn.bundle_dir.relative_to(result.bundle_dir).as_posix()
        node_id = folder.split("/")[1]
        node = nodes.get(node_id) or Node(id=node_id, kind="")
        turn_events = events.by_turn.get(folder, [])
        turns.append(_turn_view(turn, folder, node, turn_events, ends.get(folder), contents))
    return turns


def _gate_records(
    events: Iterable[tuple[TimelineEvent, Mapping[str, Any]]],
) -> dict[str, RoundRecord]:
    """What became of findings at each gate, by node; "after" one that came later is after none."""
    records: dict[str, RoundRecord] = {}
    for event, contents in events:
        if event.type != "gate.decided":
            continue
        with suppress(ValueError):
            record = read(RoundRecord, contents.get("data"))
            if record.after not in records:
                record = replace(record, after="")
            records[event.node_id] = record
    return records


def chains_of_gates(gates: Mapping[str, RoundRecord]) -> Iterator[dict[str, RoundRecord]]:
    """The gates that looked at the same again, in the order in which they did; a gate that did so
    alone is none.
    """
    followed = {record.after for record in gates.values()}
    for name in gates:
        if name in followed:
            continue
        chain = {name: gates[name]}
        earlier = gates[name].after
        while earlier and earlier not in chain:
            chain[earlier] = gates[earlier]
            earlier = gates[earlier].after
        if len(chain) > 1:
            yield dict(reversed(chain.items()))


def _node_times(
    events: Iterable[tuple[TimelineEvent, Mapping[str, Any]]],
) -> dict[str, NodeTime]:
    """The nodes' times, by the run's own events. One that never ended lasts until its last
    event.
    """
    added: dict[str, int] = {}
    times: dict[str, NodeTime] = {}
    for event, contents in events:
        data = contents.get("data")
        status = ""
        if isinstance(data, dict) and event.type == "node.status":
            status = read_text_of(data, "status")
        name = event.node_id
        is_work = event.type in _WORK
        if event.type == "node.added":
            added[name] = event.ts
        elif event.type == "edge.added" and isinstance(data, dict):
            # A stage that was planned waits from when what it needs has ended.
            added[read_text_of(data, "to")] = event.ts
        elif name in times and (status or is_work):
            end = max(times[name].end, event.ts)
            times[name] = replace(times[name], end=end)
        elif status == "RUNNING" or is_work:
            added_at = min(added.get(name, event.ts), event.ts)
            times[name] = NodeTime(added_at, event.ts, event.ts)
    return times


_WORK = frozenset({"turn.started", "turn.completed"})
"""Events without which a node's agents did nothing."""


def _file_view(file: FileChange, contents: _PackedContents) -> FileView:
    patch: Mapping[str, Any] = {"added": 0, "deleted": 0, "binary": False, "hunks": []}
    patch_error = ""
    try:
        patch = file.patch("json")
    except StorageError as error:
        patch_error = str(error)
    if patch["binary"]:
        before = after = None
        reason = "A binary file."
    else:
        before, before_reason = contents.put_content(file.before)
        after, after_reason = contents.put_content(file.after)
        reason = before_reason or after_reason
    hunks: list[HunkLines] = []
    for hunk in patch["hunks"]:
        hunks += _changed_lines(hunk)
    return FileView(
        path=file.path,
        old_path=file.old_path,
        type=file.change_type,
        added=patch["added"],
        deleted=patch["deleted"],
        binary=patch["binary"],
        before=before,
        after=after,
        why=" ".join(filter(None, (_new_mode(file), patch_error or reason))),
        hunks=hunks,
    )


def _changed_lines(hunk: Mapping[str, Any]) -> Iterator[HunkLines]:
    """The changed lines of a hunk, without the context around and between them."""
    before = hunk["old_start"] + (not hunk["old_lines"])
    after = hunk["new_start"] + (not hunk["new_lines"])
    for is_context, lines in groupby(hunk["lines"], key=lambda line: line["origin"] == " "):
        origins = Counter(line["origin"] for line in lines)
        deleted, added = origins["-"], origins["+"]
        if not is_context:
            yield HunkLines(before - (not deleted), deleted, after - (not added), added)
        before += deleted + origins[" "]
        after += added + origins[" "]


def _turn_view(
    turn: RunResult,
    folder: str,
    node: Node,
    events: list[TimelineEvent],
    turn_end: tuple[int, str] | None,
    contents: _PackedContents,
) -> TurnView:
    """`turn_end`: when it ended, and its status; None if it did not."""
    session_events: list[dict[str, Any]] = []
    rows: list[list[object]] = []
    heads: list[EventHead] = []
    dated_contents: list[tuple[int, dict[str, Any]]] = []
    for event in events:
        data = event.load()
        if event.source == "sdk":
            session_events.append(data)
        rows.append([event.source, event.seq, data])
        heads.append(_event_head(event, data))
        dated_contents.append((event.ts, data))
    tokens = dict.fromkeys(KINDS, 0) | turn_tokens(session_events)
    contents.put(folder, json.dumps(rows, separators=(",", ":")).encode())
    end, status = turn_end or (None, turn.state)
    return TurnView(
        id=folder,
        node=node.id,
        kind=node.kind,
        agent=node.agent,
        model=model_of(session_events),
        status=status,
        started=events[0].ts if events else 0,
        ended=end,
        usd=turn.metrics.total_cost_usd,
        input_tokens=tokens["input"],
        output_tokens=tokens["output"],
        cache_read_tokens=min(tokens["cache_read"], tokens["input"]),
        heads=heads,
        calls=[_call_view(call) for call in turn.tools.all()],
        todos=[{"text": todo.text, "status": todo.status} for todo in turn.todos],
        files=[_file_view(file, contents) for file in turn.files.changed()[:MAX_FILES]],
        waits=find_waits(dated_contents),
    )


def _call_view(call: CapturedCall) -> CallView:
    return CallView(
        name=call.name,
        state=STATES.get(call.state, call.state),
        start=call.started_at,
        end=call.ended_at,
        use=call.tool_use_id,
        agent=call.agent_id,
        pre=call.hook_ref.pre,
        post=call.hook_ref.post,
    )


def _event_head(event: TimelineEvent, contents: Mapping[str, Any]) -> EventHead:
    return EventHead(
        log=event.source,
        number=event.seq,
        at=event.ts,
        type=event.type,
        tool=event.tool,
        use=event.tool_use_id,
        role=event.node_id if event.source == "run" else event.role,
        text=_event_text(event, contents)[:MAX_HEAD],
    )


MAX_HEAD = 200
"""Characters of an event's text in a list."""


def _event_text(event: TimelineEvent, contents: Mapping[str, Any]) -> str:
    """What the event says in a few words."""
    data = contents.get("data")
    if event.source == "run" and isinstance(data, dict):
        return _joined_texts(data, "kind", "turn", "status", "outcome", "reason")
    if event.type == "usage":
        tokens = dict.fromkeys(KINDS, 0) | sum_tokens([contents])
        return f"{tokens['input']:,} in, {tokens['output']:,} out"
    if event.type == "system":
        return read_text_of(contents, "subtype")
    if event.type == "todo":
        return _joined_texts(contents, "status", "text")
    return event.text


def _joined_texts(data: Mapping[str, Any], *names: str) -> str:
    return " ".join(filter(None, (read_text_of(data, name) for name in names)))


_MODES = re.compile(r"^old mode (\d+)\nnew mode (\d+)$", re.MULTILINE)


def _new_mode(file: FileChange) -> str:
    """A sentence if the file's mode changed; it stands above the first hunk."""
    with suppress(StorageError):
        if modes := _MODES.search(file.patch().partition("\n@@ ")[0]):
            return f"Its mode changed from {modes[1]} to {modes[2]}."
    return ""


def _without_words(turn: TurnView, contents: _PackedContents) -> TurnView:
    """The turn, with its calls, files and figures, and nothing of what was said in it."""
    contents.packed.pop(turn.id, None)
    return replace(turn, heads=[], todos=[])
