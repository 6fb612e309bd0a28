"""What may leave the clone: one question, asked at each exit.

What people asked a coding agent for, and what it said, stays in the clone, and so does what a model
made of it that was shown it. `shown` of run.json says what the models of a run were shown: by kind, PRIVATE or
SHARED. The exits that ask: an archive or traces with contents (`bundles export`), the team's store
(runs, answers, claims), a page of a report, a cassette, and a job of the Action (what a workflow's
agents changed, in comments, suggested changes and its artifact; the whole bundle).
"""

from __future__ import annotations

from collections.abc import Mapping

PRIVATE = "private"
"""It was captured in this clone, and nobody shared it."""

SHARED = "shared"
"""It came out of git notes: it has left its clone before."""

WHY_NOT = "a model was shown what an agent was asked for here, or said, which stays in this clone"


def may_leave(visibility: object) -> bool:
    """Whether what models made that were shown this may leave the clone.

    `visibility`: by kind, PRIVATE or SHARED, as in run.json, which somebody else may have written.
    """
    return not (isinstance(visibility, Mapping) and PRIVATE in visibility.values())
