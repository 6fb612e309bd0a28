"""`vibe-gate bundles`: stored runs listed, shown, measured, verified, repaired, kept, cleaned, exported, imported."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import OUTCOMES, STATES, STORE, RunEntry, Wanted
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import Retention
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
from vibe_gate.faces.cli.command import JSON, Command, argument, group, whole_number
from vibe_gate.faces.cli.output import complain, emit, emit_lines, emit_result, is_terminal, now
from vibe_gate.faces.cli.runs import RUN_ARGUMENT, RUN_HELP, STORE_OPTION, Named, StoredRuns, moment
from vibe_gate.faces.cli.team import push, runs_of
from vibe_gate.git import Repository, commit_columns
from vibe_gate.report.colours import STYLES
from vibe_gate.report.graph import graph_of
from vibe_gate.report.listing import NO_MATCHES, NO_RUNS, document, legend, narrowed, table
from vibe_gate.store import RunResult

_IS_COMMIT = re.compile(r"[0-9a-f]{40}").fullmatch
_FILTERS = ("outcome", "rubric", "author", "path", "since")


def _list(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if args.failed and args.outcome:
        raise UsageError("--failed is --outcome fail; give one of them.")
    wanted = Wanted(**{name: getattr(args, name) for name in _FILTERS if getattr(args, name) is not None})  # type: ignore[typeddict-item]
    if args.failed:
        wanted["outcome"] = "fail"
    with runs_of(args, environ) as stored:
        runs = stored.bundles.find(args.limit, **wanted)
    if args.json or not runs:
        return emit_result(args, {"bundles": list(map(document, runs))}, [NO_MATCHES if wanted else NO_RUNS])
    rows = table(runs, now(), titles_of(runs), is_screen=is_terminal())
    if is_terminal():
        _emit_table(rows, runs, environ)
    else:
        emit_lines(*("  ".join(row).rstrip() for row in rows))
    return PASS


def _emit_table(rows: Sequence[Sequence[str]], runs: Sequence[RunEntry], environ: Mapping[str, str]) -> None:
    """The list on a terminal, in colour if that takes it, with what its words mean."""
    from rich.text import Text  # a list in a pipe needs none

    from vibe_gate.faces.cli.screen import coloured

    width = shutil.get_terminal_size().columns
    heads, *told = narrowed(rows, width)
    lines = [Text("  ".join(heads), "bold")]
    for age, outcome, *rest in told:
        word = outcome.rstrip()
        after = "  ".join((outcome[len(word) :], *rest))
        lines.append(Text.assemble(f"{age}  ", (word, STYLES.get(word, "")), after))
    for line in lines:
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
    lines += [Text(), *(Text(line, "dim") for line in legend(runs, width))]
    emit(coloured(Text("\n").join(lines), width, environ) + "\n")


def titles_of(runs: Sequence[RunEntry]) -> dict[str, str]:
    """By key, the titles of the runs' commits that are here; of a tree, what it became, if not long ago."""
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


def _show(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with runs_of(args, environ) as stored:
        runs, meant = stored.opened(args.run)
        result, summary = _read(runs, meant)
        if args.log is not None:
            return _show_log(result, args.log)
        kept = runs.bundles.is_kept(meant.entry)
        if args.json or summary is None:
            return emit_result(args, _document(meant, result.state, kept, summary), _unsealed(meant, result, kept))
        from vibe_gate.faces.cli.screen import screen
        from vibe_gate.run.review import Review

        made = result.bundle_dir / "made.patch"
        then = f"git apply {os.path.relpath(made)}" if made.is_file() and not args.store else ""
        emit(screen(Review(_as_committed(runs, summary, args.run), _notes(meant, kept)), environ, then) + "\n")
        return PASS


def _as_committed(runs: StoredRuns, summary: Summary, reference: str | None) -> Summary:
    """The summary of a tree under its commit, if `reference` or HEAD is one that has it: nothing is left to commit."""
    with runs.repository() as repository:
        if repository is not None and summary.key.startswith("tree-"):
            for revision in filter(None, (reference, "HEAD")):
                with suppress(GateError):  # the id of a run, or no commit yet
                    commit = repository.resolve(revision)
                    if repository.tree_of(commit) == summary.change.after:
                        return replace(summary, key=commit)
    return summary


def _show_log(result: RunResult, node: str) -> int:
    """Print the transcript of the run's agents and judges, or of one node."""
    known = [one.id for one in result.graph().nodes if one.turns]
    if node and node not in known:
        raise UsageError(
            f"'{safe(node)}' is not a node with turns (there are: {', '.join(map(safe, known)) or 'none'})."
        )
    emit_lines(*result.log(node).splitlines() or ["No agent and no judge was asked."])
    return PASS


def _read(runs: StoredRuns, meant: Named) -> tuple[RunResult, Summary | None]:
    """The run and, if it has one, the summary. A run that is being deleted right now is not a corrupt one."""
    try:
        result = runs.read(meant)
        return result, result.summary if result.complete else None
    except GateError as error:
        if not (runs.root / meant.entry.bundle).exists():
            raise StorageError(f"Run {meant.entry.run_id} was just deleted by a cleaning.") from error
        raise


def _document(meant: Named, state: str, kept: bool, summary: Summary | None) -> dict[str, Any]:
    about = {name: getattr(meant.entry, name) for name in ("run_id", "key", "created_at", "bundle")}
    about |= {"state": state, "matched": meant.matched, "others": meant.others, "kept": kept}
    return about | {"summary": None if summary is None else json.loads(summary.to_json())}


def _notes(meant: Named, kept: bool) -> tuple[str, ...]:
    others = f"; {counted(meant.others, 'other run')} {'matches' if meant.others == 1 else 'match'} too"
    note = f"Run {meant.entry.run_id} of {meant.entry.created_at}, matched by {meant.matched}"
    return (f"{note}{others if meant.others else ''}.", *(["Kept: cleaning does not delete it."] if kept else []))


def _unsealed(meant: Named, result: RunResult, kept: bool) -> list[str]:
    what = "is still running" if result.state == "running" else "is incomplete: it ended before its verdict"
    text = [f"Run {meant.entry.run_id} {what}; it has no outcome."]
    for node in graph_of(result, None).nodes:
        text.append(f"  {node.id:<24} {node.status}{f' ({node.reason})' if node.reason else ''}")
    text += [f"bundle: {meant.entry.bundle}", *(f"note: {note}" for note in _notes(meant, kept))]
    if result.state == "incomplete" and "request" in result.about:
        text.append(f"next: vibe-gate resume {meant.entry.run_id}")
    return text


def _du(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    used = StoredRuns(environ).bundles.usage()
    return emit_result(args, to_builtins(used), _sizes(used))


def _sizes(used: StoreUsage) -> list[str]:
    text = [f"{'size':>14} {'runs':>6}  key"]
    text += [f"{_mb(key.size)} {key.runs:>6}  {key.key}" for key in used.keys]
    text += [f"{_mb(size)} {'':>6}  {name}/" for name, size in used.besides.items()]
    return [*text, f"{_mb(used.total)} in total"]


def _mb(size: int) -> str:
    return f"{size / 1_000_000:>11,.3f} MB"


ARCHIVE = "bundles.tar.gz"

MARKS = {"corrupt": "✗", "foreign": "✗", "untidy": "!", "incomplete": "·", "running": "·"}


_RUNS_ARGUMENTS = (argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: all runs)"), JSON)


def _verify(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with runs_of(args, environ) as runs:
        checked = runs.bundles.verify(runs.entries(args.runs))
    exit_code = PASS if checked.is_sound else INTEGRITY
    document = {"exit_code": exit_code, **_checked(checked)}
    lines = _shared_lines(checked) if args.store else [*map(_line, checked.problems), *_conclusion(checked)]
    return emit_result(args, document, lines, exit_code)


def _shared_lines(checked: Verified) -> list[str]:
    """As of a clone; the name of a run's object, hundreds of characters, in a line of its own."""
    wrong, lines = len(checked.problems), list[str]()
    for problem in checked.problems:
        run_id = problem.run.partition("/")[2]
        named = replace(problem, place=run_id) if run_id else problem
        lines += [_line(named), *([f"{'':13}{paths.quote(problem.place)}"] if run_id else [])]
    said = f"{counted(wrong, 'object')} not to be believed; the rest is what the team wrote" if wrong else "all genuine"
    return [*lines, f"Checked {counted(checked.runs, 'run')}, {counted(checked.contents, 'answer')}: {said}."]


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
    return [whole, "`vibe-gate bundles repair` repairs what it can and moves the rest aside; it deletes nothing."]


def _repair(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    runs = StoredRuns(environ)
    done = runs.bundles.repair(runs.entries(args.runs))
    exit_code = PASS if done.left.is_sound else INTEGRITY
    document = {
        "exit_code": exit_code,
        "mended": [{**_as_json(mended.problem), "done": mended.done} for mended in done.mended],
        "quarantine": _quarantine(done) or None,
        "left": _checked(done.left),
    }
    return emit_result(args, document, _repaired(done), exit_code)


def _quarantine(done: Repaired) -> str:
    return f"{STORE}/{done.quarantine}" if done.quarantine else ""


def _repaired(done: Repaired) -> list[str]:
    lines = [f"✓ {paths.quote(one.problem.place)}: {one.problem.why}; {one.done}" for one in done.mended]
    left = [problem for problem in done.left.problems if problem.state not in {"incomplete", "running"}]
    lines += [f"{_line(problem)} (not repaired)" for problem in left]
    if done.quarantine:
        lines.append(f"Moved files are in {_quarantine(done)}.")
    return lines or ["Nothing to repair."]


def _keep(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    runs = StoredRuns(environ)
    meant = runs.named(args.run)
    runs.bundles.keep(meant.entry, off=args.off)
    emit(f"{meant.entry.run_id} is {'no longer kept' if args.off else 'kept'} (matched by {meant.matched}).\n")
    if args.off and runs.bundles.is_kept(meant.entry):
        complain(f"note: a .vibe-keep beside it keeps every run of {meant.entry.key}.")
    return PASS


def _clean(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Delete runs by [retention], and with them the workspaces of runs that died."""
    gone = list[str]()
    with runs_of(args, environ) as runs, runs.repository() as repository:
        rules = Retention() if repository is None else _retention(repository)
        done = runs.bundles.clean(rules, args.dry_run)
        if repository is not None and not args.store:
            age = timedelta(days=min(rules.max_age_days, WORKSPACE_DAYS))
            gone = repository.remove_old_workspaces(now() - age, dry_run=args.dry_run)
    text = [f"workspace {name} {'would be ' if args.dry_run else ''}deleted" for name in gone]
    document = {"dry_run": args.dry_run, **to_builtins(done), "workspaces": gone}
    emit_result(args, document, [*text, *_cleaned(done, args.dry_run)])
    for error in () if args.json else done.errors:
        complain(f"vibe-gate: {safe(error)}")
    return INCONCLUSIVE if done.errors else PASS


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
    what = [counted(len(done.deleted), "run"), *(counted(number, one) for one, number in numbers.items() if number)]
    return [*text, f"{', '.join(what)} {verb}, {done.freed_mb:,.3f} MB {freed}."]


Pair = dict[str, str]
"""A run's id and key."""


def _export(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if args.all and args.runs:
        raise UsageError("--all exports every run; name no RUN with it.")
    as_traces = args.otlp is not None
    if as_traces and args.output:
        raise UsageError("--otlp writes no archive; leave -o out.")
    if args.contents and not as_traces:
        raise UsageError("--contents belongs to --otlp; an archive has everything.")
    with runs_of(args, environ) as runs:
        if args.all:
            chosen = [entry for entry in runs.bundles.find(replays=True) if entry.state == "sealed"]
        elif as_traces:
            chosen = list(dict.fromkeys(runs.own(reference).entry for reference in args.runs or [None]))
        else:
            chosen = runs.entries(args.runs) or [runs.named(None).entry]
        if not as_traces or args.contents:
            chosen = _may_leave(chosen, runs, all_runs=args.all)
        if as_traces:
            from vibe_gate.faces.cli.otlp import export_traces

            return export_traces(args, runs, chosen)
        output = args.output or ARCHIVE
        size = runs.bundles.export(chosen, Path(output))
    target = paths.quote(output)
    document = {"file": target, "runs": len(chosen), "size": size}
    return emit_result(args, document, [f"{target}: {counted(len(chosen), 'run')}, {size:,} bytes."])


def _may_leave(chosen: list[RunEntry], runs: StoredRuns, *, all_runs: bool) -> list[RunEntry]:
    """The runs without those that stay in this clone, which are said. UsageError: one of them was named."""
    staying = [entry for entry in chosen if runs.bundles.stays(entry)]
    why = "a model was shown what an agent was asked for here, which stays in this clone"
    if staying and not all_runs:
        raise UsageError(f"Run {staying[0].run_id} is not exported: {why}.")
    if staying:
        complain(f"vibe-gate: {counted(len(staying), 'run')} left out: {why}.")
    return [entry for entry in chosen if entry not in staying]


def _push(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    runs = StoredRuns(environ)
    done = push(runs, runs.entries(args.runs), environ)
    exit_code = INTEGRITY if not done.is_sound else INCONCLUSIVE if done.left else PASS
    uploaded = [_pair(run.place) for run in done.runs]
    document = {"exit_code": exit_code, "uploaded": uploaded, "answers": done.answers, "left": done.left}
    text = [f"{run['run_id']} uploaded, about {run['key']}" for run in uploaded]
    text.append(f"{counted(len(uploaded), 'run')} and {counted(done.answers, 'answer')} uploaded to {done.url}.")
    for problem in done.problems:
        complain(f"vibe-gate: {safe(problem)}")
    return emit_result(args, document, text, exit_code)


def _import(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    bundles, new, already, refused = StoredRuns(environ).bundles, list[Pair](), list[Pair](), list[str]()
    for file in args.files:
        try:
            done = bundles.import_archive(Path(file))
        except IntegrityError as error:
            if len(args.files) == 1:
                raise
            refused.append(f"{paths.quote(file)}: {error}")
            continue
        new += map(_pair, done.runs)
        already += map(_pair, done.already)
    text = [f"{run['run_id']} imported, about {run['key']}" for run in new]
    text += [f"{run['run_id']} already here, with the same content" for run in already]
    if len(text) > 1:
        text.append(f"{counted(len(new), 'run')} imported, {len(already):,} already here.")
    for sentence in refused:
        complain(f"vibe-gate: {safe(sentence)}")
    document = {"imported": new, "already": already} | ({"refused": refused} if refused else {})
    return emit_result(args, document, text, INTEGRITY if refused else PASS)


def _pair(place: str) -> Pair:
    key, _, run_id = place.partition("/")
    return {"run_id": run_id, "key": key}


SUBCOMMANDS = {
    "list": Command(
        "List runs, newest first.",
        (
            argument(
                "--outcome",
                choices=(*OUTCOMES, *STATES),
                metavar="WORD",
                help=f"only runs with this outcome or state: {', '.join((*OUTCOMES, *STATES))}",
            ),
            argument("--failed", action="store_true", help="only runs that failed, as --outcome fail"),
            argument("--rubric", metavar="ID", help="only runs that used this rubric"),
            argument("--author", choices=("agent", "human"), help="only changes written by one"),
            argument("--path", metavar="GLOB", help="only runs in which a changed path matches"),
            argument("--since", type=moment, metavar="WHEN", help="30d, 12h, 2w, or an ISO date (UTC)"),
            argument("--limit", type=whole_number, metavar="N", help="at most the newest N"),
            STORE_OPTION,
            JSON,
        ),
        _list,
    ),
    "show": Command(
        "Show one run: the newest, or RUN.",
        (
            RUN_ARGUMENT,
            argument(
                "--log", nargs="?", const="", metavar="NODE", help="what agents and judges said and did (one node)"
            ),
            STORE_OPTION,
            JSON,
        ),
        _show,
    ),
    "keep": Command(
        "Protect a run from cleaning.",
        (
            argument("run", metavar="RUN", help=RUN_HELP),
            argument("--off", action="store_true", help="do not protect it any more"),
        ),
        _keep,
    ),
    "clean": Command(
        "Delete runs that are too old, or the oldest while the disk is too full.",
        (
            argument("--dry-run", action="store_true", help="only print what would be deleted"),
            STORE_OPTION,
            JSON,
        ),
        _clean,
    ),
    "du": Command(
        "Show the disk usage of bundles by key, largest first.",
        (argument("--json", action="store_true", help="print one JSON document, in bytes"),),
        _du,
    ),
    "verify": Command("Check stored runs; exit 5 if anything is wrong.", (*_RUNS_ARGUMENTS, STORE_OPTION), _verify),
    "repair": Command(
        "Repair stored runs; move what cannot be repaired to quarantine. Deletes nothing.", _RUNS_ARGUMENTS, _repair
    ),
    "export": Command(
        "Write runs to one compressed archive, or as OpenTelemetry traces; each is verified first.",
        (
            argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: the newest)"),
            argument("--all", action="store_true", help="every sealed run"),
            argument("-o", "--output", metavar="FILE", help=f"the archive, a new file (default: {ARCHIVE})"),
            argument(
                "--otlp",
                metavar="FILE|URL",
                help="no archive but traces: a new file of OTLP JSON, or an endpoint (http://localhost:4318)",
            ),
            argument(
                "--contents", action="store_true", help="with prompts, answers, arguments and results in the traces"
            ),
            STORE_OPTION,
            JSON,
        ),
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
        _push,
    ),
    "import": Command(
        "Import the runs of archives, one after the other: all of it, or none if anything is wrong (exit 5).",
        (argument("files", nargs="+", metavar="FILE", help="archives that `bundles export` wrote"), JSON),
        _import,
    ),
}

BUNDLES = group(
    "Look at stored runs, keep them, check and repair them, move them and clean them up.",
    """\
examples:
  vibe-gate bundles list --limit 20    the newest twenty runs
  vibe-gate bundles list --failed --author agent --since 30d --path 'src/**'
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
