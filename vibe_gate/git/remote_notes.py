"""Lines added to the git notes of a remote: on the notes that it has, and on nothing else of this
clone.

Notes of this clone may be of another remote, so they are no part of what leaves. The new notes are
made in the scratch folder and pushed from there, with the user's configuration and credentials, as
the push that is under way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from vibe_gate.domain import paths
from vibe_gate.errors import InfrastructureError, StorageError
from vibe_gate.git.object_store import Objects, alternates_entry
from vibe_gate.git.program import Finished, Program, finish
from vibe_gate.git.revisions import MAX_NOTE_BYTES

ATTEMPTS = 5
"""Times that notes are made on what the remote has then: another push may add some in between."""

PATIENCE_S = 60.0
"""Seconds for all of it: the push waits."""

_MADE = "shared"
"""The notes' ref in the scratch folder."""


def add_lines(
    git: Program, objects: Objects, url: str, ref: str, lines: Mapping[str, Sequence[bytes]]
) -> str:
    """Add the lines (without LF) to the notes of `refs/notes/<ref>` at `url`, by the commit; why
    that failed, or "".

    What is there stays. Our own notes of that ref follow, unless they hold something else.
    """
    remote, seen, refused = _RemoteNotes(git, objects, url, f"refs/notes/{ref}"), None, ""
    try:
        for _ in range(ATTEMPTS):
            there = remote.tip()
            if there == seen:  # nobody was faster: it does not want them
                return refused
            made = _made(objects, there, lines)
            if made == there or not (refused := remote.push(made)):
                remote.push(made, ".")
                return ""
            seen = there
    except (InfrastructureError, StorageError) as error:
        return str(error)
    return f"others pushed notes {ATTEMPTS} times in between; push again"


class _RemoteNotes:
    """One ref of a remote."""

    def __init__(self, git: Program, objects: Objects, url: str, ref: str) -> None:
        self._git = git
        self._objects = objects
        self._url = url
        self._ref = ref
        self._ends = time.monotonic() + PATIENCE_S

    def tip(self) -> str:
        """The commit that the remote has there, which is here then, or "". InfrastructureError."""
        listed = self._run("ls-remote", "--", self._url, self._ref)
        if listed.code:
            raise InfrastructureError(_reason(listed))
        rows = [line.split("\t") for line in listed.line.split("\n")]
        tip = next((row[0] for row in rows if row[1:] == [self._ref]), "")
        if tip and self._git.run("cat-file", "-e", f"{tip}^{{commit}}").code:
            fetched = self._run(
                "-c",
                "fetch.recurseSubmodules=false",
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-recurse-submodules",
                "--no-write-fetch-head",
                "--no-auto-maintenance",
                "--",
                self._url,
                self._ref,
            )
            if fetched.code:
                raise InfrastructureError(_reason(fetched))
        return tip

    def push(self, commit: str, url: str = "") -> str:
        """Push a commit of the scratch folder, there or to another `url`; why that failed, or
        "".
        """
        done = self._run(
            # Of the user's settings none may send more than this, or say more to the server.
            "-c",
            "push.followTags=false",
            "-c",
            "push.pushOption=",
            "push",
            "--quiet",
            "--no-verify",
            "--recurse-submodules=no",
            "--",
            url or self._url,
            f"{commit}:{self._ref}",
            variables=self._borrowing(),
        )
        return _reason(done) if done.code else ""

    def _borrowing(self) -> dict[str, str]:
        """What lets the user's git read objects of the scratch folder."""
        own = alternates_entry(os.fspath(self._objects.folder / "objects"))
        before = self._git.child_environment.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "")
        return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(filter(None, (own, before)))}

    def _run(self, *arguments: str, variables: Mapping[str, str] | None = None) -> Finished:
        patience = max(self._ends - time.monotonic(), 1.0)
        return finish(self._git.start(*arguments, variables=variables), patience_s=patience)


def _made(objects: Objects, there: str, lines: Mapping[str, Sequence[bytes]]) -> str:
    """The commit of notes that has the lines, too, made on the commit `there` ("" for none).
    StorageError.
    """
    git, ref = objects.bare, f"refs/notes/{_MADE}"
    git.run(*(("update-ref", ref, there) if there else ("update-ref", "-d", ref)))
    for commit, wanted in lines.items():
        listed = git.run("notes", f"--ref={_MADE}", "list", commit)
        old = b""
        if not listed.code:
            if objects.database.size(listed.line) > MAX_NOTE_BYTES:
                continue  # nobody reads it
            old = objects.database.read(listed.line).data
        known = old.split(b"\n")
        if not (new := [line for line in wanted if line not in known]):
            continue
        text = b"".join(line + b"\n" for line in (*filter(None, known), *new))
        blob = git.run("hash-object", "-w", "--stdin", stdin=text)
        done = git.run(
            "notes", f"--ref={_MADE}", "add", "-f", "-C", blob.line, commit, variables=_WRITER
        )
        if blob.code or done.code:
            raise StorageError(
                f"the note on {commit[:12]} cannot be made: {(done if done.code else blob).said}"
            )
    return git.run("rev-parse", "--verify", "--quiet", ref).line


_WRITER = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "vibe-gate"), ("EMAIL", "vibe-gate@localhost"))
}
"""Of the commit of notes: a person of this clone need not have a name."""


def _reason(done: Finished) -> str:
    """What git, or the remote, says: the line that names the cause, else the first."""
    lines = [line.strip() for line in done.err.splitlines() if line.strip()]
    marks = ("! [", "remote: error", "remote: fatal", "fatal: ", "error: ")
    causes = (line for mark in marks for line in lines if line.startswith(mark))
    return paths.quote(next(causes, lines[0] if lines else f"git ended with {done.code}")[:300])
