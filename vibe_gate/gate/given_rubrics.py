"""Rubrics made in Python, held against the checks that there are; `loading` does it for files."""

from __future__ import annotations

from collections.abc import Iterable

from vibe_gate.checks import CHECKS
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.tables import WrongKey, quoted, read_table, sentence, suggestion
from vibe_gate.errors import UsageError


def require_known_checks(rubrics: Iterable[Rubric]) -> None:
    """UsageError, with rubric, criterion and key: there is no such check, or it does not take these
    options.
    """
    for rubric in rubrics:
        if not rubric.criterion:
            raise UsageError(f"The rubric {rubric.id}: criterion: must not be empty.")
        for number, criterion in enumerate(rubric.criterion):
            mistakes = _check_mistakes(criterion, number)
            if mistakes:
                text = sentence(mistakes[0])
                raise UsageError(f"The rubric {rubric.id} (id {quoted(criterion.id)}): {text}.")


def _check_mistakes(criterion: Criterion, number: int) -> list[WrongKey]:
    location = ("criterion", number)
    if criterion.kind != "check":
        return []
    if criterion.check == "command":
        problem = 'write command = ["program", "argument"] instead'
        return [WrongKey((*location, "check"), problem)]
    if criterion.check_name not in CHECKS:
        advice = suggestion(criterion.check_name, list(CHECKS), "the checks")
        problem = f"no check {quoted(criterion.check_name)}\n{advice}"
        return [WrongKey((*location, "check"), problem)]
    mistakes: list[WrongKey] = []
    options = CHECKS[criterion.check_name].options
    read_table(options, criterion.options, mistakes, (*location, "options"))
    return mistakes
