"""The conversation of an agent's turn: kept as a session, so that a later run can go on with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vibe_gate.agent import Conversation, TurnEnd, sessions
from vibe_gate.context.world import RunContext
from vibe_gate.domain.bundles import STORE
from vibe_gate.errors import StorageError
from vibe_gate.run.result import StageResult
from vibe_gate.run.tree import RunTree
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


class KeptConversation:
    """One turn's conversation, held from here to `close`; `given` is what the turn takes, None if it cannot be kept.

    That stops no agent but one that goes on with a session; `problem` says why it is not kept, or not whole.
    """

    def __init__(self, run: RunContext, root: Path, workspace: Path, goes_on: SessionMeta | None, **about: Any) -> None:  # noqa: ANN401
        """`goes_on`: the session that the turn goes on with; `about`: fields of SessionMeta of a new one.

        StorageError: that cannot be gone on with, as another process does.
        """
        self.given: Conversation | None = None
        self.problem = ""
        self._id = goes_on.session_id if goes_on else str(uuid.uuid4())
        try:
            self._sessions = kept = sessions_of(run)
        except StorageError as error:
            if goes_on is not None:
                raise
            self.problem = f"The conversation of {about['node']} is not kept: {error}"
            return
        self._run = run.record.run_id
        self._mirror = kept.open(workspace, sessions.project_key(workspace), **about, cwd=str(root), run=self._run)
        if goes_on is None:
            self.given = Conversation(store=self._mirror, session_id=self._id)
        elif self._mirror.hold(self._id).turns != goes_on.turns:
            self._mirror.close()
            raise StorageError(f"The session {goes_on.id} was just used by another process; try again.")
        else:
            if about["private"] > goes_on.private:
                self._mirror.change(self._id, private=True)
            last = goes_on.turns[-1].last if goes_on.turns else ""
            self.given = Conversation(store=self._mirror, resume=self._id, resume_at=last)

    def finish(self, end: TurnEnd, result: StageResult, patch: bytes) -> None:
        """Note how the turn ended, and what it made of the files."""
        cost = end.ending.cost
        try:
            came = self.given is not None and self._mirror.finish(
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
            if came and patch:
                self._keep_patch(f"{result.after}.patch", patch)
        except StorageError as error:
            self.problem = f"The conversation of {result.node} is not kept whole: {error}"

    def _keep_patch(self, name: str, patch: bytes) -> None:
        """Keep the patch that made a tree; of a tree that an earlier turn made, that turn's stays."""
        meta = self._mirror.hold(self._id)
        if not self._sessions.kept(meta, name):
            self._mirror.keep(self._id, name, patch)

    def close(self) -> None:
        """Let others go on with it."""
        if self.given is not None:
            self._mirror.close()


def go_on(kept: Sessions, meta: SessionMeta, tree: RunTree, own: str = "") -> str:
    """Begin with the files that the session left; why that cannot be, as a note for people, or "".

    They come from the workspace of the run that left them, or of `own`, the run that is resumed. In another clone,
    where that is not, they are made anew by the patches that the session keeps.
    """
    if not meta.turns or not meta.turns[-1].after:
        return ""
    known = {tree_id for turn in _turns(kept, meta) for tree_id in (turn.before, turn.after)}
    last = meta.turns[-1].after
    runs = (turn.run for turn in reversed(meta.turns) if turn.after == last)
    if any(tree.begin_at(last, run, known) for run in (own, *runs)):
        return ""
    patches: dict[str, tuple[str, bytes]] = {}
    for turn in meta.turns:
        if turn.before != turn.after and turn.after not in patches:  # a later turn has no patch of its own there
            patches[turn.after] = (turn.before, kept.kept(meta, f"{turn.after}.patch"))
    if tree.rebuild(last, patches, known):
        return ""
    return f"The files that {meta.id} left are not in this clone; it goes on with your files as they are."


def _turns(kept: Sessions, meta: SessionMeta) -> Iterator[Any]:
    """Those of the session, and of those that it was copied from."""
    by_id = {one.session_id: one for one in kept.all()}
    seen: set[str] = set()
    one: SessionMeta | None = meta
    while one is not None and one.session_id not in seen:
        seen.add(one.session_id)
        yield from one.turns
        one = by_id.get(one.parent_session_id)
