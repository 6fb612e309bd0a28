"""Event files as GitHub writes them, cut to what a test needs, and the runner's environment around
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOME = "octo/hello"
NOBODY = "0" * 40


def repository(full_name: str = HOME) -> dict[str, Any]:
    return {"id": 1, "full_name": full_name, "default_branch": "main", "private": False}


def pull_request(
    base: str,
    head: str,
    *,
    number: int = 7,
    fork: bool = False,
    author: str = "ada",
    draft: bool = False,
) -> dict[str, Any]:
    origin = repository("eve/hello") if fork else repository()
    return {
        "action": "synchronize",
        "number": number,
        "repository": repository(),
        "pull_request": {
            "number": number,
            "draft": draft,
            "title": "x",
            "user": {"login": author, "id": 2},
            "base": {"sha": base, "ref": "main", "repo": repository()},
            "head": {"sha": head, "ref": "topic", "repo": origin},
        },
    }


def merge_group(base: str, head: str, number: int = 7) -> dict[str, Any]:
    group = {
        "base_sha": base,
        "head_sha": head,
        "head_ref": f"refs/heads/gh-readonly-queue/main/pr-{number}-{base}",
    }
    return {"action": "checks_requested", "repository": repository(), "merge_group": group}


def push(before: str, after: str, ref: str = "refs/heads/main", **fields: Any) -> dict[str, Any]:
    return {"repository": repository(), "ref": ref, "before": before, "after": after} | fields


def dispatch(ref: str = "refs/heads/topic") -> dict[str, Any]:
    return {"repository": repository(), "ref": ref, "inputs": None}


def workflow_run(
    head: str, *, run: int = 99, origin: str = HOME, branch: str = "topic"
) -> dict[str, Any]:
    other = {
        "id": run,
        "event": "pull_request",
        "head_sha": head,
        "head_branch": branch,
        "pull_requests": [],
    }
    return {
        "repository": repository(),
        "workflow_run": other | {"head_repository": repository(origin)},
    }


def issue_comment(comment: int, body: str, number: int = 7) -> dict[str, Any]:
    """As GitHub sends it; what it says of the author and his association is never read."""
    user = {"login": "octocat", "type": "User", "site_admin": True}
    said_by = {"user": user, "author_association": "OWNER"}
    fields = {"id": comment, "body": body, **said_by}
    return {"action": "created", "repository": repository(), "issue": {"number": number, "pull_request": {"url": ""}},
            "comment": fields}  # fmt: skip


def runner(
    folder: Path, name: str, event: object, environ: Mapping[str, str], **variables: str
) -> dict[str, str]:
    """The environment of a job; its files are below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "temp").mkdir(exist_ok=True)
    raw = event if isinstance(event, bytes) else json.dumps(event).encode()
    (folder / "event.json").write_bytes(raw)
    for file in ("output", "summary"):
        (folder / file).touch()
    return {
        **environ,
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_REPOSITORY": HOME,
        "GITHUB_RUN_ID": "4711",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_JOB": "gate",
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "RUNNER_TEMP": str(folder / "temp"),
    } | variables


def outputs(folder: Path) -> dict[str, str]:
    """The outputs that a step set, as the runner reads them."""
    values: dict[str, str] = {}
    lines = iter((folder / "output").read_text().split("\n"))
    for line in lines:
        if not line:
            continue
        name, _, mark = line.partition("<<")
        value = []
        while (inner := next(lines)) != mark:
            value.append(inner)
        values[name] = "\n".join(value)
    return values
