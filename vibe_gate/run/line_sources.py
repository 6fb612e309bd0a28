"""Where each line of a file comes from: the commit, and the write of an agent that brought it.

    blamed line -> what its commit only moved, reformatted or restored: further back
                -> the states that writes of the file found and left (`line_writes`) -> the write

What stood in an earlier commit already, and came back, was typed again: it is not that write's.
A line of a commit from before everything that tells of an agent (`recorded_since`) is followed no
further: nobody would be named for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial

from msgspec import Struct

from vibe_gate.domain.blame import BlamedLine, FileAt
from vibe_gate.domain.escape import expression
from vibe_gate.domain.matching import match_lines, reshaped
from vibe_gate.gate.authorship import Authorship
from vibe_gate.git import Repository
from vibe_gate.run.agent_writes import AgentWrites, chain_closeness
from vibe_gate.run.file_texts import FileText, FileTexts
from vibe_gate.run.line_writes import (
    AgentWrite,
    Chain,
    Version,
    find_writes_of_lines,
    has_unread_write,
)
from vibe_gate.run.recorded_since import find_recorded_since
from vibe_gate.store import captures
from vibe_gate.store.clone_state import CloneState
from vibe_gate.store.stored_writes import DigestedLines, LineDigests

SAME_SECOND = 1.0
"""Commits tell whole seconds, writes thousandths."""

MANY_COMMITS = 30
"""To look through the file's history costs about as much as to follow the lines of so many."""

MAX_STEPS = 20
"""Commits that only moved or restored a line, one before the other."""

MAX_EARLIER = 40
"""Earlier versions in which a line is looked for that came back."""

UNREAD_WRITE = "a captured write of the file does not say what it changed"
LOST_EVENT = "an agent's event was lost before this commit, see `vibe-gate doctor`"

_REVERTS = expression(r"\bThis reverts commit ([0-9a-f]{40})\b")


class LineSource(Struct, frozen=True):
    """Where a line comes from."""

    commit: str
    write: AgentWrite | None = None
    """The write that brought it; None if none is known."""
    doubt: str = ""
    """Why an agent may have written it all the same, or ""."""


class AskedFile(Struct, frozen=True):
    """The file whose lines are asked about."""

    commit: str
    path: str
    is_committed: bool
    """False if the commit was made for the question, of files without one."""

    def is_uncommitted(self, commit: str) -> bool:
        """Whether that is the commit that was made for the question."""
        return commit == self.commit and not self.is_committed


class LineSources:
    """Finds the sources of the lines of one file."""

    def __init__(
        self,
        repository: Repository,
        state: CloneState,
        authorship: Authorship,
        digests: LineDigests,
        texts: FileTexts,
        writes: AgentWrites,
        file: AskedFile,
        rows: Sequence[BlamedLine],
    ) -> None:
        """`rows` are the lines of the file that are asked about."""
        self._repository = repository
        self._state = state
        self._authorship = authorship
        self._digests = digests
        self._texts = texts
        self._writes = writes
        self._file = file
        self._rows = rows
        self._committed_at = lru_cache(None)(repository.committed_at)

    def find_sources(self) -> dict[int, LineSource]:
        """By line where it comes from."""
        return self._sources(self._rows, self._file.commit, self._file.path, 0)

    def _sources(
        self, rows: Iterable[BlamedLine], commit: str, path: str, steps: int
    ) -> dict[int, LineSource]:
        """The sources of lines of the file at `path` in `commit`, by their numbers there."""
        text = self._texts.text(commit, path)
        blamed_lines = text.lines if text else ()
        groups: dict[tuple[str, str], list[BlamedLine]] = defaultdict(list)
        for row in rows:
            groups[row.commit, row.path].append(row)
        # The newest first: the version before one commit is then the next one that is asked for.
        newest_first = sorted(
            groups.values(),
            key=lambda group: self._committed_at(group[0].commit),
            reverse=True,
        )
        sources: dict[int, LineSource] = {}
        for group in newest_first:
            if self._is_before_records(group[0].commit):
                for row in group:
                    sources[row.line] = LineSource(row.commit)
                continue
            contents = {row.number - 1: blamed_lines[row.line - 1] for row in group}
            source_by_number = self._sources_in_commit(group[0], contents, steps)
            for row in group:
                sources[row.line] = source_by_number[row.number - 1]
        return sources

    def _is_before_records(self, commit: str) -> bool:
        """Whether the commit, and so what it was made of, is older than all that tells of an
        agent.
        """
        return _end_of_second(self._committed_at(commit)) < self._recorded_since

    def _sources_in_commit(
        self, row: BlamedLine, contents: dict[int, str], steps: int
    ) -> dict[int, LineSource]:
        """The sources of lines that a commit brought into a file, by their numbers there (from 0).

        `contents` has the text of each, white space aside.
        """
        sources = self._inherited_sources(row, contents, steps) if steps < MAX_STEPS else {}
        new_numbers = contents.keys() - sources.keys()
        writes, doubt = self._find_writes(row, new_numbers)
        for number in new_numbers:
            sources[number] = LineSource(row.commit, writes.get(number), doubt)
        return sources

    # Lines that a commit did not write

    def _inherited_sources(
        self, row: BlamedLine, contents: dict[int, str], steps: int
    ) -> dict[int, LineSource]:
        """Of lines that the commit moved, reformatted or restored, the sources that they had."""
        sources: dict[int, LineSource] = {}
        for commit, path in self._versions_carried_from(row):
            old = self._texts.text(commit, path)
            if old is None or not old.may_have_any(contents.values()):
                continue
            old_numbers = self._old_numbers(row, commit, path, old)
            open_numbers = contents.keys() - sources.keys()
            carried_numbers = {
                number: old_numbers[number] for number in open_numbers if number in old_numbers
            }
            if not carried_numbers:
                continue
            old_sources = self._sources_of_old(commit, path, carried_numbers.values(), steps + 1)
            for number, old_number in carried_numbers.items():
                sources[number] = old_sources[old_number]
        return sources

    def _sources_of_old(
        self, commit: str, path: str, numbers: Collection[int], steps: int
    ) -> dict[int, LineSource]:
        """The sources of lines of an earlier version, by their numbers there (from 0)."""
        if self._is_before_records(commit):
            return dict.fromkeys(numbers, LineSource(commit))
        spans = spans_of([number + 1 for number in numbers])
        rows = self._repository.blamed(commit, path, spans, since=self._recorded_since)
        sources = self._sources(rows, commit, path, steps)
        return {line - 1: source for line, source in sources.items()}

    def _versions_carried_from(self, row: BlamedLine) -> Iterator[tuple[str, str]]:
        """Versions from which the commit may have carried lines: the one before, and what it
        restored.
        """
        if row.before:
            yield row.before, row.before_path
        if self._file.is_uncommitted(row.commit):
            return
        for reverted in _REVERTS.findall(self._repository.commit(row.commit).message):
            if not self._repository.has(reverted):
                continue
            parent = next(iter(self._repository.parents(reverted)), "")
            if parent and self._repository.has(parent):
                yield parent, row.path

    def _old_numbers(
        self, row: BlamedLine, commit: str, path: str, old: FileText
    ) -> dict[int, int]:
        """By line of the row's version the line of an older one that it was.

        Lines that are in the same place in the version before the commit are left out: git knows of
        them.
        """
        new = self._texts.text(row.commit, row.path)
        if new is None:
            return {}
        state = self._texts.state(row.commit, row.path)
        old_number_by_new = match_lines(self._texts.state(commit, path), state)
        reshaped_numbers = reshaped(old.lines, new.lines, old_number_by_new)
        if commit == row.before:
            return reshaped_numbers
        in_place = {new: old for new, old in enumerate(old_number_by_new) if old >= 0}
        return in_place | reshaped_numbers

    # From a commit's lines to writes

    def _find_writes(
        self, row: BlamedLine, numbers: Collection[int]
    ) -> tuple[dict[int, AgentWrite], str]:
        """The writes that brought these lines, by line; and why others may be an agent's, or ""."""
        if not numbers:
            return {}, ""
        chains = self._writes.chains_at({row.path, row.before_path} - {""})
        if not chains and row.before and not self._lost_events:
            return {}, ""  # the usual case, in which the commit's text need not be read
        text = self._texts.text(row.commit, row.path)
        if text is None:
            return {}, ""
        state = self._texts.state(row.commit, row.path)
        version = Version(state, text.blob, self._moments(row.commit))
        if not row.before:
            similar_chain = self._writes.similar_chain(text.lines, state, numbers)
            if similar_chain:
                chains = [*chains, similar_chain]
        if len(chains) > 1:
            chains.sort(key=lambda chain: chain_closeness(chain, version), reverse=True)
        loose = partial(self._digests.loose, text.lines)
        writes: dict[int, AgentWrite] = {}
        for chain in chains:
            open_numbers = numbers - writes.keys()
            writes |= find_writes_of_lines(chain, version, open_numbers, loose)
        doubt = self._doubt(row, version.latest, chains)
        return self._without_typed_again(row, state, writes), doubt

    def _doubt(self, row: BlamedLine, latest: float, chains: Sequence[Chain]) -> str:
        """Why lines that no known write brought may be an agent's all the same, or ""."""
        since = 0.0
        if row.before:
            since = self._committed_at(row.before) + SAME_SECOND
        if any(has_unread_write(chain, since, latest) for chain in chains):
            return UNREAD_WRITE
        if any(since <= moment < latest for moment in self._lost_events):
            return LOST_EVENT
        return ""

    @cached_property
    def _lost_events(self) -> tuple[float, ...]:
        """When an event of an agent was lost; one that the guard could not judge was kept."""
        gaps = captures.read_capture_gaps(self._state)
        return tuple(gap.moment.timestamp() for gap in gaps if not gap.is_of_guard)

    def _moments(self, commit: str) -> tuple[float, ...]:
        """When the commit may have been made: by its author's clock, as earlier forms, at last."""
        if self._file.is_uncommitted(commit):
            return (math.inf,)
        earlier_ids = filter(self._repository.has, self._authorship.earlier(commit)[1:])
        rewritten_at = sorted(_end_of_second(self._committed_at(old_id)) for old_id in earlier_ids)
        authored_at = _end_of_second(self._repository.authored_at(commit))
        committed_at = _end_of_second(self._committed_at(commit))
        return (authored_at, *rewritten_at, committed_at)

    # Lines that were typed again

    def _without_typed_again(
        self, row: BlamedLine, state: DigestedLines, writes: dict[int, AgentWrite]
    ) -> dict[int, AgentWrite]:
        """Without the runs of lines of one write that a commit after it had, and this one's parent
        not.
        """
        since = min((write.at for write in writes.values()), default=math.inf)
        for version in self._versions_between(row, since):
            if not writes:
                return {}
            old_state = self._texts.state(version.commit, version.path)
            if not old_state:
                continue
            old_numbers = match_lines(old_state, state)
            until = version.committed + SAME_SECOND
            retyped_numbers: set[int] = set()
            for run in _runs_of_write(writes):
                if writes[run[0]].at < until and all(old_numbers[number] >= 0 for number in run):
                    retyped_numbers.update(run)
            if retyped_numbers and self._is_before(version, row):
                other_numbers = writes.keys() - retyped_numbers
                writes = {number: writes[number] for number in other_numbers}
        return writes

    def _is_before(self, version: FileAt, row: BlamedLine) -> bool:
        return self._repository.is_ancestor(version.commit, row.before or row.commit)

    def _versions_between(self, row: BlamedLine, since: float) -> list[FileAt]:
        """Versions of the file that may be earlier ones, committed since then, the newest first."""
        if since == math.inf:
            return []
        commits = [version.commit for version in self._history]
        start = commits.index(row.commit) + 1 if row.commit in commits else 0
        earlier_versions: list[FileAt] = []
        for version in self._history[start:]:
            if version.committed + SAME_SECOND > since and version.commit != row.commit:
                earlier_versions.append(version)
            if len(earlier_versions) == MAX_EARLIER:
                break
        return earlier_versions

    @cached_property
    def _history(self) -> list[FileAt]:
        return self._repository.history_of(self._file.commit, self._file.path)

    @cached_property
    def _recorded_since(self) -> float:
        """As of `find_recorded_since`; 0 if lines of a few commits are asked about."""
        commits = {row.commit for row in self._rows if not self._file.is_uncommitted(row.commit)}
        if len(commits) < MANY_COMMITS:
            return 0.0
        committed_at = {version.commit: version.committed for version in self._history}
        for commit in commits - committed_at.keys():
            committed_at[commit] = self._committed_at(commit)
        return find_recorded_since(
            self._repository, self._state, self._authorship, self._writes, committed_at
        )


def spans_of(lines: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as runs of neighbours, each by its first and last."""
    spans: list[tuple[int, int]] = []
    for line in sorted(set(lines)):
        if spans and spans[-1][1] == line - 1:
            spans[-1] = (spans[-1][0], line)
        else:
            spans.append((line, line))
    return spans


def _runs_of_write(writes: dict[int, AgentWrite]) -> list[list[int]]:
    """Lines that follow each other and have one write."""
    runs: list[list[int]] = []
    for line in sorted(writes):
        if runs and runs[-1][-1] == line - 1 and writes[line] is writes[line - 1]:
            runs[-1].append(line)
        else:
            runs.append([line])
    return runs


def _end_of_second(second: int) -> float:
    """No later write can be in a commit of that second; any write can be in a commit without a date
    (0).
    """
    if second:
        return second + SAME_SECOND
    return math.inf
