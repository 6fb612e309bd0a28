"""What `git status` says differs between HEAD, the index and the working tree.

Git's own walk decides which paths are looked at (ignore rules, sparse checkout, racy
times, the untracked cache); no content is taken from it.
"""

from __future__ import annotations

import subprocess
from typing import NamedTuple

from vibe_gate.adapters.git.program import Program, finish
from vibe_gate.domain import paths
from vibe_gate.errors import InfrastructureError, UsageError

NO_COMMIT = "(initial)"

_ARGUMENTS = ("status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--branch",
              "--no-ahead-behind", "--ignore-submodules=dirty")  # fmt: skip
"""`dirty`: a submodule counts by its commit; looking inside would run git there, with its configuration."""


class Stage(NamedTuple):
    """One entry of the index: stage 0, or 1 to 3 while in conflict."""

    mode: int
    id: str
    number: int


class Tracked(NamedTuple):
    """A path of the index or of HEAD that differs. `touched`: the working tree differs from the index."""

    path: bytes
    stages: tuple[Stage, ...]
    touched: bool


class Listing(NamedTuple):
    """All that differs. `head` is a commit id, "" on an unborn branch."""

    head: str
    tracked: tuple[Tracked, ...]
    untracked: tuple[bytes, ...]


Walk = subprocess.Popen[bytes]
"""`git status` on its way."""


def begin(git: Program) -> Walk:
    """Start git's walk of the working tree; it writes nothing, not even a refreshed index."""
    return git.start(*_ARGUMENTS)


def end(walk: Walk) -> Listing:
    """Wait for the walk and read it."""
    done = finish(walk)
    if done.code:
        detail = done.err.removeprefix("fatal: ")
        raise InfrastructureError(f"`git status` failed: {paths.quote(detail)}.")
    for line in done.err.splitlines():
        if line.startswith("warning: could not open directory") and line.endswith("Permission denied"):
            raise UsageError(f"{line.removeprefix('warning: ')}: a snapshot would lack what is in it.")
    return _parse(done.out)


def forget(walk: Walk) -> None:
    """Stop a walk that nobody needs any more."""
    walk.kill()
    walk.communicate()


def _parse(raw: bytes) -> Listing:
    head = ""
    tracked: list[Tracked] = []
    untracked: list[bytes] = []
    for record in raw.split(b"\0"):
        kind = record[:2]
        if kind == b"? ":
            untracked.append(record[2:])
        elif kind == b"1 ":
            tracked.append(_ordinary(record))
        elif kind == b"u ":
            tracked.append(_conflicted(record))
        elif record.startswith(b"# branch.oid "):
            name = record[13:].decode("ascii")
            head = "" if name == NO_COMMIT else name
    return Listing(head, tuple(tracked), tuple(untracked))


def _ordinary(record: bytes) -> Tracked:
    _, state, _, _, mode, _, _, name, path = record.split(b" ", 8)
    stage = Stage(int(mode, 8), name.decode("ascii"), 0)
    return Tracked(path, (stage,) if stage.mode else (), state[1:2] != b".")


def _conflicted(record: bytes) -> Tracked:
    _, _, _, *about, path = record.split(b" ", 10)
    stages = (Stage(int(about[n], 8), about[n + 4].decode("ascii"), n + 1) for n in range(3))
    return Tracked(path, tuple(stage for stage in stages if stage.mode), touched=True)
