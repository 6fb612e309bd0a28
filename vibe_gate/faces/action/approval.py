"""Who lets something pass: changes of the gate by an approving review of exactly this commit,
findings by comments.

Both by people with write access who are none of the change's authors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from vibe_gate.domain.escape import counted
from vibe_gate.domain.provenance import Commit
from vibe_gate.domain.waiver import Waiver
from vibe_gate.errors import ForgeError
from vibe_gate.faces.action.commands import accepted
from vibe_gate.faces.action.event import Trigger
from vibe_gate.forge import Comment, Forge, PullCommit

MOST_LISTED = 250
"""Commits of a pull request that GitHub lists; it names no account for the commits beyond them."""

WROTE = "wrote one of the commits"

MOST_TOLD = 5
"""Approvals that do not count and are named one by one."""

_GITHUB = {"noreply@github.com": "web-flow"}
"""Who commits what people merge or edit on GitHub's pages."""

_CO_AUTHOR = re.compile(
    r"^[ \t]*co-authored-by[ \t]*:[^\n]*?<[ \t]*([^<>\n]+?)[ \t]*>", re.I | re.M
)
_NO_REPLY = re.compile(
    r"(?:(\d{1,15})\+)?([a-z0-9_-]{1,100}(?:\[bot\])?)@users\.noreply\.[a-z0-9.-]+\Z", re.I
)


class Approvals:
    """The review calls this if a change of the gate needs approval. `notes` say what was not found.

    `commits` reads all commits of the change; () if there are too many, or they are not here.
    """

    def __init__(
        self, forge: Forge | None, trigger: Trigger, commits: Callable[[], Sequence[Commit]]
    ) -> None:
        self._forge = forge
        self._trigger = trigger
        self._commits = commits
        self.notes: list[str] = []

    def __call__(self) -> Waiver | None:
        """The approval, or None."""
        if self._forge is None or self._number is None:
            self.notes.append(
                "Approval of the gate's change cannot be looked up: there is no token, or no pull request."
            )
            return None
        try:
            return self._look(self._forge, self._number)
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
        waivers: list[Waiver] = []
        refused: dict[str, list[str]] = {}
        requests = list(accepted(forge.comments(number), self._pull(forge, number)[1]))
        authors = self._authors(forge, number) if requests else None
        for request in requests:
            reason = self._why_refused(request.comment, authors, forge)
            if reason or request.comment is None:
                refused.setdefault(reason, []).append(request.finding)
                continue
            by = f"@{request.comment.author}"
            waiver = Waiver(
                finding=request.finding, reason=request.reason, by=by, expires=None, local=True
            )
            waivers.append(waiver)
        settled = {waiver.finding for waiver in waivers}
        for reason, findings in refused.items():
            open_findings = [
                finding for finding in dict.fromkeys(findings) if finding not in settled
            ]
            settled |= set(open_findings)
            if open_findings:
                names = ", ".join(finding[:8] for finding in open_findings)
                self.notes.append(f"The override of {names} does not count: {reason}.")
        return tuple(waivers)

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

    def _pull(self, forge: Forge, number: int) -> tuple[str, str]:
        """The pull request's author and head: people speak of its commit, not of the merge
        group's.
        """
        if self._trigger.number is not None:
            return self._trigger.author, self._trigger.head
        pull = forge.pull(number)
        return pull.author, pull.head_sha

    def _authors(self, forge: Forge, number: int) -> Accounts | None:
        """Everybody who has a part in the change; None if that is not known."""
        listed, commits = forge.listed(number), self._commits()
        if not commits or len(listed) >= MOST_LISTED:
            return None
        people = accounts_of(commits, _known(listed))
        logins = {login: WROTE for one in listed for _, login in one.people if login}
        author = self._pull(forge, number)[0]
        opened = {author: "opened the pull request"} if author else {}
        return Accounts({**people.logins, **logins, **opened}, people.ids)

    def _look(self, forge: Forge, number: int) -> Waiver | None:
        head = self._pull(forge, number)[1]
        authors = self._authors(forge, number)
        if authors is None:
            self.notes.append(
                "No approval can count: not all authors of the change are known, because its commits are not in this "
                "checkout, or too many. Squash them, or split the pull request."
            )
            return None
        found = forge.approvals(number, head, authors=authors.logins, accounts=authors.ids)
        counting = [each.login for each in found if not each.flaw]
        against = ", ".join(f"@{login}" for login in forge.objections(number))
        if not counting:
            told = [f"@{each.login} ({each.flaw})" for each in reversed(found)]  # the newest first
            more = f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
            many = counted(len(found), "approval does", "approvals do")
            self.notes += (
                [f"{many} not count: {'; '.join(told[:MOST_TOLD])}{more}."] if told else []
            )
            self.notes += [f"Changes are requested by {against}."] if against else []
            return None
        if against:
            self.notes.append(
                f"The approval by @{counting[0]} does not count while {against} asks for changes."
            )
            return None
        reason = f"their review of {head[:12]} approves it"
        return Waiver(finding="policy-", reason=reason, by=f"@{counting[0]}", expires=None)


def _known(listed: Sequence[PullCommit]) -> dict[str, str]:
    """Logins by address, as far as GitHub lists them."""
    return _GITHUB | {
        address.lower(): login
        for one in listed
        for address, login in one.people
        if address and login
    }


class Accounts(Struct, frozen=True):
    """What people did for a change ("wrote one of the commits"), by login and by account id."""

    logins: Mapping[str, str]
    ids: Mapping[int, str]

    def has(self, login: str, account: int) -> bool:
        """Whether this account is one of them. GitHub ignores the case of a login."""
        return account in self.ids or login.lower() in {one.lower() for one in self.logins}


def accounts_of(commits: Iterable[Commit], known: Mapping[str, str]) -> Accounts:
    """Everybody whom the commits name: authors, committers, co-authors. `known`: logins by address
    in lower case.

    A commit names people by address only. GitHub's own addresses say the account; others are known
    if GitHub lists a commit with that address.
    """
    parts: dict[str, str] = {}
    for commit in commits:
        parts |= {
            address.strip().lower(): "a co-author" for address in _CO_AUTHOR.findall(commit.message)
        }
    for commit in commits:
        wrote = (commit.author_email, commit.committer_email)
        parts |= {address.strip().lower(): WROTE for address in wrote}
    logins = {known[address]: part for address, part in parts.items() if address in known}
    accounts: dict[int, str] = {}
    for address, part in parts.items():
        if match := _NO_REPLY.match(address):
            logins[match[2]] = part
            accounts |= {int(match[1]): part} if match[1] else {}
    return Accounts(logins, accounts)
