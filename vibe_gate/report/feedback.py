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

Found = Mapping[tuple[str, str], set[str]]
"""By rubric and criterion, the fingerprints of its findings."""


class CriterionFeedback(Struct, frozen=True):
    """What people say of a criterion's findings; `found` counts them all. `precision`: of those
    with a label, right.

    Null without a label.
    """

    rubric: str
    criterion: str
    found: int
    right: int
    wrong: int
    unanswered: int
    precision: Interval | None


def count_feedback(found: Found, labels: Iterable[Label]) -> list[CriterionFeedback]:
    """By rubric and criterion. A label whose finding is not among those found counts it, too."""
    said: dict[tuple[str, str], dict[str, bool]] = {}
    for label in newest(labels):
        said.setdefault((label.rubric, label.criterion), {})[label.finding] = label.right
    return [_of(*key, found.get(key, set()), said.get(key, {})) for key in sorted({*found, *said})]


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
    if label is not None:
        accepted = label.right and (
            label.source == "override" or state in {"overridden", "suppressed"}
        )
        return "accepted" if accepted else "right" if label.right else "wrong"
    return "overridden" if state in {"overridden", "suppressed"} else "no word yet"


def _of(
    rubric: str, criterion: str, found: set[str], said: Mapping[str, bool]
) -> CriterionFeedback:
    every, right = len(found | said.keys()), sum(said.values())
    return CriterionFeedback(
        rubric,
        criterion,
        every,
        right,
        len(said) - right,
        every - len(said),
        share(right, len(said)),
    )


def render_feedback_table(rows: Iterable[CriterionFeedback], width: int = COLUMNS) -> Iterator[str]:
    """A table for people; nothing without rows. Below 80 columns it has no intervals, and below 60
    shorter names.
    """
    rubric, names, is_wide = "", min(NAME_COLUMNS, width - COUNT_COLUMNS), width >= COLUMNS
    for row in rows:
        if not rubric:
            yield ""
            yield f"{'findings of':<{names}}  found  right  wrong   open{'  right, 95 %' if is_wide else ''}"
        if row.rubric != rubric:
            yield (rubric := row.rubric)
        name = f"  {row.criterion}"
        name = name if len(name) <= names else name[: names - 1] + "…"
        counts = "".join(
            f"{number:>7,}" for number in (row.found, row.right, row.wrong, row.unanswered)
        )
        yield f"{name:<{names}}{counts}  {_shown(row.precision) if is_wide else ''}".rstrip()


def _shown(precision: Interval | None) -> str:
    if precision is None:
        return ""
    return f"{precision.value:.0%} ({precision.low:.0%} to {precision.high:.0%})"
