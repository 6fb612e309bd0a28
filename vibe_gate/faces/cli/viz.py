"""`vibe-gate viz`: a run's graph, drawn from its stored events."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from vibe_gate.domain.escape import safe
from vibe_gate.domain.event import NODE_STATUSES, Graph
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.command import Command, argument
from vibe_gate.faces.cli.output import COLUMNS, emit, emit_result, is_terminal, takes_colour
from vibe_gate.faces.cli.runs import RUN_ARGUMENT, NamedRun, StoredRuns
from vibe_gate.report import text_graph as picture
from vibe_gate.report.outcome_words import OUTCOME_WORDS
from vibe_gate.store.run_result import RunResult

if TYPE_CHECKING:
    from rich.text import Text

    from vibe_gate.domain.summary import Summary

POLL_S = 0.3
"""Between two looks at a run that is being written."""

_STATE = re.compile(
    rf"\b(?:DONE (?:{'|'.join(OUTCOME_WORDS)})|{'|'.join(NODE_STATUSES)}|incomplete)\b"
)
"""A node's status, and how it came out."""


Layout = Literal["list", "dag"]
"""A line a node, or boxes."""


class VizArguments(Struct, frozen=True):
    """The arguments of `vibe-gate viz`."""

    reference: str | None
    """The run; None: the newest."""
    layout: Layout
    """How the graph is drawn."""
    watch: bool
    """Draw until the run ends."""
    as_json: bool


def _parse(args: argparse.Namespace) -> VizArguments:
    return VizArguments(args.run, args.layout, args.watch, args.json)


def _run(arguments: VizArguments) -> int:
    runs, named_run = StoredRuns().open_run(arguments.reference)
    result = runs.read(named_run)
    if arguments.watch and result.state == "running":
        result = _watched(runs, named_run, arguments)
    if arguments.as_json:
        return emit_result(_document(result, named_run), (), as_json=True)
    drawing = "\n".join(_lines(result, named_run, arguments.layout))
    if takes_colour():
        from vibe_gate.faces.cli.screen import coloured  # a pipe needs none

        drawing = coloured(_styled(drawing), COLUMNS)
    emit(drawing + "\n")
    return PASS


def _watched(runs: StoredRuns, named_run: NamedRun, arguments: VizArguments) -> RunResult:
    """Show the run until its writer is gone."""
    with _show_graphs(as_json=arguments.as_json) as show:
        while (result := runs.read(named_run)).state == "running":
            show(result.graph(), partial(_lines, result, named_run, arguments.layout))
            time.sleep(POLL_S)
    return result


@contextmanager
def _show_graphs(*, as_json: bool) -> Iterator[Callable[..., None]]:
    """On a terminal the drawing again and again in its place, else a line for each node that
    changes.
    """
    if as_json:
        yield lambda graph, lines: None
        return
    if not is_terminal():
        yield _print_changes()
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def draw(graph: Graph, lines: Callable[[], list[str]]) -> None:
            drawing = "\n".join(lines())
            live.update(_styled(drawing) if takes_colour() else Text(drawing), refresh=True)

        yield draw


def _print_changes() -> Callable[[Graph, object], None]:
    """Prints a line for each node whose status is another than the last time."""
    statuses: dict[str, str] = {}

    def print_changes(graph: Graph, lines: object) -> None:
        changes = ""
        for node in graph.nodes:
            if statuses.get(node.id) != node.status:
                changes += f"{safe(node.id)}: {node.status}\n"
                statuses[node.id] = node.status
        if changes:
            emit(changes)

    return print_changes


def _lines(result: RunResult, named_run: NamedRun, layout: Layout) -> list[str]:
    columns = shutil.get_terminal_size().columns if is_terminal() else COLUMNS
    draw = picture.list_nodes if layout == "list" else picture.draw_graph
    summary = result.summary if result.complete else None
    drawing = draw(picture.graph_of(result, summary), columns)
    name = named_run.entry.run_id
    if not named_run.matched.startswith(("newest", "run id")):
        name += f" (matched by {named_run.matched})"
    workflow = safe(str(result.run_document.get("workflow", "")))
    head = f"{name}  {workflow}  {_outcome_of(result, summary)}"
    return [head, "", *(drawing or ["no nodes yet"])]


def _outcome_of(result: RunResult, summary: Summary | None) -> str:
    """How the run came out, or that it did not end."""
    if summary is None:
        if result.state == "running":
            return "incomplete (running)"
        return "incomplete"
    if summary.extent == "nothing":
        return "nothing"
    return summary.outcome


def _document(result: RunResult, named_run: NamedRun) -> dict[str, object]:
    return {
        "run_id": named_run.entry.run_id,
        "key": named_run.entry.key,
        "matched": named_run.matched,
        "state": result.state,
        "outcome": result.summary.outcome if result.complete else None,
        "graph": json.loads(result.graph().to_json()),
    }


def _styled(drawing: str) -> Text:
    from rich.text import Text

    text = Text(drawing)
    for state in _STATE.finditer(drawing):
        text.stylize(OUTCOME_WORDS[state[0].removeprefix("DONE ").lower()].colour, *state.span())
    return text


VIZ = Command(
    "Draw the graph of a run: its stages, checks and judges, and what comes after what.",
    (
        RUN_ARGUMENT,
        argument(
            "--layout",
            choices=("list", "dag"),
            default="dag",
            help="a line a node, or boxes (default: dag)",
        ),
        argument("--watch", action="store_true", help="draw until the run ends"),
        argument("--json", action="store_true", help="print the graph as one JSON document"),
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate viz                  the newest run
  vibe-gate viz --layout list    a line a node: agent, turns, cost, tree
  vibe-gate viz --watch          until the run ends
""",
)
