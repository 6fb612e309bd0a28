"""`vibe-gate bundles du`, `keep` and `clean`: what stored runs take up, and deleting old ones."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct, to_builtins

from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import Retention
from vibe_gate.domain.upkeep import PATCH_DAYS, WORKSPACE_DAYS, Cleaned, StoreUsage
from vibe_gate.errors import INCONCLUSIVE, PASS
from vibe_gate.faces.cli.command import JSON, Command, argument, parse_json
from vibe_gate.faces.cli.output import complain, emit, emit_result, now
from vibe_gate.faces.cli.runs import RUN_HELP, STORE_OPTION, StoredRuns
from vibe_gate.faces.cli.team import TeamRuns, runs_of
from vibe_gate.git import Repository
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.store_cleaning import clean_store, measure_store


def _show_usage(as_json: bool) -> int:
    runs = StoredRuns()
    usage = measure_store(runs.root)
    with runs.repository() as repository:
        kept_export = repository.size_of_kept_export() if repository is not None else 0
    lines = _usage_lines(usage)
    if kept_export:
        lines.append(f"{_megabytes(kept_export)} besides, in the export kept for judges")
    usage_document = {**to_builtins(usage), "kept_export": kept_export}
    return emit_result(usage_document, lines, as_json=as_json)


def _usage_lines(usage: StoreUsage) -> list[str]:
    lines = [f"{'size':>14} {'runs':>6}  key"]
    for key in usage.keys:
        lines.append(f"{_megabytes(key.size)} {key.runs:>6}  {key.key}")
    for folder, size in usage.besides.items():
        lines.append(f"{_megabytes(size)} {'':>6}  {folder}/")
    lines.append(f"{_megabytes(usage.total)} in total")
    return lines


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:>11,.3f} MB"


class KeepArguments(Struct, frozen=True):
    """The arguments of `vibe-gate bundles keep`."""

    reference: str
    off: bool
    """Whether the run is not protected any more."""


def _parse_keep(args: argparse.Namespace) -> KeepArguments:
    return KeepArguments(args.run, args.off)


def _keep_run(arguments: KeepArguments) -> int:
    runs = StoredRuns()
    named_run = runs.find_run(arguments.reference)
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
    """Delete runs by [retention], and with them what runs left elsewhere: workspaces of those that
    died, patches of those that could not be recorded.
    """
    dry_run = arguments.dry_run
    workspaces: list[str] = []
    patches: list[str] = []
    with runs_of(in_store=arguments.store) as runs, runs.repository() as repository:
        retention = Retention() if repository is None else _retention(repository)
        cleaning = _clean_runs(runs, retention, dry_run=dry_run)
        if repository is not None and not arguments.store:
            age = timedelta(days=min(retention.max_age_days, WORKSPACE_DAYS))
            workspaces = repository.remove_old_workspaces(now() - age, dry_run=dry_run)
            age = timedelta(days=min(retention.max_age_days, PATCH_DAYS))
            patches = repository.remove_old_patches(now() - age, dry_run=dry_run)
            if not dry_run:
                open_state(repository.common_dir).begun.forget_runs(cleaning.deleted)
    cleaning_document = {"dry_run": dry_run, **to_builtins(cleaning)}
    cleaning_document |= {"workspaces": workspaces, "patches": patches}
    names = [f"workspace {name}" for name in workspaces] + patches
    lines = _cleaning_lines(cleaning, names, dry_run=dry_run)
    emit_result(cleaning_document, lines, as_json=arguments.as_json)
    if not arguments.as_json:
        for error in cleaning.errors:
            complain(f"vibe-gate: {safe(error)}")
    return INCONCLUSIVE if cleaning.errors else PASS


def _retention(repository: Repository) -> Retention:
    """[retention] of the gate at the trusted revision."""
    from vibe_gate.gate.trusted import standing_gate

    gate = standing_gate(repository)
    if gate is None:
        return Retention()
    return gate.file.retention


def _clean_runs(runs: StoredRuns, retention: Retention, *, dry_run: bool) -> Cleaned:
    if isinstance(runs, TeamRuns):
        return runs.bundles.clean(retention, dry_run)
    return clean_store(runs.root, retention, now(), dry_run, runs.bundles.provenance)


def _cleaning_lines(cleaning: Cleaned, names: Sequence[str], *, dry_run: bool) -> list[str]:
    """What was deleted; `names` of what was outside of the store."""
    verb = "would be deleted" if dry_run else "deleted"
    lines = [f"{name} {verb}" for name in names]
    lines += [f"{run_id} {verb}" for run_id in cleaning.deleted]
    lines += [f"session {name} {verb}" for name in cleaning.sessions]
    numbers = [counted(len(cleaning.deleted), "run")]
    if cleaning.answers:
        numbers.append(counted(cleaning.answers, "answer"))
    if cleaning.claims:
        numbers.append(counted(cleaning.claims, "claim"))
    freed = "would be freed" if dry_run else "freed"
    lines.append(f"{', '.join(numbers)} {verb}, {cleaning.freed_mb:,.3f} MB {freed}.")
    return lines


DISK_USAGE = Command(
    "Show the disk usage of bundles by key, largest first.",
    (argument("--json", action="store_true", help="print one JSON document, in bytes"),),
    parse_json,
    _show_usage,
)

KEEP = Command(
    "Protect a run from cleaning.",
    (
        argument("run", metavar="RUN", help=RUN_HELP),
        argument("--off", action="store_true", help="do not protect it any more"),
    ),
    _parse_keep,
    _keep_run,
)

CLEAN = Command(
    "Delete runs that are too old, or the oldest while the disk is too full.",
    (
        argument("--dry-run", action="store_true", help="only print what would be deleted"),
        STORE_OPTION,
        JSON,
    ),
    _parse_clean,
    _clean,
    examples="""\
.vibe-gate/gate.toml says what is too old and too full, as it is at the trusted
revision:

  [retention]
  max_age_days = 30           runs that began earlier are deleted
  min_free_disk_mb = 1000     with less free, the oldest runs are, too
""",
)
