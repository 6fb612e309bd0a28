"""The verdict that stands for a commit: a job leaves it in its check run, where a look because of a review finds it.

A look asks no model, so it may lack answers. What a review can change (approvals, overrides) it decides itself; for the
rest the verdict counts that a job gave for the same commit, trees, gate, inputs and overrides.

GitHub says which app made a check run, but every workflow of a repository is the same app. So a pass counts only with a
code made from the model's API key; in a job without a long enough key, if the named run of this workflow succeeded,
which GitHub's runner decides.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from datetime import date
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.cause import AsksNoModel, Coded, NoKey, PassedInRun
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, RunOutcome
from vibe_gate.errors import INCONCLUSIVE, INTEGRITY, PASS, POLICY_CHANGED, ForgeError
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.faces.action.runner import Runner
from vibe_gate.forge import CheckRecord, Forge
from vibe_gate.judging.rubric_tally import decide, exit_code, run_outcome
from vibe_gate.report import queries
from vibe_gate.report.comment import marker
from vibe_gate.report.posting import check_name
from vibe_gate.run.review import Review
from vibe_gate.version import __version__

UNSIGNED = "-"
"""In place of the code, in a job without a key that could make one."""

_RECORD = re.compile(r"vibe-gate:1 ([a-z]+) ([0-9]) (clean|-) ([0-9]{1,16}) ([0-9a-f]{32}) ([0-9a-f]{64}|-)")
"""Outcome, exit code, whether judges found nothing, the workflow's run, what it is about, the code."""

LOOK_ONLY = "vibe-gate:look"
"""Of the check run of a look that lacks answers: it keeps nothing for later ones, which find the verdict before it."""

_PASSED = re.compile(r"^### vibe-gate(?: \(.*\))?: PASS\b")
"""The headline of a comment of ours that says pass."""

_NO_VERDICT = "vibe-gate:1 none {pull:d}"
"""Of a check run without a verdict, or without one yet; 0: not a pull request's."""

_WORKFLOW = re.compile(r"[^/]+/[^/]+/(?P<path>[^@]+)@")
"""GITHUB_WORKFLOW_REF: owner/name/path@ref."""

_UNASKED: tuple[type[Coded], ...] = (AsksNoModel, NoKey)
"""Why a look lacks answers that the standing verdict had."""

_RUNS = ("pull_request", "pull_request_review")


class StandingVerdict(Struct, frozen=True):
    """What a job said: `exit_code` as posted, `outcome` without what a person approves or not.

    `clean`: every judge question was answered with "pass" or does not apply. `url`: of its check run.
    """

    outcome: RunOutcome
    exit_code: int
    clean: bool
    run: int
    url: str


def no_verdict(number: int | None) -> str:
    """What a check run keeps until its job has a verdict; `number` is the pull request's."""
    return _NO_VERDICT.format(pull=number or 0)


class Standing(Struct, frozen=True):
    """One job's way to the verdict that stands. `about` names all that it must have been given for; `key` may be "".

    `number` is the pull request's: another one can have the same commit.
    """

    runner: Runner
    inputs: Inputs
    head: str
    about: str
    key: str
    number: int | None = None

    def record(self, summary: Summary) -> str:
        """What the check run of this verdict keeps."""
        run = self.runner.environ.get("GITHUB_RUN_ID", "")
        clean = "clean" if _is_clean(summary) else "-"
        run = run if run.isdecimal() else "0"
        said = f"vibe-gate:1 {summary.outcome} {summary.exit_code} {clean} {run} {self.about}"
        return f"{said} {self._code(said)}"

    def posted_pass(self, forge: Forge | None) -> bool | None:
        """Whether what stands on the commit says pass; None if that is not known."""
        if forge is None:
            return None
        try:
            if self.inputs.check_run:
                records = forge.check_records(self.head, check_name(self.inputs.name))
                return records[0].conclusion == "success" if records else None
            if self.number is None or not self.inputs.comment:
                return None
            comment = forge.sticky(self.number, marker(self.inputs.name))
        except ForgeError:
            return None
        headline = comment.body.split("\n", 2)[1:2] if comment else []
        return _PASSED.search(headline[0]) is not None if headline else None

    def find(self, forge: Forge | None) -> StandingVerdict | str:
        """The newest verdict of this gate for this commit, or why none counts, as a sentence."""
        if forge is None:
            return "Which verdict stands for this commit is not known: there is no token."
        if not self.inputs.check_run:
            return "Which verdict stands for this commit is not known: the job writes no check run (check-run: false)."
        try:
            return self._find(forge)
        except ForgeError as error:
            return f"Which verdict stands for this commit could not be read: {error}"

    def _find(self, forge: Forge) -> StandingVerdict | str:
        for each in forge.check_records(self.head, check_name(self.inputs.name)):
            none = each.record in ("", no_verdict(self.number))
            if none and each.conclusion != "cancelled":  # in progress, or it could not be completed
                return "The newest job of the gate at this commit left no verdict, or none yet."
            match = _RECORD.fullmatch(each.record)
            if match is None or match[5] != self.about or match[1] not in get_args(RunOutcome):
                continue
            stood = _verdict(match, each)
            if stood.outcome != "pass" or self._is_signed(each.record) or self._succeeded(forge, stood):
                return stood
            return (
                f"The check run of run {stood.run} says pass, but neither this job's API key nor that run confirms it."
            )
        return "No check run has a verdict for this commit with this base, gate, inputs and accepted findings."

    def _is_signed(self, record: str) -> bool:
        said, _, code = record.rpartition(" ")
        return bool(self.key) and hmac.compare_digest(code, self._code(said))

    def _succeeded(self, forge: Forge, stood: StandingVerdict) -> bool:
        """Whether the run of this workflow that the verdict names ended well, for this commit; only without a key."""
        own = _WORKFLOW.match(self.runner.environ.get("GITHUB_WORKFLOW_REF", ""))
        if self.key or own is None or stood.exit_code != PASS or self.inputs.mode != "block":
            return False
        run = forge.actions_run(stood.run)
        return run.succeeded and run.path == own["path"] and run.head_sha == self.head and run.event in _RUNS

    def _code(self, said: str) -> str:
        text = f"vibe-gate standing verdict\n{said}".encode()
        return hmac.new(self.key.encode(), text, hashlib.sha256).hexdigest() if self.key else UNSIGNED


def about(pull: str, done: Review, inputs: Inputs, model: str, accepted: Sequence[Waiver], today: date) -> str:
    """A digest of what a verdict is given for: pull request, commit, trees, gate, model, inputs, what people let pass.

    `pull`: octo/hello#7. `model` is asked where a rubric names none. Of suppressions those count that hold `today`.
    """
    change, gate = done.summary.change, done.gate
    rules = gate.suppressions if gate else ()
    facts = [
        *(__version__, pull.lower(), change.head_commit, change.before, change.after, model),
        *([*gate.digests] if gate else []),
        *(inputs.rubrics, inputs.workflow, inputs.judge, inputs.mode),
        sorted(rule.name for rule in rules if rule.expires is None or rule.expires >= today),
        sorted({(one.finding, one.by) for one in accepted}),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


class Look(Struct, frozen=True):
    """What a look because of a review comes to. `stands`: nothing changed, and this verdict stays; else None.

    `posts`: it has every answer that it needs, or what was posted says something else than the job, and replaces it.
    `is_newest`: a later look may take its verdict over. `remark`: a sentence, or "".
    """

    review: Review
    stands: StandingVerdict | None = None
    posts: bool = False
    remark: str = ""
    is_newest: bool = True


def look(done: Review, standing: Standing, forge: Forge | None) -> Look:
    """Decide what a review can change; for answers that are not here, ask for the verdict that stands.

    What is posted must not say pass while the job fails, nor the other way round.
    """
    outcome = _look(done, standing, forge)
    is_pass = outcome.review.summary.exit_code == PASS
    if outcome.posts or (is_pass and outcome.stands is None):
        return outcome
    posted_pass = standing.posted_pass(forge)
    if posted_pass is None or posted_pass is is_pass:
        return outcome
    stood = outcome.stands
    remark = f"The verdict of run {stood.run} stands; its check run has the findings: {stood.url}" if stood else ""
    return replace(outcome, stands=None, posts=True, is_newest=False, remark=remark or outcome.remark)


def _look(done: Review, standing: Standing, forge: Forge | None) -> Look:
    summary, workflow = done.summary, standing.inputs.workflow != "review"
    if not (workflow or lacks_answers(summary)):
        return Look(done, posts=True)
    needs_approval = summary.exit_code == POLICY_CHANGED
    if not needs_approval and summary.exit_code != INCONCLUSIVE:  # whatever judges answered
        return Look(done)
    stood = standing.find(forge)
    if isinstance(stood, str):
        return Look(done, remark=stood if workflow or lacks_answers(summary, AsksNoModel) else "")
    intact = stood.exit_code != INTEGRITY
    if stood.outcome != "pass" or not intact:
        code = exit_code(stood.outcome, needs_approval=needs_approval, intact=intact)
        return Look(replace(done, summary=replace(summary, outcome=stood.outcome, exit_code=code)), stood)
    full = completed(done, stood, needs_approval=needs_approval)
    if full.outcome != "pass":
        return Look(done)
    if full.exit_code == stood.exit_code:
        return Look(full, stood)
    if stood.clean:
        return Look(full, posts=True)
    return Look(done, remark="What else judges answered is not kept, so the comment is not written anew.")


def lacks_answers(summary: Summary, *causes: type[Coded]) -> bool:
    """Whether a judge question has no answer for one of these causes: a look asks no model, its job has no key."""
    return any(queries.has_cause(criterion, *(causes or _UNASKED)) for criterion in summary.criteria)


def only_approvals(done: Review, workflow: str) -> Review:
    """A look at a verdict that is a workflow's, whose agents would ask a model: approvals of the gate's changes."""
    summary = done.summary
    if not summary.run_id:  # there is nothing to review
        return done
    waits = summary.exit_code == POLICY_CHANGED or queries.needs_approval(summary)
    waits = waits or (summary.trusted.bootstrap and not queries.approver(summary))
    code = POLICY_CHANGED if waits else INCONCLUSIVE
    findings = tuple(one for one in summary.findings if one.criterion == "policy")
    look = replace(summary, workflow=workflow, outcome="inconclusive", exit_code=code, rubrics=(), findings=findings)
    return replace(done, summary=replace(look, unreviewed=()), repairs=())


def completed(done: Review, stood: StandingVerdict, *, needs_approval: bool) -> Review:
    """The look with its missing answers as passes, as a standing pass had them, or what it let pass of them.

    Checks and waivers are the look's own, and so its outcome can still be none.
    """
    rubrics = {rubric.id: rubric for rubric in done.gate.rubrics} if done.gate else {}
    findings, cause = done.summary.findings, PassedInRun(run=stood.run)
    results = []
    for one in done.summary.rubrics:
        shown = [_answered(each, cause) for each in one.criteria]
        spared = [each.outcome == "fail" and queries.is_waived(one.id, each.id, findings) for each in shown]
        counted = [
            replace(each, outcome="not_applicable") if let else each for each, let in zip(shown, spared, strict=True)
        ]
        results.append(replace(decide(rubrics[one.id], counted), criteria=tuple(shown)))
    outcome = run_outcome(results)
    code = exit_code(outcome, needs_approval=needs_approval, intact=True)
    seen = tuple(one for one in done.summary.unreviewed if not isinstance(one.cause, _UNASKED))
    made = replace(done.summary, outcome=outcome, exit_code=code, rubrics=tuple(results), unreviewed=seen)
    return replace(done, summary=made)


def _answered(result: CriterionResult, cause: PassedInRun) -> CriterionResult:
    if not queries.has_cause(result, *_UNASKED):
        return result
    return replace(result, outcome="pass", decided_by="cache", reason=cause.sentence, cause=cause)


def _is_clean(summary: Summary) -> bool:
    judged = [one for one in summary.criteria if one.kind == "judge"]
    return all(one.outcome in ("pass", "not_applicable") for one in judged)


def _verdict(match: re.Match[str], check: CheckRecord) -> StandingVerdict:
    outcome: RunOutcome = match[1]  # type: ignore[assignment]  # one of them, as the caller looked
    return StandingVerdict(outcome, int(match[2]), match[3] == "clean", int(match[4]), check.url)
