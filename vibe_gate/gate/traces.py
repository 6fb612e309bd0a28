"""Agent Trace records of a repository, from git notes and from `.agent-trace/`: who wrote a commit,
by what tools say.

Anybody can write a record, so it makes a gate stricter and never laxer: that it names a person, or
no agent, says nothing. It counts if it is about the commit in question:

- a record in the commit's own note that names the commit, or no revision;
- a record in `.agent-trace/` that names the commit;
- one there that names the commit's parent, because tools that write when an agent edits a file do
  not know the commit that comes of it: it says which files an agent wrote, but not where the lines
  ended up;
- any of these that names another revision, for the lines whose hash is still right (a note that git copied to a
  rewritten commit).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from stat import S_ISREG

from msgspec import Struct

from vibe_gate.domain.agent_hint import AgentHint, TraceHint, UnreadTraceHint
from vibe_gate.domain.agent_trace import (
    LineHashes,
    RecordTexts,
    TraceClaim,
    TracedFile,
    TraceRecord,
    claims_of,
    is_by_agent,
    parts_of,
    read_records,
)
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.escape import expression, lines
from vibe_gate.domain.provenance import Commit
from vibe_gate.git import Repository

NOTES = "agent-trace"
"""The notes' ref, `refs/notes/agent-trace`: records by any tool, one a line."""

FOLDER = ".agent-trace"

MAX_FILES = 1_000
"""Of the folder: the last by name."""

MAX_BYTES = 16 << 20
"""Of the folder, from the ends of its files: that is where the newest records are."""

MAX_RECORDS = 5_000
"""About one commit from one source: the last."""

MAX_TOOL_NAME = 40
"""Characters of a tool's name in a hint."""

MAX_CLAIMED_BYTES = 4 << 20
"""Of a file whose lines are looked at."""

MAX_CLAIMS = 1_000
"""About the lines of one file at one commit: the first."""

MAX_TOOLS = 20
"""Tools that are named of one commit."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REVISION = expression(rb'"revision"\s*:\s*"([0-9a-f]{40})"')


class _SourcedRecord(Struct, frozen=True):
    """A record about a commit."""

    record: TraceRecord

    is_of_commit: bool
    """Whether its line numbers are those of the commit's files."""


class _TracesOfCommit:
    """The records about one commit."""

    records: Sequence[_SourcedRecord]

    unread: int
    """How many cannot be read."""

    def __init__(self, records: Sequence[_SourcedRecord] = (), unread: int = 0) -> None:
        self.records = records
        self.unread = unread
        self._hashes = LineHashes()

    @cached_property
    def files(self) -> Mapping[str, Sequence[tuple[_SourcedRecord, TracedFile]]]:
        """By path what the records have of a file."""
        by_path: dict[str, list[tuple[_SourcedRecord, TracedFile]]] = defaultdict(list)
        for sourced_record in self.records:
            for file in sourced_record.record.files:
                by_path[file.path].append((sourced_record, file))
        return dict(by_path)

    def tools(self, path: str, content: bytes | None) -> Iterator[str]:
        """The tools that say that an agent wrote in the file; None: it is too large for its lines
        to be counted.
        """
        line_count = None if content is None else len(lines(content))
        for sourced_record, file in self.files.get(path, ()):
            if is_by_agent(file, line_count if sourced_record.is_of_commit else None):
                yield sourced_record.record.tool.name

    def claims(self, path: str, content: bytes) -> Iterator[TraceClaim]:
        """What the records say of the file's lines."""
        rows = lines(content)
        for sourced_record, file in self.files.get(path, ()):
            hashes = None if sourced_record.is_of_commit else self._hashes
            yield from claims_of(sourced_record.record, file, rows, hashes)


class Traces:
    """The records of one repository; notes and folder are listed once."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._of_commits: dict[str, _TracesOfCommit] = {}
        """Of commits with any."""
        self._records: dict[bytes, RecordTexts] = {}

    def claims(self, commit: str, path: str) -> tuple[TraceClaim, ...]:
        """What the records say of a file at this commit (full id); claims about unknown lines of it
        are left out.
        """
        traces = self._traces_of(commit)
        content = self._repository.tree(commit).read(path) if path in traces.files else None
        if content is None or len(content) > MAX_CLAIMED_BYTES:
            return ()
        claims = (claim for claim in traces.claims(path, content) if claim.first)
        return tuple(islice(claims, MAX_CLAIMS))

    def hints(self, change: Change, commits: Sequence[Commit]) -> tuple[AgentHint, ...]:
        """Signs of an agent in the change: of each of its `commits`, or of what is not committed
        yet.
        """
        if not change.head_commit:
            if not self._in_folder:
                return ()
            parent = self._repository.head()
            if not parent:
                return ()
            return tuple(self._hints("", self._written_at(parent), change.files))
        traced_ids = []
        for commit in commits:
            traces = self._traces_of(commit.id)
            if traces.records or traces.unread:
                traced_ids.append(commit.id)
        if not traced_ids:
            return ()
        hints: list[AgentHint] = []
        for commit_id, commit_change in self._repository.changes_of(traced_ids).items():
            traces = self._traces_of(commit_id)
            hints += self._hints(commit_id, traces, commit_change.files)
        return tuple(hints)

    def _hints(
        self, commit: str, traces: _TracesOfCommit, files: Sequence[FileDiff]
    ) -> Iterator[AgentHint]:
        paths_by_tool: dict[str, set[str]] = {}
        for file in files:
            if not file.after or file.path not in traces.files:
                continue
            content: bytes | None = None
            if file.after.size <= MAX_CLAIMED_BYTES:
                content = self._repository.read(file.after)
            for tool in traces.tools(file.path, content):
                paths_by_tool.setdefault(tool, set()).add(file.path)
        for tool, tool_paths in islice(paths_by_tool.items(), MAX_TOOLS):
            yield TraceHint(
                commit=commit,
                tool=tool[:MAX_TOOL_NAME],
                files=len(tool_paths),
                all_files=len(files),
            )
        if traces.unread:
            yield UnreadTraceHint(commit=commit, records=traces.unread)

    def _traces_of(self, commit: str) -> _TracesOfCommit:
        if commit in self._of_commits:
            return self._of_commits[commit]
        traces = self._find_traces(commit)
        if traces.records or traces.unread:
            self._of_commits[commit] = traces
        return traces

    def _find_traces(self, commit: str) -> _TracesOfCommit:
        """The records in the commit's note, and in the folder those of it and of its parents."""
        sources = [self._noted_traces(commit)]
        sources.append(self._read_traces(self._in_folder.get(commit, ()), commit))
        if self._in_folder:
            for parent in self._repository.parents(commit):
                sources.append(self._written_at(parent))
        records: list[_SourcedRecord] = []
        for source in sources:
            records += source.records
        return _TracesOfCommit(tuple(records), sum(source.unread for source in sources))

    def _noted_traces(self, commit: str) -> _TracesOfCommit:
        note = self._notes.get(commit)
        if not note:
            return _TracesOfCommit()
        text = self._repository.note_texts([note]).get(note)
        if text is None:
            return _TracesOfCommit(unread=1)
        return self._read_traces(parts_of(text), commit, "")

    def _written_at(self, parent: str) -> _TracesOfCommit:
        """The records in the folder that were written while HEAD was at this commit."""
        return self._read_traces(self._in_folder.get(parent, ()))

    def _read_traces(self, parts: Sequence[bytes], *revisions: str) -> _TracesOfCommit:
        """The records in these parts; those with one of these names as their revision are about the
        commit itself.
        """
        records = []
        unread = 0
        for part in parts[-MAX_RECORDS:]:
            part_records = self._read_part(part)
            unread += len(part_records.unread)
            for _, record in part_records.records:
                records.append(_SourcedRecord(record, record.revision in revisions))
        return _TracesOfCommit(tuple(records), unread)

    def _read_part(self, part: bytes) -> RecordTexts:
        """The record in this part; one that names several commits is read once."""
        if part not in self._records:
            self._records[part] = read_records([part])
        return self._records[part]

    @cached_property
    def _notes(self) -> Mapping[str, str]:
        return self._repository.note_ids(NOTES)

    @cached_property
    def _in_folder(self) -> Mapping[str, Sequence[bytes]]:
        """The records of the folder, as their bytes, by the commits that they name."""
        by_commit: dict[str, list[bytes]] = defaultdict(list)
        for text in _read_ends(self._repository.root / FOLDER):
            for part in parts_of(text):
                for commit in set(_REVISION.findall(part)):
                    by_commit[commit.decode()].append(part)
        return by_commit


def _read_ends(folder: Path) -> Iterator[bytes]:
    """The ends of the folder's files of records. No link is followed, and what cannot be opened is
    left out.
    """
    try:
        descriptor = os.open(folder, _DIRECTORY)
    except OSError:
        return
    try:
        with os.scandir(descriptor) as entries:
            all_names = sorted(entry.name for entry in entries)
        names = [name for name in all_names if name.endswith((".jsonl", ".json"))]
        left_bytes = MAX_BYTES
        for name in reversed(names[-MAX_FILES:]):
            with suppress(OSError):
                text = _read_end(descriptor, name, left_bytes)
                left_bytes -= len(text)
                yield text
    finally:
        os.close(descriptor)


def _read_end(folder: int, name: str, max_bytes: int) -> bytes:
    """The last bytes of a regular file; if that is not all of it, from the beginning of a line on.
    OSError.
    """
    with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        status = os.fstat(file.fileno())
        if not S_ISREG(status.st_mode):
            return b""
        start = max(0, status.st_size - max_bytes)
        file.seek(start)
        text = file.read(max_bytes)
    return text.partition(b"\n")[2] if start else text
