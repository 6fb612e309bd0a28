"""`vibe-gate explain`: one finding, and what to do about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from vibe_gate.checks import CHECKS
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import safe
from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import PASS, GateError, UsageError
from vibe_gate.faces.cli.command import JSON, Command, argument
from vibe_gate.faces.cli.label import known_labels
from vibe_gate.faces.cli.output import COLUMNS, emit_result, now, open_repository_here, wrapped
from vibe_gate.gate.loading import OFFERED, offered_rubric
from vibe_gate.gate.stored import (
    StoredFinding,
    finding_if_any,
    finding_of_criterion,
    gate_of_run,
    is_fingerprint,
    name_acting_agent,
)
from vibe_gate.git import Repository
from vibe_gate.report.explanation import Explanation, Row, explanation_rows
from vibe_gate.store.clone_state import open_state

LABEL_COLUMNS = 10


class ExplainArguments(Struct, frozen=True):
    """The arguments of `vibe-gate explain`."""

    finding: str
    """A fingerprint, its beginning, or a criterion."""
    as_json: bool


def _parse(args: argparse.Namespace) -> ExplainArguments:
    return ExplainArguments(args.finding, args.json)


def _run(arguments: ExplainArguments) -> int:
    with open_repository_here() as repository:
        stored = _find_finding(repository, arguments.finding)
        finding, summary = stored.finding, stored.summary
        if finding is None or summary is None:
            raise UsageError(f"No run found with a finding {safe(arguments.finding)}.")
        fingerprint = finding.fingerprint
        labels = [label for label in known_labels(repository) if label.finding == fingerprint]
        recorded = open_state(repository.common_dir).overrides.all()
        overrides = [override for override in recorded if override.finding == fingerprint]
        criterion = _criterion_of(repository, finding, summary)
        by_agent = bool(name_acting_agent(repository))
    question = _question_of(criterion) if criterion else ""
    explanation = Explanation(
        finding,
        summary,
        question,
        is_about_session=criterion is not None and criterion.is_about_session,
        labels=labels,
        overrides=overrides,
        is_accepted=any(override.expires >= now().date() for override in overrides),
        by_agent=by_agent,
    )
    rows = list(explanation_rows(explanation))
    document = {
        "exit_code": PASS,
        "run_id": summary.run_id,
        "question": question,
        "finding": plain(finding),
        "labels": [plain(label) for label in labels],
        "overrides": [plain(override) for override in overrides],
    }
    return emit_result(document, _lines(rows), as_json=arguments.as_json)


def _find_finding(repository: Repository, name: str) -> StoredFinding:
    """The finding with this fingerprint, or the one of this criterion in the newest run.
    UsageError.
    """
    if is_fingerprint(name):
        stored = finding_if_any(repository, name, now())
        if stored is not None:
            return stored
    return finding_of_criterion(repository, name, now())


def _lines(rows: list[Row]) -> Iterator[str]:
    for label, text in rows:
        line = f"  {label:<{LABEL_COLUMNS - 2}}{safe(text)}"
        yield from wrapped(line, COLUMNS, " " * LABEL_COLUMNS).split("\n")


def _criterion_of(repository: Repository, finding: Finding, summary: Summary) -> Criterion | None:
    """The finding's criterion; None if the gate of then is not there any more."""
    digests = {source.digest for source in summary.sources(finding)}
    with suppress(GateError):
        for rubric in gate_of_run(repository, summary).rubrics:
            for criterion in rubric.criterion:
                is_named = criterion.id == finding.criterion and finding.is_of(
                    rubric.id, criterion.id
                )
                if is_named and (not digests or rubric.digest in digests):
                    return criterion
    with suppress(GateError, OSError):
        for name in OFFERED:
            for criterion in offered_rubric(name).criterion:
                if criterion.id == finding.criterion:
                    return criterion
    return None


def _question_of(criterion: Criterion) -> str:
    if criterion.question:
        return criterion.question
    if criterion.command:
        return f"Does `{' '.join(criterion.command)}` succeed?"
    return f"{CHECKS[criterion.check_name].summary} (check {criterion.check_name})"


EXPLAIN = Command(
    "Show one finding: what was asked, the quoted lines, a counterexample, the second look, what people said, and what "
    "to do next.",
    (
        argument(
            "finding",
            metavar="FINDING",
            help="a fingerprint, its beginning, or a criterion with one finding in the newest run",
        ),
        JSON,
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate explain 3f9a1c
  vibe-gate explain no-secrets          if the newest run has one finding of it
""",
)
