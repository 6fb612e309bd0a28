"""github3's objects by their address, without the request that github3 makes to fill their fields.

Only what each does at its address is used: their answers are in `as_dict()`.
"""

from __future__ import annotations

from typing import Any

from github3.checks import CheckRun
from github3.issues import Issue
from github3.issues.comment import IssueComment
from github3.models import GitHubCore
from github3.pulls import PullRequest, ReviewComment
from github3.repos import Repository

Json = Any


class _AtAddress(GitHubCore):  # type: ignore[misc]  # github3 has no types
    """Keeps an address, and the answers given there."""

    def _update_attributes(self, answer: Json) -> None:
        self._api = answer["url"]
        self._json_data = answer


class RepositoryAt(_AtAddress, Repository):  # type: ignore[misc]
    """For `create_check_run`."""


class CheckRunAt(_AtAddress, CheckRun):  # type: ignore[misc]
    """For `update`."""


class IssueAt(_AtAddress, Issue):  # type: ignore[misc]
    """For `create_comment`, of a pull request too."""


class IssueCommentAt(_AtAddress, IssueComment):  # type: ignore[misc]
    """For `edit` and `delete`."""


class PullRequestAt(_AtAddress, PullRequest):  # type: ignore[misc]
    """For `create_review`."""


class ReviewCommentAt(_AtAddress, ReviewComment):  # type: ignore[misc]
    """For `edit`."""
