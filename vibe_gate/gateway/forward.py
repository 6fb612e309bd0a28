"""Sending a request on to the model's API: the only importer of `requests`.

Loaded only where there is a network to reach: replay never imports this.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

import requests
import urllib3
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from vibe_gate.domain.proxies import certificates, proxies_for
from vibe_gate.gateway.upstream import Cut, Unreachable, Upstream

CONNECT_S = 15.0

_OURS = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "authorization", "x-api-key",
         "cookie", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade", "keep-alive",
         "expect")  # fmt: skip
"""Headers of the agent that end here: its dummy credentials, and what belongs to one connection."""


class UpstreamResponse:
    """A response under way."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    @property
    def streams(self) -> bool:
        """Whether it is a stream of events."""
        return "text/event-stream" in self.headers.get("content-type", "")

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes. Raises Cut when it does not come to its end."""
        raw = self._response.raw
        try:
            while chunk := raw.read1(65_536, decode_content=True):
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise Cut(type(error).__name__) from error

    def close(self) -> None:
        """Give the connection back, or drop it."""
        self._response.close()


class Client:
    """Connections to one upstream; thread-safe as far as the gateway uses it."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._session = requests.Session()
        self._session.trust_env = False  # the environment is an argument; .netrc is nobody's business
        self._connections: WeakSet[HTTPConnection] = WeakSet()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter(self._connections))
        self._session.proxies.update(proxies_for(upstream.base_url, upstream.network))
        self._verify = certificates(upstream.network)

    def post(self, path: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> UpstreamResponse:
        """Send it with the real credentials. Raises Unreachable."""
        sent = {name: value for name, value in headers.items() if name.lower() not in _OURS}
        sent |= {"accept-encoding": "identity"}
        for name, value in self._upstream.credentials.items():
            present = next((sent.pop(known) for known in list(sent) if known.lower() == name), "")
            sent[name] = f"{present},{value}" if name == "anthropic-beta" and present else value
        try:
            response = self._session.post(
                self._upstream.base_url + path,
                headers=sent,
                data=body,
                stream=True,
                allow_redirects=False,  # a redirect would carry the key elsewhere
                timeout=(min(CONNECT_S, timeout_s), timeout_s),
                verify=self._verify,
            )
        except requests.RequestException as error:
            raise Unreachable(_sentence(error, self._upstream.base_url)) from error
        return UpstreamResponse(response)

    def cut(self) -> None:
        """Break off whatever is under way, also a request that waits for its answer's first byte."""
        for connection in list(self._connections):
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Drop every connection."""
        self._session.close()


class _Adapter(requests.adapters.HTTPAdapter):
    """Keeps track of the connections that it opens, so that they can be cut."""

    def __init__(self, connections: WeakSet[HTTPConnection]) -> None:
        self._connections = connections
        super().__init__()

    def init_poolmanager(self, *args: Any, **more: Any) -> None:  # noqa: ANN401 as the base class
        super().init_poolmanager(*args, **more)
        self._track(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **more: Any) -> urllib3.PoolManager:  # noqa: ANN401 as the base class
        manager: urllib3.PoolManager = super().proxy_manager_for(*args, **more)
        return self._track(manager)

    def _track(self, manager: urllib3.PoolManager) -> urllib3.PoolManager:
        connections = self._connections
        pools: dict[str, type[HTTPConnectionPool]] = {}
        for scheme, pool in (("http", HTTPConnectionPool), ("https", HTTPSConnectionPool)):
            base: Any = pool.ConnectionCls

            class _TrackedConnection(base):  # type: ignore[misc]
                def connect(self) -> None:
                    super().connect()
                    connections.add(self)

            pools[scheme] = type(pool.__name__, (pool,), {"ConnectionCls": _TrackedConnection})
        manager.pool_classes_by_scheme = pools
        return manager


def _sentence(error: requests.RequestException, base_url: str) -> str:
    host = urlsplit(base_url).hostname
    if isinstance(error, requests.exceptions.SSLError):
        return f"The certificate of {host} is not trusted."
    if isinstance(error, requests.exceptions.ProxyError):
        return f"The proxy on the way to {host} does not answer."
    if isinstance(error, requests.exceptions.ReadTimeout):
        return f"{host} accepted the request and did not answer in time."
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return f"{host} does not answer."
    return f"{host} cannot be reached, or closed the connection without an answer."
