"""The end of a workflow's run: its outcome, its summary, the patch of what its agents changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.change import Change
from vibe_gate.domain.summary import CacheUse, Summary
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.errors import GateError
from vibe_gate.gate.policy import steering
from vibe_gate.judging.repeats import without_repeats
from vibe_gate.judging.rubric_tally import exit_code
from vibe_gate.judging.verdict import RunVerdict, changed_note
from vibe_gate.receipts.issue import ReceiptIssuer
from vibe_gate.run.graph import StageGraph
from vibe_gate.run.record import issuer_of, keep_contents, seal
from vibe_gate.run.result import StageResult
from vibe_gate.run.review import Review, changed_since
from vibe_gate.run.stages import Stages
from vibe_gate.run.summary import capture_note, notes_on, summary_before_answers, summary_of

_WORST_FIRST: tuple[RunOutcome, ...] = ("fail", "error", "inconclusive", "pass")


class WorkflowRun(Struct, frozen=True, kw_only=True):
    """The outcome. `review` as of a review; `made` is the patch of what the run's agents changed, `patch` its file.

    `bundle` is where it is recorded. `unmatched`: requests that a cassette had no answer to, with the difference.
    `said`: the last messages of agents that no stage comes after, each with its node, without secrets and without what
    they repeat of prompts of captured sessions. `names`: the files that the agents changed, without secrets.
    """

    review: Review
    results: tuple[StageResult, ...]
    bundle: Path
    unmatched: tuple[str, ...] = ()
    change: Change | None = None
    names: tuple[str, ...] = ()
    made: bytes = b""
    patch: Path | None = None
    said: tuple[tuple[str, str], ...] = ()
    steers: tuple[str, ...] = ()
    """Of what the agents changed, the files that decide about a gate or steer agents, diffs or tests; as shown."""
    applied: bool = False
    """Whether the patch was put into the working tree."""
    staged: bool = False
    """Whether it was, and the change is that of the index, which has not got it."""
    unapplied: GateError | None = None
    """Why it was not, although that was asked for: the working tree is another one, or git refuses."""
    problem: str = ""
    """What went wrong outside of every stage, without secrets: the deadline, or an error of a Python workflow."""

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


def concluded(
    id: str, stages: Stages, problem: tuple[RunOutcome, str] | None, *, reviewing: bool = False
) -> WorkflowRun:
    """Seal the run. `problem`: what went wrong outside of every stage; `reviewing` as of RunRequest."""
    run, tree, results = stages.run, stages.trees.own, tuple(stages.graph.results)
    change, made = tree.change if reviewing else tree.current, tree.made if tree.written else None
    patch = tree.repository.patch(made) if made else b""
    keep_contents(tree.repository, change, run)
    if patch:
        run.record.made(patch)
    verdicts = [result.verdict for result in results if result.verdict]
    stale: list[RunVerdict] = []
    if reviewing:
        about = [one for one in verdicts if one.facts.change is change]
    else:  # those about the files as they are in the end: none of them takes a fail of another back
        about = [one for one in verdicts if one.facts.change.after in stages.trees.now()]
        stale = _not_judged_again(verdicts, about)
    gates = [*stale, *about]
    since = changed_since(tree.repository, change)  # () of what only the workspace holds
    intact = all(one.intact for one in gates) and not since
    outcome = problem[0] if problem else _outcome(stages.graph, about, stale, reviewing=reviewing)
    summary = _summary(id, stages, change, gates, outcome if intact else "error", intact=intact)
    issuer = _issuer(stages, change, gates, summary) if intact else None
    waivers = tuple(dict.fromkeys(waiver for one in gates for waiver in one.waivers))
    summary = seal(summary, waivers, issuer, run)
    said = [
        problem[1] if problem else "",
        *changed_note(since),
        *_notes(stages, gates),
        *_unsettled(stale, unasked=reviewing and not gates),
        *stages.model.notes(),
        *(issuer.notes if issuer else ()),
    ]
    notes = tuple(dict.fromkeys(run.redactor.text(note) for note in said if note))
    changed = made.files if made else ()
    return WorkflowRun(
        said=tuple(_last_messages(stages, patch)),
        review=Review(
            summary,
            notes,
            stages.facts.gate,
            root=tree.repository.root,
            store_root=tree.repository.store_root,
        ),
        results=results,
        bundle=run.record.directory,
        unmatched=stages.model.unmatched,
        change=made,
        names=tuple(run.redactor.text(file.shown_path) for file in changed),
        steers=tuple(run.redactor.text(file.shown_path) for file in steering(stages.facts.gate, changed)),
        made=patch,
        patch=_patch_file(stages, patch) if patch else None,
        problem=run.redactor.text(problem[1]) if problem else "",
    )


def _patch_file(stages: Stages, patch: bytes) -> Path | None:
    """Where people find what the agents changed: in the bundle, else in the git directory; None: nowhere."""
    run, repository = stages.run, stages.trees.own.repository
    recorded = run.record.directory / "made.patch"
    if not run.record.lost or recorded.is_file():
        return recorded
    return repository.keep_patch(run.record.run_id, run.redactor.data(patch))


def _last_messages(stages: Stages, made: bytes) -> Iterator[tuple[str, str]]:
    """What agents said last that no stage comes after; the screen that shows it may be the log of a job."""
    tree = stages.trees.own

    def own_words() -> Iterator[str]:
        yield from (patch.decode("utf-8", "replace") for patch in (tree.repository.patch(stages.facts.change), made))

    prompts = [prompt for one in stages.turns.background for prompt in one.prompts]
    for result in stages.graph.results:
        if result.message and result.node in stages.graph.latest():
            message = stages.run.redactor.text(result.message)
            yield result.node, without_repeats(message, prompts, own_words) if prompts else message


def _outcome(graph: StageGraph, about: list[RunVerdict], stale: list[RunVerdict], *, reviewing: bool) -> RunOutcome:
    """The worst of the verdicts that count and, but for a review, of the stages that no other that ran comes after."""
    leaves = () if reviewing else graph.latest()
    found = {result.outcome for result in graph.results if result.node in leaves}
    found |= {one.outcome for one in about}
    if stale or (reviewing and not about):
        found.add("inconclusive")
    return next((one for one in _WORST_FIRST if one in found), "pass")


def _not_judged_again(verdicts: list[RunVerdict], about: list[RunVerdict]) -> list[RunVerdict]:
    """Those about other files that did not pass, and of which a rubric was not asked again about later ones."""
    last = {rubric.id: one.facts.change.after for one in verdicts for rubric in one.facts.rubrics}
    again = {rubric.id for one in about for rubric in one.facts.rubrics}
    open_ = {rubric: tree for rubric, tree in last.items() if rubric not in again}
    return [
        one
        for one in verdicts
        if one.outcome != "pass" and any(open_.get(rubric.id) == one.facts.change.after for rubric in one.facts.rubrics)
    ]


def _summary(
    id: str, stages: Stages, change: Change, gates: list[RunVerdict], outcome: RunOutcome, *, intact: bool
) -> Summary:
    """The run's summary: rubrics and findings of the gates that count, the cost of all its stages."""
    run, tree = stages.run, stages.trees.own
    worst_last = sorted(gates, key=lambda one: -_WORST_FIRST.index(one.outcome))  # of a rubric asked twice
    parts = [summary_of(one, run) for one in worst_last]
    return replace(
        summary_before_answers(id, stages.facts, run, change, outcome),
        exit_code=exit_code(outcome, needs_approval=any(one.needs_approval for one in gates), intact=intact),
        rubrics=tuple({rubric.id: rubric for part in parts for rubric in part.rubrics}.values()),
        findings=tuple({one.fingerprint or one: one for part in parts for one in part.findings}.values()),
        policy_changes=tuple({one.path: one for part in parts for one in part.policy_changes}.values()),
        unreviewed=tuple(dict.fromkeys(one for part in parts for one in part.unreviewed)),
        agent_authored=stages.facts.authored if change is tree.change else stages.authored(tree),
        cache=CacheUse(hits=sum(part.cache.hits for part in parts), misses=sum(part.cache.misses for part in parts)),
        cost=stages.model.cost,
    )


def _issuer(stages: Stages, change: Change, gates: list[RunVerdict], summary: Summary) -> ReceiptIssuer | None:
    """What makes the receipt: of a run whose one gate that counts is about exactly what the run left."""
    if len(gates) != 1 or gates[0].outcome != summary.outcome:
        return None
    about = gates[0].facts.change
    if (about.before, about.after) != (change.before, change.after):
        return None
    return issuer_of(gates[0], summary, stages.trees.own.repository, stages.run)


def _notes(stages: Stages, gates: list[RunVerdict]) -> Iterator[str]:
    yield from stages.trees.own.repository.remarks
    yield from (f"{result.node}: {result.reason}" for result in stages.graph.results if result.reason)
    for one in gates:
        yield from notes_on(one, stages.run)
    if stages.run.record.lost:
        yield f"Unrecorded: {stages.run.record.lost}"
    yield capture_note(stages.run)
    yield from stages.turns.notes


def _unsettled(stale: list[RunVerdict], *, unasked: bool) -> Iterator[str]:
    """What no verdict says about the files as they are."""
    for one in stale:
        yield f"{one.facts.stage}: {one.outcome}, and what changed since was not judged by its rubrics."
    if unasked:
        yield "No rubrics were asked about the change as it is, so there is no verdict about it."
