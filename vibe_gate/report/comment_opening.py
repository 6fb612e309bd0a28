"""The opening of a comment: the verdict, why, what to do next, and the round. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from vibe_gate.domain.cause import NoKey, NotAsked
from vibe_gate.domain.escape import counted, end_sentence
from vibe_gate.domain.replayed import sum_rows
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import FAIL, INCONCLUSIVE, PASS, POLICY_CHANGED
from vibe_gate.report import queries, replays, sentences
from vibe_gate.report.comment_markup import DOCS, GLOSSARY, join_first, link_commit
from vibe_gate.report.markdown import Block, escape_code, escape_prose
from vibe_gate.report.next_step import next_step, remediable_cause, why_undecided
from vibe_gate.report.report import Report
from vibe_gate.report.round import Round
from vibe_gate.report.round_record import count_findings, is_further


def opening_block(report: Report) -> Block:
    """The verdict, why, and what to do next; then what is new in this round."""
    paragraphs = [
        _headline(report),
        _why_line(report),
        _replayed_line(report),
        *map(escape_prose, report.remarks),
        _next_line(report),
        _waiting(report),
        _round_line(report.round),
    ]
    return Block("\n\n".join(filter(None, paragraphs)), 0, "the verdict")


def _replayed_line(report: Report) -> str:
    """What the change's own rubrics would have said of earlier runs."""
    rows = report.replayed.rows
    notes = " ".join(escape_prose(note) for note in report.replayed.notes)
    if not rows:
        return notes
    figures = " ".join(
        replays.replay_sentences(sum_rows(rows), report.replayed.budget_usd, escape_prose)
    )
    runs = counted(len(rows), "run")
    line = f"**Under the rubrics of this change,** of the last {runs}: {figures}"
    if notes:
        return f"{line} {notes}"
    return line


def _headline(report: Report) -> str:
    """The verdict, whose word let it pass, and the commit that it is about."""
    summary = report.summary
    name = ""
    if report.name:
        name = f" ({escape_prose(report.name, 100)})"
    head = summary.change.head_commit
    parts = [
        claimed_verdict(report),
        escape_prose(sentences.passed_by_words(summary)),
        escape_prose(_refuted_words(summary)),
        unblocked_note(report),
        link_commit(head, report.links) if head and report.links else "",
    ]
    return f"### vibe-gate{name}: {' · '.join(filter(None, parts))}"


def _refuted_words(summary: Summary) -> str:
    """How many findings were refuted, of a change that passes; else ""."""
    if summary.exit_code != PASS:
        return ""
    return sentences.refuted_words(summary)


def claimed_verdict(report: Report) -> str:
    """The verdict; that it is only claimed, if a job that the change controls says so."""
    verdict = sentences.verdict_words(report.summary)
    if not report.claimed or report.summary.exit_code == INCONCLUSIVE:
        return verdict  # that nothing is reviewed we say ourselves
    return f"{verdict} (claimed)"


def unblocked_note(report: Report) -> str:
    """That the verdict does not stop the change, where it would otherwise; else ""."""
    if report.blocks or report.summary.exit_code == PASS:
        return ""
    return "does not block (`mode: warn`)"


def _why_line(report: Report) -> str:
    summary = report.summary
    if not summary.run_id:
        head = summary.change.head_commit
        if head:
            return f"Nothing to review in {link_commit(head, report.links)}."
        return f"Nothing to review in {escape_code(sentences.short_change_id(summary))}."
    return escape_prose(_what_decided(report)).replace("(must)", f"([must pass]({GLOSSARY}))")


def deciding_facts(report: Report) -> list[str]:
    """Who let it pass, and why it ended so, as plain text for one line behind the verdict."""
    reason = _what_decided(report).removeprefix("Passed the ").removesuffix(".")
    facts = [
        sentences.passed_by_words(report.summary),
        _refuted_words(report.summary),
        reason.replace(" (must)", ""),
    ]
    return list(filter(None, facts))


def _what_decided(report: Report) -> str:
    """What decided, and why questions have no answer, as a sentence or two of plain text; "" if
    there is no more.
    """
    summary = report.summary
    facts = []
    if summary.exit_code != INCONCLUSIVE:
        facts.append(sentences.deciding_reason(summary, sentence=True))
    if summary.exit_code == FAIL and queries.needs_approval(summary):
        files = sentences.edited_gate_files(summary)
        facts.append(f"this change also edits {files}, which needs approval")
    if summary.exit_code in (INCONCLUSIVE, POLICY_CHANGED) and summary.outcome != "pass":
        facts += _why_undecided(report)
    text = " ".join(end_sentence(f"{fact[0].upper()}{fact[1:]}") for fact in facts if fact)
    if not report.links:
        return text
    return text.replace("--no-judge", 'judge: "false"')  # a job's option


def _why_undecided(report: Report) -> Iterator[str]:
    """The undecided criteria with the reason of the first; why judge questions have no answer, and
    how many.
    """
    summary = report.summary
    unanswered = queries.unanswered_criteria(summary)
    question_count = sum(result.kind == "judge" for result in unanswered)
    if not question_count or queries.judge_abstained(summary):
        yield sentences.reason_by_rubrics(summary)
    if question_count:
        yield _why_unanswered(report)
        yield f"{counted(question_count, 'judge question has', 'judge questions have')} no answer"


def _why_unanswered(report: Report) -> str:
    """Why judge questions have no answer."""
    cause = remediable_cause(report.summary)
    if report.fork and isinstance(cause, NoKey):
        return "a fork's job gets no API key"
    if isinstance(cause, NotAsked):
        return cause.because
    return why_undecided(report.summary)


def _next_line(report: Report) -> str:
    if not report.summary.run_id:
        return ""
    return f"**Next:** {next_step(report)}. [What this means]({DOCS}/guides/github.md#the-comment)."


def _waiting(report: Report) -> str:
    waiting = queries.waiting_questions(report.summary)
    if not waiting.questions:
        return ""
    names = join_first([escape_code(id, 64) for id in waiting.questions], 3)
    number = counted(len(waiting.questions), "judge question")
    line = f"Not asked until {escape_code(waiting.check, 64)} passes: {number}, {names}."
    if report.links and waiting.check != "no-secrets":
        line += ' `ask-anyway: "true"` asks all the same.'
    return line


def _round_line(round: Round) -> str:
    if not is_further(round):
        return ""
    line = f"Round {round.number}: {count_findings(round)}."
    if round.withheld:
        number = counted(len(round.withheld), "finding")
        line += (
            f" Held back: {number} on lines that did not change since the last round; none blocks."
        )
    return line
