"""Which waivers are in force in a review; `waive` writes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from msgspec.structs import replace

from vibe_gate.domain.gate import POLICY, Gate, Override, Waivers
from vibe_gate.domain.waiver import Waiver
from vibe_gate.gate.authorship import agent_behind
from vibe_gate.gate.policy import PolicyImpact
from vibe_gate.store.clone_state import CloneState


def waivers_in_force(
    state: CloneState,
    gate: Gate,
    impact: PolicyImpact,
    today: date,
    accepted: tuple[Waiver, ...] = (),
    approval: Callable[[], Waiver | None] | None = None,
    *,
    in_ci: bool,
) -> Waivers:
    """What may be let pass: the gate's suppressions, what people `accepted` at the forge, and the
    overrides recorded in this clone, which have no effect in CI.

    `approval` gives a person's word for the changes of the gate itself; it is asked only if that is
    needed.
    """
    overrides = () if in_ci else _overrides_of_people(state)
    waivers = Waivers(today, overrides, gate.suppressions, accepted=accepted)
    fingerprint = impact.fingerprint
    if not impact.needs_approval or waivers.of_policy(fingerprint) is not None:
        return waivers
    waiver = approval() if approval is not None else None
    if waiver is None:
        return waivers
    return replace(waivers, approval=replace(waiver, finding=POLICY + fingerprint))


def _overrides_of_people(state: CloneState) -> tuple[Override, ...]:
    """The overrides recorded in this clone, without those that an agent recorded."""
    overrides = []
    for override in state.overrides.all():
        if not agent_behind({}, (override.email,)):
            overrides.append(override)
    return tuple(overrides)
