"""What became of the findings of the round before."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_gate.domain.verdict import Finding


def missing_findings(told: Sequence[Finding], now: Sequence[Finding]) -> list[Finding]:
    """The findings of the round before that this round does not have, in their order."""
    still = {each.fingerprint for each in now}
    return [gone for gone in told if gone.fingerprint not in still]
