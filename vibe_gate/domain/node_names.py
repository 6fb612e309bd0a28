"""Names of nodes in a run's graph."""

from __future__ import annotations

CHECKS_NODE = "checks"
"""The node of the checks, which every judge's node comes after."""

_LETTERS = 26


def repeat_suffix(index: int) -> str:
    """What follows a node's id when it is used once more: "" for index 0, then -b, -c ..., -aa
    ...
    """
    if not index:
        return ""
    letters = ""
    number = index + 1
    while number:
        number, position = divmod(number - 1, _LETTERS)
        letters = chr(ord("a") + position) + letters
    return f"-{letters}"
