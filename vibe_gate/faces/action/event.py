"""What happened, from the runner's event file: read for its shape only, and trusted for no more than it says.

A fork decides what many of its strings are, so nothing of them is used but commit
ids, numbers and names of a known form; what else there is, is ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from vibe_gate.domain import paths
from vibe_gate.errors import UsageError

MAX_BYTES = 32 << 20
"""Of an event file: GitHub's own limit for what it sends is 25 MB."""

NOBODY = "0" * 40
"""GitHub's commit id for a missing commit."""

Kind = Literal["pull_request", "merge_group", "push", "workflow_dispatch", "workflow_run"]

CommitId = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
Number = Annotated[int, Field(gt=0, lt=1 << 53)]
FullName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}$")]
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,100}(?:\[bot\])?$")]
Ref = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class _Seen(BaseModel):
    """A part of an event: what is known is checked, what is not is ignored, for GitHub adds to it all the time."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _User(_Seen):
    login: Login


class _Repository(_Seen):
    full_name: FullName
    default_branch: Ref = ""


class _Side(_Seen):
    sha: CommitId
    ref: Ref = ""
    repo: _Repository | None = None


class _Pull(_Seen):
    number: Number
    base: _Side
    head: _Side
    user: _User | None = None


class _PullEvent(_Seen):
    repository: _Repository
    pull_request: _Pull


class _Group(_Seen):
    base_sha: CommitId
    head_sha: CommitId
    head_ref: Ref = ""


class _GroupEvent(_Seen):
    repository: _Repository
    merge_group: _Group


class _PushEvent(_Seen):
    repository: _Repository
    ref: Ref
    before: CommitId
    after: CommitId
    deleted: bool = False
    forced: bool = False


class _DispatchEvent(_Seen):
    repository: _Repository
    ref: Ref = ""


class _OtherRun(_Seen):
    id: Number
    event: Ref
    head_sha: CommitId
    head_branch: Ref | None = None
    head_repository: _Repository | None = None


class _RunEvent(_Seen):
    repository: _Repository
    workflow_run: _OtherRun


@dataclass(frozen=True, slots=True)
class Trigger:
    """What the job is about. `base` and `head` are commit ids as the event names them, "" if it does not.

    `number`, `author` and `fork` are the pull request's; of a merge group `queued` is
    the number in its ref. `branch` is the pushed or dispatched ref. `run` and `origin`
    belong to a `workflow_run`: the other run, and the repository its head came from.
    """

    kind: Kind
    repository: str
    base: str = ""
    head: str = ""
    number: int | None = None
    author: str = ""
    fork: bool = False
    default_branch: str = ""
    branch: str = ""
    forced: bool = False
    queued: int | None = None
    run: int | None = None
    origin: str = ""


_REFUSED = {
    "pull_request_target": "it runs with the secrets and the token of the base repository, while commands of the gate "
    "run on the code of whoever opened the pull request. Use `on: pull_request`; for forks, a second workflow "
    "`on: workflow_run` with `vibe-gate post --from-artifact` (docs/github.md)",
    "schedule": "there is no change to review. Use `workflow_dispatch` with the input `base`",
    "issue_comment": "it says nothing about commits. Use `on: pull_request`",
}


def read_event(environ: Mapping[str, str]) -> Trigger:
    """The trigger of this job. UsageError: an unsupported event, or a file that is not what GitHub writes."""
    name = environ.get("GITHUB_EVENT_NAME", "")
    if not name:
        raise UsageError("GITHUB_EVENT_NAME is not set: this command is for a job of GitHub Actions.")
    if name not in _READERS:
        why = _REFUSED.get(name, f"it can be {', '.join(sorted(_READERS))}")
        raise UsageError(f"The gate does not run on the event {paths.quote(name[:80])}: {why}.")
    raw = _read(environ.get("GITHUB_EVENT_PATH", ""))
    try:
        trigger = _READERS[name](raw, environ)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"The event file is not what GitHub writes: {paths.quote(where)}: {first['msg']}.") from None
    expected = environ.get("GITHUB_REPOSITORY", trigger.repository)
    if expected.casefold() != trigger.repository.casefold():
        raise UsageError(
            f"The event file is about {trigger.repository}, GITHUB_REPOSITORY says {paths.quote(expected[:200])}."
        )
    return trigger


def _read(place: str) -> bytes:
    if not place:
        raise UsageError("GITHUB_EVENT_PATH is not set: this command is for a job of GitHub Actions.")
    try:
        with Path(place).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"The event file {paths.quote(place)} cannot be read: {error.strerror}.") from error
    if max(size, len(raw)) > MAX_BYTES:
        raise UsageError(f"The event file is larger than {MAX_BYTES >> 20} MB, more than GitHub sends.")
    try:
        if not isinstance(json.loads(raw), dict):
            raise ValueError("no object")
    except (ValueError, RecursionError):
        raise UsageError("The event file is no JSON object, so it is not what GitHub writes.") from None
    return raw


def _pull_request(raw: bytes, environ: Mapping[str, str]) -> Trigger:
    event = _PullEvent.model_validate_json(raw)
    pull = event.pull_request
    home = pull.base.repo.full_name if pull.base.repo else event.repository.full_name
    origin = pull.head.repo.full_name if pull.head.repo else ""  # its repository may be deleted
    return Trigger(
        kind="pull_request",
        repository=event.repository.full_name,
        base=pull.base.sha,
        head=pull.head.sha,
        number=pull.number,
        author=pull.user.login if pull.user else "",
        fork=origin.casefold() != home.casefold(),
        default_branch=event.repository.default_branch,
        branch=pull.base.ref,
    )


def _merge_group(raw: bytes, environ: Mapping[str, str]) -> Trigger:
    event = _GroupEvent.model_validate_json(raw)
    group = event.merge_group
    return Trigger(
        kind="merge_group",
        repository=event.repository.full_name,
        base=group.base_sha,
        head=group.head_sha,
        default_branch=event.repository.default_branch,
        queued=_queued(group.head_ref),
    )


def _queued(ref: str) -> int | None:
    """The pull request in `gh-readonly-queue/main/pr-104-<id>`."""
    name, _, commit = ref.rpartition("/")[2].removeprefix("pr-").partition("-")
    return int(name) if commit and name.isascii() and name.isdecimal() and len(name) < 12 and int(name) else None


def _push(raw: bytes, environ: Mapping[str, str]) -> Trigger:
    event = _PushEvent.model_validate_json(raw)
    gone = event.deleted or event.after == NOBODY
    return Trigger(
        kind="push",
        repository=event.repository.full_name,
        base="" if event.before == NOBODY else event.before,
        head="" if gone else event.after,
        default_branch=event.repository.default_branch,
        branch=event.ref,
        forced=event.forced,
    )


def _dispatch(raw: bytes, environ: Mapping[str, str]) -> Trigger:
    event = _DispatchEvent.model_validate_json(raw)
    head = environ.get("GITHUB_SHA", "")
    if len(head) not in (40, 64) or set(head) - set("0123456789abcdef"):
        raise UsageError("GITHUB_SHA is no commit id: this command is for a job of GitHub Actions.")
    return Trigger(
        kind="workflow_dispatch",
        repository=event.repository.full_name,
        head=head,
        default_branch=event.repository.default_branch,
        branch=event.ref,
    )


def _workflow_run(raw: bytes, environ: Mapping[str, str]) -> Trigger:
    event = _RunEvent.model_validate_json(raw)
    other = event.workflow_run
    origin = other.head_repository.full_name if other.head_repository else ""
    return Trigger(
        kind="workflow_run",
        repository=event.repository.full_name,
        head=other.head_sha,
        fork=origin.casefold() != event.repository.full_name.casefold(),
        default_branch=event.repository.default_branch,
        branch=other.head_branch or "",
        run=other.id,
        origin=origin,
    )


_READERS = {
    "pull_request": _pull_request,
    "pull_request_review": _pull_request,
    "merge_group": _merge_group,
    "push": _push,
    "workflow_dispatch": _dispatch,
    "workflow_run": _workflow_run,
}
