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

_SCRATCH_REF = "refs/notes/shared"
"""The notes' ref in the scratch folder."""


def add_lines(
    git: Program,
    objects: Objects,
    url: str,
    ref: str,
    lines: Mapping[str, Sequence[bytes]],
    patience_s: float = PATIENCE_S,
) -> str:
    """Add lines to the notes of a remote; why that failed, or "".

    What is there stays. Our own notes of that ref follow, unless they hold something else.

    Args:
        git: In the user's repository.
        objects: Its objects; the notes are made in its scratch folder.
        url: Of the remote.
        ref: The notes' name below refs/notes.
        lines: By commit what its note is to have, without LF.
        patience_s: Seconds for all of it.
    """
    remote = _RemoteNotes(git, objects, url, f"refs/notes/{ref}", patience_s)
    refused_tip: str | None = None
    refusal = ""
    try:
        for _ in range(ATTEMPTS):
            tip = remote.tip()
            if tip == refused_tip:  # nobody was faster: it does not want them
                return refusal
            commit = _make_notes(objects, tip, lines)
            if commit != tip:
                refusal = remote.push(commit)
            if commit == tip or not refusal:
                remote.push(commit, ".")
                return ""
            refused_tip = tip
    except (InfrastructureError, StorageError) as error:
        return str(error)
    return f"others pushed notes {ATTEMPTS} times in between; push again"


class _RemoteNotes:
    """One ref of a remote."""

    def __init__(
        self, git: Program, objects: Objects, url: str, ref: str, patience_s: float
    ) -> None:
        self._git = git
        self._objects = objects
        self._url = url
        self._ref = ref
        self._latest = time.monotonic() + patience_s

    def tip(self) -> str:
        """The commit that the remote has there, which is here then, or "". InfrastructureError."""
        listed = self._run("ls-remote", "--", self._url, self._ref)
        if listed.code:
            raise InfrastructureError(_describe_failure(listed))
        tip = ""
        for line in listed.line.split("\n"):
            commit, _, ref = line.partition("\t")
            if ref == self._ref:
                tip = commit
                break
        if tip and self._git.run("cat-file", "-e", f"{tip}^{{commit}}").code:
            self._fetch()
        return tip

    def _fetch(self) -> None:
        """Have the remote's notes here. InfrastructureError."""
        attempt = self._run(
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
        if attempt.code:
            raise InfrastructureError(_describe_failure(attempt))

    def push(self, commit: str, url: str = "") -> str:
        """Push a commit of the scratch folder, there or to another `url`; why that failed, or
        "".
        """
        attempt = self._run(
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
            variables=self._variables_with_scratch(),
        )
        return _describe_failure(attempt) if attempt.code else ""

    def _variables_with_scratch(self) -> dict[str, str]:
        """What lets the user's git read objects of the scratch folder."""
        scratch = alternates_entry(os.fspath(self._objects.folder / "objects"))
        alternates = self._git.child_environment.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "")
        folders = ":".join(filter(None, (scratch, alternates)))
        return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": folders}

    def _run(self, *arguments: str, variables: Mapping[str, str] | None = None) -> Finished:
        patience_s = max(self._latest - time.monotonic(), 1.0)
        process = self._git.start(*arguments, variables=variables)
        return finish(process, patience_s=patience_s)


def _make_notes(objects: Objects, tip: str, lines: Mapping[str, Sequence[bytes]]) -> str:
    """The commit of notes that has the lines, too, made on the commit `tip` ("" for none).
    StorageError.
    """
    git = objects.bare
    if tip:
        git.run("update-ref", _SCRATCH_REF, tip)
    else:
        git.run("update-ref", "-d", _SCRATCH_REF)
    for commit, lines_of_commit in lines.items():
        note = git.run("notes", f"--ref={_SCRATCH_REF}", "list", commit)
        content = b""
        if not note.code:
            if objects.database.size(note.line) > MAX_NOTE_BYTES:
                continue  # nobody reads it
            content = objects.database.read(note.line).data
        old_lines = content.split(b"\n")
        new_lines = [line for line in lines_of_commit if line not in old_lines]
        if new_lines:
            _write_note(git, commit, [*filter(None, old_lines), *new_lines])
    return git.run("rev-parse", "--verify", "--quiet", _SCRATCH_REF).line


def _write_note(git: Program, commit: str, lines: Sequence[bytes]) -> None:
    """Put a note of these lines in the place of the commit's. StorageError."""
    content = b"".join(line + b"\n" for line in lines)
    command = git.run("hash-object", "-w", "--stdin", stdin=content)
    if not command.code:
        arguments = ("notes", f"--ref={_SCRATCH_REF}", "add", "-f", "-C", command.line, commit)
        command = git.run(*arguments, variables=_WRITER)
    if command.code:
        raise StorageError(f"the note on {commit[:12]} cannot be made: {command.complaint}")


_WRITER = {
    "GIT_AUTHOR_NAME": "vibe-gate",
    "GIT_AUTHOR_EMAIL": "vibe-gate@localhost",
    "GIT_COMMITTER_NAME": "vibe-gate",
    "GIT_COMMITTER_EMAIL": "vibe-gate@localhost",
}
"""Of the commit of notes: a person of this clone need not have a name."""


def _describe_failure(attempt: Finished) -> str:
    """What git, or the remote, says: the line that names the cause, else the first."""
    lines = [line.strip() for line in attempt.err.splitlines() if line.strip()]
    cause = lines[0] if lines else f"git ended with {attempt.code}"
    for mark in ("! [", "remote: error", "remote: fatal", "fatal: ", "error: "):
        marked_lines = [line for line in lines if line.startswith(mark)]
        if marked_lines:
            cause = marked_lines[0]
            break
    return paths.quote(cause[:300])
