"""What a commit says, read from its own bytes and nowhere else.

Old imports and `git hash-object --literally` make commits without a date, a name, an address or an
author, with dates that no calendar has, and with any bytes. Git prints nothing for what is missing,
so its columns shift; and it converts names by an encoding that the commit chooses, which can make
line breaks of them.
"""

from __future__ import annotations

import sys

from msgspec import Struct

from vibe_gate.domain.escape import expression
from vibe_gate.errors import IntegrityError

LAST_SECOND = 253_402_300_799
"""The end of the year 9999, after which neither Python nor ISO 8601 has a date."""

_TREE = expression(rb"tree ([0-9a-f]{40})\Z")
_PARENT = expression(rb"parent ([0-9a-f]{40})\Z")
_DATE = expression(rb"[ \t]*0*(\d{1,12})[ \t]+[+-]\d+[ \t\r]*\Z")


class CommitSignature(Struct, frozen=True):
    """An author or committer. Texts are as `paths.decode` gives them, and may hold any character
    but a line feed.
    """

    name: str = ""
    address: str = ""
    time: int = 0
    """Seconds since 1970; 0 if there is no date that a calendar has."""


class CommitContent(Struct, frozen=True):
    """What one commit object says. Its ids are in memory once, however many commits name them."""

    tree: str
    parents: tuple[str, ...]
    author: CommitSignature
    committer: CommitSignature
    author_line: bytes
    """The author as the commit has it, b"" without one. A rebase and a cherry-pick keep it."""
    message: str


def parse_commit(name: str, data: bytes) -> CommitContent:
    """What the commit with this id says. IntegrityError if it names no tree, which git calls
    damaged, too.
    """
    header, _, message = data.partition(b"\n\n")
    lines = header.split(b"\n")
    tree = _TREE.match(lines[0])
    if tree is None:
        raise IntegrityError(f"The object {name} is not a commit, or damaged; run `git fsck`.")
    author_line = _first_value(lines, b"author ")
    return CommitContent(
        tree=sys.intern(tree[1].decode("ascii")),
        parents=_parents_in(lines),
        author=parse_signature(author_line),
        committer=parse_signature(_first_value(lines, b"committer ")),
        author_line=author_line,
        message=message.decode("utf-8", "surrogateescape"),
    )


def parse_signature(line: bytes) -> CommitSignature:
    """`NAME <ADDRESS> SECONDS ZONE`, of which anything may be missing. A date needs a zone, as git
    wants it.
    """
    name, _, address_and_date = line.partition(b"<")
    author = name.strip().decode("utf-8", "surrogateescape")
    address, closing, _ = address_and_date.partition(b">")
    if not closing:
        return CommitSignature(name=author, address="", time=0)
    date = _DATE.match(line.rpartition(b">")[2])
    seconds = int(date[1]) if date else 0
    if seconds > LAST_SECOND:
        seconds = 0
    written_address = address.strip().decode("utf-8", "surrogateescape")
    return CommitSignature(name=author, address=written_address, time=seconds)


def _parents_in(lines: list[bytes]) -> tuple[str, ...]:
    """The rows behind the tree's: git takes no later one for a parent."""
    parents = []
    for line in lines[1:]:
        parent = _PARENT.match(line)
        if parent is None:
            break
        parents.append(sys.intern(parent[1].decode("ascii")))
    return tuple(parents)


def _first_value(lines: list[bytes], key: bytes) -> bytes:
    for line in lines:
        if line.startswith(key):
            return line[len(key) :]
    return b""
