"""A run's bundle: opened, filled with the change first, sealed last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from types import MappingProxyType
from typing import Any

from msgspec.structs import asdict, replace

from vibe_gate import scratch
from vibe_gate.context.deadline import Deadline
from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import Meter
from vibe_gate.context.world import RunContext, World
from vibe_gate.domain import paths, unredacted_fields
from vibe_gate.domain.begun_run import resume_request
from vibe_gate.domain.change import LARGEST_CONTENT, Change, FileVersion, Side
from vibe_gate.domain.document import plain
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.waiver import Waiver
from vibe_gate.errors import GateError, InfrastructureError
from vibe_gate.git import Repository
from vibe_gate.judging.run_verdict import RunVerdict
from vibe_gate.receipts.issue_receipt import ReceiptIssuer
from vibe_gate.run.run_documents import describe_run
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import CloneState, open_state
from vibe_gate.store.store import open_store


def world_around(
    repository: Repository, clock: Callable[[], datetime], state: CloneState | None = None
) -> World:
    """The world of a run in this repository; `state` if its shared state is open already."""
    environment = repository.environment
    redactor = Redactor(environment.variables)
    store = open_store(repository.store_root, redactor, clock, repository.tracked_in_store)
    shared_state = state or open_state(repository.common_dir)
    return World(environment, clock, shared_state, store, redactor, repository.worktree)


def open_run(
    facts: Facts,
    world: World,
    deadline: Deadline,
    *,
    fields: Mapping[str, Any] = MappingProxyType({}),
    resume: str = "",
    meter: Meter | None = None,
) -> RunContext:
    """Open the bundle of a run.

    Args:
        facts: What it is about.
        world: Where it happens.
        deadline: When it must end.
        fields: What run.json says besides.
        resume: The id of a run that died, whose bundle is opened again.
        meter: Hears what the run costs.
    """
    key = facts.key
    if resume:
        record = world.store.reopen(key, resume, world.state.spending.of_run(resume))
    else:
        worktree = {"worktree": world.worktree} if world.worktree else {}
        run_document = describe_run(facts, {**fields, **worktree})
        record = world.store.begin(key, world.clock(), run_document)
        world.state.begun.note_run(
            record.run_id, world.worktree, resume_request(record.read_run_document() or {})
        )
    return RunContext(**asdict(world), record=record, deadline=deadline, meter=meter)


@contextmanager
def record_run(run: RunContext, facts: Facts, *, cleans: bool = True) -> Iterator[None]:
    """Carry out a run in this block. Interrupted or broken, what was written stays, marked, and is
    never a verdict.

    `cleans`: the store afterwards, if that is due.
    """
    try:
        yield
    except BaseException as error:
        run.record.abandon(str(error) if isinstance(error, GateError) else type(error).__name__)
        raise
    if not cleans or run.record.lost:
        return
    # A store that cannot be cleaned is no reason to lose a verdict.
    with suppress(InfrastructureError):
        cleaning = run.store.clean_if_due(facts.gate.file.retention)
        if cleaning is not None:
            run.state.begun.forget_runs(cleaning.deleted)
            scratch.remove_abandoned()


def record_contents(
    repository: Repository, change: Change, run: RunContext, *, with_names: bool = True
) -> None:
    """The change itself goes into the bundle first: whatever happens later, it says what was
    reviewed.

    A workflow names the contents of the change that it ends with, which its agents may have added
    to. Contents come before the patch: of a secret whose name is on another line they alone teach
    the redactor.
    """
    sides: list[tuple[Side, FileVersion, str]] = []
    for file in change.files:
        old_path = paths.quote(file.old_name) if with_names else ""
        new_path = file.shown_path if with_names else ""
        if file.before is not None:
            sides.append(("before", file.before, old_path))
        if file.after is not None:
            sides.append(("after", file.after, new_path))
    readable_versions = [version for _, version, _ in sides if version.size <= LARGEST_CONTENT]
    contents = repository.read_all(readable_versions)
    for side, version, path in sides:
        if version.size > LARGEST_CONTENT:
            run.record.keep_large_content(side, repository.digest(version), version.size, path)
        else:
            run.record.keep_content(side, next(contents), path)
    run.record.keep_patch(repository.patch(change))


def make_issuer(
    verdict: RunVerdict, summary: Summary, repository: Repository, run: RunContext
) -> ReceiptIssuer:
    """What makes the receipt of a run with this summary when it is sealed."""
    return ReceiptIssuer(
        repository,
        verdict.facts.change,
        verdict.facts.gate,
        run,
        summary,
        verdict.answers,
        verdict.impact.fingerprint,
        verdict.waivers,
        [],
    )


def seal_run(
    summary: Summary, waivers: Sequence[Waiver], issuer: ReceiptIssuer | None, run: RunContext
) -> Summary:
    """Write the verdict down; the summary comes back as it may be shown."""
    run.record.event(
        "verdict.decided",
        outcome=summary.outcome,
        exit_code=summary.exit_code,
        rubrics={rubric.id: rubric.outcome for rubric in summary.rubrics},
    )
    for waiver in waivers:
        run.record.event("override.recorded", **plain(waiver))
    written = run.record.seal(summary, issuer.make if issuer else None)
    if written is not None:
        return written
    redacted = unredacted_fields.redacted_summary(summary, run.redactor.value)
    return replace(redacted, bundle="")
