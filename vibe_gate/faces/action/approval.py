"""Who approved a change of the gate itself: an approving review of this very commit, by somebody who may write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vibe_gate.domain import paths
from vibe_gate.domain.provenance import Commit
from vibe_gate.domain.receipt import Waiver
from vibe_gate.errors import ForgeError
from vibe_gate.faces.action.event import Trigger
from vibe_gate.forge import Forge, PullCommit

MOST_LISTED = 250
"""Commits of a pull request that GitHub lists; of those beyond, it tells nobody's account."""

_GITHUB = {"noreply@github.com": "web-flow"}
"""Who commits what people merge or edit on GitHub's pages."""

_CO_AUTHOR = re.compile(r"^[ \t]*co-authored-by[ \t]*:[^\n]*?<[ \t]*([^<>\n]+?)[ \t]*>", re.I | re.M)
_NO_REPLY = re.compile(r"(?:(\d{1,15})\+)?([a-z0-9_-]{1,100}(?:\[bot\])?)@users\.noreply\.[a-z0-9.-]+\Z", re.I)


@dataclass
class Approvals:
    """Asked by the review where a change of the gate needs a person's word. `notes` say what was not found.

    `commits` reads all commits of the change; () where they are too many, or not here.
    """

    forge: Forge | None
    trigger: Trigger
    commits: Callable[[], Sequence[Commit]]
    notes: list[str] = field(default_factory=list)

    def __call__(self) -> Waiver | None:
        """The approval, or None."""
        number = self.trigger.number or self.trigger.queued
        if self.forge is None or number is None:
            self.notes.append("Nobody can be asked here whether the change of the gate is approved.")
            return None
        try:
            return self._look(self.forge, number)
        except ForgeError as error:
            self.notes.append(f"Whether the change of the gate is approved could not be read: {error}")
            return None

    def _look(self, forge: Forge, number: int) -> Waiver | None:
        author, head = self.trigger.author, self.trigger.head
        if self.trigger.number is None:  # a merge group's own commit is nobody's to approve: its pull request's is
            pull = forge.pull(number)
            author, head = pull.author, pull.head_sha
        listed, commits = forge.listed(number), self.commits()
        people = accounts_of(commits, _known(listed))
        if why := _untold(listed, commits):
            self.notes.append(f"An approval of the change of the gate cannot count: {why}.")
            return None
        logins = {login for one in listed for _, login in one.people} | people.logins | {author}
        found = forge.approvals(number, head, authors=logins - {""}, accounts=people.ids)
        if not found:
            return None
        if against := forge.objections(number):
            names = ", ".join(f"@{login}" for login in against)
            self.notes.append(f"An approval of the change of the gate does not count while {names} asks for changes.")
            return None
        reason = f"their review of {head[:12]} approves it"
        return Waiver(finding="policy-", reason=reason, by=f"@{found[0].login}", expires=None)


def _known(listed: Sequence[PullCommit]) -> dict[str, str]:
    """Logins by address, as far as GitHub tells."""
    return _GITHUB | {address.lower(): login for one in listed for address, login in one.people if address and login}


def _untold(listed: Sequence[PullCommit], commits: Sequence[Commit]) -> str:
    """Why it is not known who wrote all of it; "" where it is."""
    if not commits:
        return "its commits are too many to read, or not in this checkout"
    if len(listed) < MOST_LISTED:
        return ""
    told = {one.commit for one in listed}
    beyond = accounts_of([one for one in commits if one.id not in told], _known(listed)).unknown
    if not beyond:
        return ""
    return (
        f"GitHub tells of {MOST_LISTED} commits of a pull request who wrote them, and of those beyond nobody knows "
        f"whose account {paths.quote(min(beyond))} is. Squash them, or split the pull request"
    )


@dataclass(frozen=True, slots=True)
class Accounts:
    """Logins, account ids, and addresses whose account is not known."""

    logins: frozenset[str]
    ids: frozenset[int]
    unknown: frozenset[str]


def accounts_of(commits: Iterable[Commit], known: Mapping[str, str]) -> Accounts:
    """Everybody whom the commits name: authors, committers, co-authors. `known`: logins by address in lower case.

    A commit names people by address only. GitHub's own addresses say the account; of others it is known if GitHub has
    told of a commit with that address.
    """
    addresses = {address.strip().lower() for commit in commits for address in _addresses(commit)} - {""}
    logins, ids, unknown = set[str](), set[int](), set[str]()
    for address in addresses:
        found = _NO_REPLY.match(address)
        if found:
            logins.add(found[2])
            ids |= {int(found[1])} if found[1] else set()
        if address in known:
            logins.add(known[address])
        elif not found:
            unknown.add(address)
    return Accounts(frozenset(logins), frozenset(ids), frozenset(unknown))


def _addresses(commit: Commit) -> tuple[str, ...]:
    return (commit.author_email, commit.committer_email, *_CO_AUTHOR.findall(commit.message))
