"""How requests reach the model, where it is, and with what credentials: found in the environment,
never shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from msgspec import Struct

from vibe_gate.domain import MODEL_KEYS
from vibe_gate.domain.network import read_network
from vibe_gate.errors import GatewayError

ANTHROPIC = "https://api.anthropic.com"

OAUTH_BETA = "oauth-2025-04-20"
"""What the CLI adds to `anthropic-beta` when it uses a subscription's token."""

_KEY, _TOKEN, _SUBSCRIPTION = MODEL_KEYS
_CLOUDS = {"CLAUDE_CODE_USE_BEDROCK": "Bedrock", "CLAUDE_CODE_USE_VERTEX": "Vertex"}
_CLOUD_PREFIXES = (
    "AWS_",
    "ANTHROPIC_",
    "CLAUDE_CODE_USE_",
    "CLAUDE_CODE_SKIP_",
    "VERTEX_",
    "CLOUD_ML_",
    "GOOGLE_",
    "GCLOUD_",
    "CLOUDSDK_",
    "SSL_CERT_",
    "NODE_EXTRA_CA_",
)
_HOME_FILES = {
    "Bedrock": {
        "AWS_CONFIG_FILE": ".aws/config",
        "AWS_SHARED_CREDENTIALS_FILE": ".aws/credentials",
    },
    "Vertex": {
        "GOOGLE_APPLICATION_CREDENTIALS": ".config/gcloud/application_default_credentials.json"
    },
}

MAX_WAIT_DIGITS = 9
"""Of the seconds that an API asks to wait."""

NO_CREDENTIALS = "No credentials for a model were found; `vibe-gate doctor` says what can be set."


class Unavailable(Exception):
    """The upstream gave no answer that counts, and may give one later; `str()` is a clause that
    names its host.
    """

    def __init__(
        self,
        clause: str,
        *,
        after_s: float | None = None,
        patience_s: float = math.inf,
        is_reached: bool = True,
        status: int = 0,
    ) -> None:
        super().__init__(clause)
        self.is_reached = is_reached
        """Whether it was connected to."""
        self.status = status
        """Of its HTTP answer; 0 without one."""
        self.after_s = after_s
        """What it asked to wait; None if it did not say."""
        self.patience_s = patience_s
        """After so many seconds of waiting in all, more is no use."""


_PASSING = (408, 409, 429)
"""Statuses below 500 after which the same request may be answered."""

_LASTING = (501, 505)
"""Statuses from 500 that stay: the server does not know the method or HTTP's version, so it is no
model's API.
"""


_OVERLOADS = {429: "limits the rate of this key", 529: "is overloaded"}
"""Statuses that have nothing to add."""


def _may_pass(status: int, should_retry: str) -> bool:
    if should_retry in ("true", "false"):
        return should_retry == "true"
    return status in _PASSING or (status >= 500 and status not in _LASTING)


def describe_overload(
    host: str | None, status: int, headers: Mapping[str, str], message: Callable[[], str] = str
) -> Unavailable | None:
    """What a status means that may be another one soon, by the API's own word if it gives one; None
    for any other.
    """
    if not _may_pass(status, headers.get("x-should-retry", "")):
        return None
    after = headers.get("retry-after", "")
    after_s = None  # of a date: our own pace is as good
    if after.isdecimal():
        after_s = float(after[:MAX_WAIT_DIGITS])
    if status in _OVERLOADS:
        clause = f"{host} {_OVERLOADS[status]} (HTTP {status})"
    else:
        details = f"{status}: {message()}".rstrip(": ")
        clause = f"{host} failed (HTTP {details})"
    return Unavailable(clause, after_s=after_s, status=status)


class Cut(Exception):
    """The upstream's answer broke off before its end."""


class Oversized(Cut):
    """The upstream's answer is larger than any model's; `str()` says what the upstream did."""


class Upstream(Struct, frozen=True):
    """The model's API behind the gateway, and how it is reached."""

    base_url: str
    """"" of a cloud, which agents reach themselves."""
    source: str
    """What was found, for people: "ANTHROPIC_API_KEY", "Bedrock", "Vertex" ...;
    "ANTHROPIC_BASE_URL" needs no key.
    """
    credentials: Mapping[str, str] = MappingProxyType({})
    """HTTP headers."""
    cloud: Mapping[str, str] = MappingProxyType({})
    """Variables with which an agent reaches Bedrock or Vertex by itself, past the gateway; {}
    otherwise.
    """
    proxies: Mapping[str, str] = MappingProxyType({})
    """By scheme, the proxy on the way to `base_url`."""
    certificates: str | bool = True
    """The file of the authorities that are trusted; True: those that come with `requests`."""

    def __repr__(self) -> str:  # without credentials; the address may hold a password, too
        return f"<Upstream {self.source}>"

    @property
    def passed_through(self) -> bool:
        """Whether agents talk to the cloud themselves: nothing is metered or recorded here."""
        return bool(self.cloud)


def find_upstream(environ: Mapping[str, str]) -> Upstream | None:
    """What the environment offers, or None. GatewayError for an address that is no http(s) URL."""
    for name, kind in _CLOUDS.items():
        if environ.get(name, "").lower() in ("1", "true", "yes", "on"):
            return _cloud(kind, environ)
    base_url = environ.get("ANTHROPIC_BASE_URL", "").strip().rstrip("/")
    source, credentials = _credentials(environ)
    if not base_url and not source:
        return None
    if base_url and not _is_web_address(base_url):
        raise GatewayError(
            "ANTHROPIC_BASE_URL is not an http:// or https:// address; correct it or unset it."
        )
    network = read_network(environ)
    return Upstream(
        base_url=base_url or ANTHROPIC,
        source=source or "ANTHROPIC_BASE_URL",
        credentials=credentials,
        proxies=network.proxies_for(base_url or ANTHROPIC),
        certificates=network.certificates,
    )


def _is_web_address(text: str) -> bool:
    parts = urlsplit(text)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _credentials(environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """What is set, as (names, headers), chosen as the CLI does: a subscription only if there is
    nothing else.
    """
    values = {name: environ.get(name, "").strip() for name in (_TOKEN, _KEY, _SUBSCRIPTION)}
    headers = _custom_headers(environ.get("ANTHROPIC_CUSTOM_HEADERS", ""))
    if values[_TOKEN]:
        headers["authorization"] = f"Bearer {values[_TOKEN]}"
    if values[_KEY]:
        headers["x-api-key"] = values[_KEY]
    names = [name for name in (_TOKEN, _KEY) if values[name]]
    if names:
        return " and ".join(names), headers
    if values[_SUBSCRIPTION]:
        headers |= {
            "authorization": f"Bearer {values[_SUBSCRIPTION]}",
            "anthropic-beta": OAUTH_BETA,
        }
        return _SUBSCRIPTION, headers
    return "", headers


def _custom_headers(text: str) -> dict[str, str]:
    """`Name: value` lines, which the gateways of some companies ask for."""
    headers = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip():
            headers[name.strip().lower()] = value.strip()
    return headers


def _cloud(kind: str, environ: Mapping[str, str]) -> Upstream:
    variables = {}
    for name, value in environ.items():
        if name.startswith(_CLOUD_PREFIXES) or name.upper().endswith("_PROXY"):
            variables[name] = value
    if "HOME" in environ:
        # The agent has a home of its own: the files that its cloud SDK would look for are named to
        # it.
        for name, file_name in _HOME_FILES[kind].items():
            file = Path(environ["HOME"]) / file_name
            if name not in variables and file.is_file():
                variables[name] = str(file)
    return Upstream("", kind, cloud=variables)
