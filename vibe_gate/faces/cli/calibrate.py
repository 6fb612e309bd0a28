"""`vibe-gate calibrate`: measure the judges of the repository's rubrics on its labelled cases."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.agent import agent_environment_from, find_cli
from vibe_gate.domain.calibration import (
    MAX_REPEATS,
    Baseline,
    CriterionBaseline,
    at_most,
    clean_needed,
    earned,
    share,
)
from vibe_gate.domain.document import plain
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import counted
from vibe_gate.domain.interval import Interval
from vibe_gate.domain.label import Label
from vibe_gate.domain.model_wire import WIRE_MODES, WireMode
from vibe_gate.errors import INCONCLUSIVE, PASS, AgentError, UsageError
from vibe_gate.faces import progress, workers
from vibe_gate.faces.cli.command import JSON, Command, argument, whole_number
from vibe_gate.faces.cli.from_history import HistoryArguments, label_history
from vibe_gate.faces.cli.label import known_labels
from vibe_gate.faces.cli.output import complain, emit_result, now
from vibe_gate.faces.cli.pool import cases_pool
from vibe_gate.faces.cli.shared_options import (
    CLUSTER,
    SHARD,
    WorkerOptions,
    parse_positive,
    parse_workers,
)
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gate.writing import write_baseline
from vibe_gate.gateway import find_upstream
from vibe_gate.run.calibrate import (
    Asking,
    Calibration,
    CriterionMeasure,
    RubricMeasure,
    plan_calibration,
)
from vibe_gate.run.case_reviews import CaseSet, read_case_set
from vibe_gate.run.shard import WHOLE, Shard

JOBS = 4
"""Cases asked side by side: each has an agent's process of its own, some 200 MB."""

_UNDECIDED_SHOWN = 5


class CalibrateArguments(Struct, frozen=True):
    """The arguments of `vibe-gate calibrate` that measures."""

    rubrics: tuple[str, ...]
    """Only cases of these rubrics; none: all."""
    repeats: int | None
    """How often each case is asked; None: as often as of the baseline, or once."""
    workers: WorkerOptions
    """Who asks, and which cases."""
    max_cost_usd: float | None
    """US dollars that all may cost."""
    wire: WireMode
    """How the model is reached."""
    as_json: bool


def _parse(args: argparse.Namespace) -> CalibrateArguments | HistoryArguments:
    rubrics = tuple(args.rubrics)
    if args.from_history:
        return HistoryArguments(args.from_history, rubrics, args.criterion, args.json)
    if args.criterion:
        raise UsageError(
            "--criterion belongs to --from-history: a calibration measures all that cases label."
        )
    if args.repeat and args.repeat > MAX_REPEATS:
        raise UsageError(f"--repeat takes at most {MAX_REPEATS}.")
    return CalibrateArguments(
        rubrics, args.repeat, parse_workers(args), args.max_cost_usd, args.wire, args.json
    )


_NO_KEY = "No API key: set ANTHROPIC_API_KEY, or replay recorded answers with --wire replay."


def _require_judge(environment: Environment, wire: str) -> None:
    """UsageError: there is no key; it names the agent's program, too, if that is missing.
    AgentError: the program alone is missing.
    """
    lacks_key = wire != "replay" and find_upstream(environment.variables) is None
    try:
        find_cli(agent_environment_from(environment.variables).search_path)
    except AgentError as error:
        if lacks_key:
            raise UsageError(f"{_NO_KEY} {error}") from None
        raise
    if lacks_key:
        raise UsageError(_NO_KEY)


def _run(arguments: CalibrateArguments | HistoryArguments) -> int:
    if isinstance(arguments, HistoryArguments):
        return label_history(arguments)
    shard = arguments.workers.shard
    environment = read_process_environment()
    with read_case_set(Path.cwd(), environment, arguments.rubrics, shard=shard) as cases:
        calibration = plan_calibration(cases, arguments.wire, arguments.repeats, now())
        if not cases.is_labelled:
            raise UsageError(
                "no labelled case says how a judge's criterion must come out; make some with "
                "`vibe-gate cases add` or `vibe-gate calibrate --from-history A..B`, or write "
                "[expect] into .vibe-gate/cases/NAME/case.toml."
            )
        if calibration.missing:
            _require_judge(environment, arguments.wire)
        _ask(arguments, calibration, environment)
        measured = [
            _write_baseline(measure, cases, shard) for measure in calibration.measures(now())
        ]
        labels = known_labels(cases.repository)
    code = INCONCLUSIVE if any(measure.undecided for measure, _ in measured) else PASS
    bound = cases.gate.file.trust.max_false_blocks
    document = {
        "exit_code": code,
        "rubrics": [_measure_document(measure, path, bound, labels) for measure, path in measured],
        "paid_usd": sum(calibration.paid),
    }
    lines: list[str] = []
    for measure, path in measured:
        lines += _measure_lines(measure, path, bound, labels)
    if shard != WHOLE and not measured:
        lines.append(f"No labelled case is in part {shard}.")
    elif shard != WHOLE:
        lines.append(
            f"Part {shard} of the cases: no baseline was written. Without --shard, one is."
        )
    return emit_result(document, lines, code, as_json=arguments.as_json)


def _ask(arguments: CalibrateArguments, calibration: Calibration, environment: Environment) -> None:
    """Ask what is missing, having said what it can cost; Ctrl-C keeps what is done, and says so."""
    missing = len(calibration.missing)
    if not missing:
        return
    limit = arguments.max_cost_usd
    complain(_plan(calibration, limit))
    with progress.display_progress(
        environment, quiet=not progress.is_lively(environment)
    ) as display:

        def tell(asking: Asking) -> None:
            answered = missing - len(calibration.missing)
            cost = _usd(sum(calibration.paid))
            display.show("judge", f"{answered} of {missing} reviews, {cost} ({asking.case.name})")

        options = arguments.workers
        try:
            if options.cluster:
                pool = cases_pool(options, arguments.wire, calibration.cases)
                with pool as crew:
                    calibration.hand_out(
                        crew, workers.run_case, max_cost_usd=limit, clock=now, tell=tell
                    )
            else:
                walk = calibration.run(
                    jobs=options.jobs or JOBS,
                    max_cost_usd=limit,
                    clock=now,
                    tell=tell,
                )
                progress.run_in_loop(walk)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_interrupted(calibration)) from None


def _plan(calibration: Calibration, max_cost_usd: float | None) -> str:
    """What is going to be asked, and what it can cost."""
    review_count, missing_count = len(calibration.askings), len(calibration.missing)
    reviews = f"{counted(missing_count, 'review')} of cases"
    if calibration.wire == "replay":
        return f"Replaying {reviews} from their cassettes."
    if missing_count < review_count:
        reviews += f" ({review_count - missing_count} of {review_count} answered before)"
    conversations = f"at most {counted(calibration.most_conversations, 'conversation')}"
    if calibration.looks_again:
        conversations += " and a second look at each fail"
    limit_usd = calibration.most_usd(max_cost_usd)
    limit_source = f"{_usd(calibration.cases.max_cost_usd)} each: max_cost_usd in gate.toml"
    if limit_usd == max_cost_usd:
        limit_source = "--max-cost-usd"
    return f"Asking: {reviews}: {conversations}, at most {_usd(limit_usd)} ({limit_source})."


def _usd(usd: float) -> str:
    if usd >= 1:
        return f"${usd:.2f}"
    return f"${usd:.4f}"


def _interrupted(calibration: Calibration) -> str:
    number = f"{len(calibration.answers)} of {len(calibration.askings)} answers"
    if calibration.wire == "live":
        return f"interrupted; {number} are kept. The same command goes on from there."
    return f"interrupted after {number}; nothing is measured."


def _write_baseline(
    measure: RubricMeasure, cases: CaseSet, shard: Shard
) -> tuple[RubricMeasure, str]:
    """The measure as its baseline has it, and the path of that; "" if it is not complete and so not
    written.

    Figures that are those of the baseline that is there keep its time, and so the file its bytes. A
    part of the cases writes none.
    """
    if measure.undecided or not measure.measures or shard != WHOLE:
        return measure, ""
    for old in cases.gate.baselines:
        if replace(old, created_at=measure.baseline.created_at) == measure.baseline:
            return replace(measure, baseline=old), write_baseline(cases.root, old)
        if old.rubric == measure.baseline.rubric:
            complain(f"Replaced the {_describe_baseline(old)}.")
    return measure, write_baseline(cases.root, measure.baseline)


def _describe_baseline(baseline: Baseline) -> str:
    cases = max((criterion.cases for criterion in baseline.criterion), default=0)
    repeats = max((criterion.repeats for criterion in baseline.criterion), default=1)
    date, rubric = baseline.created_at[:10], baseline.digest[:8]
    return f"baseline of {date}: {baseline.model}, rubric {rubric}, {counted(cases, 'case')} x {repeats}"


# As JSON


def _measure_document(
    measure: RubricMeasure, path: str, bound: float, labels: Sequence[Label]
) -> dict[str, Any]:
    baseline = measure.baseline
    criteria = []
    for criterion in measure.measures:
        label_counts = _label_counts(measure, criterion, labels)
        criteria.append(_criterion_document(criterion, bound) | {"labels": label_counts})
    return {
        "rubric": baseline.rubric,
        "digest": baseline.digest,
        "model": baseline.model,
        "template": baseline.template,
        "cli": baseline.cli,
        "created_at": baseline.created_at,
        "baseline": path,
        "cases": measure.cases,
        "undecided": [
            {"case": name, "reason": reason} for name, reason in measure.undecided.items()
        ],
        "criteria": criteria,
    }


def _criterion_document(measure: CriterionMeasure, bound: float) -> dict[str, Any]:
    counts = measure.counts
    false_blocks_at_most = None
    if counts.clean:
        false_blocks_at_most = at_most(counts.clean_blocked, counts.clean)
    return {
        **plain(counts),
        "must": measure.criterion.must,
        "unsteady": counts.is_unsteady,
        "false_blocks": plain(counts.false_blocks),
        "false_blocks_at_most": false_blocks_at_most,
        "earned": earned(counts.clean, counts.clean_blocked, bound),
        "recall": plain(counts.recall),
        "precision": plain(counts.precision),
        "agreement": plain(counts.kappa),
        "flip_rate": plain(share(counts.flips, counts.cases)),
        "abstention_rate": plain(share(counts.abstained, counts.cases)),
        "tokens": plain(measure.tokens),
        "usd": plain(measure.usd),
        "without_second_look": plain(measure.without_second_look),
    }


# As text


def _label_counts(
    measure: RubricMeasure, criterion: CriterionMeasure, labels: Sequence[Label]
) -> dict[str, int]:
    """How many findings of the criterion and of this judge people in this clone call right, and
    wrong.
    """
    counts = {"right": 0, "wrong": 0}
    for label in labels:
        if label.is_about(measure.rubric, criterion.criterion.id, measure.baseline.model):
            counts["right" if label.right else "wrong"] += 1
    return counts


def _measure_lines(
    measure: RubricMeasure, path: str, bound: float, labels: Sequence[Label]
) -> Iterator[str]:
    baseline = measure.baseline
    repeats = max((criterion.counts.repeats for criterion in measure.measures), default=1)
    cases = counted(measure.cases, "case")
    if repeats > 1:
        cases += f" x {repeats}"
    yield f"{baseline.rubric} · {baseline.model} · {cases} · rubric {baseline.digest[:8]}"
    for criterion in measure.measures:
        yield from render_criterion_measure(criterion, bound)
        counts = _label_counts(measure, criterion, labels)
        if any(counts.values()):
            yield f"    labels of this clone: {counts['right']} right, {counts['wrong']} wrong"
    undecided = list(measure.undecided.items())
    for name, reason in undecided[:_UNDECIDED_SHOWN]:
        yield f"  undecided: {name}: {reason}"
    if len(undecided) > _UNDECIDED_SHOWN:
        yield f"  undecided: {len(undecided) - _UNDECIDED_SHOWN} more"
    if undecided:
        number = counted(len(undecided), "case")
        yield f"  {number} undecided, so no baseline was written; run it again."
    elif path:
        yield f"  written: {path}"


def render_criterion_measure(measure: CriterionMeasure, bound: float) -> Iterator[str]:
    """What was measured of a criterion, line by line; `bound`: the false blocks that blocking
    allows.
    """
    counts, unlooked = measure.counts, measure.without_second_look
    name = counts.id
    if measure.criterion.must:
        name += " (must)"
    if counts.is_unsteady:
        name += ": unsteady"
    yield f"  {name:<42} 95 % interval"
    yield _share("false blocks", counts.clean_blocked, counts.clean, counts.false_blocks)
    yield _share("found", counts.found, counts.defective, counts.recall)
    yield _share("precision", counts.found, counts.found + counts.clean_blocked, counts.precision)
    yield _figure("agreement (kappa)", counts.kappa, "{:.2f}")
    if counts.repeats > 1:
        yield _share("flips", counts.flips, counts.cases, share(counts.flips, counts.cases))
    yield _share("abstained", counts.abstained, counts.cases, share(counts.abstained, counts.cases))
    yield _figure("tokens a case", measure.tokens, "{:,.0f}")
    yield _figure("USD a case", measure.usd, "{:.4f}")
    if unlooked != counts:
        yield (
            f"    without second look: {unlooked.clean_blocked} of {unlooked.clean} clean blocked, "
            f"{unlooked.found} of {unlooked.defective} found"
        )
    yield f"    {_clean(counts)}"
    if measure.criterion.must:
        yield f"    {_blocking(counts, bound)}"


def _share(name: str, hits: int, cases: int, interval: Interval | None) -> str:
    line = f"    {name:<18}{f'{hits} of {cases}':>12}"
    if interval is None:
        return f"{line}       -"
    return f"{line}{interval.value:8.1%}   {interval.low:.1%} to {interval.high:.1%}"


def _figure(name: str, interval: Interval | None, form: str) -> str:
    line = f"    {name:<18}"
    if interval is None:
        return f"{line}{'-':>20}"
    value = form.format(interval.value)
    low, high = form.format(interval.low), form.format(interval.high)
    return f"{line}{value:>20}   {low} to {high}"


def _clean(counts: CriterionBaseline) -> str:
    """How often it can block a clean change, at the most."""
    if not counts.clean:
        return "no clean case, so nothing is known about false blocks"
    blocked = f"{counts.clean_blocked} blocked" if counts.clean_blocked else "none blocked"
    most = at_most(counts.clean_blocked, counts.clean)
    return f"clean cases: {counts.clean}, {blocked}: at most {most:.1%} false blocks (95 %)"


def _blocking(counts: CriterionBaseline, bound: float) -> str:
    """Whether these cases alone earn blocking, or how many more would."""
    if earned(counts.clean, counts.clean_blocked, bound):
        return f"earns blocking: false blocks are under {bound:.0%}"
    needed, blocked = clean_needed(counts.clean_blocked, bound), counts.clean_blocked
    return f"does not earn blocking yet: {needed} clean cases with {blocked} blocked would"


CALIBRATE = Command(
    "Measure the judges of rubrics on the labelled cases in .vibe-gate/cases/: how often they block clean changes, "
    "what they find, how steady they are and what they cost; write the figures to .vibe-gate/baseline/.",
    (
        argument(
            "rubrics",
            nargs="*",
            metavar="RUBRIC",
            help="only cases of these rubrics (default: all)",
        ),
        argument(
            "--repeat",
            type=whole_number,
            metavar="N",
            help=f"times each case is asked, at most {MAX_REPEATS} (default: the baseline's, or 1)",
        ),
        argument(
            "--jobs",
            type=whole_number,
            default=JOBS,
            metavar="N",
            help=f"cases at a time (default: {JOBS})",
        ),
        argument(
            "--max-cost-usd",
            type=parse_positive,
            metavar="X",
            help="spend at most X US dollars in all",
        ),
        argument(
            "--wire",
            choices=WIRE_MODES,
            default="live",
            help="ask the model, or record its answers into the cases' cassettes, or replay these (default: live)",
        ),
        argument(
            "--from-history",
            metavar="A..B",
            help="measure nothing; propose commits of that range to label, and write those that you label as cases",
        ),
        argument(
            "--criterion", metavar="ID", help="which question the labels of --from-history answer"
        ),
        SHARD,
        CLUSTER,
        JSON,
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate calibrate                          every rubric with labelled cases
  vibe-gate calibrate quality --repeat 3       and how often answers flip
  vibe-gate calibrate --max-cost-usd 5         stop before 5 dollars are spent
  vibe-gate calibrate --from-history v1.0..    label commits, for cases

Answers are kept: after Ctrl-C, or a budget that was used up, the same command
goes on, and asking the same again costs nothing.

exit codes: 0 measured, 2 a mistake in a case, 3 a case that was not decided
""",
)
