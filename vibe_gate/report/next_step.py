"""What the reader of a comment or of a screen does next, by the verdict and by why there is none.
Pure.

`next_step` is finished Markdown.
"""

from __future__ import annotations

import re

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from vibe_gate.domain.cause import (
    ApiStatus,
    ApiUnavailable,
    AsksNoModel,
    BrokeOff,
    BudgetReached,
    CannotAsk,
    Cause,
    Coded,
    DraftWaits,
    ModelRefused,
    NoCredit,
    NoForm,
    NoKey,
    NoSdk,
    ProcessEnded,
    ProgramMissing,
    TextTooLong,
    TimeUsedUp,
    Unreachable,
)
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import FAIL, INTEGRITY, PASS, POLICY_CHANGED
from vibe_gate.report import queries, sentences
from vibe_gate.report.markdown import escape_code
from vibe_gate.report.report import Report

_RANGE = re.compile(r"[^\s-]\S*\.\.\S*")
"""A range alone: `run fix` takes no options of a review."""

IN_SESSION = (
    "no change of files repairs it: have the agent run what is missing, or correct what it said"
)
"""What to do about a finding on what a session ran or said, without a full stop."""

RUN_TESTS = (
    "ask the agent to run the tests once more, by themselves (a person's own run is not recorded), "
    "then review again; to go on without, the user commits with --no-verify, which is recorded"
)
"""What to do if the record does not tell whether tests passed."""

ASK_ANEW = (
    "run `vibe-gate review --force`, which asks anew (a review without it takes the same answers), or "
    "review the change in person"
)
"""What to do if judges answered, and their answers decide nothing."""

_THEN_APPROVE = ". Last, somebody else with write access approves the newest commit"


def next_step(report: Report) -> str:
    """What to do, without a full stop."""
    summary = report.summary
    if summary.exit_code != PASS and not report.blocks:
        return f"nothing is blocked. To pass: {next_step(replace(report, blocks=True))}"
    if summary.exit_code == PASS:
        return _after_pass(summary)
    if summary.exit_code == FAIL:
        return _repair(report) + (_THEN_APPROVE if queries.needs_approval(summary) else "")
    if summary.exit_code == POLICY_CHANGED:
        if summary.outcome == "pass":
            return _approve(report)
        return _decide(report) + _THEN_APPROVE
    if summary.exit_code == INTEGRITY:
        return "re-run this job; if it happens again, find the step that writes to the checkout during the review"
    return _decide(report)


def _after_pass(summary: Summary) -> str:
    warnings = sum(finding.level == "warning" for finding in summary.findings)
    if queries.advisory_fails(summary):
        return "nothing has to change; read what would have blocked, and say whether it is right"
    if warnings:
        return f"nothing has to change; look at the {counted(warnings, 'warning')} below before you merge"
    questions = summary.unasked
    cause = questions[0].cause if questions else None
    if isinstance(cause, CannotAsk):
        step = sentences.way_to_ask(cause).replace("ANTHROPIC_API_KEY", "`ANTHROPIC_API_KEY`")
        return f"{step} and review again to ask {counted(len(questions), 'judge question')}"
    program = missing_program(summary)
    if program is not None:
        return f"nothing has to change; {remedy_in_job(program)}"
    if questions:
        return "nothing to do; judge questions are switched off"
    if not summary.is_examined:
        return "nothing to do. If these files should be reviewed, name them in `paths` of a rubric or a `[[scope]]`"
    return "nothing to do"


def _repair(report: Report) -> str:
    blocking = [finding for finding in report.summary.findings if finding.level == "failure"]
    if report.summary.change.head_commit and any(
        finding.criterion == "no-secrets" for finding in blocking
    ):
        return (
            "revoke the secret, remove it from the branch's commits (`git rebase -i`; a further commit leaves it "
            "there) and push"
        )
    failures = "failed criteria"
    if blocking:
        failures = "failure"
        if len(blocking) > 1:
            failures = counted(len(blocking), "failure")
    change = _to_head(report)
    repair = f"fix the {failures} below and push. Check first with {escape_code(f'vibe-gate review {change}'.rstrip())}"
    if report.summary.workflow != "review":  # its agents have tried already
        return repair
    if not _RANGE.fullmatch(change):
        return repair
    # The run is the job's, and not in the reader's clone: there the same is reviewed, then
    # repaired.
    return f"{repair}, or repair with {escape_code(f'vibe-gate run fix {change}')}"


def _to_head(report: Report) -> str:
    """The reviewed range in a clone that has a repair on top."""
    head = report.summary.change.head_commit[: sentences.SHORT_ID]
    if head:
        return report.review.replace(f"..{head}", "..HEAD", 1)
    return report.review


def _approve(report: Report) -> str:
    if report.links is None:
        return "ask a maintainer to approve, or run `vibe-gate override policy --reason TEXT`"
    head = escape_code(report.summary.change.head_commit[: sentences.SHORT_ID])
    return (
        f"someone with write access who wrote none of this change approves {head} (*Files changed → Review changes*). "
        "The check then looks again; if not, re-run its job"
    )


def _decide(report: Report) -> str:
    if report.fork:
        return (
            "a maintainer looks at these commits, pushes them to a branch of this repository and opens a pull request "
            "from there"
        )
    cause = remediable_cause(report.summary)
    if cause is not None:
        return remedy_in_job(cause, secrets="Dependabot" if report.dependabot else "Actions")
    if report.summary.outcome == "error":
        return "repair what failed (the criteria below have the details), then re-run this job"
    return "push what is missing (a test, a smaller change), or let a person review the change"


def by_an_agent(summary: Summary) -> str:
    """How an agent repairs what failed in a run that is stored here; "" if it is not, or no model
    can be asked.
    """
    is_unable = any(isinstance(question.cause, CannotAsk) for question in summary.unasked)
    if not summary.bundle or summary.workflow != "review" or is_unable:
        return ""
    # Enough to find it, and the command stays on one line of 80 columns.
    moment = summary.run_id.partition("-")[0]
    return f" (or: vibe-gate run --fix {moment})"


def at_a_terminal(
    summary: Summary, session_criteria: frozenset[str] = frozenset(), *, is_agent: bool = False
) -> str:
    """What to do if there is no verdict, without a full stop.

    Args:
        summary: Of the run.
        session_criteria: Of the gate, those about what a session ran or said.
        is_agent: Whether a coding agent reads it, to whom `--force` is refused.
    """
    for cause in _gravest_first(summary):
        remedy = remedy_at_terminal(cause)
        if remedy:
            return remedy
    for criterion in queries.unanswered_criteria(summary):
        is_of_tests = criterion.kind == "check" and criterion.outcome == "abstain"
        if is_of_tests and criterion.id in session_criteria:
            return RUN_TESTS
    if queries.is_undecided_by_answers(summary):
        if is_agent:
            return f"ask the user to {ASK_ANEW}"
        return ASK_ANEW
    return "review again; if that does not help, run vibe-gate doctor"


def to_review_a_turn(summary: Summary) -> str:
    """What to do about a turn without a verdict, without a full stop."""
    for cause in _gravest_first(summary):
        remedy = remedy_at_terminal(cause)
        if remedy:
            return f"{remedy} (`vibe-gate review`)"
    return "`vibe-gate review`"


def why_undecided(summary: Summary) -> str:
    """Why questions have no answer, in our words: the cause that `next_step` knows a remedy for,
    else the first.
    """
    cause = remediable_cause(summary)
    if cause is not None:
        return cause.fact
    for criterion in queries.unanswered_criteria(summary):
        if criterion.cause is not UNSET:
            return criterion.cause.fact
        return queries.reason_in_words(criterion.reason)
    return ""


_GRAVEST_FIRST: tuple[type[Coded], ...] = (
    NoKey,
    NoSdk,
    AsksNoModel,
    DraftWaits,
    BudgetReached,
    TimeUsedUp,
    ModelRefused,
    NoCredit,
    ApiStatus,
    Unreachable,
    NoForm,
    TextTooLong,
    ProgramMissing,
)
"""Of several causes in a run, the first is the one to mend; others follow."""


def _gravest_first(summary: Summary) -> list[Cause]:
    """The causes for which something is undecided, the one to mend first: errors before what is
    only open.
    """
    error_causes: list[Cause | UnsetType] = []
    open_causes: list[Cause | UnsetType] = []
    for criterion in queries.unanswered_criteria(summary):
        if criterion.outcome == "error":
            error_causes.append(criterion.cause)
        else:
            open_causes.append(criterion.cause)
    open_causes += [place.cause for place in summary.unreviewed]
    causes: list[Cause] = []
    for group in (error_causes, open_causes):
        causes += sorted((cause for cause in group if cause is not UNSET), key=_gravity)
    return causes


def _gravity(cause: Cause) -> int:
    """The smaller, the sooner it is to be mended."""
    for position, kind in enumerate(_GRAVEST_FIRST):
        if isinstance(cause, kind):
            return position
    return len(_GRAVEST_FIRST)


def missing_program(summary: Summary) -> ProgramMissing | None:
    """The first cause of an undecided criterion that is a missing program: a pass, too, may have
    one, of a criterion that need not pass.
    """
    for cause in _gravest_first(summary):
        if isinstance(cause, ProgramMissing):
            return cause
    return None


def remediable_cause(summary: Summary) -> Cause | None:
    """The cause for which something is undecided and that a job's reader can mend."""
    for cause in _gravest_first(summary):
        if remedy_in_job(cause):
            return cause
    return None


_THEN_RERUN = "then re-run this job"
_INSTALL = "install `vibe-gate` where the job installs `vibe-gate-core`"
_SECRETS = "(*Settings → Secrets and variables → {secrets}*)"


def remedy_in_job(cause: Cause, secrets: str = "Actions") -> str:
    """What the reader of a job's report does about the cause; "" if there is nothing special.

    Args:
        cause: Why something is undecided.
        secrets: The page of GitHub's settings that has the job's secrets.
    """
    page = _SECRETS.format(secrets=secrets)
    match cause:
        case NoKey():
            installation = f"{_INSTALL}, " if cause.is_sdk_missing else ""
            return (
                f"{installation}add the secret `ANTHROPIC_API_KEY` {page} and pass it as `anthropic-api-key`, or let "
                'checks alone decide with `judge: "false"`. Then re-run this job'
            )
        case NoSdk():
            return f"{_INSTALL}, or let checks alone decide with `--no-judge`. Then re-run this job"
        case AsksNoModel():
            return "re-run the job of the newest push, which may ask; a review only uses answers that are known"
        case DraftWaits():
            return (
                "mark the pull request as ready for review; if the workflow does not list the type "
                "`ready_for_review`, re-run the job then. `drafts: review` asks judges about drafts, too"
            )
        case BudgetReached():
            return (
                "split the change, or raise `max-cost-usd` in the workflow (else `[budget] max_cost_usd` in "
                f"`.vibe-gate/gate.toml`) above ${cause.limit}; {_THEN_RERUN}"
            )
        case TimeUsedUp():
            return (
                "split the change, or raise `[budget] deadline_s` in `.vibe-gate/gate.toml` above "
                f"{cause.seconds:g} s; {_THEN_RERUN}"
            )
        case ModelRefused():
            return "name another model (`[model] default` in `.vibe-gate/gate.toml`), or let a person review the change"
        case NoCredit():
            return f"add credit to the account of the API key, {_THEN_RERUN}"
        case ApiStatus(status=401 | 403):
            return f"replace the secret `ANTHROPIC_API_KEY` {page}, {_THEN_RERUN}"
        case ApiStatus(status=404):
            return (
                "name a model that the API has (`[model] default` in `.vibe-gate/gate.toml`, or the rubric's `model`), "
                f"or correct `ANTHROPIC_BASE_URL`; {_THEN_RERUN}"
            )
        case ApiStatus(status=413):
            return f"split the change, or let the rubric ask about fewer files (`paths`); {_THEN_RERUN}"
        case ApiStatus(status=501 | 505):
            return f"correct `ANTHROPIC_BASE_URL` (`vibe-gate doctor --ask` asks the address), {_THEN_RERUN}"
        case ApiStatus(status=status) if status != 429 and status < 500:
            return ""
        case Unreachable():
            return f"check that this runner reaches the model's API (`ANTHROPIC_BASE_URL`, proxy, firewall), {_THEN_RERUN}"
        case ApiStatus() | ApiUnavailable() | BrokeOff() | ProcessEnded():
            return f"wait some minutes, {_THEN_RERUN}"
        case NoForm():
            return (
                "re-run this job; if that does not help, name another model (`[model] default` in "
                "`.vibe-gate/gate.toml`)"
            )
        case TextTooLong():
            return "take the file out of the change, split it, or name it in `exclude` of the criterion's options"
        case ProgramMissing():
            return (
                f"install {escape_code(cause.program)} in a step before this one, or correct the criterion's `command` "
                f"(`vibe-gate config check` names programs that are missing); {_THEN_RERUN}"
            )
    return ""


def remedy_at_terminal(cause: Cause) -> str:
    """What somebody at a terminal does about a cause that a second review alone cannot change; ""
    otherwise.
    """
    match cause:
        case NoKey(is_sdk_missing=True):
            return (
                "run `pip install vibe-gate`, which has what asks a judge, set ANTHROPIC_API_KEY (in CI from a "
                "secret), then review again"
            )
        case NoKey():
            return "set ANTHROPIC_API_KEY (in CI from a secret), then review again"
        case NoSdk():
            return "run `pip install vibe-gate`, which has what asks a judge, then review again"
        case NoCredit():
            return "add credit to the account of the API key, then review again"
        case ApiStatus(status=401 | 403):
            return "replace the key in ANTHROPIC_API_KEY, check it with `vibe-gate doctor --ask`, then review again"
        case ApiStatus(status=404):
            return (
                "name a model that the API has (`[model] default`), or correct ANTHROPIC_BASE_URL; "
                "`vibe-gate doctor --ask` asks it; then review again"
            )
        case ApiStatus(status=413):
            return "review a smaller range, or ask about fewer files (`paths`)"
        case ApiStatus() | ApiUnavailable() | BrokeOff():
            return "check the model's API with `vibe-gate doctor --ask`, then review again"
        case TextTooLong():
            return "let git ignore the file or split it, then review again"
        case ProgramMissing():
            return (
                f"install {safe(cause.program)}, or correct the criterion's command (`vibe-gate config check`), then "
                "review again"
            )
    return ""
