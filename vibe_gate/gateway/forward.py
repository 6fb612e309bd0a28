"""Sending a request on to the model's API, by `requests`.

Loaded only where there is a network to reach: replay never imports this.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

import requests
import urllib3

from vibe_gate.gateway.upstream import Cut, Oversized, Unavailable, Upstream, describe_overload

CONNECT_S = 15.0

CONNECTING_S = 4.0
"""How long an upstream is tried that cannot be connected to: an address that is wrong stays so."""

MAX_ERROR_BYTES, MAX_WORDS = 65_536, 120
"""Of an error that is told: what is read, and characters of its message."""

SILENCE_S = 600.0
"""How long the upstream may say nothing; the session's own clock is shorter as a rule."""

MAX_ANSWER_BYTES = 64 << 20
"""Of an answer, unpacked: 128,000 tokens, each in an event of its own, are half of that."""

PIECE_BYTES = 65_536

_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""Of answers; none was asked for, and some servers pack all the same."""

_UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    OSError,
    RecursionError,
    zlib.error,
    urllib3.exceptions.HTTPError,
)

_OURS = (
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "accept-encoding",
    "authorization",
    "x-api-key",
    "cookie",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "keep-alive",
    "expect",
)
"""Headers of the agent that end here: its dummy credentials, and what belongs to one connection."""


class Client:
    """Connections to one upstream; thread-safe as far as the gateway uses it."""

    def __init__(self, upstream: Upstream, silence_s: float = SILENCE_S) -> None:
        self._upstream = upstream
        self._silence_s = silence_s
        self.host = urlsplit(upstream.base_url).hostname
        self._session = requests.Session()
        self._session.trust_env = (
            False  # the upstream says what was found there; .netrc is nobody's business
        )
        self._session.proxies.update(upstream.proxies)
        self._verify = upstream.certificates

    def post(self, path: str, headers: Mapping[str, str], body: bytes) -> requests.Response:
        """Send it with the real credentials; the response is under way. Raises Unavailable."""
        try:
            response = self._session.post(
                self._upstream.base_url + path,
                headers=self._headers_to_send(headers),
                data=body,
                stream=True,
                allow_redirects=False,  # a redirect would carry the key elsewhere
                timeout=(min(CONNECT_S, self._silence_s), self._silence_s),
                verify=self._verify,
            )
        except requests.RequestException as error:
            raise _unreachable(error, self.host) from error
        overloaded = describe_overload(
            self.host, response.status_code, response.headers, lambda: _message(response)
        )
        if overloaded:
            response.close()
            raise overloaded
        encoding = _encoding_of(response)
        if encoding not in _ENCODINGS:
            response.close()
            raise Unavailable(f"{self.host} packs its answers as {encoding[:20]!r}", patience_s=0.0)
        return response

    def _headers_to_send(self, agent_headers: Mapping[str, str]) -> dict[str, str]:
        """The agent's headers, with the real credentials in the place of its own."""
        headers = {
            name: value for name, value in agent_headers.items() if name.lower() not in _OURS
        }
        headers["accept-encoding"] = "identity"
        for name, value in self._upstream.credentials.items():
            agent_value = ""
            for header in list(headers):
                if header.lower() == name:
                    agent_value = headers.pop(header)
                    break
            if name == "anthropic-beta" and agent_value:
                headers[name] = f"{agent_value},{value}"
            else:
                headers[name] = value
        return headers

    @staticmethod
    def chunks(response: requests.Response) -> Iterator[bytes]:
        """The body as it comes, unpacked. Raises Cut when it does not come to its end, Oversized
        for one without.
        """
        size = 0
        try:
            for piece in _unpacked(response):
                size += len(piece)
                if size > MAX_ANSWER_BYTES:
                    raise Oversized(f"sent an answer of more than {MAX_ANSWER_BYTES:,} bytes")
                yield piece
        except (urllib3.exceptions.HTTPError, OSError, ValueError, zlib.error) as error:
            raise Cut(type(error).__name__) from error

    def close(self) -> None:
        """Drop every connection that is idle."""
        self._session.close()


def _encoding_of(response: requests.Response) -> str:
    return response.headers.get("content-encoding", "").strip().lower()


def _unpacked(response: requests.Response) -> Iterator[bytes]:
    """The body in pieces of at most `PIECE_BYTES`, however much of it one packed byte stands
    for.
    """
    unpacker = (
        None
        if _encoding_of(response) in ("", "identity")
        else zlib.decompressobj(zlib.MAX_WBITS | 32)
    )
    while chunk := response.raw.read1(PIECE_BYTES, decode_content=False):
        if unpacker is None:
            yield chunk
            continue
        while chunk:
            yield unpacker.decompress(chunk, PIECE_BYTES)
            chunk = unpacker.unconsumed_tail
    if unpacker is not None and not unpacker.eof:
        raise ValueError("the packed answer is not whole")


def _message(response: requests.Response) -> str:
    """The error's own words, the beginning of long ones; "" if there are none."""
    with suppress(
        ValueError,
        LookupError,
        TypeError,
        OSError,
        RecursionError,
        zlib.error,
        urllib3.exceptions.HTTPError,
    ):
        start = b""
        for piece in _unpacked(response):
            start += piece
            if len(start) > MAX_ERROR_BYTES:
                return ""
        return str(json.loads(start)["error"]["message"])[:MAX_WORDS]
    return ""


def _unreachable(error: requests.RequestException, host: str | None) -> Unavailable:
    if isinstance(error, requests.exceptions.SSLError):
        return Unavailable(
            f"the certificate of {host} is not trusted", patience_s=0.0, is_reached=False
        )
    if isinstance(error, requests.exceptions.ProxyError):
        return Unavailable(
            f"the proxy on the way to {host} does not answer",
            patience_s=CONNECTING_S,
            is_reached=False,
        )
    if isinstance(error, requests.exceptions.ReadTimeout):
        return Unavailable(f"{host} accepted the request and did not answer in time")
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return Unavailable(
            f"the model's API at {host} does not answer", patience_s=CONNECTING_S, is_reached=False
        )
    if error.args and isinstance(
        error.args[0], urllib3.exceptions.MaxRetryError
    ):  # there was no connection
        return Unavailable(
            f"the model's API at {host} cannot be reached",
            patience_s=CONNECTING_S,
            is_reached=False,
        )
    return Unavailable(f"{host} closed the connection without an answer")
