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
from vibe_gate.run.line_sources import spans_of
from vibe_gate.run.run_bundle import world_around
from vibe_gate.store import captures
from vibe_gate.store.captured_turns import CapturedModel, models_of
from vibe_gate.store.captured_writes import WritingSessions
from vibe_gate.version import __version__

_IDS = uuid.UUID("0f2f3b3c-6a0e-5d0c-9d6e-3f6f6c7c1a51")
"""Namespace of our records' ids."""


class _Conversation(Struct, frozen=True):
    """Whose lines one conversation of a record has."""

    session: str
    model: str


class _SessionModels:
    """The models of captured sessions, each read once."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._models: dict[str, tuple[CapturedModel, ...]] = {}

    def conversation_of(self, origin: LineOrigin) -> _Conversation:
        """The conversation that a line belongs to, with the model that its session named last
        before.
        """
        if origin.session not in self._models:
            self._models[origin.session] = models_of(self._roots, origin.session)
        model = ""
        for captured_model in self._models[origin.session]:
            if iso(captured_model.at) <= origin.at:
                model = model_id(captured_model.model)
        return _Conversation(origin.session, model)


def make_trace_records(
    repository: Repository, roots: Iterable[Path], commits: Sequence[str]
) -> Iterator[TraceRecord]:
    """The records of these commits (full ids), in their order; none of one that brought no line of
    a session.

    `roots` are the working trees whose stores may keep captured sessions.
    """
    sessions = WritingSessions(roots)
    models = _SessionModels(sessions.roots)
    commits_with_lines = [commit for commit in commits if not _is_clean_merge(repository, commit)]
    for commit, change in repository.changes_of(commits_with_lines).items():
        files: list[TracedFile] = []
        origins: list[LineOrigin] = []
        for file in change.files:
            file_origins = _captured_origins(repository, sessions, commit, file)
            if file_origins:
                contents = lines(repository.tree(commit).read(file.path) or b"")
                files.append(_traced_file(file.path, file_origins, contents, models))
                origins += file_origins
        if files:
            yield _record(commit, files, origins)


def fold_captured_sessions(
    repository: Repository, clock: Callable[[], datetime]
) -> tuple[Path, ...]:
    """Fold what sessions did until now into the store; the working trees whose stores may keep
    sessions.
    """
    catch_up(repository, world_around(repository, clock))
    return repository.capture_roots()


def keep_trace_record(repository: Repository, record: TraceRecord) -> bool:
    """Add the record to its commit's note, in the place of ours if it has one; whether that changed
    it. StorageError.

    The records of other tools stay, byte for byte.
    """
    old_note = _note(repository, record.revision)
    new_note = old_note
    for line, old_record in read_records(parts_of(old_note)).records:
        if old_record.tool.name == OWN:
            new_note = new_note.replace(line + b"\n", b"").replace(line, b"")
    if new_note and not new_note.endswith(b"\n"):
        new_note += b"\n"
    new_note += record.to_line()
    if new_note == old_note:
        return False
    repository.add_note(NOTES, record.revision, new_note)
    return True


def has_own_trace_record(repository: Repository, commit: str) -> bool:
    """Whether the commit's note has a record of ours."""
    records = read_records(parts_of(_note(repository, commit))).records
    return any(record.tool.name == OWN for _, record in records)


def _note(repository: Repository, commit: str) -> bytes:
    """The commit's note, b"" without one. StorageError: it is too large to be read, and so to be
    added to.
    """
    note_id = repository.note_ids(NOTES).get(commit)
    if not note_id:
        return b""
    text = repository.note_texts([note_id]).get(note_id)
    if text is None:
        raise StorageError(
            f"The note on {commit[:12]} in refs/notes/{NOTES} is too large to be read."
        )
    return text


def _is_clean_merge(repository: Repository, commit: str) -> bool:
    """Whether all its lines are those of its parents. Of more than two parents git makes no other
    merge.
    """
    parent_count = len(repository.parents(commit))
    return parent_count > 2 or (parent_count == 2 and repository.is_clean_merge(commit))


def _captured_origins(
    repository: Repository, sessions: WritingSessions, commit: str, file: FileDiff
) -> list[LineOrigin]:
    """Of the lines that the commit brought into a file, those that a captured session wrote."""
    if file.after is None or file.after.mode not in (REGULAR_MODE, EXECUTABLE_MODE):
        return []
    new_numbers = _added_numbers(file)
    if not new_numbers:
        return []
    try:
        origins = line_origins(repository, sessions, commit, file.path, new_numbers, claims=False)
    except UsageError:  # what it calls binary has no lines
        return []
    # What other tools claim is not passed on.
    return [origin for origin in origins if origin.source == CAPTURED and origin.commit == commit]


def _added_numbers(file: FileDiff) -> list[int]:
    """The numbers, after the change, of the lines that it adds; none of a binary file."""
    if file.binary:
        return []
    numbers: list[int] = []
    for hunk in file.hunks:
        for first, text in hunk.added_runs():
            line_count = text.count(b"\n") + (not text.endswith(b"\n"))
            numbers += range(first, first + line_count)
    return numbers


def _traced_file(
    path: str, origins: Sequence[LineOrigin], contents: Sequence[bytes], models: _SessionModels
) -> TracedFile:
    """The file of a record; `contents` are its lines."""
    numbers_by_conversation: dict[_Conversation, list[int]] = {}
    for origin in origins:
        conversation = models.conversation_of(origin)
        numbers_by_conversation.setdefault(conversation, []).append(origin.line)
    traced = [
        _traced_conversation(conversation, numbers, contents)
        for conversation, numbers in numbers_by_conversation.items()
    ]
    return TracedFile(path, tuple(traced))


def _traced_conversation(
    conversation: _Conversation, numbers: Sequence[int], contents: Sequence[bytes]
) -> TracedConversation:
    ranges = [
        LineRange(first, last, hash_of(contents[first - 1 : last]))
        for first, last in spans_of(numbers)
    ]
    contributor = Contributor("ai", conversation.model)
    return TracedConversation(tuple(ranges), _urn(conversation.session), contributor)


def _urn(session: str) -> str:
    """The session as a URI: nobody else can look it up, but two files with one URI are of one
    conversation.
    """
    try:
        return uuid.UUID(captures.own_id(session)).urn
    except ValueError:
        return ""


def _record(commit: str, files: Sequence[TracedFile], origins: Sequence[LineOrigin]) -> TraceRecord:
    agents = {captures.own_id(origin.session): origin.agent for origin in origins}
    content = json.dumps([commit, __version__, agents, *map(plain, files)], sort_keys=True)
    return TraceRecord(
        version=VERSION,
        id=str(uuid.uuid5(_IDS, content)),
        timestamp=max(datetime.fromisoformat(origin.at) for origin in origins),
        files=tuple(files),
        vcs=TracedRevision("git", commit),
        tool=TracingTool(OWN, __version__),
        metadata={OWN: {"sessions": dict(sorted(agents.items()))}},
    )
