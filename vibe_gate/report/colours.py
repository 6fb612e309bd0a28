"""Colours of a terminal: one for each outcome of a run or a stage, state of a run or a node, and answer."""

from __future__ import annotations

STYLES = {
    "pass": "green", "done": "green", "refuted": "green", "checks-only": "cyan", "running": "cyan",
    "approval": "yellow", "inconclusive": "yellow", "abstain": "yellow", "undecided": "yellow", "incomplete": "yellow",
    "blocked": "yellow", "fail": "bold red", "stands": "bold red", "corrupt": "bold red",
    "error": "bold yellow", "cancelled": "bold yellow", "nothing": "dim", "foreign": "dim", "not_applicable": "dim",
    "skipped": "dim", "idle": "dim", "ready": "dim", "unchanged": "dim",
}  # fmt: skip
"""As rich names them, by the word in lower case."""
