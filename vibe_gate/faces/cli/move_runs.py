"""`vibe-gate bundles export`, `import` and `push`: runs that leave this clone, or come to it."""

from __future__ import annotations

import argparse
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.leaving import WHY_NOT
from vibe_gate.errors import INCONCLUSIVE, INTEGRITY, PASS, IntegrityError, UsageError
from vibe_gate.faces.cli.command import JSON, Command, argument
from vibe_gate.faces.cli.lazy_arguments import TraceTarget
from vibe_gate.faces.cli.output import complain, emit_result
from vibe_gate.faces.cli.runs import RUN_HELP, STORE_OPTION, RunsArguments, StoredRuns, parse_runs
from vibe_gate.faces.cli.team import PushedRuns, TeamRuns, push_runs, runs_of
from vibe_gate.store.run_archive import export_runs, import_runs

ARCHIVE = "bundles.tar.xz"
"""The archive's name, if the user gives none."""

ARCHIVE_ENDINGS = (".tar.xz", ".txz")
"""How an archive's name ends, so that it says what the archive is."""

RunPair = dict[str, str]
"""A run's id and key, as documents have them."""


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
        if args.output is not None:
            raise UsageError("--otlp writes no archive; leave -o out.")
        traces = TraceTarget(args.otlp, args.contents)
    elif args.contents:
        raise UsageError("--contents belongs to --otlp; an archive has everything.")
    archive = ARCHIVE if args.output is None else args.output
    if not archive.lower().endswith(ARCHIVE_ENDINGS):
        raise UsageError("An archive is a file that xz packs; name it FILE.tar.xz.")
    return ExportArguments(
        references=tuple(args.runs),
        all=args.all,
        archive=archive,
        traces=traces,
        store=args.store,
        as_json=args.json,
    )


def _export(arguments: ExportArguments) -> int:
    traces = arguments.traces
    with runs_of(in_store=arguments.store) as runs:
        entries = _requested_entries(arguments, runs)
        if traces is None or traces.contents:
            entries = _exportable_entries(entries, runs, all_runs=arguments.all)
        if traces is not None:
            from vibe_gate.faces.cli.otlp import export_traces

            return export_traces(traces, runs, entries, as_json=arguments.as_json)
        size = _write_archive(runs, entries, Path(arguments.archive))
    archive = paths.quote(arguments.archive)
    export_document = {"file": archive, "runs": len(entries), "size": size}
    line = f"{archive}: {counted(len(entries), 'run')}, {size:,} bytes."
    return emit_result(export_document, [line], as_json=arguments.as_json)


def _requested_entries(arguments: ExportArguments, runs: StoredRuns) -> list[RunEntry]:
    """The runs that are meant. A trace tells of a run what it says, so that must be of this
    clone.
    """
    references = arguments.references
    if arguments.all:
        entries = runs.bundles.find(replays=True)
        return [entry for entry in entries if entry.state == "sealed"]
    if arguments.traces is not None:
        all_entries = runs.bundles.find()
        clone_runs = [runs.find_own_run(name, all_entries) for name in references or (None,)]
        return list(dict.fromkeys(run.entry for run in clone_runs))
    return runs.entries(references) or [runs.find_run(None).entry]


def _exportable_entries(
    entries: list[RunEntry], runs: StoredRuns, *, all_runs: bool
) -> list[RunEntry]:
    """The runs without those that stay in this clone, which a sentence says. UsageError: the user
    named one of those.
    """
    withheld = [entry for entry in entries if not runs.bundles.may_leave(entry)]
    if withheld and not all_runs:
        raise UsageError(f"Run {withheld[0].run_id} is not exported: {WHY_NOT}.")
    if withheld:
        complain(f"vibe-gate: {counted(len(withheld), 'run')} left out: {WHY_NOT}.")
    return [entry for entry in entries if entry not in withheld]


def _write_archive(runs: StoredRuns, entries: list[RunEntry], archive: Path) -> int:
    """Write the runs to a new file; returns its size in bytes. GateError."""
    if isinstance(runs, TeamRuns):
        return runs.bundles.export(entries, archive)
    return export_runs(runs.root, runs.bundles.provenance, entries, archive)


def _push(arguments: RunsArguments) -> int:
    runs = StoredRuns()
    push = push_runs(runs, runs.entries(arguments.references))
    exit_code = _push_exit_code(push)
    uploaded_runs = [_run_pair(run.place) for run in push.runs]
    push_document = {
        "exit_code": exit_code,
        "uploaded": uploaded_runs,
        "answers": push.answers,
        "left": push.waiting,
    }
    lines = [f"{run['run_id']} uploaded, about {run['key']}" for run in uploaded_runs]
    counts = f"{counted(len(uploaded_runs), 'run')} and {counted(push.answers, 'answer')}"
    lines.append(f"{counts} uploaded to {push.url}.")
    for problem in push.problems:
        complain(f"vibe-gate: {safe(problem)}")
    return emit_result(push_document, lines, exit_code, as_json=arguments.as_json)


def _push_exit_code(push: PushedRuns) -> int:
    if not push.is_sound:
        return INTEGRITY
    if push.waiting:
        return INCONCLUSIVE
    return PASS


class ImportArguments(Struct, frozen=True):
    """The arguments of `vibe-gate bundles import`."""

    files: tuple[str, ...]
    """Archives that `bundles export` wrote."""
    as_json: bool


def _parse_import(args: argparse.Namespace) -> ImportArguments:
    return ImportArguments(tuple(args.files), args.json)


def _import(arguments: ImportArguments) -> int:
    """Import archives one after the other. IntegrityError: the only one is refused."""
    bundles = StoredRuns().bundles
    new_runs: list[RunPair] = []
    old_runs: list[RunPair] = []
    refusals: list[str] = []
    for file in arguments.files:
        try:
            imported = import_runs(bundles.root, bundles.provenance, Path(file))
        except IntegrityError as error:
            if len(arguments.files) == 1:
                raise
            refusals.append(f"{paths.quote(file)}: {error}")
            continue
        new_runs += map(_run_pair, imported.runs)
        old_runs += map(_run_pair, imported.already)
    for refusal in refusals:
        complain(f"vibe-gate: {safe(refusal)}")
    import_document: dict[str, object] = {"imported": new_runs, "already": old_runs}
    if refusals:
        import_document["refused"] = refusals
    lines = _import_lines(new_runs, old_runs)
    exit_code = INTEGRITY if refusals else PASS
    return emit_result(import_document, lines, exit_code, as_json=arguments.as_json)


def _import_lines(new_runs: list[RunPair], old_runs: list[RunPair]) -> list[str]:
    lines = [f"{run['run_id']} imported, about {run['key']}" for run in new_runs]
    lines += [f"{run['run_id']} already here, with the same content" for run in old_runs]
    if len(lines) > 1:
        lines.append(f"{counted(len(new_runs), 'run')} imported, {len(old_runs):,} already here.")
    return lines


def _run_pair(place: str) -> RunPair:
    key, _, run_id = place.partition("/")
    return {"run_id": run_id, "key": key}


EXPORT = Command(
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
            help="no archive but traces: a new file of OTLP JSON, or an endpoint "
            "(http://localhost:4318)",
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
  vibe-gate bundles export HEAD -o run.tar.xz
                                       one file to send; `import` reads it
  vibe-gate bundles export HEAD --otlp http://localhost:4318
                                       as a trace to an OpenTelemetry collector
  vibe-gate bundles export --all --otlp runs.json --contents
                                       every run, with what was said, to a file
""",
)

PUSH = Command(
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
    parse_runs,
    _push,
)

IMPORT = Command(
    "Import the runs of archives, one after the other: all of it, or none if anything is wrong "
    "(exit 5).",
    (
        argument("files", nargs="+", metavar="FILE", help="archives that `bundles export` wrote"),
        JSON,
    ),
    _parse_import,
    _import,
)
