"""`vibe-gate bundles show`: the verdict of one stored run, or what its agents and judges said."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.checks.conduct_checks import describe_capture_gaps
from vibe_gate.domain.escape import counted, list_names, safe
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import PASS, GateError, StorageError, UsageError
from vibe_gate.faces.cli.command import JSON, Command, argument
from vibe_gate.faces.cli.output import emit, emit_lines, emit_result
from vibe_gate.faces.cli.runs import RUN_ARGUMENT, STORE_OPTION, NamedRun, StoredRuns
from vibe_gate.faces.cli.team import runs_of
from vibe_gate.git import Repository
from vibe_gate.report.text_graph import graph_of
from vibe_gate.store.run_result import RunResult


class ShowArguments(Struct, frozen=True):
    """The arguments of `vibe-gate bundles show`."""

    reference: str | None
    """The run; None: the newest."""
    log_node: str | None
    """The node whose transcript is shown; "": of all nodes; None: the verdict instead."""
    store: bool
    """Whether a run of the shared store is meant."""
    as_json: bool


def _parse_show(args: argparse.Namespace) -> ShowArguments:
    return ShowArguments(args.run, args.log, args.store, args.json)


def _show_run(arguments: ShowArguments) -> int:
    with runs_of(in_store=arguments.store) as stored_runs:
        runs, named_run = stored_runs.open_run(arguments.reference)
        result, summary = _read_run(runs, named_run)
        if arguments.log_node is not None:
            return _show_log(result, arguments.log_node)
        is_kept = runs.bundles.is_kept(named_run.entry)
        if arguments.as_json or summary is None:
            run_document = _run_document(named_run, result.state, summary, is_kept=is_kept)
            lines = _unsealed_lines(named_run, result, is_kept=is_kept)
            return emit_result(run_document, lines, as_json=arguments.as_json)
        committed_summary = _as_committed(runs, summary, arguments.reference)
        next_command = "" if arguments.store else _apply_command(result)
        notes = (
            *_notes(named_run, is_kept=is_kept),
            *_setup_notes(result),
            *_capture_notes(result),
        )
        _emit_screen(committed_summary, notes, next_command)
        return PASS


def _read_run(runs: StoredRuns, named_run: NamedRun) -> tuple[RunResult, Summary | None]:
    """The run and, if it has one, the summary. A run that is being deleted right now is not a
    corrupt one.
    """
    try:
        result = runs.read(named_run)
        return result, result.summary if result.complete else None
    except GateError as error:
        if (runs.root / named_run.entry.bundle).exists():
            raise
        run_id = named_run.entry.run_id
        raise StorageError(f"Run {run_id} was just deleted by a cleaning.") from error


def _show_log(result: RunResult, node_id: str) -> int:
    """Print the transcript of the run's agents and judges, or of one node."""
    node_ids = [node.id for node in result.graph().nodes if node.turns]
    if node_id and node_id not in node_ids:
        names = ", ".join(map(safe, node_ids)) or "none"
        raise UsageError(f"'{safe(node_id)}' is not a node with turns (there are: {names}).")
    emit_lines(*result.log(node_id).splitlines() or ["No agent and no judge was asked."])
    return PASS


def _as_committed(runs: StoredRuns, summary: Summary, reference: str | None) -> Summary:
    """The summary of a tree under its commit, if `reference` or HEAD is one that has it: nothing is
    left to commit.
    """
    if not summary.key.startswith("tree-"):
        return summary
    with runs.repository() as repository:
        if repository is None:
            return summary
        for revision in filter(None, (reference, "HEAD")):
            commit = _commit_with_tree(repository, revision, summary.change.after)
            if commit:
                return replace(summary, key=commit)
    return summary


def _commit_with_tree(repository: Repository, revision: str, tree: str) -> str:
    """The commit that the revision means, if it has this tree, else ""."""
    with suppress(GateError):  # the id of a run, or no commit yet
        commit = repository.resolve(revision)
        if repository.tree_of(commit) == tree:
            return commit
    return ""


def _apply_command(result: RunResult) -> str:
    """The command that applies what agents of the run wrote; "" if they wrote nothing."""
    patch = result.bundle_dir / "made.patch"
    if not patch.is_file():
        return ""
    return f"git apply {os.path.relpath(patch)}"


def _emit_screen(summary: Summary, notes: tuple[str, ...], next_command: str) -> None:
    """Print the run's verdict as a review's."""
    from vibe_gate.faces.cli.screen import render_verdict
    from vibe_gate.run.review_result import Review

    emit(render_verdict(Review(summary, notes), next_command) + "\n")


def _run_document(
    named_run: NamedRun, state: str, summary: Summary | None, *, is_kept: bool
) -> dict[str, Any]:
    entry = named_run.entry
    return {
        "run_id": entry.run_id,
        "key": entry.key,
        "created_at": entry.created_at,
        "bundle": entry.bundle,
        "state": state,
        "matched": named_run.matched,
        "others": named_run.others,
        "kept": is_kept,
        "summary": None if summary is None else json.loads(summary.to_json()),
    }


def _notes(named_run: NamedRun, *, is_kept: bool) -> tuple[str, ...]:
    """Which run it is and, if cleaning spares it, that it does."""
    entry = named_run.entry
    note = f"Run {entry.run_id} of {entry.created_at}, matched by {named_run.matched}"
    if named_run.others:
        verb = "matches" if named_run.others == 1 else "match"
        note += f"; {counted(named_run.others, 'other run')} {verb} too"
    if is_kept:
        return f"{note}.", "Kept: cleaning does not delete it."
    return (f"{note}.",)


def _setup_notes(result: RunResult) -> tuple[str, ...]:
    """What was loaded of the project's own Claude Code, if anything was."""
    files = result.run_document.get("setup")
    if not isinstance(files, dict) or not files:
        return ()
    names = list_names([safe(str(name)) for name in files])
    return (f"setup: project ({counted(len(files), 'part')}: {names}).",)


def _capture_notes(result: RunResult) -> tuple[str, ...]:
    """What hooks missed of the run's turns, if they missed anything."""
    gaps = describe_capture_gaps(result)
    return (gaps,) if gaps else ()


def _unsealed_lines(named_run: NamedRun, result: RunResult, *, is_kept: bool) -> list[str]:
    """What is said of a run that has no verdict: its nodes, and how to go on."""
    run_id = named_run.entry.run_id
    if result.state == "running":
        state = "is still running"
    else:
        state = "is incomplete: it ended before its verdict"
    lines = [f"Run {run_id} {state}; it has no outcome."]
    for node in graph_of(result, None).nodes:
        reason = f" ({node.reason})" if node.reason else ""
        lines.append(f"  {node.id:<24} {node.status}{reason}")
    lines.append(f"bundle: {named_run.entry.bundle}")
    lines += [f"note: {note}" for note in _notes(named_run, is_kept=is_kept)]
    if result.state == "incomplete" and "request" in result.run_document:
        lines.append(f"next: vibe-gate resume {run_id}")
    return lines


SHOW = Command(
    "Show one run: the newest, or RUN.",
    (
        RUN_ARGUMENT,
        argument(
            "--log",
            nargs="?",
            const="",
            metavar="NODE",
            help="what agents and judges said and did (one node)",
        ),
        STORE_OPTION,
        JSON,
    ),
    _parse_show,
    _show_run,
)
