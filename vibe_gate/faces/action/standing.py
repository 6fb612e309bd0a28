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

from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.errors import PASS, ForgeError
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.faces.action.runner import Runner
from vibe_gate.forge import CheckRecord, Forge
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


def _is_clean(summary: Summary) -> bool:
    judged = [one for one in summary.criteria if one.kind == "judge"]
    return all(one.outcome in ("pass", "not_applicable") for one in judged)


def _verdict(match: re.Match[str], check: CheckRecord) -> StandingVerdict:
    outcome: RunOutcome = match[1]  # type: ignore[assignment]  # one of them, as the caller looked
    return StandingVerdict(outcome, int(match[2]), match[3] == "clean", int(match[4]), check.url)
