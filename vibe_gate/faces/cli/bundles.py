"""`vibe-gate bundles`: stored runs listed, shown, measured, verified, repaired, kept, cleaned,
exported, imported.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import OUTCOMES, STATES, STORE, RunEntry, Wanted
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import Retention
from vibe_gate.domain.leaving import WHY_NOT
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.upkeep import WORKSPACE_DAYS, Cleaned, Problem, Repaired, StoreUsage, Verified
from vibe_gate.errors import (
    INCONCLUSIVE,
    INTEGRITY,
    PASS,
    GateError,
    IntegrityError,
    StorageError,
    UsageError,
)
from vibe_gate.faces.cli.command import (
    JSON,
    Command,
    argument,
    group,
    parse_json,
    whole_number,
)
from vibe_gate.faces.cli.lazy_arguments import TraceTarget
from vibe_gate.faces.cli.output import complain, emit, emit_lines, emit_result, is_terminal, now
from vibe_gate.faces.cli.runs import (
    RUN_ARGUMENT,
    RUN_HELP,
    STORE_OPTION,
    NamedRun,
    StoredRuns,
    moment,
)
from vibe_gate.faces.cli.team import PushedRuns, TeamRuns, push, runs_of
from vibe_gate.git import Repository, commit_columns
from vibe_gate.report.outcome_words import outcome_colour
from vibe_gate.report.run_list import (
    NO_MATCHES,
    NO_RUNS,
    build_run_document,
    drop_wide_columns,
    render_run_legend,
    render_run_table,
)
from vibe_gate.report.text_graph import graph_of
from vibe_gate.store.run_archive import export_runs, import_runs
from vibe_gate.store.run_result import RunResult
from vibe_gate.store.store_audit import verify_store
from vibe_gate.store.store_cleaning import clean_store, measure_store
from vibe_gate.store.store_repair import repair_store

_IS_COMMIT = re.compile(r"[0-9a-f]{40}").fullmatch


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


def _list(arguments: ListArguments) -> int:
    conditions = arguments.conditions
    with runs_of(in_store=arguments.store) as stored:
        runs = stored.bundles.find(arguments.limit, **conditions)
    if arguments.as_json or not runs:
        listing = {"bundles": [build_run_document(run) for run in runs]}
        lines = [NO_MATCHES if conditions else NO_RUNS]
        return emit_result(listing, lines, as_json=arguments.as_json)
    rows = render_run_table(runs, now(), titles_of(runs), is_screen=is_terminal())
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
        after = "  ".join((outcome[len(word) :], *columns))
        lines.append(Text.assemble(f"{age}  ", (word, outcome_colour(word, "")), after))
    for line in lines:
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
    lines += [Text(), *(Text(line, "dim") for line in render_run_legend(runs, width))]
    emit(coloured(Text("\n").join(lines), width) + "\n")


def titles_of(runs: Sequence[RunEntry]) -> dict[str, str]:
    """By key, the titles of the runs' commits that are here; of a tree, what it became, if not long
    ago.
    """
    return {key: title for key, (title,) in _of_commits(runs, "%s").items()}


def titles_and_people_of(runs: Sequence[RunEntry]) -> tuple[dict[str, str], dict[str, str]]:
    """By key, the titles of these commits, and the names of their authors."""
    columns = _of_commits(runs, "%aN", "%s")
    titles = {key: title for key, (_, title) in columns.items()}
    return titles, {key: name for key, (name, _) in columns.items()}


def days_and_authors_of(commits: Iterable[str]) -> dict[str, tuple[str, str]]:
    """By commit, the day on which its author wrote it, and the author's name."""
    columns = commit_columns(Path.cwd(), os.environ, ("%H", "%as", "%aN"), commits)
    return {commit: (day, name) for commit, (day, name) in columns.items()}


def _of_commits(runs: Sequence[RunEntry], *columns: str) -> dict[str, list[str]]:
    keys = {run.key for run in runs}
    commits = {key for key in keys if _IS_COMMIT(key)}
    by_commit = commit_columns(Path.cwd(), os.environ, ("%H", *columns), commits)
    if commits == keys:
        return by_commit
    return by_commit | commit_columns(Path.cwd(), os.environ, ("tree-%T", *columns))


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


def _show(arguments: ShowArguments) -> int:
    reference = arguments.reference
    with runs_of(in_store=arguments.store) as stored:
        runs, named_run = stored.opened(reference)
        result, summary = _read(runs, named_run)
        if arguments.log_node is not None:
            return _show_log(result, arguments.log_node)
        is_kept = runs.bundles.is_kept(named_run.entry)
        if arguments.as_json or summary is None:
            rows = _document(named_run, result.state, is_kept, summary)
            lines = _unsealed(named_run, result, is_kept)
            return emit_result(rows, lines, as_json=arguments.as_json)
        from vibe_gate.faces.cli.screen import screen
        from vibe_gate.run.review import Review

        patch = result.bundle_dir / "made.patch"
        can_apply = patch.is_file() and not arguments.store
        next_command = f"git apply {os.path.relpath(patch)}" if can_apply else ""
        shown_summary = _as_committed(runs, summary, reference)
        review = Review(shown_summary, _notes(named_run, is_kept))
        emit(screen(review, next_command) + "\n")
        return PASS


def _as_committed(runs: StoredRuns, summary: Summary, reference: str | None) -> Summary:
    """The summary of a tree under its commit, if `reference` or HEAD is one that has it: nothing is
    left to commit.
    """
    with runs.repository() as repository:
        if repository is not None and summary.key.startswith("tree-"):
            for revision in filter(None, (reference, "HEAD")):
                with suppress(GateError):  # the id of a run, or no commit yet
                    commit = repository.resolve(revision)
                    if repository.tree_of(commit) == summary.change.after:
                        return replace(summary, key=commit)
    return summary


def _show_log(result: RunResult, node_id: str) -> int:
    """Print the transcript of the run's agents and judges, or of one node."""
    node_ids = [node.id for node in result.graph().nodes if node.turns]
    if node_id and node_id not in node_ids:
        names = ", ".join(map(safe, node_ids)) or "none"
        raise UsageError(f"'{safe(node_id)}' is not a node with turns (there are: {names}).")
    emit_lines(*result.log(node_id).splitlines() or ["No agent and no judge was asked."])
    return PASS


def _read(runs: StoredRuns, named_run: NamedRun) -> tuple[RunResult, Summary | None]:
    """The run and, if it has one, the summary. A run that is being deleted right now is not a
    corrupt one.
    """
    try:
        result = runs.read(named_run)
        return result, result.summary if result.complete else None
    except GateError as error:
        if not (runs.root / named_run.entry.bundle).exists():
            raise StorageError(
                f"Run {named_run.entry.run_id} was just deleted by a cleaning."
            ) from error
        raise


def _document(
    named_run: NamedRun, state: str, kept: bool, summary: Summary | None
) -> dict[str, Any]:
    about = {
        name: getattr(named_run.entry, name) for name in ("run_id", "key", "created_at", "bundle")
    }
    about |= {
        "state": state,
        "matched": named_run.matched,
        "others": named_run.others,
        "kept": kept,
    }
    return about | {"summary": None if summary is None else json.loads(summary.to_json())}


def _notes(named_run: NamedRun, kept: bool) -> tuple[str, ...]:
    others = f"; {counted(named_run.others, 'other run')} {'matches' if named_run.others == 1 else 'match'} too"
    note = f"Run {named_run.entry.run_id} of {named_run.entry.created_at}, matched by {named_run.matched}"
    return (
        f"{note}{others if named_run.others else ''}.",
        *(["Kept: cleaning does not delete it."] if kept else []),
    )


def _unsealed(named_run: NamedRun, result: RunResult, kept: bool) -> list[str]:
    what = (
        "is still running"
        if result.state == "running"
        else "is incomplete: it ended before its verdict"
    )
    text = [f"Run {named_run.entry.run_id} {what}; it has no outcome."]
    for node in graph_of(result, None).nodes:
        text.append(f"  {node.id:<24} {node.status}{f' ({node.reason})' if node.reason else ''}")
    text += [
        f"bundle: {named_run.entry.bundle}",
        *(f"note: {note}" for note in _notes(named_run, kept)),
    ]
    if result.state == "incomplete" and "request" in result.about:
        text.append(f"next: vibe-gate resume {named_run.entry.run_id}")
    return text


def _du(as_json: bool) -> int:
    used = measure_store(StoredRuns().root)
    return emit_result(to_builtins(used), _sizes(used), as_json=as_json)


def _sizes(used: StoreUsage) -> list[str]:
    text = [f"{'size':>14} {'runs':>6}  key"]
    text += [f"{_mb(key.size)} {key.runs:>6}  {key.key}" for key in used.keys]
    text += [f"{_mb(size)} {'':>6}  {name}/" for name, size in used.besides.items()]
    return [*text, f"{_mb(used.total)} in total"]


def _mb(size: int) -> str:
    return f"{size / 1_000_000:>11,.3f} MB"


ARCHIVE = "bundles.tar.gz"

MARKS = {"corrupt": "✗", "foreign": "✗", "untidy": "!", "incomplete": "·", "running": "·"}


_RUNS_ARGUMENTS = (
    argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: all runs)"),
    JSON,
)


class RunsArguments(Struct, frozen=True):
    """The arguments of subcommands about several runs of this clone."""

    references: tuple[str, ...]
    """The runs; none: all."""
    as_json: bool


def _parse_runs(args: argparse.Namespace) -> RunsArguments:
    return RunsArguments(tuple(args.runs), args.json)


class VerifyRunsArguments(Struct, frozen=True):
    """The arguments of `vibe-gate bundles verify`."""

    references: tuple[str, ...]
    """The runs; none: all."""
    store: bool
    """Whether the runs of the shared store are meant."""
    as_json: bool


def _parse_verify(args: argparse.Namespace) -> VerifyRunsArguments:
    return VerifyRunsArguments(tuple(args.runs), args.store, args.json)


def _verify(arguments: VerifyRunsArguments) -> int:
    with runs_of(in_store=arguments.store) as runs:
        checked = _check(runs, runs.entries(arguments.references))
    exit_code = PASS if checked.is_sound else INTEGRITY
    rows = {"exit_code": exit_code, **_checked(checked)}
    lines = _shared_lines(checked) if arguments.store else _checked_lines(checked)
    return emit_result(rows, lines, exit_code, as_json=arguments.as_json)


def _checked_lines(checked: Verified) -> list[str]:
    return [*map(_line, checked.problems), *_conclusion(checked)]


def _check(runs: StoredRuns, chosen: list[RunEntry] | None) -> Verified:
    """What is wrong with all runs, or these; those of the team are fetched for it. StorageError."""
    if isinstance(runs, TeamRuns):
        return runs.bundles.verify(chosen)
    return verify_store(runs.root, runs.bundles.provenance, chosen)


def _shared_lines(checked: Verified) -> list[str]:
    """As of a clone; the name of a run's object, hundreds of characters, in a line of its own."""
    wrong, lines = len(checked.problems), list[str]()
    for problem in checked.problems:
        run_id = problem.run.partition("/")[2]
        named = replace(problem, place=run_id) if run_id else problem
        lines += [_line(named), *([f"{'':13}{paths.quote(problem.place)}"] if run_id else [])]
    said = (
        f"{counted(wrong, 'object')} not to be believed; the rest is what the team wrote"
        if wrong
        else "all genuine"
    )
    return [
        *lines,
        f"Checked {counted(checked.runs, 'run')}, {counted(checked.contents, 'answer')}: {said}.",
    ]


def _checked(checked: Verified) -> dict[str, Any]:
    problems = [_as_json(problem) for problem in checked.problems]
    return {"runs": checked.runs, "contents": checked.contents, "flaws": problems}


def _as_json(problem: Problem) -> dict[str, str | None]:
    return {
        "state": problem.state,
        "what": problem.what,
        "place": paths.quote(problem.place),
        "run_id": problem.run.partition("/")[2] or None,
        "why": safe(problem.why),
    }


def _line(problem: Problem) -> str:
    return f"{MARKS[problem.state]} {problem.state:<11}{paths.quote(problem.place) or '.'}: {problem.why}"


def _conclusion(checked: Verified) -> list[str]:
    states = Counter[str](problem.state for problem in checked.problems)
    counts = ", ".join(f"{states[state]} {state}" for state in MARKS if states[state])
    whole = f"Checked {counted(checked.runs, 'run')}, {counted(checked.contents, 'file')}: "
    whole += f"{counts or 'all hashes match'}."
    if checked.is_sound and checked.runs:
        whole += " Signatures are checked by `vibe-gate verify`."
    if not any(states[state] for state in ("corrupt", "foreign", "untidy")):
        return [whole]
    return [
        whole,
        "`vibe-gate bundles repair` repairs what it can and moves the rest aside; it deletes nothing.",
    ]


def _repair(arguments: RunsArguments) -> int:
    runs = StoredRuns()
    chosen_runs = runs.entries(arguments.references)
    repaired = repair_store(runs.root, runs.bundles.provenance, chosen_runs)
    exit_code = PASS if repaired.left.is_sound else INTEGRITY
    rows = {
        "exit_code": exit_code,
        "mended": [{**_as_json(mended.problem), "done": mended.done} for mended in repaired.mended],
        "quarantine": _quarantine(repaired) or None,
        "left": _checked(repaired.left),
    }
    return emit_result(rows, _repaired(repaired), exit_code, as_json=arguments.as_json)


def _quarantine(done: Repaired) -> str:
    return f"{STORE}/{done.quarantine}" if done.quarantine else ""


def _repaired(done: Repaired) -> list[str]:
    lines = [
        f"✓ {paths.quote(one.problem.place)}: {one.problem.why}; {one.done}" for one in done.mended
    ]
    left = [
        problem for problem in done.left.problems if problem.state not in {"incomplete", "running"}
    ]
    lines += [f"{_line(problem)} (not repaired)" for problem in left]
    if done.quarantine:
        lines.append(f"Moved files are in {_quarantine(done)}.")
    return lines or ["Nothing to repair."]


class KeepArguments(Struct, frozen=True):
    """The arguments of `vibe-gate bundles keep`."""

    reference: str
    off: bool
    """Whether the run is not protected any more."""


def _parse_keep(args: argparse.Namespace) -> KeepArguments:
    return KeepArguments(args.run, args.off)


def _keep(arguments: KeepArguments) -> int:
    runs = StoredRuns()
    named_run = runs.named(arguments.reference)
    runs.bundles.keep(named_run.entry, off=arguments.off)
    state = "no longer kept" if arguments.off else "kept"
    emit(f"{named_run.entry.run_id} is {state} (matched by {named_run.matched}).\n")
    if arguments.off and runs.bundles.is_kept(named_run.entry):
        complain(f"note: a .vibe-keep beside it keeps every run of {named_run.entry.key}.")
    return PASS


class CleanArguments(Struct, frozen=True):
    """The arguments of `vibe-gate bundles clean`."""

    dry_run: bool
    """Only say what would be deleted."""
    store: bool
    """Whether the runs of the shared store are meant."""
    as_json: bool


def _parse_clean(args: argparse.Namespace) -> CleanArguments:
    return CleanArguments(args.dry_run, args.store, args.json)


def _clean(arguments: CleanArguments) -> int:
    """Delete runs by [retention], and with them the workspaces of runs that died."""
    dry_run = arguments.dry_run
    workspaces: list[str] = []
    with runs_of(in_store=arguments.store) as runs, runs.repository() as repository:
        rules = Retention() if repository is None else _retention(repository)
        if isinstance(runs, TeamRuns):
            cleaned = runs.bundles.clean(rules, dry_run)
        else:
            cleaned = clean_store(runs.root, rules, now(), dry_run, runs.bundles.provenance)
        if repository is not None and not arguments.store:
            age = timedelta(days=min(rules.max_age_days, WORKSPACE_DAYS))
            workspaces = repository.remove_old_workspaces(now() - age, dry_run=dry_run)
    verb = "would be deleted" if dry_run else "deleted"
    lines = [f"workspace {name} {verb}" for name in workspaces]
    rows = {"dry_run": dry_run, **to_builtins(cleaned), "workspaces": workspaces}
    emit_result(rows, [*lines, *_cleaned(cleaned, dry_run)], as_json=arguments.as_json)
    if not arguments.as_json:
        for error in cleaned.errors:
            complain(f"vibe-gate: {safe(error)}")
    return INCONCLUSIVE if cleaned.errors else PASS


def _retention(repository: Repository) -> Retention:
    """[retention] of the gate at the trusted revision."""
    from vibe_gate.gate.trusted import standing_gate

    gate = standing_gate(repository)
    return Retention() if gate is None else gate.file.retention


def _cleaned(done: Cleaned, dry_run: bool) -> list[str]:
    verb, freed = ("would be deleted", "would be freed") if dry_run else ("deleted", "freed")
    text = [f"{run_id} {verb}" for run_id in done.deleted]
    text += [f"session {name} {verb}" for name in done.sessions]
    numbers = {"answer": done.answers, "claim": done.claims}
    what = [
        counted(len(done.deleted), "run"),
        *(counted(number, one) for one, number in numbers.items() if number),
    ]
    return [*text, f"{', '.join(what)} {verb}, {done.freed_mb:,.3f} MB {freed}."]


Pair = dict[str, str]
"""A run's id and key."""


class ExportArguments(Struct, frozen=True):
    """The arguments of `vibe-gate bundles export`."""

    references: tuple[str, ...]
    """The runs; none: the newest, or all."""
    all: bool
    """Whether every sealed run is meant."""
    archive: str
    """The new file that runs are written to, if there are no `traces`."""
    traces: TraceTarget | None
    """Where OpenTelemetry traces go in place of an archive."""
    store: bool
    """Whether runs of the shared store are meant."""
    as_json: bool


def _parse_export(args: argparse.Namespace) -> ExportArguments:
    if args.all and args.runs:
        raise UsageError("--all exports every run; name no RUN with it.")
    traces = None
    if args.otlp is not None:
        if args.output:
            raise UsageError("--otlp writes no archive; leave -o out.")
        traces = TraceTarget(args.otlp, args.contents)
    elif args.contents:
        raise UsageError("--contents belongs to --otlp; an archive has everything.")
    return ExportArguments(
        references=tuple(args.runs),
        all=args.all,
        archive=args.output or ARCHIVE,
        traces=traces,
        store=args.store,
        as_json=args.json,
    )


def _export(arguments: ExportArguments) -> int:
    traces = arguments.traces
    with runs_of(in_store=arguments.store) as runs:
        chosen = _exported_entries(arguments, runs)
        if traces is None or traces.contents:
            chosen = _without_withheld(chosen, runs, all_runs=arguments.all)
        if traces is not None:
            from vibe_gate.faces.cli.otlp import export_traces

            return export_traces(traces, runs, chosen, as_json=arguments.as_json)
        archive = Path(arguments.archive)
        if isinstance(runs, TeamRuns):
            size = runs.bundles.export(chosen, archive)
        else:
            size = export_runs(runs.root, runs.bundles.provenance, chosen, archive)
    shown_archive = paths.quote(arguments.archive)
    rows = {"file": shown_archive, "runs": len(chosen), "size": size}
    line = f"{shown_archive}: {counted(len(chosen), 'run')}, {size:,} bytes."
    return emit_result(rows, [line], as_json=arguments.as_json)


def _exported_entries(arguments: ExportArguments, runs: StoredRuns) -> list[RunEntry]:
    """The runs that are meant. A trace tells of a run what it says, so that must be of this
    clone.
    """
    references = arguments.references
    if arguments.all:
        entries = runs.bundles.find(replays=True)
        return [entry for entry in entries if entry.state == "sealed"]
    if arguments.traces is not None:
        own_runs = [runs.own(reference) for reference in references or (None,)]
        return list(dict.fromkeys(run.entry for run in own_runs))
    return runs.entries(references) or [runs.named(None).entry]


def _without_withheld(
    chosen: list[RunEntry], runs: StoredRuns, *, all_runs: bool
) -> list[RunEntry]:
    """The runs without those that stay in this clone, which are said. UsageError: one of them was
    named.
    """
    withheld_runs = [entry for entry in chosen if not runs.bundles.may_leave(entry)]
    if withheld_runs and not all_runs:
        raise UsageError(f"Run {withheld_runs[0].run_id} is not exported: {WHY_NOT}.")
    if withheld_runs:
        complain(f"vibe-gate: {counted(len(withheld_runs), 'run')} left out: {WHY_NOT}.")
    return [entry for entry in chosen if entry not in withheld_runs]


def _push(arguments: RunsArguments) -> int:
    runs = StoredRuns()
    pushed = push(runs, runs.entries(arguments.references))
    exit_code = _push_exit_code(pushed)
    uploaded = [_pair(run.place) for run in pushed.runs]
    rows = {
        "exit_code": exit_code,
        "uploaded": uploaded,
        "answers": pushed.answers,
        "left": pushed.waiting,
    }
    lines = [f"{run['run_id']} uploaded, about {run['key']}" for run in uploaded]
    counts = f"{counted(len(uploaded), 'run')} and {counted(pushed.answers, 'answer')}"
    lines.append(f"{counts} uploaded to {pushed.url}.")
    for problem in pushed.problems:
        complain(f"vibe-gate: {safe(problem)}")
    return emit_result(rows, lines, exit_code, as_json=arguments.as_json)


def _push_exit_code(pushed: PushedRuns) -> int:
    if not pushed.is_sound:
        return INTEGRITY
    return INCONCLUSIVE if pushed.waiting else PASS


class ImportArguments(Struct, frozen=True):
    """The arguments of `vibe-gate bundles import`."""

    files: tuple[str, ...]
    """Archives that `bundles export` wrote."""
    as_json: bool


def _parse_import(args: argparse.Namespace) -> ImportArguments:
    return ImportArguments(tuple(args.files), args.json)


def _import(arguments: ImportArguments) -> int:
    bundles = StoredRuns().bundles
    new_runs: list[Pair] = []
    old_runs: list[Pair] = []
    refusals: list[str] = []
    for file in arguments.files:
        try:
            imported = import_runs(bundles.root, bundles.provenance, Path(file))
        except IntegrityError as error:
            if len(arguments.files) == 1:
                raise
            refusals.append(f"{paths.quote(file)}: {error}")
            continue
        new_runs += map(_pair, imported.runs)
        old_runs += map(_pair, imported.already)
    lines = [f"{run['run_id']} imported, about {run['key']}" for run in new_runs]
    lines += [f"{run['run_id']} already here, with the same content" for run in old_runs]
    if len(lines) > 1:
        lines.append(f"{counted(len(new_runs), 'run')} imported, {len(old_runs):,} already here.")
    for refusal in refusals:
        complain(f"vibe-gate: {safe(refusal)}")
    rows: dict[str, object] = {"imported": new_runs, "already": old_runs}
    if refusals:
        rows["refused"] = refusals
    exit_code = INTEGRITY if refusals else PASS
    return emit_result(rows, lines, exit_code, as_json=arguments.as_json)


def _pair(place: str) -> Pair:
    key, _, run_id = place.partition("/")
    return {"run_id": run_id, "key": key}


SUBCOMMANDS: dict[str, Command[Any]] = {
    "list": Command(
        "List runs, newest first.",
        (
            argument(
                "--outcome",
                choices=(*OUTCOMES, *STATES),
                metavar="WORD",
                help=f"only runs with this outcome or state: {', '.join((*OUTCOMES, *STATES))}",
            ),
            argument("--rubric", metavar="ID", help="only runs that used this rubric"),
            argument("--author", choices=("agent", "human"), help="only changes written by one"),
            argument("--path", metavar="GLOB", help="only runs in which a changed path matches"),
            argument(
                "--since", type=moment, metavar="WHEN", help="30d, 12h, 2w, or an ISO date (UTC)"
            ),
            argument("--limit", type=whole_number, metavar="N", help="at most the newest N"),
            STORE_OPTION,
            JSON,
        ),
        _parse_list,
        _list,
    ),
    "show": Command(
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
        _show,
    ),
    "keep": Command(
        "Protect a run from cleaning.",
        (
            argument("run", metavar="RUN", help=RUN_HELP),
            argument("--off", action="store_true", help="do not protect it any more"),
        ),
        _parse_keep,
        _keep,
    ),
    "clean": Command(
        "Delete runs that are too old, or the oldest while the disk is too full.",
        (
            argument("--dry-run", action="store_true", help="only print what would be deleted"),
            STORE_OPTION,
            JSON,
        ),
        _parse_clean,
        _clean,
    ),
    "du": Command(
        "Show the disk usage of bundles by key, largest first.",
        (argument("--json", action="store_true", help="print one JSON document, in bytes"),),
        parse_json,
        _du,
    ),
    "verify": Command(
        "Check stored runs; exit 5 if anything is wrong.",
        (*_RUNS_ARGUMENTS, STORE_OPTION),
        _parse_verify,
        _verify,
    ),
    "repair": Command(
        "Repair stored runs; move what cannot be repaired to quarantine. Deletes nothing.",
        _RUNS_ARGUMENTS,
        _parse_runs,
        _repair,
    ),
    "export": Command(
        "Write runs to one compressed archive, or as OpenTelemetry traces; each is verified first.",
        (
            argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: the newest)"),
            argument("--all", action="store_true", help="every sealed run"),
            argument(
                "-o",
                "--output",
                metavar="FILE",
                help=f"the archive, a new file (default: {ARCHIVE})",
            ),
            argument(
                "--otlp",
                metavar="FILE|URL",
                help="no archive but traces: a new file of OTLP JSON, or an endpoint (http://localhost:4318)",
            ),
            argument(
                "--contents",
                action="store_true",
                help="with prompts, answers, arguments and results in the traces",
            ),
            STORE_OPTION,
            JSON,
        ),
        _parse_export,
        _export,
        examples="""\
examples:
  vibe-gate bundles export HEAD -o run.tar.gz
                                       one file to send; `import` reads it
  vibe-gate bundles export HEAD --otlp http://localhost:4318
                                       as a trace to an OpenTelemetry collector
  vibe-gate bundles export --all --otlp runs.json --contents
                                       every run, with what was said, to a file
""",
    ),
    "push": Command(
        "Upload runs, and answers, that the shared store ([store] in gate.toml) does not have yet.",
        (
            argument(
                "runs",
                nargs="*",
                metavar="RUN",
                help=f"{RUN_HELP} (default: all but those of checks alone on uncommitted work)",
            ),
            JSON,
        ),
        _parse_runs,
        _push,
    ),
    "import": Command(
        "Import the runs of archives, one after the other: all of it, or none if anything is wrong (exit 5).",
        (
            argument(
                "files", nargs="+", metavar="FILE", help="archives that `bundles export` wrote"
            ),
            JSON,
        ),
        _parse_import,
        _import,
    ),
}

BUNDLES = group(
    "Look at stored runs, keep them, check and repair them, move them and clean them up.",
    """\
examples:
  vibe-gate bundles list --limit 20    the newest twenty runs
  vibe-gate bundles list --outcome fail --author agent --path 'src/**'
  vibe-gate bundles show               the newest run
  vibe-gate bundles show HEAD~1        the run of that commit or its change
  vibe-gate bundles clean --dry-run    what a cleaning would delete
  vibe-gate bundles verify             check stored runs; exit 5 on a problem
  vibe-gate bundles repair             repair stored runs
  vibe-gate bundles export HEAD -o run.tar.gz
                                       one file to send; `import` reads it
  vibe-gate bundles export HEAD --otlp http://localhost:4318
                                       as a trace to an OpenTelemetry collector
  vibe-gate bundles list --store       the runs in the shared store
  vibe-gate bundles push               upload there what is not there yet
""",
    SUBCOMMANDS,
)
