"""What the environment gives to whoever may use the store that a team shares."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

STORE_KEY = "VIBE_GATE_STORE_KEY"
"""The variable with the secret of the team."""


class StoreAccess(Struct, frozen=True):
    """The team's secret, and how its store may be reached. obstore itself reads the credentials of
    a cloud.
    """

    key: str = ""
    """The secret of the team; "" without one."""
    allows_http: bool = False
    """Whether the store may be reached without TLS (AWS_ALLOW_HTTP, AZURE_ALLOW_HTTP)."""

    def __repr__(self) -> str:  # without the secret
        return f"<StoreAccess with{'' if self.key else 'out'} a key>"


def read_store_access(variables: Mapping[str, str]) -> StoreAccess:
    """Read what opens the shared store."""
    permissions = [variables.get(name, "") for name in ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP")]
    return StoreAccess(
        key=variables.get(STORE_KEY, ""),
        allows_http=any(permission.lower() in ("1", "true") for permission in permissions),
    )
