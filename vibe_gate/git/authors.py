"""Who signed the commits of a change, and what they wrote: for provenance, and for rubrics that ask."""

from __future__ import annotations

from vibe_gate.domain.change import Change
from vibe_gate.domain.provenance import Commit
from vibe_gate.git.program import Program, finish
from vibe_gate.git.store import Store

MAX_COMMITS = 1_000
"""Commits of one change that are looked at, newest first: nobody signs a thousand commits with as many tools."""


def commits(git: Program, store: Store, change: Change) -> tuple[Commit, ...]:
    """The commits that the change's head has and its base has not, newest first; one for a single commit."""
    if change.kind == "commit":
        return (signed(store, change.head_commit),)
    span = f"{change.base_commit}..{change.head_commit}" if change.base_commit else change.head_commit
    listed = git.run("rev-list", f"--max-count={MAX_COMMITS}", span, "--")
    return tuple(signed(store, name) for name in listed.line.split("\n") if name)


def draft(git: Program, message: str) -> Commit:
    """The commit that git is about to make here: no id yet, and whom git would name as its author and committer."""
    asked = [git.start("var", name) for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")]  # `var` answers one
    (author, author_email), (_, committer_email) = (_person(finish(one).out) for one in asked)
    return Commit("", author, author_email, committer_email, message)


def signed(store: Store, name: str) -> Commit:
    """The commit with this id."""
    header, _, message = store.read(name)[1].partition(b"\n\n")
    fields = dict(line.split(b" ", 1) for line in header.split(b"\n") if line.startswith((b"author ", b"committer ")))
    author, author_email = _person(fields.get(b"author", b""))
    _, committer_email = _person(fields.get(b"committer", b""))
    return Commit(name, author, author_email, committer_email, message.decode("utf-8", "surrogateescape"))


def _person(raw: bytes) -> tuple[str, str]:
    name, _, rest = raw.decode("utf-8", "surrogateescape").partition(" <")
    return name, rest.partition(">")[0]
