"""What a page shows of a run, read from its bundle alone."""

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

from msgspec import Struct, field
from msgspec.structs import replace

from vibe_gate.domain.document import read, text_of
from vibe_gate.domain.event import Graph, Node
from vibe_gate.domain.summary import ChangedFile, Summary
from vibe_gate.domain.verdict import ANSWER_TOOL
from vibe_gate.errors import StorageError
from vibe_gate.report import queries
from vibe_gate.report.html.authors import Authors, WhoWrote
from vibe_gate.report.round_record import RoundRecord
from vibe_gate.report.text_graph import graph_of
from vibe_gate.report.turns import KINDS, model_of, sum_tokens, turn_tokens
from vibe_gate.report.waits import Period, find_waits
from vibe_gate.store.changed_files import FileChange
from vibe_gate.store.run_result import RunResult

if TYPE_CHECKING:
    from vibe_gate.store.bundle_events import TimelineEvent
    from vibe_gate.store.changed_files import StoredContent
    from vibe_gate.store.run_result import Annotation

MAX_CONTENTS = 50_000_000
"""Bytes of files and events that a page holds, before they are compressed; a browser takes so
much.
"""

MAX_FILES, MAX_EVENTS = 5_000, 100_000
"""Changed files, and events of all logs, that a page shows; the bundle has the others."""

MAX_ROWS = 1_000
"""Findings, criteria of a rubric, and stages and models in a table of costs that a page shows one
by one.
"""

MOST_ROUNDS = 50
"""Gates of one chain that are shown, the last ones."""

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


class EventHead(Struct, frozen=True, array_like=True):
    """An event's line in a list; on the page an array in this order.

    `log` is run, sdk or hook; `number` counts in it; `at` is milliseconds since 1970; `use`: the id
    of the tool's use.
    """

    log: str
    number: int
    at: int
    type: str
    tool: str
    use: str
    role: str
    text: str


class HunkLines(Struct, frozen=True, array_like=True):
    """Changed lines: start and length before, start and length after; on the page an array in this
    order.

    If a side is empty, its start is the line before.
    """

    before: int
    deleted: int
    after: int
    added: int


class FileView(Struct, frozen=True):
    """A changed file: ids of its contents, or why there are none, and the hunks without context."""

    path: str
    old_path: str | None
    type: str
    added: int
    deleted: int
    binary: bool
    before: str | None
    after: str | None
    why: str
    hunks: list[HunkLines]


class CallView(Struct, frozen=True):
    """A tool call: `state` is completed, failed, refused, unfinished or running.

    Times are milliseconds since 1970; `pre` and `post` are the numbers of its hook events.
    """

    name: str
    state: str
    start: int
    end: int | None
    use: str
    agent: str
    pre: int | None
    post: int | None


class TurnView(Struct, frozen=True):
    """A turn of an agent or a judge; `id` is its folder in the bundle, and that of its whole events
    in `contents`.

    `waits`: from and to, in milliseconds since 1970, while the model's API could not be asked.
    """

    id: str
    node: str
    kind: str
    agent: str
    model: str
    status: str
    started: int
    ended: int | None
    usd: float | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    heads: list[EventHead]
    calls: list[CallView]
    todos: list[dict[str, str]]
    files: list[FileView]
    waits: list[Period] = []

    @property
    def answer(self) -> str:
        """The event with which a judge answered, as a link names it; "" without one."""
        answers = [
            head
            for head in self.heads
            if head.log == "sdk" and head.tool == ANSWER_TOOL and head.role == "assistant"
        ]
        return f"sdk-{answers[-1].number}" if answers else ""


class NodeTime(Struct, frozen=True):
    """When a node was added, began and ended; milliseconds since 1970."""

    added: int
    start: int
    end: int


class EarlierRound(Struct, frozen=True):
    """What became of what was said before this run, of the same change. `page`: of that run; "" if
    it is not there.
    """

    told: RoundRecord
    page: str = ""


class View(Struct, frozen=True):
    """A run. `summary` is None as long as there is no verdict; `contents` are gzip in base64, by
    id.

    `times`: of the nodes that began, by id. `gates`: what each found, by node; `rounds`: those that
    looked again, the last of each chain last; `earlier`: the round before this run.
    """

    summary: Summary | None
    state: str = "sealed"
    about: Mapping[str, Any] = {}
    graph: Graph = field(default_factory=Graph)
    times: Mapping[str, NodeTime] = {}
    files: list[FileView] = []
    turns: list[TurnView] = []
    events: list[EventHead] = []
    annotations: list[Annotation] = []
    contents: Mapping[str, str] = {}
    left_out: tuple[str, ...] = ()
    authors: Authors = Authors()
    gates: Mapping[str, RoundRecord] = {}
    rounds: tuple[Mapping[str, RoundRecord], ...] = ()
    earlier: EarlierRound | None = None


class _PackedContents:
    """Contents by id, compressed, each once."""

    def __init__(self) -> None:
        self.packed: dict[str, str] = {}
        self.left_out = 0
        self._size = 0

    def put(self, name: str, data: bytes) -> bool:
        """Keep it; False if there is no room for it."""
        if name not in self.packed:
            if self._size + len(data) > MAX_CONTENTS:
                self.left_out += 1
                return False
            self._size += len(data)
            self.packed[name] = base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()
        return True

    def side(self, content: StoredContent | None) -> tuple[str | None, str]:
        """The id of one side's text, and why there is none."""
        if content is None:
            return None, ""
        if not content.kept:
            return None, f"The bundle has only the hash of this file ({content.size:,} bytes)."
        if content.sha256 not in self.packed and not self.put(
            content.sha256, content.text().encode()
        ):
            return None, "Left out of this page, which would be too large; the bundle has it."
        return content.sha256, ""


def findings_on_page(summary: Summary) -> list[int]:
    """The indexes of the findings that the page shows: all, or of very many those of the gravest
    levels.
    """
    indexes = range(len(summary.findings))
    return sorted(
        sorted(indexes, key=lambda at: queries.GRAVITY[summary.findings[at].level])[:MAX_ROWS]
    )


def verdict_view(summary: Summary) -> View:
    """A verdict alone: its files are named, without contents."""
    why = "This page holds the verdict alone; the bundle has the contents."

    def named(file: ChangedFile) -> FileView:
        added, deleted = (0, 0) if file.binary else (file.added, file.deleted)
        return FileView(
            file.path,
            file.old_path,
            file.change_type,
            added,
            deleted,
            file.binary,
            None,
            None,
            why,
            [],
        )

    return View(summary, files=[named(file) for file in summary.change.files[:MAX_FILES]])


async def read_view(result: RunResult, who_wrote: WhoWrote, *, conversations: bool) -> View:
    """The run of a bundle, with or without what was said in it. StorageError and IntegrityError as
    of `RunResult`.
    """
    contents = _PackedContents()
    summary = result.summary if result.complete else None
    graph = graph_of(result, summary)
    files = result.files.changed()
    shown = [_file(file, contents) for file in files[:MAX_FILES]]
    by_turn: dict[str, list[TimelineEvent]] = defaultdict(list)
    number = 0
    async for event in result.timeline.events():
        if event.type not in _UNTOLD:
            number += 1
            if number <= MAX_EVENTS:
                by_turn["" if event.source == "run" else event.turn].append(event)
    own = [(event, event.load()) for event in by_turn.get("", [])]
    statuses = {
        f"nodes/{event.node_id}/{data.get('turn')}": (event.ts, text_of(data, "status"))
        for event, whole in own
        if event.type == "turn.completed" and isinstance(data := whole.get("data"), dict)
    }
    nodes = {node.id: node for node in graph.nodes}
    turns = []
    for turn in result.turns():
        place = turn.bundle_dir.relative_to(result.bundle_dir).as_posix()
        node = nodes.get(place.split("/")[1]) or Node(id=place.split("/")[1], kind="")
        turns.append(
            _turn(turn, place, node, by_turn.get(place, []), statuses.get(place), contents)
        )
    if not conversations:
        turns = [_without_words(turn, contents) for turn in turns]
    left_out = {
        "changed files": len(files) - len(shown),
        "events": number - MAX_EVENTS,
        "contents": contents.left_out,
    }
    gates = _gates(own)
    return View(
        summary=summary,
        state=result.state,
        about=result.about,
        graph=graph,
        times=_times(own),
        files=shown,
        turns=turns,
        events=[_head(event, whole) for event, whole in own],
        annotations=result.annotations(),
        contents=contents.packed,
        left_out=(
            *(f"{count:,} {what}" for what, count in left_out.items() if count > 0),
            *(
                ()
                if conversations
                else ("what was said to agents and judges, because it has prompts",)
            ),
        ),
        gates=gates,
        rounds=tuple(islice(chains_of_gates(gates), MAX_CHAINS)),
        authors=who_wrote({file.path: added for file in shown if (added := list(_added(file)))}),
    )


def _gates(own: Iterable[tuple[TimelineEvent, Mapping[str, Any]]]) -> dict[str, RoundRecord]:
    """What became of findings at each gate, by node; "after" one that came later is after none."""
    found: dict[str, RoundRecord] = {}
    for event, whole in own:
        if event.type == "gate.decided":
            with suppress(ValueError):
                told = read(RoundRecord, whole.get("data"))
                found[event.node_id] = told if told.after in found else replace(told, after="")
    return found


def gates_on_page(view: View) -> dict[str, RoundRecord]:
    """The gates whose rounds stand in the page."""
    return {
        name: told for chain in view.rounds for name, told in list(chain.items())[-MOST_ROUNDS:]
    }


def chains_of_gates(gates: Mapping[str, RoundRecord]) -> Iterator[dict[str, RoundRecord]]:
    """The gates that looked at the same again, in the order in which they did; a gate that did so
    alone is none.
    """
    followed = {told.after for told in gates.values()}
    for last in (name for name in gates if name not in followed):
        chain = {last: gates[last]}
        while (before := gates[last].after) and before not in chain:
            last = before
            chain[last] = gates[last]
        if len(chain) > 1:
            yield dict(reversed(chain.items()))


_WORK = frozenset({"turn.started", "turn.completed"})


def _times(own: Iterable[tuple[TimelineEvent, Mapping[str, Any]]]) -> dict[str, NodeTime]:
    """The nodes' times, by the run's own events. One that never ended lasts until its last
    event.
    """
    added: dict[str, int] = {}
    times: dict[str, NodeTime] = {}
    for event, whole in own:
        data = whole.get("data")
        status = (
            text_of(data, "status")
            if isinstance(data, dict) and event.type == "node.status"
            else ""
        )
        name = event.node_id
        if event.type == "node.added":
            added[name] = event.ts
        elif name in times and (status or event.type in _WORK):
            times[name] = replace(times[name], end=max(times[name].end, event.ts))
        elif status == "RUNNING" or event.type in _WORK:
            times[name] = NodeTime(min(added.get(name, event.ts), event.ts), event.ts, event.ts)
    return times


_MODES = re.compile(r"^old mode (\d+)\nnew mode (\d+)$", re.MULTILINE)


def _new_mode(file: FileChange) -> str:
    """A sentence if the file's mode changed; it stands above the first hunk."""
    with suppress(StorageError):
        if modes := _MODES.search(file.patch().partition("\n@@ ")[0]):
            return f"Its mode changed from {modes[1]} to {modes[2]}."
    return ""


def _file(file: FileChange, contents: _PackedContents) -> FileView:
    try:
        patch, no_patch = file.patch("json"), ""
    except StorageError as error:
        patch, no_patch = {"added": 0, "deleted": 0, "binary": False, "hunks": []}, str(error)
    (before, no_before), (after, no_after) = (
        (None, "A binary file.") if patch["binary"] else contents.side(side)
        for side in (file.before, file.after)
    )
    return FileView(
        path=file.path,
        old_path=file.old_path,
        type=file.change_type,
        added=patch["added"],
        deleted=patch["deleted"],
        binary=patch["binary"],
        before=before,
        after=after,
        why=" ".join(filter(None, (_new_mode(file), no_patch or no_before or no_after))),
        hunks=[span for hunk in patch["hunks"] for span in _changed(hunk)],
    )


def _added(file: FileView) -> Iterator[int]:
    for hunk in file.hunks:
        yield from range(hunk.after, hunk.after + hunk.added)


def _changed(hunk: Mapping[str, Any]) -> Iterator[HunkLines]:
    """The changed lines of a hunk, without the context around and between them."""
    old, new = (
        hunk["old_start"] + (not hunk["old_lines"]),
        hunk["new_start"] + (not hunk["new_lines"]),
    )
    for same, lines in groupby(hunk["lines"], key=lambda line: line["origin"] == " "):
        origins = Counter(line["origin"] for line in lines)
        deleted, added = origins["-"], origins["+"]
        if not same:
            yield HunkLines(old - (not deleted), deleted, new - (not added), added)
        old, new = old + deleted + origins[" "], new + added + origins[" "]


def _turn(
    turn: RunResult,
    place: str,
    node: Node,
    events: list[TimelineEvent],
    ended: tuple[int, str] | None,
    contents: _PackedContents,
) -> TurnView:
    whole = [(event, event.load()) for event in events]
    said = [data for event, data in whole if event.source == "sdk"]
    used = dict.fromkeys(KINDS, 0) | turn_tokens(said)
    packed = json.dumps(
        [[event.source, event.seq, data] for event, data in whole], separators=(",", ":")
    )
    contents.put(place, packed.encode())
    return TurnView(
        id=place,
        node=node.id,
        kind=node.kind,
        agent=node.agent,
        model=model_of(said),
        status=ended[1] if ended else turn.state,
        started=events[0].ts if events else 0,
        ended=ended[0] if ended else None,
        usd=turn.metrics.total_cost_usd,
        input_tokens=used["input"],
        output_tokens=used["output"],
        cache_read_tokens=min(used["cache_read"], used["input"]),
        heads=[_head(event, data) for event, data in whole],
        calls=[
            CallView(
                call.name,
                STATES.get(call.state, call.state),
                call.started_at,
                call.ended_at,
                call.tool_use_id,
                call.agent_id,
                call.hook_ref.pre,
                call.hook_ref.post,
            )
            for call in turn.tools.all()
        ],
        todos=[{"text": todo.text, "status": todo.status} for todo in turn.todos],
        files=[_file(file, contents) for file in turn.files.changed()[:MAX_FILES]],
        waits=find_waits((event.ts, data) for event, data in whole),
    )


def _without_words(turn: TurnView, contents: _PackedContents) -> TurnView:
    """The turn, with its calls, files and figures, and nothing of what was said in it."""
    contents.packed.pop(turn.id, None)
    return replace(turn, heads=[], todos=[])


def _head(event: TimelineEvent, whole: Mapping[str, Any]) -> EventHead:
    text = event.text
    if event.source == "run" and isinstance(data := whole.get("data"), dict):
        text = " ".join(
            filter(
                None,
                (text_of(data, name) for name in ("kind", "turn", "status", "outcome", "reason")),
            )
        )
    elif event.type == "usage":
        used = dict.fromkeys(KINDS, 0) | sum_tokens([whole])
        text = f"{used['input']:,} in, {used['output']:,} out"
    elif event.type == "system":
        text = text_of(whole, "subtype")
    elif event.type == "todo":
        text = " ".join(filter(None, (text_of(whole, "status"), text_of(whole, "text"))))
    return EventHead(
        event.source,
        event.seq,
        event.ts,
        event.type,
        event.tool,
        event.tool_use_id,
        event.role or event.node_id,
        text[:200],
    )
