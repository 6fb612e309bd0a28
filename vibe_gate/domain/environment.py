"""What was found in the environment of a process."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from vibe_gate.domain import in_ci
from vibe_gate.domain.provenance import agents_in


class Environment(Struct, frozen=True):
    """What a process found in its environment, read once; a repository knows the one it was opened
    with.

    What a door gives to a child process, or needs for itself (credentials, proxies), it makes of
    the variables.
    """

    variables: Mapping[str, str]
    """All of it: children are started with parts of it, and the values of secrets in it are never
    written.
    """
    in_ci: bool
    """Whether a runner of CI started the process."""
    agents: Mapping[str, str]
    """The variables that tell that a coding agent runs this, each with the agent's name."""
    author_addresses: tuple[str, ...]
    """The mail addresses that git is told to write into commits, in place of those of its
    configuration.
    """
    model: str
    """The model that the user of the built-in gate wants for judges (ANTHROPIC_MODEL); "" for the
    default.
    """

    def __repr__(self) -> str:  # without values, which may be secret
        return f"<Environment of {len(self.variables)} variables>"


def read_environment(variables: Mapping[str, str]) -> Environment:
    """Read the environment of a process."""
    addresses = (variables.get("GIT_AUTHOR_EMAIL"), variables.get("GIT_COMMITTER_EMAIL"))
    return Environment(
        variables=variables,
        in_ci=in_ci(variables),
        agents=agents_in(variables),
        author_addresses=tuple(address for address in addresses if address),
        model=variables.get("ANTHROPIC_MODEL", ""),
    )
