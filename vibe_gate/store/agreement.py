"""Whether a sealed run's summary, log and receipt say the same: digests alone do not tell a forged summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vibe_gate.domain import receipt
from vibe_gate.domain.event import Event
from vibe_gate.domain.expressions import expression
from vibe_gate.domain.rubric import IDENTIFIER
from vibe_gate.domain.summary import Summary

Verdict = tuple[str, int]
"""Outcome and exit code."""

_EXIT_CODES: dict[str, tuple[int, ...]] = {
    "pass": (0, 4),
    "fail": (1, 4),  # 4: by the first order of outcomes, which the sample bundle of format 1 still shows
    "inconclusive": (3, 4, 5),
    "error": (3, 4, 5),
}
"""The exit codes that a review may end with, by its outcome."""

_ID = expression(IDENTIFIER)

NOT_ENDED = "no run.completed is in it, and the summary has a verdict"


def impossible(verdict: Verdict) -> str:
    """Why no review ends with this outcome and exit code; "" where one may."""
    outcome, exit_code = verdict
    if exit_code in _EXIT_CODES.get(outcome, ()):
        return ""
    return f"its exit code {exit_code} is none of the outcome {outcome}"


def misnamed(summary: Summary) -> str:
    """The first id of a rubric or criterion that no gate may have, as a sentence; "" without one."""
    ids = (name for rubric in summary.rubrics for name in (rubric.id, *(one.id for one in rubric.criteria)))
    wrong = next((name for name in ids if not _ID.fullmatch(name)), None)
    return "" if wrong is None else f"no rubric or criterion can have the id {wrong[:100]!r}"


def contradicted(event: Event, verdict: Verdict) -> str:
    """What an event of a sealed run and its summary disagree about; "" where nothing."""
    if event.type == "run.completed" and event.data.get("status") != "completed":
        return "it says that the run ended without a verdict, and the summary has one"
    if event.type in {"run.completed", "verdict.decided"}:
        said = (event.data.get("outcome"), event.data.get("exit_code"))
        if said != verdict:
            return f"{event.type} says another outcome or exit code than the summary ({verdict[0]}, {verdict[1]})"
    return ""


def contradiction(events: Iterable[Event], verdict: Verdict) -> str:
    """What the events of a sealed run and its summary disagree about; "" where nothing."""
    has_ended = False
    for event in events:
        if why := contradicted(event, verdict):
            return why
        has_ended = has_ended or event.type == "run.completed"
    return "" if has_ended else NOT_ENDED


def receipt_fault(raw: bytes, document: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """What is wrong with receipt.json; "" where nothing.

    `document` is the summary as it is stored, without `digests`; `files` the digests
    that it has, the receipt's own left out. Signatures are not looked at.
    """
    try:
        return receipt.contradiction(receipt.parse(raw).receipt, document, files)
    except (ValueError, RecursionError) as error:
        return f"it is no receipt: {str(error).partition(chr(10))[0]}"
    except (KeyError, TypeError):
        return "the receipt is for another summary"
