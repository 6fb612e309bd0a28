"""Proxies and certificates, as the environment says; for every door that leads to the network."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine: it is reached without a proxy, whatever the environment says."""


class NetworkSettings(Struct, frozen=True):
    """How servers are reached from this machine."""

    proxies: Mapping[str, str]
    """By scheme, `http` and `https`, the address of the proxy; it may hold a password."""
    unproxied: tuple[str, ...]
    """Hosts that are reached without a proxy, with all below them; "*" is every host."""
    certificates: str | bool
    """The file of the authorities that are trusted; True: those that come with `requests`."""

    def __repr__(self) -> str:  # without addresses, which may hold passwords
        return f"<NetworkSettings of {len(self.proxies)} proxies>"

    def proxies_for(self, url: str) -> dict[str, str]:
        """Scheme -> proxy for requests to `url`; {} if it is reached without a proxy."""
        host = urlsplit(url).hostname or ""
        if self._is_direct(host):
            return {}
        return dict(self.proxies)

    def _is_direct(self, host: str) -> bool:
        """Whether the host, or a domain that it is in, is named in NO_PROXY; ports there do not
        count.
        """
        if host in LOOPBACK or "*" in self.unproxied:
            return True
        for entry in self.unproxied:
            domain = entry.strip().lstrip("*.").partition(":")[0]
            if domain and (host == domain or host.endswith(f".{domain}")):
                return True
        return False


def read_network(environ: Mapping[str, str]) -> NetworkSettings:
    """Read `HTTPS_PROXY`, `HTTP_PROXY`, else `ALL_PROXY`; `NO_PROXY`; and the file of certificates.

    Large or small letters of a proxy's variable are the same, and an empty value is none.
    """
    variables = {name.lower(): value for name, value in environ.items()}
    proxies = {}
    for scheme in ("http", "https"):
        address = variables.get(f"{scheme}_proxy") or variables.get("all_proxy", "")
        if address:
            proxies[scheme] = address
    unproxied = tuple(variables.get("no_proxy", "").split(","))
    return NetworkSettings(proxies, unproxied, _certificates(environ))


def _certificates(environ: Mapping[str, str]) -> str | bool:
    for name in CERTIFICATES:
        if environ.get(name):
            return environ[name]
    return True
