"""The criteria of a page: a table for each rubric, with the votes on each criterion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import UNSET

from vibe_gate.domain.document import read_text_of
from vibe_gate.domain.escape import counted
from vibe_gate.domain.verdict import CriterionResult, Defect, Finding, RubricResult, Vote
from vibe_gate.report import criterion_words, queries, sentences
from vibe_gate.report.html.page_parts import (
    link_conversation,
    render_counterexample,
    render_evidence,
    render_proof,
    render_second_look,
)
from vibe_gate.report.html.view import MAX_ROWS, View
from vibe_gate.report.markup import Html, join_html, render_html_table, table_row, tag


def render_rubric(rubric: RubricResult, view: View) -> Iterator[Html]:
    """The rubric, and a table of its criteria; of very many those that did not pass come first."""
    badge = tag("span", rubric.outcome, class_=f"badge {rubric.outcome}")
    yield tag("h3", rubric.id, " ", badge, " ", _rubric_figures(rubric))
    criteria = list(rubric.criteria)
    if len(criteria) > MAX_ROWS:
        criteria.sort(key=lambda criterion: criterion.outcome in ("pass", "not_applicable"))
    rows = [_criterion_row(criterion, rubric, view) for criterion in criteria[:MAX_ROWS]]
    yield render_html_table(("Outcome", "Criterion", "Why"), rows, class_="criteria")
    if len(criteria) > MAX_ROWS:
        text = f"And {len(criteria) - MAX_ROWS:,} more; the bundle has them."
        yield tag("p", text, class_="none")


def _rubric_figures(rubric: RubricResult) -> str:
    if not queries.rubric_applies(rubric):
        return "skipped"
    if not rubric.coverage:
        return "nothing decided"
    score = ""
    if queries.has_score(rubric):
        score = f"score {rubric.score:.2f}, "
    return f"{score}{rubric.coverage:.0%} of the weight decided"


def _criterion_row(criterion: CriterionResult, rubric: RubricResult, view: View) -> Html:
    name = f"{rubric.id}/{criterion.id}"
    findings: tuple[Finding, ...] = ()
    if view.summary:
        findings = view.summary.findings
    words = _outcome_words(criterion, rubric, findings)
    badge = tag("span", words, class_=f"badge {_outcome_style(criterion, rubric)}")
    title = join_html([tag("code", criterion.id), tag("small", _criterion_facts(criterion))])
    parts: list[Html | None] = []
    reason = criterion_words.first_reason(rubric.id, criterion, findings)
    if reason:
        parts.append(tag("p", reason))
    parts.append(_render_question(name, view))
    if criterion.votes:
        parts.append(_render_votes(name, criterion.votes, view))
    cells = (badge, title, join_html(parts))
    return table_row(cells, class_=criterion.outcome, data_c=name)


def _outcome_style(criterion: CriterionResult, rubric: RubricResult) -> str:
    """The colour of its outcome; a fail that does not block has that of a warning."""
    if criterion.outcome == "fail" and not criterion_words.is_blocking(criterion, rubric):
        return "abstain"
    return criterion.outcome


def _outcome_words(
    criterion: CriterionResult, rubric: RubricResult, findings: Sequence[Finding]
) -> str:
    words = criterion.outcome.replace("not_applicable", "n/a")
    open_findings = criterion_words.open_findings_of(rubric.id, criterion, findings)
    remarks = criterion_words.outcome_with_remarks(criterion, open_findings)
    words = ", ".join(filter(None, [words, remarks]))
    if criterion.outcome == "fail" and queries.is_waived(rubric.id, criterion.id, findings):
        words = "accepted"
    elif criterion.outcome == "fail" and not criterion_words.is_blocking(criterion, rubric):
        words = criterion_words.UNBLOCKING_FAIL
    if criterion.would_block is True:
        words = "would have blocked"
    if queries.is_unsteady(criterion):
        return f"unsteady: {words}"
    return words


def _criterion_facts(criterion: CriterionResult) -> str:
    """Who decided it, what it counts for, and what is known of its judge."""
    deciders = {
        "check": "check",
        "cache": "judge, answered in an earlier run",
        "none": f"{criterion.kind}, no answer",
    }
    decider = deciders.get(criterion.decided_by, f"judge, {criterion.decided_by}")
    effect = f"weight {criterion.weight:g}"
    if criterion.must:
        effect = "blocks alone"
        if criterion.is_advice:
            effect = "would block alone"
    badge = sentences.criterion_badge(criterion)
    return " · ".join(filter(None, (decider, effect, badge)))


def _render_question(name: str, view: View) -> Html | None:
    """What the judge was asked, as a text that opens."""
    questions = view.about.get("questions")
    question = ""
    if isinstance(questions, dict):
        question = read_text_of(questions, name)
    if not question:
        return None
    return tag("details", tag("summary", "Question"), tag("p", question, class_="question"))


def _render_votes(name: str, votes: Sequence[Vote], view: View) -> Html:
    summary = tag("summary", _vote_counts(votes))
    items = []
    for number, vote in enumerate(votes, start=1):
        items.append(_render_vote(vote, number, view))
    return tag("details", summary, tag("ol", *items), class_="votes", data_c=name)


def _vote_counts(votes: Sequence[Vote]) -> str:
    """How many votes said what, and how many answered fail without evidence that holds."""
    outcomes = Counter(vote.outcome for vote in votes)
    counts = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    void = sum(vote.said == "fail" and vote.outcome == "abstain" for vote in votes)
    with_passing_test = sum(any(map(_has_passing_test, vote.defects)) for vote in votes)
    reasons = []
    if void > with_passing_test:
        reasons.append(f"{void - with_passing_test} answered fail without evidence")
    if with_passing_test:
        reasons.append(f"{with_passing_test} answered fail, and its own test passes")
    text = f"{counted(len(votes), 'vote')}: {counts}"
    if reasons:
        return f"{text} ({'; '.join(reasons)})"
    return text


def _render_vote(vote: Vote, number: int, view: View) -> Html:
    head = [tag("span", vote.outcome, class_=f"badge {vote.outcome}")]
    answer = ""
    if vote.said and vote.said != vote.outcome:
        answer = f", answered {vote.said}"
    model = ""
    if vote.model:
        model = f", by {vote.model}"
    conversation = link_conversation(vote.turn, view)
    parts = [
        tag("p", *head, answer, model, " ", conversation),
        tag("p", vote.reason),
        *(_render_defect(defect, vote, view) for defect in vote.defects),
    ]
    return tag("li", *parts, class_=f"vote {vote.outcome}", data_vote=number)


def _has_passing_test(defect: Defect) -> bool:
    return defect.proof is not UNSET and defect.proof.status == "void"


def _render_defect(defect: Defect, vote: Vote, view: View) -> Html:
    """One defect that a fail names; its reason if the vote's does not say it."""
    reason = None
    if defect.reason not in vote.reason:
        reason = tag("p", defect.reason)
    remark = None
    if not defect.stops:
        remark = tag("p", "A remark: it would not stop the change.")
    parts = [
        reason,
        remark,
        render_counterexample(defect.counterexample),
        render_evidence((*defect.evidence, *defect.also)),
        render_proof(defect.proof),
        render_second_look(defect.second_look, view),
    ]
    return tag("div", *parts, class_="defect")
