"""Matchers about what agents did, `expect(result).to_modify_only("src/**")`.

Each is the built-in check of that meaning, asked about a result in place of a change.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, Self

from msgspec import Struct

from vibe_gate.checks import CHECKS, CheckInput, CheckResult
from vibe_gate.checks.check_contract import Conduct
from vibe_gate.checks.conduct_checks import conduct_of_stages, conduct_of_turn
from vibe_gate.domain import paths
from vibe_gate.domain.change import REGULAR_MODE, Change, FileDiff, FileVersion
from vibe_gate.domain.escape import list_names, safe
from vibe_gate.domain.node_names import repeat_suffix
from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.tables import WrongKey, read_table, sentence
from vibe_gate.errors import UsageError
from vibe_gate.store.changed_files import FileChange
from vibe_gate.store.run_result import RunResult

Needed = Literal["seal", "hooks", "nothing"]
"""What must be whole before a matcher knows: the end of the recording, or every hook of the agents'
tool calls, too.
"""

MOST_SHOWN = 20
"""Of files, tools or todos beside a reason."""


class _Listing(Struct, frozen=True):
    """What was seen, beside a reason: "Changed: modified a.py"."""

    title: str
    entries: Sequence[str]


def expect(result: RunResult) -> Expectation:
    """Matchers about a turn, or about all turns of agents in a run. Each raises AssertionError,
    with what it saw.

    If the recording is not whole, a matcher that cannot know says so, after `not_`, too.
    StorageError, IntegrityError.
    """
    if not isinstance(result, RunResult):
        raise UsageError(
            f"expect takes a RunResult (vibe_gate.read_bundle opens one), not {result!r:.80}."
        )
    return Expectation(result)


class Expectation:
    """What a result should be like; `not_` before a matcher turns it round."""

    def __init__(self, result: RunResult) -> None:
        self._result = result
        self._negated = False

    @property
    def not_(self) -> Self:
        """The same matchers, each the other way round."""
        turned = copy.copy(self)
        turned._negated = not self._negated
        return turned

    def to_have_changed_files(self, *globs: str | Sequence[str]) -> None:
        """Each glob matches a changed file, by its name before or after; without globs, any file
        changed. Globs may be given as a list.

        After `not_`: no changed file matches any of them.
        """
        files = self._files()
        patterns = _names_in(globs) or ("**",)
        idle_patterns = []
        for pattern in patterns:
            if not any(file.touches((pattern,)) for file in files):
                idle_patterns.append(pattern)
        answer = CheckResult("pass", f"Files that match {list_names(patterns)} changed.")
        most_idle = 0
        if self._negated:  # one that matches is enough to make it wrong
            most_idle = len(patterns) - 1
        if len(idle_patterns) > most_idle:
            answer = CheckResult("fail", f"No changed file matches {list_names(idle_patterns)}.")
        self._conclude(answer, "seal", _list_changes(files))

    def to_modify_only(self, *globs: str | Sequence[str]) -> None:
        """Every changed file matches one of the globs, by its names before and after. Globs may be
        given as a list.
        """
        files = self._files()
        answer = self._answer("only-paths", files, paths=_names_in(globs))
        self._conclude(answer, "seal", _list_changes(files))

    def to_have_no_deleted_files(self) -> None:
        """No file was deleted; a moved one is still there."""
        files = self._files()
        self._conclude(self._answer("no-deleted-files", files), "seal", _list_changes(files))

    def to_have_used_tool(self, name: str, min: int = 1, max: int | None = None) -> None:
        """The tool succeeded at least `min` and at most `max` times."""
        answer = self._answer("tool-used", tool=name, min=min, max=max)
        firm = ""
        if max is None:
            firm = "pass"
        self._conclude(answer, "hooks", self._used_tools(), firm=firm)

    def to_use_only_tools(self, *names: str | Sequence[str]) -> None:
        """No other tool was called, with success or not; `*` and `?` as in file names
        (`mcp__github__*`). Names may be given as a list.
        """
        answer = self._answer("tools-only", tools=_names_in(names))
        self._conclude(answer, "hooks", self._used_tools(), firm="fail")

    def to_complete_all_todos(self) -> None:
        """Nothing is left on the agents' own lists. Without a list it is not known."""
        todos = []
        for conduct in self._conduct():
            todos += [f"{todo.status}: {todo.text}" for todo in conduct.todos]
        self._conclude(self._answer("todos-completed"), "seal", _Listing("Todos", todos))

    def to_have_no_errors_in_logs(self, ignore: Sequence[str] = ()) -> None:
        """No program that the agents ran printed an error; `ignore`: regular expressions of lines
        that do not count.
        """
        self._conclude(self._answer("no-errors-in-logs", ignore=ignore), "seal", firm="fail")

    def to_stay_under_cost(self, usd: float) -> None:
        """All turns together, judges included, cost at most that many US dollars."""
        self._conclude(self._answer("cost-under", max_usd=usd), "seal")

    def to_have_complete_capture(self) -> None:
        """Hooks saw every tool call of the agents start and end, and the recording has an end."""
        self._conclude(self._answer("complete-capture"), "nothing")

    # What was recorded

    def _stages(self) -> dict[str, str]:
        """The agents' nodes of a run, each with its stage: of one that ran again, its first
        node.
        """
        agents = {}
        for node in self._result.graph().nodes:
            if node.kind == "stage" and node.agent and node.has_begun:
                agents[node.id] = node.agent
        stages = {}
        for name, agent in agents.items():
            first_node = _first_node_of(name, agents)
            stages[name] = first_node if agents[first_node] == agent else name
        return stages

    def _files(self) -> tuple[FileDiff, ...]:
        """What agents changed, turn after turn; of a run without agents, the reviewed change."""
        results = [self._result]
        if self._result.is_run:
            agents = self._stages()
            turns = [turn for turn in self._result.turns() if turn.bundle_dir.parent.name in agents]
            results = turns or results
        files = []
        for result in results:
            files += [_as_diff(file) for file in result.files.changed()]
        return tuple(files)

    def _conduct(self) -> tuple[Conduct, ...]:
        if self._result.is_run:
            return conduct_of_stages(self._result, self._stages())
        return (conduct_of_turn(self._result.bundle_dir.parent.name, self._result),)

    def _cost(self) -> tuple[Conduct, ...]:
        """The whole run as one, for judges cost as well."""
        if self._result.is_run:
            return (conduct_of_turn("the run", self._result),)
        return self._conduct()

    def _used_tools(self) -> _Listing:
        counts: Counter[str] = Counter()
        for conduct in self._conduct():
            counts.update(call.name for call in conduct.calls)
        words = []
        for name, count in counts.items():
            if count > 1:
                name = f"{name} {count} times"
            words.append(name)
        return _Listing("Called", words)

    # The answer

    def _answer(
        self, check: str, files: tuple[FileDiff, ...] = (), **options: object
    ) -> CheckResult:
        entry = CHECKS[check]
        wrong: list[WrongKey] = []
        chosen = read_table(entry.options, options, wrong)
        if chosen is None:
            raise UsageError(
                f"The check {check} does not take these options ({sentence(wrong[0])})."
            )
        conduct = self._conduct
        if check == "cost-under":
            conduct = self._cost
        input = CheckInput(
            change=Change("range", "", "", "", "", "", "", files),
            criterion=Criterion(id="expected", kind="check", check=check, options=options),
            read=_refuse_to_read,
            run_command=_refuse_to_read,
            conduct=conduct,
        )
        return entry.answer(input, chosen, files)

    def _missing_part(self, needed: Needed) -> str:
        """What the recording lacks of what is needed; "" if nothing."""
        if needed != "nothing" and not self._result.complete:
            if self._result.state == "running":
                return "its writer is still at work"
            return "it was cut off"
        if needed != "hooks":
            return ""
        gaps = []
        for conduct in self._conduct():
            gap = conduct.lacks or conduct.unread
            if gap:
                gaps.append(f"{conduct.name}: {gap}")
        return "; ".join(gaps)

    def _conclude(
        self,
        answer: CheckResult,
        needed: Needed,
        listing: _Listing | None = None,
        *,
        firm: str = "",
    ) -> None:
        """Raise unless the outcome is the one that is wanted. `firm`: the outcome that more of a
        recording leaves.
        """
        __tracebackhide__ = True
        if answer.outcome != firm:
            gap = self._missing_part(needed)
            if gap:
                raise AssertionError(
                    f"capture is incomplete: {safe(gap)}. What there is of it: {answer.reason}"
                )
        expected = "pass"
        if self._negated:
            expected = "fail"
        if answer.outcome == expected:
            return
        headline = answer.reason
        if self._negated and answer.outcome == "pass":
            headline = f"not expected: {headline}"
        details = _finding_messages(answer)
        if listing is not None:
            words = list_names(map(safe, listing.entries), MOST_SHOWN)
            if words:
                details.append(f"{listing.title}: {words}")
        raise AssertionError("\n  ".join([headline, *details]))


def _first_node_of(name: str, nodes: Collection[str]) -> str:
    """The first of these nodes that the one of this name may repeat by its suffix, else itself."""
    suffixes = {repeat_suffix(times) for times in range(len(nodes))}
    for node in nodes:
        if name.startswith(node) and name.removeprefix(node) in suffixes:
            return node
    return name


def _names_in(names: Iterable[str | Sequence[str]]) -> tuple[str, ...]:
    """The names, those of lists one by one. UsageError: one is not text."""
    all_names: list[str] = []
    for name in names:
        if isinstance(name, str):
            all_names.append(name)
        else:
            all_names += name
    for name in all_names:
        if not isinstance(name, str):
            raise UsageError(f"A matcher takes names as text, not {name!r:.80}.")
    return tuple(all_names)


def _finding_messages(answer: CheckResult) -> list[str]:
    """What the findings say with their paths; nothing if the reason says it already: of one
    without a path.
    """
    if len(answer.findings) == 1 and not answer.findings[0].path:
        return []
    messages = []
    for finding in answer.findings:
        message = finding.message
        if finding.path:
            message = f"{finding.path}: {message}"
        messages.append(message)
    return messages


def _as_diff(file: FileChange) -> FileDiff:
    """A stored change as checks of paths see it: without lines and contents."""
    old_path = None
    if file.old_path is not None:
        old_path = paths.unquote(file.old_path)
    version = FileVersion("", REGULAR_MODE, 0)
    return FileDiff(
        path=paths.unquote(file.path),
        old_path=old_path,
        change_type=file.change_type,
        before=None if file.change_type == "added" else version,
        after=None if file.change_type == "deleted" else version,
        binary=False,
        added=0,
        deleted=0,
        hunks=(),
    )


def _list_changes(files: Iterable[FileDiff]) -> _Listing:
    return _Listing("Changed", [f"{file.change_type} {file.shown_path}" for file in files])


def _refuse_to_read(*_: object) -> Any:  # noqa: ANN401
    raise AssertionError("A check of paths or of conduct reads no content and runs no command.")
