"""From answers to the verdict and the summary of a run. Pure: values in, values out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vibe_gate.checks import CheckResults
from vibe_gate.domain import paths
from vibe_gate.domain.bundles import CHANGE_IDS
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.context import ReviewRequest, ReviewSubject, RunContext
from vibe_gate.domain.gate import POLICY, Gate, Waivers
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import (
    CacheUse,
    ChangedFile,
    ChangeSummary,
    Cost,
    PolicyChange,
    Summary,
    Trusted,
    Unreviewed,
)
from vibe_gate.domain.verdict import WAITS, CriterionResult, Finding, RubricResult, RunOutcome, whole_change
from vibe_gate.gate import trust
from vibe_gate.judging.decide import apply_overrides, decide, exit_code, judged, levelled, run_outcome, spares, worst

if TYPE_CHECKING:
    from vibe_gate.judging.questions import RubricVotes

WORKFLOW = "review"
"""The built-in workflow: checks, then the judge."""


class JudgeResult(NamedTuple):
    """What the judges answered, or why none was asked: then nothing of theirs has been loaded.

    `votes` by rubric id, an answer for each question that was asked about it. Of these rubrics, `cached` had a question
    answered by an earlier run, `asked` one by this run. `silence` says why no judge was asked, and `chosen` that this
    is what the user wanted. `intact`: the exported tree is still what it was. `questions` are the keys of what was
    answered for good in this run, all of it. `reused` are the scores of rubrics whose pass was taken from a receipt:
    `silence` then says whose.
    """

    votes: Mapping[str, tuple[RubricVotes, ...]] = MappingProxyType({})
    cost: Cost = Cost()
    cached: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    silence: str = ""
    chosen: bool = False
    intact: bool = True
    questions: Mapping[str, str] = MappingProxyType({})
    reused: Mapping[str, float] = MappingProxyType({})

    @property
    def answered_now(self) -> list[str]:
        """The rubrics that were asked in this run, wholly, and answered for good."""
        return [name for name in self.asked - self.cached if all(one.is_final for one in self.votes[name])]

    @property
    def cache(self) -> CacheUse:
        """Criteria that an earlier run answered, in part or all, and criteria about which something was asked."""
        sizes = {name: len(votes[0].votes) for name, votes in self.votes.items()}
        return CacheUse(
            hits=sum(sizes[name] for name in self.cached),
            misses=sum(sizes[name] for name in self.asked),
        )


class RunVerdict(NamedTuple):
    """What all answers come to, after what people have let pass (`waivers`: those that took effect)."""

    rubrics: tuple[RubricResult, ...]
    findings: tuple[Finding, ...]
    waivers: tuple[Waiver, ...]
    intact: bool
    needs_approval: bool

    @property
    def outcome(self) -> RunOutcome:
        """The run's; an error if what was reviewed is not there any more."""
        return run_outcome(self.rubrics) if self.intact else "error"

    @property
    def exit_code(self) -> int:
        """The process's."""
        return exit_code(self.outcome, policy_blocks=self.needs_approval, intact=self.intact)


def assemble_verdict(
    change: Change,
    rubrics: Sequence[Rubric],
    checks: CheckResults,
    answers: JudgeResult,
    waivers: Waivers,
    impact: trust.PolicyImpact,
    *,
    intact: bool,
) -> RunVerdict:
    """The verdict; `intact`: what was reviewed is still what is there."""
    results = tuple(_rubric_result(rubric, change, checks, answers) for rubric in rubrics)
    findings = fingerprinted(_findings(rubrics, results, checks, impact))
    waived = apply_overrides(rubrics, results, findings, waivers)
    shown = _ordered(levelled(rubrics, waived.rubrics, waived.findings))
    approved = tuple(filter(None, [waivers.of_policy(impact.fingerprint)]))
    return RunVerdict(
        rubrics=waived.rubrics,
        findings=(*shown, *(trust.policy_approval(waiver.sentence) for waiver in approved)),
        waivers=(*waived.effective, *approved),
        intact=intact,
        needs_approval=not approved and impact.needs_approval,
    )


def blocking_check(checks: CheckResults, waivers: Waivers) -> str | None:
    """The first `must` check that fails and that nobody lets pass: then no judge has to be asked."""
    findings = fingerprinted(_ordered(checks.findings))
    failed = [result.id for result in checks.results.values() if result.must and result.outcome == "fail"]
    return next((name for name in failed if not spares(name, findings, waivers)), None)


def without_asking(
    request: ReviewRequest, subject: ReviewSubject, checks: CheckResults, waivers: Waivers
) -> JudgeResult | None:
    """Why no judge is asked: nothing to ask, not wanted, or the outcome is known. None: ask."""
    if not subject.judged:
        return JudgeResult(silence="no criterion asks a judge", chosen=True)
    if why := request.why_no_judge(subject.gate, by_agent=subject.authored.decision):
        return JudgeResult(silence=why, chosen=True)
    failed = blocking_check(checks, waivers)
    if failed is not None and (not request.ask_anyway or _adds_secrets(subject, checks)):
        # Nothing a judge says can turn this into a pass, and a secret must not travel to a model.
        return JudgeResult(silence=f"{WAITS} {failed!r} fails already")
    if not request.force and request.settled is not None and (why := request.settled()):
        return JudgeResult(silence=why, chosen=True)
    return None


def _adds_secrets(subject: ReviewSubject, checks: CheckResults) -> bool:
    found = [(rubric.id, one.id) for rubric in subject.rubrics for one in rubric.criterion if one.check == "no-secrets"]
    return any(checks.results[name].outcome == "fail" for name in found)


def passes_by_checks(rubric: Rubric, change: Change, checks: CheckResults) -> bool:
    """Whether the rubric would pass by its checks alone: only then can its judges' answers be taken over unseen."""
    return _rubric_result(rubric, change, checks, JudgeResult(chosen=True)).outcome == "pass"


def _rubric_result(rubric: Rubric, change: Change, checks: CheckResults, answers: JudgeResult) -> RubricResult:
    results = [
        checks.results[rubric.id, criterion.id]
        if criterion.kind == "check"
        else _judge_result(rubric, criterion, change, answers)
        for criterion in rubric.criterion
    ]
    decided = decide(rubric, results)
    if rubric.id in answers.reused and decided.outcome == "pass":
        return decided.model_copy(update={"score": answers.reused[rubric.id]})
    return decided


def _judge_result(rubric: Rubric, criterion: Criterion, change: Change, answers: JudgeResult) -> CriterionResult:
    if not any(criterion.concerns(file) for file in change.files):
        return not_asked(criterion, "no changed file matches its paths", chosen=True)
    votes = answers.votes.get(rubric.id)
    if votes is None:
        result = not_asked(criterion, answers.silence, chosen=answers.chosen)
        return result.model_copy(update={"decided_by": "cache"}) if rubric.id in answers.reused else result
    result = worst([judged(criterion, one.votes.get(criterion.id, ()), rubric.votes, one.stopped) for one in votes])
    return result if rubric.id in answers.asked else result.model_copy(update={"decided_by": "cache"})


def _findings(
    rubrics: Sequence[Rubric], results: Sequence[RubricResult], checks: CheckResults, impact: trust.PolicyImpact
) -> list[Finding]:
    findings = list(checks.findings)
    for rubric, result in zip(rubrics, results, strict=True):
        for criterion, outcome in zip(rubric.criterion, result.criteria, strict=True):
            findings += findings_of(criterion, outcome)
    findings += [trust.policy_warning(item.file) for item in impact.files if item.level == "warn" and not item.adopted]
    return _ordered(findings)


def _ordered(findings: Iterable[Finding]) -> list[Finding]:
    order = {"failure": 0, "warning": 1, "notice": 2}
    return sorted(findings, key=lambda finding: (order[finding.level], finding.path, finding.line))


def unreviewed(change: Change, rubrics: Sequence[Rubric], answers: JudgeResult) -> tuple[Unreviewed, ...]:
    """Everything that judges were not shown, with the reason: silence about it would look like approval."""
    if answers.silence:
        return _whole(change.files, answers.silence)
    criteria = [criterion for rubric in rubrics for criterion in rubric.judged]
    unconcerned = [file for file in change.files if not any(criterion.concerns(file) for criterion in criteria)]
    missed: dict[Unreviewed, list[str]] = {}
    for rubric, votes in answers.votes.items():
        for item in dict.fromkeys(item for one in votes for item in one.unreviewed):
            missed.setdefault(item, []).append(rubric)
    unanswered = (
        item if len(names) == len(answers.votes) else item.model_copy(update={"rubrics": tuple(names)})
        for item, names in missed.items()
    )
    return (*unanswered, *_whole(unconcerned, "no judge criterion concerns this path"))


def summarize(
    subject: ReviewSubject,
    run: RunContext,
    answers: JudgeResult,
    verdict: RunVerdict,
    policy_changes: tuple[PolicyChange, ...],
) -> Summary:
    """The run's summary, as it is sealed."""
    about = of_workflow(WORKFLOW, subject, run, subject.change, verdict.outcome)
    return about.model_copy(
        update={
            "exit_code": verdict.exit_code,
            "rubrics": verdict.rubrics,
            "findings": verdict.findings,
            "policy_changes": policy_changes,
            "unreviewed": unreviewed(subject.change, subject.rubrics, answers),
            "cost": answers.cost,
            "cache": answers.cache,
        }
    )


def of_workflow(workflow: str, subject: ReviewSubject, run: RunContext, change: Change, outcome: RunOutcome) -> Summary:
    """The summary of a run before what its gates answered and cost is added."""
    gate = subject.gate
    return Summary(
        run_id=run.record.run_id,
        key=subject.change.key,
        workflow=workflow,
        outcome=outcome,
        exit_code=exit_code(outcome, policy_blocks=False, intact=True),
        bundle=run.record.relative,
        trusted=Trusted(revision=gate.revision, bootstrap=gate.origin == "bootstrap", branch=gate.branch),
        change=of_change(change),
        agent_authored=subject.authored,
        duration_ms=round(run.deadline.elapsed() * 1000),
    )


def notes(run: RunContext, answers: JudgeResult, checks: CheckResults, verdict: RunVerdict) -> Iterator[str]:
    """Sentences for people about the run, besides its summary."""
    if not verdict.intact:
        yield "Files changed during the review, so the verdict is not about what is there now. Review again."
    if run.record.lost:
        yield f"Unrecorded: {run.record.lost}"
    if run.state.problem:
        yield run.state.problem
    yield from answers.notes
    yield from checks.notes
    # Who approved a change of the gate is a finding of its own.
    yield from (f"{one.finding}: {one.sentence}" for one in verdict.waivers if not one.finding.startswith(POLICY))


def _whole(files: Iterable[FileDiff], why: str) -> tuple[Unreviewed, ...]:
    return tuple(Unreviewed(path=file.shown_path, line=0, end_line=0, reason=why) for file in files)


def of_change(change: Change) -> ChangeSummary:
    """The change by ids and paths, as a summary carries it."""
    files = tuple(_changed_file(file) for file in change.files)
    return ChangeSummary(**{name: getattr(change, name) for name in CHANGE_IDS}, files=files)


def _changed_file(file: FileDiff) -> ChangedFile:
    return ChangedFile(
        path=file.shown_path,
        old_path=None if file.old_path is None else paths.quote(file.old_path),
        change_type=file.change_type,
        added=file.added,
        deleted=file.deleted,
        binary=file.binary,
    )


def nothing(change: Change) -> Summary:
    """The summary of a review with nothing to do: no run, no bundle, exit 0."""
    return Summary(
        run_id="",
        key=change.key,
        workflow=WORKFLOW,
        outcome="pass",
        exit_code=0,
        bundle="",
        trusted=Trusted(revision="", bootstrap=False),
        change=of_change(change),
    )


def about(
    change: Change, gate: Gate, rubrics: Sequence[Rubric], versions: Mapping[str, str], more: Mapping[str, Any]
) -> dict[str, Any]:
    """What run.json says of a run before anything is asked; `versions` by program, `more` of a workflow's run."""
    return {
        "workflow": WORKFLOW,
        "mode": "auto",
        "prompt": f"review: {change.kind}",
        "isolation": "none",
        **more,
        "budgets": gate.file.budget.model_dump(),
        "change": of_change(change).model_dump(exclude={"files"}) | {"kind": change.kind},
        "trusted": {"revision": gate.revision, "origin": gate.origin},
        "definitions": dict(gate.digests),
        "rubrics": {rubric.id: rubric.digest for rubric in rubrics},
        "questions": {f"{rubric.id}/{asked.id}": asked.question for rubric in rubrics for asked in rubric.judged},
        "versions": dict(versions),
    }


def not_asked(criterion: Criterion, why: str, *, chosen: bool) -> CriterionResult:
    """A judge criterion that nobody was asked about.

    `chosen`: it does not bear on this change or was left out on purpose; otherwise
    it could not be asked, and stays undecided.
    """
    return CriterionResult(
        id=criterion.id,
        kind="judge",
        must=criterion.must,
        weight=criterion.weight,
        outcome="not_applicable" if chosen else "abstain",
        decided_by="none",
        reason=why,
    )


def findings_of(criterion: Criterion, result: CriterionResult) -> list[Finding]:
    """What a failed judge criterion points at: every piece of evidence that stands, or else the change."""
    if criterion.kind != "judge" or result.outcome != "fail":
        return []
    found = [
        Finding(
            path=evidence.path,
            line=evidence.line,
            end_line=evidence.end_line,
            level="failure" if criterion.must else "warning",
            criterion=criterion.id,
            message=vote.reason or "The answer gives no reason.",
            evidence=(evidence,),
        )
        for vote in result.votes
        if vote.outcome == "fail"
        for evidence in vote.evidence
        if evidence.standing != "void"
    ]
    once = list({(f.path, f.line, f.end_line): f for f in reversed(found)}.values())[::-1]
    return once or [whole_change(result)]


def fingerprinted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with fingerprints that hold across rebases.

    A fingerprint is made of criterion, path, the quoted text (its white space folded) and what the check put there,
    never of line numbers; equal ones are told apart by their order.
    """
    seen: Counter[str] = Counter()
    made = []
    for finding in findings:
        quotes = " ".join(evidence.quote for evidence in finding.evidence) or finding.message
        own = (finding.fingerprint,) if finding.fingerprint else ()
        basis = "\0".join((finding.criterion, finding.path, " ".join(quotes.split()), *own))
        seen[basis] += 1
        digest = hashlib.sha256(f"{basis}\0{seen[basis]}".encode()).hexdigest()[: trust.FINGERPRINT]
        made.append(finding.model_copy(update={"fingerprint": digest}))
    return tuple(made)
