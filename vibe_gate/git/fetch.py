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
    """Whose addresses the token is for: `server` is "https://github.com" or the like; "" for no
    token.
    """

    server: str = ""
    token: str = ""

    def __repr__(self) -> str:  # without the token
        return f"<Credentials for {self.server or 'no server'}>"


def is_shallow(git: Program) -> bool:
    """Whether history is cut off somewhere, as of now."""
    return git.run("rev-parse", "--is-shallow-repository").line == "true"


def fetch(
    git: Program, commits: Sequence[str], enough: Callable[[], bool], credentials: Credentials
) -> str:
    """Fetch until `enough()`, with more history each time; "" then, else a few words about what
    stopped it.

    `commits` are ids that the remote is asked for. Where everything is here, nothing is fetched.
    """
    if enough():
        return ""
    wanted = [commit for commit in commits if _COMMIT.match(commit)]
    if not wanted:
        return "that is no commit id"
    if git.run("remote", "get-url", REMOTE).code:
        return f"this checkout has no remote called {REMOTE}"
    ends = time.monotonic() + PATIENCE_S
    steps = [f"--depth={depth}" for depth in DEPTHS] + ["--unshallow"] if is_shallow(git) else [""]
    said = ""
    for step in steps:
        done = _fetch(git, [step] if step else [], wanted, credentials, ends - time.monotonic())
        if (
            done.code and step == "--unshallow" and not is_shallow(git)
        ):  # it may have become whole meanwhile
            done = _fetch(git, [], wanted, credentials, ends - time.monotonic())
        if enough():
            return ""
        said = _reason(done)
        if done.code and time.monotonic() >= ends:
            break
    return said


def fetch_branch(git: Program, name: str, credentials: Credentials) -> str:
    """Fetch a branch into its remote-tracking ref; "" then, else a few words about what stopped
    it.
    """
    ref = f"refs/heads/{name}"
    if git.run("check-ref-format", ref).code:
        return "that is not the name of a branch"
    if git.run("remote", "get-url", REMOTE).code:
        return f"this checkout has no remote called {REMOTE}"
    depth = [f"--depth={DEPTHS[0]}"] if is_shallow(git) else []
    attempt = _fetch(git, depth, [f"+{ref}:refs/remotes/{REMOTE}/{name}"], credentials, PATIENCE_S)
    return _reason(attempt) if attempt.code else ""


def fetch_notes(git: Program, ref: str, credentials: Credentials) -> None:
    """Fetch the notes of `refs/notes/<ref>`. A remote may have none."""
    if not git.run("remote", "get-url", REMOTE).code:
        _fetch(git, [], [f"+refs/notes/{ref}:refs/notes/{ref}"], credentials, NOTES_PATIENCE_S)


def _fetch(
    git: Program, options: list[str], wanted: list[str], credentials: Credentials, patience_s: float
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
        *wanted,
    )
    try:
        return finish(
            git.start(*command, variables=_variables_for_fetch(git, credentials)),
            patience_s=max(patience_s, 1.0),
        )
    except InfrastructureError:
        return Finished(-1, b"", f"git fetch did not finish within {PATIENCE_S:g} seconds")


def _variables_for_fetch(git: Program, credentials: Credentials) -> dict[str, str]:
    """What the call gets on top: the schemes that may be used, and the header if the remote is the
    token's.
    """
    pairs = [("http.followRedirects", "false")]
    if credentials.token and _leads_to(
        git.run("remote", "get-url", REMOTE).line, credentials.server
    ):
        header = f"http.{credentials.server}/.extraheader"
        word = base64.b64encode(f"x-access-token:{credentials.token}".encode()).decode()
        pairs += [
            (header, ""),
            (header, f"AUTHORIZATION: basic {word}"),
        ]  # the empty one drops what is set already
    return {"GIT_ALLOW_PROTOCOL": _SCHEMES, **git.variables_for_settings(pairs)}


def _leads_to(address: str, server: str) -> bool:
    """Whether a remote's address is one of the server's, and names no user of its own."""
    try:
        there, ours = urlsplit(address), urlsplit(server)
        same = (there.scheme, there.hostname, there.port) == (ours.scheme, ours.hostname, ours.port)
    except ValueError:  # a port or a host that is none
        return False
    return same and ours.scheme in ("https", "http") and there.username is None


def _reason(done: Finished) -> str:
    lines = [line for line in done.err.splitlines() if line.strip()]
    if not done.code:
        return "the remote does not have them"
    # The first such line has the cause; the last is often advice ("and the repository exists.").
    cause = next(
        (line for line in lines if line.startswith(("fatal: ", "error: "))),
        lines[-1] if lines else "",
    )
    return (
        cause.removeprefix("fatal: ").removeprefix("error: ")[:200]
        or f"git fetch ended with {done.code}"
    )
