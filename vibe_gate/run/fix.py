"""Repairing what a stored run found: the change that the repair begins with, and what its agents
are shown besides.

    run -> the reviewed trees, or the files as they are by now -> the workflow `fix`, gated by the
    run's rubrics

Its agents are shown the change, and the sessions in which it was made: captured ones of other
programs, by the contents that they wrote, and those of our own agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain.bundles import Provenance, RunEntry
from vibe_gate.domain.change import EMPTY_TREE, Change, ChangeKind, Selection
from vibe_gate.domain.escape import list_names, without_middle
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import POLICY_CHANGED, GateError, StorageError
from vibe_gate.gate.prompts import sessions_until
from vibe_gate.git import Repository
from vibe_gate.report.finding_list import ReviewedRound
from vibe_gate.run.kept_session import sessions_of
from vibe_gate.run.repair_brief import RepairedReview
from vibe_gate.run.replay import NOT_HERE, StoredRun, read_stored_run, stored_change
from vibe_gate.run.stage_request import Material, questions_in
from vibe_gate.sessions import SessionMeta
from vibe_gate.store import captures
from vibe_gate.store.captured_turns import CapturedToolCall, CapturedTurn, captured_turns_of
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.worktree_bundles import Bundles

MAX_SESSION = 20_000
"""Characters of one session that a fixer is shown: more is cut from the middle."""

MAX_SESSIONS = 5
"""Sessions that it is shown, those that wrote last: more would leave no room for the code."""

MAX_CALL = 200
"""Characters of one tool call."""


SHOWN_POLICY_FILES = 3
"""Of the files that decide about the gate, in one sentence."""


class Repair(Struct, frozen=True):
    """What the repair of a stored run begins with."""

    run: StoredRun

    change: Change

    remark: str
    """A sentence if these are not the reviewed files, or ""."""

    def review(self, request: ReviewRequest) -> ReviewRequest:
        """The request, by the rubrics that reviewed the run."""
        rubric_ids = tuple(rubric.id for rubric in self.run.summary.rubrics)
        return replace(request, rubrics=rubric_ids)

    def findings(self, gate: Gate) -> RepairedReview:
        """What the run found and files can repair. `gate`: the one in force."""
        summary = self.run.summary
        reviewed = ReviewedRound(
            number=0,
            rubrics=summary.rubrics,
            findings=gate.repairable(summary.findings),
            questions=questions_in(gate.rubrics),
        )
        return RepairedReview(f"What run {summary.run_id} found", summary.change.after, reviewed)


def nothing_to_fix(summary: Summary) -> str:
    """Why there is nothing to repair in a run with this summary, or ""."""
    if summary.outcome == "fail":
        return ""
    if summary.outcome == "pass" and summary.exit_code == POLICY_CHANGED:
        return f"There is nothing for an agent to fix: {approval_needed(summary)}."
    if summary.extent == "nothing":
        return f"Nothing was reviewed in run {summary.run_id}, so there is nothing to fix."
    if summary.outcome == "pass":
        return f"Run {summary.run_id} passed; there is nothing to fix."
    return (
        f"Run {summary.run_id} has no verdict ({summary.outcome}), so there is nothing to fix; "
        "review again."
    )


def nothing_in_files(summary: Summary, gate: Gate) -> str:
    """Why no change of files can repair a run with this summary, which fails, or "". `gate`: by
    which it was reviewed.
    """
    blocking = [finding for finding in summary.findings if finding.level == "failure"]
    if not blocking or gate.repairable(blocking):
        return ""
    criteria = dict.fromkeys(finding.criterion for finding in blocking)
    return (
        f"There is nothing to repair in files: run {summary.run_id} fails for what a session ran or "
        f"said ({list_names(criteria, SHOWN_POLICY_FILES)}). Have the agent run the tests, or "
        "correct what it said, then review again."
    )


def approval_needed(summary: Summary) -> str:
    """What a run with exit code 4 waits for, as a clause for people."""
    policy_paths = dict.fromkeys(change.path for change in summary.policy_changes)
    names = list_names(policy_paths, SHOWN_POLICY_FILES)
    return (
        f"run {summary.run_id} needs a person's approval, because the change edits the gate "
        f"({names}): ask a maintainer, or run `vibe-gate override policy --reason TEXT`"
    )


def repair_of(repository: Repository, run_id: str, now: datetime) -> Repair:
    """The repair of the run. StorageError, IntegrityError, RevisionError: it is not here, or its
    change cannot be had.

    It begins with the reviewed files. If these were not committed, and are neither in the index nor
    in the working tree any more, it begins with the working tree as it is now.
    """
    provenance = Provenance(now, repository.tracked_in_store())
    entry = next(iter(Bundles(repository.store_root, provenance).find(run=run_id)), None)
    if entry is None:
        raise StorageError(f"Run {run_id} cannot be fixed: {NOT_HERE}.")
    run = read_stored_run(repository, RunEntry(entry.run_id, entry.key), now)
    reviewed = run.summary.change
    current_tree = repository.snapshot()
    if reviewed.head_commit:
        remark = ""
        if current_tree != reviewed.after:
            remark = (
                f"The patch is for the files of commit {reviewed.head_commit[:12]}, and your "
                "working tree has others: use git apply -3."
            )
        return Repair(run, stored_change(repository, run), remark)
    kind: ChangeKind | None = "worktree" if current_tree == reviewed.after else None
    if run.kind == "staged" and repository.index_tree() == reviewed.after:
        kind = "staged"
    if kind is not None:
        change = replace(
            stored_change(repository, run),
            kind=kind,
            base_commit=reviewed.base_commit,
            patch_id=reviewed.patch_id,
        )
        return Repair(run, change, "")
    base = reviewed.base_commit or "HEAD"
    if not reviewed.base_commit and reviewed.before == EMPTY_TREE:
        base = EMPTY_TREE
    change = repository.change(Selection("worktree", base))
    return Repair(run, change, _remark_on_current_files(run_id, run, current_tree))


def _remark_on_current_files(run_id: str, run: StoredRun, current_tree: str) -> str:
    """Why the repair begins with the working tree as it is now."""
    change = run.run_document.get("change")
    if isinstance(change, dict) and change.get("after") == current_tree:
        return (
            f"What the agents of run {run_id} changed is not in your files; "
            "the repair began without it."
        )
    return (
        f"Your files changed since run {run_id} reviewed them; "
        "the repair began with them as they are now."
    )


# What the fixer is shown besides the verdict


def how_it_was_made(
    repository: Repository, change: Change, run: RunContext, fixed_run: str
) -> Iterator[Material]:
    """The sessions that made the change. `fixed_run`: the id of the run that is fixed, "" if none
    is.

    What cannot be read is left out. It may not leave the clone.
    """
    yield from _captured_sessions(repository, change, run)
    with suppress(GateError):
        yield from _agent_sessions(repository, change, run, fixed_run)


def _captured_sessions(
    repository: Repository, change: Change, run: RunContext
) -> Iterator[Material]:
    """The captured sessions that wrote contents of the change, each until it last wrote one."""
    last_writes = sessions_until(change.files, run.state.captured_blobs.last_writes())
    roots = repository.capture_roots()
    oldest_first = sorted(last_writes, key=lambda session: last_writes[session])
    for session in oldest_first[-MAX_SESSIONS:]:
        turns = captured_turns_of(roots, session)
        text = "\n".join(_describe_turns(turns, last_writes[session]))
        if not text:
            continue
        name = f"{captures.agent_title(session)}, session {captures.own_id(session)[:8]}"
        prompts = tuple(turn.prompt for turn in turns)
        title = f"How the change was made: {name}"
        yield Material(title, without_middle(text, MAX_SESSION), prompts)


def _describe_turns(turns: Iterable[CapturedTurn], until: int) -> Iterator[str]:
    """What was asked and which tools were called, until then: ms since the epoch."""
    for turn in turns:
        if turn.at.timestamp() * 1000 > until:
            return
        if turn.prompt:
            yield f"Turn {turn.turn}. A person asked:\n{turn.prompt}\n"
        for call in turn.calls:
            yield _describe_call(call)


def _describe_call(call: CapturedToolCall) -> str:
    line = f"- {call.tool} {call.subject[:MAX_CALL]}"
    if call.failed:
        return f"{line} (failed)"
    return line


def _agent_sessions(
    repository: Repository, change: Change, run: RunContext, fixed_run: str
) -> Iterator[Material]:
    """The sessions of our own agents whose turns left the reviewed files, or are part of the run
    that is fixed.

    Those that did not begin in this clone are left out.
    """
    bundles = Bundles(repository.store_root, Provenance(run.clock(), repository.tracked_in_store()))
    sessions = sessions_of(run)
    for meta in filter(sessions.is_begun, sessions.all()):
        turn_count = 0
        for number, turn in enumerate(meta.turns, 1):
            if turn.after == change.after or (fixed_run and turn.run == fixed_run):
                turn_count = number
        text = "\n".join(filter(None, _read_logs(bundles, meta, turn_count)))
        if text:
            title = f"How the change was made: {meta.agent}, session {meta.id}"
            yield Material(title, without_middle(text, MAX_SESSION))


def _read_logs(bundles: Bundles, meta: SessionMeta, turn_count: int) -> list[str]:
    """The logs of the first turns of a session, without those that cannot be read."""
    logs = []
    for turn in meta.turns[:turn_count]:
        with suppress(GateError):
            for entry in bundles.find(run=turn.run):
                logs.append(read_bundle(bundles.root / entry.bundle).log(turn.node))
    return logs
