"""What happened, from the runner's event file: read for its shape only, and trusted for no more
than it says.

A fork decides what many of its strings are, so nothing of them is used but commit
ids, numbers and names of a known form; what else there is, is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from vibe_gate.domain import paths
from vibe_gate.errors import UsageError

NOBODY = "0" * 40
"""GitHub's commit id for a missing commit."""

Kind = Literal[
    "pull_request",
    "merge_group",
    "push",
    "workflow_dispatch",
    "schedule",
    "workflow_run",
    "issue_comment",
]

CommitId = Annotated[
    str,
    StringConstraints(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$"),
    AfterValidator(lambda commit: "" if commit == NOBODY else commit),
]
Number = Annotated[int, Field(gt=0, lt=1 << 53)]
FullName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}$")
]
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,100}(?:\[bot\])?$")]
Ref = Annotated[str, StringConstraints(max_length=1000)]

_QUEUED = re.compile(r"/pr-([1-9][0-9]{0,10})-[^/]*\Z")
"""The pull request in `gh-readonly-queue/main/pr-104-<id>`."""


class Trigger(BaseModel):
    """What the job is about, as far as the event says it; "" or None for what it does not."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Kind
    repository: FullName
    default_branch: Ref = ""
    base: CommitId = ""
    """The commit that the event compares with."""
    head: CommitId = ""
    """The commit that is reviewed."""
    number: Number | None = None
    """The pull request's."""
    author: Login = ""
    """Of the pull request."""
    draft: bool = False
    """Whether the pull request is one."""
    reviewed: bool = False
    """Whether a review of the pull request started the job."""
    branch: Ref = ""
    """The pushed or dispatched ref; of a pull request the branch that it is to be merged into."""
    merge: CommitId = ""
    """The commit by which GitHub merged a pull request for this job."""
    forced: bool = False
    """Whether it was a forced push."""
    run: Number | None = None
    """Of a `workflow_run`: the other run."""
    origin: FullName = ""
    """The repository that the head came from."""
    comment: Number | None = None
    """A comment's number."""
    said: str = ""
    """The comment's text."""

    @property
    def fork(self) -> bool:
        """Whether the head is another repository's, or one's that is gone."""
        if self.kind not in ("pull_request", "workflow_run"):
            return False
        return self.origin.casefold() != self.repository.casefold()

    @property
    def queued(self) -> int | None:
        """The pull request that a merge group is about: the number in its ref."""
        if self.kind != "merge_group":
            return None
        match = _QUEUED.search(self.branch)
        return int(match[1]) if match else None


_REPOSITORY = {"repository": "repository.full_name", "default_branch": "repository.default_branch"}
_PULL = {
    "base": "pull_request.base.sha",
    "head": "pull_request.head.sha",
    "number": "pull_request.number",
    "author": "pull_request.user.login",
    "draft": "pull_request.draft",
    "branch": "pull_request.base.ref",
    "merge": "GITHUB_SHA",
    "origin": "pull_request.head.repo.full_name",  # null if that repository was deleted
}
_PLACES: dict[str, dict[str, str]] = {
    "pull_request": _PULL,
    "pull_request_review": _PULL,
    "merge_group": {
        "base": "merge_group.base_sha",
        "head": "merge_group.head_sha",
        "branch": "merge_group.head_ref",
    },
    "push": {"base": "before", "head": "after", "branch": "ref", "forced": "forced"},
    "workflow_dispatch": {"head": "GITHUB_SHA", "branch": "ref"},
    "schedule": {"head": "GITHUB_SHA"},
    "workflow_run": {
        "head": "workflow_run.head_sha",
        "branch": "workflow_run.head_branch",
        "run": "workflow_run.id",
        "origin": "workflow_run.head_repository.full_name",
    },
    "issue_comment": {"number": "issue.number", "comment": "comment.id", "said": "comment.body"},
}
"""Where the fields of a trigger stand, by the event's name."""

_FORMS = {
    "repository": "OWNER/NAME",
    "origin": "OWNER/NAME",
    "base": "a commit id",
    "head": "a commit id",
    "merge": "a commit id",
    "number": "a number",
    "run": "a number",
    "comment": "a number",
    "author": "a login",
    "forced": "true or false",
}
"""What a field must be; text (without halves of surrogate pairs) if it is not named here."""

_REQUIRED = ("repository", "base", "head", "number", "run", "comment")

_REFUSED = (
    "it runs with the secrets and the token of the base repository, while commands of the gate "
    "run on the code of whoever opened the pull request. Use `on: pull_request`; for forks, a second workflow "
    "`on: workflow_run` with `vibe-gate post --from-artifact` (docs/guides/github.md)"
)
"""Why it does not run on `pull_request_target`."""


def read_trigger(variables: Mapping[str, str]) -> Trigger:
    """The trigger of this job. UsageError: an unsupported event, or a file that is not what GitHub
    writes.
    """
    name, place = variables.get("GITHUB_EVENT_NAME", ""), variables.get("GITHUB_EVENT_PATH", "")
    if not name or not place:
        missing = "GITHUB_EVENT_PATH" if name else "GITHUB_EVENT_NAME"
        raise UsageError(f"{missing} is not set: this command is for a job of GitHub Actions.")
    if name not in _PLACES:
        reason = f"it can be {', '.join(sorted(_PLACES))}"
        if name == "pull_request_target":
            reason = _REFUSED
        raise UsageError(f"The gate does not run on the event {paths.quote(name[:80])}: {reason}.")
    event = _read_event_file(place)
    values = event | _runner_values(name, variables) if isinstance(event, dict) else {}
    trigger = _trigger(name, values)
    expected = variables.get("GITHUB_REPOSITORY", trigger.repository)
    if expected.casefold() != trigger.repository.casefold():
        raise UsageError(
            f"The event file is about {trigger.repository}, GITHUB_REPOSITORY says "
            f"{paths.quote(expected[:200])}."
        )
    return trigger


def _read_event_file(place: str) -> object:
    try:
        return json.loads(Path(place).read_bytes())
    except OSError as error:
        raise UsageError(
            f"The event file {paths.quote(place)} cannot be read: {error.strerror}."
        ) from error
    except (ValueError, RecursionError):
        raise UsageError("The event file is no JSON, so it is not what GitHub writes.") from None


def _runner_values(name: str, variables: Mapping[str, str]) -> dict[str, object]:
    """What the runner's environment says in place of the event's file."""
    values: dict[str, object] = {"GITHUB_SHA": variables.get("GITHUB_SHA")}
    if name == "schedule":  # GitHub promises no payload; it always is about the default branch
        branch = variables.get("GITHUB_REF", "").removeprefix("refs/heads/")
        repository = variables.get("GITHUB_REPOSITORY")
        values["repository"] = {"full_name": repository, "default_branch": branch}
    return values


def _trigger(name: str, event: Mapping[str, object]) -> Trigger:
    """The trigger that an event of this name is. UsageError: it lacks a field, or has another
    form.
    """
    values: dict[str, object] = {
        "kind": name.removesuffix("_review"),
        "reviewed": name == "pull_request_review",
    }
    places = _REPOSITORY | _PLACES[name]
    for field, place in places.items():
        value = _value_at(event, place)
        if value is not None or field in _REQUIRED:
            values[field] = value
    try:
        return Trigger.model_validate(values)
    except ValidationError as error:
        field = str(error.errors(include_url=False, include_input=False)[0]["loc"][0])
        problem = "missing" if values[field] is None else f"not {_FORMS.get(field, 'text')}"
        raise UsageError(
            f"The event file is not what GitHub writes: {places[field]} is {problem}."
        ) from None


def _value_at(event: object, place: str) -> object:
    """The value at this path; None if there is none."""
    for name in place.split("."):
        event = event.get(name) if isinstance(event, dict) else None
    return event
