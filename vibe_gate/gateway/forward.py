"""Sending a request on to the model's API: the only importer of `requests`.

Loaded only where there is a network to reach: replay never imports this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import requests
import urllib3

from vibe_gate.domain.proxies import certificates, proxies_for
from vibe_gate.gateway.upstream import Cut, Unreachable, Upstream

CONNECT_S = 15.0

SILENCE_S = 600.0
"""How long the upstream may say nothing; the session's own clock is shorter as a rule."""

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
        self.streams = "text/event-stream" in response.headers.get("content-type", "")

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes. Raises Cut when it does not come to its end."""
        try:
            while chunk := self._response.raw.read1(65_536, decode_content=True):
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
        self._session.proxies.update(proxies_for(upstream.base_url, upstream.network))
        self._verify = certificates(upstream.network)

    def post(self, path: str, headers: Mapping[str, str], body: bytes) -> UpstreamResponse:
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
                timeout=(CONNECT_S, SILENCE_S),
                verify=self._verify,
            )
        except requests.RequestException as error:
            raise Unreachable(_sentence(error, self._upstream.base_url)) from error
        return UpstreamResponse(response)

    def close(self) -> None:
        """Drop every connection that is idle."""
        self._session.close()


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
