"""A judge's answers, as a model fills them in: one form for each outcome."""

from __future__ import annotations

from typing import Any

HANDLER = {"path": "src/load.py", "line": 4, "quote": "    except OSError:", "side": "after"}
"""The line of `repos.SWALLOWS` that drops an error."""


CHANGES = "load gives None for a file that is not there"


def answers(*entries: dict[str, Any], changes: str = CHANGES) -> dict[str, Any]:
    """The whole answer."""
    return {"changes": changes, "answers": list(entries)}


def passes(*criteria: str, changes: str = CHANGES) -> dict[str, Any]:
    """The whole answer that passes these."""
    return answers(*map(answer_to, criteria), changes=changes)


def answer_to(
    criterion: str, outcome: str = "pass", reason: str = "So it is.", **fields: Any
) -> dict[str, Any]:
    """An answer without evidence; an abstention needs `missing`."""
    return {"criterion": criterion, "outcome": outcome, "reason": reason} | fields


def fails(
    *evidence: dict[str, Any],
    criterion: str = "errors-not-swallowed",
    reason: str = "The error is dropped.",
    counterexample: str = "a missing file -> load returns None",
) -> dict[str, Any]:
    """A fail at these lines, without any at the handler."""
    return {
        "criterion": criterion,
        "outcome": "fail",
        "reason": reason,
        "counterexample": counterexample,
        "evidence": list(evidence) or [HANDLER],
    }


def finding(*evidence: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """One of the defects of a fail, without evidence at the handler."""
    defaults = {
        "reason": "The error is dropped.",
        "counterexample": "a missing file -> load returns None",
        "stops": True,
    }
    return {**defaults, "evidence": list(evidence) or [HANDLER], **fields}


def fails_with(
    *findings: dict[str, Any], criterion: str = "errors-not-swallowed"
) -> dict[str, Any]:
    """A fail with these defects."""
    return {"criterion": criterion, "outcome": "fail", "findings": list(findings)}
