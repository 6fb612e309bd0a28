"""Whose each line of a file is: git says which commit brought it, its content which write of a
captured session.

    line -> commit (git blame, white space aside) -> its source (`line_sources`) -> who is named for
    it (`line_authors`)

A line is an agent's only if a write brought it and it is matched to that write in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from vibe_gate.domain import paths
from vibe_gate.domain.blame import BlamedLine, LineOrigin
from vibe_gate.domain.escape import expression
from vibe_gate.errors import UsageError
from vibe_gate.gate.authorship import Authorship
from vibe_gate.gate.traces import Traces
from vibe_gate.git import Repository
from vibe_gate.run.agent_writes import AgentWrites
from vibe_gate.run.file_texts import FileTexts
from vibe_gate.run.line_authors import AuthorLookup
from vibe_gate.run.line_sources import AskedFile, LineSources, spans_of
from vibe_gate.store.captured_writes import WritingSessions, line_digests_of
from vibe_gate.store.clone_state import open_state

MAX_FILES = 300
"""Of a page or a list, whose lines are looked up: git takes a moment for each."""

WORKING_TREE = ""
"""The revision of the files as they lie there."""

_FULL_ID = expression(r"[0-9a-f]{40}\Z")


def line_origins(
    repository: Repository,
    sessions: WritingSessions,
    revision: str,
    path: str,
    lines: Sequence[int] = (),
    base: str = "",
    *,
    claims: bool = True,
) -> tuple[LineOrigin, ...]:
    """Who wrote the lines (from 1; all if there are none) of a file, in order.

    `revision`: "" for the working tree, or what git takes for a commit, or the id of a tree, which
    was made on the commit `base` (HEAD if ""). `claims`: of a line that no captured write brought,
    what an Agent Trace record of its commit says. UsageError: no such file or line, a binary file.
    RevisionError.
    """
    file = _file_to_blame(repository, revision, path, base)
    with open_state(repository.common_dir) as state:
        digests = line_digests_of(state)
        texts = FileTexts(repository, digests)
        text = texts.text(file.commit, path)
        if text is None:
            raise UsageError(_no_file(repository, revision, path))
        last = len(text.lines)
        for line in lines:
            if not 0 < line <= last:
                raise UsageError(f"{paths.quote(path)} has no line {line}: its last is {last}.")
        if not text.lines:
            return ()
        rows = repository.blamed(file.commit, path, spans_of(lines))
        writes = AgentWrites(sessions, state, digests, {path, *_names_in_history(rows)})
        authorship = Authorship(repository, {}, state)
        sources = LineSources(repository, state, authorship, digests, texts, writes, file, rows)
        source_by_line = sources.find_sources()
        traces = Traces(repository) if claims else None
        authors = AuthorLookup(repository, sessions.roots, authorship, traces, writes, file)
        return tuple(authors.name_author(row, source_by_line[row.line]) for row in rows)


def _names_in_history(rows: Sequence[BlamedLine]) -> set[str]:
    """The paths that the file has had."""
    names = {row.path for row in rows}
    names.update(row.before_path for row in rows if row.before_path)
    return names


def _file_to_blame(repository: Repository, revision: str, path: str, base: str) -> AskedFile:
    """The file in the commit that is looked at; of files without a commit one is made."""
    is_tree = (
        bool(_FULL_ID.match(revision))
        and repository.has_tree(revision)
        and not repository.has(revision)
    )
    if revision and not is_tree:
        return AskedFile(repository.resolve(revision), path, is_committed=True)
    tree = revision or repository.snapshot()
    head = repository.resolve(base) if base else repository.head()
    if head and repository.tree_of(head) == tree:
        return AskedFile(head, path, is_committed=True)
    return AskedFile(repository.commit_on(tree, head), path, is_committed=False)


def _no_file(repository: Repository, revision: str, path: str) -> str:
    """Why the file's lines cannot be told."""
    version = paths.quote(revision) if revision else "the working tree"
    tree = repository.tree(revision or repository.snapshot())
    name = paths.quote(path)
    entry = tree.entry(paths.encode(path))
    if entry is None:
        hint = "" if revision else ", or git ignores it"
        return f"There is no file {name} in {version}{hint}."
    if not entry.is_regular:
        return f"{name} is not a regular file in {version}; name a file."
    return f"{name} is binary in {version}: it has no lines."
