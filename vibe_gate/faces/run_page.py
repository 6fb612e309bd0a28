"""The page of a run, with what the clone knows: who wrote its lines, the round before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.domain.blame import LineOrigin
from vibe_gate.domain.bundles import STORE, RunEntry
from vibe_gate.domain.leaving import may_leave
from vibe_gate.errors import GateError, IntegrityError
from vibe_gate.faces import progress
from vibe_gate.gate import traces
from vibe_gate.gate.trusted import standing_gate
from vibe_gate.git import Repository
from vibe_gate.report.html import render_run_page
from vibe_gate.report.html.authors import (
    Authors,
    WhoWrote,
    WritingTurn,
    WrittenLines,
    no_authors,
)
from vibe_gate.report.html.view import EarlierRound
from vibe_gate.run import rounds
from vibe_gate.run.line_origins import MAX_FILES, line_origins
from vibe_gate.store import captures
from vibe_gate.store.captured_heads import first_prompt_line
from vibe_gate.store.captured_turns import CapturedPrompt, prompts_of
from vibe_gate.store.captured_writes import WritingSessions
from vibe_gate.store.run_result import RunResult


def page_of(
    result: RunResult,
    repository: Repository | None,
    *,
    prompts: bool | None,
    earlier: EarlierRound | None = None,
) -> str:
    """The page of a run, with who wrote its lines if the repository knows, and the round before it.

    `prompts`: whether those may stand in it; None: as the gate says of what leaves the clone. Where
    they may not, a run whose judges or agents were shown some is without its conversations.
    GateError.
    """

    def may_show_prompts() -> bool:
        if prompts is not None:
            return prompts
        return repository is not None and shares_prompts(repository)

    who_wrote: WhoWrote = no_authors
    if repository is not None and result.complete:
        who_wrote = LineAuthors(repository, result, may_show_prompts)
    has_conversations = may_leave(result.run_document.get("shown")) or may_show_prompts()
    walk = render_run_page(result, who_wrote, conversations=has_conversations, earlier=earlier)
    try:
        return progress.run_walk(walk)
    except ArithmeticError as error:  # a turn's tokens, say; the bundle may be anybody's
        bundle_path = paths.quote(str(result.bundle_dir))
        raise IntegrityError(
            f"{bundle_path} is corrupt: it has a figure that is too large to show."
        ) from error


def round_before(
    result: RunResult,
    entries: Sequence[RunEntry],
    repository: Repository | None,
    beside: Path | None,
) -> EarlierRound | None:
    """The round before the run, for its page. `entries`: the runs of its store; `beside`: the
    page's folder.

    GateError: the run cannot be read.
    """
    if repository is None:
        return None
    earlier_round = rounds.find_round_before(result, entries, repository)
    if earlier_round is None:
        return None
    # A page is named by the id of its run.
    has_page_name = sum(entry.run_id == earlier_round.after for entry in entries) == 1
    page = f"{earlier_round.after}.html"
    if not has_page_name or beside is None or not (beside / page).is_file():
        page = ""
    return EarlierRound(earlier_round, page)


class LineAuthors:
    """Tells who wrote the lines of a change, as `report.html.authors.WhoWrote`."""

    def __init__(self, repository: Repository, result: RunResult, may: Callable[[], bool]) -> None:
        """`may`: whether prompts may stand in the page."""
        self._repository = repository
        self._result = result
        self._change = result.summary.change
        self._may = may

    def __call__(self, added: Mapping[str, Sequence[int]]) -> Authors:
        """Nobody if no session was captured here; untold if the reviewed files cannot be had any
        more.
        """
        if not self._has_witnesses:
            return Authors()
        if added and not self._revision:
            return Authors(untold=True)
        agent_origins = []
        for path, lines in list(added.items())[:MAX_FILES]:
            for origin in self._origins(path, lines):
                if origin.by == "agent":
                    agent_origins.append((path, origin))
        authors = authors_of(agent_origins, self._roots)
        if authors.turns and not self._may():
            return authors.without_prompts()
        return authors

    def _origins(self, path: str, lines: Sequence[int]) -> tuple[LineOrigin, ...]:
        with suppress(GateError):
            base = self._change.base_commit
            return line_origins(
                self._repository, self._sessions, self._revision, paths.unquote(path), lines, base
            )
        return ()

    @cached_property
    def _roots(self) -> tuple[Path, ...]:
        return self._repository.capture_roots()

    @cached_property
    def _sessions(self) -> WritingSessions:
        return WritingSessions(self._roots)

    @property
    def _has_witnesses(self) -> bool:
        """Whether anything here may tell who wrote a line."""
        for root in self._roots:
            if (root / STORE / "captures").is_dir() or (root / traces.FOLDER).is_dir():
                return True
        return bool(self._repository.note_ids(traces.NOTES))

    @cached_property
    def _revision(self) -> str:
        """The commit or the tree of the reviewed files; "" if they are neither in the repository
        nor in the bundle.
        """
        repository, change = self._repository, self._change
        if change.head_commit and repository.has(change.head_commit):
            return change.head_commit
        # Git may have no tree of files that nobody committed: it is made again of the stored patch,
        # or, if that was redacted, of the files as they are.
        for make in (self._patched, repository.snapshot, repository.index_tree):
            if repository.has_tree(change.after):
                return change.after
            with suppress(GateError):
                make()
        return change.after if repository.has_tree(change.after) else ""

    def _patched(self) -> str:
        patch = "".join(file.patch() for file in self._result.files.changed())
        return self._repository.patched(
            self._change.before, patch.encode("utf-8", "surrogateescape")
        )


def authors_of(origins: Iterable[tuple[str, LineOrigin]], roots: Sequence[Path]) -> Authors:
    """The turns of agents' lines, given with their paths, in order, and the lines of each call."""
    numbers: dict[tuple[str, ...], int] = {}
    turns: list[WritingTurn] = []
    prompts: dict[str, dict[int, CapturedPrompt]] = {}
    lines: list[WrittenLines] = []
    for path, origin in origins:
        turn_key = (origin.source, origin.agent, origin.session, str(origin.turn))
        if turn_key not in numbers:
            numbers[turn_key] = len(turns)
            if origin.session not in prompts:
                prompts[origin.session] = _prompts_by_turn(origin, roots)
            turns.append(_turn(origin, prompts[origin.session].get(origin.turn)))
        writer = numbers[turn_key]
        line = origin.line
        lines.append(WrittenLines(path, line, line, writer, origin.tool, origin.tool_use_id))
    return Authors(tuple(turns), tuple(_join_lines(lines)))


def _prompts_by_turn(origin: LineOrigin, roots: Sequence[Path]) -> dict[int, CapturedPrompt]:
    """The prompts of the line's session, if it was captured."""
    if origin.source != "captured":
        return {}
    return {prompt.turn: prompt for prompt in prompts_of(roots, origin.session)}


def _turn(origin: LineOrigin, prompt: CapturedPrompt | None) -> WritingTurn:
    if origin.source == "applied":
        return WritingTurn(origin.agent, origin.session, None)
    if origin.source != "captured":
        agent = origin.agent or origin.source
        return WritingTurn(agent, origin.session, None, source=origin.source)
    agent = captures.agent_title(origin.session)
    session = captures.own_id(origin.session)
    if prompt is None:
        return WritingTurn(agent, session, origin.turn, None, first_prompt_line(""), "")
    first_line = first_prompt_line(prompt.text)
    return WritingTurn(agent, session, origin.turn, prompt.at, first_line, prompt.text)


def _join_lines(lines: Iterable[WrittenLines]) -> Iterator[WrittenLines]:
    """Lines of one call that follow each other as one."""
    last: WrittenLines | None = None
    for line in lines:
        if last and _follows(line, last):
            last = WrittenLines(last.path, last.line, line.line, *_call(last))
            continue
        if last:
            yield last
        last = line
    if last:
        yield last


def _follows(line: WrittenLines, last: WrittenLines) -> bool:
    """Whether a line stands right below others of the same call."""
    if line.path != last.path or line.line != last.end_line + 1:
        return False
    return _call(line) == _call(last)


def _call(lines: WrittenLines) -> tuple[int, str, str]:
    return lines.writer, lines.tool, lines.tool_use_id


def shares_prompts(repository: Repository) -> bool:
    """Whether the definitions in force let prompts leave the clone."""
    with suppress(GateError):
        gate = standing_gate(repository)
        return gate is not None and gate.shared_prompts == "redacted"
    return False
