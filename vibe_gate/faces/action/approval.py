"""Who approved a change of the gate itself: an approving review of this very commit, by somebody who may write."""

from __future__ import annotations

from dataclasses import dataclass, field

from vibe_gate.adapters.forge import Forge
from vibe_gate.domain.receipt import Waiver
from vibe_gate.errors import ForgeError
from vibe_gate.faces.action.event import Trigger


@dataclass
class Approvals:
    """Asked by the review where a change of the gate needs a person's word. `notes` say what was not found."""

    forge: Forge | None
    trigger: Trigger
    notes: list[str] = field(default_factory=list)

    def __call__(self) -> Waiver | None:
        """The approval, or None."""
        number = self.trigger.number or self.trigger.queued
        if self.forge is None or number is None:
            self.notes.append("Nobody can be asked here whether the change of the gate is approved.")
            return None
        try:
            return self._look(self.forge, number)
        except ForgeError as error:
            self.notes.append(f"Whether the change of the gate is approved could not be read: {error}")
            return None

    def _look(self, forge: Forge, number: int) -> Waiver | None:
        author, head = self.trigger.author, self.trigger.head
        if self.trigger.number is None:  # a merge group's own commit is nobody's to approve: its pull request's is
            pull = forge.pull(number)
            author, head = pull.author, pull.head_sha
        authors = (*filter(None, [author]), *sorted(forge.commit_authors(number)))
        found = forge.approvals(number, head, authors=authors)
        if not found:
            return None
        reason = f"their review of {head[:12]} approves it"
        return Waiver(finding="policy-", reason=reason, by=f"@{found[0].login}", expires=None)
