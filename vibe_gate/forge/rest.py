"""GitHub's API for one client: requests that github3 has no object for, lists, and errors in
sentences.

Nothing in here knows what a comment is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import requests
from github3.exceptions import GitHubException
from github3.structs import GitHubIterator
from urllib3.exceptions import HTTPError

from vibe_gate.domain.escape import show_text
from vibe_gate.domain.network import LOOPBACK, NetworkSettings
from vibe_gate.errors import ForgeError, UsageError
from vibe_gate.forge.session import (
    BACKOFF_S,
    BUDGET_S,
    FAILURES_S,
    REPEATS,
    SECONDARY_S,
    BoundedSession,
    BudgetSpent,
    OtherHost,
    Refused,
    TimeBudget,
    is_unnamed_limit,
    retry_failures,
    retry_limits,
    seconds_to_wait,
)
from vibe_gate.forge.shapes import Json, at

PER_PAGE = 100
MAX_PAGES = 50
"""GitHub closes a conversation at 2,500 comments; twice that is never read on."""

_PLAIN = {"Accept": "application/vnd.github+json"}
"""Without the HTML that github3's own header asks for, and its objects need."""

_LONGEST_MESSAGE = 300
_PERMISSION = re.compile(r"([a-z_]{1,40})=(read|write)")
_API_URL = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._/-]*)?\Z")
_TOKEN = re.compile(r"[!-~]{1,4096}\Z")


class RestClient:
    """Two sessions with one API: `once` sends a request once, `repeating` also after a failure.

    A request that GitHub limited is sent again by both. `doing` completes "GitHub refused to ...".
    """

    def __init__(
        self,
        api_url: str,
        token: str,
        *,
        network: NetworkSettings,
        pause: Callable[[float], None] = time.sleep,
        budget_s: float = BUDGET_S,
        failures_s: float = FAILURES_S,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        api_url = _check_api_url(api_url)
        if not _TOKEN.match(token):
            raise UsageError(
                "The token for GitHub is empty, or holds characters that no token has."
            )
        self._token = token
        self._budget = TimeBudget(budget_s, failures_s, pause)
        retries = retry_failures(self._budget, backoff_s)
        self.once = BoundedSession(api_url, token, network, retry_limits(self._budget))
        self.repeating = BoundedSession(api_url, token, network, retries)
        self._api_url = api_url

    def close(self) -> None:
        """Drop the connections."""
        self.once.close()
        self.repeating.close()

    def url(self, path: str) -> str:
        """The address of a path that begins with a slash."""
        return self._api_url + path

    def get(self, path: str, doing: str) -> Json:
        """The JSON at a path."""
        with self.errors_of(doing):
            return self.repeating.get(self.url(path), headers=_PLAIN).json()

    def post(self, path: str, body: Json, doing: str) -> Json:
        """Send once: whether it took effect is unknown after no answer (status 0) or a 5xx."""
        with self.errors_of(doing):
            return self.once.post(self.url(path), json=body, headers=_PLAIN).json()

    def query(self, graphql: str, variables: Json, doing: str) -> Json:
        """What GraphQL answers to a query, or to a mutation that bears to be repeated."""
        body = {"query": graphql, "variables": variables}
        with self.errors_of(doing):
            url = self.repeating.graphql_url
            answer = self.repeating.post(url, json=body, headers=_PLAIN).json()
        errors = at(answer, "errors")
        if not isinstance(errors, list) or not errors:
            return answer
        message = show_text(str(at(errors[0], "message") or "")[:200])
        forbidden = at(errors[0], "type") == "FORBIDDEN"
        status = HTTPStatus.FORBIDDEN if forbidden else HTTPStatus.UNPROCESSABLE_ENTITY
        raise ForgeError(f"GitHub refused to {doing}: {message}.", status)

    def items(
        self,
        path: str,
        doing: str,
        *,
        item_class: type = dict,
        parameters: Mapping[str, str] | None = None,
        list_key: str | None = None,
    ) -> Iterator[Any]:
        """A list, page by page: dicts, or github3's objects. `list_key` is the field it stands
        in.
        """
        query = {"per_page": str(PER_PAGE), **(parameters or {})}
        listing = _BoundedList(
            -1, self.url(path), item_class, self.repeating, query, headers=_PLAIN, list_key=list_key
        )
        while True:
            with self.errors_of(doing):
                item = next(listing, None)
            if item is None:
                return
            yield item

    def wait_after_failure(self, seconds: float) -> bool:
        """Wait before something is tried again; False if too little time is left for it."""
        return self._budget.wait_after_failure(seconds)

    @contextmanager
    def errors_of(self, doing: str) -> Iterator[None]:
        """Inside, whatever goes wrong with GitHub is a ForgeError."""
        try:
            yield
        except Refused as refused:
            raise self._refusal(refused.response, doing) from None
        except OtherHost:
            raise ForgeError("GitHub names another host for what follows; not followed.") from None
        except BudgetSpent:
            raise ForgeError(
                f"GitHub took too long before; vibe-gate did not try to {doing} any more."
            ) from None
        except _TooManyPages:
            raise ForgeError(
                f"GitHub has more than {MAX_PAGES} pages where vibe-gate tried to {doing}; it read no more."
            ) from None
        except requests.JSONDecodeError as error:
            raise _unreadable(doing) from error
        except (requests.RequestException, HTTPError, OSError) as error:
            raise self._no_answer(error, doing) from None
        except GitHubException as error:
            cause = getattr(error, "exception", None)
            if isinstance(cause, requests.RequestException):
                raise self._no_answer(cause, doing) from None
            raise _unreadable(doing) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _unreadable(doing) from error  # from github3, at a null or another type

    def _no_answer(self, error: Exception, doing: str) -> ForgeError:
        # The error's own text may hold a proxy's password.
        reason = f"{type(error).__name__} at {urlsplit(self._api_url).hostname}"
        return ForgeError(f"GitHub gave no answer when vibe-gate tried to {doing} ({reason}).")

    def _refusal(self, response: requests.Response, doing: str) -> ForgeError:
        status = response.status_code
        seconds = seconds_to_wait(status, response.headers)
        if seconds is None and is_unnamed_limit(response):
            seconds = SECONDARY_S
        if seconds is not None:
            # A limit may come as 403, too, which must not be taken for a refusal of the token.
            return ForgeError(
                f"GitHub asks to wait {seconds:.0f} s before vibe-gate may {doing}; it waits "
                f"{self._budget.total_s:.0f} s in all, and repeats a request {REPEATS} times.",
                HTTPStatus.TOO_MANY_REQUESTS,
            )
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return ForgeError(f"GitHub failed when vibe-gate tried to {doing} ({status}).", status)
        if response.is_redirect:
            return ForgeError(
                f"GitHub sent vibe-gate elsewhere when it tried to {doing} ({status}). "
                "If the repository was renamed, use its new name.",
                status,
            )
        if status == HTTPStatus.FORBIDDEN:
            permission = _lacking_permission(response.headers)
            if permission:
                sentence = f"GitHub refused to {doing} ({status}): the token lacks `{permission}`."
                return ForgeError(sentence, status, permission)
        detail = str(status)
        message = show_text(_message(response).replace(self._token, "***"))[:_LONGEST_MESSAGE]
        if message:
            detail += f": {message}"
        return ForgeError(f"GitHub refused to {doing} ({detail}).", status)


class _TooManyPages(Exception):
    """A list goes on after MAX_PAGES pages."""


class _BoundedList(GitHubIterator):  # type: ignore[misc]  # github3 has no types
    """github3's list, which ends at MAX_PAGES and refuses a page that is no list."""

    pages = 0

    def _get_json(self, response: requests.Response) -> list[Json]:
        page = super()._get_json(response)
        items = page if self.list_key is None else page[self.list_key]
        if not isinstance(items, list):
            raise TypeError("the page is not a list")
        self.pages += 1
        if self.pages == MAX_PAGES and response.links.get("next"):
            raise _TooManyPages
        return items


def _unreadable(doing: str) -> ForgeError:
    return ForgeError(
        f"What GitHub answered when vibe-gate tried to {doing} is not as it should be."
    )


def _lacking_permission(headers: Mapping[str, str]) -> str:
    """The permission that would do, as a workflow names it.

    "" if GitHub does not say, or asks for several at once.
    """
    alternatives = []
    for permission_set in headers.get("x-accepted-github-permissions", "").split(";"):
        match = _PERMISSION.fullmatch(permission_set.strip())
        if match:
            alternatives.append(f"{match[1].replace('_', '-')}: {match[2]}")
    return "` or `".join(alternatives)


def _message(response: requests.Response) -> str:
    """GitHub's words for a refusal; "" if there are none that can be read."""
    try:
        body = response.json()
    except ValueError:
        return ""
    sentences = [at(body, "message")]
    errors = at(body, "errors")
    if isinstance(errors, list):
        sentences += [at(error, "message") or error for error in errors[:10]]
    return "; ".join(sentence for sentence in sentences if isinstance(sentence, str))


def _check_api_url(api_url: str) -> str:
    """The API's address without a slash at its end. UsageError."""
    url = api_url.strip().rstrip("/")
    if not _API_URL.match(url):
        raise UsageError(
            "GitHub's API has no address like this; it looks like https://api.github.com."
        )
    if url.startswith("http:") and urlsplit(url).hostname not in LOOPBACK:
        raise UsageError(
            "GitHub's API is addressed by http://, and the token would go there for all to read; use https://."
        )
    return url
