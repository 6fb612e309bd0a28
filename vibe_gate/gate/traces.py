"""Agent Trace records of a repository, from git notes and from `.agent-trace/`: who wrote a commit,
by what tools say.

Anybody can write a record, so it makes a gate stricter and never laxer: that it names a person, or
no agent, says nothing. It counts if it is about the commit in question:

- a record in the commit's own note that names the commit, or no revision;
- a record in `.agent-trace/` that names the commit;
- one there that names the commit's parent, because tools that write when an agent edits a file do not know the commit
  that comes of it: it says which files an agent wrote, but not where the lines ended up;
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
from vibe_gate.domain.escape import counted, expression, lines, show_text
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
    """A record about a commit; `is_of_commit`: its line numbers are those of the commit's files."""

    record: TraceRecord
    is_of_commit: bool


class _TracesOfCommit:
    """The records about one commit, and how many there cannot be read."""

    def __init__(self, told: Sequence[_SourcedRecord] = (), unread: int = 0) -> None:
        self.told = told
        self.unread = unread
        self._hashes = LineHashes()

    @cached_property
    def files(self) -> Mapping[str, Sequence[tuple[_SourcedRecord, TracedFile]]]:
        """By path what the records have of a file."""
        by_path: dict[str, list[tuple[_SourcedRecord, TracedFile]]] = defaultdict(list)
        for one in self.told:
            for file in one.record.files:
                by_path[file.path].append((one, file))
        return dict(by_path)

    def tools(self, path: str, content: bytes | None) -> Iterator[str]:
        """The tools that say that an agent wrote in the file; None: it is too large for its lines
        to be counted.
        """
        rows = None if content is None else len(lines(content))
        for one, file in self.files.get(path, ()):
            if is_by_agent(file, rows if one.is_of_commit else None):
                yield one.record.tool.name

    def claims(self, path: str, content: bytes) -> Iterator[TraceClaim]:
        """What the records say of the file's lines."""
        rows = lines(content)
        for one, file in self.files.get(path, ()):
            yield from claims_of(one.record, file, rows, None if one.is_of_commit else self._hashes)


class Traces:
    """The records of one repository; notes and folder are listed once."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._of_commits: dict[str, _TracesOfCommit] = {}
        self._records: dict[bytes, RecordTexts] = {}

    def claims(self, commit: str, path: str) -> tuple[TraceClaim, ...]:
        """What the records say of a file at this commit (full id); claims about unknown lines of it
        are left out.
        """
        about = self._about(commit)
        content = self._repository.tree(commit).read(path) if path in about.files else None
        if content is None or len(content) > MAX_CLAIMED_BYTES:
            return ()
        return tuple(
            islice((claim for claim in about.claims(path, content) if claim.first), MAX_CLAIMS)
        )

    def hints(self, change: Change, commits: Sequence[Commit]) -> tuple[str, ...]:
        """Signs of an agent in the change: of each of its `commits`, or of what is not committed
        yet.
        """
        if not change.head_commit:
            parent = self._repository.head()
            return (
                tuple(self._hints("this commit", self._written_at(parent), change.files))
                if parent
                else ()
            )
        with_records = [
            one.id for one in commits if self._about(one.id).told or self._about(one.id).unread
        ]
        changes = self._repository.changes_of(with_records) if with_records else {}
        return tuple(
            hint
            for commit, its in changes.items()
            for hint in self._hints(f"commit {commit[:12]}", self._about(commit), its.files)
        )

    def _hints(self, name: str, about: _TracesOfCommit, files: Sequence[FileDiff]) -> Iterator[str]:
        wrote: dict[str, set[str]] = {}
        for file in files:
            if file.after and file.path in about.files:
                is_small = file.after.size <= MAX_CLAIMED_BYTES
                content = self._repository.read(file.after) if is_small else None
                for tool in about.tools(file.path, content):
                    wrote.setdefault(tool, set()).add(file.path)
        for tool, paths in [*wrote.items()][:MAX_TOOLS]:
            who = show_text(tool)[:40] or "an unnamed tool"
            count = f"{len(paths)} of {counted(len(files), 'file')}"
            yield f"{name}: an Agent Trace record of {who} says that an agent wrote {count}"
        if about.unread:
            what = counted(about.unread, "Agent Trace record")
            yield f"{name}: {what} cannot be read, so an agent may have made it"

    def _about(self, commit: str) -> _TracesOfCommit:
        if commit not in self._of_commits:
            self._of_commits[commit] = self._looked_up(commit)
        return self._of_commits[commit]

    def _looked_up(self, commit: str) -> _TracesOfCommit:
        note = self._note(commit)
        parents = self._repository.parents(commit) if self._in_folder else []
        found = [
            note,
            self._of(self._in_folder.get(commit, ()), commit),
            *map(self._written_at, parents),
        ]
        return _TracesOfCommit(
            tuple(told for one in found for told in one.told), sum(one.unread for one in found)
        )

    def _note(self, commit: str) -> _TracesOfCommit:
        if not (note := self._notes.get(commit)):
            return _TracesOfCommit()
        text = self._repository.note_texts([note]).get(note)
        return _TracesOfCommit(unread=1) if text is None else self._of(parts_of(text), commit, "")

    def _written_at(self, parent: str) -> _TracesOfCommit:
        """The records in the folder that were written while HEAD was at this commit."""
        return self._of(self._in_folder.get(parent, ()))

    def _of(self, parts: Sequence[bytes], *names: str) -> _TracesOfCommit:
        """The records in these parts; those with one of these names as their revision are about the
        commit itself.
        """
        found = [self._read(part) for part in parts[-MAX_RECORDS:]]
        records = [record for one in found for _, record in one.records]
        told = tuple(_SourcedRecord(record, record.revision in names) for record in records)
        return _TracesOfCommit(told, sum(len(one.unread) for one in found))

    def _read(self, part: bytes) -> RecordTexts:
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
        for text in _tails(self._repository.root / FOLDER):
            for part in parts_of(text):
                for commit in {name.decode() for name in _REVISION.findall(part)}:
                    by_commit[commit].append(part)
        return by_commit


def _tails(folder: Path) -> Iterator[bytes]:
    """The ends of the folder's files of records. No link is followed, and what cannot be opened is
    left out.
    """
    try:
        opened = os.open(folder, _DIRECTORY)
    except OSError:
        return
    try:
        with os.scandir(opened) as entries:
            names = sorted(
                entry.name for entry in entries if entry.name.endswith((".jsonl", ".json"))
            )
        left = MAX_BYTES
        for name in reversed(names[-MAX_FILES:]):
            with suppress(OSError):
                text = _tail(opened, name, left)
                left -= len(text)
                yield text
    finally:
        os.close(opened)


def _tail(folder: int, name: str, most: int) -> bytes:
    """The last bytes of a regular file; if that is not all of it, from the beginning of a line on.
    OSError.
    """
    with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        about = os.fstat(file.fileno())
        if not S_ISREG(about.st_mode):
            return b""
        start = max(0, about.st_size - most)
        file.seek(start)
        text = file.read(most)
    return text.partition(b"\n")[2] if start else text
