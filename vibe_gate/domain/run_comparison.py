"""A stored run of a workflow or an agent against its repeat: what came out otherwise. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from vibe_gate.domain import patch as patches
from vibe_gate.domain import paths
from vibe_gate.domain.replayed import CriterionChange
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.errors import FAIL, INCONCLUSIVE, PASS

DID_NOT_RUN = "did not run"
"""The outcome of a stage in a run that never came to it."""

K = TypeVar("K")


class RecordedStage(Struct, frozen=True, kw_only=True):
    """A stage as a bundle has it."""

    node: str

    outcome: str
    """As the run shows it: pass, fail, unchanged, skipped ..."""

    reason: str = ""
    """Why it did not pass, or was skipped."""

    agent: str = ""
    """The agent's id; "" of rubrics."""

    question: str = ""
    """A digest of what its agent is and was asked; "" of rubrics."""

    before: str = ""
    """The tree with which its agent began; "" of rubrics."""

    message: str = ""
    """What its agent said last, or filled its schema with."""


class RunUse(Struct, frozen=True, kw_only=True):
    """What the agents and judges of a run used."""

    turns: int = 0

    answers: int = 0
    """Of models."""

    tokens: int = 0

    usd: float = 0.0

    is_recorded: bool = False
    """Whether the answers come from a cassette: `usd` is what they cost when they were recorded."""

    is_exact: bool = True
    """False if it may have cost less than `usd`."""

    duration_ms: int = 0

    models: tuple[str, ...] = ()
    """By their names, each once."""


class RecordedRun(Struct, frozen=True, kw_only=True):
    """A run as its bundle has it."""

    run_id: str

    bundle: str
    """Relative to the top of the working tree."""

    workflow: str
    """Its id, or that of its one agent."""

    outcome: RunOutcome

    stages: tuple[RecordedStage, ...] = ()

    calls: Mapping[str, int] = {}
    """By tool, how often it was called."""

    patch: bytes = b""
    """What its agents changed."""

    use: RunUse = RunUse()

    is_private: bool = False
    """Whether its agents were shown what may not leave the clone, and may repeat it."""


class StageComparison(Struct, frozen=True, kw_only=True):
    """A stage of the run, of its repeat or of both."""

    node: str

    before: str
    """Its outcome in the run."""

    after: str
    """Its outcome in the repeat."""

    reason: str = ""
    """Why it did not pass in the repeat, or was skipped."""

    is_asked_otherwise: bool = False
    """Whether its agent is another one, or was asked something else."""

    has_other_files: bool = False
    """Whether its agent began with other files."""

    has_other_message: bool = False
    """Whether its agent said something else last."""

    message_before: str = ""
    """What it said in the run, if it said something else in the repeat; "" of words that stay in
    the clone.
    """

    message_after: str = ""
    """What it said in the repeat, likewise."""

    @property
    def has_other_outcome(self) -> bool:
        """Whether it came out otherwise."""
        return self.before != self.after

    @property
    def differs(self) -> bool:
        """Whether anything of it is another."""
        return (
            self.has_other_outcome
            or self.has_other_message
            or self.is_asked_otherwise
            or self.has_other_files
        )


class FileComparison(Struct, frozen=True, kw_only=True):
    """A file that the agents of the run, of its repeat or of both changed."""

    path: str
    """As shown (`paths.quote`)."""

    changed_by: Literal["run", "repeat", "both"]

    lines: int = 0
    """Changed lines that only one of them has; 0 also if a binary file differs, or the same lines
    stand elsewhere.
    """

    patch_before: str = ""
    """What the run's agents changed in it, if the repeat's changed something else."""

    patch_after: str = ""
    """What the repeat's agents changed in it, likewise."""

    @property
    def differs(self) -> bool:
        """Whether it is not the same file in both."""
        return self.patch_before != self.patch_after


class CountChange(Struct, frozen=True):
    """A tool that was called more often, or less often."""

    tool: str

    before: int

    after: int


class RunComparison(Struct, frozen=True, kw_only=True):
    """What came out otherwise when a run was repeated."""

    run_id: str

    repeat: str
    """The id of the new run."""

    bundle: str
    """The repeat's, relative to the top of the working tree."""

    workflow: str

    outcome_before: RunOutcome

    outcome_after: RunOutcome

    stages: tuple[StageComparison, ...]
    """All, in the order of the repeat."""

    criteria: tuple[CriterionChange, ...]
    """Those that came out otherwise."""

    files: tuple[FileComparison, ...]
    """All that agents changed."""

    calls: tuple[CountChange, ...]
    """The tools whose number of calls differs."""

    call_count: int
    """All calls of the repeat."""

    use_before: RunUse

    use_after: RunUse

    is_private: bool = False
    """Whether the agents' words are left out, because they may repeat what stays in the clone."""

    @property
    def differing_stages(self) -> list[StageComparison]:
        """The stages of which anything is another."""
        return [stage for stage in self.stages if stage.differs]

    @property
    def differing_files(self) -> list[FileComparison]:
        """The files that are not the same in both."""
        return [file for file in self.files if file.differs]

    @property
    def is_same(self) -> bool:
        """Whether everything but cost and time is the same."""
        if self.outcome_before != self.outcome_after:
            return False
        return not (self.differing_stages or self.criteria or self.differing_files or self.calls)

    @property
    def exit_code(self) -> int:
        """0: the same outcome; 3: the repeat has none, though the run had; 1: another one."""
        if self.outcome_before == self.outcome_after:
            return PASS
        if self.outcome_after in ("inconclusive", "error"):
            return INCONCLUSIVE
        return FAIL


def compare_with_repeat(
    run: RecordedRun, repeat: RecordedRun, criteria: Iterable[CriterionChange] = ()
) -> RunComparison:
    """A run against its repeat. `criteria`: those that came out otherwise."""
    is_private = run.is_private or repeat.is_private
    return RunComparison(
        run_id=run.run_id,
        repeat=repeat.run_id,
        bundle=repeat.bundle,
        workflow=run.workflow,
        outcome_before=run.outcome,
        outcome_after=repeat.outcome,
        stages=tuple(_compare_stages(run.stages, repeat.stages, is_private=is_private)),
        criteria=tuple(criteria),
        files=tuple(_compare_files(run.patch, repeat.patch)),
        calls=tuple(_compare_calls(run.calls, repeat.calls)),
        call_count=sum(repeat.calls.values()),
        use_before=run.use,
        use_after=repeat.use,
        is_private=is_private,
    )


def _compare_stages(
    run_stages: Sequence[RecordedStage],
    repeat_stages: Sequence[RecordedStage],
    *,
    is_private: bool,
) -> Iterator[StageComparison]:
    stages_before = {stage.node: stage for stage in run_stages}
    stages_after = {stage.node: stage for stage in repeat_stages}
    for node in _names_of_both(stages_after, stages_before):
        before, after = stages_before.get(node), stages_after.get(node)
        if after is None:
            yield StageComparison(
                node=node, before=stages_before[node].outcome, after=DID_NOT_RUN, reason=""
            )
        elif before is None:
            yield StageComparison(
                node=node, before=DID_NOT_RUN, after=after.outcome, reason=after.reason
            )
        else:
            yield _compare_stage(before, after, is_private=is_private)


def _compare_stage(
    before: RecordedStage, after: RecordedStage, *, is_private: bool
) -> StageComparison:
    """Of a stage that ran both times; what its agent said only if that may leave the clone."""
    has_other_message = before.message != after.message
    message_before = message_after = ""
    if has_other_message and not is_private:
        message_before, message_after = before.message, after.message
    return StageComparison(
        node=after.node,
        before=before.outcome,
        after=after.outcome,
        reason=after.reason,
        is_asked_otherwise=before.question != after.question,
        has_other_files=before.before != after.before,
        has_other_message=has_other_message,
        message_before=message_before,
        message_after=message_after,
    )


def _compare_files(run_patch: bytes, repeat_patch: bytes) -> Iterator[FileComparison]:
    """Both patches begin with the same files, so the same section makes the same file."""
    sections_before = patches.by_path(run_patch)
    sections_after = patches.by_path(repeat_patch)
    for path in _names_of_both(sections_after, sections_before):
        before, after = sections_before.get(path, b""), sections_after.get(path, b"")
        shown_path = paths.quote(path)
        changed_by: Literal["run", "repeat", "both"] = "both"
        if not before:
            changed_by = "repeat"
        elif not after:
            changed_by = "run"
        if before == after:
            yield FileComparison(path=shown_path, changed_by=changed_by)
            continue
        yield FileComparison(
            path=shown_path,
            changed_by=changed_by,
            lines=_count_differing_lines(before, after),
            patch_before=before.decode("utf-8", "replace"),
            patch_after=after.decode("utf-8", "replace"),
        )


def _count_differing_lines(section: bytes, other_section: bytes) -> int:
    """How many added and deleted lines only one of the sections has."""
    lines, other_lines = _changed_lines(section), _changed_lines(other_section)
    return (lines - other_lines).total() + (other_lines - lines).total()


def _changed_lines(section: bytes) -> Counter[bytes]:
    lines: Counter[bytes] = Counter()
    for hunk in patches.hunks(section):
        lines.update(row for row in hunk.rows if row[:1] in b"+-")
    return lines


def _compare_calls(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[CountChange]:
    for tool in sorted(_names_of_both(after, before)):
        change = CountChange(tool, before.get(tool, 0), after.get(tool, 0))
        if change.before != change.after:
            yield change


def _names_of_both(first: Iterable[K], second: Iterable[K]) -> list[K]:
    """The names of both, each once, in the order of the first."""
    return list(dict.fromkeys((*first, *second)))
