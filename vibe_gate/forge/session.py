"""github3's session with vibe-gate's bounds: one host, no redirects, GitHub's limits, a budget of
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import requests
from github3.session import GitHubSession
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse, Retry
from urllib3.connectionpool import ConnectionPool
from urllib3.exceptions import MaxRetryError

from vibe_gate.domain.network import NetworkSettings

CONNECT_S, READ_S = 10.0, 30.0
"""Seconds for a connection, and without a byte."""

BUDGET_S = 300.0
"""For all requests and waits of one client: a runner is paid by the minute, and the verdict waits
too.
"""

FAILURES_S = 30.0
"""For requests that fail without a refusal, and the waits after them; then nothing is repeated."""

REPEATS = 3
"""Of one request, after limits and failures together."""

BACKOFF_S = 2.0
"""urllib3's factor: a failed request is repeated at once, then after 2 and 4 times this."""

SECONDARY_S = 60.0
"""GitHub's advice if a secondary limit names no time."""

LIMIT_STATUSES = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
_SERVER_ERRORS = frozenset(range(500, 600))
_SECONDARY_LIMIT = (b"secondary rate limit", b"abuse detection")  # the second: older GHES
_TOKEN_END = "2099-01-01T00:00:00Z"  # noqa: S105 - a date; GitHub answers 401 at the real one


class OtherHost(Exception):
    """GitHub named an address that the token is not for; nothing was sent."""


class BudgetSpent(Exception):
    """The time for GitHub was spent before the request; nothing was sent."""


class Refused(Exception):
    """An answer that is a redirect, a refusal or a failure."""

    def __init__(self, response: requests.Response) -> None:
        super().__init__(response.status_code)
        self.response = response


class TimeBudget:
    """The seconds that a client still has for GitHub."""

    def __init__(self, total_s: float, failures_s: float, pause: Callable[[float], None]) -> None:
        self.total_s = total_s
        self.left_s = total_s
        self.failures_left_s = failures_s
        self.request_started = 0.0
        """time.monotonic() when the present request was sent first."""
        self._pause = pause

    def allows_wait(self, seconds: float) -> bool:
        """Whether the present request may wait so long for GitHub's limit."""
        return self._elapsed() + seconds <= self.left_s

    def allows_repeat(self, seconds: float) -> bool:
        """Whether the present request, which failed, may be repeated after so long."""
        return self._elapsed() + seconds <= min(self.left_s, self.failures_left_s)

    def wait(self, seconds: float) -> None:
        """Let time pass inside a request, which accounts for it."""
        if seconds > 0:
            self._pause(seconds)

    def wait_for_limit(self, seconds: float) -> bool:
        """Wait after a request that GitHub limited; False if too little time is left."""
        if seconds > self.left_s:
            return False
        self.left_s -= seconds
        self._pause(seconds)
        return True

    def wait_after_failure(self, seconds: float) -> bool:
        """Wait after a request that failed; False if too little time is left."""
        if seconds > self.failures_left_s:
            return False
        self.failures_left_s -= seconds
        return self.wait_for_limit(seconds)

    def end_request(self, *, failed: bool) -> None:
        """Account for the present request, its repeats and waits."""
        elapsed = self._elapsed()
        self.left_s -= elapsed
        if failed:
            self.failures_left_s -= elapsed

    def _elapsed(self) -> float:
        return time.monotonic() - self.request_started


class GitHubRetry(Retry):
    """urllib3's Retry, which also knows GitHub's limits and the client's budget.

    A limited request has done nothing: it is sent again, whatever its method.
    """

    budget: TimeBudget

    def new(self, **changes: Any) -> Self:  # noqa: ANN401 - urllib3's
        """The same with other counts."""
        retry = super().new(**changes)
        retry.budget = self.budget
        return retry

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        """Whether the status may be repeated; `increment` then looks at the response."""
        return status_code in LIMIT_STATUSES or super().is_retry(method, status_code)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        error: Exception | None = None,
        _pool: ConnectionPool | None = None,
        _stacktrace: TracebackType | None = None,
    ) -> Self:
        """The counts after this try. MaxRetryError, or the error itself, if it was the last."""
        retry = super().increment(method, url, response, error, _pool, _stacktrace)
        if response is not None and response.status in LIMIT_STATUSES:
            seconds = self.get_retry_after(response)
            if seconds is not None and self.budget.allows_wait(seconds):
                return retry
        elif self.budget.allows_repeat(retry.get_backoff_time()):
            return retry
        raise error or MaxRetryError(_pool, url or "")  # type: ignore[arg-type]  # as urllib3's

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """Seconds that a limit asks to wait; None for a refusal."""
        return seconds_to_wait(response.status, response.headers)

    def sleep(self, response: BaseHTTPResponse | None = None) -> None:
        """Wait before the next try."""
        seconds = None
        if response is not None:
            seconds = self.get_retry_after(response)
        if seconds is None:
            seconds = self.get_backoff_time()
        self.budget.wait(seconds)


class BoundedSession(GitHubSession):  # type: ignore[misc]  # github3 has no types
    """A session that sends the token to one API alone, and no longer than its budget.

    Raises Refused, OtherHost, BudgetSpent, and requests' exceptions if there is no answer.
    """

    def __init__(
        self, api_url: str, token: str, network: NetworkSettings, retry: GitHubRetry
    ) -> None:
        super().__init__()
        self.base_url = api_url
        self.graphql_url = api_url.removesuffix("/v3") + "/graphql"
        self._budget = retry.budget
        self.trust_env = False  # .netrc and the process's proxies are somebody else's
        self.headers["X-GitHub-Api-Version"] = "2022-11-28"  # later versions rename and drop fields
        self.headers["User-Agent"] = "vibe-gate"
        self.proxies.update(network.proxies_for(api_url))
        self.verify = network.certificates
        for scheme in (
            "https://",
            "http://",
        ):  # GraphQL of an Enterprise Server lies beside the API
            self.mount(scheme, HTTPAdapter(max_retries=retry))
        # The one kind of token that github3 lets write check runs; all kinds look the same on the
        # wire.
        self.app_installation_token_auth({"token": token, "expires_at": _TOKEN_END})

    def request(self, method: str, url: str, *args: object, **options: object) -> requests.Response:
        """Send, repeat as the retries say, and return an answer of 2xx."""
        if not url.startswith(f"{self.base_url}/") and url != self.graphql_url:
            raise OtherHost
        while True:
            response = self._send_timed(method, url, *args, **options)
            if response.ok and not response.is_redirect:
                return response
            if not is_unnamed_limit(response) or not self._budget.wait_for_limit(SECONDARY_S):
                raise Refused(response)

    def _send_timed(self, *args: object, **options: object) -> requests.Response:
        budget = self._budget
        if budget.left_s <= 0:
            raise BudgetSpent
        timeout = (min(CONNECT_S, budget.left_s), min(READ_S, budget.left_s))
        budget.request_started = time.monotonic()
        failed = True
        try:
            options |= {"timeout": timeout, "allow_redirects": False}
            response: requests.Response = super().request(*args, **options)
            failed = response.status_code in _SERVER_ERRORS
            return response
        finally:
            budget.end_request(failed=failed)


def retry_limits(budget: TimeBudget) -> GitHubRetry:
    """Repeat a request that GitHub limited, and one that never reached GitHub."""
    retry = GitHubRetry(
        total=REPEATS, connect=REPEATS, read=False, other=0, status=REPEATS, raise_on_status=False
    )
    retry.budget = budget
    return retry


def retry_failures(budget: TimeBudget, backoff_s: float = BACKOFF_S) -> GitHubRetry:
    """Repeat besides a request without an answer or with a 5xx: it must bear to be done twice."""
    retry = GitHubRetry(
        total=REPEATS,
        backoff_factor=backoff_s,
        allowed_methods=None,
        status_forcelist=_SERVER_ERRORS,
        raise_on_status=False,
    )
    retry.budget = budget
    return retry


def seconds_to_wait(status: int, headers: Mapping[str, str]) -> float | None:
    """How long a limit asks to wait by its headers, at least 1; None if they name no time.

    `x-ratelimit-reset` is read against GitHub's `Date`, and a second is added for their roundings.
    """
    if status not in LIMIT_STATUSES:
        return None
    retry_after = headers.get("retry-after", "")
    if retry_after.isdecimal():
        return max(1.0, float(retry_after))
    if headers.get("x-ratelimit-remaining") != "0":
        return None
    try:
        now = parsedate_to_datetime(headers.get("Date", "")).timestamp()
        return max(1.0, int(headers.get("x-ratelimit-reset", "")) - now + 1)
    except (TypeError, ValueError):
        return SECONDARY_S


def is_unnamed_limit(response: requests.Response) -> bool:
    """Whether it is a secondary limit without a header: Retry sees headers alone, the rest is
    text.
    """
    if seconds_to_wait(response.status_code, response.headers) is not None:
        return False
    if response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    message = response.content.lower()
    return response.status_code == HTTPStatus.FORBIDDEN and any(
        words in message for words in _SECONDARY_LIMIT
    )
