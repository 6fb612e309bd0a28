"""`vibe-gate test`: run the labelled cases of the repository's rubrics."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

from vibe_gate.domain.escape import counted
from vibe_gate.errors import FAIL, INCONCLUSIVE, PASS, UsageError
from vibe_gate.faces import progress, workers
from vibe_gate.faces.cli.command import JSON, Command, argument, whole_number
from vibe_gate.faces.cli.output import emit_result, now
from vibe_gate.faces.cli.pool import cases_pool
from vibe_gate.faces.cli.request import CLUSTER, SHARD, WIRES
from vibe_gate.run.batch import carried_out
from vibe_gate.run.cases import CaseResult, CaseSet, CaseTask, Status, read_case_set
from vibe_gate.run.shard import WHOLE


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    results = []
    with read_case_set(Path.cwd(), environ, args.rubrics, shard=args.shard) as cases:
        if not cases.cases and args.shard == WHOLE:
            raise UsageError(
                "no labelled case here; write .vibe-gate/cases/NAME/case.toml (docs/reference/definitions.md)."
            )
        run = _one_by_one if args.jobs == 1 and not args.cluster else _side_by_side
        for result in run(args, cases, environ):
            results.append(result)
            if not args.json:
                emit_result(args, {}, [f"{result.case.name}: {result.text}"])
    counts = Counter(result.status for result in results)
    code = FAIL if counts["failed"] else PASS if counts["ok"] == len(results) else INCONCLUSIVE
    document = {"exit_code": code, "cases": [_row(result) for result in results]}
    return emit_result(args, document, [_totals(counts, results)], code)


def _one_by_one(args: argparse.Namespace, cases: CaseSet, environ: Mapping[str, str]) -> Iterator[CaseResult]:
    for case in cases.cases:
        with progress.shown(environ, quiet=not progress.is_lively(environ)) as display:
            walk = cases.run(case, args.wire, environ=environ, clock=now, progress=display.show)
            result = progress.run(walk)
        yield result


def _side_by_side(args: argparse.Namespace, cases: CaseSet, environ: Mapping[str, str]) -> Iterator[CaseResult]:
    """The results in the order of the cases."""
    tasks = [CaseTask(cases.root, case.name, args.wire) for case in cases.cases]
    waiting, done = {case.name: case for case in cases.cases}, dict[str, CaseResult]()
    with progress.counting(len(tasks), environ) as step, cases_pool(args, cases, environ) as crew:
        for end in carried_out(tasks, workers.run_case, crew):
            name = end.task.case
            done[name] = end.result or CaseResult(waiting[name], "undecided", (end.why,))
            step()
            while (first := next(iter(waiting), "")) in done:
                del waiting[first]
                yield done[first]


def _row(result: CaseResult) -> dict[str, object]:
    about = {"name": result.case.name, "rubric": result.case.file.rubric}
    return about | {name: getattr(result, name) for name in ("status", "reasons", "usd")}


def _totals(counts: Counter[Status], results: list[CaseResult]) -> str:
    parts = [f"{counts[status]} {status}" for status in get_args(Status) if counts[status]]
    usd = sum(result.usd for result in results)
    return f"{counted(len(results), 'case')}: {', '.join(parts) or 'none'}" + (f" · ${usd:.4f}" if usd else "")


TEST = Command(
    "Run the labelled cases in .vibe-gate/cases/ against the rubrics as they are in the working tree.",
    (
        argument("rubrics", nargs="*", metavar="RUBRIC", help="only cases of these rubrics (default: all)"),
        argument(
            "--wire",
            choices=WIRES,
            default="replay",
            help="ask the model, or record its answers into the cases' "
            "cassettes, or replay these offline (default: replay)",
        ),
        argument("--jobs", type=whole_number, default=1, metavar="N", help="cases side by side (default: 1)"),
        SHARD,
        CLUSTER,
        JSON,
    ),
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
