"""Who wrote a change: the one place that decides whether an agent did. A hint makes the gate
stricter, never laxer.

Four witnesses: the commits and, of work that is not committed yet, the environment
(`domain.provenance`); captured sessions whose blobs the change brings; Agent Trace records
of any tool (`traces`); and what hooks wrote down when the commit, or the one it was
rewritten from, was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from vibe_gate.domain.agent_hint import AgentHint, SessionHint, TraceHint, UnreadSessionsHint
from vibe_gate.domain.agent_trace import OWN
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.provenance import AGENT_ADDRESSES, Commit, Record, agent_hints
from vibe_gate.domain.summary import AgentAuthored
from vibe_gate.gate.traces import Traces
from vibe_gate.git import Repository
from vibe_gate.store import captures
from vibe_gate.store.clone_state import CloneState


class Authorship:
    """The witnesses of one repository, read once for as many changes as are asked about."""

    def __init__(
        self,
        repository: Repository,
        agents: Mapping[str, str],
        state: CloneState,
        now: datetime | None = None,
        unread: str = "",
    ) -> None:
        """Read the witnesses.

        Args:
            repository: The changes'.
            agents: The variables of the environment that tell that an agent runs this, each with
                its name.
            state: The clone's.
            now: What sessions wrote until then is looked for first; None if a review has just done
                so.
            unread: Why not all of that could be read, if a review has just done so.
        """
        self._repository = repository
        self._traces = Traces(repository)
        self._agents = agents
        self._hook_records = state.hook_records
        self._unread = unread if now is None else captures.note_written(state, now)
        self._sessions_by_blob = state.captured_blobs.sessions_by_blob()

    @cached_property
    def records(self) -> list[Record]:
        """Every record of the hooks, oldest first."""
        return self._hook_records.all()

    @cached_property
    def _recorded_hints(self) -> RecordedHints:
        return RecordedHints(self.records)

    def earlier(self, commit: str) -> list[str]:
        """The commit, and those that it was rewritten from, by the records, the latest first."""
        return self._recorded_hints.earlier(commit)

    def of(self, change: Change, commits: Sequence[Commit]) -> AgentAuthored:
        """Today's signs, then those that hooks recorded; `commits` are the change's, or the one
        about to be made.
        """
        written = [*written_hints(change.files, self._sessions_by_blob)]
        traced = self._traces.hints(change, commits)
        if written:  # our own records say the same of the same sessions
            traced = tuple(hint for hint in traced if not _is_own_trace(hint))
        written += traced
        if self._unread:
            written.append(UnreadSessionsHint(reason=self._unread))
        agents = {} if change.head_commit else self._agents
        hints = agent_hints(agents, commits, written)
        recorded = self._hints_recorded_for(change, commits, hints)
        all_hints = tuple(dict.fromkeys((*hints, *recorded)))
        return AgentAuthored(decision=bool(all_hints), hints=all_hints)

    def signs_of(self, commit: Commit) -> tuple[AgentHint, ...]:
        """The signs of an agent at one commit, without what captured sessions wrote: those tell
        their own lines.
        """
        hints = agent_hints({}, [commit])
        tree = self._repository.tree_of(commit.id)
        recorded = self._recorded_hints.of(commit.id, tree, hints)
        all_hints = (*hints, *recorded)
        return tuple(hint for hint in all_hints if not isinstance(hint, SessionHint | TraceHint))

    def _hints_recorded_for(
        self, change: Change, commits: Sequence[Commit], known_hints: tuple[AgentHint, ...]
    ) -> tuple[AgentHint, ...]:
        if not change.head_commit:
            records = self._hook_records.find_records(change.after)
            return RecordedHints(records).of("", change.after, known_hints)
        hints: list[AgentHint] = []
        for commit in commits:
            tree = self._repository.tree(commit.id).id
            hints += self._recorded_hints.of(commit.id, tree, known_hints)
        return tuple(hints)


def agent_behind(agents: Mapping[str, str], emails: Iterable[str]) -> str:
    """The sign of an agent in the environment or among the addresses, for people; "" where there is
    none.

    `agents`: the variables that tell of an agent, each with its name.
    """
    for name, agent in agents.items():
        return f"{name} is set, so {agent} runs this"
    for email in emails:
        for pattern, agent in AGENT_ADDRESSES:
            if pattern.search(email):
                return f"{email} is {agent}"
    return ""


def count_writers(files: Sequence[FileDiff], blobs: Mapping[str, str]) -> Counter[str]:
    """The captured sessions whose blobs (by id) the change brings, and of how many files each."""
    counts: Counter[str] = Counter()
    for file in files:
        if file.brought_blob in blobs:
            counts[blobs[file.brought_blob]] += 1
    return counts


def written_hints(files: Sequence[FileDiff], blobs: Mapping[str, str]) -> tuple[AgentHint, ...]:
    """What captured sessions say about the files: a hint for each that wrote some."""
    hints = []
    for session, count in count_writers(files, blobs).items():
        hint = SessionHint(
            agent=captures.agent_title(session),
            session=captures.own_id(session),
            files=count,
            all_files=len(files),
        )
        hints.append(hint)
    return tuple(hints)


def _is_own_trace(hint: AgentHint) -> bool:
    return isinstance(hint, TraceHint) and hint.tool == OWN


MAX_HINTS = 20
"""Recorded hints that are told of one commit: one is enough to be strict."""


class RecordedHints:
    """What hooks wrote down about who made a commit, or a tree that became one.

    A later review cannot see the environment in which a commit was made; the hooks
    did. What the review of a push recorded is left out: it speaks of a whole range.
    """

    _by_object: dict[str, list[AgentHint]]
    """By the id of a commit or tree."""

    _earlier: dict[str, set[str]]
    """By commit, those that it was rewritten from."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._by_object = {}
        self._earlier = {}
        for record in records:
            if record.kind == "rewritten":
                self._earlier.setdefault(record.commit, set()).add(record.old)
                self._by_object.setdefault(record.commit, []).extend(record.hints)
            elif record.stage != "pre-push":
                for object_id in filter(None, {record.commit, record.tree}):
                    self._by_object.setdefault(object_id, []).extend(record.hints)

    def earlier(self, commit: str) -> list[str]:
        """The commit (not ""), and those that it was rewritten from, the latest first."""
        commits: dict[str, None] = {}
        waiting = [commit]
        while waiting:
            next_commit = waiting.pop()
            if next_commit and next_commit not in commits:
                commits[next_commit] = None
                waiting += sorted(self._earlier.get(next_commit, ()))
        return [*commits]

    def of(
        self, commit: str, tree: str, known_hints: Container[AgentHint] = ()
    ) -> tuple[AgentHint, ...]:
        """The hints about a commit ("": one that is about to be made), those it was rewritten from,
        and its tree.

        What is known already is left out.
        """
        object_ids = {tree, *self.earlier(commit)}
        hints: dict[AgentHint, None] = {}
        for object_id in sorted(object_ids):
            for hint in self._by_object.get(object_id, ()):
                # A hook that reviewed a range recorded what other commits say, too.
                is_of_other = hint.commit and hint.commit not in object_ids
                if is_of_other or hint in known_hints:
                    continue
                later_hint = hint if hint.commit else hint.at(commit)
                if later_hint not in known_hints:
                    hints[later_hint] = None
        return tuple(hints)[:MAX_HINTS]
