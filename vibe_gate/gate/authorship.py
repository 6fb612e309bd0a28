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
from itertools import chain

from vibe_gate.domain.agent_trace import OWN
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.escape import expression
from vibe_gate.domain.provenance import AGENT_ADDRESSES, Commit, Record, agent_hints
from vibe_gate.domain.summary import AgentAuthored
from vibe_gate.gate.traces import Traces
from vibe_gate.git import Repository
from vibe_gate.store import captures
from vibe_gate.store.clone_state import CloneState


class Authorship:
    """The witnesses of one repository, read once for as many changes as are asked about.

    `agents`: the variables of the environment that tell that an agent runs this, each with its
    name.
    `now`: what sessions wrote until then is looked for first; None if a review has just done so,
    with `unread` why not all of it could be read.
    """

    def __init__(
        self,
        repository: Repository,
        agents: Mapping[str, str],
        state: CloneState,
        now: datetime | None = None,
        unread: str = "",
    ) -> None:
        self._repository = repository
        self._traces = Traces(repository)
        self._agents = agents
        self._records = state.hook_records
        self._unread = unread if now is None else captures.note_written(state, now)
        self._written = state.captured_blobs.sessions_by_blob()

    @cached_property
    def records(self) -> list[Record]:
        """Every record of the hooks, oldest first."""
        return self._records.all()

    @cached_property
    def _hints(self) -> Hints:
        return Hints(self.records)

    def earlier(self, commit: str) -> list[str]:
        """The commit, and those that it was rewritten from, by the records, the latest first."""
        return self._hints.earlier(commit)

    def of(self, change: Change, commits: Sequence[Commit]) -> AgentAuthored:
        """Today's signs, then those that hooks recorded; `commits` are the change's, or the one
        about to be made.
        """
        captured = written_hints(change.files, self._written)
        traced = self._traces.hints(change, commits)
        if captured:  # our own records say the same of the same sessions
            traced = tuple(hint for hint in traced if not _OWN_TRACE.search(hint))
        written = (*captured, *traced, *filter(None, [self._unread]))
        agents = {} if change.head_commit else self._agents
        hints = agent_hints(agents, commits, written)
        every = tuple(dict.fromkeys((*hints, *self._recorded(change, commits, hints))))
        return AgentAuthored(decision=bool(every), hints=every)

    def signs_of(self, commit: Commit) -> tuple[str, ...]:
        """The signs of an agent at one commit, without what captured sessions wrote: those tell
        their own lines.
        """
        hints = agent_hints({}, [commit])
        recorded = self._hints.of(commit.id, self._repository.tree_of(commit.id), hints)
        return tuple(hint for hint in (*hints, *recorded) if not _WROTE.search(hint))

    def _recorded(
        self, change: Change, commits: Sequence[Commit], seen: tuple[str, ...]
    ) -> tuple[str, ...]:
        if not change.head_commit:
            return Hints(self._records.about(change.after)).of("", change.after, seen)
        found = (
            self._hints.of(made.id, self._repository.tree(made.id).id, seen) for made in commits
        )
        return tuple(hint for some in found for hint in some)


def agent_behind(agents: Mapping[str, str], emails: Iterable[str]) -> str:
    """The sign of an agent in the environment or among the addresses, for people; "" where there is
    none.

    `agents`: the variables that tell of an agent, each with its name.
    """
    variables = (f"{name} is set, so {agent} runs this" for name, agent in agents.items())
    addresses = (
        f"{one} is {agent}"
        for one in emails
        for pattern, agent in AGENT_ADDRESSES
        if pattern.search(one)
    )
    return next(chain(variables, addresses), "")


def writers(files: Sequence[FileDiff], blobs: Mapping[str, str]) -> Counter[str]:
    """The captured sessions whose blobs (by id) the change brings, and of how many files each."""
    return Counter(blobs[file.brought_blob] for file in files if file.brought_blob in blobs)


def written_hints(files: Sequence[FileDiff], blobs: Mapping[str, str]) -> tuple[str, ...]:
    """What captured sessions say about the files: a hint for each of the `writers`."""
    counts = writers(files, blobs)
    of = f"of {len(files)} files" if len(files) != 1 else "of 1 file"
    return tuple(
        f"{captures.session_title(name)} wrote {count} {of}" for name, count in counts.items()
    )


_WROTE = expression(r" session \S+ wrote \d+ of | an Agent Trace record of ")
"""In a hint of `written_hints`, and of `Traces`."""

_OWN_TRACE = expression(rf" an Agent Trace record of {OWN} says ")

MAX_HINTS = 20
"""Recorded hints that are told of one commit: one is enough to be strict."""


class Hints:
    """What hooks wrote down about who made a commit, or a tree that became one.

    A later review cannot see the environment in which a commit was made; the hooks
    did. What the review of a push recorded is left out: it speaks of a whole range.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._by_object: dict[str, list[str]] = {}
        self._before: dict[str, set[str]] = {}
        for record in records:
            if record.kind == "rewritten":
                self._before.setdefault(record.commit, set()).add(record.old)
            elif record.stage != "pre-push" and record.hints:
                for name in filter(None, {record.commit, record.tree}):
                    self._by_object.setdefault(name, []).extend(record.hints)

    def earlier(self, commit: str) -> list[str]:
        """The commit (not ""), and those that it was rewritten from, the latest first."""
        names: dict[str, None] = {}
        waiting = [commit]
        while waiting:
            name = waiting.pop()
            if name and name not in names:
                names[name] = None
                waiting += sorted(self._before.get(name, ()))
        return [*names]

    def of(self, commit: str, tree: str, known: Container[str] = ()) -> tuple[str, ...]:
        """The hints about a commit ("": one that is about to be made), those it was rewritten from,
        and its tree.

        What is `known` already is left out.
        """
        names = {tree, *self.earlier(commit)}
        # A hook that reviewed a range recorded what other commits say, too.
        own_names = tuple(f"commit {name[:12]}: " for name in names)
        own = f"commit {commit[:12]}" if commit else "this commit"
        found = [
            hint
            for name in sorted(names)
            for hint in self._by_object.get(name, ())
            if not hint.startswith("commit ") or hint.startswith(own_names)
        ]
        said = dict.fromkeys(_of_commit(own, hint) for hint in found if hint not in known)
        return tuple(hint for hint in said if hint not in known)[:MAX_HINTS]


def _of_commit(own: str, hint: str) -> str:
    """The hint as it reads later: of the commit by its name, as `agent_hints` words it, or as what
    a hook recorded.
    """
    if hint.startswith("commit "):
        return hint
    if hint.startswith("this commit: "):
        return f"{own}: {hint.removeprefix('this commit: ')}"
    return f"{own}: recorded: {hint}"
