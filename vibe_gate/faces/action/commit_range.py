"""Which commits an event asks to compare, and that they are here: a checkout may be too shallow to have them."""

from __future__ import annotations

import re
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.escape import ended
from vibe_gate.domain.verdict import DETAILS
from vibe_gate.errors import RevisionError, UsageError
from vibe_gate.faces.action.event import Trigger
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.git import Credentials, Repository

SHORT = 12

_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_BRANCH = re.compile(r"(?:refs/heads/|refs/remotes/origin/|origin/)?([^~^@:]*)")
"""A revision's branch, without `refs/...` before it and steps back (`~2`) after it."""

DEEPER = "Set `fetch-depth: 0` at actions/checkout."


class CommitRange(Struct, frozen=True):
    """What is compared: the commits `before`..`head`; definitions are read at `trusted` (None: as a review finds it).

    `repeat` is the range for `vibe-gate review` in a clone; `notes` say what was decided on the way. `before` "" with a
    note: there is nothing to review.
    """

    before: str
    head: str
    trusted: str | None = None
    repeat: str = ""
    notes: tuple[str, ...] = ()


BY_HAND = ("workflow_dispatch", "schedule")
"""Events that are about no change of their own."""


def range_of(repository: Repository, trigger: Trigger, inputs: Inputs, credentials: Credentials) -> CommitRange:
    """The commits of an event, or those between the inputs `base` and `head`, revisions; "" for the event's own.

    UsageError if they are not here and cannot be fetched, or if the event has a head of its own to review.
    """
    base = inputs.base
    if inputs.head and trigger.kind not in BY_HAND:
        raise UsageError(f"The input head is for {' and '.join(BY_HAND)}: what this event brought is reviewed here.")
    if inputs.head:
        head = _Checkout(repository, trigger, credentials).named(inputs.head, "head")
        trigger = trigger.model_copy(update={"head": head})
    if not trigger.head:
        return CommitRange("", "", notes=("The branch was deleted: there is nothing to review.",))
    checkout = _Checkout(repository, trigger, credentials)
    if base:
        return checkout.since_parting(checkout.named(base))
    if trigger.kind == "push":
        return _pushed(checkout, trigger)
    if trigger.kind in BY_HAND:
        if checkout.default() == trigger.head:
            raise UsageError(
                "This run is on the tip of the default branch: the input `base` must say what to review from."
            )
        return checkout.since_parting(checkout.default())
    found = checkout.since_parting(trigger.base)
    # Of a merge group all commits between were needed for their authors.
    return checkout.between(trigger.base, trigger.base) if trigger.kind == "merge_group" else found


def _pushed(checkout: _Checkout, trigger: Trigger) -> CommitRange:
    """What a push brought: from the commit that was there before, if that is still known and part of history."""
    on_default, before = trigger.branch == f"refs/heads/{trigger.default_branch}", trigger.base
    is_known, why = False, "a new branch"
    if before:
        checkout.reach(before, trigger.head)
        is_known = checkout.repository.has(before)
        if is_known and not (trigger.forced and not checkout.repository.is_ancestor(before, trigger.head)):
            checkout.need(before, trigger.head)
            return checkout.between(before, before if on_default else checkout.default_parting())
        lost = f"a force push replaced {before[:SHORT]}"
        why = lost if is_known else f"the commit before, {before[:SHORT]}, is gone (a force push)"
    if not on_default:
        found = checkout.since_parting(checkout.default())
        note = f"Reviewed from where the branch left {paths.quote(trigger.default_branch)}: {why}."
    elif is_known:
        found = checkout.since_parting(before)
        note = f"Reviewed from where the old and the new history part: {why}."
    else:
        raise UsageError(f"Nothing is known to compare with: {why}. Run the gate with the input `base`.")
    return replace(found, notes=(*found.notes, note))


class _Checkout:
    """The checkout, and the way to what it does not have."""

    def __init__(self, repository: Repository, trigger: Trigger, credentials: Credentials) -> None:
        self.repository = repository
        self._trigger = trigger
        self._credentials = credentials

    def between(self, before: str, trusted: str | None) -> CommitRange:
        """From a commit to the event's head."""
        head = self._trigger.head
        return CommitRange(before, head, trusted, f"{before[:SHORT]}..{head[:SHORT]}")

    def reach(self, *commits: str) -> str:
        """Try to have the commits; "" or why one is missing."""
        return self.repository.fetch(commits, lambda: all(map(self.repository.has, commits)), self._credentials)

    def need(self, *commits: str) -> None:
        """Have the commits, or say what to set."""
        stopped = self.reach(*commits)
        if stopped:
            missing = next((one for one in commits if not self.repository.has(one)), commits[0])
            raise UsageError(
                f"The commit {missing[:SHORT]} is not in this checkout, and fetching it failed. {DEEPER}"
                f"{DETAILS}{ended(paths.quote(stopped))}"
            )

    def since_parting(self, left: str) -> CommitRange:
        """From where a commit and the event's head parted, with the definitions of that commit."""
        right = self._trigger.head
        self.need(left, right)
        before, stopped = self._parting(left)
        if not before:
            raise UsageError(
                f"Where {left[:SHORT]} and {right[:SHORT]} parted cannot be told in this checkout, and fetching more "
                f"did not help. {DEEPER}{DETAILS}{ended(paths.quote(stopped))}"
            )
        return CommitRange(before, right, left, f"{left[:SHORT]}...{right[:SHORT]}", self.repository.remarks)

    def named(self, revision: str, what: str = "base") -> str:
        """The commit that an id is, or a branch as the remote has it, or a tag if the remote has no such branch."""
        branch = _BRANCH.match(revision)
        if _COMMIT.match(revision):
            self.reach(revision)
        elif branch and not self._resolved(_remote(revision)):
            self.repository.fetch_branch(branch[1], self._credentials)
        found = ("" if _COMMIT.match(revision) else self._resolved(_remote(revision))) or self._resolved(revision)
        if found:
            return found
        raise UsageError(
            f"The {what} {paths.quote(revision)} names no branch, tag or commit in this checkout. {DEEPER}"
        )

    def default(self) -> str:
        """The tip of the default branch. UsageError if the remote does not say."""
        if found := self._default:
            return found
        name = paths.quote(self._trigger.default_branch or "?")
        raise UsageError(f"The default branch {name} is not in this checkout, and could not be fetched. {DEEPER}")

    @cached_property
    def _default(self) -> str:
        """As the remote has it now; "" if it does not say. Anybody can make a tag of that name."""
        self.repository.fetch_branch(self._trigger.default_branch, self._credentials)
        return self._resolved(_remote(self._trigger.default_branch or "HEAD"))

    def default_parting(self) -> str | None:
        """Where the pushed branch left the default branch, or that branch's tip; None if that branch is unknown."""
        return (self._parting(self._default)[0] or self._default) if self._default else None

    def _parting(self, left: str) -> tuple[str, str]:
        """Where a commit and the head parted, or "" and why more history could not be fetched."""
        commits = (left, self._trigger.head)
        stopped = self.repository.fetch(commits, lambda: bool(self._merge_base(*commits)), self._credentials)
        return self._merge_base(*commits), stopped

    def _merge_base(self, left: str, right: str) -> str:
        try:
            return self.repository.merge_base(left, right, f"{left[:SHORT]}...{right[:SHORT]}")
        except RevisionError:
            return ""

    def _resolved(self, revision: str) -> str:
        try:
            return self.repository.resolve(revision)
        except RevisionError:
            return ""


def _remote(revision: str) -> str:
    """The same revision, its branch the remote's."""
    branch = _BRANCH.match(revision)
    return f"refs/remotes/origin/{revision[branch.start(1) :] if branch else revision}"
