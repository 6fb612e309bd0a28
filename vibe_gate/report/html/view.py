"""What a page shows of a run; `read_view` takes it from a bundle. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from vibe_gate.domain.event import Graph
from vibe_gate.domain.session_record import CapturedRecord
from vibe_gate.domain.summary import ChangedFile, Summary
from vibe_gate.domain.verdict import ANSWER_TOOL
from vibe_gate.report import queries
from vibe_gate.report.html.authors import Authors
from vibe_gate.report.round_record import RoundRecord
from vibe_gate.report.waits import Period

if TYPE_CHECKING:
    from vibe_gate.store.run_result import Annotation

MAX_FILES = 5_000
"""Changed files that a page shows; the bundle has the others."""

MAX_ROWS = 1_000
"""Findings, criteria of a rubric, and stages and models in a table of costs that a page shows one
by one.
"""

MOST_ROUNDS = 50
"""Gates of one chain that are shown, the last ones."""


class EventHead(Struct, frozen=True, array_like=True):
    """An event's line in a list; on the page an array in this order."""

    log: str
    """run, sdk or hook."""
    number: int
    """It counts in the log."""
    at: int
    """Milliseconds since 1970."""
    type: str
    tool: str
    use: str
    """The id of the tool's use."""
    role: str
    text: str


class HunkLines(Struct, frozen=True, array_like=True):
    """Changed lines; on the page an array in this order. If a side is empty, its start is the line
    before.
    """

    before: int
    """The first line before the change."""
    deleted: int
    """How many lines are gone."""
    after: int
    """The first line after the change."""
    added: int
    """How many lines are new."""


class FileView(Struct, frozen=True):
    """A changed file."""

    path: str
    old_path: str | None
    type: str
    added: int
    deleted: int
    binary: bool
    before: str | None
    """The id of its contents before; None if the page has none."""
    after: str | None
    """The id of its contents after; None if the page has none."""
    why: str
    """Why the page has no contents, and whether the mode changed."""
    hunks: list[HunkLines]
    """Without context."""


class CallView(Struct, frozen=True):
    """A tool call; times are milliseconds since 1970."""

    name: str
    state: str
    """completed, failed, refused, unfinished or running."""
    start: int
    end: int | None
    use: str
    agent: str
    pre: int | None
    """The number of the hook event before it."""
    post: int | None
    """The number of the hook event after it."""


class TurnView(Struct, frozen=True):
    """A turn of an agent or a judge; times are milliseconds since 1970."""

    id: str
    """Its folder in the bundle, and the id of its whole events in `View.contents`."""
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
    """While the model's API could not be asked."""

    @property
    def answer(self) -> str:
        """The event with which a judge answered, as a link names it; "" without one."""
        for head in reversed(self.heads):
            if head.log == "sdk" and head.tool == ANSWER_TOOL and head.role == "assistant":
                return f"sdk-{head.number}"
        return ""


class NodeTime(Struct, frozen=True):
    """When a node was added, began and ended; milliseconds since 1970."""

    added: int
    start: int
    end: int


class EarlierRound(Struct, frozen=True):
    """What became of what was said before this run, of the same change."""

    record: RoundRecord
    page: str = ""
    """Of the earlier run; "" if it is not there."""


class View(Struct, frozen=True):
    """A run."""

    summary: Summary | None
    """None as long as there is no verdict."""
    state: str = "sealed"
    about: Mapping[str, Any] = {}
    graph: Graph = field(default_factory=Graph)
    times: Mapping[str, NodeTime] = {}
    """Of the nodes that began, by id."""
    files: list[FileView] = []
    turns: list[TurnView] = []
    events: list[EventHead] = []
    annotations: list[Annotation] = []
    contents: Mapping[str, str] = {}
    """By id, gzip in base64."""
    left_out: tuple[str, ...] = ()
    authors: Authors = Authors()
    record: CapturedRecord | None = None
    """What captured sessions ran that wrote the change."""
    gates: Mapping[str, RoundRecord] = {}
    """What each gate found, by node."""
    rounds: tuple[Mapping[str, RoundRecord], ...] = ()
    """The gates that looked again, the last of each chain last."""
    earlier: EarlierRound | None = None
    """The round before this run."""


def findings_on_page(summary: Summary) -> list[int]:
    """The indexes of the findings that the page shows: all, or of very many those of the gravest
    levels.
    """

    def gravity(index: int) -> int:
        return queries.GRAVITY[summary.findings[index].level]

    ranked = sorted(range(len(summary.findings)), key=gravity)
    return sorted(ranked[:MAX_ROWS])


def verdict_view(summary: Summary) -> View:
    """A verdict alone: its files are named, without contents."""
    files = [_named_file(file) for file in summary.change.files[:MAX_FILES]]
    return View(summary, files=files)


def _named_file(file: ChangedFile) -> FileView:
    return FileView(
        path=file.path,
        old_path=file.old_path,
        type=file.change_type,
        added=0 if file.binary else file.added,
        deleted=0 if file.binary else file.deleted,
        binary=file.binary,
        before=None,
        after=None,
        why="This page holds the verdict alone; the bundle has the contents.",
        hunks=[],
    )


def gates_on_page(view: View) -> dict[str, RoundRecord]:
    """The gates whose rounds stand in the page."""
    gates: dict[str, RoundRecord] = {}
    for chain in view.rounds:
        gates.update(list(chain.items())[-MOST_ROUNDS:])
    return gates
