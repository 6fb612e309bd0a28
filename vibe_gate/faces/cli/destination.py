"""Where `post` posts: which GitHub server, which repository, with which token. Pure.

The environment decides (GITHUB_REPOSITORY, GITHUB_SERVER_URL, GITHUB_API_URL, as in a job), else
the clone's remote origin. A token goes only to the server that it is for, as with GitHub's own
`gh`: GITHUB_TOKEN and GH_TOKEN to github.com and *.ghe.com, and any to the server that the
environment names (GH_HOST, too). None goes to another server because origin names it: that may be
GitLab's, or whoever wrote .gitmodules chose it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from vibe_gate.domain.forge_settings import ForgeSettings
from vibe_gate.errors import UsageError

GITHUB = "github.com"
TENANTS = ".ghe.com"
"""How the names of GitHub's own servers with data residency end."""

UNSET = "No token: set GITHUB_TOKEN or GH_TOKEN (`gh auth token` prints one)."

_ALIASES = {"ssh.github.com": GITHUB, "www.github.com": GITHUB}

_PART = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]+"
_NAME = re.compile(rf"{_PART}/{_PART}\Z")
"""OWNER/NAME as GitHub gives them: both become parts of the API's paths."""
_REPOSITORY = rf"/*(?P<repository>{_PART}/{_PART}?)(?:\.git)?/*\Z"
_URL = re.compile(
    r"(?P<scheme>https?|git|ssh|git\+ssh|ssh\+git)://(?:[^@/\s]*@)?(?P<host>[A-Za-z0-9.-]+)(?::(?P<port>[0-9]+))?/"
    + _REPOSITORY
)
_SCP = re.compile(r"(?:[^@/:\s]+@)?(?P<host>[A-Za-z0-9.-]+):" + _REPOSITORY)
"""`git@github.com:owner/name.git`."""
_HOST = re.compile(
    r"(?:(?:https?|git|ssh|git\+ssh|ssh\+git)://(?:[^@/\s]*@)?|(?:[^@/:\s]+@)(?=[^/]*:))(?P<host>[A-Za-z0-9.-]+)"
)
"""The host of a URL that names no repository."""


class Remote(Struct, frozen=True):
    """A repository on a server as a remote's URL names it."""

    server: str
    """The host, with the port of an https URL."""
    repository: str
    """As the URL has it."""


class Destination(Struct, frozen=True):
    """Where to post. The addresses have no slash at their end."""

    server_url: str
    api_url: str
    repository: str
    """"owner/name"."""
    token: str

    def __repr__(self) -> str:  # without the token
        return f"<Destination {self.server_url}/{self.repository}>"


def remote_of(url: str) -> Remote | None:
    """What a remote's URL names, without its credentials; None for a path or another form."""
    match = _URL.match(url)
    if match is None and "://" not in url:
        match = _SCP.match(url)
    if match is None:
        return None
    host = match["host"].lower()
    groups = match.groupdict()
    server = _ALIASES.get(host, host)
    if groups.get("scheme") == "https" and groups["port"] not in (None, "443"):
        server += f":{groups['port']}"
    return Remote(server, match["repository"])


def api_url(server_url: str) -> str:
    """Of a server's API."""
    host = _host_of(server_url)
    if host == GITHUB or host.endswith(TENANTS):
        return f"https://api.{host}"
    return f"{server_url}/api/v3"


def _host_of(server_url: str) -> str:
    """UsageError: it is no URL."""
    try:
        return urlsplit(server_url).hostname or ""
    except ValueError as error:
        raise UsageError(f"GITHUB_SERVER_URL is not the URL of a server: {error}.") from None


def destination(origins: Sequence[str], settings: ForgeSettings) -> Destination:
    """Where to post. `origins`: URLs of origin, as configured and as used.

    UsageError: no repository is known, or no token for its server.
    """
    remotes = [remote for remote in map(remote_of, origins) if remote]
    if settings.server_url or settings.api_url or settings.repository:
        return _by_environment(remotes, settings)
    origin = remotes[-1] if remotes else None
    for remote in remotes:
        if remote.server == GITHUB:
            origin = remote
            break
    if origin is None:
        raise UsageError(
            f"Unknown repository: {_why_unknown(origins, settings)}. Set GITHUB_REPOSITORY to OWNER/NAME."
        )
    server_url = f"https://{origin.server}"
    token = _token_for(origin.server, settings)
    return Destination(server_url, api_url(server_url), origin.repository, token)


def _why_unknown(origins: Sequence[str], settings: ForgeSettings) -> str:
    """Why origin is the repository of no GitHub server, as a clause; without the URL, which may
    hold a password.
    """
    if not any(origins):
        return "this clone has no remote named origin"
    hosts = [match["host"].lower() for match in map(_HOST.match, origins) if match]
    for host in (_ALIASES.get(host, host) for host in hosts):
        if host in (GITHUB, settings.enterprise_host) or host.endswith(TENANTS):
            return f"this clone's origin is on {host}, but its URL names no repository (OWNER/NAME)"
    return "this clone's origin is not on a GitHub server"


def _repository_on(host: str, remotes: Sequence[Remote]) -> str:
    """The repository of the first remote on this host; "" if none is."""
    for remote in remotes:
        if remote.server.partition(":")[0] == host:
            return remote.repository
    return ""


def _by_environment(remotes: Sequence[Remote], settings: ForgeSettings) -> Destination:
    """The server that the environment names, github.com if it names only a repository.
    UsageError.
    """
    server = (settings.server_url or f"https://{GITHUB}").rstrip("/")
    api = settings.api_url or api_url(server)
    token = settings.token
    if not token and api != api_url(f"https://{GITHUB}"):
        token = settings.enterprise_token
    if not token:
        raise UsageError(UNSET)
    host = _host_of(server)  # ports may differ: ssh has one of its own
    repository = settings.repository or _repository_on(host, remotes)
    if not _NAME.match(repository):
        raise UsageError(
            f"Unknown repository: origin is not on {host}. Set GITHUB_REPOSITORY to OWNER/NAME."
        )
    return Destination(server, api, repository, token)


def _token_for(host: str, settings: ForgeSettings) -> str:
    """The token for a server that only origin names. UsageError if there is none."""
    if host == GITHUB or host.endswith(TENANTS):
        if not settings.token:
            raise UsageError(UNSET)
        return settings.token
    if settings.enterprise_host != host:
        raise UsageError(
            f"No token for {host}, where origin is: vibe-gate posts to GitHub and GitHub Enterprise. If {host} is a "
            f"GitHub Enterprise server, set GH_HOST={host} and GH_ENTERPRISE_TOKEN. No token is sent to a server that "
            "only origin names."
        )
    if token := settings.enterprise_token or settings.token:
        return token
    raise UsageError(
        f"No token for {host}: set GH_ENTERPRISE_TOKEN (`gh auth token --hostname {host}` prints one)."
    )
