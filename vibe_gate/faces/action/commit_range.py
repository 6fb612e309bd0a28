"""Which commits an event asks to compare, and that they are here: a checkout may be too shallow to
have them.
"""

from __future__ import annotations

import re
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.cause import DETAILS
from vibe_gate.domain.escape import end_sentence
from vibe_gate.errors import RevisionError, UsageError
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.faces.action.trigger import Trigger
from vibe_gate.git import Credentials, Repository

SHORT = 12

_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_BRANCH = re.compile(r"(?:refs/heads/|refs/remotes/origin/|origin/)?([^~^@:]*)")
"""A revision's branch, without `refs/...` before it and steps back (`~2`) after it."""

DEEPER = "Set `fetch-depth: 0` at actions/checkout."


class CommitRange(Struct, frozen=True):
    """What is compared: the commits `before`..`head`."""

    before: str
    """"" with a note: there is nothing to review."""
    head: str
    trusted: str | None = None
    """Where definitions are read; None: where a review finds them."""
    repeat: str = ""
    """The range for `vibe-gate review` in a clone."""
    notes: tuple[str, ...] = ()
    """What was decided on the way."""


BY_HAND = ("workflow_dispatch", "schedule")
"""Events that are about no change of their own."""


def range_of(
    repository: Repository, trigger: Trigger, inputs: Inputs, credentials: Credentials
) -> CommitRange:
    """The commits of an event, or those between the inputs `base` and `head`, revisions; "" for the
    event's own.

    UsageError if they are not here and cannot be fetched, or if the event has a head of its own to
    review.
    """
    if inputs.head and trigger.kind not in BY_HAND:
        raise UsageError(
            f"The input head is for {' and '.join(BY_HAND)}: what this event brought is reviewed "
            "here."
        )
    if inputs.head:
        head = _Checkout(repository, trigger, credentials).find_commit(inputs.head, "head")
        trigger = trigger.model_copy(update={"head": head})
    if not trigger.head:
        return CommitRange("", "", notes=("The branch was deleted: there is nothing to review.",))
    checkout = _Checkout(repository, trigger, credentials)
    if inputs.base:
        return checkout.since_parting(checkout.find_commit(inputs.base))
    if trigger.kind == "push":
        return _pushed(checkout, trigger)
    if trigger.kind in BY_HAND:
        if checkout.default() == trigger.head:
            raise UsageError(
                "This run is on the tip of the default branch: the input `base` must say what to "
                "review from."
            )
        return checkout.since_parting(checkout.default())
    if trigger.kind == "merge_group":
        checkout.since_parting(trigger.base)  # all commits between are needed for their authors
        return checkout.between(trigger.base, trigger.base)
    return _proposed(checkout, trigger)


def _proposed(checkout: _Checkout, trigger: Trigger) -> CommitRange:
    """What a pull request brings to its base branch as that is now, with the definitions of the
    branch's tip.

    The event names a commit of the branch too, but that is often the tip of when the pull request
    was opened.
    """
    base = checkout.base_tip()
    proposed = checkout.since_parting(base.tip)
    if proposed.before == trigger.head and not checkout.reach(trigger.base):  # merged since
        proposed = checkout.since_parting(trigger.base)
    return replace(proposed, notes=(*proposed.notes, *base.notes))


def _pushed(checkout: _Checkout, trigger: Trigger) -> CommitRange:
    """What a push brought: from the commit that was there before, if that is still known and part
    of history.
    """
    repository, before = checkout.repository, trigger.base
    on_default = trigger.branch == f"refs/heads/{trigger.default_branch}"
    if before:
        checkout.reach(before, trigger.head)
    is_known = bool(before) and repository.has(before)
    if is_known and not (trigger.forced and not repository.is_ancestor(before, trigger.head)):
        checkout.need(before, trigger.head)
        return checkout.between(before, before if on_default else checkout.default_if_any())
    reason = _why_parted(before, is_known=is_known)
    if not on_default:
        commits = checkout.since_parting(checkout.default())
        branch = paths.quote(trigger.default_branch)
        note = f"Reviewed from where the branch left {branch}: {reason}."
    elif is_known:
        commits = checkout.since_parting(before)
        note = f"Reviewed from where the old and the new history part: {reason}."
    else:
        raise UsageError(
            f"Nothing is known to compare with: {reason}. Run the gate with the input `base`."
        )
    return replace(commits, notes=(*commits.notes, note))


def _why_parted(before: str, *, is_known: bool) -> str:
    """Why a push is not compared with the commit that was there before it."""
    if not before:
        return "a new branch"
    if is_known:
        return f"a force push replaced {before[:SHORT]}"
    return f"the commit before, {before[:SHORT]}, is gone (a force push)"


class BaseTip(Struct, frozen=True):
    """Where a pull request's base branch is, and what is not certain about that."""

    tip: str
    """The commit."""
    notes: tuple[str, ...] = ()


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
        return self.repository.fetch(
            commits, lambda: all(map(self.repository.has, commits)), self._credentials
        )

    def need(self, *commits: str) -> None:
        """Have the commits, or say what to set."""
        reason = self.reach(*commits)
        if reason:
            missing = [commit for commit in commits if not self.repository.has(commit)]
            name = (missing or commits)[0][:SHORT]
            raise UsageError(
                f"The commit {name} is not in this checkout, and fetching it failed. {DEEPER}"
                f"{DETAILS}{end_sentence(paths.quote(reason))}"
            )

    def since_parting(self, commit: str) -> CommitRange:
        """From where a commit and the event's head parted, with the definitions of that commit."""
        head = self._trigger.head
        self.need(commit, head)
        before, reason = self._parting(commit)
        if not before:
            raise UsageError(
                f"Where {commit[:SHORT]} and {head[:SHORT]} parted cannot be told in this "
                f"checkout, and fetching more did not help. {DEEPER}"
                f"{DETAILS}{end_sentence(paths.quote(reason))}"
            )
        commits = f"{commit[:SHORT]}...{head[:SHORT]}"
        return CommitRange(before, head, commit, commits, self.repository.remarks)

    def find_commit(self, revision: str, input_name: str = "base") -> str:
        """The commit that an id is, or a branch as the remote has it, or a tag if the remote has no
        such branch.
        """
        is_commit_id = _COMMIT.match(revision) is not None
        branch = _BRANCH.match(revision)
        if is_commit_id:
            self.reach(revision)
        elif branch:  # what a runner of one's own has of it may be old
            self.repository.fetch_branch(branch[1], self._credentials)
        commit = ""
        if not is_commit_id:
            commit = self._resolved(_remote(revision))
        commit = commit or self._resolved(revision)
        if not commit:
            raise UsageError(
                f"The {input_name} {paths.quote(revision)} names no branch, tag or commit in this "
                f"checkout. {DEEPER}"
            )
        return commit

    def default(self) -> str:
        """The tip of the default branch. UsageError if the remote does not say."""
        if self._default:
            return self._default
        name = paths.quote(self._trigger.default_branch or "?")
        raise UsageError(
            f"The default branch {name} is not in this checkout, and could not be fetched. {DEEPER}"
        )

    @cached_property
    def _default(self) -> str:
        """As the remote has it now; "" if it does not say. Anybody can make a tag of that name."""
        self.repository.fetch_branch(self._trigger.default_branch, self._credentials)
        return self._resolved(_remote(self._trigger.default_branch or "HEAD"))

    def default_if_any(self) -> str | None:
        """The tip of the default branch; None if the remote does not say."""
        return self._default or None

    def base_tip(self) -> BaseTip:
        """The tip of the pull request's base branch: as the remote has it, or else the newest that
        is known here.

        UsageError if there is a remote, and nothing that it gave says where the branch is.
        """
        branch = self._trigger.branch
        failure = self.repository.fetch_branch(branch, self._credentials)
        tracked = self._resolved(f"refs/remotes/origin/{branch}") if branch else ""
        if tracked and not failure:
            return BaseTip(tracked)
        tip = self._newer(tracked, self._merged_into())
        name, reason = paths.quote(branch or "?"), end_sentence(paths.quote(failure))
        if tip:
            note = (
                f"The base branch {name} could not be fetched, so this is against {tip[:SHORT]}: "
                f"{reason}"
            )
            return BaseTip(tip, (note,))
        if self.repository.has_remote("origin"):
            raise UsageError(
                f"The base branch {name} is not in this checkout, and could not be fetched. "
                f"{DEEPER} If the pull request has another base branch now, push or re-open it."
                f"{DETAILS}{reason}"
            )
        return BaseTip(self._trigger.base)

    def _merged_into(self) -> str:
        """The first parent of the commit by which GitHub merged the pull request for this job; ""
        without one.
        """
        merge, head = self._trigger.merge, self._trigger.head
        if not merge or not self.repository.has(merge):
            return ""
        parents = self.repository.parents(merge)
        if len(parents) == 2 and parents[1] == head:
            return parents[0]
        return ""

    def _newer(self, first: str, second: str) -> str:
        """The commit that has the other one in its history; the second if neither has."""
        if not first or not second:
            return first or second
        if self.repository.is_ancestor(second, first):
            return first
        return second

    def _parting(self, commit: str) -> tuple[str, str]:
        """Where a commit and the head parted, or "" and why more history could not be fetched."""
        head = self._trigger.head
        failure = self.repository.fetch(
            (commit, head), lambda: bool(self._merge_base(commit, head)), self._credentials
        )
        return self._merge_base(commit, head), failure

    def _merge_base(self, commit: str, head: str) -> str:
        try:
            return self.repository.merge_base(commit, head, f"{commit[:SHORT]}...{head[:SHORT]}")
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
    if branch:
        revision = revision[branch.start(1) :]
    return f"refs/remotes/origin/{revision}"
