"""Agent Trace records of commits, of the lines that captured sessions wrote; and their place in git
notes.

What a record says is what `blame` says of the lines that a commit brought. It has no prompt, and
nothing that a tool returned. The same commit gives the same record, byte for byte, as long as
nothing more is known of it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain.agent_trace import (
    OWN,
    VERSION,
    Contributor,
    LineRange,
    TracedConversation,
    TracedFile,
    TracedRevision,
    TraceRecord,
    TracingTool,
    hash_of,
    model_id,
    parts_of,
    read_records,
)
from vibe_gate.domain.blame import LineOrigin
from vibe_gate.domain.change import EXECUTABLE_MODE, REGULAR_MODE, FileDiff
from vibe_gate.domain.document import iso, plain
from vibe_gate.domain.escape import lines
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.gate.traces import NOTES
from vibe_gate.git import Repository
from vibe_gate.run.fact_finding import catch_up
from vibe_gate.run.line_authors import CAPTURED
from vibe_gate.run.line_origins import line_origins
from vibe_gate.run.run_bundle import world_around
from vibe_gate.store import captures
from vibe_gate.store.captured_turns import CapturedModel, models_of
from vibe_gate.version import __version__

_IDS = uuid.UUID("0f2f3b3c-6a0e-5d0c-9d6e-3f6f6c7c1a51")
"""Namespace of our records' ids."""


class _Talk(Struct, frozen=True):
    """Whose lines one conversation of a record has."""

    session: str
    model: str


class _SessionModels:
    """The captured sessions in the stores of these working trees, each read once."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self.roots = tuple(roots)
        self._models: dict[str, tuple[CapturedModel, ...]] = {}

    def talk(self, origin: LineOrigin) -> _Talk:
        """The conversation that a line belongs to, with the model that its session named last
        before.
        """
        if origin.session not in self._models:
            self._models[origin.session] = models_of(self.roots, origin.session)
        named = [one.model for one in self._models[origin.session] if iso(one.at) <= origin.at]
        return _Talk(origin.session, model_id(named[-1]) if named else "")


def records_of(
    repository: Repository, roots: Iterable[Path], commits: Sequence[str]
) -> Iterator[TraceRecord]:
    """The records of these commits (full ids), in their order; none of one that brought no line of
    a session.

    `roots` are the working trees whose stores may keep captured sessions.
    """
    sessions = _SessionModels(roots)
    changes = repository.changes_of(
        [commit for commit in commits if not _is_clean_merge(repository, commit)]
    )
    for commit, change in changes.items():
        origins = {
            file.path: _own_lines(repository, sessions.roots, commit, file) for file in change.files
        }
        own = {path: found for path, found in origins.items() if found}
        if own:
            tree = repository.tree(commit)
            files = [
                _traced(path, found, lines(tree.read(path) or b""), sessions)
                for path, found in own.items()
            ]
            yield _record(commit, files, [one for found in own.values() for one in found])


def up_to_date(repository: Repository, clock: Callable[[], datetime]) -> tuple[Path, ...]:
    """Fold what sessions did until now into the store; the working trees whose stores may keep
    sessions.
    """
    catch_up(repository, world_around(repository, clock))
    return repository.capture_roots()


def keep(repository: Repository, record: TraceRecord) -> bool:
    """Add the record to its commit's note, in the place of ours if it has one; whether that changed
    it. StorageError.

    The records of other tools stay, byte for byte.
    """
    note = rest = _note(repository, record.revision)
    for its, record_before in read_records(parts_of(note)).records:
        if record_before.tool.name == OWN:
            rest = rest.replace(its + b"\n", b"").replace(its, b"")
    text = (rest if not rest or rest.endswith(b"\n") else rest + b"\n") + record.to_line()
    if text != note:
        repository.add_note(NOTES, record.revision, text)
    return text != note


def has_own(repository: Repository, commit: str) -> bool:
    """Whether the commit's note has a record of ours."""
    found = read_records(parts_of(_note(repository, commit)))
    return any(record.tool.name == OWN for _, record in found.records)


def _note(repository: Repository, commit: str) -> bytes:
    """The commit's note, b"" without one. StorageError: it is too large to be read, and so to be
    added to.
    """
    if not (note := repository.note_ids(NOTES).get(commit)):
        return b""
    if (text := repository.note_texts([note]).get(note)) is None:
        raise StorageError(
            f"The note on {commit[:12]} in refs/notes/{NOTES} is too large to be read."
        )
    return text


def _is_clean_merge(repository: Repository, commit: str) -> bool:
    """Whether all its lines are those of its parents. Of more than two parents git makes no other
    merge.
    """
    parents = len(repository.parents(commit))
    return parents > 2 or (parents == 2 and repository.is_clean_merge(commit))


def _own_lines(
    repository: Repository, roots: tuple[Path, ...], commit: str, file: FileDiff
) -> list[LineOrigin]:
    """Of the lines that the commit brought into a file, those that a captured session wrote."""
    brought = [
        line
        for hunk in (file.hunks if file.after and not file.binary else ())
        for first, text in hunk.added_runs()
        for line in range(first, first + text.count(b"\n") + (not text.endswith(b"\n")))
    ]
    if not brought or (file.after and file.after.mode not in (REGULAR_MODE, EXECUTABLE_MODE)):
        return []
    try:
        origins = line_origins(repository, roots, commit, file.path, brought, claims=False)
    except UsageError:  # what it calls binary has no lines
        return []
    # What other tools claim is not passed on.
    return [one for one in origins if one.source == CAPTURED and one.commit == commit]


def _traced(
    path: str, origins: Sequence[LineOrigin], rows: Sequence[bytes], sessions: _SessionModels
) -> TracedFile:
    by_talk: dict[_Talk, list[int]] = {}
    for origin in origins:
        by_talk.setdefault(sessions.talk(origin), []).append(origin.line)
    return TracedFile(
        path, tuple(_conversation(talk, numbers, rows) for talk, numbers in by_talk.items())
    )


def _conversation(talk: _Talk, numbers: Sequence[int], rows: Sequence[bytes]) -> TracedConversation:
    grouped = groupby(enumerate(sorted(numbers)), key=lambda each: each[1] - each[0])
    runs = [[line for _, line in run] for _, run in grouped]
    ranges = tuple(LineRange(run[0], run[-1], hash_of(rows[run[0] - 1 : run[-1]])) for run in runs)
    return TracedConversation(ranges, _urn(talk.session), Contributor("ai", talk.model))


def _urn(session: str) -> str:
    """The session as a URI: nobody else can look it up, but two files with one URI are of one
    conversation.
    """
    try:
        return uuid.UUID(captures.own_id(session)).urn
    except ValueError:
        return ""


def _record(commit: str, files: Sequence[TracedFile], origins: Sequence[LineOrigin]) -> TraceRecord:
    agents = {captures.own_id(one.session): one.agent for one in origins}
    content = json.dumps([commit, __version__, agents, *map(plain, files)], sort_keys=True)
    return TraceRecord(
        version=VERSION,
        id=str(uuid.uuid5(_IDS, content)),
        timestamp=max(datetime.fromisoformat(one.at) for one in origins),
        files=tuple(files),
        vcs=TracedRevision("git", commit),
        tool=TracingTool(OWN, __version__),
        metadata={OWN: {"sessions": dict(sorted(agents.items()))}},
    )
