"""A finding disputed: the change that has it is reviewed once more, with an argument against it.

    run that has the finding -> the same two trees, as long as they are there -> a review in which a
    second look at the finding is shown the argument

The second look's answer is kept as others are, so every later review of the same trees counts it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.context.facts import Facts
from vibe_gate.context.mode import DisputeMode
from vibe_gate.context.world import RunContext
from vibe_gate.domain.change import Change, ChangeKind
from vibe_gate.domain.escape import expression, show_text
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.model_wire import read_wire
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import MAX_ARGUMENT, Finding
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.gate.stored import stored_finding
from vibe_gate.gate.trusted import gate_for
from vibe_gate.git import Repository
from vibe_gate.judging.disputable import why_undisputable
from vibe_gate.run.replay import StoredRun, read_stored_run, stored_change
from vibe_gate.run.review import StoredChange
from vibe_gate.run.run_documents import WORKFLOW

_SURROGATE = expression(r"[\ud800-\udfff]")


class DisputeAsked(Struct, frozen=True):
    """What somebody says against a finding."""

    finding: str
    """Its fingerprint, or the beginning of one."""

    argument: str


class PreparedDispute(Struct, frozen=True):
    """What the review of a dispute needs."""

    finding: Finding
    """As the newest run that has it says it."""

    stored: StoredChange

    mode: DisputeMode

    rubrics: tuple[str, ...]
    """Ids of those that reviewed the run."""


def prepare_dispute(
    repository: Repository, request: DisputeAsked, now: datetime
) -> PreparedDispute:
    """Look up what is disputed.

    UsageError: nothing or several findings are meant, there is nothing to dispute, the files are
    others by now, the model is to be recorded or replayed, or the argument is empty, too long or no
    UTF-8. StorageError, IntegrityError: the run that
    has the finding cannot be read.
    """
    if read_wire(repository.environment.variables).mode != "live":
        raise UsageError(
            "A dispute asks the model itself, once; unset VIBE_GATE_WIRE, which records or replays."
        )
    argument = " ".join(request.argument.split())
    if not argument:
        raise UsageError("The reason is empty; say which lines show that the finding is wrong.")
    if len(argument) > MAX_ARGUMENT:
        raise UsageError(
            f"The reason has {len(argument):,} characters; say it in {MAX_ARGUMENT:,} at most."
        )
    if _SURROGATE.search(argument):  # a byte of the command line that could not be kept
        raise UsageError("The reason has bytes that are no UTF-8; say it in UTF-8.")
    target = stored_finding(repository, request.finding, now)
    run = read_stored_run(repository, target.entry, now)
    finding = _finding_in(run.summary, target.fingerprint)
    if run.summary.workflow != WORKFLOW:
        raise UsageError(
            f"{finding.fingerprint} is a finding of the workflow {run.summary.workflow}; "
            "review the files that it left, and dispute what that finds."
        )
    _require_disputable(finding, run.summary, ())
    change = _current_change(repository, run)
    gate = _gate_of_run(repository, run, change)
    _require_disputable(finding, run.summary, gate.rubrics)
    user_name = show_text(repository.config("user.name") or "")
    by = next(iter(repository.environment.agents.values()), user_name)
    return PreparedDispute(
        finding,
        StoredChange(change, gate, _recall_nothing),
        DisputeMode(finding=finding.fingerprint, argument=argument, by=by),
        tuple(rubric.id for rubric in run.summary.rubrics),
    )


def _finding_in(summary: Summary, fingerprint: str) -> Finding:
    for finding in summary.findings:
        if finding.fingerprint == fingerprint:
            return finding
    raise StorageError(f"run {summary.run_id} has no finding {fingerprint} any more.")


def _require_disputable(finding: Finding, summary: Summary, rubrics: Iterable[Rubric]) -> None:
    """UsageError if there is nothing to dispute. What was disputed is: its answer is known."""
    if finding.second_look is not UNSET and finding.second_look.is_disputed:
        return
    reason = why_undisputable(finding, summary, rubrics)
    if reason:
        raise UsageError(f"{finding.fingerprint} cannot be disputed: {reason}.")


def _current_change(repository: Repository, run: StoredRun) -> Change:
    """The change of the run. UsageError if it was not committed, and neither the index nor the
    working tree has its files any more.
    """
    reviewed = run.summary.change
    if reviewed.head_commit:
        return stored_change(repository, run)
    kind: ChangeKind = "worktree"
    if run.kind == "staged" and repository.index_tree() == reviewed.after:
        kind = "staged"
    elif repository.snapshot() != reviewed.after:
        raise UsageError(
            f"The files changed since run {run.summary.run_id}, and a dispute is about the files as "
            "they are: review again, and dispute what that still finds."
        )
    change = stored_change(repository, run)  # git has the trees now
    return replace(change, kind=kind, base_commit=reviewed.base_commit, patch_id=reviewed.patch_id)


def _gate_of_run(repository: Repository, run: StoredRun, change: Change) -> Gate:
    """The gate in force, or the one that the run was told to take if that can be read."""
    gate = gate_for(repository, change, base=None, definitions=None)
    revision = run.summary.trusted.revision
    if revision in ("", gate.revision) or run.summary.trusted.bootstrap:
        return gate
    return gate_for(repository, change, base=None, definitions=revision)


def _recall_nothing(facts: Facts, run: RunContext) -> None:
    """What counts is what this clone was answered, not what the run's bundle says."""
