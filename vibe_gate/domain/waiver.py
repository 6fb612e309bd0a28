"""What was allowed to pass, as a value: whose act it was, until when it holds, and why."""

from __future__ import annotations

from datetime import date
from typing import Literal, TypeAlias

from msgspec import Struct

from vibe_gate.domain.escape import expression

WaiverKind: TypeAlias = Literal["approved", "overridden", "suppressed"]
"""By a person who may approve changes of the gate; by an override; by a rule of the repository."""

_POLICY = expression(r"policy-(?:[0-9a-f]{16})?")
"""Names the changes of the gate that a waiver is about."""

_ACCOUNT = expression(r"@[A-Za-z0-9_-]{1,39}")
"""An account of the forge, as `Waiver.by` has it."""


class Waiver(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding, or a change of the gate itself, that was allowed to pass.

    `local`: overridden; else approved where `finding` begins with `policy-`, and suppressed by a
    rule where it does not.
    """

    finding: str
    """Its fingerprint, a suppression's CRITERION:GLOB, or `policy-` and the fingerprint of the
    gate's changes.
    """

    reason: str
    """In the words of whoever allowed it."""

    by: str
    """`@LOGIN` at the forge, git's name and address in a clone; "the repository" of a rule without
    an author.
    """

    expires: date | None
    """The last day on which it holds; None: it holds while the rule, or the commit, is there."""

    local: bool = False
    """Whether it is an override: one person's, in one clone or for one commit."""

    @property
    def kind(self) -> WaiverKind:
        """Whose act it was."""
        if self.local:
            return "overridden"
        if _POLICY.fullmatch(self.finding):
            return "approved"
        return "suppressed"

    @property
    def account(self) -> str:
        """The account at the forge, "@LOGIN"; "" if it was no account's."""
        return self.by if _ACCOUNT.fullmatch(self.by) else ""

    @property
    def grounds(self) -> str:
        """Who allowed it, until when, and why: "by @ada until 2026-03-01: a fixture"."""
        until = f" until {self.expires}" if self.expires else ""
        return f"by {self.by}{until}: {self.reason}"

    @property
    def sentence(self) -> str:
        """The kind, and the grounds."""
        return f"{self.kind} {self.grounds}"
