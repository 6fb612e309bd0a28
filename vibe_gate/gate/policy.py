"""What a change does to the gate itself: the files that its policy speaks of, and who must approve
of that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from vibe_gate.domain import escape, paths
from vibe_gate.domain.change import SUBMODULE_MODE, SYMLINK_MODE, Change, FileDiff, FileVersion
from vibe_gate.domain.gate import POLICY_BLOCK, STEERING, Gate
from vibe_gate.domain.summary import PolicyChange
from vibe_gate.domain.verdict import FINGERPRINT_DIGITS
from vibe_gate.git import Repository

MAX_DIFF = 20_000
"""Characters of the diff of one file in a summary; the patch of the change has it whole."""


class PolicyFile(Struct, frozen=True):
    """A changed file that is policy, and what its change means."""

    file: FileDiff

    level: Literal["block", "warn"]

    adopted: bool = False
    """Whether it is one of the first definitions of all."""

    diff: str = ""
    """Safe to show."""


class PolicyImpact(Struct, frozen=True):
    """What a change does to the gate."""

    files: tuple[PolicyFile, ...]

    first_gate: bool = False
    """Whether it brings the first definitions of all, in CI."""

    @property
    def fingerprint(self) -> str:
        """What names the blocking changes: their paths and both contents, as 16 hex digits; "" for
        none.
        """
        blocking_files = [item.file for item in self.files if item.level == "block"]
        if not blocking_files:
            return ""
        digest = hashlib.sha256()
        for file in sorted(blocking_files, key=lambda file: file.path):
            sides = [_describe_side(file.before), _describe_side(file.after)]
            words = [paths.quote(file.old_path or ""), file.shown_path, *sides, ""]
            digest.update("\0".join(words).encode())
        return digest.hexdigest()[:FINGERPRINT_DIGITS]

    @property
    def needs_approval(self) -> bool:
        """Whether a person has to approve."""
        return self.first_gate or any(item.level == "block" for item in self.files)

    @property
    def changes(self) -> tuple[PolicyChange, ...]:
        """The changes as a summary has them."""
        changes = []
        for item in self.files:
            change = PolicyChange(
                path=item.file.shown_path,
                change_type=item.file.change_type,
                level=item.level,
                diff=_fit_diff(item.diff),
            )
            changes.append(change)
        return tuple(changes)


def _fit_diff(diff: str) -> str:
    """The first whole lines of a diff, and how many there are more."""
    if len(diff) <= MAX_DIFF:
        return diff
    beginning = diff[: diff.rfind("\n", 0, MAX_DIFF) + 1]
    omitted = escape.counted(diff.count("\n", len(beginning)), "more line")
    return f"{beginning}… {omitted}: change.patch has them\n"


def _describe_side(side: FileVersion | None) -> str:
    if side:
        return f"{side.mode:o} {side.blob}"
    return "-"


def policy_impact(
    repository: Repository, change: Change, gate: Gate, *, in_ci: bool
) -> PolicyImpact:
    """The files of a change that the gate's policy speaks of, or that move what its paths speak of.

    Nobody chose the built-in gate, so nothing is its policy. The first definitions of all (origin
    "bootstrap"), and what begins to call vibe-gate with them, need a person's approval only in CI:
    there is nothing yet that they could weaken.
    """
    if gate.origin == "built-in":
        return PolicyImpact(())
    is_bootstrap = gate.origin == "bootstrap"
    policy_files = []
    for file in change.files:
        adopted = is_bootstrap and _adopts(file, gate, repository.read)
        level = "warn" if adopted else _policy_level(file, gate, repository.read)
        if level is not None:
            diff = escape.show_block(repository.file_patch(change, file))
            policy_files.append(PolicyFile(file, level, adopted, diff))
    return PolicyImpact(tuple(policy_files), first_gate=is_bootstrap and in_ci)


def _policy_level(
    file: FileDiff, gate: Gate, read: Callable[[FileVersion], bytes]
) -> Literal["block", "warn"] | None:
    """What a change of the file means; None if the policy does not speak of it."""
    if _blocks(file, gate, read) or _diverts(file, gate):
        return "block"
    return "warn" if is_listed(file, gate.file.policy.warn) else None


def _blocks(file: FileDiff, gate: Gate, read: Callable[[FileVersion], bytes]) -> bool:
    """Whether a change of this file changes the gate.

    Unless gate.toml lists what blocks, a file outside of `.vibe-gate/` counts if a workflow of the
    gate names it (an agent of `.claude/agents`, a prompt, an image); one of CI or pre-commit's
    settings if it names vibe-gate itself before or after the change.
    """
    # Written, if only with the same globs.
    has_own_list = gate.file.policy.block is not POLICY_BLOCK
    if not has_own_list and is_source(file, gate):
        return True
    if not is_listed(file, gate.file.policy.block):
        return False
    if has_own_list or is_listed(file, (".vibe-gate/**",)):
        return True
    return _names_vibe_gate(file.before, read) or _names_vibe_gate(file.after, read)


def _names_vibe_gate(side: FileVersion | None, read: Callable[[FileVersion], bytes]) -> bool:
    return side is not None and b"vibe-gate" in read(side)


def _adopts(file: FileDiff, gate: Gate, read: Callable[[FileVersion], bytes]) -> bool:
    """Whether a file is new in `.vibe-gate/`, or names vibe-gate now and did not before, as a first
    workflow does.

    Before there are definitions that bind, every change in `.vibe-gate/` is a part of bringing
    them.
    """
    if is_listed(file, (".vibe-gate/**",)):
        return gate.first or file.change_type == "added"
    if is_source(file, gate):  # what the first workflows name
        return True
    if _names_vibe_gate(file.before, read) or not _names_vibe_gate(file.after, read):
        return False
    return is_listed(file, gate.file.policy.block) and not _diverts(file, gate)


def _diverts(file: FileDiff, gate: Gate) -> bool:
    """Whether a new link or submodule stands where the gate's paths expect a folder: what it leads
    to escapes them.
    """
    if file.after is None or file.after.mode not in (SYMLINK_MODE, SUBMODULE_MODE):
        return False
    if file.before is not None and file.before.mode == file.after.mode == SUBMODULE_MODE:
        return False
    globs: list[str] = []
    for scope in gate.file.scope:
        globs += scope.paths
    for rubric in gate.rubrics:
        for criterion in rubric.criterion:
            globs += criterion.paths
    return any(glob.lstrip("/").startswith(file.path + "/") for glob in globs)


def is_listed(file: FileDiff, globs: Iterable[str]) -> bool:
    """Whether either name matches in any case: on macOS and Windows `.Claude/` is `.claude/`."""
    folded_globs = tuple(glob.casefold() for glob in globs)
    return any(paths.matches_any_glob(name.casefold(), folded_globs) for name in file.names)


def is_source(file: FileDiff, gate: Gate) -> bool:
    """Whether it is one of the files that the gate was read from, by either of its names."""
    return any(path in (file.path, file.old_path) for path, _ in gate.digests)


def find_steering_files(gate: Gate, files: Iterable[FileDiff]) -> tuple[FileDiff, ...]:
    """Those that decide about a gate, or steer agents, diffs or test runs, by its lists and by the
    usual ones.
    """
    policy = gate.file.policy
    globs = (*STEERING, *policy.block, *policy.warn)
    return tuple(file for file in files if is_listed(file, globs))
