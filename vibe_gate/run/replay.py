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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct
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
from vibe_gate.domain.replayed import ReplayRow, RubricChoice, compared
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.upkeep import SealedDocuments
from vibe_gate.domain.verdict import Vote
from vibe_gate.errors import GateError, StorageError, UsageError
from vibe_gate.gate.chosen import rubrics_for
from vibe_gate.gate.trusted import gate_for
from vibe_gate.git import Repository
from vibe_gate.judging.cast_vote import CastVote
from vibe_gate.judging.questions import TOOLS, RubricQuestion, questions_of
from vibe_gate.judging.second_look_brief import compute_look_key, write_look_prompt
from vibe_gate.judging.vote_counting import group_by_lines
from vibe_gate.run.batch import SOON_USED_UP
from vibe_gate.run.each import batch_digest, is_summary_settled
from vibe_gate.run.fact_finding import what_was_asked
from vibe_gate.run.review import StoredChange, review_in
from vibe_gate.run.run_documents import WORKFLOW
from vibe_gate.store.clone_state import CloneState, open_state
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.worktree_bundles import Bundles
from vibe_gate.version import __version__


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
    """What is there to do: the rows that an earlier command recorded, and tasks for the other
    runs.
    """

    known: tuple[ReplayRow, ...]
    tasks: tuple[ReplayTask, ...]


# Which runs, and what is recorded


def replay_batch(repository: Repository, request: ReviewRequest, judge_model: str) -> str:
    """What a replay is asked, as a sha-256: as of reviews of many commits, and the model."""
    review_digest = batch_digest(repository, request)
    return hashlib.sha256(f"replay {review_digest} {judge_model}".encode()).hexdigest()


def replayable(entries: Iterable[RunEntry]) -> list[RunEntry]:
    """Of sealed reviews, newest first, the newest of each change, the oldest first."""
    newest: dict[tuple[str, str], RunEntry] = {}
    for entry in entries:
        if entry.state == "sealed" and entry.workflow == WORKFLOW:
            newest.setdefault((entry.before, entry.after), entry)
    return list(newest.values())[::-1]


def plan_replays(
    repository: Repository,
    bundles: Bundles,
    runs: Iterable[RunEntry],
    request: ReviewRequest,
    trial: ReplayTrial,
    *,
    has_key: bool,
) -> ReplayPlan:
    """What is to be done about these runs. `has_key`: a judge can be asked."""
    known, tasks = [], []
    with open_state(repository.common_dir) as state:
        labels = state.labels.all()
    for entry in runs:
        task = ReplayTask(repository.root, entry.run_id, entry.key, request, trial)
        done = next(
            (run.summary for run in bundles.in_batch(replay_key(entry.run_id), trial.batch.digest)),
            None,
        )
        if done is None or not is_summary_settled(done, has_key=has_key):
            tasks.append(task)
            continue
        try:
            row = compared(bundles.receipted(entry), done, RubricChoice(request.rubrics), labels)
            known.append(replace(row, recorded=True))
        except GateError as error:  # nothing that is asked would make it what it was
            known.append(unreplayed_row(task, str(error)))
    return ReplayPlan(tuple(known), tuple(tasks))


# One replay


class StoredRun(Struct, frozen=True):
    """A sealed run as it is stored, after every file of it and its receipt were compared.

    `questions`: by rubric, the keys of what judges answered in it. `redacted`: whether a secret was
    replaced in what is stored.
    """

    entry: RunEntry
    summary: Summary
    about: Mapping[str, Any]
    questions: Mapping[str, str]
    redacted: bool

    @property
    def kind(self) -> str:
        """What was reviewed: worktree, range, staged or commit; "" if the run does not say it."""
        change = self.about.get("change")
        return str(change.get("kind", "")) if isinstance(change, dict) else ""


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
            stored = stored_run(repository, task, clock())
            change = stored_change(repository, stored)
            gate = _gate(repository, change, task, gates)
            chosen = rubrics_for(gate, change, task.request.rubrics)
            require_message(stored, change, chosen)
            _require_prompts(stored, change, chosen, gate, repository, state)
            left_out = {
                one.id for one in chosen if one.has_command and not task.trial.runs_commands
            }
            recall = partial(recall_answers, stored, repository)
            walk = review_in(
                repository,
                replace(task.request, mode=ReplayMode(task.run_id, task.trial)),
                clock=clock,
                progress=unheard,
                state=state,
                stored=StoredChange(change, gate, recall),
            )
            after = (await walk).summary
            choice = RubricChoice(task.request.rubrics, left_out)
            return compared(stored.summary, after, choice, state.labels.all())
    except GateError as error:
        return unreplayed_row(task, str(error))


def _gate(repository: Repository, change: Change, task: ReplayTask, gates: dict[str, Gate]) -> Gate:
    """The gate of the definitions that were named; of the change itself, or the built-in one, where
    they are none.
    """
    batch = task.trial.batch.digest
    if batch in gates:
        return gates[batch]
    gate = gate_for(repository, change, base=None, definitions=task.request.definitions)
    if (
        gate.origin == "trusted"
    ):  # the same for each change; a snapshot for each would take longer than its checks
        gates[batch] = gate
    return gate


def unreplayed_row(task: ReplayTask, why: str) -> ReplayRow:
    """The row of a run that has no verdict now."""
    return ReplayRow(run_id=task.run_id, about=task.key, why=why)


def stored_run(repository: Repository, task: ReplayTask, now: datetime) -> StoredRun:
    """The run of the task. StorageError, IntegrityError, UsageError: it cannot be replayed, and
    why.
    """
    found = sealed_run(repository, RunEntry(task.run_id, task.key), now)
    if found.summary.workflow != WORKFLOW:
        raise UsageError("it is the run of a workflow, whose agents would work again")
    return found


def sealed_run(repository: Repository, entry: RunEntry, now: datetime) -> StoredRun:
    """The run, of whatever workflow. StorageError, IntegrityError."""
    folder = repository.store_root / entry.bundle
    if not entry.key or not folder.is_dir():
        raise StorageError(NOT_HERE)
    bundles = Bundles(repository.store_root, Provenance(now, repository.tracked_in_store()))
    if foreign := bundles.provenance.foreign(entry.key, entry.run_id):
        raise StorageError(f"it is foreign: {foreign}")
    about = read_bundle(folder).about
    if about.get("schema") != FORMAT:
        raise StorageError(f"it has format {about.get('schema')}, and this version reads {FORMAT}")
    sealed = bundles.documents(entry)
    return StoredRun(
        entry, bundles.receipted(entry), about, _questions(sealed), _is_redacted(sealed)
    )


def _questions(sealed: SealedDocuments) -> Mapping[str, str]:
    """What the run's receipt says that judges answered in it; nothing if it has none."""
    return {} if sealed.receipt is None else parse(sealed.receipt).receipt.questions


def _is_redacted(sealed: SealedDocuments) -> bool:
    counts = sealed.document.get("redacted")
    return isinstance(counts, dict) and bool(counts.get("count"))


def stored_change(repository: Repository, stored: StoredRun) -> Change:
    """The very change that was reviewed: the same two trees, by their ids. StorageError if they
    cannot be had.
    """
    known = stored.summary.change
    before, after = _trees(repository, stored)
    change = repository.between(before, after)
    commits = [name for name in (known.base_commit, known.head_commit) if name]
    if not known.head_commit or not all(map(repository.has, commits)):
        return change
    return replace(
        change,
        kind="commit" if stored.kind == "commit" else "range",
        base_commit=known.base_commit,
        head_commit=known.head_commit,
        patch_id=known.patch_id,
    )


def _trees(repository: Repository, stored: StoredRun) -> tuple[str, str]:
    """The trees before and after the change, one of them made from the other by the stored patch if
    need be.
    """
    change = stored.summary.change
    before, after = change.before, change.after
    here = repository.has_tree(before), repository.has_tree(after)
    if all(here):
        return before, after
    if not any(here):
        raise StorageError(
            f"neither tree of its change is in this clone ({before[:12]}, {after[:12]}), and a bundle has the changed "
            "files only"
        )
    known, wanted = (before, after) if here[0] else (after, before)
    if repository.patched(known, _patch(repository, stored.entry), reverse=not here[0]) == wanted:
        return before, after
    if stored.redacted:
        raise StorageError(
            "secrets were redacted from what is stored of its files, and git has them no more"
        )
    raise StorageError(
        "its stored patch does not give the reviewed files (contents over 10 MB are not kept)"
    )


def _patch(repository: Repository, entry: RunEntry) -> bytes:
    sections = (
        file.patch() for file in read_bundle(repository.store_root / entry.bundle).files.changed()
    )
    return "".join(sections).encode("utf-8", "surrogateescape")


def require_message(stored: StoredRun, change: Change, rubrics: Iterable[Rubric]) -> None:
    """UsageError if a rubric sees the author's message, and nothing here has it any more."""
    seeing = next((rubric.id for rubric in rubrics if "message" in rubric.sees), "")
    if seeing and not change.head_commit and stored.kind != "worktree":
        raise UsageError(
            f"rubric {seeing} sees the commit message, which a bundle does not keep, and the commit is gone"
        )


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
    seeing = next((rubric.id for rubric in rubrics if "prompt" in rubric.sees), "")
    shown = stored.about.get("shown")
    was_shown = isinstance(shown, dict) and "prompt" in shown
    if seeing and was_shown and not what_was_asked(change, gate, repository, state, str).text:
        raise UsageError(
            f"rubric {seeing} sees what was asked for, and no captured session here has it any more"
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
    if (gate := _gate_then(stored, repository, facts)) is None:
        return
    rubrics = tuple(rubric for rubric in gate.rubrics if rubric.id in stored.questions)
    questions = questions_of(
        replace(facts, gate=gate, rubrics=rubrics), gate.default_model(run.environment)
    )
    for question in questions:
        alone = sum(other.rubric.id == question.rubric.id for other in questions) == 1
        if alone and stored.questions[question.rubric.id] == question.key:
            run.state.answers.recall(answers_to(question, stored))


def _gate_then(stored: StoredRun, repository: Repository, facts: Facts) -> Gate | None:
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
    results = (
        one
        for rubric in stored.summary.rubrics
        if rubric.id == question.rubric.id
        for one in rubric.criteria
    )
    judged = {one.id: one.votes for one in results if one.kind == "judge"}
    return dict(_votes(question, judged, stored)) | dict(_looks(question, judged))


def _votes(
    question: RubricQuestion, judged: Mapping[str, Sequence[Vote]], stored: StoredRun
) -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(1, question.rubric.votes + 1):
        cast = {name: votes[number - 1] for name, votes in judged.items() if len(votes) >= number}
        keys = question.vote_keys(number, question.about)
        models = {vote.model for vote in cast.values()}
        model = models.pop() if len(models) == 1 else UNSET
        if model is UNSET or model not in keys:
            continue
        vote = CastVote(
            by_criterion={name: replace(one, second_look=UNSET) for name, one in cast.items()},
            model=model,
            unreviewed=tuple(
                one for one in stored.summary.unreviewed if question.rubric.id in one.rubrics
            ),
        )
        yield keys[model], plain(vote.keep_for_later(stored.entry.bundle))


def _looks(
    question: RubricQuestion, judged: Mapping[str, Sequence[Vote]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    rubric = question.rubric
    models = [model for model in (question.model_of(1), rubric.fallback) if model]
    versions = {"vibe-gate": __version__, "claude-agent-sdk": sdk_version()}
    for criterion in rubric.judge_criteria:
        for votes in group_by_lines(judged.get(criterion.id, ())):
            looks = {vote.second_look for vote in votes}
            look = looks.pop() if len(looks) == 1 else UNSET
            if look is UNSET or look.said is None:
                continue
            bare = [replace(vote, second_look=UNSET) for vote in votes]
            prompt = write_look_prompt(criterion, bare, "")
            key = compute_look_key(
                prompt, trees=question.about, models=models, tools=TOOLS, versions=versions
            )
            yield key, plain(look)
