"""What the environment says of GitHub: the job that runs here, the server, and tokens for it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ForgeSettings(Struct, frozen=True):
    """What was found of GitHub in the environment; "" is not set."""

    is_in_actions: bool = False
    """Whether this is a step of a GitHub Actions job, whose log obeys commands."""
    base_branch: str = ""
    """The base branch of the pull request that the job is about (GITHUB_BASE_REF)."""
    repository: str = ""
    """OWNER/NAME (GITHUB_REPOSITORY)."""
    server_url: str = ""
    """Of GitHub's pages (GITHUB_SERVER_URL)."""
    api_url: str = ""
    """Of GitHub's API (GITHUB_API_URL)."""
    enterprise_host: str = ""
    """The host that `gh` is told to use (GH_HOST), in small letters."""
    token: str = ""
    """For github.com and *.ghe.com: GITHUB_TOKEN, else GH_TOKEN."""
    enterprise_token: str = ""
    """For a GitHub Enterprise server: GH_ENTERPRISE_TOKEN, else GITHUB_ENTERPRISE_TOKEN."""

    def __repr__(self) -> str:  # without the tokens
        return f"<ForgeSettings of {self.repository or 'no repository'}>"

    @property
    def base_of_pull_request(self) -> str | None:
        """The base branch with its remote, where definitions are read in a pull request's job; None
        elsewhere.
        """
        if not self.is_in_actions or not self.base_branch:
            return None
        return f"origin/{self.base_branch}"


def read_forge_settings(variables: Mapping[str, str]) -> ForgeSettings:
    """Read the variables of GitHub Actions and of GitHub's command `gh`."""

    def value(*names: str) -> str:
        return next((variables[name] for name in names if variables.get(name)), "")

    return ForgeSettings(
        is_in_actions=bool(value("GITHUB_ACTIONS")),
        base_branch=value("GITHUB_BASE_REF"),
        repository=value("GITHUB_REPOSITORY"),
        server_url=value("GITHUB_SERVER_URL"),
        api_url=value("GITHUB_API_URL"),
        enterprise_host=value("GH_HOST").lower(),
        token=value("GITHUB_TOKEN", "GH_TOKEN"),
        enterprise_token=value("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"),
    )
