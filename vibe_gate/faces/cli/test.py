"""`vibe-gate test`: run the labelled cases of the repository's rubrics."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from msgspec import Struct

from vibe_gate.domain.escape import counted
from vibe_gate.domain.model_wire import WIRE_MODES, WireMode
from vibe_gate.errors import FAIL, INCONCLUSIVE, PASS, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.command import JSON, Command, argument, whole_number
from vibe_gate.faces.cli.output import emit_lines, emit_result, now
from vibe_gate.faces.cli.pool import cases_pool
from vibe_gate.faces.cli.shared_options import (
    CLUSTER,
    SHARD,
    WorkerOptions,
    parse_workers,
)
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.faces.workers import run_case
from vibe_gate.run.batch import carry_out_tasks
from vibe_gate.run.case_reviews import CaseResult, CaseSet, CaseTask, Status, read_case_set
from vibe_gate.run.shard import WHOLE


class TestArguments(Struct, frozen=True):
    """The arguments of `vibe-gate test`."""

    rubrics: tuple[str, ...]
    """Only cases of these rubrics; none: all."""
    wire: WireMode
    """How the model is reached."""
    workers: WorkerOptions
    """Who runs the cases, and which."""
    as_json: bool


def _parse(args: argparse.Namespace) -> TestArguments:
    return TestArguments(tuple(args.rubrics), args.wire, parse_workers(args), args.json)


def _run(arguments: TestArguments) -> int:
    results = []
    workers = arguments.workers
    with read_case_set(
        Path.cwd(), read_process_environment(), arguments.rubrics, shard=workers.shard
    ) as cases:
        if not cases.cases and workers.shard == WHOLE:
            raise UsageError(
                "no labelled case here; write .vibe-gate/cases/NAME/case.toml (docs/reference/definitions.md)."
            )
        run_cases = _one_by_one if workers.jobs == 1 and not workers.cluster else _side_by_side
        for result in run_cases(arguments, cases):
            results.append(result)
            if not arguments.as_json:
                emit_lines(f"{result.case.name}: {result.text}")
    counts = Counter(result.status for result in results)
    code = _exit_code(counts)
    document = {"exit_code": code, "cases": [_row(result) for result in results]}
    return emit_result(document, [_totals(counts, results)], code, as_json=arguments.as_json)


def _exit_code(counts: Counter[Status]) -> int:
    if counts["failed"]:
        return FAIL
    if counts["ok"] == counts.total():
        return PASS
    return INCONCLUSIVE


def _one_by_one(arguments: TestArguments, cases: CaseSet) -> Iterator[CaseResult]:
    environment = read_process_environment()
    is_quiet = not progress.is_lively(environment)
    for case in cases.cases:
        with progress.display_progress(environment, quiet=is_quiet) as display:
            walk = cases.run(case, arguments.wire, clock=now, progress=display.show)
            result = progress.run_walk(walk)
        yield result


def _side_by_side(arguments: TestArguments, cases: CaseSet) -> Iterator[CaseResult]:
    """The results in the order of the cases."""
    tasks = [CaseTask(cases.root, case.name, arguments.wire) for case in cases.cases]
    waiting = {case.name: case for case in cases.cases}
    results: dict[str, CaseResult] = {}
    pool = cases_pool(arguments.workers, arguments.wire, cases)
    with progress.counting(len(tasks), read_process_environment()) as step, pool as crew:
        for end in carry_out_tasks(tasks, run_case, crew):
            name = end.task.case
            results[name] = end.result or CaseResult(waiting[name], "undecided", (end.why,))
            step()
            while (first := next(iter(waiting), "")) in results:
                del waiting[first]
                yield results[first]


def _row(result: CaseResult) -> dict[str, object]:
    return {
        "name": result.case.name,
        "rubric": result.case.file.rubric,
        "status": result.status,
        "reasons": result.reasons,
        "usd": result.usd,
    }


def _totals(counts: Counter[Status], results: list[CaseResult]) -> str:
    parts = [f"{counts[status]} {status}" for status in get_args(Status) if counts[status]]
    line = f"{counted(len(results), 'case')}: {', '.join(parts) or 'none'}"
    usd = sum(result.usd for result in results)
    if usd:
        return f"{line} · ${usd:.4f}"
    return line


TEST = Command(
    "Run the labelled cases in .vibe-gate/cases/ against the rubrics as they are in the working tree.",
    (
        argument(
            "rubrics",
            nargs="*",
            metavar="RUBRIC",
            help="only cases of these rubrics (default: all)",
        ),
        argument(
            "--wire",
            choices=WIRE_MODES,
            default="replay",
            help="ask the model, or record its answers into the cases' "
            "cassettes, or replay these offline (default: replay)",
        ),
        argument(
            "--jobs",
            type=whole_number,
            default=1,
            metavar="N",
            help="cases side by side (default: 1)",
        ),
        SHARD,
        CLUSTER,
        JSON,
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate test                   every case, offline, from its cassette
  vibe-gate test quality           the cases of one rubric
  vibe-gate test --wire record     ask the model and keep its answers

exit codes: 0 every case as expected, 1 not, 2 a mistake in a case,
3 a case that was not decided or has no cassette
""",
)
