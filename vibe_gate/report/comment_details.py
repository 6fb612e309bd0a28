"""The details of a comment: cost, provenance, and how to repeat or accept it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import FAIL
from vibe_gate.report import queries, sentences
from vibe_gate.report.comment_markup import is_commit, link_commit, list_first
from vibe_gate.report.markdown import (
    Block,
    escape_code,
    escape_prose,
    fence_code,
    link_code,
    render_fold,
)
from vibe_gate.report.report import Report
from vibe_gate.report.run_files import describe_run_files


def details_block(report: Report) -> Block:
    """What was reviewed and what it cost, the run and its notes, and how to repeat it or accept a
    finding.
    """
    summary = report.summary
    if not summary.run_id:
        return Block("")
    parts = [
        f"Reviewed: {_change_id(report)} against {escape_prose(sentences.gate_words(summary))}.",
        _cost(report),
        _provenance(report),
        _tests(report.summary),
        _missing_diffs(report),
        list_first(report.notes, escape_prose),
        *_repeat_lines(report),
    ]
    figures = ", ".join(filter(None, [_lowest_score(summary), _spent(report), _size(summary)]))
    fold = render_fold(f"Details: {figures}", "\n\n".join(filter(None, parts)))
    return Block(fold, 1, "the details of the run")


def _change_id(report: Report) -> str:
    """The commit with its link, or a short id of a change that is none."""
    head = report.summary.change.head_commit
    if head:
        return link_commit(head, report.links)
    return escape_code(sentences.short_change_id(report.summary))


def _lowest_score(summary: Summary) -> str:
    score = queries.lowest_score(summary)
    if score is None:
        return ""
    return f"score {score:.2f}"


def _size(summary: Summary) -> str:
    change = summary.change
    return f"{counted(len(change.files), 'file')} (+{change.added:,} −{change.deleted:,})"


def _spent(report: Report) -> str:
    """What the run cost, and beside it what the pull request has cost so far; "" if nothing."""
    so_far = report.round.usd_before + report.usd
    if not so_far:
        return ""
    before = ""
    if report.round.usd_before and not report.claimed:
        before = f" (${so_far:.4f} so far)"
    return f"${report.usd:.4f}{before}"


def _cost(report: Report) -> str:
    """What the models of this run cost, its replays, and all runs of the pull request."""
    parts = [f"Cost: {escape_prose(sentences.cost_words(report.summary))}."]
    if report.replayed.usd:
        parts.append(f"The replays cost ${report.replayed.usd:.4f} more.")
    if report.round.runs_before and not report.claimed:
        so_far = report.round.usd_before + report.usd
        runs = counted(report.round.runs_before + bool(report.usd), "run")
        parts.append(f"This pull request so far: ${so_far:.4f} in {runs} that asked a model.")
    return " ".join(parts)


def _provenance(report: Report) -> str:
    """Who wrote the change, and where the run and its files are."""
    authored = report.summary.agent_authored
    facts = []
    if authored.decision and authored.hints:
        signs = sentences.agent_signs([escape_prose(hint.sentence, 200) for hint in authored.hints])
        facts = [f"Written by an agent: {signs}."]
    run = link_code(report.summary.run_id, report.links.run_url if report.links else "")
    return " ".join([*facts, f"Run {run}; {describe_run_files(report)}."])


def _tests(summary: Summary) -> str:
    """What the record of the author's sessions says of the tests; "" without one."""
    if summary.tests is UNSET:
        return ""
    return f"tests: {sentences.describe_tests(summary.tests, escape_code)}."


def _missing_diffs(report: Report) -> str:
    """That the change's lines are not shown, if there are findings at lines; else ""."""
    if report.patch or not any(finding.line for finding in report.summary.findings):
        return ""
    return "Without diffs: the lines of the change could not be read, or are too many."


def _repeat_lines(report: Report) -> Iterator[str]:
    """How to run the review in a clone, and how to let something pass."""
    change, revisions = report.summary.change, report.review
    if not revisions and is_commit(change.base_commit) and is_commit(change.head_commit):
        revisions = f"{change.base_commit[: sentences.SHORT_ID]}..{change.head_commit[: sentences.SHORT_ID]}"
    yield "Run this review in a clone:"
    yield fence_code(f"vibe-gate review {revisions}".rstrip(), "")
    if report.summary.exit_code == FAIL or report.round.reportable:
        for_everybody = ""
        if queries.has_own_gate(report.summary):
            for_everybody = (
                "for everybody with `vibe-gate suppress FINDING --reason TEXT` (it writes "
                "`.vibe-gate/suppressions.toml`, whose change needs approval); "
            )
        yield (
            f"Accept a finding: {for_everybody}temporarily, in one clone, with "
            "`vibe-gate override FINDING --reason TEXT`; for this commit, where the workflow `commands.yml` is "
            "installed, with a comment `/vibe-gate override FINDING REASON`."
        )
        yield (
            "Say whether a finding is right, to measure the judge (no verdict changes): 👍 or 👎 at its comment at the "
            "line, or a comment `/vibe-gate right FINDING` or `/vibe-gate wrong FINDING REASON`, by people with write "
            f"access.{_labels(report.summary)}"
        )


def _labels(summary: Summary) -> str:
    """How many findings of this pull request people have labelled; "" if none."""
    labels = summary.labels or ()
    right = len({label.finding for label in labels if label.right})
    wrong = len({label.finding for label in labels if not label.right})
    if not labels:
        return ""
    return f" Until now: {right} right, {wrong} wrong."
