"""New repositories from files: what `vibe-gate demo` reviews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.errors import InfrastructureError
from vibe_gate.git.program import Program


@dataclass(frozen=True, slots=True)
class Draft:
    """A commit to be made: its message, author, time (seconds since 1970, UTC) and all files, by path."""

    message: str
    author: str
    email: str
    time: int
    files: Mapping[str, bytes]


def make_repository(path: Path, drafts: Sequence[Draft], environ: Mapping[str, str]) -> list[str]:
    """A new repository at `path` with these commits on branch main, checked out; returns their ids.

    The same drafts give the same ids. The user's configuration, hooks and template directory have no part in it.
    """
    path.mkdir(parents=True, exist_ok=True)
    git = Program(path, environ).bare(path, {"GIT_DIR": f"{path}/.git", "GIT_WORK_TREE": str(path)})
    _ask(git, "init", "--quiet", "--template=", "--initial-branch=main")
    _ask(git, "fast-import", "--quiet", stdin=b"".join(map(_stream, drafts)))
    _ask(git, "reset", "--quiet", "--hard")
    return _ask(git, "rev-list", "--reverse", "HEAD").split("\n")


def _stream(draft: Draft) -> bytes:
    """The commit as `git fast-import` takes it, on top of the one before."""
    who = f"{draft.author} <{draft.email}> {draft.time} +0000".encode()
    lines = [
        b"commit refs/heads/main",
        b"author " + who,
        b"committer " + who,
        _data(draft.message.encode()),
        b"deleteall",
    ]
    for name, content in draft.files.items():
        lines += [f"M 100644 inline {name}".encode(), _data(content)]
    return b"\n".join([*lines, b"\n"])


def _data(content: bytes) -> bytes:
    return b"data %d\n%s" % (len(content), content)


def _ask(git: Program, *arguments: str, stdin: bytes | None = None) -> str:
    done = git.run(*arguments, stdin=stdin)
    if done.code:
        raise InfrastructureError(f"git could not make the repository {git.folder}: {done.err}")
    return done.line
