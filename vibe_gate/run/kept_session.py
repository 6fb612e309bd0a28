"""The session of an agent's turn, kept so that a later run can go on with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vibe_gate.agent import StoredSession, sdk_project_key
from vibe_gate.context.world import RunContext
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.wire import TurnResult
from vibe_gate.errors import StorageError
from vibe_gate.run.run_tree import RunTree
from vibe_gate.run.stage_result import StageResult
from vibe_gate.sessions import SessionMeta, Sessions


def sessions_of(run: RunContext) -> Sessions:
    """The sessions in the run's store. StorageError if nothing can be written there."""
    index = run.state.run_index(run.store.root / STORE / "sessions")
    return Sessions(run.store.sessions(), run.redactor.value, run.clock, index, run.state.begun)


def session_before(run: RunContext, name: str) -> tuple[Sessions, SessionMeta]:
    """All sessions, and the one that is named, as it was before this run. UsageError, StorageError.

    IntegrityError: it did not begin in this clone.
    """
    sessions = sessions_of(run)
    meta = sessions.find(name)
    sessions.require_begun(meta)
    earlier_turns = [turn for turn in meta.turns if turn.run != run.record.run_id]
    return sessions, replace(meta, turns=tuple(earlier_turns))


class KeptSession:
    """The session of one turn, held from here to `close`, so that a later run can go on with it.

    That it cannot be kept stops no agent but one that goes on with a session.
    """

    def __init__(
        self,
        run: RunContext,
        root: Path,
        workspace: Path,
        earlier: SessionMeta | None,
        **fields: Any,  # noqa: ANN401  of SessionMeta
    ) -> None:
        """`earlier`: the session that the turn goes on with; `fields`: of a new one.

        StorageError: that cannot be gone on with, as another process does.
        """
        self.stored: StoredSession | None = None
        """What the turn takes; None if it cannot be kept."""
        self.problem = ""
        """Why it is not kept, or not whole: a sentence for people."""
        self._id = earlier.session_id if earlier else str(uuid.uuid4())
        try:
            self._sessions = sessions_of(run)
        except StorageError as error:
            if earlier is not None:
                raise
            self.problem = f"The conversation of {fields['node']} is not kept: {error}"
            return
        self._run = run.record.run_id
        key = sdk_project_key(workspace)
        self._mirror = self._sessions.open(workspace, key, **fields, cwd=str(root), run=self._run)
        if earlier is None:
            self.stored = StoredSession(store=self._mirror, session_id=self._id)
            return
        if self._mirror.hold(self._id).turns != earlier.turns:
            self._mirror.close()
            raise StorageError(
                f"The session {earlier.id} was just used by another process; try again."
            )
        if fields["private"] > earlier.private:
            self._mirror.change(self._id, private=True)
        last = earlier.turns[-1].last if earlier.turns else ""
        self.stored = StoredSession(store=self._mirror, resume=self._id, resume_at=last)

    def finish(self, turn_result: TurnResult, result: StageResult, patch: bytes) -> None:
        """Note how the turn ended, and what it made of the files."""
        if self.stored is None:
            return
        cost = turn_result.cost
        try:
            has_messages = self._mirror.finish(
                self._id,
                before=result.before,
                after=result.after,
                usd=float(cost.usd),
                input_tokens=cost.input_tokens,
                output_tokens=cost.output_tokens,
                status=result.status,
                run=self._run,
                node=result.node,
            )
            if has_messages and patch:
                self._keep_patch(f"{result.after}.patch", patch)
        except StorageError as error:
            self.problem = f"The conversation of {result.node} is not kept whole: {error}"

    def _keep_patch(self, name: str, patch: bytes) -> None:
        """Keep the patch that made a tree; of a tree that an earlier turn made, that turn's
        stays.
        """
        meta = self._mirror.hold(self._id)
        if not self._sessions.read_file(meta, name):
            self._mirror.keep(self._id, name, patch)

    def close(self) -> None:
        """Let others go on with it."""
        if self.stored is not None:
            self._mirror.close()


def restore_files_of_session(
    sessions: Sessions, meta: SessionMeta, tree: RunTree, resumed_run: str = ""
) -> str:
    """Begin with the files that the session left; why that cannot be, as a note for people, or "".

    They come from the workspace of the run that left them, or of `resumed_run`, the run that goes
    on. In another clone, where that is not, they are made anew by the patches that the session
    keeps.
    """
    if not meta.turns or not meta.turns[-1].after:
        return ""
    session_trees: set[str] = set()
    for turn in _turns_with_origins(sessions, meta):
        session_trees |= {turn.before, turn.after}
    last_tree = meta.turns[-1].after
    run_ids = [turn.run for turn in reversed(meta.turns) if turn.after == last_tree]
    for run_id in (resumed_run, *run_ids):
        if tree.begin_with_tree_of_run(last_tree, run_id, session_trees):
            return ""
    patches: dict[str, tuple[str, bytes]] = {}
    for turn in meta.turns:
        # A later turn has no patch of its own to a tree that was there before.
        if turn.before != turn.after and turn.after not in patches:
            patches[turn.after] = (turn.before, sessions.read_file(meta, f"{turn.after}.patch"))
    if tree.begin_with_patches(last_tree, patches, session_trees):
        return ""
    return (
        f"The files that {meta.id} left are not in this clone; "
        "it goes on with your files as they are."
    )


def _turns_with_origins(sessions: Sessions, meta: SessionMeta) -> Iterator[Any]:
    """Those of the session, and of those that it was copied from."""
    by_id = {session.session_id: session for session in sessions.all()}
    visited: set[str] = set()
    session: SessionMeta | None = meta
    while session is not None and session.session_id not in visited:
        visited.add(session.session_id)
        yield from session.turns
        session = by_id.get(session.parent_session_id)
