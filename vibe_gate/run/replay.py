"""Judge a stored run again: what would another rubric, or another model, have said of the same
change?

    run -> the same two trees, by their ids -> a review that posts nothing, has no receipt and
    counts as none
        -> what came out otherwise, by criterion

Where nothing changed nothing is asked: answers of the shared state count, and those of the stored
run itself.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from vibe_gate.agent import sdk_version
from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import unheard
from vibe_gate.context.mode import ReplayMode, ReplayTrial
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain.bundles import Provenance, RunEntry, replay_key
from vibe_gate.domain.cause import BudgetReached
from vibe_gate.domain.change import Change
from vibe_gate.domain.document import plain
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.receipt import parse
from vibe_gate.domain.replayed import ReplayRow, RubricChoice, compare_with_replay
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.upkeep import SealedDocuments
from vibe_gate.domain.verdict import CheckedEvidence, Vote
from vibe_gate.errors import GateError, StorageError, UsageError
from vibe_gate.gate.agents import CLAUDE_AGENTS
from vibe_gate.gate.chosen import rubrics_for
from vibe_gate.gate.loading import FOLDER
from vibe_gate.gate.trusted import gate_for
from vibe_gate.git import Repository
from vibe_gate.judging.cast_vote import CastVote
from vibe_gate.judging.defects import group_defects
from vibe_gate.judging.questions import TOOLS, RubricQuestion, questions_of
from vibe_gate.judging.reviewer_address import ADDRESSED
from vibe_gate.judging.second_look_brief import (
    choose_look_model,
    compute_dispute_key,
    compute_look_key,
    write_look_prompt,
)
from vibe_gate.run.batch import SOON_USED_UP
from vibe_gate.run.each import batch_digest, is_summary_settled
from vibe_gate.run.fact_finding import prompt_claim
from vibe_gate.run.review import StoredChange, review_in
from vibe_gate.run.run_documents import WORKFLOW
from vibe_gate.store.clone_state import CloneState, open_state
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.worktree_bundles import Bundles
from vibe_gate.version import __version__

T = TypeVar("T")


class ReplayTask(Struct, frozen=True):
    """A stored run to judge again. It can be pickled."""

    root: Path
    """A folder of the repository."""

    run_id: str

    key: str
    """"" if the run's bundle is not here."""

    request: ReviewRequest

    trial: ReplayTrial


NOT_HERE = "its bundle is not here: deleted, or never in this clone"

FORMAT = 1
"""Of run.json."""


class ReplayPlan(Struct, frozen=True):
    """What is there to do."""

    recorded_rows: tuple[ReplayRow, ...]
    """Those that an earlier command recorded."""

    tasks: tuple[ReplayTask, ...]
    """For the other runs."""


# Which runs, and what is recorded


def replay_batch(repository: Repository, request: ReviewRequest, judge_model: str) -> str:
    """What a replay is asked, as a sha-256: as of reviews of many commits, and the model."""
    review_digest = batch_digest(repository, request)
    return hashlib.sha256(f"replay {review_digest} {judge_model}".encode()).hexdigest()


def runs_of_agents(entries: Iterable[RunEntry]) -> list[RunEntry]:
    """Of the runs, the sealed ones of workflows and agents, which are no reviews."""
    return [run for run in entries if run.state == "sealed" and run.workflow != WORKFLOW]


def replayable(entries: Iterable[RunEntry]) -> list[RunEntry]:
    """Of sealed reviews, newest first, the newest of each change, the oldest first."""
    newest: dict[tuple[str, str], RunEntry] = {}
    for entry in entries:
        if entry.state == "sealed" and entry.workflow == WORKFLOW:
            newest.setdefault((entry.before, entry.after), entry)
    return list(reversed(newest.values()))


def plan_replays(
    repository: Repository,
    bundles: Bundles,
    runs: Iterable[RunEntry],
    request: ReviewRequest,
    trial: ReplayTrial,
    *,
    can_ask: bool,
) -> ReplayPlan:
    """What is to be done about these runs. `can_ask`: a judge can be asked."""
    rows: list[ReplayRow] = []
    tasks: list[ReplayTask] = []
    with open_state(repository.common_dir) as state:
        labels = state.labels.all()
    for entry in runs:
        task = ReplayTask(repository.root, entry.run_id, entry.key, request, trial)
        summary = _recorded_replay(bundles, task)
        if summary is None or not is_summary_settled(summary, can_ask=can_ask):
            tasks.append(task)
            continue
        try:
            stored_summary = bundles.receipted(entry)
            row = compare_with_replay(
                stored_summary, summary, RubricChoice(request.rubrics), labels
            )
            rows.append(replace(row, recorded=True))
        except GateError as error:  # nothing that is asked would make it what it was
            rows.append(unreplayed_row(task, str(error)))
    return ReplayPlan(tuple(rows), tuple(tasks))


def _recorded_replay(bundles: Bundles, task: ReplayTask) -> Summary | None:
    """The newest replay of the run in this batch."""
    for run in bundles.in_batch(replay_key(task.run_id), task.trial.batch.digest):
        return run.summary
    return None


# One replay


class StoredRun(Struct, frozen=True):
    """A sealed run as it is stored, after every file of it and its receipt were compared."""

    entry: RunEntry

    summary: Summary

    run_document: Mapping[str, Any]
    """Its run.json."""

    questions: Mapping[str, str]
    """By rubric the keys of what judges answered in it."""

    is_redacted: bool
    """Whether a secret was replaced in what is stored."""

    @property
    def kind(self) -> str:
        """What was reviewed: worktree, range, staged or commit; "" if the run does not say it."""
        change = self.run_document.get("change")
        if not isinstance(change, dict):
            return ""
        return str(change.get("kind", ""))


async def replay_run_in(
    task: ReplayTask,
    repository: Repository,
    gates: dict[str, Gate],
    *,
    clock: Callable[[], datetime],
) -> ReplayRow:
    """Judge one run again. Why that cannot be is its row's, so that the others go on.

    `gates` keeps what is read of the definitions of each batch.
    """
    limit = task.request.max_cost_usd
    if limit is not None and limit < SOON_USED_UP:
        cause = BudgetReached(limit_usd=limit)
        return ReplayRow(
            run_id=task.run_id, about=task.key, why="the budget is used up", cause=cause
        )
    try:
        with open_state(repository.common_dir) as state:
            stored = read_stored_review(repository, task, clock())
            change = stored_change(repository, stored)
            gate = _gate_of_batch(repository, change, task, gates)
            rubrics = rubrics_for(gate, change, task.request.rubrics)
            require_message(stored, change, rubrics)
            _require_prompts(stored, change, rubrics, gate, repository, state)
            recall = partial(recall_answers, stored, repository)
            review = await review_in(
                repository,
                replace(task.request, mode=ReplayMode(task.run_id, task.trial)),
                clock=clock,
                progress=unheard,
                state=state,
                stored=StoredChange(change, gate, recall),
            )
            choice = RubricChoice(task.request.rubrics, _rubrics_not_run(rubrics, task.trial))
            return compare_with_replay(stored.summary, review.summary, choice, state.labels.all())
    except GateError as error:
        return unreplayed_row(task, str(error))


def _rubrics_not_run(rubrics: Iterable[Rubric], trial: ReplayTrial) -> set[str]:
    """The ids of those that are left out because they have a command."""
    if trial.runs_commands:
        return set()
    return {rubric.id for rubric in rubrics if rubric.has_command}


def _gate_of_batch(
    repository: Repository, change: Change, task: ReplayTask, gates: dict[str, Gate]
) -> Gate:
    """The gate of the definitions that were named; of the change itself, or the built-in one, where
    they are none.
    """
    batch = task.trial.batch.digest
    # A snapshot of the definitions on disk for each change would take longer than its checks.
    known_gate = gates.get(batch)
    if known_gate is not None and _is_for_change(known_gate, repository, change):
        return known_gate
    gate = gate_for(repository, change, base=None, definitions=task.request.definitions)
    if _is_for_change(gate, repository, change):
        gates[batch] = gate
    return gate


def _is_for_change(gate: Gate, repository: Repository, change: Change) -> bool:
    """Whether the gate would be the same for any change like this one: the named definitions, or
    the built-in ones of a change that brings none.
    """
    if gate.origin != "built-in":
        return gate.origin == "trusted"
    tree = repository.tree(change.after)
    definitions: list[str] = []
    for folder in (FOLDER, CLAUDE_AGENTS):
        definitions += (*tree.list(folder), *tree.links(folder))
    return not definitions


def unreplayed_row(task: ReplayTask, reason: str) -> ReplayRow:
    """The row of a run that has no verdict now."""
    return ReplayRow(run_id=task.run_id, about=task.key, why=reason)


def read_stored_review(repository: Repository, task: ReplayTask, now: datetime) -> StoredRun:
    """The run of the task. StorageError, IntegrityError, UsageError: it cannot be replayed, and
    why.
    """
    stored = read_stored_run(repository, RunEntry(task.run_id, task.key), now)
    if stored.summary.workflow != WORKFLOW:
        raise UsageError(
            "it is the run of a workflow, whose agents would work again: name it alone"
        )
    return stored


def read_stored_run(repository: Repository, entry: RunEntry, now: datetime) -> StoredRun:
    """The run, of whatever workflow. StorageError, IntegrityError."""
    folder = repository.store_root / entry.bundle
    if not entry.key or not folder.is_dir():
        raise StorageError(NOT_HERE)
    bundles = Bundles(repository.store_root, Provenance(now, repository.tracked_in_store()))
    foreign_reason = bundles.provenance.foreign(entry.key, entry.run_id)
    if foreign_reason:
        raise StorageError(f"it is foreign: {foreign_reason}")
    run_document = read_bundle(folder).run_document
    if run_document.get("schema") != FORMAT:
        raise StorageError(
            f"it has format {run_document.get('schema')}, and this version reads {FORMAT}"
        )
    documents = bundles.documents(entry)
    summary = bundles.receipted(entry)
    return StoredRun(
        entry, summary, run_document, _answered_questions(documents), _is_redacted(documents)
    )


def _answered_questions(documents: SealedDocuments) -> Mapping[str, str]:
    """What the run's receipt says that judges answered in it; nothing if it has none."""
    if documents.receipt is None:
        return {}
    return parse(documents.receipt).receipt.questions


def _is_redacted(documents: SealedDocuments) -> bool:
    counts = documents.document.get("redacted")
    return isinstance(counts, dict) and bool(counts.get("count"))


def stored_change(repository: Repository, stored: StoredRun) -> Change:
    """The very change that was reviewed: the same two trees, by their ids. StorageError if they
    cannot be had.
    """
    summary = stored.summary.change
    _require_trees(repository, stored)
    change = repository.between(summary.before, summary.after)
    commits = [commit for commit in (summary.base_commit, summary.head_commit) if commit]
    if not summary.head_commit or not all(map(repository.has, commits)):
        return change
    return replace(
        change,
        kind="commit" if stored.kind == "commit" else "range",
        base_commit=summary.base_commit,
        head_commit=summary.head_commit,
        patch_id=summary.patch_id,
    )


def _require_trees(repository: Repository, stored: StoredRun) -> None:
    """Have the trees before and after the change, one of them made from the other by the stored
    patch if need be. StorageError if they cannot be had.
    """
    change = stored.summary.change
    before, after = change.before, change.after
    has_before = repository.has_tree(before)
    has_after = repository.has_tree(after)
    if has_before and has_after:
        return
    if not has_before and not has_after:
        raise StorageError(
            f"neither tree of its change is in this clone ({before[:12]}, {after[:12]}), "
            "and a bundle has the changed files only"
        )
    patch = _stored_patch(repository, stored.entry)
    if has_before and repository.patched(before, patch) == after:
        return
    if has_after and repository.patched(after, patch, reverse=True) == before:
        return
    if stored.is_redacted:
        raise StorageError(
            "secrets were redacted from what is stored of its files, and git has them no more"
        )
    raise StorageError(
        "its stored patch does not give the reviewed files (contents over 10 MB are not kept)"
    )


def _stored_patch(repository: Repository, entry: RunEntry) -> bytes:
    files = read_bundle(repository.store_root / entry.bundle).files.changed()
    patch = "".join(file.patch() for file in files)
    return patch.encode("utf-8", "surrogateescape")


def require_message(stored: StoredRun, change: Change, rubrics: Iterable[Rubric]) -> None:
    """UsageError if a rubric sees the author's message, and nothing here has it any more."""
    seeing_rubric = _rubric_that_sees(rubrics, "message")
    if seeing_rubric and not change.head_commit and stored.kind != "worktree":
        raise UsageError(
            f"rubric {seeing_rubric} sees the commit message, which a bundle does not keep, "
            "and the commit is gone"
        )


def _rubric_that_sees(rubrics: Iterable[Rubric], claim: str) -> str:
    """The id of the first rubric whose judge is shown claims of this kind; "" if none is."""
    for rubric in rubrics:
        if claim in rubric.sees:
            return rubric.id
    return ""


def _require_prompts(
    stored: StoredRun,
    change: Change,
    rubrics: Iterable[Rubric],
    gate: Gate,
    repository: Repository,
    state: CloneState,
) -> None:
    """UsageError if a rubric sees what was asked for, which the run's judge was shown, and nothing
    here has it.
    """
    seeing_rubric = _rubric_that_sees(rubrics, "prompt")
    shown_claims = stored.run_document.get("shown")
    if not seeing_rubric or not isinstance(shown_claims, dict) or "prompt" not in shown_claims:
        return
    if not prompt_claim(change, gate, repository, state, str).text:
        raise UsageError(
            f"rubric {seeing_rubric} sees what was asked for, "
            "and no captured session here has it any more"
        )


# What it was answered


def recall_answers(
    stored: StoredRun, repository: Repository, facts: Facts, run: RunContext
) -> None:
    """Let the shared state of this run give what the stored run was answered, if it is the answer
    to the same.

    The receipt names the questions by their keys; of a rubric with two questions, one of which
    shows the author's message, it names one, and the votes are not told apart.
    """
    gate = _gate_of_stored_run(stored, repository, facts)
    if gate is None:
        return
    rubrics = tuple(rubric for rubric in gate.rubrics if rubric.id in stored.questions)
    stored_facts = replace(facts, gate=gate, rubrics=rubrics)
    questions = questions_of(stored_facts, gate.default_model(run.environment))
    question_counts = Counter(question.rubric.id for question in questions)
    for question in questions:
        rubric_id = question.rubric.id
        if question_counts[rubric_id] == 1 and stored.questions[rubric_id] == question.key:
            run.state.answers.recall(answers_to(question, stored))


def _gate_of_stored_run(stored: StoredRun, repository: Repository, facts: Facts) -> Gate | None:
    """The gate in force then, if it can be read here, else that of now, which may have the same
    rubrics.
    """
    trusted = stored.summary.trusted
    if trusted.bootstrap or not repository.has(trusted.revision):
        return facts.gate
    try:
        return gate_for(repository, facts.change, base=None, definitions=trusted.revision)
    except GateError:  # it does not parse for this version, say: the model is asked
        return None


def answers_to(question: RubricQuestion, stored: StoredRun) -> dict[str, dict[str, Any]]:
    """The stored run's votes on the question, and its second looks at them, as the shared state
    keeps them by key.
    """
    votes_by_criterion: dict[str, Sequence[Vote]] = {}
    for rubric in stored.summary.rubrics:
        if rubric.id != question.rubric.id:
            continue
        for result in rubric.criteria:
            if result.kind == "judge":
                votes_by_criterion[result.id] = result.votes
    votes = dict(_keyed_votes(question, votes_by_criterion, stored))
    second_looks = dict(_keyed_second_looks(question, votes_by_criterion))
    return votes | second_looks


def _keyed_votes(
    question: RubricQuestion, votes_by_criterion: Mapping[str, Sequence[Vote]], stored: StoredRun
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The votes on the question, each with its key; without those whose model is not known."""
    rubric_id = question.rubric.id
    unreviewed = tuple(place for place in stored.summary.unreviewed if rubric_id in place.rubrics)
    addressed: tuple[CheckedEvidence, ...] = ()
    for finding in stored.summary.findings:
        if finding.criterion == ADDRESSED:
            addressed += finding.evidence
    for number in range(1, question.rubric.votes + 1):
        by_criterion: dict[str, Vote] = {}
        for criterion_id, votes in votes_by_criterion.items():
            if len(votes) >= number:
                by_criterion[criterion_id] = _without_looks(votes[number - 1])
        model = _only_value(vote.model for vote in by_criterion.values())
        keys = question.vote_keys(number, question.about)
        if model not in keys:
            continue
        vote = CastVote(
            by_criterion=by_criterion, model=model, unreviewed=unreviewed, addressed=addressed
        )
        yield keys[model], plain(vote.keep_for_later(stored.entry.bundle))


def _only_value(values: Iterable[T | UnsetType]) -> T | None:
    """The value that all of them are; None if they differ, are not set, or there are none."""
    distinct_values = set(values)
    if len(distinct_values) != 1:
        return None
    value = distinct_values.pop()
    return None if value is UNSET else value


def _without_looks(vote: Vote) -> Vote:
    defects = tuple(replace(defect, second_look=UNSET) for defect in vote.defects)
    return replace(vote, defects=defects)


def _keyed_second_looks(
    question: RubricQuestion, votes_by_criterion: Mapping[str, Sequence[Vote]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The second looks at votes on the question, each with its key."""
    rubric = question.rubric
    look_model = choose_look_model(rubric, question.model_of(1))
    models = [model for model in (look_model, rubric.fallback) if model]
    versions = {"vibe-gate": __version__, "claude-agent-sdk": sdk_version()}
    for criterion in rubric.judge_criteria:
        for group in group_defects(votes_by_criterion.get(criterion.id, ())):
            look = group.second_look
            if look is UNSET or look.said is None:
                continue
            if look.dispute is not UNSET:
                for name in look.dispute.findings:
                    yield compute_dispute_key(name, question.about), plain(look)
                continue
            bare_defects = [replace(defect, second_look=UNSET) for defect in group.defects]
            prompt = write_look_prompt(criterion, [bare_defects], "", "")
            key = compute_look_key(
                prompt, trees=question.about, models=models, tools=TOOLS, versions=versions
            )
            yield key, plain(look)
