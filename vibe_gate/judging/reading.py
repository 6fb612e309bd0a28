"""Read what a model answered, criterion by criterion, and say what is wrong with its form.

Form alone loses no answer: case, brackets and quotation marks around a word do not count. What
still does not fit is said in a sentence, which goes back to the model once (`write_objection`); a
criterion that then has no readable answer abstains with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.document import first_mistake, read, without_none
from vibe_gate.judging.brief import (
    CriterionAnswer,
    FindingAnswer,
    JudgeAnswers,
    QuotedLine,
)

OUTCOMES = ("pass", "not_applicable", "fail", "abstain")
"""What a model may answer."""

MAX_PROBLEMS = 5
"""Problems that go back at once: more would be another prompt."""

MAX_READ_DEFECTS = 20
"""Defects of one fail that are read, more than are asked for: with a longer list the criterion has
no answer, as none is left out in silence.
"""

MAX_WORD = 60
"""A longer word of the model is not repeated: cut, a secret in it would not be known as one any
more.
"""

_AROUND = " \t\r\n\"'`[]()*.,;:"


class Reading(Struct, frozen=True):
    """What can be read of a model's answer."""

    changes: str = ""
    """What the change makes different, in the model's words."""

    answers: Mapping[str, CriterionAnswer] = {}
    """By criterion id, the answers that can be read."""

    problems: Mapping[str, str] = {}
    """By criterion id, what is wrong with the others."""

    addressed: Sequence[QuotedLine] = ()
    """Changed lines that speak to the reviewer, as the model quotes them."""

    unfit: str = ""
    """What is wrong with the answer as a whole; then it has no answers."""


def read_answers(criterion_ids: Sequence[str], document: object) -> Reading:
    """What the model's answer says about the criteria that were asked, given by their ids."""
    try:
        judge_answers = read(JudgeAnswers, without_none(document))
    except ValueError as error:
        return Reading(unfit=first_mistake(error))
    answers_by_id: dict[str, list[CriterionAnswer]] = {name: [] for name in criterion_ids}
    for answer in map(_normalize_words, judge_answers.answers):
        if answer.criterion not in answers_by_id:
            name = _quote_word(answer.criterion)
            return Reading(
                unfit=f"{name} is not asked; the criteria are {', '.join(criterion_ids)}"
            )
        answers_by_id[answer.criterion].append(answer)
    readable_answers = {}
    problems = {}
    for criterion_id, answers in answers_by_id.items():
        problem = _answer_problem(criterion_id, answers)
        if problem:
            problems[criterion_id] = problem
        else:
            readable_answers[criterion_id] = answers[0]
    return Reading(
        judge_answers.changes, readable_answers, problems, addressed=judge_answers.addressed
    )


def write_objection(criterion_ids: Sequence[str], document: object) -> str:
    """What the model is told to change, or "" if its answer fits."""
    reading = read_answers(criterion_ids, document)
    problems = [*reading.problems.values(), *_missing_parts(reading.answers)]
    if reading.unfit:
        problems = [reading.unfit]
    if not problems:
        return ""
    listed_problems = "; ".join(problems[:MAX_PROBLEMS])
    if len(problems) > MAX_PROBLEMS:
        listed_problems += f"; and {len(problems) - MAX_PROBLEMS} more of this kind"
    return (
        f"The answer does not fit: {listed_problems}. "
        "Give the whole answer once more, with only that changed."
    )


def plain_word(text: str) -> str:
    """The one word of the form that the model may have meant: without what stands around it, in
    small letters.
    """
    return text.strip(_AROUND).lower().replace(" ", "_").replace("-", "_")


def _normalize_words(answer: CriterionAnswer) -> CriterionAnswer:
    word = plain_word(answer.outcome)
    outcome = word if word in OUTCOMES else answer.outcome
    findings = answer.findings
    if outcome == "fail" and not findings:
        findings = (_finding_of_answer(answer),)
    return replace(
        answer,
        criterion=answer.criterion.strip(_AROUND),
        outcome=outcome,
        findings=tuple(map(_normalize_stops, findings)),
    )


def _finding_of_answer(answer: CriterionAnswer) -> FindingAnswer:
    """The one defect of a fail that names it in the answer itself."""
    return FindingAnswer(
        reason=answer.reason,
        counterexample=answer.counterexample,
        evidence=answer.evidence,
        test=answer.test,
        obligation=answer.obligation,
    )


def _normalize_stops(finding: FindingAnswer) -> FindingAnswer:
    """The finding with a yes or no; any word but a no means yes."""
    if isinstance(finding.stops, bool):
        return finding
    return replace(finding, stops=plain_word(finding.stops) not in ("false", "no"))


def _answer_problem(criterion_id: str, answers: Sequence[CriterionAnswer]) -> str:
    """Why a criterion has no answer that can be read, or ""."""
    if not answers:
        return f"{criterion_id} has no answer"
    if len(answers) > 1:
        return f"{criterion_id} has {len(answers)} answers"
    outcome = answers[0].outcome
    if outcome not in OUTCOMES:
        outcomes = ", ".join(OUTCOMES)
        return f"{criterion_id} has the outcome {_quote_word(outcome)}; the outcomes are {outcomes}"
    if len(answers[0].findings) > MAX_READ_DEFECTS:
        count = len(answers[0].findings)
        return f"{criterion_id} has {count} findings; at most {MAX_READ_DEFECTS} are read"
    if outcome != "fail" and _names_defect(answers[0]):
        return (
            f'{criterion_id} has findings and the outcome "{outcome}": '
            "answer fail, or leave the findings out"
        )
    return ""


def _names_defect(answer: CriterionAnswer) -> bool:
    """Whether it tells of a defect, in its findings or in the answer itself."""
    first_form = _finding_of_answer(answer)
    if first_form.counterexample.strip() and _has_quote(first_form):
        return True
    return any(_has_quote(finding) or _has_grounds(finding) for finding in answer.findings)


def _has_grounds(finding: FindingAnswer) -> bool:
    return bool(finding.reason.strip() and finding.counterexample.strip())


def _has_quote(finding: FindingAnswer) -> bool:
    return any(line.quote.strip() for line in finding.evidence)


def _missing_parts(answers: Mapping[str, CriterionAnswer]) -> Iterator[str]:
    """What a fail lacks: it is read without, and counts as an abstention
    (`vote_counting.check_vote`).
    """
    for criterion_id, answer in answers.items():
        if answer.outcome != "fail":
            continue
        for number, finding in enumerate(answer.findings, start=1):
            name = f"finding {number} of {criterion_id}" if number > 1 else criterion_id
            if not finding.counterexample.strip():
                yield (
                    f"{name} fails without a counterexample: "
                    "add the input or situation and the wrong outcome"
                )
            if not _has_quote(finding):
                yield (
                    f"{name} fails without evidence: "
                    "add path and quote of a changed line that shows it"
                )


def _quote_word(word: str) -> str:
    """The word in quotation marks; of a long one, its length."""
    if len(word) > MAX_WORD:
        return f"a text of {len(word)} characters"
    return f'"{word}"'
