"""Lines to the commits that brought them, by `git blame`, and the commits that changed a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vibe_gate.domain import paths
from vibe_gate.domain.blame import BlamedLine, FileAt
from vibe_gate.errors import InfrastructureError
from vibe_gate.git.commit_content import parse_commit
from vibe_gate.git.object_store import Objects

MAX_HISTORY = 2_000
"""Commits that changed one file, the newest first."""

_NOBODY = {
    "GIT_AUTHOR_NAME": "vibe-gate",
    "GIT_AUTHOR_EMAIL": "vibe-gate",
    "GIT_COMMITTER_NAME": "vibe-gate",
    "GIT_COMMITTER_EMAIL": "vibe-gate",
}


def commit_on(objects: Objects, tree: str, parent: str) -> str:
    """A commit of the tree on a parent ("": none), in the scratch folder; its id.
    InfrastructureError.
    """
    command = ("commit-tree", tree, *(["-p", parent] if parent else []), "-m", "files")
    commit = objects.bare.run(*command, stdin=b"", variables=_NOBODY)
    if commit.code:
        raise InfrastructureError(f"git cannot make a commit of {tree}: {commit.said}")
    return commit.line


def blamed(
    objects: Objects,
    commit: str,
    path: str,
    spans: Sequence[tuple[int, int]],
    variables: Mapping[str, str],
) -> list[BlamedLine]:
    """The lines of a file in a commit (those of `spans`, first and last; all if there are none), in
    order.

    White space is left aside, and the file is followed when it was renamed. Git is asked outside of
    the repository: `blame.ignoreRevsFile` of the user's configuration cannot be taken back by
    another setting, and is an error in a repository without that file. `variables` say where history
    ends. InfrastructureError.
    """
    ranges = [f"-L{first},{last}" for first, last in spans]
    listed = objects.bare.run(
        *("blame", "-w", "--incremental", "--no-textconv", *ranges, commit, "--", path),
        variables=variables,
    )
    if listed.code:
        raise InfrastructureError(f"git cannot blame {paths.quote(path)}: {listed.said}")
    return sorted(_rows(listed.out), key=lambda row: row.line)


def _rows(out: bytes) -> Iterator[BlamedLine]:
    """Groups of lines: a first row `COMMIT number line count`, then what is known of it, then its
    file name.
    """
    before: dict[str, tuple[str, str]] = {}
    commit, number, line, count = "", 0, 0, 0
    for row in out.split(b"\n"):
        key, _, rest = row.partition(b" ")
        if key == b"filename":
            path = paths.unquote(paths.decode(rest))
            for step in range(count):
                yield BlamedLine(
                    line + step, commit, path, number + step, *before.get(commit, ("", ""))
                )
        elif key == b"previous":
            name, _, old = rest.partition(b" ")
            before[commit] = (name.decode(), paths.unquote(paths.decode(old)))
        elif len(key) == 40:
            commit = key.decode()
            number, line, count = map(int, rest.split())


def history_of(
    objects: Objects, commit: str, path: str, variables: Mapping[str, str]
) -> list[FileAt]:
    """The commits up to this one that changed the file, the newest first, through its renames."""
    command = ("log", "--follow", f"--max-count={MAX_HISTORY}", "--format=%H", "--name-only", "-z")
    listed = objects.bare.run(*command, commit, "--", path, variables=variables)
    names: dict[str, str] = {}
    name = ""
    for token in listed.out.split(b"\0"):
        if token.startswith(b"\n"):  # a file's name, of the commit before it
            names[name] = paths.decode(token[1:])
        elif token:
            name = token.decode("ascii")
            names[name] = path
    return [_file_at(objects, commit, path) for commit, path in names.items()]


def _file_at(objects: Objects, commit: str, path: str) -> FileAt:
    content = parse_commit(commit, objects.database.read(commit).data)
    return FileAt(commit, content.author.time, content.committer.time, path)
