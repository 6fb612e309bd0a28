"""What `git status` says differs between HEAD, the index and the working tree.

Git's own walk decides which paths are looked at (ignore rules, sparse checkout, racy
times); no content is taken from it. Tracked and untracked files are looked for by two
calls at the same time: one `git status -uall` does the second after the first, on one core.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from vibe_gate.domain import paths
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.git.detect import Place
from vibe_gate.git.program import Finished, Program, finish

NO_COMMIT = "(initial)"

_STATUS = ("status", "--porcelain=v2", "-z", "--no-renames", "--branch", "--no-ahead-behind",
           "--ignore-submodules=dirty")  # fmt: skip
"""`dirty`: a submodule counts by its commit; looking inside would run git there, with its configuration."""

_OTHERS = ("ls-files", "--others", "--exclude-standard", "-z")


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


class Walk(NamedTuple):
    """Git on its way through the working tree. `others` None: `tracked` looks for both."""

    git: Program
    index_file: Path
    index_then: tuple[int, ...]
    tracked: subprocess.Popen[bytes]
    others: subprocess.Popen[bytes] | None


def begin(place: Place) -> Walk:
    """Start git's walk of the working tree; it writes nothing, not even a refreshed index."""
    git = place.git
    then = _stamp(place.index_file)
    settings = place.settings
    if settings.true("core.untrackedCache") or settings.true("feature.manyFiles"):
        return _whole(git, place.index_file)  # only `git status` uses the cache, and is quicker for it
    others = git.start(*_OTHERS)
    return Walk(git, place.index_file, then, git.start(*_STATUS, "--untracked-files=no"), others)


def end(walk: Walk) -> Listing:
    """Wait for the walk and read it."""
    try:
        tracked = finish(walk.tracked)
        others = finish(walk.others) if walk.others else Finished(0, b"", "")
    except BaseException:  # Ctrl-C, or git held up: no process is left
        forget(walk)
        raise
    if walk.others and _stamp(walk.index_file) != walk.index_then:
        # The two may have read different indexes, and a file fallen between them: one call for all.
        return end(_whole(walk.git, walk.index_file))
    for done in (tracked, others):
        _refuse_partial(done)
    listing = _parse(tracked.out)
    return listing._replace(untracked=listing.untracked + tuple(others.out.split(b"\0")[:-1]))


def forget(walk: Walk) -> None:
    """Stop a walk that nobody needs any more."""
    for process in filter(None, (walk.tracked, walk.others)):
        process.kill()
        process.communicate()


def _whole(git: Program, index_file: Path) -> Walk:
    return Walk(git, index_file, (), git.start(*_STATUS, "--untracked-files=all"), None)


def _stamp(file: Path) -> tuple[int, ...]:
    try:
        about = file.stat()
    except OSError:
        return ()
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _refuse_partial(done: Finished) -> None:
    if done.code:
        detail = " ".join(done.err.removeprefix("fatal: ").split())
        raise InfrastructureError(f"git could not list the working tree ({paths.quote(detail)}): see `git status`.")
    for line in done.err.splitlines():
        if line.startswith("warning: could not open directory") and line.endswith("Permission denied"):
            raise UsageError(f"{line.removeprefix('warning: ')}: a snapshot would lack what is in it.")


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
