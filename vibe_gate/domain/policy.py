"""Policy changes: what a change does to the gate itself, and to what steers agents and tests."""

from __future__ import annotations

import hashlib
from typing import Literal

from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, FileChange
from vibe_gate.domain.gate import Policy
from vibe_gate.domain.verdict import Finding

FINGERPRINT = 16
"""Hex digits of a fingerprint, as of findings."""

PolicyFiles = tuple[tuple[FileChange, Literal["block", "warn"]], ...]
"""Changed files that are policy, each with what its change means."""


def touches(file: FileChange, globs: tuple[str, ...]) -> bool:
    """Whether either name of the file matches."""
    return paths.matches(file.path, globs) or (file.old_path is not None and paths.matches(file.old_path, globs))


def policy_files(change: Change, policy: Policy) -> PolicyFiles:
    """The files of a change that the policy speaks of."""
    found: list[tuple[FileChange, Literal["block", "warn"]]] = []
    for file in change.files:
        if touches(file, policy.block):
            found.append((file, "block"))
        elif touches(file, policy.warn):
            found.append((file, "warn"))
    return tuple(found)


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
