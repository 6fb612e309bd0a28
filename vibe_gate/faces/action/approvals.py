"""Who lets something pass: changes of the gate by an approving review of exactly this commit,
findings by comments.

Both by people with write access who are none of the change's authors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from vibe_gate.domain.escape import counted
from vibe_gate.domain.provenance import Commit
from vibe_gate.domain.waiver import Waiver
from vibe_gate.errors import ForgeError
from vibe_gate.faces.action.comment_commands import AcceptedFinding, accepted_findings
from vibe_gate.faces.action.trigger import Trigger
from vibe_gate.forge import Approval, Comment, Forge, PullCommit

MAX_LISTED = 250
"""Commits of a pull request that GitHub lists; it names no account for the commits beyond them."""

WROTE = "wrote one of the commits"

MAX_NOTED = 5
"""Approvals that do not count and are noted one by one."""

_GITHUB = {"noreply@github.com": "web-flow"}
"""Who commits what people merge or edit on GitHub's pages."""

_CO_AUTHOR = re.compile(
    r"^[ \t]*co-authored-by[ \t]*:[^\n]*?<[ \t]*([^<>\n]+?)[ \t]*>", re.I | re.M
)
_NO_REPLY = re.compile(
    r"(?:(\d{1,15})\+)?([a-z0-9_-]{1,100}(?:\[bot\])?)@users\.noreply\.[a-z0-9.-]+\Z", re.I
)


class Approvals:
    """The review calls this if a change of the gate needs approval."""

    def __init__(
        self, forge: Forge | None, trigger: Trigger, commits: Callable[[], Sequence[Commit]]
    ) -> None:
        """`commits` reads all commits of the change; () if there are too many, or they are not
        here.
        """
        self._forge = forge
        self._trigger = trigger
        self._commits = commits
        self.notes: list[str] = []
        """Sentences about what could not be found out, or does not count."""

    def __call__(self) -> Waiver | None:
        """The approval, or None."""
        if self._forge is None or self._number is None:
            self.notes.append(
                "Approval of the gate's change cannot be looked up: there is no token, or no pull "
                "request."
            )
            return None
        try:
            return self._find_approval(self._forge, self._number)
        except ForgeError as error:
            self.notes.append(
                f"Whether the change of the gate is approved could not be read: {error}"
            )
            return None

    def overrides(self) -> tuple[Waiver, ...]:
        """The findings that people accepted of this head commit, by comments that stand as they
        were answered.
        """
        if self._forge is None or self._number is None:
            return ()
        try:
            return self._overrides(self._forge, self._number)
        except ForgeError as error:
            self.notes.append(f"Whether a comment accepts findings could not be read: {error}")
            return ()

    def _overrides(self, forge: Forge, number: int) -> tuple[Waiver, ...]:
        """The overrides that count; the others are noted, each finding once, and not where one of
        them counts.
        """
        _, head = self._author_and_head(forge, number)
        overrides = list(accepted_findings(forge.comments(number), head))
        if not overrides:
            return ()
        authors = self._authors(forge, number)
        waivers: list[Waiver] = []
        refusals: dict[str, list[str]] = {}
        for override in overrides:
            reason = self._why_refused(override.comment, authors, forge)
            if reason or override.comment is None:
                refusals.setdefault(reason, []).append(override.fingerprint)
            else:
                waivers.append(_waiver(override, override.comment.author))
        self._note_refusals(refusals, {waiver.finding for waiver in waivers})
        return tuple(waivers)

    def _note_refusals(
        self, refusals: Mapping[str, Sequence[str]], waived_ids: Collection[str]
    ) -> None:
        """Note which findings no override accepts, by the reason, each finding once."""
        settled_ids = set(waived_ids)
        for reason, fingerprints in refusals.items():
            open_ids = [name for name in dict.fromkeys(fingerprints) if name not in settled_ids]
            settled_ids.update(open_ids)
            if open_ids:
                names = ", ".join(name[:8] for name in open_ids)
                self.notes.append(f"The override of {names} does not count: {reason}.")

    def _why_refused(self, comment: Comment | None, authors: Accounts | None, forge: Forge) -> str:
        """Why the override of this comment does not count; "" if it does."""
        if comment is None:
            return "the comment that asked for it was edited or deleted"
        if authors is None:
            return "the authors of the change are not known"
        if authors.has(comment.author, comment.account):
            return f"@{comment.author} is an author of the change"
        if not forge.may_write(comment.author, comment.account):
            return f"@{comment.author} has no write access"
        return ""

    @property
    def _number(self) -> int | None:
        return self._trigger.number or self._trigger.queued

    def _author_and_head(self, forge: Forge, number: int) -> tuple[str, str]:
        """The pull request's author and head: people speak of its commit, not of the merge
        group's.
        """
        if self._trigger.number is not None:
            return self._trigger.author, self._trigger.head
        pull = forge.pull(number)
        return pull.author, pull.head_sha

    def _authors(self, forge: Forge, number: int) -> Accounts | None:
        """Everybody who has a part in the change; None if that is not known."""
        pull_commits, commits = forge.listed(number), self._commits()
        if not commits or len(pull_commits) >= MAX_LISTED:
            return None
        accounts = accounts_of(commits, _logins_by_address(pull_commits))
        logins = dict(accounts.logins)
        for pull_commit in pull_commits:
            logins |= {login: WROTE for _, login in pull_commit.people if login}
        author = self._author_and_head(forge, number)[0]
        if author:
            logins[author] = "opened the pull request"
        return Accounts(logins, accounts.ids)

    def _find_approval(self, forge: Forge, number: int) -> Waiver | None:
        """The newest approval that counts, if nobody who may asks for changes."""
        head = self._author_and_head(forge, number)[1]
        authors = self._authors(forge, number)
        if authors is None:
            self.notes.append(
                "No approval can count: not all authors of the change are known, because its "
                "commits are not in this checkout, or too many. Squash them, or split the pull "
                "request."
            )
            return None
        approvals = forge.approvals(number, head, authors=authors.logins, accounts=authors.ids)
        approvers = [approval.login for approval in approvals if not approval.flaw]
        objectors = ", ".join(f"@{login}" for login in forge.objections(number))
        if not approvers:
            self._note_flaws(approvals)
            if objectors:
                self.notes.append(f"Changes are requested by {objectors}.")
            return None
        approver = f"@{approvers[0]}"
        if objectors:
            self.notes.append(
                f"The approval by {approver} does not count while {objectors} asks for changes."
            )
            return None
        reason = f"their review of {head[:12]} approves it"
        return Waiver(finding="policy-", reason=reason, by=approver, expires=None)

    def _note_flaws(self, approvals: Sequence[Approval]) -> None:
        """Note why none of these approvals counts, the newest first."""
        if not approvals:
            return
        flaws = [f"@{approval.login} ({approval.flaw})" for approval in reversed(approvals)]
        omission = ""
        if len(flaws) > MAX_NOTED:
            omission = f" and {len(flaws) - MAX_NOTED} more"
        number = counted(len(flaws), "approval does", "approvals do")
        self.notes.append(f"{number} not count: {'; '.join(flaws[:MAX_NOTED])}{omission}.")


def _waiver(override: AcceptedFinding, login: str) -> Waiver:
    return Waiver(
        finding=override.fingerprint,
        reason=override.reason,
        by=f"@{login}",
        expires=None,
        local=True,
    )


def _logins_by_address(pull_commits: Sequence[PullCommit]) -> dict[str, str]:
    """Logins by address in lower case, as far as GitHub lists them."""
    logins = dict(_GITHUB)
    for pull_commit in pull_commits:
        for address, login in pull_commit.people:
            if address and login:
                logins[address.lower()] = login
    return logins


class Accounts(Struct, frozen=True):
    """What people did for a change ("wrote one of the commits")."""

    logins: Mapping[str, str]
    """By login."""
    ids: Mapping[int, str]
    """By GitHub's number of the account."""

    def has(self, login: str, account: int) -> bool:
        """Whether this account is one of them. GitHub ignores the case of a login."""
        if account in self.ids:
            return True
        lower_logins = {name.lower() for name in self.logins}
        return login.lower() in lower_logins


def accounts_of(commits: Iterable[Commit], logins_by_address: Mapping[str, str]) -> Accounts:
    """Everybody whom the commits name: authors, committers, co-authors. Addresses are in lower
    case.

    A commit names people by address only. GitHub's own addresses say the account; others are known
    if GitHub lists a commit with that address.
    """
    logins: dict[str, str] = {}
    ids: dict[int, str] = {}
    parts = _parts_by_address(commits)
    for address, part in parts.items():
        if address in logins_by_address:
            logins[logins_by_address[address]] = part
    for address, part in parts.items():
        match = _NO_REPLY.match(address)
        if match is None:
            continue
        number, login = match.groups()
        logins[login] = part
        if number:
            ids[int(number)] = part
    return Accounts(logins, ids)


def _parts_by_address(commits: Iterable[Commit]) -> dict[str, str]:
    """What each address did, in lower case. Who wrote a commit and is a co-author of another wrote
    one.
    """
    commits = list(commits)
    parts: dict[str, str] = {}
    for commit in commits:
        for address in _CO_AUTHOR.findall(commit.message):
            parts[address.strip().lower()] = "a co-author"
    for commit in commits:
        for address in (commit.author_email, commit.committer_email):
            parts[address.strip().lower()] = WROTE
    return parts
