"""What the reader of a comment or of a screen does next, by the verdict and by why there is none. Pure.

`next_step` is finished Markdown.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import DRAFT, NO_KEY, NOT_NOW
from vibe_gate.errors import FAIL, INTEGRITY, PASS, POLICY_CHANGED
from vibe_gate.report import queries, sentences
from vibe_gate.report.markdown import code
from vibe_gate.report.report import Report

_UNREAD_TEXT = re.compile(r"^Text of more than [0-9,]+ bytes is not read")

_REMEDIES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(re.escape(NO_KEY)),
        "add the secret `ANTHROPIC_API_KEY` (*Settings → Secrets and variables → {secrets}*) and pass it as "
        '`anthropic-api-key`, or let checks alone decide with `judge: "false"`. Then re-run this job',
    ),
    (
        re.compile(re.escape(NOT_NOW)),
        "re-run the job of the newest push, which may ask; a review only uses answers that are known",
    ),
    (
        re.compile(re.escape(DRAFT)),
        "mark the pull request as ready for review; if the workflow does not list the type `ready_for_review`, re-run "
        "the job then. `drafts: review` asks judges about drafts, too",
    ),
    (
        re.compile(r"[Bb]udget of (\$[0-9.]+)"),
        "split the change, or raise `max-cost-usd` in the workflow (else `[budget] max_cost_usd` in "
        "`.vibe-gate/gate.toml`) above {0}; then re-run this job",
    ),
    (
        re.compile(r"deadline of ([0-9.]+ s)"),
        "split the change, or raise `[budget] deadline_s` in `.vibe-gate/gate.toml` above {0}; then re-run this job",
    ),
    (
        re.compile(r"model refused to answer"),
        "name another model (`[model] default` in `.vibe-gate/gate.toml`), or let a person review the change",
    ),
    (
        re.compile(r"has no credit left"),
        "add credit to the account of the API key, then re-run this job",
    ),
    (
        re.compile(r"HTTP 40[13]\b"),
        "replace the secret `ANTHROPIC_API_KEY` (*Settings → Secrets and variables → {secrets}*), then re-run this job",
    ),
    (
        re.compile(r"HTTP 404\b"),
        "name a model that the API has (`[model] default` in `.vibe-gate/gate.toml`, or the rubric's `model`), or "
        "correct `ANTHROPIC_BASE_URL`; then re-run this job",
    ),
    (
        re.compile(r"HTTP 413\b"),
        "split the change, or let the rubric ask about fewer files (`paths`); then re-run this job",
    ),
    (
        re.compile(r"cannot be reached|does not answer"),
        "check that this runner reaches the model's API (`ANTHROPIC_BASE_URL`, proxy, firewall), then re-run this job",
    ),
    (
        re.compile(r"asked form|fit its form"),
        "re-run this job; if that does not help, name another model (`[model] default` in `.vibe-gate/gate.toml`)",
    ),
    (_UNREAD_TEXT, "take the file out of the change, split it, or name it in `exclude` of the criterion's options"),
    (
        re.compile(r"HTTP (?:501|505)\b"),
        "correct `ANTHROPIC_BASE_URL` (`vibe-gate doctor --ask` asks the address), then re-run this job",
    ),
    (
        re.compile(r"HTTP (?:429|5[0-9][0-9])\b|did not recover|API broke off|process ended before"),
        "wait some minutes, then re-run this job",
    ),
)
"""The reason why a run did not decide -> what helps; `{0}` is what the expression caught in it."""

_AT_A_TERMINAL: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(re.escape(NO_KEY)), "set ANTHROPIC_API_KEY (in CI from a secret), then review again"),
    (re.compile(r"has no credit left"), "add credit to the account of the API key, then review again"),
    (
        re.compile(r"HTTP 40[13]\b"),
        "replace the key in ANTHROPIC_API_KEY, check it with `vibe-gate doctor --ask`, then review again",
    ),
    (
        re.compile(r"HTTP 404\b"),
        "name a model that the API has (`[model] default`), or correct ANTHROPIC_BASE_URL; `vibe-gate doctor --ask` "
        "asks it; then review again",
    ),
    (re.compile(r"HTTP 413\b"), "review a smaller range, or ask about fewer files (`paths`)"),
    (
        re.compile(r"HTTP \d{3}\b|did not recover|API broke off|cannot be reached"),
        "check the model's API with `vibe-gate doctor --ask`, then review again",
    ),
    (_UNREAD_TEXT, "let git ignore the file or split it, then review again"),
)
"""The same at a terminal, of what a second review alone cannot change."""

_RANGE = re.compile(r"[^\s-]\S*\.\.\S*")
"""A range alone: `run fix` takes no options of a review."""

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
        return _approve(report) if summary.outcome == "pass" else _decide(report) + _THEN_APPROVE
    if summary.exit_code == INTEGRITY:
        return "re-run this job; if it happens again, find the step that writes to the checkout during the review"
    return _decide(report)


def _after_pass(summary: Summary) -> str:
    warnings = sum(finding.level == "warning" for finding in summary.findings)
    if queries.would_block(summary):
        return "nothing has to change; read what would have blocked, and say whether it is right"
    if warnings:
        return f"nothing has to change; look at the {counted(warnings, 'warning')} below before you merge"
    left = summary.unasked
    if not left and not summary.is_examined:
        return "nothing to do. If these files should be reviewed, name them in `paths` of a rubric or a `[[scope]]`"
    if left and left[0].reason == NO_KEY:
        return f"set `ANTHROPIC_API_KEY` and review again to ask {counted(len(left), 'judge question')}"
    return "nothing to do; judge questions are switched off" if left else "nothing to do"


def _repair(report: Report) -> str:
    blocking = [finding for finding in report.summary.findings if finding.level == "failure"]
    if report.summary.change.head_commit and any(finding.criterion == "no-secrets" for finding in blocking):
        return (
            "revoke the secret, remove it from the branch's commits (`git rebase -i`; a further commit leaves it "
            "there) and push"
        )
    what = counted(len(blocking), "failure") if len(blocking) > 1 else "failure" if blocking else "failed criteria"
    again = _to_head(report)
    said = f"fix the {what} below and push. Check first with {code(f'vibe-gate review {again}'.rstrip())}"
    if report.summary.workflow != "review":  # its agents have tried already
        return said
    # The run is the job's, and not in the reader's clone: there the same is reviewed, then repaired.
    return f"{said}, or repair with {code(f'vibe-gate run fix {again}')}" if _RANGE.fullmatch(again) else said


def _to_head(report: Report) -> str:
    """The reviewed range in a clone that has a repair on top."""
    head = report.summary.change.head_commit[: sentences.SHORT_ID]
    return report.review.replace(f"..{head}", "..HEAD", 1) if head else report.review


def _approve(report: Report) -> str:
    if report.links is None:
        return "ask a maintainer to approve, or run `vibe-gate override policy --reason TEXT`"
    head = code(report.summary.change.head_commit[: sentences.SHORT_ID])
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
    if known := _remedy(report.summary):
        reason, advice = known
        return advice.format(*reason.groups(), secrets="Dependabot" if report.dependabot else "Actions")
    if report.summary.outcome == "error":
        return "repair what failed (the criteria below have the details), then re-run this job"
    return "push what is missing (a test, a smaller change), or let a person review the change"


def by_an_agent(summary: Summary) -> str:
    """How an agent repairs what failed in a run that is stored here; "" if it is not, or no model can be asked."""
    keyless = any(one.reason == NO_KEY for one in summary.unasked)
    if not summary.bundle or summary.workflow != "review" or keyless:
        return ""
    moment = summary.run_id.partition("-")[0]  # enough to find it, and the command stays on one line of 80 columns
    return f" (or: vibe-gate run --fix {moment})"


def at_a_terminal(summary: Summary) -> str:
    """What to do if there is no verdict, without a full stop."""
    known = _remedy(summary, _AT_A_TERMINAL)
    return known[1] if known else "review again; if that does not help, run vibe-gate doctor"


def _remedy(
    summary: Summary, remedies: tuple[tuple[re.Pattern[str], str], ...] = _REMEDIES
) -> tuple[re.Match[str], str] | None:
    """The first reason with a remedy that is known, and this remedy."""
    reasons = [*(one.reason for one in queries.unanswered(summary)), *(place.reason for place in summary.unreviewed)]
    found = ((pattern.search(queries.fact(reason)), advice) for pattern, advice in remedies for reason in reasons)
    return next(((match, advice) for match, advice in found if match), None)


def cause(summary: Summary) -> str:
    """Why questions have no answer, as the reason that `next_step` knows a remedy for, or else the first says it.

    In our words (`queries.fact`).
    """
    known = _remedy(summary)
    return known[0].string if known else next((queries.fact(one.reason) for one in queries.unanswered(summary)), "")
