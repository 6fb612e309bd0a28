"""The end of a workflow's run: its outcome, its summary, the patch of what its agents changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain.change import Change, FileDiff, FileVersion
from vibe_gate.domain.summary import LeftAlone, Summary
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.domain.waiver import Waiver
from vibe_gate.errors import PASS, GateError
from vibe_gate.gate.fixing import without_left_alone
from vibe_gate.gate.policy import find_steering_files
from vibe_gate.git import Repository
from vibe_gate.judging.rubric_tally import WORST_FIRST, exit_code, workflow_outcome
from vibe_gate.judging.run_verdict import RunVerdict, changed_note
from vibe_gate.receipts.issue_receipt import ReceiptIssuer
from vibe_gate.report.finding_list import list_findings, rounds_sentence
from vibe_gate.run.repair_brief import repair_turns
from vibe_gate.run.review import paths_changed_since
from vibe_gate.run.review_result import Review
from vibe_gate.run.run_bundle import make_issuer, record_contents, seal_run
from vibe_gate.run.run_documents import (
    incomplete_capture_note,
    make_summary,
    merge_gate_answers,
    notes_of_verdict,
    unrecorded_note,
)
from vibe_gate.run.run_tree import RunTree
from vibe_gate.run.stage_graph import StageGraph
from vibe_gate.run.stage_request import reviewed_rounds
from vibe_gate.run.stage_result import StageResult
from vibe_gate.run.stage_runner import Stages
from vibe_gate.run.team_store import run_to_share, store_notes
from vibe_gate.store.applied_writes import AppliedWrite


class WorkflowRun(Struct, frozen=True, kw_only=True):
    """How a workflow's run came out."""

    review: Review
    """As of a review."""

    results: tuple[StageResult, ...]

    unrun: tuple[tuple[str, str], ...] = ()
    """Stages that did not run to their end: skipped, or cancelled when the run ended; each node with
    what became of it.
    """

    bundle: Path
    """Where it is recorded."""

    unmatched: tuple[str, ...] = ()
    """Requests that a cassette had no answer to, with the difference."""

    change: Change | None = None
    """What the run's agents changed; None if they changed nothing."""

    names: tuple[str, ...] = ()
    """The files that the agents changed, without secrets."""

    made: bytes = b""
    """The patch of what they changed."""

    patch: Path | None = None
    """The file of the patch."""

    said: tuple[tuple[str, str], ...] = ()
    """The last messages of agents that no stage comes after, each with its node, without secrets
    and without what they repeat of prompts of captured sessions.
    """

    repair_words: tuple[tuple[str, str], ...] = ()
    """The last messages of agents of a repair that a stage comes after, each with its node, without
    the section of what they left alone, and as `said` without secrets and repeated prompts.
    """

    steers: tuple[str, ...] = ()
    """Of what the agents changed, the files that decide about a gate or steer agents, diffs or
    tests; as shown.
    """

    applied: bool = False
    """Whether the patch was put into the working tree."""

    staged: bool = False
    """Whether it was, and the change is that of the index, which has not got it."""

    unapplied: GateError | None = None
    """Why it was not, although that was asked for: the working tree is another one, or git
    refuses.
    """

    left_alone: tuple[LeftAlone, ...] = ()
    """What agents saw beside the findings and did not touch."""

    problem: str = ""
    """What went wrong outside of every stage, without secrets: the deadline, or an error of a
    Python workflow.
    """

    def __repr__(self) -> str:  # without the patch, which may be megabytes
        return f"<WorkflowRun {self.outcome} in {self.bundle}>"

    @property
    def outcome(self) -> RunOutcome:
        """pass, fail, inconclusive or error."""
        return self.review.outcome

    @property
    def passed(self) -> bool:
        """Whether nothing is left to do: exit code 0."""
        return self.review.passed


def conclude_run(
    workflow: str,
    stages: Stages,
    problem: tuple[RunOutcome, str] | None,
    *,
    reviewing: bool = False,
    counts: bool = True,
    unshared_note: str = "",
    applies: bool = False,
) -> WorkflowRun:
    """Seal the run, and put its patch into the working tree if that is wanted.

    It is not put there if the run did not pass, or what it made steers agents or decides about a
    gate.

    Args:
        workflow: Its id.
        stages: Those that ran.
        problem: What went wrong outside of every stage, and the outcome of that.
        reviewing: As of RunRequest.
        counts: Whether its verdict is one about the change, and gets a receipt.
        unshared_note: Why no store is shared, as a sentence, or "".
        applies: As `apply` of RunRequest.
    """
    run, tree = stages.run, stages.trees.own
    repository = tree.repository
    change = tree.current
    if reviewing:
        change = tree.change
    made_change = _made_change(tree)
    record_contents(repository, change, run)
    if made_change.patch:
        run.record.keep_agents_patch(made_change.patch)

    stages.graph.cancel_unended()
    verdicts = _verdicts_of(stages, reviewing=reviewing)
    # () of what only the workspace holds.
    changed_paths = paths_changed_since(repository, stages.model.wire, change)
    intact = not changed_paths and all(verdict.intact for verdict in verdicts.counting)
    problem_outcome, problem_text = problem or (None, "")
    outcome = workflow_outcome(
        _outcomes_that_count(stages.graph, verdicts, reviewing=reviewing),
        lacks_verdict=bool(verdicts.stale) or (reviewing and not verdicts.current),
        problem=problem_outcome,
        intact=intact,
    )
    decided = _summary(workflow, stages, change, verdicts.counting, outcome, intact=intact)
    issuer = None
    if intact and counts:
        issuer = _issuer(stages, change, verdicts.counting, decided)
    summary = seal_run(decided, _waivers_of(verdicts.counting), issuer, run)

    notes = [problem_text, *changed_note(changed_paths)]
    notes += _notes(stages, verdicts, reviewing=reviewing)
    if issuer is not None:
        notes += issuer.notes
    notes += [unshared_note, *store_notes(run)]
    review = _review_of(summary, notes, stages)

    steering_files = find_steering_files(stages.facts.gate, made_change.files)
    may_apply = applies and not steering_files and summary.exit_code == PASS
    placed_patch = _place_patch(stages, made_change.patch, applies=may_apply)
    redact = run.redactor.text
    return WorkflowRun(
        review=review,
        results=tuple(stages.graph.results),
        unrun=tuple(stages.graph.unrun.items()),
        bundle=run.record.directory,
        unmatched=stages.model.unmatched,
        change=made_change.change,
        names=tuple(redact(file.shown_path) for file in made_change.files),
        made=made_change.patch,
        patch=placed_patch.file,
        said=tuple(_last_messages(stages, made_change.patch)),
        repair_words=tuple(_repair_words(stages)),
        steers=tuple(redact(file.shown_path) for file in steering_files),
        applied=placed_patch.is_applied,
        staged=placed_patch.is_applied and tree.change.kind == "staged",
        unapplied=placed_patch.error,
        left_alone=summary.left_alone or (),
        problem=redact(problem_text),
    )


class _MadeChange(Struct, frozen=True):
    """What the run's agents changed."""

    change: Change | None
    """None if they changed nothing."""
    patch: bytes

    @property
    def files(self) -> tuple[FileDiff, ...]:
        """The files that they changed."""
        return self.change.files if self.change else ()


def _made_change(tree: RunTree) -> _MadeChange:
    if not tree.is_changed:
        return _MadeChange(None, b"")
    change = tree.agents_change
    return _MadeChange(change, tree.repository.patch(change))


class _Verdicts(Struct, frozen=True):
    """The verdicts of a run's gates."""

    current: Sequence[RunVerdict]
    """About the change that the run's verdict is about."""
    stale: Sequence[RunVerdict]
    """About other files, and nobody judged these again."""

    @property
    def counting(self) -> list[RunVerdict]:
        """Those that the run's verdict is made of."""
        return [*self.stale, *self.current]


def _verdicts_of(stages: Stages, *, reviewing: bool) -> _Verdicts:
    verdicts = [result.verdict for result in stages.graph.results if result.verdict]
    current = _current_verdicts(verdicts, stages, reviewing=reviewing)
    stale: Sequence[RunVerdict] = ()
    if not reviewing:
        stale = _not_judged_again(verdicts, current)
    return _Verdicts(current, stale)


def _waivers_of(verdicts: Iterable[RunVerdict]) -> tuple[Waiver, ...]:
    """The waivers that the verdicts rest on, each once."""
    waivers = chain.from_iterable(verdict.waivers for verdict in verdicts)
    return tuple(dict.fromkeys(waivers))


def _current_verdicts(
    verdicts: Sequence[RunVerdict], stages: Stages, *, reviewing: bool
) -> list[RunVerdict]:
    """Those that count: about the change as it was given, or else about the files as they are in
    the end.

    None of the latter takes a fail of another back.
    """
    if reviewing:
        given_change = stages.trees.own.change
        return [verdict for verdict in verdicts if verdict.facts.change is given_change]
    current_trees = stages.trees.now()
    return [verdict for verdict in verdicts if verdict.facts.change.after in current_trees]


def _review_of(summary: Summary, notes: Iterable[str], stages: Stages) -> Review:
    """The run as faces show a review: each note once, without secrets."""
    run, repository = stages.run, stages.trees.own.repository
    redacted_notes = [run.redactor.text(note) for note in notes if note]
    return Review(
        summary,
        tuple(dict.fromkeys(redacted_notes)),
        stages.facts.gate,
        root=repository.root,
        unshared=run_to_share(summary, repository, run),
        store_root=repository.store_root,
        unrecorded=unrecorded_note(run),
    )


class _PlacedPatch(Struct, frozen=True):
    """Where the patch of what the agents changed went."""

    file: Path | None = None
    """None: nowhere, or they changed nothing."""
    is_applied: bool = False
    """Whether it was put into the working tree."""
    error: GateError | None = None
    """Why it was not, although it was to be."""


def _place_patch(stages: Stages, patch: bytes, *, applies: bool) -> _PlacedPatch:
    """Keep the patch, if there is one, and put it into the working tree if it `applies`."""
    if not patch:
        return _PlacedPatch()
    file = _patch_file(stages, patch)
    if file is None or not applies:
        return _PlacedPatch(file)
    error = _apply_patch(stages.trees.own, patch, file)
    return _PlacedPatch(file, is_applied=error is None, error=error)


def _patch_file(stages: Stages, patch: bytes) -> Path | None:
    """Where people find what the agents changed: in the bundle, else in the git directory; None:
    nowhere.
    """
    run, repository = stages.run, stages.trees.own.repository
    recorded = run.record.directory / "made.patch"
    if not run.record.lost or recorded.is_file():
        return recorded
    return repository.keep_patch(run.record.run_id, run.redactor.data(patch))


def _apply_patch(tree: RunTree, patch: bytes, patch_file: Path) -> GateError | None:
    """Put the patch into the working tree, whose files must be those that the run began with; why
    it was not, if so.
    """
    try:
        tree.repository.apply(patch, tree.start, patch_file)
    except GateError as error:
        return error
    return None


def _last_messages(stages: Stages, patch: bytes) -> Iterator[tuple[str, str]]:
    """What agents said last that no stage comes after; the screen that shows it may be the log of a
    job.
    """

    for result in stages.graph.results:
        if result.message and result.node in stages.graph.latest_nodes():
            yield result.node, stages.public_words(result.message, patch)


def _repair_words(stages: Stages) -> Iterator[tuple[str, str]]:
    """What the agents of a repair said last that a stage comes after."""
    if stages.repair is None:
        return
    latest_nodes = stages.graph.latest_nodes()
    for result in repair_turns(stages.graph.results):
        if result.node in latest_nodes:
            continue
        words = stages.public_words(without_left_alone(result.message), result.patch)
        if words.strip():
            yield result.node, words


def _outcomes_that_count(graph: StageGraph, verdicts: _Verdicts, *, reviewing: bool) -> list[str]:
    """Those of the verdicts that count and, but for a review, of the stages that no other that ran
    comes after.
    """
    outcomes: list[str] = [verdict.outcome for verdict in verdicts.current]
    if not reviewing:
        latest_nodes = graph.latest_nodes()
        outcomes += [result.outcome for result in graph.results if result.node in latest_nodes]
    return outcomes


def _not_judged_again(
    verdicts: Sequence[RunVerdict], current_verdicts: Sequence[RunVerdict]
) -> list[RunVerdict]:
    """Those about other files that did not pass, and of which a rubric was not asked again about
    later ones.
    """
    current_rubrics: set[str] = set()
    for verdict in current_verdicts:
        current_rubrics.update(rubric.id for rubric in verdict.facts.rubrics)
    last_trees = {}
    for verdict in verdicts:
        for rubric in verdict.facts.rubrics:
            if rubric.id not in current_rubrics:
                last_trees[rubric.id] = verdict.facts.change.after
    stale_verdicts = []
    for verdict in verdicts:
        after = verdict.facts.change.after
        is_last = any(last_trees.get(rubric.id) == after for rubric in verdict.facts.rubrics)
        if is_last and verdict.outcome != "pass":
            stale_verdicts.append(verdict)
    return stale_verdicts


def collect_agent_writes(stages: Stages) -> Iterator[AppliedWrite]:
    """What each agent wrote into the run's own files."""
    repository = stages.trees.own.repository
    for result in stages.graph.results:
        if not result.agent or not result.changed:
            continue
        # In another repository, or in a clone that is gone: who wrote it is not known then.
        with suppress(GateError):
            change = repository.between(result.before, result.after)
            for file in change.files:
                if file.after is None or not file.is_read:
                    continue
                yield AppliedWrite(
                    result.agent,
                    result.session_id,
                    str(repository.root / file.path),
                    _text_of(repository, file.before),
                    _text_of(repository, file.after),
                    file.after.blob,
                )


def _text_of(repository: Repository, version: FileVersion | None) -> str:
    if version is None:
        return ""
    return repository.read(version).decode("utf-8", "replace")


def _summary(
    workflow: str,
    stages: Stages,
    change: Change,
    verdicts: Sequence[RunVerdict],
    outcome: RunOutcome,
    *,
    intact: bool,
) -> Summary:
    """The run's summary: rubrics and findings of the gates that count, the cost of all its
    stages.
    """
    tree = stages.trees.own
    # Of a rubric that was asked twice the worse result counts, so it comes last.
    worst_last = sorted(verdicts, key=lambda verdict: -WORST_FIRST.index(verdict.outcome))
    needs_approval = any(verdict.needs_approval for verdict in verdicts)
    authored = stages.facts.authored
    if change is not tree.change:
        authored = stages.authors_of(tree)
    return make_summary(
        workflow,
        stages.facts,
        stages.run,
        change,
        merge_gate_answers(worst_last),
        outcome=outcome,
        exit_code=exit_code(outcome, needs_approval=needs_approval, intact=intact),
        authored=authored,
        cost=stages.model.cost,
        left_alone=tuple(stages.left_alone()),
    )


def _issuer(
    stages: Stages, change: Change, verdicts: Sequence[RunVerdict], summary: Summary
) -> ReceiptIssuer | None:
    """What makes the receipt: of a run whose one gate that counts is about exactly what the run
    left.
    """
    if len(verdicts) != 1 or verdicts[0].outcome != summary.outcome:
        return None
    judged_change = verdicts[0].facts.change
    if (judged_change.before, judged_change.after) != (change.before, change.after):
        return None
    return make_issuer(verdicts[0], summary, stages.trees.own.repository, stages.run)


def _notes(stages: Stages, verdicts: _Verdicts, *, reviewing: bool) -> Iterator[str]:
    """What is said of the stages, of their verdicts, and of the model that they asked."""
    yield from stages.trees.own.repository.remarks
    for result in stages.graph.results:
        if result.reason:
            yield f"{result.node}: {result.reason}"
    for verdict in verdicts.counting:
        yield from notes_of_verdict(verdict, stages.run)
    yield unrecorded_note(stages.run)
    yield incomplete_capture_note(stages.run)
    yield from stages.setups.notes
    yield from stages.turns.notes
    yield from _round_notes(stages)
    yield from _unsettled_notes(verdicts.stale, is_unasked=reviewing and not verdicts.counting)
    yield from stages.model.notes()


def _round_notes(stages: Stages) -> Iterator[str]:
    """What became of the findings over the rounds of a repair."""
    if stages.repair is None:
        return
    rounds = reviewed_rounds(stages.graph.results, stages.trees.own.start)
    if any(reviewed.number for reviewed in rounds):
        yield rounds_sentence(list_findings(rounds), rounds[-1].number)


def _unsettled_notes(stale_verdicts: Sequence[RunVerdict], *, is_unasked: bool) -> Iterator[str]:
    """What no verdict says about the files as they are."""
    for verdict in stale_verdicts:
        stage = verdict.facts.stage
        yield f"{stage}: {verdict.outcome}, and what changed since was not judged by its rubrics."
    if is_unasked:
        yield "No rubrics were asked about the change as it is, so there is no verdict about it."
