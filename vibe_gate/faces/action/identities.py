"""Whose accounts commits are, by what they say themselves: authors, committers and co-authors. Pure.

A commit names people by address only. GitHub's own addresses say the account; of others it is known where
GitHub has told of a commit with that address. An address that nobody has told of stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vibe_gate.domain.provenance import Commit

_CO_AUTHOR = re.compile(r"^[ \t]*co-authored-by[ \t]*:[^\n]*?<[ \t]*([^<>\n]+?)[ \t]*>", re.I | re.M)
_NO_REPLY = re.compile(r"(?:(\d{1,15})\+)?([a-z0-9_-]{1,100}(?:\[bot\])?)@users\.noreply\.[a-z0-9.-]+\Z", re.I)


@dataclass(frozen=True, slots=True)
class Accounts:
    """Logins, account ids, and addresses whose account is not known."""

    logins: frozenset[str]
    ids: frozenset[int]
    unknown: frozenset[str]


def accounts_of(commits: Iterable[Commit], known: Mapping[str, str]) -> Accounts:
    """Everybody whom the commits name. `known`: logins by address in lower case."""
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
