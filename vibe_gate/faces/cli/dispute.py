"""`vibe-gate dispute`: an argument against a finding, put to a second look once."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from msgspec import UNSET, Struct

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.cause import DisputedBefore
from vibe_gate.domain.change import Selection
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import end_sentence
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import SHORT_FINGERPRINT, Finding, SecondLook
from vibe_gate.errors import InfrastructureError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.command import JSON, Command, argument
from vibe_gate.faces.cli.output import emit_result, now, open_repository_here, upload_run
from vibe_gate.faces.cli.shared_options import RunLimits, add_limits, parse_limits
from vibe_gate.gate.stored import name_acting_agent
from vibe_gate.git import Repository
from vibe_gate.report import queries, sentences
from vibe_gate.run.dispute import DisputeAsked, PreparedDispute, prepare_dispute
from vibe_gate.run.review import review_in
from vibe_gate.run.review_result import Review


class DisputeArguments(Struct, frozen=True):
    """The arguments of `vibe-gate dispute`."""

    request: DisputeAsked
    limits: RunLimits
    """What it may cost."""
    as_json: bool


def _parse(args: argparse.Namespace) -> DisputeArguments:
    request = DisputeAsked(args.finding, args.reason)
    return DisputeArguments(request, parse_limits(args), args.json)


def _run(arguments: DisputeArguments) -> int:
    with open_repository_here() as repository:
        by_agent = bool(name_acting_agent(repository))
        finished, dispute = _review_disputed(arguments, repository)
    summary = finished.summary
    finding = _finding_named(dispute.finding.fingerprint, summary)
    look = finding.second_look if finding is not None else UNSET
    if finding is None or look is UNSET or look.dispute is UNSET:
        lines = _lines_without_dispute(dispute.finding, finding, summary)
        outcome = "not disputed"
    elif isinstance(look.cause, DisputedBefore):
        sentence = f"{finding.fingerprint} was {end_sentence(look.cause.sentence)}"
        lines = iter([sentence, *_ways_on(finding, by_agent=by_agent)])
        outcome = look.cause.outcome
    elif look.said is None:
        upload_run(finished)
        raise InfrastructureError(
            f"The dispute got no answer: {end_sentence(look.reason)} It is not used up; dispute again."
        )
    else:
        lines = _lines_of_dispute(finding, look, summary, by_agent=by_agent)
        outcome = look.outcome
    document = {
        "exit_code": summary.exit_code,
        "run_id": summary.run_id,
        "outcome": summary.outcome,
        "dispute": outcome,
        "finding": None if finding is None else plain(finding),
    }
    notes = [f"note: {note}" for note in finished.notes]
    verdict_line = sentences.concise_lines(summary)[-1]
    exit_code = emit_result(
        document, [*lines, *notes, verdict_line], summary.exit_code, as_json=arguments.as_json
    )
    upload_run(finished)
    return exit_code


def _review_disputed(
    arguments: DisputeArguments, repository: Repository
) -> tuple[Review, PreparedDispute]:
    """Review the change that has the finding, with the argument against it."""
    environment = repository.environment
    dispute = prepare_dispute(repository, arguments.request, now())
    review_request = ReviewRequest(
        Selection(dispute.stored.change.kind),
        rubrics=dispute.rubrics,
        max_cost_usd=arguments.limits.max_cost_usd,
        deadline_s=arguments.limits.deadline_s,
        mode=dispute.mode,
    )
    with progress.display_progress(environment, quiet=arguments.as_json) as display:
        walk = review_in(
            repository,
            review_request,
            clock=now,
            progress=display.show,
            meter=display.meter,
            stored=dispute.stored,
        )
        return progress.run_walk(walk), dispute


def _finding_named(fingerprint: str, summary: Summary) -> Finding | None:
    for finding in summary.findings:
        if finding.fingerprint == fingerprint:
            return finding
    return None


def _lines_of_dispute(
    finding: Finding, look: SecondLook, summary: Summary, *, by_agent: bool
) -> Iterator[str]:
    """What a dispute came to, with both sides."""
    outcome = {"stands": "stands", "refuted": "is refuted"}.get(look.outcome, "is not refuted")
    earlier = ""
    if look.dispute is not UNSET and look.dispute.run != summary.run_id:
        earlier = f" (disputed before, in run {look.dispute.run}; nothing was asked)"
    yield f"{finding.fingerprint} {outcome}{earlier}"
    yield f"  raised: {finding.criterion}, {sentences.place_words_of(finding)}: {finding.message}"
    yield f"  {sentences.dispute_sentence(look)}"
    yield f"  {sentences.second_look_sentence(look)}"
    for evidence in queries.grounds_of_look(look):
        yield f"    {sentences.place_words_of(evidence)}: {evidence.quote.strip()}"
    if look.outcome != "refuted":
        yield from _ways_on(finding, by_agent=by_agent)


def _ways_on(finding: Finding, *, by_agent: bool) -> Iterator[str]:
    """What is left of a finding that has been disputed."""
    name = finding.fingerprint[:SHORT_FINGERPRINT]
    if by_agent:
        yield "It is disputed once on these files. Repair it, or ask the user to accept it."
        return
    yield "It is disputed once on these files; a later reason is neither asked about nor kept."
    yield "Repair it, or decide as a person:"
    yield f"  vibe-gate label {name} wrong --reason TEXT"
    yield f"  vibe-gate override {name} --reason TEXT"


def _lines_without_dispute(
    old_finding: Finding, finding: Finding | None, summary: Summary
) -> Iterator[str]:
    """Why nothing was disputed in this review."""
    name = old_finding.fingerprint
    if finding is None:
        yield f"{name} is not raised by this review (run {summary.run_id}); nothing was disputed."
    elif finding.is_refuted:
        yield f"{name} is refuted by a second look already; nothing was disputed."
    else:
        yield f"{name} does not block in this review (run {summary.run_id}); nothing was disputed."


DISPUTE = Command(
    "Say why a judge's finding is wrong: a second look reads it as a claim, and decides from the code. Once a finding, "
    "on the same files.",
    (
        argument("finding", metavar="FINDING", help="a fingerprint, or its beginning"),
        argument(
            "--reason",
            required=True,
            metavar="TEXT",
            help="which lines show that it does not happen; shown with the verdict",
        ),
        JSON,
        add_limits,
    ),
    _parse,
    _run,
    "vibe-gate dispute FINDING --reason TEXT [options]",
    """\
Name files and lines: the argument may say where to look, and nothing else of it
counts. It is shown in reports and in the pull request, so say what the code
does, not what you were asked for.

exit codes:
  0  refuted, and the change passes
  1  the change fails: the finding stands, or something else does
  2  there is nothing to dispute: a check's finding, one that does not block,
     other files by now
  3  no answer: no key, no budget, no time, no place to keep it; the dispute
     is not used up

examples:
  vibe-gate dispute 3f9a1c --reason "src/main.py:7 returns before load() runs"
""",
)
