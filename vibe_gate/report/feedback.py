"""How often the findings of each criterion are right, as people say: what `stats` tells of labels.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from vibe_gate.domain.calibration import share
from vibe_gate.domain.interval import Interval
from vibe_gate.domain.label import Label, newest

COLUMNS, NAME_COLUMNS, COUNT_COLUMNS = 80, 32, 28
"""Of the table, of a criterion in it, whose id is cut if it is longer, and of the four counts."""

FingerprintsByCriterion = Mapping[tuple[str, str], set[str]]
"""By rubric and criterion, the fingerprints of its findings."""


class CriterionFeedback(Struct, frozen=True):
    """What people say of a criterion's findings."""

    rubric: str
    criterion: str
    found: int
    """All of its findings."""
    right: int
    wrong: int
    unanswered: int
    precision: Interval | None
    """Of those with a label, right. Null without a label."""


def count_feedback(
    findings: FingerprintsByCriterion, labels: Iterable[Label]
) -> list[CriterionFeedback]:
    """By rubric and criterion. A label whose finding is not among these counts it, too."""
    answers: dict[tuple[str, str], dict[str, bool]] = {}
    for label in newest(labels):
        answers.setdefault((label.rubric, label.criterion), {})[label.finding] = label.right
    feedback = []
    for key in sorted({*findings, *answers}):
        fingerprints = findings.get(key, set())
        feedback.append(_criterion_feedback(key, fingerprints, answers.get(key, {})))
    return feedback


def _criterion_feedback(
    key: tuple[str, str], fingerprints: set[str], answers: Mapping[str, bool]
) -> CriterionFeedback:
    """`answers`: by fingerprint, whether people call the finding right."""
    rubric, criterion = key
    number = len(fingerprints | answers.keys())
    labelled, right = len(answers), sum(answers.values())
    return CriterionFeedback(
        rubric=rubric,
        criterion=criterion,
        found=number,
        right=right,
        wrong=labelled - right,
        unanswered=number - labelled,
        precision=share(right, labelled),
    )


WORDS = ("right", "accepted", "overridden", "wrong", "no word yet")
"""What people said of a finding: accepted is right, and overridden all the same; overridden,
without saying which.
"""


def feedback_words(
    states: Mapping[tuple[str, str], str], labels: Iterable[Label]
) -> dict[tuple[str, str], str]:
    """What people said of findings, each as RUBRIC/CRITERION and fingerprint: one of WORDS, by the
    newest label.

    `states`: how the newest run has each ("overridden", "suppressed", "kept").
    """
    last = {(f"{label.rubric}/{label.criterion}", label.finding): label for label in newest(labels)}
    return {key: _word(state, last.get(key)) for key, state in states.items()}


def _word(state: str, label: Label | None) -> str:
    """One of WORDS."""
    is_waived = state in {"overridden", "suppressed"}
    if label is None:
        if is_waived:
            return "overridden"
        return "no word yet"
    if not label.right:
        return "wrong"
    if is_waived or label.source == "override":
        return "accepted"
    return "right"


def render_feedback_table(rows: Iterable[CriterionFeedback], width: int = COLUMNS) -> Iterator[str]:
    """A table for people; nothing without rows. Below 80 columns it has no intervals, and below 60
    shorter names.
    """
    name_columns = min(NAME_COLUMNS, width - COUNT_COLUMNS)
    is_wide = width >= COLUMNS
    rubric = ""
    for row in rows:
        if not rubric:
            head = f"{'findings of':<{name_columns}}  found  right  wrong   open"
            yield ""
            yield f"{head}  right, 95 %" if is_wide else head
        if row.rubric != rubric:
            rubric = row.rubric
            yield rubric
        name = f"  {row.criterion}"
        if len(name) > name_columns:
            name = name[: name_columns - 1] + "…"
        counts = f"{row.found:>7,}{row.right:>7,}{row.wrong:>7,}{row.unanswered:>7,}"
        line = f"{name:<{name_columns}}{counts}"
        if is_wide:
            line += f"  {_precision_text(row.precision)}"
        yield line.rstrip()


def _precision_text(precision: Interval | None) -> str:
    if precision is None:
        return ""
    return f"{precision.value:.0%} ({precision.low:.0%} to {precision.high:.0%})"
