"""Who approved a change of the gate: an approving review of exactly this commit, by a person with write access."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vibe_gate.domain.provenance import Commit
from vibe_gate.domain.receipt import Waiver
from vibe_gate.errors import ForgeError
from vibe_gate.faces.action.event import Trigger
from vibe_gate.forge import Forge, PullCommit

MOST_LISTED = 250
"""Commits of a pull request that GitHub lists; it names no account for the commits beyond them."""

_GITHUB = {"noreply@github.com": "web-flow"}
"""Who commits what people merge or edit on GitHub's pages."""

_CO_AUTHOR = re.compile(r"^[ \t]*co-authored-by[ \t]*:[^\n]*?<[ \t]*([^<>\n]+?)[ \t]*>", re.I | re.M)
_NO_REPLY = re.compile(r"(?:(\d{1,15})\+)?([a-z0-9_-]{1,100}(?:\[bot\])?)@users\.noreply\.[a-z0-9.-]+\Z", re.I)


@dataclass
class Approvals:
    """The review calls this if a change of the gate needs approval. `notes` say what was not found.

    `commits` reads all commits of the change; () if there are too many, or they are not here.
    """

    forge: Forge | None
    trigger: Trigger
    commits: Callable[[], Sequence[Commit]]
    notes: list[str] = field(default_factory=list)

    def __call__(self) -> Waiver | None:
        """The approval, or None."""
        number = self.trigger.number or self.trigger.queued
        if self.forge is None or number is None:
            self.notes.append(
                "Approval of the gate's change cannot be looked up: there is no token, or no pull request."
            )
            return None
        try:
            return self._look(self.forge, number)
        except ForgeError as error:
            self.notes.append(f"Whether the change of the gate is approved could not be read: {error}")
            return None

    def _look(self, forge: Forge, number: int) -> Waiver | None:
        author, head = self.trigger.author, self.trigger.head
        if self.trigger.number is None:  # reviews are of the pull request's commit, not of the merge group's
            pull = forge.pull(number)
            author, head = pull.author, pull.head_sha
        listed, commits = forge.listed(number), self.commits()
        if not commits or len(listed) >= MOST_LISTED:
            self.notes.append(
                "An approval of the change of the gate cannot count: not all of its authors are known, for its commits "
                "are not in this checkout, or too many. Squash them, or split the pull request."
            )
            return None
        people = accounts_of(commits, _known(listed))
        logins = {login for one in listed for _, login in one.people} | people.logins | {author}
        found = forge.approvals(number, head, authors=logins - {""}, accounts=people.ids)
        if not found:
            return None
        if against := forge.objections(number):
            names = ", ".join(f"@{login}" for login in against)
            self.notes.append(f"An approval of the change of the gate does not count while {names} asks for changes.")
            return None
        reason = f"their review of {head[:12]} approves it"
        return Waiver(finding="policy-", reason=reason, by=f"@{found[0]}", expires=None)


def _known(listed: Sequence[PullCommit]) -> dict[str, str]:
    """Logins by address, as far as GitHub lists them."""
    return _GITHUB | {address.lower(): login for one in listed for address, login in one.people if address and login}


@dataclass(frozen=True, slots=True)
class Accounts:
    """Logins, and account ids."""

    logins: frozenset[str]
    ids: frozenset[int]


def accounts_of(commits: Iterable[Commit], known: Mapping[str, str]) -> Accounts:
    """Everybody whom the commits name: authors, committers, co-authors. `known`: logins by address in lower case.

    A commit names people by address only. GitHub's own addresses say the account; others are known if GitHub
    lists a commit with that address.
    """
    addresses = {address.strip().lower() for commit in commits for address in _addresses(commit)}
    found = [match for address in addresses if (match := _NO_REPLY.match(address))]
    logins = {match[2] for match in found} | {known[address] for address in addresses if address in known}
    return Accounts(frozenset(logins), frozenset(int(match[1]) for match in found if match[1]))


def _addresses(commit: Commit) -> tuple[str, ...]:
    return (commit.author_email, commit.committer_email, *_CO_AUTHOR.findall(commit.message))
