"""Proxies and certificates, as the environment says; for every door that leads to the network."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine: it is reached without a proxy, whatever the environment says."""


def proxies_for(url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Scheme -> proxy for requests to `url`: `HTTPS_PROXY`, `HTTP_PROXY`, else `ALL_PROXY`, but for
    `NO_PROXY`.

    Large or small letters are the same, and an empty value is none.
    """
    variables = {name.lower(): value for name, value in environ.items()}
    if _is_direct(urlsplit(url).hostname or "", variables.get("no_proxy", "").split(",")):
        return {}
    proxies = {}
    for scheme in ("http", "https"):
        address = variables.get(f"{scheme}_proxy") or variables.get("all_proxy", "")
        if address:
            proxies[scheme] = address
    return proxies


def _is_direct(host: str, unproxied: list[str]) -> bool:
    """Whether the host is named, or is below a name, in NO_PROXY; ports there are not told
    apart.
    """
    if host in LOOPBACK or "*" in unproxied:
        return True
    names = [name.strip().lstrip("*.").partition(":")[0] for name in unproxied]
    return any(host == name or host.endswith("." + name) for name in names if name)


def certificates(environ: Mapping[str, str]) -> str | bool:
    """The file of the authorities that are trusted; True: those that come with `requests`."""
    return next((environ[name] for name in CERTIFICATES if environ.get(name)), True)
