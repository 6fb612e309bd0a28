"""`post --from-artifact`: a job with rights posts what a job without them reviewed, as that job's
claim.
"""

from __future__ import annotations

from pathlib import Path

from vibe_gate.domain.summary import Summary
from vibe_gate.errors import INCONCLUSIVE, PASS, GateError, IntegrityError, UsageError
from vibe_gate.faces.action.incoming import read_artifacts
from vibe_gate.faces.action.inputs import Inputs, inputs_of
from vibe_gate.faces.action.report_inputs import lines_since, pull_patch
from vibe_gate.faces.action.runner import Runner
from vibe_gate.faces.action.trigger import Trigger, read_trigger
from vibe_gate.forge import Forge, Pull, open_forge
from vibe_gate.gate.source import is_identifier
from vibe_gate.git import Credentials
from vibe_gate.judging.posted_verdict import distrust_claim
from vibe_gate.report.comment import render_job_summary
from vibe_gate.report.posting import Posted, Posting, post_report
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round
from vibe_gate.report.sentences import program_outcome
from vibe_gate.run.run_documents import posted_summary
from vibe_gate.secrets import Redactor


def relay(runner: Runner, folder: Path) -> int:
    """Post every artifact in `folder`; 0 if all were posted, 3 if one could not be."""
    try:
        return _relay(runner, folder)
    except GateError as error:
        runner.refuse("vibe-gate could not post this", error)
        raise


def _relay(runner: Runner, folder: Path) -> int:
    variables = runner.environment.variables
    inputs, trigger = inputs_of(variables), read_trigger(variables)
    if trigger.kind != "workflow_run" or trigger.run is None:
        raise UsageError(
            "--from-artifact is for a job on workflow_run: only there GitHub says whose artifact "
            "it is."
        )
    if not inputs.github_token:
        raise UsageError("There is no token: pass `github-token`, or set GITHUB_TOKEN.")
    claims = read_artifacts(folder, Redactor(variables))
    for claim in claims:
        _require_head(claim, trigger.head)
    exit_code = PASS
    with open_forge(
        runner.api_url, inputs.github_token, trigger.repository, network=runner.environment.network
    ) as forge:
        pull = _pull(runner, inputs, trigger, forge)
        credentials = Credentials(runner.server_url, inputs.github_token)
        patch = pull_patch(
            runner.start, runner.environment, pull.base_sha, trigger.head, credentials
        )
        for claim in claims:
            claim_inputs = inputs
            if len(claims) > 1:
                claim_inputs = inputs.model_copy(update={"rubrics": _rubric_ids(claim)})
            posting = _posting(runner, claim_inputs, trigger, pull)
            report = _report(runner, claim_inputs, trigger, pull, patch, claim)
            posted = post_report(posting, forge, report)
            _report_posted(runner, posted)
            if inputs.posts_comment and not posted.comment_url:
                exit_code = INCONCLUSIVE
    return exit_code


def _require_head(claim: Summary, head: str) -> None:
    """IntegrityError: the claim is about another commit than the run that made it."""
    commit = claim.change.head_commit
    if commit != head:
        raise IntegrityError(
            f"The artifact is about {commit[:12]}, the run that made it about {head[:12]}: "
            "it is not posted."
        )


def _rubric_ids(claim: Summary) -> tuple[str, ...]:
    """The rubrics of this artifact, by which each job of a matrix gets its own comment and check
    run.
    """
    return tuple(rubric.id for rubric in claim.rubrics if is_identifier(rubric.id))[:10]


def _pull(runner: Runner, inputs: Inputs, trigger: Trigger, forge: Forge) -> Pull:
    """The open pull request that the other run was about, as this repository lists it. UsageError,
    ForgeError.

    Its head is the event's commit, in the event's repository and branch: anybody can open another
    pull request with the same commit, from a repository of their own.
    """
    numbers = [pull.number for pull in forge.pulls_of(trigger.head)]
    if not numbers and trigger.fork and trigger.origin:
        # GitHub lists a fork's commit only in the fork; each pull request is then looked up here.
        with open_forge(
            runner.api_url, inputs.github_token, trigger.origin, network=runner.environment.network
        ) as fork:
            numbers = [pull.number for pull in fork.pulls_of(trigger.head)]
    pulls = []
    for pull_number in dict.fromkeys(numbers):
        pull = forge.pull_if_any(pull_number)
        if pull is not None and _is_reviewed(pull, trigger):
            pulls.append(pull)
    if len(pulls) == 1:
        return pulls[0]
    number = f"{len(pulls)} open pull requests have" if pulls else "No open pull request has"
    raise UsageError(
        f"{number} {trigger.head[:12]} as its newest commit, from the branch of the run that "
        "reviewed it, so nothing is posted."
    )


def _is_reviewed(pull: Pull, trigger: Trigger) -> bool:
    """Whether it is open and its newest commit is the one that the other run reviewed."""
    if pull.state != "open" or pull.head_sha != trigger.head:
        return False
    return _is_of(pull, trigger)


def _is_of(pull: Pull, trigger: Trigger) -> bool:
    """Whether the other run's head is this pull request's, by repository and branch."""
    return pull.origin.casefold() == trigger.origin.casefold() and pull.head_ref == trigger.branch


def _posting(runner: Runner, inputs: Inputs, trigger: Trigger, pull: Pull) -> Posting:
    credentials = Credentials(runner.server_url, inputs.github_token)
    return Posting(
        head=trigger.head,
        number=pull.number,
        comment=inputs.posts_comment,
        check_run=inputs.posts_check_run,
        since=lines_since(runner.start, runner.environment, trigger.head, credentials),
    )


def _report(
    runner: Runner, inputs: Inputs, trigger: Trigger, pull: Pull, patch: str, claim: Summary
) -> Report:
    """The claim as it is posted, with the lines of the real change."""
    remark = (
        f"A job that the pull request controls claims {claim.outcome}; that is not verified. "
        "Not reviewed until a job or a person with write access reviews it."
    )
    summary = unverified(claim)
    return Report(
        summary,
        (),
        first_round(summary.findings, trigger.head),
        runner.links(trigger.repository, trigger.head, run=trigger.run),
        patch,
        name=inputs.name,
        review=f"{pull.base_sha[:12]}...{trigger.head[:12]}",
        fork=trigger.fork,
        blocks=inputs.mode == "block",
        remarks=(remark,),
        claimed=True,
    )


def unverified(claim: Summary) -> Summary:
    """The claim as it may be shown: a pass becomes inconclusive, and nobody approved."""
    findings = tuple(finding for finding in claim.findings if not finding.lets_policy_pass)
    verdict = distrust_claim(claim.outcome, claim.exit_code, claim.rubrics)
    return posted_summary(claim, verdict, findings=findings)


def _report_posted(runner: Runner, posted: Posted) -> None:
    """Say in summary, outputs and log what was posted, and what was not."""
    runner.summarize(render_job_summary(posted.report, tuple(posted.downgrades)))
    runner.output(verdict=program_outcome(posted.report.summary), comment_url=posted.comment_url)
    for sentence in posted.downgrades:
        runner.command("warning", f"vibe-gate: {sentence}")
