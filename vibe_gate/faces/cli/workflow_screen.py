"""What `vibe-gate run` prints when it has ended: the verdict, the stages, the patch, the agents' last
words.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence

from vibe_gate.domain.escape import counted, safe
from vibe_gate.errors import INCONCLUSIVE, PASS
from vibe_gate.faces.cli.output import COLUMNS, emit, wrapped
from vibe_gate.faces.cli.screen import print_document, render_verdict
from vibe_gate.report.screen_rows import LABEL
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.run_documents import summarize_change

MAX_FILES = 8
"""Files that a line names."""

MAX_ROWS = 5
"""Rows of what an agent said last."""

MAX_REPAIR_ROWS = 12
"""Rows of what an agent of a repair says of the findings."""

MAX_LEFT_ALONE_ROWS = 10
"""Rows of what an agent left alone."""

FULL_DISK = "not kept, because nothing can be written: free space or permissions, and run it again"


def present_workflow_run(workflow_run: WorkflowRun, *, as_json: bool = False) -> None:
    """Print the outcome: the JSON document, or the verdict, the stages with their cost, and how to
    apply the patch.

    Raises, after that, the error for which the patch was not applied.
    """
    review = workflow_run.review
    if as_json:
        print_document(review)
    else:
        verdict = render_verdict(review, _next_step(workflow_run), workflow_run.problem)
        rows = [
            *_wrap_rows(_stage_rows(workflow_run), LABEL),
            *_wrap_rows(_message_rows(workflow_run), 2),
            *_wrap_rows(_left_alone_rows(workflow_run), 2),
            *_wrap_rows(_patch_rows(workflow_run), LABEL),
        ]
        text = "".join(f"{row}\n" for row in rows)
        emit(f"{verdict}\n\n{text}")
    if workflow_run.unapplied is not None:
        raise workflow_run.unapplied


def _wrap_rows(rows: Iterator[str], indent: int) -> list[str]:
    columns = min(COLUMNS, shutil.get_terminal_size().columns)
    return [wrapped(row, columns, " " * indent) for row in rows]


def _next_step(workflow_run: WorkflowRun) -> str:
    exit_code = workflow_run.review.summary.exit_code
    if exit_code == PASS:
        return _after_pass(workflow_run)
    if exit_code == INCONCLUSIVE:
        return "vibe-gate bundles show --log, for what the agents did"
    return ""


def _after_pass(workflow_run: WorkflowRun) -> str:
    """What to do with the patch of a run that passed; "" if that is nothing."""
    if workflow_run.patch is None:
        return ""
    if not workflow_run.applied:
        return "apply the patch, as said below"
    if workflow_run.change is None or not workflow_run.staged:
        return ""
    words: dict[str, None] = {}
    for file in workflow_run.change.files:
        for name in file.names:
            path = os.path.relpath(workflow_run.review.root / name)
            words[shlex.quote(path)] = None
    return f"git add -- {' '.join(words)}"


def _stage_rows(workflow_run: WorkflowRun) -> Iterator[str]:
    """A line a stage, with what it and its judges cost; below an agent of a repair what it said."""
    repair_words = dict(workflow_run.repair_words)
    cost = workflow_run.review.summary.cost
    stages = [result.node for result in workflow_run.results]
    for result in workflow_run.results:
        prices = [usd for node, usd in cost.by_node.items() if _owner(node, stages) == result.node]
        price = ""
        if prices:
            price = f" · ${sum(prices):.4f}"
            if cost.basis == "unknown":
                price += " at most"
        yield f"stage     {result.node}: {result.displayed_outcome}{price}"
        rows = [row for row in repair_words.get(result.node, "").splitlines() if row.strip()]
        for row in rows[:MAX_REPAIR_ROWS]:
            yield f"{' ' * LABEL}{safe(row)}"
        if len(rows) > MAX_REPAIR_ROWS:
            yield f"{' ' * LABEL}… and {counted(len(rows) - MAX_REPAIR_ROWS, 'more line')}"
    for node, fate in workflow_run.unrun:
        yield f"stage     {node}: {fate}"


def _owner(node: str, stages: list[str]) -> str:
    """The stage that a node of the cost belongs to: itself, or the gate whose judge it is."""
    owners = [stage for stage in stages if node == stage or node.startswith(f"{stage}-")]
    return max(owners, key=len, default="")


def _patch_rows(workflow_run: WorkflowRun) -> Iterator[str]:
    """What agents changed, and where it is."""
    if workflow_run.change is None:
        yield "changed   nothing"
        return
    change = summarize_change(workflow_run.change)
    files = f"{counted(len(change.files), 'file')} +{change.added} −{change.deleted}"
    yield f"changed   {files} · {_list_names(workflow_run.names)}"
    if workflow_run.steers:
        effect = "affects agents, tests or the gate; --apply leaves all to you"
        yield f"look at   {_list_names(workflow_run.steers)}: {effect}"
    path = _patch_path(workflow_run)
    if workflow_run.applied:
        yield "applied   to the working tree"
    elif not path:
        yield f"patch     {FULL_DISK}"
    elif workflow_run.review.summary.exit_code == PASS:
        yield f"apply     git apply {'-3 ' if workflow_run.unapplied else ''}{path}"
    else:
        yield f"patch     {path} (not applied: the run did not pass)"


def _left_alone_rows(workflow_run: WorkflowRun) -> Iterator[str]:
    """What agents saw beside the findings and did not touch."""
    for note in workflow_run.left_alone:
        rows = [safe(row) for row in note.text.splitlines() if row.strip()]
        yield f"{note.node} saw this and left it alone:"
        for row in rows[:MAX_LEFT_ALONE_ROWS]:
            yield f"  {row}"
        if len(rows) > MAX_LEFT_ALONE_ROWS:
            yield f"  … and {counted(len(rows) - MAX_LEFT_ALONE_ROWS, 'more line')}: --json has all"
    if workflow_run.left_alone:
        yield ""


def _patch_path(workflow_run: WorkflowRun) -> str:
    """The patch's file as a word for a shell; "" if it could not be written."""
    if workflow_run.patch is None:
        return ""
    if workflow_run.patch.parent != workflow_run.bundle:
        return shlex.quote(os.path.relpath(workflow_run.patch))
    # The key of a run's folder makes a line too wide to copy, and the run's id is enough for a
    # shell to find it.
    store = shlex.quote(os.path.relpath(workflow_run.bundle.parent.parent))
    return f"{store}/*/{workflow_run.bundle.name}/made.patch"


def _list_names(names: Sequence[str]) -> str:
    words = [safe(name) for name in names[:MAX_FILES]]
    if len(names) > MAX_FILES:
        words.append("…")
    return ", ".join(words)


def _message_rows(workflow_run: WorkflowRun) -> Iterator[str]:
    """The last messages of the agents that nothing comes after: the whole of an only one that read,
    else its start.
    """
    is_whole = len(workflow_run.results) == 1 and workflow_run.change is None
    for node, text in workflow_run.said:
        rows = [safe(row) for row in text.strip().splitlines()]
        limit = len(rows) if is_whole else MAX_ROWS
        yield ""
        yield f"{node}:"
        for row in rows[:limit]:
            yield f"  {row}"
        if len(rows) > limit:
            yield "  …"
    if workflow_run.said:
        yield ""
