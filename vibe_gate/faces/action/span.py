"""Which commits an event asks to compare, and that they are here: a checkout may be too shallow to have them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vibe_gate.domain import paths
from vibe_gate.errors import RevisionError, UsageError
from vibe_gate.faces.action.event import Trigger
from vibe_gate.git import Credentials, Repository

SHORT = 12

_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_BRANCH = re.compile(r"(?:refs/heads/|refs/remotes/origin/|origin/)?([^~^@:]*)")
"""A revision's branch, without `refs/...` before it and steps back (`~2`) after it."""

DEEPER = "Set `fetch-depth: 0` at actions/checkout."


@dataclass(frozen=True, slots=True)
class Span:
    """What is compared: the commits `before`..`head`; definitions are read at `trusted` (None: as a review finds it).

    `repeat` is the range for `vibe-gate review` in a clone; `notes` say what was
    decided on the way. `before` "" with a note: there is nothing to review.
    """

    before: str
    head: str
    trusted: str | None = None
    repeat: str = ""
    notes: tuple[str, ...] = ()


def span_of(repository: Repository, trigger: Trigger, base: str, credentials: Credentials) -> Span:
    """The commits of an event. `base` is the input of that name, a revision, "" for the event's own.

    UsageError if they are not here and cannot be fetched.
    """
    if not trigger.head:
        return Span("", "", notes=("The branch was deleted: there is nothing to review.",))
    checkout = _Checkout(repository, credentials)
    if trigger.kind == "pull_request" or (trigger.kind == "merge_group" and base):
        from_ = checkout.named(base) if base else trigger.base
        return checkout.since_parting(from_, trigger.head, trusted=from_)
    if trigger.kind == "merge_group":
        checkout.since_parting(
            trigger.base, trigger.head, trusted=trigger.base
        )  # all commits between, for their authors
        return Span(trigger.base, trigger.head, trigger.base, f"{trigger.base[:SHORT]}..{trigger.head[:SHORT]}")
    if trigger.kind == "push" and not base:
        return _pushed(checkout, trigger)
    return _since(checkout, trigger, base)


def _since(checkout: _Checkout, trigger: Trigger, base: str) -> Span:
    """From the base that the workflow names, or the default branch."""
    from_ = checkout.named(base) if base else checkout.default(trigger)
    if from_ == trigger.head and not base:
        raise UsageError("This run is on the tip of the default branch: the input `base` must say what to review from.")
    return checkout.since_parting(from_, trigger.head, trusted=from_)


def _pushed(checkout: _Checkout, trigger: Trigger) -> Span:
    """What a push brought: from the commit that was there before, if that is still known and part of history."""
    on_default = trigger.branch == f"refs/heads/{trigger.default_branch}"
    why = "a new branch"
    if trigger.base:
        checkout.reach(trigger.base, trigger.head)
        if not checkout.repository.has(trigger.base):
            why = f"the commit before, {trigger.base[:SHORT]}, is gone (a force push)"
        elif trigger.forced and not checkout.repository.is_ancestor(trigger.base, trigger.head):
            why = f"a force push replaced {trigger.base[:SHORT]}"
        else:
            checkout.need(trigger.base, trigger.head)
            repeat = f"{trigger.base[:SHORT]}..{trigger.head[:SHORT]}"
            trusted = trigger.base if on_default else checkout.default_parting(trigger)
            return Span(trigger.base, trigger.head, trusted, repeat)
    if on_default:
        return _without_before(checkout, trigger, why)
    from_ = checkout.default(trigger)
    span = checkout.since_parting(from_, trigger.head, trusted=from_)
    note = f"Reviewed from where the branch left {paths.quote(trigger.default_branch)}: {why}."
    return Span(span.before, span.head, span.trusted, span.repeat, (*span.notes, note))


def _without_before(checkout: _Checkout, trigger: Trigger, why: str) -> Span:
    """A push to the default branch whose earlier tip is no part of it any more."""
    if trigger.base and checkout.repository.has(trigger.base):
        span = checkout.since_parting(trigger.base, trigger.head, trusted=trigger.base)
        note = f"Reviewed from where the old and the new history part: {why}."
        return Span(span.before, span.head, span.trusted, span.repeat, (*span.notes, note))
    raise UsageError(f"Nothing is known to compare with: {why}. Run the gate with the input `base`.")


class _Checkout:
    """The checkout, and the way to what it does not have."""

    def __init__(self, repository: Repository, credentials: Credentials) -> None:
        self.repository = repository
        self._credentials = credentials

    def reach(self, *commits: str) -> str:
        """Try to have the commits; "" or why one is missing."""
        return self.repository.fetch(commits, lambda: all(map(self.repository.has, commits)), self._credentials)

    def need(self, *commits: str) -> None:
        """Have the commits, or say what to set."""
        stopped = self.reach(*commits)
        if stopped:
            missing = next((one for one in commits if not self.repository.has(one)), commits[0])
            raise UsageError(
                f"The commit {missing[:SHORT]} is not in this checkout, and fetching it failed: "
                f"{paths.quote(stopped)}. {DEEPER}"
            )

    def since_parting(self, left: str, right: str, *, trusted: str) -> Span:
        """From where the two commits parted to `right`."""
        self.need(left, right)
        stopped = self.repository.fetch((left, right), lambda: bool(self._parting(left, right)), self._credentials)
        before = self._parting(left, right)
        if not before:
            raise UsageError(
                f"Where {left[:SHORT]} and {right[:SHORT]} parted cannot be told in this checkout, and fetching more "
                f"did not help: {paths.quote(stopped)}. {DEEPER}"
            )
        return Span(before, right, trusted, f"{left[:SHORT]}...{right[:SHORT]}", self.repository.remarks)

    def named(self, revision: str) -> str:
        """The commit that an id is, or a branch as the remote has it, or a tag if the remote has no such branch."""
        branch = _BRANCH.match(revision)
        if _COMMIT.match(revision):
            self.reach(revision)
        elif branch and not self._resolved(_remote(revision)):
            self.repository.fetch_branch(branch[1], self._credentials)
        found = ("" if _COMMIT.match(revision) else self._resolved(_remote(revision))) or self._resolved(revision)
        if found:
            return found
        raise UsageError(f"The base {paths.quote(revision)} names no branch, tag or commit in this checkout. {DEEPER}")

    def default(self, trigger: Trigger) -> str:
        """The tip of the default branch. UsageError if the remote does not say."""
        found = self._default(trigger)
        if found:
            return found
        name = paths.quote(trigger.default_branch or "?")
        raise UsageError(f"The default branch {name} is not in this checkout, and could not be fetched. {DEEPER}")

    def _default(self, trigger: Trigger) -> str:
        """As the remote has it now; "" if it does not say. Anybody can make a tag of that name."""
        self.repository.fetch_branch(trigger.default_branch, self._credentials)
        return self._resolved(_remote(trigger.default_branch or "HEAD"))

    def _resolved(self, revision: str) -> str:
        try:
            return self.repository.resolve(revision)
        except RevisionError:
            return ""

    def default_parting(self, trigger: Trigger) -> str | None:
        """Where the pushed branch left the default branch, or that branch's tip; None if that branch is unknown."""
        default = self._default(trigger)
        if not default:
            return None
        commits = (default, trigger.head)
        self.repository.fetch(commits, lambda: bool(self._parting(*commits)), self._credentials)
        return self._parting(*commits) or default

    def _parting(self, left: str, right: str) -> str:
        try:
            return self.repository.merge_base(left, right, f"{left[:SHORT]}...{right[:SHORT]}")
        except RevisionError:
            return ""


def _remote(revision: str) -> str:
    """The same revision, its branch the remote's."""
    branch = _BRANCH.match(revision)
    return f"refs/remotes/origin/{revision[branch.start(1) :] if branch else revision}"
