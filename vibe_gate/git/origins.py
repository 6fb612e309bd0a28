"""Lines to the commits that brought them, by `git blame`, and the commits that changed a file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from vibe_gate.domain import paths
from vibe_gate.domain.blame import BlamedLine, FileAt
from vibe_gate.errors import InfrastructureError
from vibe_gate.git.commit_content import parse_commit
from vibe_gate.git.object_store import Objects

MAX_HISTORY = 20_000
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
    parent_option = ("-p", parent) if parent else ()
    command = ("commit-tree", tree, *parent_option, "-m", "files")
    commit = objects.bare.run(*command, stdin=b"", variables=_NOBODY)
    if commit.code:
        raise InfrastructureError(f"git cannot make a commit of {tree}: {commit.complaint}")
    return commit.line


def blamed(
    objects: Objects,
    commit: str,
    path: str,
    spans: Sequence[tuple[int, int]],
    variables: Mapping[str, str],
    since: float = 0.0,
) -> list[BlamedLine]:
    """The lines of a file in a commit (those of `spans`, first and last; all if there are none), in
    order.

    White space is left aside, and the file is followed when it was renamed. Git is asked outside of
    the repository: `blame.ignoreRevsFile` of the user's configuration cannot be taken back by
    another setting, and is an error in a repository without that file. `variables` say where
    history ends. Lines of commits more than a second older than `since` (seconds since 1970) are
    followed to one of these, and no further. InfrastructureError.
    """
    options = [f"-L{first},{last}" for first, last in spans]
    if since > 1:
        options.append(f"--max-age={math.floor(since) - 1}")
    command = ("blame", "-w", "--incremental", "--no-textconv", *options, commit, "--", path)
    blame = objects.bare.run(*command, variables=variables)
    if blame.code:
        raise InfrastructureError(f"git cannot blame {paths.quote(path)}: {blame.complaint}")
    return sorted(_parse_blame(blame.out), key=lambda row: row.line)


def _parse_blame(output: bytes) -> Iterator[BlamedLine]:
    """Groups of lines: a first row `COMMIT number line count`, then what is known of it, then its
    file name.
    """
    versions_before: dict[str, tuple[str, str]] = {}
    commit = ""
    number = line = count = 0
    for row in output.split(b"\n"):
        key, _, value = row.partition(b" ")
        if len(key) == 40:
            commit = key.decode()
            number, line, count = map(int, value.split())
        elif key == b"previous":
            before_id, _, quoted_path = value.partition(b" ")
            versions_before[commit] = (before_id.decode(), _parse_path(quoted_path))
        elif key == b"filename":
            path = _parse_path(value)
            before, before_path = versions_before.get(commit, ("", ""))
            for step in range(count):
                yield BlamedLine(line + step, commit, path, number + step, before, before_path)


def _parse_path(quoted_path: bytes) -> str:
    return paths.unquote(paths.decode(quoted_path))


def history_of(
    objects: Objects, commit: str, path: str, variables: Mapping[str, str]
) -> list[FileAt]:
    """The commits up to this one that changed the file, the newest first, through its renames."""
    command = ("log", "--follow", f"--max-count={MAX_HISTORY}", "--format=%H", "--name-only", "-z")
    log = objects.bare.run(*command, commit, "--", path, variables=variables)
    path_by_commit: dict[str, str] = {}
    commit_id = ""
    for token in log.out.split(b"\0"):
        if token.startswith(b"\n"):  # a file's name, of the commit before it
            path_by_commit[commit_id] = paths.decode(token[1:])
        elif token:
            commit_id = token.decode("ascii")
            path_by_commit[commit_id] = path
    versions = []
    for commit_id, path_in_commit in path_by_commit.items():
        content = parse_commit(commit_id, objects.database.read(commit_id).data)
        times = (content.author.time, content.committer.time)
        versions.append(FileAt(commit_id, *times, path_in_commit))
    return versions
