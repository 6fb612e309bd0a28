"""The issues that a pull request closes, as text for rubrics that see them."""

from __future__ import annotations

from vibe_gate.domain.escape import counted
from vibe_gate.errors import ForgeError
from vibe_gate.faces.action.trigger import Trigger
from vibe_gate.forge import Forge

MAX_ISSUES = 5
"""Of one pull request that are read: in one request."""

MAX_TEXT = 20_000
"""Letters of all of them; what is over is left out of the last."""


class ClosedIssues:
    """The review calls this if a rubric sees the issues."""

    def __init__(self, forge: Forge | None, trigger: Trigger) -> None:
        self._forge = forge
        self._number = trigger.number or trigger.queued
        self.notes: list[str] = []
        """Sentences about why there are none, if that failed."""

    def __call__(self) -> str:
        """Number, title and text of each; "" if there are none."""
        if self._forge is None or self._number is None:
            return ""
        try:
            issues = self._forge.closed_issues(self._number, MAX_ISSUES)
        except ForgeError as error:
            self.notes.append(f"The issues that the pull request closes could not be read: {error}")
            return ""
        texts = [f"#{issue.number}: {issue.title}\n\n{issue.body}".rstrip() for issue in issues]
        text = "\n\n".join(texts).replace("\r\n", "\n")
        omitted = len(text) - MAX_TEXT
        if omitted <= 0:
            return text
        return f"{text[:MAX_TEXT]}\n[{counted(omitted, 'character')} left out here]"
