"""Built-in checks: deterministic criteria that run first, offline, and always bind."""

from __future__ import annotations

from vibe_gate.domain.checks.contract import Check

CHECKS: dict[str, Check] = {}
"""Each check's name, options and function: a plain dict, so adding one is adding an entry."""
