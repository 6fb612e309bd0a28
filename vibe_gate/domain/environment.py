"""What was found in the environment of a process."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from vibe_gate.domain import in_ci
from vibe_gate.domain.forge_settings import ForgeSettings, read_forge_settings
from vibe_gate.domain.network import NetworkSettings, read_network
from vibe_gate.domain.provenance import agents_in
from vibe_gate.domain.store_access import StoreAccess, read_store_access


class TerminalSettings(Struct, frozen=True):
    """How the user wants text on a terminal."""

    name: str = ""
    """The kind of terminal (TERM); "" if the process has none."""
    refuses_colour: bool = False
    """Whether no text is coloured (NO_COLOR)."""
    forces_colour: bool = False
    """Whether text is coloured that goes to no terminal, too (FORCE_COLOR)."""

    @property
    def can_redraw(self) -> bool:
        """Whether this kind of terminal can move its cursor and colour text."""
        return self.name not in ("", "dumb")


class Environment(Struct, frozen=True):
    """What a process found in its environment, read once; a repository knows the one it was opened
    with.
    """

    variables: Mapping[str, str]
    """All of it. Child processes are started with parts of it; the redactor and the way to the
    model read it once.
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
    forge: ForgeSettings
    """What it says of GitHub: the job, the server, tokens."""
    network: NetworkSettings
    """Proxies and certificates on the way to servers."""
    store: StoreAccess
    """What opens the store that a team shares."""
    terminal: TerminalSettings
    """How the user wants text on a terminal."""

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
        forge=read_forge_settings(variables),
        network=read_network(variables),
        store=read_store_access(variables),
        terminal=_read_terminal(variables),
    )


def _read_terminal(variables: Mapping[str, str]) -> TerminalSettings:
    return TerminalSettings(
        name=variables.get("TERM", ""),
        refuses_colour=bool(variables.get("NO_COLOR")),
        forces_colour=bool(variables.get("FORCE_COLOR")),
    )
