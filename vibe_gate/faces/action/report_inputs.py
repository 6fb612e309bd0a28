"""What a report for a forge takes from a clone: the run's change, and which lines changed since an
earlier round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.leaving import may_leave
from vibe_gate.errors import GateError, RevisionError
from vibe_gate.git import Credentials, open_repository
from vibe_gate.report.lines_since import LinesBetween, lines_between
from vibe_gate.secrets import Redactor
from vibe_gate.store.run_result import read_bundle

MAX_PATCH = 16 << 20
"""Bytes of a change that comments quote: GitHub shows far less."""


def lines_since(
    start: Path, environment: Environment, head: str, credentials: Credentials
) -> Callable[[str], LinesBetween | None]:
    """For an earlier head: what changed until `head`; None if one of the two cannot be had."""

    @cache
    def changed_since(earlier: str) -> LinesBetween | None:
        try:
            with open_repository(start, environment) as repository:
                heads = (earlier, head)  # the job that posts for a fork has checked out neither
                if repository.fetch(heads, lambda: all(map(repository.has, heads)), credentials):
                    return None
                change = repository.change(Selection("range", earlier, head))
                return lines_between(repository.patch(change), change.files)
        except GateError:
            return None

    return changed_since


def stored_patch(bundle: Path | None) -> str:
    """The change as a run keeps it, redacted; "" if there is none that comments could quote."""
    if bundle is None:
        return ""
    try:
        patch = read_bundle(bundle).change_patch
    except GateError:
        return ""
    return _quotable_text(patch)


def pull_patch(
    start: Path, environment: Environment, base: str, head: str, credentials: Credentials
) -> str:
    """What a pull request changes, from its commits and redacted: from where the commits `base` and
    `head` parted to `head`, of which nothing is checked out.

    "" if the commits cannot be had, or if comments could not quote it.
    """
    try:
        with open_repository(start, environment) as repository:

            def has_merge_base() -> bool:
                try:
                    return bool(repository.merge_base(base, head, f"{base}...{head}"))
                except RevisionError:
                    return False

            if repository.fetch((base, head), has_merge_base, credentials):
                return ""
            change = repository.change(Selection("merge_base", base, head))
            patch = repository.patch(change)
    except GateError:
        return ""
    if len(patch) > MAX_PATCH:
        return ""
    return Redactor(environment.variables).data(patch).decode("utf-8", "surrogateescape")


def run_may_leave(bundle: Path) -> bool:
    """Whether a run's conversations, and what its agents changed, may leave the clone: into comments,
    suggested changes and artifacts.

    `artifact: none` does not decide this: it says which files are uploaded, and comments have inputs
    of their own. A run that cannot be read stays.
    """
    try:
        return may_leave(read_bundle(bundle).run_document.get("shown"))
    except GateError:
        return False


def read_patch(patch_file: Path) -> str:
    """A redacted patch as text; "" if there is none that comments could quote."""
    try:
        with patch_file.open("rb") as file:
            raw = file.read(MAX_PATCH + 1)
    except OSError:
        return ""
    return _quotable_text(raw)


def _quotable_text(patch: bytes) -> str:
    if len(patch) > MAX_PATCH:
        return ""
    return patch.decode("utf-8", "surrogateescape")
