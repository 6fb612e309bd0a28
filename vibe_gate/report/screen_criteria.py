"""The rubrics of the verdict screen: a row for each, and below it one for each criterion that says
something. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET
from rich.cells import cell_len
from rich.text import Text

from vibe_gate.domain.cause import NotAsked
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.verdict import CriterionResult, Finding, RubricResult
from vibe_gate.report import criterion_words, queries, sentences
from vibe_gate.report.outcome_words import outcome_mark
from vibe_gate.report.screen_findings import proof_rows
from vibe_gate.report.screen_rows import LEVEL_MARKS, ScreenRow, crop_text

MOST_NAME_COLUMNS = 28
"""Columns of a criterion's id; a longer one is cut."""

_URGENCY = {"fail": 0, "error": 0, "abstain": 2, "pass": 4, "not_applicable": 6}
"""How soon a criterion is left out; those that are no `must` one later."""


def rubric_rows(
    rubric: RubricResult, findings: Sequence[Finding], headline: str
) -> list[ScreenRow]:
    """The rubric and its criteria; the rubric alone if these have nothing to add.

    `headline`: the reason that the first line of the screen gives, "" without one.
    """
    shared_reason = _shared_reason(rubric)
    is_said_above = shared_reason is not None and shared_reason.removesuffix(".") == headline
    are_unasked = _are_unasked_for_one_reason(rubric, shared_reason) and not is_said_above
    header = _rubric_row(rubric, shared_reason or "", are_unasked)
    if is_said_above or are_unasked or _is_plain_pass(rubric):
        return [header]
    return [header, *_criterion_rows(rubric, findings)]


def _shared_reason(rubric: RubricResult) -> str | None:
    """The one reason that all criteria have; None if they differ."""
    reasons = {criterion.reason for criterion in rubric.criteria}
    if len(reasons) != 1:
        return None
    return reasons.pop()


def _are_unasked_for_one_reason(rubric: RubricResult, shared_reason: str | None) -> bool:
    """Whether several questions were not asked, all of them for the same reason."""
    if not shared_reason or len(rubric.criteria) < 2 or not queries.rubric_applies(rubric):
        return False
    return queries.has_cause(rubric.criteria[0], NotAsked)


def _rubric_row(rubric: RubricResult, shared_reason: str, are_unasked: bool) -> ScreenRow:
    mark, style = outcome_mark(rubric.outcome)
    text = f"{rubric.outcome} · {_rubric_figures(rubric)}"
    if not queries.rubric_applies(rubric):  # a "pass" would claim that something was checked
        mark, style = outcome_mark("not_applicable")
        text = f"skipped · {shared_reason or 'no criterion applies to this change'}"
    elif are_unasked:
        text += f" · {len(rubric.criteria)} questions {shared_reason}"
    badge = _shared_badge(rubric)
    if badge:
        text += f" · {badge}"
    line = Text.assemble((f"{mark} ", style), (safe(rubric.id), "bold"), f"  {safe(text)}")
    return ScreenRow(0, line)


def _rubric_figures(rubric: RubricResult) -> str:
    if not rubric.coverage:
        return "nothing decided"
    score = ""
    if queries.has_score(rubric):
        score = f"score {rubric.score:.2f} · "
    return f"{score}coverage {rubric.coverage:.0%}"


def _is_plain_pass(rubric: RubricResult) -> bool:
    """Whether the rubric passed, and none of its criteria has more to say."""
    return rubric.outcome == "pass" and all(map(_is_plain, rubric.criteria))


def _is_plain(criterion: CriterionResult) -> bool:
    """Whether it has nothing to say: a check that passed, or what does not apply."""
    if criterion.outcome == "not_applicable":
        return True
    return criterion.kind == "check" and criterion.outcome == "pass"


def _is_judged(criterion: CriterionResult) -> bool:
    return criterion.kind == "judge" and criterion.outcome != "not_applicable"


def _shared_badge(rubric: RubricResult) -> str:
    """The one badge of all judge criteria, if it has no figures: those are of one criterion."""
    judged = filter(_is_judged, rubric.criteria)
    badges = {sentences.criterion_badge(criterion, short=True) for criterion in judged}
    if len(badges) != 1:
        return ""
    badge = badges.pop()
    if not badge.startswith(("uncalibrated", "stale")):
        return ""
    return badge


def _criterion_rows(rubric: RubricResult, findings: Sequence[Finding]) -> Iterator[ScreenRow]:
    widths = []
    for criterion in rubric.criteria:
        widths.append(cell_len(safe(criterion.id)))
    name_columns = min(MOST_NAME_COLUMNS, max(widths, default=0))
    has_own_badges = not _shared_badge(rubric)
    previous_reason = ""
    for criterion in rubric.criteria:
        text = sentences.criterion_reason(rubric.id, criterion, findings)
        if criterion.reason and criterion.reason == previous_reason:
            text = "as above"
        findings_below = _words_of_findings(rubric.id, criterion, findings)
        if findings_below:
            text = f"{findings_below} below"
        badge = ""
        if has_own_badges and _is_judged(criterion):
            badge = sentences.criterion_badge(criterion, short=True)
        text = " · ".join(filter(None, [text, badge]))
        is_accepted = criterion.outcome == "fail"
        is_accepted = is_accepted and queries.is_waived(rubric.id, criterion.id, findings)
        is_unblocking = criterion.outcome == "fail" and not is_accepted
        is_unblocking = is_unblocking and not criterion_words.is_blocking(criterion, rubric)
        if is_unblocking:
            text = " · ".join(filter(None, ["does not block", text]))
        row = _criterion_row(criterion, text, is_accepted, is_unblocking, name_columns)
        yield row
        yield from _void_proof_rows(criterion, row.rank)
        previous_reason = criterion.reason


def _words_of_findings(
    rubric_id: str, criterion: CriterionResult, findings: Sequence[Finding]
) -> str:
    """How many findings and remarks say what there is to say of the criterion; "" if none does."""
    if criterion.outcome in ("fail", "pass"):
        open_findings = criterion_words.open_findings_of(rubric_id, criterion, findings)
        if open_findings:
            return criterion_words.count_words(open_findings)
    findings_below = _count_findings_with_reason(criterion, findings)
    if not findings_below:
        return ""
    return counted(findings_below, "finding")


def _count_findings_with_reason(criterion: CriterionResult, findings: Sequence[Finding]) -> int:
    """How many findings say the reason, a command's with what it printed behind it."""
    reason = criterion.reason
    messages = [finding.message for finding in findings if finding.criterion == criterion.id]
    beginning = f"{reason.removesuffix('.')}: "
    return sum(message == reason or message.startswith(beginning) for message in messages)


def _criterion_row(
    criterion: CriterionResult,
    text: str,
    is_accepted: bool,
    is_unblocking: bool,
    name_columns: int,
) -> ScreenRow:
    mark, style = outcome_mark(criterion.outcome)
    outcome = criterion.outcome.replace("not_applicable", "n/a")
    if criterion.is_advice or is_unblocking:
        mark, style = LEVEL_MARKS["warning"]
    if is_accepted:
        mark, style = outcome_mark("not_applicable")
        outcome = "accepted"
    if queries.is_unsteady(criterion):
        text = ": ".join(filter(None, [outcome, text]))
        outcome = "unsteady"
    name = crop_text(safe(criterion.id), name_columns)
    padding = " " * (name_columns - cell_len(name))
    must = "    "
    if criterion.must:
        must = "must"
    text_style = ""
    if criterion.outcome in ("pass", "not_applicable"):
        text_style = "dim"
    line = Text.assemble(
        (f"  {mark} ", style), name + padding, f"  {must}  {outcome:<7}  ", (safe(text), text_style)
    )
    indent = cell_len(line.plain) - cell_len(safe(text))
    line.rstrip()
    return ScreenRow(_URGENCY[criterion.outcome] + (not criterion.must), line, indent)


def _void_proof_rows(criterion: CriterionResult, rank: int) -> Iterator[ScreenRow]:
    """The tests that turned fails of an undecided criterion into abstentions: no finding shows
    them.
    """
    if criterion.outcome != "abstain":
        return
    shown_texts: set[str] = set()
    for vote in criterion.votes:
        for defect in vote.defects:
            if defect.proof is not UNSET and defect.proof.status == "void":
                yield from proof_rows(defect.proof, rank, shown_texts)
