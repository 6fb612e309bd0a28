"""What a verdict does to git: stop it, warn, or let it pass (the table of docs/hooks.md). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vibe_gate.errors import INCONCLUSIVE, PASS, POLICY_CHANGED

OnInconclusive = Literal["pass", "warn", "block"]


@dataclass(frozen=True, slots=True)
class Effect:
    """`code` is the hook's exit code: 0 lets git go on. `warning` is the sentence to be loud about, or ""."""

    code: int
    warning: str = ""

    @property
    def blocks(self) -> bool:
        """Whether git is stopped."""
        return self.code != PASS


def effect(code: int, on_inconclusive: OnInconclusive, environ: Mapping[str, str], *, strict: bool) -> Effect:
    """What exit code `code` of the command line means in a git hook. In CI it stays what it is."""
    if code not in (INCONCLUSIVE, POLICY_CHANGED) or "CI" in environ or strict:
        return Effect(code)
    if code == POLICY_CHANGED:
        return Effect(PASS, "the gate's own definitions change here: a human must approve. CI will ask for it.")
    if on_inconclusive == "block":
        return Effect(code)
    return Effect(PASS, "" if on_inconclusive == "pass" else "NOT REVIEWED. Git goes on all the same; CI will not.")
