"""The end of a workflow's run: its outcome, its summary, the patch of what its agents changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from vibe_gate.domain.change import Change
from vibe_gate.domain.summary import CacheUse, Cost, Summary
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.gate import trust
from vibe_gate.judging import assemble
from vibe_gate.judging.assemble import RunVerdict
from vibe_gate.judging.decide import exit_code
from vibe_gate.judging.judge import cost_of
from vibe_gate.receipts.issue import ReceiptIssuer
from vibe_gate.review import GateResult, Review, captured_note, is_still_there, keep_contents, seal
from vibe_gate.run.result import StageResult
from vibe_gate.run.resume import plus
from vibe_gate.run.stages import Stages

_WORST_FIRST: tuple[RunOutcome, ...] = ("fail", "error", "inconclusive")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRun:
    """The outcome. `review` as of a review; `made` is the patch of what the run's agents changed, `patch` its file.

    `bundle` is where it is recorded. `unmatched`: requests that a cassette had no answer to, with the difference.
    `said`: the last messages of agents that no stage comes after, each with its node, without secrets. `names`: the
    files that the agents changed, without secrets.
    """

    review: Review
    results: tuple[StageResult, ...]
    bundle: Path
    unmatched: tuple[str, ...] = ()
    change: Change | None = None
    names: tuple[str, ...] = ()
    made: bytes = field(default=b"", repr=False)
    patch: Path | None = None
    said: tuple[tuple[str, str], ...] = ()
    steers: tuple[str, ...] = ()
    """Of what the agents changed, the files that decide about a gate or steer agents, diffs or tests; as shown."""
    applied: bool = False
    """Whether the patch was put into the working tree."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """A gate whose verdict still counts; `node` is its stage's."""

    node: str
    gate: GateResult
    verdict: RunVerdict

    @property
    def rubrics(self) -> frozenset[str]:
        """What it asked."""
        return frozenset(rubric.id for rubric in self.gate.subject.rubrics)


def concluded(
    id: str, stages: Stages, problem: tuple[RunOutcome, str] | None, *, reviewing: bool = False
) -> WorkflowRun:
    """Seal the run. `problem`: what went wrong outside of every stage; `reviewing` as of RunRequest."""
    run, tree = stages.run, stages.tree
    change, made = tree.change if reviewing else tree.current, tree.made if tree.written else None
    patch = tree.repository.patch(made) if made else b""
    keep_contents(tree.repository, change, run)
    if patch:
        run.record.made(patch)
    judged = list(_gates(stages))
    about = [one for one in judged if one.gate.subject.change is change] if reviewing else _about_now(stages, judged)
    stale = [] if reviewing else _not_judged_again(judged, about)
    gates = [*stale, *about]
    still = is_still_there(tree.repository, change)  # true of what only the workspace holds
    intact = all(one.verdict.intact for one in gates) and still
    outcome = problem[0] if problem else _outcome(stages, about, stale, reviewing=reviewing)
    for one in stale:
        stages.notes.append(f"{one.node}: {one.verdict.outcome}, and what changed since was not judged by its rubrics.")
    if reviewing and not gates:
        stages.notes.append("No rubrics were asked about the change as it is, so there is no verdict about it.")
    summary = _summary(id, stages, change, gates, outcome if intact else "error", intact=intact)
    issuer = _issuer(stages, change, gates, summary) if intact else None
    waivers = tuple(dict.fromkeys(waiver for one in gates for waiver in one.verdict.waivers))
    summary = seal(run, summary, waivers, issuer)
    said = [*_notes(stages, gates), problem[1] if problem else "", issuer.note if issuer else ""]
    notes = tuple(dict.fromkeys(run.redactor.text(note) for note in said if note))
    changed = made.files if made else ()
    steering = trust.steering(stages.begun.subject.gate, changed)
    last = [result for result in stages.results if result.message and result.node in stages.latest()]
    return WorkflowRun(
        said=tuple((result.node, run.redactor.text(result.message)) for result in last),
        review=Review(summary, notes, stages.begun.subject.gate),
        results=tuple(stages.results),
        bundle=run.record.directory,
        unmatched=tuple(stages.session.gateway.unmatched) if stages.session else (),
        change=made,
        names=tuple(run.redactor.text(file.shown_path) for file in changed),
        steers=tuple(run.redactor.text(file.shown_path) for file in steering),
        made=patch,
        patch=run.record.directory / "made.patch" if patch else None,
    )


def _outcome(stages: Stages, about: list[_Judged], stale: list[_Judged], *, reviewing: bool) -> RunOutcome:
    """The worst of the verdicts that count and, but for a review, of the stages that no other that ran comes after."""
    leaves = () if reviewing else stages.latest()
    found = {result.outcome for result in stages.results if result.node in leaves}
    found |= {one.verdict.outcome for one in about}
    if stale or (reviewing and not about):
        found.add("inconclusive")
    return next((one for one in _WORST_FIRST if one in found), "pass")


def _gravity(outcome: RunOutcome) -> int:
    """The worse, the higher."""
    return len(_WORST_FIRST) - _WORST_FIRST.index(outcome) if outcome in _WORST_FIRST else 0


def _gates(stages: Stages) -> Iterator[_Judged]:
    """Every gate that ran, in their order."""
    for result in stages.results:
        if result.gate and result.verdict:
            yield _Judged(result.node, result.gate, result.verdict)


def _about_now(stages: Stages, judged: list[_Judged]) -> list[_Judged]:
    """Those about the files as they are in the end: none of them takes a fail of another back."""
    trees = stages.trees()
    return [one for one in judged if one.gate.subject.change.after in trees]


def _not_judged_again(judged: list[_Judged], about: list[_Judged]) -> list[_Judged]:
    """Those about other files that did not pass, and of which a rubric was not asked again about later ones."""
    counted, again = {one.node for one in about}, frozenset[str]().union(*(one.rubrics for one in about))
    last = {rubric: one.gate.subject.change.after for one in judged for rubric in one.rubrics}
    return [
        one
        for one in judged
        if one.node not in counted
        and one.verdict.outcome != "pass"
        and any(last[rubric] == one.gate.subject.change.after for rubric in one.rubrics - again)
    ]


def _summary(
    id: str, stages: Stages, change: Change, gates: list[_Judged], outcome: RunOutcome, *, intact: bool
) -> Summary:
    """The run's summary: rubrics and findings of the gates that count, the cost of all its stages."""
    run, subject, repository = stages.run, stages.begun.subject, stages.tree.repository
    parts = []
    for one in sorted(
        gates, key=lambda one: _gravity(one.verdict.outcome)
    ):  # of a rubric asked twice the worst is last
        diff = partial(repository.file_patch, one.gate.subject.change)
        policy = trust.policy_changes(one.gate.impact, diff)
        parts.append(assemble.summarize(one.gate.subject, run, one.gate.answers, one.verdict, policy))
    return assemble.of_workflow(id, subject, run, change, outcome).model_copy(
        update={
            "exit_code": exit_code(
                outcome, policy_blocks=any(one.verdict.needs_approval for one in gates), intact=intact
            ),
            "rubrics": tuple({rubric.id: rubric for part in parts for rubric in part.rubrics}.values()),
            "findings": tuple({one.fingerprint or one: one for part in parts for one in part.findings}.values()),
            "policy_changes": tuple({one.path: one for part in parts for one in part.policy_changes}.values()),
            "unreviewed": tuple(dict.fromkeys(one for part in parts for one in part.unreviewed)),
            "cache": CacheUse(
                hits=sum(part.cache.hits for part in parts), misses=sum(part.cache.misses for part in parts)
            ),
            "cost": plus(stages.earlier.cost, cost_of(stages.session.gateway.spent()) if stages.session else Cost()),
        }
    )


def _issuer(stages: Stages, change: Change, gates: list[_Judged], summary: Summary) -> ReceiptIssuer | None:
    """What makes the receipt: of a run whose one gate that counts is about exactly what the run left."""
    if len(gates) != 1 or gates[0].verdict.outcome != summary.outcome:
        return None
    judged, verdict = gates[0].gate, gates[0].verdict
    if (judged.subject.change.before, judged.subject.change.after) != (change.before, change.after):
        return None
    gate, policy = judged.subject.gate, judged.impact.fingerprint
    repository, answers = stages.tree.repository, judged.answers
    return ReceiptIssuer(repository, change, gate, stages.run, summary, answers, policy, verdict.waivers)


def _notes(stages: Stages, gates: list[_Judged]) -> Iterator[str]:
    yield from stages.tree.repository.remarks
    yield from (f"{result.node}: {result.reason}" for result in stages.results if result.reason)
    for one in gates:
        yield from assemble.notes(stages.run, one.gate.answers, one.gate.checks, one.verdict)
    if stages.run.record.lost:
        yield f"Unrecorded: {stages.run.record.lost}"
    yield captured_note(stages.run)
    yield from stages.notes
    yield from stages.session.notes() if stages.session else ()
