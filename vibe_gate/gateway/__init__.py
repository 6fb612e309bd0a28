"""The door to the model: a loopback server of our own that holds the key.

    with Gateway(find_upstream(environ), read_wire(environ), budget_usd, redact) as gateway:
        base_url = gateway.url(node_id)      # what the agent is told; its key is a dummy
        ...
    gateway.spent()

It meters what is used, refuses what the budget does not pay for, and can record a
conversation into a cassette and replay it without network, key or cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_gate.gateway.upstream import NO_CREDENTIALS, Upstream, find_upstream

if TYPE_CHECKING:
    from vibe_gate.gateway.cassette import is_recorded_by
    from vibe_gate.gateway.model_probe import ask_model
    from vibe_gate.gateway.server import Gateway

__all__ = ["NO_CREDENTIALS", "Gateway", "Upstream", "ask_model", "find_upstream", "is_recorded_by"]


def __getattr__(name: str) -> object:
    """Load what needs a network only when it is wanted: an answer from the cache needs none."""
    if name == "Gateway":
        from vibe_gate.gateway.server import Gateway

        return Gateway
    if name == "ask_model":
        from vibe_gate.gateway.model_probe import ask_model

        return ask_model
    if name == "is_recorded_by":
        from vibe_gate.gateway.cassette import is_recorded_by

        return is_recorded_by
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
