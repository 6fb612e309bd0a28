"""The verdict that stands for a commit: a job leaves it in its check run, where a recheck finds it.

A recheck, a job that a review of the pull request started, asks no model, so it may lack answers.
What a review can change (approvals, overrides) it decides itself; for the rest the verdict counts
that a job gave for the same commit, trees, gate, inputs and overrides.

GitHub says which app made a check run, but every workflow of a repository is the same app. So a
pass counts only with a code made from the model's API key; in a job without a long enough key, if
the named run of this workflow succeeded, which GitHub's runner decides.
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

from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.domain.waiver import Waiver
from vibe_gate.errors import PASS, ForgeError
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.faces.action.runner import Runner
from vibe_gate.forge import CheckRecord, Forge
from vibe_gate.report.posting import check_name
from vibe_gate.run.review_result import Review
from vibe_gate.version import __version__

UNSIGNED = "-"
"""In place of the code, in a job without a key that could make one."""

_RECORD = re.compile(
    r"vibe-gate:1 ([a-z]+) ([0-9]) (clean|-) ([0-9]{1,16}) ([0-9a-f]{32}) ([0-9a-f]{64}|-)"
)
"""Outcome, exit code, whether judges found nothing, the workflow's run, what it is about, the
code.
"""

RECHECK_ONLY = "vibe-gate:look"
"""Of the check run of a recheck that lacks answers: it keeps nothing for later ones, which find the
verdict before it.
"""

_NO_VERDICT = "vibe-gate:1 none {pull:d}"
"""Of a check run without a verdict, or without one yet; 0: not a pull request's."""

_WORKFLOW = re.compile(r"[^/]+/[^/]+/(?P<path>[^@]+)@")
"""GITHUB_WORKFLOW_REF: owner/name/path@ref."""

_RUNS = ("pull_request", "pull_request_review")


class StandingVerdict(Struct, frozen=True):
    """What a job left in its check run."""

    outcome: RunOutcome
    """Without what a person approves or not."""

    exit_code: int
    """As posted."""

    clean: bool
    """Whether every judge question was answered with "pass" or does not apply."""

    run: int
    """GitHub's number of the workflow's run."""

    url: str
    """Of the check run."""


def no_verdict(number: int | None) -> str:
    """What a check run keeps until its job has a verdict; `number` is the pull request's."""
    return _NO_VERDICT.format(pull=number or 0)


class Standing(Struct, frozen=True):
    """One job's way to the verdict that stands."""

    runner: Runner

    inputs: Inputs

    head: str
    """The commit."""

    subject: str
    """The digest of all that a verdict must have been given for (`digest_subject`)."""

    key: str
    """What a pass is signed with; "" if there is no key."""

    number: int | None = None
    """The pull request's: another one can have the same commit."""

    def record(self, summary: Summary) -> str:
        """What the check run of this verdict keeps."""
        run_id = self.runner.run_id
        run = run_id if run_id.isdecimal() else "0"
        clean = "clean" if _is_clean(summary) else "-"
        statement = (
            f"vibe-gate:1 {summary.outcome} {summary.exit_code} {clean} {run} {self.subject}"
        )
        return f"{statement} {self._code(statement)}"

    def posted_pass(self, forge: Forge | None) -> bool | None:
        """Whether what stands on the commit says pass; None if that is not known."""
        if forge is None or not self.inputs.posts_check_run:
            return None
        try:
            records = forge.check_records(self.head, check_name(self.inputs.name))
        except ForgeError:
            return None
        if not records:
            return None
        return records[0].conclusion == "success"

    def find(self, forge: Forge | None) -> StandingVerdict | str:
        """The newest verdict of this gate for this commit, or why none counts, as a sentence."""
        if forge is None:
            return "Which verdict stands for this commit is not known: there is no token."
        if not self.inputs.posts_check_run:
            return (
                "Which verdict stands for this commit is not known: the job writes no check run "
                "(post: none)."
            )
        try:
            return self._find(forge)
        except ForgeError as error:
            return f"Which verdict stands for this commit could not be read: {error}"

    def _find(self, forge: Forge) -> StandingVerdict | str:
        for check in forge.check_records(self.head, check_name(self.inputs.name)):
            is_without_verdict = check.record in ("", no_verdict(self.number))
            # in progress, or it could not be completed
            if is_without_verdict and check.conclusion != "cancelled":
                return "The newest job of the gate at this commit left no verdict, or none yet."
            verdict = self._verdict_in(check)
            if verdict is None:
                continue
            if verdict.outcome != "pass" or self._is_confirmed(forge, check.record, verdict):
                return verdict
            return (
                f"The check run of run {verdict.run} says pass, but neither this job's API key nor "
                "that run confirms it."
            )
        return (
            "No check run has a verdict for this commit with this base, gate, inputs and accepted "
            "findings."
        )

    def _verdict_in(self, check: CheckRecord) -> StandingVerdict | None:
        """The verdict that a check run keeps; None if it keeps none, or one about something
        else.
        """
        match = _RECORD.fullmatch(check.record)
        if match is None or match[5] != self.subject or match[1] not in get_args(RunOutcome):
            return None
        outcome: RunOutcome = match[1]  # type: ignore[assignment]  # one of them, as was looked up
        return StandingVerdict(
            outcome=outcome,
            exit_code=int(match[2]),
            clean=match[3] == "clean",
            run=int(match[4]),
            url=check.url,
        )

    def _is_confirmed(self, forge: Forge, record: str, verdict: StandingVerdict) -> bool:
        """Whether this job's key signed the record; in a job without a key, whether the run that
        the verdict names passed.
        """
        if self.key:
            statement, _, code = record.rpartition(" ")
            return hmac.compare_digest(code, self._code(statement))
        return self._has_passed(forge, verdict)

    def _has_passed(self, forge: Forge, verdict: StandingVerdict) -> bool:
        """Whether the run of this workflow that the verdict names ended well, for this commit."""
        workflow = _WORKFLOW.match(self.runner.workflow_ref)
        if workflow is None or verdict.exit_code != PASS or self.inputs.mode != "block":
            return False
        run = forge.actions_run(verdict.run)
        is_of_workflow = run.path == workflow["path"] and run.event in _RUNS
        return run.succeeded and is_of_workflow and run.head_sha == self.head

    def _code(self, statement: str) -> str:
        if not self.key:
            return UNSIGNED
        text = f"vibe-gate standing verdict\n{statement}".encode()
        return hmac.new(self.key.encode(), text, hashlib.sha256).hexdigest()


def digest_subject(
    pull: str, review: Review, inputs: Inputs, model: str, overrides: Sequence[Waiver], today: date
) -> str:
    """A digest of what a verdict is given for: pull request, commit, trees, gate, model, inputs,
    what people let pass.

    `pull`: octo/hello#7. `model` is asked where a rubric names none. Of suppressions those count
    that hold `today`.
    """
    change = review.summary.change
    digests: list[object] = []
    valid_names: list[str] = []
    if review.gate is not None:
        digests += review.gate.digests
        for rule in review.gate.suppressions:
            if rule.expires is None or rule.expires >= today:
                valid_names.append(rule.name)
    facts = [
        *(__version__, pull.lower(), change.head_commit, change.before, change.after, model),
        *digests,
        *(inputs.rubrics, inputs.workflow, inputs.judge, inputs.mode),
        sorted(valid_names),
        sorted({(waiver.finding, waiver.by) for waiver in overrides}),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _is_clean(summary: Summary) -> bool:
    """Whether every judge question was answered with "pass" or does not apply."""
    for criterion in summary.criteria:
        if criterion.kind == "judge" and criterion.outcome not in ("pass", "not_applicable"):
            return False
    return True
