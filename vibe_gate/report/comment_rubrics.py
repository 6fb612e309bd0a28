"""How each criterion came out, in this run and when earlier runs are judged again. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from vibe_gate.domain.escape import counted
from vibe_gate.domain.replayed import CriterionChange, ReplayRow
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, RubricResult
from vibe_gate.report import criterion_words, queries, replays, sentences
from vibe_gate.report.comment_markup import GLOSSARY, list_first
from vibe_gate.report.markdown import (
    Block,
    escape_code,
    escape_html_code,
    escape_prose,
    render_fold,
    render_markdown_table,
)
from vibe_gate.report.outcome_words import outcome_cell
from vibe_gate.report.report import Report

MAX_ROWS = 40
"""Criteria with a row of their own; a rubric has fewer, a hostile one may have thousands."""

MAX_CHANGE_FINDINGS = 5
"""Findings of one criterion that are named."""

_URGENCY = {"fail": 0, "error": 1, "abstain": 2, "pass": 3, "not_applicable": 4}


def rubric_blocks(summary: Summary) -> Iterator[Block]:
    """A table of criteria for each rubric: what failed first, what passed last."""
    for rubric in summary.rubrics:
        results = sorted(
            rubric.criteria, key=lambda result: (_URGENCY[result.outcome], not result.must)
        )
        rows = []
        reason_above = ""
        for result in results[:MAX_ROWS]:
            rows.append(_criterion_row(result, rubric, reason_above, summary))
            reason_above = result.reason
        text = render_markdown_table(("Criterion", "Outcome", "Why"), rows)
        if len(results) > MAX_ROWS:
            text += f"\n\nFurther criteria: {len(results) - MAX_ROWS:,}; see summary.json."
        fold = render_fold(_rubric_title(rubric), f"{text}\n\n[Glossary]({GLOSSARY})")
        yield Block(fold, 1, "rubric", "rubrics")


def _rubric_title(rubric: RubricResult) -> str:
    name = escape_html_code(rubric.id, 100)
    if not queries.rubric_applies(rubric):
        return f"Rubric {name}: skipped"
    facts: list[str] = [rubric.outcome]
    if queries.has_score(rubric):
        facts.append(f"score {rubric.score:.2f}")
    if not rubric.coverage:
        facts.append("nothing decided")
    elif queries.undecided_criteria(rubric):
        facts.append(
            f"{len(queries.undecided_criteria(rubric))} of {len(rubric.criteria)} undecided"
        )
    return f"Rubric {name}: {', '.join(facts)}"


def _criterion_row(
    result: CriterionResult, rubric: RubricResult, reason_above: str, summary: Summary
) -> tuple[str, str, str]:
    """Its row. `reason_above`: that of the row above, which is not repeated."""
    outcome = outcome_cell(result.outcome)
    if result.outcome == "fail" and not criterion_words.is_blocking(result, rubric):
        outcome = criterion_words.UNBLOCKING_FAIL
    if len(result.votes) > 1 and result.outcome != "fail":
        outcome += f", {counted(len(result.votes), 'vote')}"
    open_findings = criterion_words.open_findings_of(rubric.id, result, summary.findings)
    remarks = criterion_words.outcome_with_remarks(result, open_findings)
    if remarks:
        outcome += f", {remarks}"
    if result.would_block is True:
        outcome = "would have blocked"
    if result.outcome == "fail" and queries.is_waived(rubric.id, result.id, summary.findings):
        outcome = "accepted"
    if queries.is_unsteady(result):
        outcome = f"unsteady: {outcome}"
    reason = "as above"
    if not result.reason or result.reason != reason_above:
        reason = escape_prose(criterion_words.first_reason(rubric.id, result, summary.findings))
    name = escape_code(result.id, 64)
    if result.must:
        name += " (must)"
    if result.trust is not UNSET:
        name += f"<br>{escape_prose(sentences.criterion_badge(result))}"
    return name, outcome, reason


def replayed_block(report: Report) -> Block:
    """The criteria that came out otherwise when earlier runs were judged again, and the runs that
    could not be.
    """
    rows = []
    lost_runs = []
    for row in report.replayed.rows:
        for change in row.visible_changes:
            rows.append(_replayed_cells(row, change))
        if row.is_lost:
            lost_runs.append(f"{escape_code(row.run_id)}: {escape_prose(row.why)}")
    parts = []
    if rows:
        heads = ("Run", "Criterion", "Before and after", "USD")
        table = render_markdown_table(heads, rows[:MAX_ROWS])
        if len(rows) > MAX_ROWS:
            table += f"\n\nFurther criteria: {len(rows) - MAX_ROWS:,}."
        parts.append(table)
    if lost_runs:
        parts.append(f"Cannot be replayed:\n\n{list_first(lost_runs, str)}")
    if not parts:
        return Block("")
    title = "Earlier runs under the rubrics of this change"
    return Block(render_fold(title, "\n\n".join(parts)), 3, "the list of earlier runs")


def _replayed_cells(row: ReplayRow, change: CriterionChange) -> tuple[str, ...]:
    """A criterion that came out otherwise: run, name with its findings, outcomes, USD."""
    name = escape_code(f"{change.rubric}/{change.criterion}", 100)
    return (
        escape_code(row.run_id[: sentences.SHORT_RUN]),
        "<br>".join([name, *_first_findings(change)]),
        f"{escape_prose(change.before)} → {escape_prose(change.after)}",
        f"{row.usd:.4f}",
    )


def _first_findings(change: CriterionChange) -> list[str]:
    findings = [escape_prose(text) for text in replays.render_changed_findings(change)]
    shown_findings = findings[:MAX_CHANGE_FINDINGS]
    if len(findings) > MAX_CHANGE_FINDINGS:
        shown_findings.append(f"and {len(findings) - MAX_CHANGE_FINDINGS:,} more")
    return shown_findings
