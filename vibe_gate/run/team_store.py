"""The store that a team shares, as a run uses it: named by the gate at the trusted revision, and
used by who has the team's key. Nothing of it is loaded where the gate names none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import World
from vibe_gate.domain.bundles import Provenance, RunEntry, is_evidence
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.summary import Summary
from vibe_gate.gate.trusted import unconfirmed_store, unknown_branch
from vibe_gate.git import Repository

if TYPE_CHECKING:
    from vibe_gate.store.shared_store import SharedStore


class UnsharedRun(Struct, frozen=True):
    """A sealed run that goes to the shared store when people have its verdict."""

    summary: Summary

    root: Path
    """The folder whose `.vibe-artifacts` has the run."""

    tracked: Collection[str]
    """Files of the store that git tracks."""

    store: SharedStore

    clock: Callable[[], datetime]

    def upload(self) -> tuple[str, ...]:
        """Upload it, in bounded time; sentences about what failed."""
        self.store.upload(self.root, self.tracked, self.summary)
        return self.store.take_remarks()


def share_answers(gate: Gate, request: ReviewRequest, repository: Repository, world: World) -> str:
    """Let the run share answers, if the gate names a store and this environment has the key; "", or
    why not.

    Without a key nothing is said but in CI, where a secret may have been forgotten: not everybody
    is of the team. A replay shares nothing: its definitions are whichever the user named. Nor does
    what cassettes answer.
    """
    if world.state.answers.shared is not None:  # by an earlier review of this process
        world.state.answers.shared.begin()
        return ""
    url = gate.store_url
    if not url or not request.mode.counts:
        return ""
    from vibe_gate.store.shared_store import SharedStore  # few gates have a store

    if request.wire.mode != "live":
        return ""
    access = world.environment.store
    problem = SharedStore.unusable(url, access)
    if problem:
        return problem if world.environment.in_ci else ""
    problem = unconfirmed_store(repository, url)
    if problem:
        return problem
    problem = unknown_branch(repository, request.base, request.definitions)
    if problem:
        return f"The shared store {url} is not used: {problem}"
    world.state.answers.shared = SharedStore(url, access, world.clock)
    return ""


def run_to_share(summary: Summary, repository: Repository, world: World) -> UnsharedRun | None:
    """The run as it is to be uploaded; None if no store is shared, of checks alone about
    uncommitted work, and of one that stays here.
    """
    shared = world.state.answers.shared
    if shared is None or not summary.bundle or not is_evidence(summary.key, summary.cost.basis):
        return None
    if not _may_leave(summary, repository, world):
        return None
    return UnsharedRun(
        summary, repository.store_root, repository.tracked_in_store(), shared, world.clock
    )


def _may_leave(summary: Summary, repository: Repository, world: World) -> bool:
    from vibe_gate.store.worktree_bundles import Bundles  # few gates have a store

    bundles = Bundles(
        repository.store_root, Provenance(world.clock(), repository.tracked_in_store())
    )
    return bundles.may_leave(RunEntry(summary.run_id, summary.key))


def store_notes(world: World) -> tuple[str, ...]:
    """Sentences about the shared store that nobody was told yet."""
    if not world.state.answers.shared:
        return ()
    return world.state.answers.shared.take_remarks()
