"""`vibe-gate bundles list`: stored runs, newest first."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence

from msgspec import Struct

from vibe_gate.domain.bundles import OUTCOMES, STATES, RunEntry, Wanted
from vibe_gate.errors import PASS
from vibe_gate.faces.cli.command import JSON, Command, argument, whole_number
from vibe_gate.faces.cli.commit_names import titles_by_key
from vibe_gate.faces.cli.output import emit, emit_lines, emit_result, is_terminal, now
from vibe_gate.faces.cli.runs import STORE_OPTION, parse_since
from vibe_gate.faces.cli.team import runs_of
from vibe_gate.report.outcome_words import outcome_colour
from vibe_gate.report.run_list import (
    NO_MATCHES,
    NO_RUNS,
    build_run_document,
    drop_wide_columns,
    render_run_legend,
    render_run_table,
)


class ListArguments(Struct, frozen=True):
    """The arguments of `vibe-gate bundles list`."""

    conditions: Wanted
    """What a listed run must be."""
    limit: int | None
    """At most so many, the newest; None: all."""
    store: bool
    """Whether the runs of the shared store are meant."""
    as_json: bool


def _parse_list(args: argparse.Namespace) -> ListArguments:
    conditions = Wanted()
    if args.outcome is not None:
        conditions["outcome"] = args.outcome
    if args.rubric is not None:
        conditions["rubric"] = args.rubric
    if args.author is not None:
        conditions["author"] = args.author
    if args.path is not None:
        conditions["path"] = args.path
    if args.since is not None:
        conditions["since"] = args.since
    return ListArguments(conditions, args.limit, args.store, args.json)


def _list_runs(arguments: ListArguments) -> int:
    conditions = arguments.conditions
    with runs_of(in_store=arguments.store) as stored_runs:
        runs = stored_runs.bundles.find(arguments.limit, **conditions)
    if arguments.as_json or not runs:
        listing = {"bundles": [build_run_document(run) for run in runs]}
        lines = [NO_MATCHES if conditions else NO_RUNS]
        return emit_result(listing, lines, as_json=arguments.as_json)
    rows = render_run_table(runs, now(), titles_by_key(runs), is_screen=is_terminal())
    if is_terminal():
        _emit_table(rows, runs)
    else:
        emit_lines(*("  ".join(row).rstrip() for row in rows))
    return PASS


def _emit_table(rows: Sequence[Sequence[str]], runs: Sequence[RunEntry]) -> None:
    """The list on a terminal, in colour if that takes it, with what its words mean."""
    from rich.text import Text  # a list in a pipe needs none

    from vibe_gate.faces.cli.screen import coloured

    width = shutil.get_terminal_size().columns
    heads, *narrow_rows = drop_wide_columns(rows, width)
    lines = [Text("  ".join(heads), "bold")]
    for age, outcome, *columns in narrow_rows:
        word = outcome.rstrip()
        padding = outcome[len(word) :]
        columns_after = "  ".join((padding, *columns))
        coloured_word = (word, outcome_colour(word, ""))
        lines.append(Text.assemble(f"{age}  ", coloured_word, columns_after))
    for line in lines:
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
    lines.append(Text())
    lines += [Text(line, "dim") for line in render_run_legend(runs, width)]
    emit(coloured(Text("\n").join(lines), width) + "\n")


_OUTCOME_WORDS = (*OUTCOMES, *STATES)

LIST = Command(
    "List runs, newest first.",
    (
        argument(
            "--outcome",
            choices=_OUTCOME_WORDS,
            metavar="WORD",
            help=f"only runs with this outcome or state: {', '.join(_OUTCOME_WORDS)}",
        ),
        argument("--rubric", metavar="ID", help="only runs that used this rubric"),
        argument("--author", choices=("agent", "human"), help="only changes written by one"),
        argument("--path", metavar="GLOB", help="only runs in which a changed path matches"),
        argument(
            "--since", type=parse_since, metavar="WHEN", help="30d, 12h, 2w, or an ISO date (UTC)"
        ),
        argument("--limit", type=whole_number, metavar="N", help="at most the newest N"),
        STORE_OPTION,
        JSON,
    ),
    _parse_list,
    _list_runs,
)
