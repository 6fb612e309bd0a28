"""Reading: what a model answered, criterion by criterion, and what is wrong with its form.

Form alone loses no answer: case, brackets and quotation marks around a word do not count. What
still does not fit is said in a sentence, which goes back to the model once (`sent_back`); a
criterion that then has no readable answer abstains with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.document import first_mistake, read, without_none
from vibe_gate.judging.brief import CriterionAnswer, JudgeAnswers

OUTCOMES = ("pass", "not_applicable", "fail", "abstain")
"""What a model may answer."""

MAX_PROBLEMS = 5
"""Problems that go back at once: more would be another prompt."""

MAX_WORD = 60
"""A longer word of the model is not repeated: cut, a secret in it would not be known as one any
more.
"""

_AROUND = " \t\r\n\"'`[]()*.,;:"


class Reading(Struct, frozen=True):
    """The answers that can be read, by criterion id, and what is wrong with the others, by
    criterion id.

    `unfit`: what is wrong with the answer as a whole; then it has no answers.
    """

    changes: str = ""
    answers: Mapping[str, CriterionAnswer] = {}
    problems: Mapping[str, str] = {}
    unfit: str = ""


def reading_of(asked: Sequence[str], answer: object) -> Reading:
    """What the model's answer says about the criteria that were asked, given by their ids."""
    try:
        given = read(JudgeAnswers, without_none(answer))
    except ValueError as error:
        return Reading(unfit=first_mistake(error))
    by_id: dict[str, list[CriterionAnswer]] = {name: [] for name in asked}
    for one in map(_plainly, given.answers):
        if one.criterion not in by_id:
            return Reading(
                unfit=f"{_quoted(one.criterion)} is not asked; the criteria are {', '.join(asked)}"
            )
        by_id[one.criterion].append(one)
    problems = {
        name: problem for name, answers in by_id.items() if (problem := _problem(name, answers))
    }
    read_well = {name: answers[0] for name, answers in by_id.items() if name not in problems}
    return Reading(given.changes, read_well, problems)


def sent_back(asked: Sequence[str], answer: object) -> str:
    """What the model is told to change, or "" if its answer fits."""
    reading = reading_of(asked, answer)
    wrong = (
        [reading.unfit]
        if reading.unfit
        else [*reading.problems.values(), *_incomplete(reading.answers)]
    )
    if not wrong:
        return ""
    more = (
        "" if len(wrong) <= MAX_PROBLEMS else f"; and {len(wrong) - MAX_PROBLEMS} more of this kind"
    )
    told = "; ".join(wrong[:MAX_PROBLEMS])
    return f"The answer does not fit: {told}{more}. Give the whole answer once more, with only that changed."


def plain_word(text: str) -> str:
    """The one word of the form that the model may have meant: without what stands around it, in
    small letters.
    """
    return text.strip(_AROUND).lower().replace(" ", "_").replace("-", "_")


def _plainly(answer: CriterionAnswer) -> CriterionAnswer:
    word = plain_word(answer.outcome)
    outcome = word if word in OUTCOMES else answer.outcome
    return replace(answer, criterion=answer.criterion.strip(_AROUND), outcome=outcome)


def _problem(name: str, answers: Sequence[CriterionAnswer]) -> str:
    if not answers:
        return f"{name} has no answer"
    if len(answers) > 1:
        return f"{name} has {len(answers)} answers"
    if answers[0].outcome not in OUTCOMES:
        return f"{name} has the outcome {_quoted(answers[0].outcome)}; the outcomes are {', '.join(OUTCOMES)}"
    return ""


def _incomplete(answers: Mapping[str, CriterionAnswer]) -> Iterator[str]:
    """What a fail lacks: it is read without, and counts as an abstention (`decide.check_vote`)."""
    for name, answer in answers.items():
        if answer.outcome == "fail" and not answer.counterexample.strip():
            yield f"{name} fails without a counterexample: add the input or situation and the wrong outcome"
        if answer.outcome == "fail" and not any(line.quote.strip() for line in answer.evidence):
            yield f"{name} fails without evidence: add path and quote of a changed line that shows it"


def _quoted(word: str) -> str:
    return f'"{word}"' if len(word) <= MAX_WORD else f"a text of {len(word)} characters"
