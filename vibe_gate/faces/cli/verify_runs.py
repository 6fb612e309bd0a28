"""`vibe-gate bundles verify` and `repair`: what is wrong with stored runs, and mending it."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import STORE, RunEntry
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.upkeep import Problem, Repaired, Verified
from vibe_gate.errors import INTEGRITY, PASS
from vibe_gate.faces.cli.command import Command
from vibe_gate.faces.cli.output import emit_result
from vibe_gate.faces.cli.runs import (
    RUNS_ARGUMENTS,
    STORE_OPTION,
    RunsArguments,
    StoredRuns,
    parse_runs,
)
from vibe_gate.faces.cli.team import TeamRuns, runs_of
from vibe_gate.store.store_audit import verify_store
from vibe_gate.store.store_repair import repair_store

MARKS = {"corrupt": "✗", "foreign": "✗", "untidy": "!", "incomplete": "·", "running": "·"}
"""What stands before a problem, by its state; the worst first."""

REPAIRABLE_STATES = ("corrupt", "foreign", "untidy")

REPAIR_ADVICE = (
    "`vibe-gate bundles repair` repairs what it can and moves the rest aside; it deletes nothing."
)


class VerifyRunsArguments(Struct, frozen=True):
    """The arguments of `vibe-gate bundles verify`."""

    references: tuple[str, ...]
    """The runs; none: all."""
    store: bool
    """Whether the runs of the shared store are meant."""
    as_json: bool


def _parse_verify(args: argparse.Namespace) -> VerifyRunsArguments:
    return VerifyRunsArguments(tuple(args.runs), args.store, args.json)


def _verify_runs(arguments: VerifyRunsArguments) -> int:
    with runs_of(in_store=arguments.store) as runs:
        audit = _audit(runs, runs.entries(arguments.references))
    exit_code = PASS if audit.is_sound else INTEGRITY
    lines = _shared_lines(audit) if arguments.store else _clone_lines(audit)
    audit_document = {"exit_code": exit_code, **_audit_document(audit)}
    return emit_result(audit_document, lines, exit_code, as_json=arguments.as_json)


def _audit(runs: StoredRuns, entries: list[RunEntry] | None) -> Verified:
    """What is wrong with all runs, or these; those of the team are fetched for it. StorageError."""
    if isinstance(runs, TeamRuns):
        return runs.bundles.verify(entries)
    return verify_store(runs.root, runs.bundles.provenance, entries)


def _audit_document(audit: Verified) -> dict[str, Any]:
    problems = [_problem_document(problem) for problem in audit.problems]
    return {"runs": audit.runs, "contents": audit.contents, "flaws": problems}


def _problem_document(problem: Problem) -> dict[str, str | None]:
    return {
        "state": problem.state,
        "what": problem.what,
        "place": paths.quote(problem.place),
        "run_id": _run_id(problem) or None,
        "why": safe(problem.why),
    }


def _run_id(problem: Problem) -> str:
    """The id of the run that the problem is about; "" if it is about no run."""
    return problem.run.partition("/")[2]


def _clone_lines(audit: Verified) -> list[str]:
    """The problems of this clone's store, and what they come to."""
    lines = [_problem_line(problem) for problem in audit.problems]
    states = Counter[str](problem.state for problem in audit.problems)
    counts = ", ".join(f"{states[state]} {state}" for state in MARKS if states[state])
    numbers = f"{counted(audit.runs, 'run')}, {counted(audit.contents, 'file')}"
    conclusion = f"Checked {numbers}: {counts or 'all hashes match'}."
    if audit.is_sound and audit.runs:
        conclusion += " Signatures are checked by `vibe-gate verify`."
    lines.append(conclusion)
    if any(states[state] for state in REPAIRABLE_STATES):
        lines.append(REPAIR_ADVICE)
    return lines


def _shared_lines(audit: Verified) -> list[str]:
    """The problems of the shared store, and what they come to.

    A run is named by its id, and its object in a line of its own: that name has hundreds of
    characters.
    """
    lines: list[str] = []
    for problem in audit.problems:
        run_id = _run_id(problem)
        if run_id:
            lines.append(_problem_line(replace(problem, place=run_id)))
            lines.append(f"{'':13}{paths.quote(problem.place)}")
        else:
            lines.append(_problem_line(problem))
    conclusion = "all genuine"
    if audit.problems:
        objects = counted(len(audit.problems), "object")
        conclusion = f"{objects} not to be believed; the rest is what the team wrote"
    numbers = f"{counted(audit.runs, 'run')}, {counted(audit.contents, 'answer')}"
    return [*lines, f"Checked {numbers}: {conclusion}."]


def _problem_line(problem: Problem) -> str:
    place = paths.quote(problem.place) or "."
    return f"{MARKS[problem.state]} {problem.state:<11}{place}: {problem.why}"


def _repair_runs(arguments: RunsArguments) -> int:
    runs = StoredRuns()
    entries = runs.entries(arguments.references)
    repair = repair_store(runs.root, runs.bundles.provenance, entries)
    exit_code = PASS if repair.left.is_sound else INTEGRITY
    repair_document = {"exit_code": exit_code, **_repair_document(repair)}
    return emit_result(repair_document, _repair_lines(repair), exit_code, as_json=arguments.as_json)


def _repair_document(repair: Repaired) -> dict[str, Any]:
    mended = [{**_problem_document(mend.problem), "done": mend.done} for mend in repair.mended]
    return {
        "mended": mended,
        "quarantine": _quarantine(repair) or None,
        "left": _audit_document(repair.left),
    }


def _repair_lines(repair: Repaired) -> list[str]:
    lines = []
    for mend in repair.mended:
        lines.append(f"✓ {paths.quote(mend.problem.place)}: {mend.problem.why}; {mend.done}")
    for problem in repair.left.problems:
        if problem.state in REPAIRABLE_STATES:
            lines.append(f"{_problem_line(problem)} (not repaired)")
    if repair.quarantine:
        lines.append(f"Moved files are in {_quarantine(repair)}.")
    return lines or ["Nothing to repair."]


def _quarantine(repair: Repaired) -> str:
    """The folder that files were moved to, from the top of the repository; "" if none was."""
    return f"{STORE}/{repair.quarantine}" if repair.quarantine else ""


VERIFY_RUNS = Command(
    "Check stored runs; exit 5 if anything is wrong.",
    (*RUNS_ARGUMENTS, STORE_OPTION),
    _parse_verify,
    _verify_runs,
)

REPAIR = Command(
    "Repair stored runs; move what cannot be repaired to quarantine. Deletes nothing.",
    RUNS_ARGUMENTS,
    parse_runs,
    _repair_runs,
)
