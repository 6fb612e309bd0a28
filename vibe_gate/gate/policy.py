"""Policy changes: what a change does to the gate itself, and to what steers agents and tests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from vibe_gate.domain import escape, paths
from vibe_gate.domain.change import SUBMODULE_MODE, SYMLINK_MODE, Change, FileChange
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.summary import PolicyChange
from vibe_gate.domain.verdict import Finding

FINGERPRINT = 16
"""Hex digits of a fingerprint, as of findings."""


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A changed file that is policy, and what its change means."""

    file: FileChange
    level: Literal["block", "warn"]


@dataclass(frozen=True, slots=True)
class PolicyImpact:
    """What a change does to the gate. `fingerprint` names its blocking changes ("": none); `first_gate`: it brings
    the first definitions of all, in CI."""

    files: tuple[PolicyFile, ...]
    first_gate: bool = False

    @property
    def fingerprint(self) -> str:
        """What names the blocking changes: their paths and both contents, as 16 hex digits; "" for none."""
        digest = hashlib.sha256()
        blocking = sorted((item.file for item in self.files if item.level == "block"), key=lambda file: file.path)
        for file in blocking:
            sides = [f"{side.mode:o} {side.blob}" if side else "-" for side in (file.before, file.after)]
            digest.update("\0".join((paths.quote(file.old_path or ""), file.shown_path, *sides, "")).encode())
        return digest.hexdigest()[:FINGERPRINT] if blocking else ""

    @property
    def needs_approval(self) -> bool:
        """Whether a person has to approve."""
        return self.first_gate or any(item.level == "block" for item in self.files)


def impact(change: Change, gate: Gate, environ: Mapping[str, str]) -> PolicyImpact:
    """What the change does to the gate; the first definitions of all need a person's approval only in CI."""
    return PolicyImpact(policy_files(change, gate), gate.origin == "bootstrap" and "CI" in environ)


def changes(impact: PolicyImpact, file_patch: Callable[[FileChange], str]) -> tuple[PolicyChange, ...]:
    """The changes with their diffs, safe to show; `file_patch` gives the unified text of a file's change."""
    return tuple(
        PolicyChange(
            path=item.file.shown_path,
            change_type=item.file.change_type,
            level=item.level,
            diff=escape.show_block(file_patch(item.file)),
        )
        for item in impact.files
    )


def touches(file: FileChange, globs: tuple[str, ...]) -> bool:
    """Whether either name of the file matches."""
    return paths.matches(file.path, globs) or (file.old_path is not None and paths.matches(file.old_path, globs))


def policy_files(change: Change, gate: Gate) -> tuple[PolicyFile, ...]:
    """The files of a change that the gate's policy speaks of, or that move what its paths speak of.

    The first definitions of all (origin "bootstrap") are to be looked at, but need no
    approval here: there is nothing yet that they could weaken.
    """
    found: list[PolicyFile] = []
    for file in change.files:
        first = gate.origin == "bootstrap" and file.change_type == "added" and touches(file, (".vibe-gate/**",))
        if first or not (touches(file, gate.file.policy.block) or _diverts(file, gate)):
            if first or touches(file, gate.file.policy.warn):
                found.append(PolicyFile(file, "warn"))
        else:
            found.append(PolicyFile(file, "block"))
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


def warning(file: FileChange) -> Finding:
    """The finding for a file that steers agents, diffs or test runs."""
    return Finding(
        path=file.shown_path,
        line=0,
        end_line=0,
        level="warning",
        criterion="policy",
        message="Affects agents, diffs or tests; review by hand.",
    )


def approval(sentence: str) -> Finding:
    """The finding that says who let blocking changes of the gate itself pass; they are still listed."""
    return Finding(path="", line=0, end_line=0, level="notice", criterion="policy", message=sentence[:280])
