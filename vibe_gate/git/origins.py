"""Lines to the commits that brought them, by `git blame`, and the commits that changed a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.blame import BlamedLine, FileAt
from vibe_gate.errors import InfrastructureError
from vibe_gate.git.objects import Objects
from vibe_gate.git.program import Program

MAX_HISTORY = 2_000
"""Commits that changed one file, the newest first."""

_NOBODY = {
    "GIT_AUTHOR_NAME": "vibe-gate",
    "GIT_AUTHOR_EMAIL": "vibe-gate",
    "GIT_COMMITTER_NAME": "vibe-gate",
    "GIT_COMMITTER_EMAIL": "vibe-gate",
}


def commit_on(git: Program, objects: Objects, tree: str, parent: str) -> str:
    """A commit of the tree on a parent ("": none), in the scratch folder; its id. InfrastructureError."""
    asked = ("commit-tree", tree, *(["-p", parent] if parent else []), "-m", "files")
    done = git.run(*asked, stdin=b"", environ=_NOBODY | objects.environ)
    if done.code:
        raise InfrastructureError(f"git cannot make a commit of {tree}: {done.said}")
    return done.line


def blamed(
    git: Program, objects: Objects, commit: str, path: str, spans: Sequence[tuple[int, int]]
) -> list[BlamedLine]:
    """The lines of a file in a commit (those of `spans`, first and last; all if there are none), in order.

    White space is left aside, and the file is followed when it was renamed. InfrastructureError.
    """
    wanted = [f"-L{first},{last}" for first, last in spans]
    done = git.run(
        *("-c", "blame.ignoreRevsFile=", "-c", "core.quotePath=false"),
        *("blame", "-w", "--incremental", "--no-textconv", *wanted, commit, "--", path),
        environ=objects.environ,
    )
    if done.code:
        raise InfrastructureError(f"git cannot blame {paths.quote(path)}: {done.said}")
    return sorted(_rows(done.out), key=lambda row: row.line)


def _rows(out: bytes) -> Iterator[BlamedLine]:
    """Groups of lines: a first row `COMMIT number line count`, then what is known of it, then its file name."""
    before: dict[str, tuple[str, str]] = {}
    commit, number, line, count = "", 0, 0, 0
    for row in out.split(b"\n"):
        key, _, rest = row.partition(b" ")
        if key == b"filename":
            path = paths.unquote(paths.decode(rest))
            for step in range(count):
                yield BlamedLine(line + step, commit, path, number + step, *before.get(commit, ("", "")))
        elif key == b"previous":
            name, _, old = rest.partition(b" ")
            before[commit] = (name.decode(), paths.unquote(paths.decode(old)))
        elif len(key) == 40:
            commit = key.decode()
            number, line, count = map(int, rest.split())


def history_of(git: Program, objects: Objects, commit: str, path: str) -> list[FileAt]:
    """The commits up to this one that changed the file, the newest first, through its renames."""
    asked = ("log", "--follow", f"--max-count={MAX_HISTORY}", "--format=%H %at %ct", "--name-only", "-z")
    done = git.run("-c", "log.showSignature=false", *asked, commit, "--", path, environ=objects.environ)
    found: list[FileAt] = []
    for token in done.out.split(b"\0"):
        if token.startswith(b"\n"):  # a file's name, of the commit before it
            found[-1] = replace(found[-1], path=paths.decode(token[1:]))
        elif token:
            name, authored, committed = token.decode().split()
            found.append(FileAt(name, int(authored), int(committed), path))
    return found
