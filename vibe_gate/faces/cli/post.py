"""`vibe-gate post` posts a recorded run to its pull request; `vibe-gate action` is what the GitHub
Action calls.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from msgspec import Struct

from vibe_gate.checks.conduct_checks import describe_capture_gaps
from vibe_gate.domain import paths
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import safe
from vibe_gate.domain.upkeep import WRONG
from vibe_gate.errors import INCONCLUSIVE, PASS, IntegrityError, StorageError, UsageError
from vibe_gate.faces.action.job import run_job
from vibe_gate.faces.action.relay import relay
from vibe_gate.faces.action.report_inputs import lines_since, stored_patch
from vibe_gate.faces.action.runner import Runner
from vibe_gate.faces.cli.command import Command, argument, parse_nothing, whole_number
from vibe_gate.faces.cli.destination import Destination, destination
from vibe_gate.faces.cli.output import complain, emit, emit_to_runner, now
from vibe_gate.faces.cli.runs import RUN_ARGUMENT, NamedRun, StoredRuns
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.forge import Forge, Pull, open_forge
from vibe_gate.git import Credentials, open_repository
from vibe_gate.report.posting import Posting, post_report
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round
from vibe_gate.run.run_documents import WORKFLOW
from vibe_gate.store.run_result import RunResult
from vibe_gate.store.store_audit import verify_store


class PostArguments(Struct, frozen=True):
    """The arguments of `vibe-gate post`."""

    reference: str | None
    """The run; None: the newest."""
    pull_request: int | None
    """Its number; None: the open one of the commit."""
    artifact: Path | None
    """The folder that the triggering job uploaded: all else is read from the event."""


def _parse(args: argparse.Namespace) -> PostArguments:
    artifact = None if args.from_artifact is None else Path(args.from_artifact)
    if artifact is not None and (args.run or args.pr):
        raise UsageError("--from-artifact reads run and pull request from the event; omit them.")
    return PostArguments(args.run, args.pr, artifact)


def _run(arguments: PostArguments) -> int:
    environment = read_process_environment()
    runner = Runner(environment, Path.cwd(), now, emit_to_runner)
    if arguments.artifact is not None:
        return relay(runner, arguments.artifact)
    runs = StoredRuns()
    result = _sealed(runs, _named_run(runs, arguments.reference))
    to = _destination(runs, environment)
    report = _report_of(result, runner, to)
    head = report.summary.change.head_commit
    with open_forge(to.api_url, to.token, to.repository, network=environment.network) as forge:
        credentials = Credentials(to.server_url, to.token)
        posting = Posting(
            head=head,
            number=_pull(forge, arguments.pull_request, head).number,
            check_run=environment.forge.is_in_actions,  # only an app's token can create one
            since=lines_since(runner.start, environment, head, credentials),
        )
        posted = post_report(posting, forge, report)
    for sentence in posted.downgrades:
        complain(f"vibe-gate: {safe(sentence)}")
    if not posted.comment_url:
        return INCONCLUSIVE
    emit(posted.comment_url + "\n")
    return PASS


def _named_run(runs: StoredRuns, reference: str | None) -> NamedRun:
    """The run that is meant. UsageError: it is a replay, or a newer one did not end."""
    named_run = runs.find_own_run(reference)
    if reference is None:
        runs.require_begun(named_run, "post")
    if named_run.entry.replay_of:
        raise UsageError(
            f"Run {named_run.entry.run_id} is a replay of {named_run.entry.replay_of}; replays are not posted."
        )
    return named_run


def _report_of(result: RunResult, runner: Runner, to: Destination) -> Report:
    """What is posted, before it is known what was said earlier."""
    summary = result.summary
    head, base = summary.change.head_commit, summary.change.base_commit
    gaps = describe_capture_gaps(result)
    return Report(
        summary,
        notes=(gaps,) if gaps else (),
        round=first_round(summary.findings, head),
        links=runner.links(to.repository, head, base, server_url=to.server_url),
        patch=stored_patch(result.bundle_dir),
        review=f"{base[:12]}..{head[:12]}" if base else "",
    )


def _sealed(runs: StoredRuns, named_run: NamedRun) -> RunResult:
    """The run, if it has a verdict to post, and its hashes, log and receipt are right."""
    run_id = named_run.entry.run_id
    result = runs.read(named_run)
    if result.state != "sealed":
        raise StorageError(f"Run {run_id} is {result.state}: it has no verdict to post.")
    problems = verify_store(runs.root, runs.bundles.provenance, [named_run.entry]).problems
    if wrong := next((problem for problem in problems if problem.state in WRONG), None):
        raise IntegrityError(
            f"Run {run_id} was not posted: {paths.quote(wrong.place)}: {wrong.why} "
            f"(`vibe-gate bundles verify {run_id}` lists all)."
        )
    summary = result.summary
    if not summary.change.head_commit:
        raise UsageError(
            f"Run {run_id} reviewed uncommitted work, which no pull request has. Commit it and review the commit."
        )
    if summary.workflow != WORKFLOW and not summary.rubrics:
        raise UsageError(f"Run {run_id} asked no rubrics, so it has no verdict to post.")
    return result


def _destination(runs: StoredRuns, environment: Environment) -> Destination:
    """Where to post, by the environment or by origin: its URL as it is configured, and as git uses
    it.
    """
    with open_repository(runs.top, environment) as repository:
        origins = (repository.config("remote.origin.url") or "", repository.remote_url("origin"))
    return destination(origins, environment.forge)


def _pull(forge: Forge, number: int | None, head: str) -> Pull:
    if number is not None:
        return forge.pull(number)
    pulls = [pull for pull in forge.pulls_of(head) if pull.state == "open"]
    if len(pulls) != 1:
        numbers = ", ".join(f"#{pull.number}" for pull in pulls) or "none"
        raise UsageError(
            f"Open pull requests with commit {head[:12]}: {numbers}. Choose one with --pr."
        )
    return pulls[0]


POST = Command(
    "Post a recorded run to its pull request, or in a workflow_run job what another job uploaded.",
    (
        RUN_ARGUMENT,
        argument(
            "--pr",
            type=whole_number,
            metavar="N",
            help="default: the open pull request of the commit",
        ),
        argument(
            "--from-artifact",
            metavar="DIR",
            help="post what the triggering job uploaded (workflow_run)",
        ),
    ),
    _parse,
    _run,
    "vibe-gate post [RUN] [--pr N]\n       vibe-gate post --from-artifact DIR",
    """\
examples:
  vibe-gate post                      the newest run, to the pull request of its
                                      commit
  vibe-gate post HEAD --pr 7          the run of HEAD, to pull request 7
  vibe-gate post --from-artifact DIR  in a job on workflow_run: see
                                      docs/guides/github.md
""",
)

ACTION = Command(
    "Called by the GitHub Action: review the event's change and post the result on the pull request.",
    (),  # everything it reads is in the environment (docs/reference/cli.md)
    parse_nothing,
    lambda arguments: run_job(Runner(read_process_environment(), Path.cwd(), now, emit_to_runner)),
    "vibe-gate action",
)
