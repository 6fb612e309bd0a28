"""The words for how something came out: of runs, stages, nodes, rubrics, criteria, votes and second
looks. One table.

Terminals, comments, lists, drawings and pages ask here what a word looks like and means, and which
one is worse.
"""

from __future__ import annotations

from msgspec import Struct


class OutcomeWord(Struct, frozen=True):
    """What a word looks like, and means."""

    colour: str
    """In a terminal, as rich names it."""

    style: str
    """On a page: a class of the style sheet."""

    mark: str = ""
    """In front of a rubric or a criterion, in a terminal."""

    cell: str = ""
    """In a comment's table, as Markdown; "" for the word itself."""

    meaning: str = ""
    """In a list of runs; "" if the word speaks for itself."""


OUTCOME_WORDS = {
    "error": OutcomeWord("bold yellow", "error", mark="!", meaning="no verdict: something broke"),
    "fail": OutcomeWord("bold red", "fail", mark="✗", cell="**fail**"),
    "stands": OutcomeWord("bold red", "fail"),
    "incomplete": OutcomeWord("yellow", "error", meaning="ended before its verdict"),
    "cancelled": OutcomeWord("bold yellow", "error"),
    "inconclusive": OutcomeWord(
        "yellow", "inconclusive", mark="?", meaning="no verdict: a question has no answer"
    ),
    "abstain": OutcomeWord("yellow", "inconclusive", mark="?", cell="undecided"),
    "undecided": OutcomeWord("yellow", "inconclusive"),
    "warning": OutcomeWord("yellow", "s3", mark="!"),
    "blocked": OutcomeWord("yellow", "s7"),
    "skipped": OutcomeWord("dim", "skipped"),
    "running": OutcomeWord("cyan", "s6", meaning="being written"),
    "unchanged": OutcomeWord("dim", "s7"),
    "nothing": OutcomeWord("dim", "s7", meaning="nothing was reviewed"),
    "pass": OutcomeWord("green", "pass", mark="✓"),
    "refuted": OutcomeWord("green", "pass"),
    "intended": OutcomeWord("green", "pass"),
    "done": OutcomeWord("green", "done", meaning="agents without rubrics"),
    # Not compared with others: of lists, of nodes that have not begun, and what does not apply.
    "approval": OutcomeWord(
        "yellow", "approval", meaning="a pass that changes the gate: a person must approve it"
    ),
    "checks-only": OutcomeWord("cyan", "s0", meaning="checks passed, no judge was asked"),
    "corrupt": OutcomeWord("bold red", "s7", meaning="not what was written; see `bundles verify`"),
    "foreign": OutcomeWord("dim", "s7", meaning="no review here wrote it"),
    "idle": OutcomeWord("dim", "s7"),
    "ready": OutcomeWord("dim", "s7"),
    "not_applicable": OutcomeWord("dim", "s7", mark="·", cell="n/a"),
}
"""By the word, the worst of a drawing first."""

_RANKS = {word: rank for rank, word in enumerate(OUTCOME_WORDS)}


def outcome_colour(word: str, default: str = "dim") -> str:
    """The colour of a word in a terminal; `default` if it is none of ours."""
    if word in OUTCOME_WORDS:
        return OUTCOME_WORDS[word].colour
    return default


def outcome_style(word: str) -> str:
    """The class of a word on a page; what is none of ours has the last colour."""
    if word in OUTCOME_WORDS:
        return OUTCOME_WORDS[word].style
    return "s7"


def outcome_mark(word: str) -> tuple[str, str]:
    """The mark of a word in a terminal, and its colour."""
    return OUTCOME_WORDS[word].mark, OUTCOME_WORDS[word].colour


def outcome_cell(word: str) -> str:
    """The word in a table of a comment."""
    return OUTCOME_WORDS[word].cell or word


def outcome_rank(word: str) -> int:
    """The smaller, the worse; what is none of ours comes last."""
    return _RANKS.get(word, len(_RANKS))
