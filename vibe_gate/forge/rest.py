"""One way to GitHub and back: whose hosts may have the token, how long is waited, how much is read.

Nothing in here knows what a comment is. Requests that only read, or that may be sent
twice without harm, are repeated where there was no answer; others raise an *uncertain*
ForgeError, and whoever sent them looks first.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode, urljoin, urlsplit

import requests
from github3.session import GitHubSession
from urllib3.exceptions import HTTPError

from vibe_gate.domain.escape import show_text
from vibe_gate.domain.proxies import LOOPBACK, certificates, proxies_for
from vibe_gate.errors import ForgeError, UsageError

Json = Any

CONNECT_S, READ_S = 10, 30
"""Seconds for a connection, and without a byte."""

MAX_BYTES = 48 << 20
"""One answer. A page of 100 comments, each of 65,536 four-byte characters, is 26 MB."""

PER_PAGE = 100
MAX_PAGES = 50
"""GitHub closes a conversation at 2,500 comments; twice that is never read on."""

REPEATS_S = (1.0, 3.0, 9.0)
"""Before each further try where there was no answer, or a 5xx."""

SECONDARY_S = 60.0
"""GitHub's own advice where a secondary limit names no time; twice as long at each further one."""


class Patience(NamedTuple):
    """Seconds that one `RestClient` waits. A runner is paid by the minute, and the verdict waits too."""

    answer: float = 60.0
    """For one answer, from the first look for the host to the last byte, however steadily it trickles."""
    silence: float = 120.0
    """For all that is never answered; then nothing more is asked."""
    whole: float = 300.0
    """For everything: requests, whatever becomes of them, and the waits that GitHub asks for."""


PATIENCE = Patience()

MAX_REDIRECTS = 3
"""Of a repository that was renamed; always on the same host."""

_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",  # later ones rename and drop fields
    "User-Agent": "vibe-gate",
}
_LIMITS = ("secondary rate limit", "abuse detection")  # the second is what older Enterprise Servers say
_LONGEST_MESSAGE = 300
_TOKEN = re.compile(r"[!-~]{1,4096}\Z")
_NEVER = "2099-01-01T00:00:00Z"  # the real end is not known here; GitHub says 401 then


class HttpAnswer(NamedTuple):
    """One answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Session(GitHubSession):  # type: ignore[misc]  # github3 has no types
    """Looks at no redirect by itself: requests would read all of its body, and trip over an odd address."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """None: that is `RestClient`'s to decide."""


class RestClient:
    """A session with one forge. `api_url` has no slash at its end."""

    def __init__(
        self,
        api_url: str,
        token: str,
        *,
        environ: Mapping[str, str],
        pause: Callable[[float], None],
        patience: Patience = PATIENCE,
    ) -> None:
        self.api_url = _checked(api_url)
        if not _TOKEN.match(token):
            raise UsageError("The token for GitHub is empty, or holds characters that no token has.")
        self._token = token
        self._pause = pause
        self._patience = patience
        self._left_s = patience.whole
        self._silent_s = 0.0
        self._limited = 0
        self._session = _Session(default_connect_timeout=CONNECT_S, default_read_timeout=READ_S)
        self._session.trust_env = False  # the environment is an argument, and .netrc has other people's credentials
        self._session.base_url = self.api_url
        self._session.headers.update(_HEADERS)
        self._session.proxies.update(proxies_for(self.api_url, environ))
        self._session.verify = certificates(environ)
        # The kind of token that github3 lets write check runs; on the wire all kinds look the same.
        self._session.app_installation_token_auth({"token": token, "expires_at": _NEVER})

    def close(self) -> None:
        """Drop the connections."""
        self._session.close()

    def get(self, path: str, doing: str, **query: str | int) -> Json:
        """What stands at a path below the API's address; `doing` completes "GitHub refused to ..."."""
        return self._json(self._repeated("GET", self._url(path, query), None, doing), doing)

    def pages(self, path: str, doing: str, **query: str | int) -> Iterator[Json]:
        """The same, page by page."""
        url: str | None = self._url(path, {"per_page": PER_PAGE, **query})
        for _ in range(MAX_PAGES):
            if url is None:
                return
            answer = self._repeated("GET", url, None, doing)
            yield self._json(answer, doing)
            url = self._next(answer, url)
        if url is not None:
            raise ForgeError(
                f"GitHub has more than {MAX_PAGES} pages where vibe-gate tried to {doing}; it read no more."
            )

    def put(self, method: str, path: str, body: Json, doing: str) -> Json:
        """Send what may be sent twice without harm."""
        return self._json(self._repeated(method, self._url(path), body, doing), doing)

    def drop(self, path: str, doing: str) -> None:
        """Delete what may be gone already."""
        try:
            self._repeated("DELETE", self._url(path), None, doing)
        except ForgeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def send(self, method: str, path: str, body: Json, doing: str) -> Json:
        """Send what must not happen twice: an `uncertain` ForgeError where nobody knows whether it did."""
        answer = self._patiently(method, self._url(path), body, doing)
        try:
            return self._json(answer, doing)
        except ForgeError as error:
            raise ForgeError(str(error), answer.status, uncertain=True) from error

    def ask(self, url: str, body: Json, doing: str) -> Json:
        """POST a question to another address of the same host (GraphQL); it changes nothing."""
        return self._json(self._repeated("POST", url, body, doing), doing)

    def tries(self, doing: str) -> Iterator[None]:
        """As often as something may be tried, after waiting, and as long as the budget lasts."""
        yield
        for seconds in REPEATS_S:
            if seconds > self._left_s or self._silent_s >= self._patience.silence:
                return
            self._wait(seconds, doing)
            yield

    # One request, with more and more patience

    def _repeated(self, method: str, url: str, body: Json, doing: str) -> HttpAnswer:
        failed: ForgeError | None = None
        for _ in self.tries(doing):
            try:
                return self._patiently(method, url, body, doing)
            except ForgeError as error:
                if not error.uncertain:
                    raise
                failed = error
        assert failed is not None
        raise failed

    def _patiently(self, method: str, url: str, body: Json, doing: str) -> HttpAnswer:
        """One request, again after each limit: a limited request has done nothing."""
        while True:
            answer = self._redirected(method, url, body, doing)
            if answer.status < HTTPStatus.BAD_REQUEST:
                self._limited = 0
                return answer
            seconds = self._asked_to_wait(answer)
            if seconds is None:
                raise self._refusal(answer, doing)
            self._wait(seconds, doing)

    def _redirected(self, method: str, url: str, body: Json, doing: str) -> HttpAnswer:
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._once(method, url, body, doing)
            if answer.status not in {301, 302, 307, 308}:
                return answer
            url = _joined(url, answer.headers.get("Location", ""))
            if _origin(url) != _origin(self.api_url):
                break  # the token is for one host
            if method != "GET" and answer.status in {301, 302}:
                break
        raise ForgeError(f"GitHub sent vibe-gate elsewhere when it tried to {doing}; not followed.", answer.status)

    def _once(self, method: str, url: str, body: Json, doing: str) -> HttpAnswer:
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        patience = min(self._patience.answer, self._left_s, self._patience.silence - self._silent_s)
        if patience <= 0:
            raise ForgeError(f"GitHub took too long before; vibe-gate did not try to {doing} any more.")
        asking = _Asking(lambda: self._whole(method, url, data, doing))
        started = time.monotonic()
        asking.start()
        asking.join(patience)
        took = time.monotonic() - started
        self._left_s -= took
        if asking.answer is not None:
            return asking.answer
        self._silent_s += took
        if isinstance(asking.failure, ForgeError):
            raise asking.failure
        why = type(asking.failure).__name__ if asking.failure else f"not whole after {took:.0f} s"
        # Not chained: the cause's text may hold a proxy's password.
        raise ForgeError(f"GitHub gave no answer when vibe-gate tried to {doing} ({why}).", 0, uncertain=True)

    def _whole(self, method: str, url: str, data: bytes | None, doing: str) -> HttpAnswer:
        with self._session.request(method, url, data=data, stream=True, allow_redirects=False) as response:
            return HttpAnswer(response.status_code, response.headers, _bounded(response, doing))

    # What an answer means

    def _asked_to_wait(self, answer: HttpAnswer) -> float | None:
        """Seconds, where the answer is a limit; None where it is a refusal."""
        if answer.status not in {403, 429}:
            return None
        after = answer.headers.get("retry-after", "")
        if after.isdecimal() and len(after) < 10:
            return max(1.0, float(after))
        if answer.headers.get("x-ratelimit-remaining") == "0":
            return _until_reset(answer.headers)
        said = _message(answer.body).lower()
        if answer.status == HTTPStatus.TOO_MANY_REQUESTS or any(words in said for words in _LIMITS):
            self._limited += 1
            return float(SECONDARY_S * 2 ** (self._limited - 1))
        return None

    def _wait(self, seconds: float, doing: str) -> None:
        if seconds > self._left_s:
            # A limit may come as 403 too; nobody must take it for a refusal of the token.
            raise ForgeError(
                f"GitHub asks to wait {seconds:.0f} s before vibe-gate may {doing}; it waits "
                f"{self._patience.whole:.0f} s in all.",
                HTTPStatus.TOO_MANY_REQUESTS,
            )
        self._left_s -= seconds
        self._pause(seconds)

    def _refusal(self, answer: HttpAnswer, doing: str) -> ForgeError:
        message = _message(answer.body).replace(self._token, "***")
        shown = show_text(message)[:_LONGEST_MESSAGE]
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            sentence = f"GitHub failed when vibe-gate tried to {doing} ({answer.status})."
            return ForgeError(sentence, answer.status, uncertain=True)
        return ForgeError(f"GitHub refused to {doing} ({answer.status}{': ' if shown else ''}{shown}).", answer.status)

    def _json(self, answer: HttpAnswer, doing: str) -> Json:
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise ForgeError(
                f"What GitHub answered when vibe-gate tried to {doing} is no JSON.", answer.status
            ) from error

    # Addresses

    def _url(self, path: str, query: Mapping[str, str | int] | None = None) -> str:
        url = str(self._session.build_url(path.lstrip("/")))
        return f"{url}?{urlencode(query)}" if query else url

    def _next(self, answer: HttpAnswer, url: str) -> str | None:
        links = requests.utils.parse_header_links(answer.headers.get("Link", ""))
        found = next((link["url"] for link in links if link.get("rel") == "next"), None)
        if found is None:
            return None
        following = _joined(url, found)
        if _origin(following) != _origin(self.api_url):
            raise ForgeError("GitHub names another host for the next page; not followed.", answer.status)
        return following


class _Asking(threading.Thread):
    """One request on a thread of its own: a timeout of a socket begins anew with each byte, a `join` ends.

    Left alone when its time is over; as a daemon it holds no process back.
    """

    def __init__(self, ask: Callable[[], HttpAnswer]) -> None:
        super().__init__(name="vibe-gate-forge", daemon=True)
        self._ask = ask
        self.answer: HttpAnswer | None = None
        self.failure: Exception | None = None

    def run(self) -> None:
        """Ask; `answer` or `failure` says what came of it."""
        try:
            self.answer = self._ask()
        except (requests.RequestException, HTTPError, OSError, ValueError, ForgeError) as error:
            self.failure = error


def _bounded(response: requests.Response, doing: str) -> bytes:
    parts, size = [], 0
    for part in response.iter_content(1 << 16):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise ForgeError(f"GitHub's answer is longer than {MAX_BYTES >> 20} MiB when vibe-gate tried to {doing}.")
    return b"".join(parts)


def _message(body: bytes) -> str:
    """GitHub's words for a refusal; "" where there are none that can be read."""
    try:
        said = json.loads(body[:1_000_000])
    except (ValueError, RecursionError):
        return ""
    if not isinstance(said, dict):
        return ""
    errors = said.get("errors")
    each = errors if isinstance(errors, list) else []
    words = [said.get("message"), *(one.get("message") if isinstance(one, dict) else one for one in each[:10])]
    return "; ".join(word for word in words if isinstance(word, str))


def _until_reset(headers: Mapping[str, str]) -> float:
    """Seconds until the limit is lifted, by GitHub's own clock, and one for its roundings."""
    reset = headers.get("x-ratelimit-reset", "")
    try:
        now = parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except (TypeError, ValueError, OverflowError):
        return SECONDARY_S
    return max(1.0, int(reset) - now + 1) if reset.isdecimal() and len(reset) < 12 else SECONDARY_S


def _checked(api_url: str) -> str:
    """The API's address without a slash at its end. UsageError."""
    url = api_url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        odd = parts.username is not None or parts.query or parts.fragment or not parts.hostname or parts.port == 0
    except ValueError:
        odd = True
    if odd or parts.scheme not in {"http", "https"} or not url.isascii() or not url.isprintable():
        raise UsageError("GitHub's API has no address like this; it looks like https://api.github.com.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise UsageError(
            "GitHub's API is addressed by http://, and the token would go there for all to read; use https://."
        )
    return url


def _joined(url: str, reference: str) -> str:
    """Where a reference in an answer leads; "" where it is no address."""
    try:
        return urljoin(url, reference)
    except ValueError:
        return ""


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", "", None
    return parts.scheme, parts.hostname or "", port
