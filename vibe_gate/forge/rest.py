"""One way to GitHub and back: whose hosts may have the token, how long is waited, what is tried again.

Nothing in here knows what a comment is.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit

import requests
from github3.session import GitHubSession
from urllib3.exceptions import HTTPError

from vibe_gate.domain.escape import show_text
from vibe_gate.domain.proxies import LOOPBACK, certificates, proxies_for
from vibe_gate.errors import ForgeError, UsageError
from vibe_gate.forge.shapes import Json, at

T = TypeVar("T")

CONNECT_S, READ_S = 10.0, 30.0
"""Seconds for a connection, and without a byte."""

BUDGET_S = 300.0
"""For all requests and waits of one client: a runner is paid by the minute, and the verdict waits too."""

PER_PAGE = 100
MAX_PAGES = 50
"""GitHub closes a conversation at 2,500 comments; twice that is never read on."""

REPEATS_S = (1.0, 3.0, 9.0)
"""Before each further try, after no answer or a 5xx."""

FAILURES_S = 30.0
"""For all requests that fail so and the waits after them; then each is tried once. A verdict waits behind them."""

SECONDARY_S = 60.0
"""GitHub's own advice if a secondary limit names no time."""

_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",  # later ones rename and drop fields
    "User-Agent": "vibe-gate",
}
_LIMITS = ("secondary rate limit", "abuse detection")  # the second is what older Enterprise Servers say
_LONGEST_MESSAGE = 300
_PERMISSION = re.compile(r"([a-z_]{1,40})=(read|write)")
_API_URL = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._/-]*)?\Z")
_TOKEN = re.compile(r"[!-~]{1,4096}\Z")
_NEVER = "2099-01-01T00:00:00Z"  # the real end is not known here; GitHub says 401 then


class RestClient:
    """A session with one forge. `api_url` has no slash at its end."""

    def __init__(
        self,
        api_url: str,
        token: str,
        *,
        environ: Mapping[str, str],
        pause: Callable[[float], None],
        budget_s: float = BUDGET_S,
    ) -> None:
        self.api_url = _checked(api_url)
        if not _TOKEN.match(token):
            raise UsageError("The token for GitHub is empty, or holds characters that no token has.")
        self._token = token
        self._pause = pause
        self._budget_s = self._left_s = budget_s
        self._failures_left_s = FAILURES_S
        self._session = GitHubSession()
        self._session.trust_env = False  # the environment is an argument, and .netrc has other people's credentials
        self._session.headers.update(_HEADERS)
        self._session.proxies.update(proxies_for(self.api_url, environ))
        self._session.verify = certificates(environ)
        # The kind of token that github3 lets write check runs; on the wire all kinds look the same.
        self._session.app_installation_token_auth({"token": token, "expires_at": _NEVER})

    def close(self) -> None:
        """Drop the connections."""
        self._session.close()

    def get(self, path: str, doing: str) -> Json:
        """What stands at a path below the API's address; `doing` completes "GitHub refused to ..."."""
        return self.again(doing, lambda: self.send("GET", path, None, doing))

    def pages(self, path: str, doing: str) -> Iterator[Json]:
        """The same, page by page; the path may have a query."""
        url = f"{self.api_url}{path}{'&' if '?' in path else '?'}per_page={PER_PAGE}"
        for _ in range(MAX_PAGES):
            answer = self.again(doing, lambda url=url: self._patiently("GET", url, None, doing))  # type: ignore[misc]
            yield _json(answer, doing)
            url = answer.links.get("next", {}).get("url", "")
            if not url:
                return
            if not url.startswith(self.api_url + "/"):
                raise ForgeError("GitHub names another host for the next page; not followed.", answer.status_code)
        raise ForgeError(f"GitHub has more than {MAX_PAGES} pages where vibe-gate tried to {doing}; it read no more.")

    def send(self, method: str, path: str, body: Json, doing: str) -> Json:
        """Send once: whether it took effect is unknown if there is no answer (status 0), or a 5xx."""
        return _json(self._patiently(method, self.api_url + path, body, doing), doing)

    def drop(self, path: str, doing: str) -> None:
        """Delete what stands there."""
        self._patiently("DELETE", self.api_url + path, None, doing)

    def ask(self, url: str, body: Json, doing: str) -> Json:
        """POST to another address of the same host (GraphQL), again if there was no answer: it must bear that."""
        return self.again(doing, lambda: _json(self._patiently("POST", url, body, doing), doing))

    def again(self, doing: str, act: Callable[[], T]) -> T:
        """What `act` gives; after no answer, or a 5xx, it waits and acts again."""
        for seconds in REPEATS_S:
            try:
                return act()
            except ForgeError as error:
                if 0 < error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
                if seconds > min(self._left_s, self._failures_left_s):
                    raise
            self._failures_left_s -= seconds
            self._wait(seconds, doing)
        return act()

    def _patiently(self, method: str, url: str, body: Json, doing: str) -> requests.Response:
        """One request, again after each limit: a limited request has done nothing."""
        while True:
            answer = self._once(method, url, body, doing)
            if answer.ok and not answer.is_redirect:
                return answer
            seconds = _asked_to_wait(answer)
            if seconds is None:
                raise self._refusal(answer, doing)
            self._wait(seconds, doing)

    def _once(self, method: str, url: str, body: Json, doing: str) -> requests.Response:
        if self._left_s <= 0:
            raise ForgeError(f"GitHub took too long before; vibe-gate did not try to {doing} any more.")
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        limits = (min(CONNECT_S, self._left_s), min(READ_S, self._left_s))
        started, failed = time.monotonic(), True
        try:
            # A redirect is refused: the token and the text are for one host.
            answer: requests.Response = self._session.request(
                method, url, data=data, timeout=limits, allow_redirects=False
            )
            failed = answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
            return answer
        except (OSError, ValueError, HTTPError) as error:
            # Not chained: the cause's text may hold a proxy's password.
            why = f"{type(error).__name__} at {urlsplit(url).hostname}"
            raise ForgeError(f"GitHub gave no answer when vibe-gate tried to {doing} ({why}).") from None
        finally:
            took = time.monotonic() - started
            self._left_s -= took
            self._failures_left_s -= took if failed else 0.0

    def _wait(self, seconds: float, doing: str) -> None:
        if seconds > self._left_s:
            # A limit may come as 403 too; nobody must take it for a refusal of the token.
            raise ForgeError(
                f"GitHub asks to wait {seconds:.0f} s before vibe-gate may {doing}; it waits "
                f"{self._budget_s:.0f} s in all.",
                HTTPStatus.TOO_MANY_REQUESTS,
            )
        self._left_s -= seconds
        self._pause(seconds)

    def _refusal(self, answer: requests.Response, doing: str) -> ForgeError:
        status = answer.status_code
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return ForgeError(f"GitHub failed when vibe-gate tried to {doing} ({status}).", status)
        if answer.is_redirect:
            return ForgeError(
                f"GitHub sent vibe-gate elsewhere when it tried to {doing} ({status}). If the repository was renamed, "
                "use its new name.",
                status,
            )
        permission = _lacking(answer.headers) if status == HTTPStatus.FORBIDDEN else ""
        if permission:
            sentence = f"GitHub refused to {doing} ({status}): the token lacks `{permission}`."
            return ForgeError(sentence, status, permission)
        shown = show_text(_message(answer).replace(self._token, "***"))[:_LONGEST_MESSAGE]
        return ForgeError(f"GitHub refused to {doing} ({status}{': ' if shown else ''}{shown}).", status)


def _json(answer: requests.Response, doing: str) -> Json:
    try:
        return answer.json()
    except ValueError as error:
        raise ForgeError(f"What GitHub answered when vibe-gate tried to {doing} is not JSON.") from error


def _asked_to_wait(answer: requests.Response) -> float | None:
    """Seconds, if the answer is a limit; None if it is a refusal."""
    if answer.status_code not in {403, 429}:
        return None
    after = answer.headers.get("retry-after", "")
    if after.isdecimal():
        return max(1.0, float(after))
    if answer.headers.get("x-ratelimit-remaining") == "0":
        return _until_reset(answer.headers)
    said = _message(answer).lower()
    limited = answer.status_code == HTTPStatus.TOO_MANY_REQUESTS or any(words in said for words in _LIMITS)
    return SECONDARY_S if limited else None


def _until_reset(headers: Mapping[str, str]) -> float:
    """Seconds until the limit is lifted, by GitHub's own clock, and one for its roundings."""
    try:
        now = parsedate_to_datetime(headers.get("Date", "")).timestamp()
        return max(1.0, int(headers.get("x-ratelimit-reset", "")) - now + 1)
    except (TypeError, ValueError):
        return SECONDARY_S


def _lacking(headers: Mapping[str, str]) -> str:
    """The permission that would do, as a workflow names it; "" if GitHub does not say, or asks for several at once."""
    sets = headers.get("x-accepted-github-permissions", "").split(";")
    named = [_PERMISSION.fullmatch(each.strip()) for each in sets]
    return "` or `".join(f"{each[1].replace('_', '-')}: {each[2]}" for each in named if each)


def _message(answer: requests.Response) -> str:
    """GitHub's words for a refusal; "" if there are none that can be read."""
    try:
        said = answer.json()
    except ValueError:
        return ""
    errors = at(said, "errors")
    each = errors if isinstance(errors, list) else []
    words = [at(said, "message"), *(at(one, "message") or one for one in each[:10])]
    return "; ".join(word for word in words if isinstance(word, str))


def _checked(api_url: str) -> str:
    """The API's address without a slash at its end. UsageError."""
    url = api_url.strip().rstrip("/")
    if not _API_URL.match(url):
        raise UsageError("GitHub's API has no address like this; it looks like https://api.github.com.")
    if url.startswith("http:") and urlsplit(url).hostname not in LOOPBACK:
        raise UsageError(
            "GitHub's API is addressed by http://, and the token would go there for all to read; use https://."
        )
    return url
