"""Policy changes: what a change does to the gate itself, and to what steers agents and tests."""

from __future__ import annotations

import hashlib
from typing import Literal

from vibe_gate.domain import paths
from vibe_gate.domain.change import SUBMODULE_MODE, SYMLINK_MODE, Change, FileChange
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.verdict import Finding

FINGERPRINT = 16
"""Hex digits of a fingerprint, as of findings."""

PolicyFiles = tuple[tuple[FileChange, Literal["block", "warn"]], ...]
"""Changed files that are policy, each with what its change means."""


def touches(file: FileChange, globs: tuple[str, ...]) -> bool:
    """Whether either name of the file matches."""
    return paths.matches(file.path, globs) or (file.old_path is not None and paths.matches(file.old_path, globs))


def policy_files(change: Change, gate: Gate) -> PolicyFiles:
    """The files of a change that the gate's policy speaks of, or that move what its paths speak of.

    The first definitions of all (origin "bootstrap") are to be looked at, but need no
    approval here: there is nothing yet that they could weaken.
    """
    found: list[tuple[FileChange, Literal["block", "warn"]]] = []
    for file in change.files:
        first = gate.origin == "bootstrap" and file.change_type == "added" and touches(file, (".vibe-gate/**",))
        if first or not (touches(file, gate.file.policy.block) or _diverts(file, gate)):
            if first or touches(file, gate.file.policy.warn):
                found.append((file, "warn"))
        else:
            found.append((file, "block"))
    return tuple(found)


def _diverts(file: FileChange, gate: Gate) -> bool:
    """Whether a new link or submodule stands where the gate's paths expect a folder: what it leads to escapes them."""
    if file.after is None or file.after.mode not in (SYMLINK_MODE, SUBMODULE_MODE):
        return False
    if file.before is not None and file.before.mode == file.after.mode == SUBMODULE_MODE:
        return False
    scopes = [glob for scope in gate.file.scope for glob in scope.paths]
    criteria = [glob for rubric in gate.rubrics for criterion in rubric.criterion for glob in criterion.paths]
    return any(glob.lstrip("/").startswith(file.path + "/") for glob in (*scopes, *criteria))


def fingerprint(files: PolicyFiles) -> str:
    """What names the blocking changes among `files`: their paths and both contents, as 16 hex digits; "" for none."""
    made = hashlib.sha256()
    blocking = sorted((file for file, level in files if level == "block"), key=lambda file: file.path)
    for file in blocking:
        sides = [f"{side.mode:o} {side.blob}" if side else "-" for side in (file.before, file.after)]
        made.update("\0".join((paths.quote(file.old_path or ""), file.shown_path, *sides, "")).encode())
    return made.hexdigest()[:FINGERPRINT] if blocking else ""


def warning(file: FileChange) -> Finding:
    """The finding for a file that steers agents, diffs or test runs."""
    return Finding(
        path=file.shown_path,
        line=0,
        end_line=0,
        level="warning",
        criterion="policy",
        message="This file steers agents, diffs or test runs; a human should look at its change.",
    )


def approval(sentence: str) -> Finding:
    """The finding that says who let blocking changes of the gate itself pass; they are still listed."""
    return Finding(path="", line=0, end_line=0, level="notice", criterion="policy", message=sentence[:280])
