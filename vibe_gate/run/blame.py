"""Whose each line of a file is: git says which commit brought it, its content which write of a captured session.

    line -> commit (git blame, white space aside) -> what the commit only moved, reformatted or restored: further back
         -> the states that writes of the file found and left (`line_writes`) -> the write -> its turn and prompt

A line is an agent's only if a write brought it and it is matched to that write in order. What stood in an earlier
commit already, and came back, was typed again: it is not that write's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.agent_trace import TraceClaim, is_model_id
from vibe_gate.domain.blame import Author, BlamedLine, FileAt, LineOrigin
from vibe_gate.domain.document import iso
from vibe_gate.domain.escape import expression, show_text
from vibe_gate.domain.matching import matches, reshaped
from vibe_gate.errors import UsageError
from vibe_gate.gate.authorship import Authorship
from vibe_gate.gate.traces import Traces
from vibe_gate.git import Repository
from vibe_gate.run.agent_writes import AgentWrites, closeness
from vibe_gate.run.line_writes import AgentWrite, Chain, Version, is_untold, written
from vibe_gate.store import captured, captures
from vibe_gate.store.state import State, open_state

CAPTURED = "captured"
"""`source` of a line that a captured write brought."""

APPLIED = "applied"
"""`source` of a line that an agent of our own wrote, in a run with `--apply`."""

MAX_CLAIMED_NAME = 80
"""Letters of the names that a record gives."""

MAX_FILES = 300
"""Of a page or a list, whose lines are looked up: git takes a moment for each."""

WORKING_TREE = ""
"""The revision of the files as they lie there."""

SAME_SECOND = 1.0
"""Commits tell whole seconds, writes thousandths."""

MAX_STEPS = 20
"""Commits that only moved or restored a line, one before the other."""

MAX_EARLIER = 40
"""Earlier versions in which a line is looked for that came back."""

UNREAD_WRITE = "a captured write of the file does not say what it changed"
LOST_EVENT = "an agent's event was lost before this commit, see `vibe-gate doctor`"

_REVERTS = expression(r"\bThis reverts commit ([0-9a-f]{40})\b")
_FULL_ID = expression(r"[0-9a-f]{40}\Z")


def line_origins(
    repository: Repository,
    roots: Iterable[Path],
    revision: str,
    path: str,
    lines: Sequence[int] = (),
    base: str = "",
    *,
    claims: bool = True,
) -> tuple[LineOrigin, ...]:
    """Who wrote the lines (from 1; all if there are none) of a file, in order.

    `roots` are the working trees whose stores may keep captured sessions. `revision`: "" for the working tree, or what
    git takes for a commit, or the id of a tree, which was made on the commit `base` (HEAD if ""). `claims`: of a line
    that no captured write brought, what an Agent Trace record of its commit says. UsageError: no such file or line, a
    binary file. RevisionError.
    """
    with open_state(repository.common_dir) as state:
        traces = Traces(repository) if claims else None
        return _Blame(repository, tuple(roots), state, traces).origins(revision, path, lines, base)


class _LineSource(Struct, frozen=True):
    """Where a line comes from: the commit, and the write if there is one."""

    commit: str
    write: AgentWrite | None = None
    doubt: str = ""
    """Why an agent may have written it all the same, or ""."""


class _FileText(Struct, frozen=True):
    """A file in a commit."""

    lines: tuple[str, ...]
    state: captured.FileState
    blob: str


class _Blame:
    """What the questions about one file share."""

    def __init__(
        self, repository: Repository, roots: tuple[Path, ...], state: State, traces: Traces | None = None
    ) -> None:
        self._repository = repository
        self._traces = traces
        self._claims: dict[tuple[str, str], tuple[TraceClaim, ...]] = {}
        self._roots = roots
        self._state = state
        self._digests = captured.digests_of(state)
        self._authorship = Authorship(repository, {}, state)
        self._uncommitted = ""
        self._texts: dict[tuple[str, str], _FileText | None] = {}
        self._signs: dict[str, tuple[str, ...]] = {}
        self._asked: dict[str, tuple[captured.CapturedPrompt, ...]] = {}
        self._turns: dict[tuple[str, datetime], tuple[int, str]] = {}

    def origins(self, revision: str, path: str, lines: Sequence[int], base: str) -> tuple[LineOrigin, ...]:
        commit = self._commit(revision, base)
        text = self._text(commit, path)
        if text is None:
            raise UsageError(_no_file(self._repository, revision, path))
        if last := next((line for line in lines if not 0 < line <= len(text.lines)), 0):
            raise UsageError(f"{paths.quote(path)} has no line {last}: its last is {len(text.lines)}.")
        if not text.lines:
            return ()
        rows = self._repository.blamed(commit, path, _spans(lines))
        names = {path} | {name for row in rows for name in (row.path, row.before_path) if name}
        self._writes = AgentWrites(self._roots, self._state, self._digests, names)
        self._history_from = (commit, path)
        sources = self._sources(rows, 0)
        return tuple(self._origin(row, sources[row.line]) for row in rows)

    def _commit(self, revision: str, base: str) -> str:
        """The commit that is looked at; of files without one, one that is made for it."""
        repository = self._repository
        is_tree = bool(_FULL_ID.match(revision)) and repository.has_tree(revision) and not repository.has(revision)
        if revision and not is_tree:
            return repository.resolve(revision)
        tree, head = revision or repository.snapshot(), repository.resolve(base) if base else repository.head()
        if head and repository.tree_of(head) == tree:
            return head
        self._uncommitted = repository.commit_on(tree, head)
        return self._uncommitted

    # From lines to sources

    def _sources(self, rows: Iterable[BlamedLine], steps: int) -> dict[int, _LineSource]:
        """By line of the rows where it comes from."""
        groups: dict[tuple[str, str], list[BlamedLine]] = defaultdict(list)
        for row in rows:
            groups[row.commit, row.path].append(row)
        found: dict[int, _LineSource] = {}
        for some in groups.values():
            of_number = self._brought(some[0], {row.number - 1 for row in some}, steps)
            found |= {row.line: of_number[row.number - 1] for row in some}
        return found

    def _brought(self, row: BlamedLine, wanted: set[int], steps: int) -> dict[int, _LineSource]:
        """The sources of the lines (from 0) that a commit brought into a file."""
        version = self._text(row.commit, row.path)
        if version is None:
            return dict.fromkeys(wanted, _LineSource(row.commit))
        found = self._inherited(row, version, wanted, steps) if steps < MAX_STEPS else {}
        left = wanted - found.keys()
        writes, doubt = self._written(row, version, left)
        return found | {line: _LineSource(row.commit, writes.get(line), doubt) for line in left}

    def _inherited(self, row: BlamedLine, version: _FileText, wanted: set[int], steps: int) -> dict[int, _LineSource]:
        """Of lines that the commit moved, reformatted or restored, the sources that they had."""
        found: dict[int, _LineSource] = {}
        for commit, path in self._carried_from(row):
            old = self._text(commit, path)
            if old is None:
                continue
            came = _carried(old, version, in_place=commit != row.before)
            numbers = {line: came[line] for line in wanted - found.keys() if line in came}
            if numbers:
                spans = _spans([number + 1 for number in numbers.values()])
                sources = self._sources(self._repository.blamed(commit, path, spans), steps + 1)
                found |= {line: sources[number + 1] for line, number in numbers.items()}
        return found

    def _carried_from(self, row: BlamedLine) -> Iterator[tuple[str, str]]:
        """Versions from which the commit may have carried lines: the one before, and what it restored."""
        if row.before:
            yield row.before, row.before_path
        if row.commit != self._uncommitted:
            for name in _REVERTS.findall(self._repository.commit(row.commit).message):
                parent = next(iter(self._repository.parents(name)), "") if self._repository.has(name) else ""
                if parent and self._repository.has(parent):
                    yield parent, row.path

    # From a commit's lines to writes

    def _written(self, row: BlamedLine, version: _FileText, wanted: set[int]) -> tuple[dict[int, AgentWrite], str]:
        """The writes that brought these lines, by line; and why others may be an agent's all the same, or ""."""
        if not wanted:
            return {}, ""
        chains = self._writes.chains({row.path, row.before_path} - {""})
        if not row.before and (other := self._writes.like(version.lines, version.state, wanted)):
            chains = [*chains, other]
        dated = Version(version.state, version.blob, self._moments(row.commit))
        doubt = self._doubt(row, dated, chains)
        if not chains:
            return {}, doubt
        loose = partial(self._digests.loose, version.lines)
        writes: dict[int, AgentWrite] = {}
        if len(chains) > 1:
            chains.sort(key=lambda chain: closeness(chain, dated), reverse=True)
        for chain in chains:
            writes |= written(chain, dated, wanted - writes.keys(), loose)
        return self._not_typed_again(row, version, writes), doubt

    def _doubt(self, row: BlamedLine, version: Version, chains: Sequence[Chain]) -> str:
        """Why lines that no known write brought may be an agent's all the same, or ""."""
        since = self._repository.committed_at(row.before) + SAME_SECOND if row.before else 0.0
        if any(is_untold(chain, since, version.latest) for chain in chains):
            return UNREAD_WRITE
        if any(since <= moment < version.latest for moment in self._lost_events):
            return LOST_EVENT
        return ""

    @cached_property
    def _lost_events(self) -> tuple[float, ...]:
        """When an event of an agent was not kept. Of an event that the guard could not judge there is another line."""
        gaps = captures.gaps(self._state)
        return tuple(moment.timestamp() for moment, reason in gaps if not reason.startswith("guard: "))

    def _moments(self, commit: str) -> tuple[float, ...]:
        """When the commit may have been made: by its author's clock, as what it was rewritten from, at last."""
        if commit == self._uncommitted:
            return (math.inf,)
        earlier = self._authorship.earlier(commit)[1:]
        rewritten_at = sorted(self._committed(name) for name in earlier if self._repository.has(name))
        authored_at = _end_of_second(self._repository.authored_at(commit))
        return (authored_at, *rewritten_at, self._committed(commit))

    def _committed(self, commit: str) -> float:
        return _end_of_second(self._repository.committed_at(commit))

    def _not_typed_again(
        self, row: BlamedLine, version: _FileText, found: dict[int, AgentWrite]
    ) -> dict[int, AgentWrite]:
        """Without the runs of lines of one write that stood in a commit after it, and were gone before this one."""
        for each in self._versions_between(row, min((write.at for write in found.values()), default=math.inf)):
            if not found or not (old := self._text(each.commit, each.path)):
                continue
            came = matches(old.state, version.state)
            until = each.committed + SAME_SECOND
            back = [run for run in _runs(found) if found[run[0]].at < until and all(came[line] >= 0 for line in run)]
            if back and self._repository.is_ancestor(each.commit, row.before or row.commit):
                found = {line: write for line, write in found.items() if not any(line in run for run in back)}
        return found

    def _versions_between(self, row: BlamedLine, since: float) -> list[FileAt]:
        """Versions of the file that may be earlier ones, committed since then, the newest first."""
        if since == math.inf:
            return []
        places = [number for number, each in enumerate(self._history) if each.commit == row.commit]
        later = self._history[places[0] + 1 if places else 0 :]
        some = [each for each in later if each.committed + SAME_SECOND > since and each.commit != row.commit]
        return some[:MAX_EARLIER]

    @cached_property
    def _history(self) -> list[FileAt]:
        return self._repository.history_of(*self._history_from)

    # Words

    def _origin(self, row: BlamedLine, source: _LineSource) -> LineOrigin:
        commit = "" if row.commit == self._uncommitted else row.commit
        if source.write is not None:
            return self._of_agent(row.line, commit, source.write)
        authored_at = self._repository.authored_at(commit) if commit else 0
        when = iso(datetime.fromtimestamp(authored_at, UTC)) if authored_at else ""
        if claim := self._claim(row) if commit else None:
            model, tool = (show_text(name)[:MAX_CLAIMED_NAME] for name in (claim.model, claim.tool))
            named = tool if tool not in ("", CAPTURED, APPLIED) else "an unnamed tool"
            agent = model if is_model_id(model) else "an agent"
            return LineOrigin(line=row.line, commit=commit, by="agent", agent=agent, at=when, source=named)
        signs = self._signs_of(source.commit)
        if signs or source.doubt:
            reason = signs[0] if signs else source.doubt
            return LineOrigin(line=row.line, commit=commit, by="unknown", at=when, why=reason)
        by: Author = "person" if self._is_watched(source.commit) else "unknown"
        return LineOrigin(line=row.line, commit=commit, by=by, at=when)

    def _claim(self, row: BlamedLine) -> TraceClaim | None:
        """What a record says of the line as its commit has it: the first that names it."""
        if self._traces is None:
            return None
        if (row.commit, row.path) not in self._claims:
            self._claims[row.commit, row.path] = self._traces.claims(row.commit, row.path)
        return next((one for one in self._claims[row.commit, row.path] if one.first <= row.number <= one.last), None)

    def _of_agent(self, line: int, commit: str, source: AgentWrite) -> LineOrigin:
        write = source.write
        asked_at = source.session, write.at
        if asked_at not in self._turns:
            self._turns[asked_at] = self._turn(*asked_at)
        turn, asked = self._turns[asked_at]
        return LineOrigin(
            line=line,
            commit=commit,
            by="agent",
            agent=source.agent,
            session=source.session,
            turn=turn,
            asked=asked,
            tool=write.tool,
            tool_use_id=write.tool_use_id,
            at=iso(write.at),
            source=APPLIED if any(source.session == each.session for each in self._writes.applied) else CAPTURED,
        )

    def _turn(self, session: str, at: datetime) -> tuple[int, str]:
        """The turn within which that was, and the first line of its prompt."""
        begun = [prompt for prompt in self._prompts(session) if prompt.at <= at]
        return (begun[-1].turn, captured.first_line(begun[-1].text)) if begun else (0, "")

    def _prompts(self, session: str) -> tuple[captured.CapturedPrompt, ...]:
        if session not in self._asked:
            self._asked[session] = captured.prompts_of(self._roots, session)
        return self._asked[session]

    def _signs_of(self, commit: str) -> tuple[str, ...]:
        if commit == self._uncommitted:
            return ()
        if commit not in self._signs:
            self._signs[commit] = self._authorship.signs_of(self._repository.commit(commit))
        return self._signs[commit]

    def _is_watched(self, commit: str) -> bool:
        """Whether sessions were captured when the commit was made."""
        if commit == self._uncommitted:
            return self._captured_since < math.inf
        return self._captured_since <= self._repository.authored_at(commit) + SAME_SECOND

    @cached_property
    def _captured_since(self) -> float:
        return min((session.started_at.timestamp() for session in self._writes.sessions), default=math.inf)

    # Files

    def _text(self, commit: str, path: str) -> _FileText | None:
        """The file in the commit; None if it is not there, or binary."""
        if (commit, path) not in self._texts:
            self._texts[commit, path] = self._read(commit, path)
        return self._texts[commit, path]

    def _read(self, commit: str, path: str) -> _FileText | None:
        tree = self._repository.tree(commit)
        found, content = tree.entry(paths.encode(path)), tree.read(path)
        if found is None or content is None or b"\0" in content[:8000]:
            return None
        lines = tuple(captured.text_lines(content.decode("utf-8", "replace")))
        return _FileText(lines, self._digests.of(lines), found.id)


def _carried(old: _FileText, new: _FileText, *, in_place: bool) -> dict[int, int]:
    """By line of the new text the old line that it is; `in_place`: of those, too, that git matches by itself."""
    came = matches(old.state, new.state)
    kept = {to: at for to, at in enumerate(came) if at >= 0} if in_place else {}
    return kept | reshaped(old.lines, new.lines, came)


def _end_of_second(second: int) -> float:
    """No later write can be in a commit of that second; any write can be in a commit without a date (0)."""
    return second + SAME_SECOND if second else math.inf


def _spans(lines: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as runs of neighbours, each by its first and last."""
    spans: list[tuple[int, int]] = []
    for line in sorted(set(lines)):
        if spans and spans[-1][1] == line - 1:
            spans[-1] = (spans[-1][0], line)
        else:
            spans.append((line, line))
    return spans


def _runs(found: dict[int, AgentWrite]) -> list[list[int]]:
    """Lines that follow each other and have one write."""
    runs: list[list[int]] = []
    for line in sorted(found):
        if runs and runs[-1][-1] == line - 1 and found[line] is found[line - 1]:
            runs[-1].append(line)
        else:
            runs.append([line])
    return runs


def _no_file(repository: Repository, revision: str, path: str) -> str:
    """Why the file's lines cannot be told."""
    where = paths.quote(revision) if revision else "the working tree"
    tree = repository.tree(revision or repository.snapshot())
    name = paths.quote(path)
    entry = tree.entry(paths.encode(path))
    if entry is None:
        return f"There is no file {name} in {where}{'' if revision else ', or git ignores it'}."
    if not entry.is_regular:
        return f"{name} is not a regular file in {where}; name a file."
    return f"{name} is binary in {where}: it has no lines."
