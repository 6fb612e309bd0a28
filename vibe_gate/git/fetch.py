"""Commits that a shallow checkout does not have, fetched from where it came from. CI only.

Git asks the remote that the checkout names. A token goes along in the environment of
that one call, as a header for one server's addresses: never on a command line, never
into a configuration, never after a redirect, and never where the remote is elsewhere.
Nothing is checked out, no branch of the checkout's own is written, no hook, filter or submodule
is looked at.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from vibe_gate.domain.escape import expression
from vibe_gate.errors import InfrastructureError
from vibe_gate.git.program import Finished, Program, finish

DEPTHS = (50, 500)
"""Commits of history that are asked for at first, and then; after that all of it."""

PATIENCE_S = 180.0
"""Seconds for all that has to be fetched."""

NOTES_PATIENCE_S = 30.0
"""Seconds for git notes: without them a verdict is asked for again, no more."""

REMOTE = "origin"

_COMMIT = expression(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_SCHEMES = "file:git:http:https:ssh"  # no ext::, which would run a program that an address names


class Credentials(Struct, frozen=True):
    """A token, and whose addresses it is for."""

    server: str = ""
    """ "https://github.com" or the like; "" for no token."""

    token: str = ""

    def __repr__(self) -> str:  # without the token
        return f"<Credentials for {self.server or 'no server'}>"


def is_shallow(git: Program) -> bool:
    """Whether history is cut off somewhere, as of now."""
    return git.run("rev-parse", "--is-shallow-repository").line == "true"


def fetch_commits(
    git: Program,
    commits: Sequence[str],
    is_enough: Callable[[], bool],
    credentials: Credentials,
    patience_s: float = PATIENCE_S,
) -> str:
    """Fetch until `is_enough()`, with more history each time; "" then, else a few words about what
    stopped it.

    Where everything is here, nothing is fetched.

    Args:
        git: In the checkout.
        commits: Ids that the remote is asked for.
        is_enough: Whether what is needed is here.
        credentials: For the remote.
        patience_s: Seconds for all that has to be fetched.
    """
    if is_enough():
        return ""
    commit_ids = [commit for commit in commits if _COMMIT.match(commit)]
    if not commit_ids:
        return "that is no commit id"
    if not _has_remote(git):
        return f"this checkout has no remote called {REMOTE}"
    latest = time.monotonic() + patience_s
    problem = ""
    for options in _steps_of_history(git):
        attempt = _fetch(git, options, commit_ids, credentials, latest - time.monotonic())
        # It may have become whole meanwhile.
        if attempt.code and options == ["--unshallow"] and not is_shallow(git):
            attempt = _fetch(git, [], commit_ids, credentials, latest - time.monotonic())
        if is_enough():
            return ""
        problem = _describe_failure(attempt)
        if attempt.code and time.monotonic() >= latest:
            break
    return problem


def _steps_of_history(git: Program) -> list[list[str]]:
    """The options of one `git fetch` after the other, each of which brings more history."""
    if not is_shallow(git):
        return [[]]
    return [*([f"--depth={depth}"] for depth in DEPTHS), ["--unshallow"]]


def _has_remote(git: Program) -> bool:
    return not git.run("remote", "get-url", REMOTE).code


def fetch_branch(git: Program, name: str, credentials: Credentials) -> str:
    """Fetch a branch into its remote-tracking ref; "" then, else a few words about what stopped
    it.
    """
    ref = f"refs/heads/{name}"
    if git.run("check-ref-format", ref).code:
        return "that is not the name of a branch"
    if not _has_remote(git):
        return f"this checkout has no remote called {REMOTE}"
    depth = [f"--depth={DEPTHS[0]}"] if is_shallow(git) else []
    attempt = _fetch(git, depth, [f"+{ref}:refs/remotes/{REMOTE}/{name}"], credentials, PATIENCE_S)
    return _describe_failure(attempt) if attempt.code else ""


def fetch_notes(git: Program, ref: str, credentials: Credentials) -> None:
    """Fetch the notes of `refs/notes/<ref>`. A remote may have none."""
    if _has_remote(git):
        _fetch(git, [], [f"+refs/notes/{ref}:refs/notes/{ref}"], credentials, NOTES_PATIENCE_S)


def _fetch(
    git: Program,
    options: list[str],
    refspecs: list[str],
    credentials: Credentials,
    patience_s: float,
) -> Finished:
    command = (
        "-c",
        "fetch.recurseSubmodules=false",
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        *options,
        REMOTE,
        *refspecs,
    )
    process = git.start(*command, variables=_variables_for_fetch(git, credentials))
    try:
        return finish(process, patience_s=max(patience_s, 1.0))
    except InfrastructureError:
        return Finished(-1, b"", f"git fetch did not finish within {PATIENCE_S:g} seconds")


def _variables_for_fetch(git: Program, credentials: Credentials) -> dict[str, str]:
    """What the call gets on top: the schemes that may be used, and the header if the remote is the
    token's.
    """
    pairs = [("http.followRedirects", "false")]
    address = git.run("remote", "get-url", REMOTE).line if credentials.token else ""
    if credentials.token and _leads_to(address, credentials.server):
        header = f"http.{credentials.server}/.extraheader"
        user_and_token = f"x-access-token:{credentials.token}".encode()
        encoded = base64.b64encode(user_and_token).decode()
        # The empty one drops what is set already.
        pairs += [(header, ""), (header, f"AUTHORIZATION: basic {encoded}")]
    return {"GIT_ALLOW_PROTOCOL": _SCHEMES, **git.variables_for_settings(pairs)}


def _leads_to(address: str, server: str) -> bool:
    """Whether a remote's address is one of the server's, and names no user of its own."""
    try:
        remote_url, server_url = urlsplit(address), urlsplit(server)
        remote_host = (remote_url.scheme, remote_url.hostname, remote_url.port)
        server_host = (server_url.scheme, server_url.hostname, server_url.port)
    except ValueError:  # a port or a host that is none
        return False
    if remote_host != server_host or remote_url.username is not None:
        return False
    return server_url.scheme in ("https", "http")


def _describe_failure(attempt: Finished) -> str:
    """A few words about why what was asked for is not here."""
    if not attempt.code:
        return "the remote does not have them"
    lines = [line for line in attempt.err.splitlines() if line.strip()]
    cause = lines[-1] if lines else ""
    # The first such line has the cause; the last is often advice ("and the repository exists.").
    for line in lines:
        if line.startswith(("fatal: ", "error: ")):
            cause = line
            break
    words = cause.removeprefix("fatal: ").removeprefix("error: ")[:200]
    return words or f"git fetch ended with {attempt.code}"
