"""What became of the findings of the round before."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_gate.domain.verdict import Finding


def missing_findings(earlier: Sequence[Finding], current: Sequence[Finding]) -> list[Finding]:
    """The findings of the round before that this round does not have, in their order."""
    persisting_ids = {finding.fingerprint for finding in current}
    return [finding for finding in earlier if finding.fingerprint not in persisting_ids]
