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


class PolicyFile(Struct, frozen=True):
    """A changed file that is policy, and what its change means. `diff` is safe to show.

    `adopted`: one of the first definitions of all.
    """

    file: FileDiff
    level: Literal["block", "warn"]
    adopted: bool = False
    diff: str = ""


class PolicyImpact(Struct, frozen=True):
    """What a change does to the gate. `fingerprint` names its blocking changes ("": none);
    `first_gate`: it brings the first definitions of all, in CI.
    """

    files: tuple[PolicyFile, ...]
    first_gate: bool = False

    @property
    def fingerprint(self) -> str:
        """What names the blocking changes: their paths and both contents, as 16 hex digits; "" for
        none.
        """
        digest = hashlib.sha256()
        blocking = sorted(
            (item.file for item in self.files if item.level == "block"), key=lambda file: file.path
        )
        for file in blocking:
            sides = [
                f"{side.mode:o} {side.blob}" if side else "-" for side in (file.before, file.after)
            ]
            digest.update(
                "\0".join((paths.quote(file.old_path or ""), file.shown_path, *sides, "")).encode()
            )
        return digest.hexdigest()[:FINGERPRINT_DIGITS] if blocking else ""

    @property
    def needs_approval(self) -> bool:
        """Whether a person has to approve."""
        return self.first_gate or any(item.level == "block" for item in self.files)

    @property
    def changes(self) -> tuple[PolicyChange, ...]:
        """The changes as a summary has them."""
        return tuple(
            PolicyChange(
                path=item.file.shown_path,
                change_type=item.file.change_type,
                level=item.level,
                diff=item.diff,
            )
            for item in self.files
        )


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
    bootstrap, read = gate.origin == "bootstrap", repository.read
    found: list[PolicyFile] = []

    def add(file: FileDiff, level: Literal["block", "warn"], *, adopted: bool = False) -> None:
        found.append(
            PolicyFile(file, level, adopted, escape.show_block(repository.file_patch(change, file)))
        )

    for file in change.files:
        if bootstrap and _adopts(file, gate, read):
            add(file, "warn", adopted=True)
        elif _blocks(file, gate, read) or _diverts(file, gate):
            add(file, "block")
        elif is_listed(file, gate.file.policy.warn):
            add(file, "warn")
    return PolicyImpact(tuple(found), first_gate=bootstrap and in_ci)


def _blocks(file: FileDiff, gate: Gate, read: Callable[[FileVersion], bytes]) -> bool:
    """Whether a change of this file changes the gate.

    Unless gate.toml lists what blocks, a file outside of `.vibe-gate/` counts if a workflow of the
    gate names it (an agent of `.claude/agents`, a prompt, an image); one of CI or pre-commit's
    settings if it names vibe-gate itself before or after the change.
    """
    own_list = gate.file.policy.block is not POLICY_BLOCK  # written, if only with the same globs
    if not own_list and is_source(file, gate):
        return True
    if not is_listed(file, gate.file.policy.block):
        return False
    if own_list or is_listed(file, (".vibe-gate/**",)):
        return True
    return any(b"vibe-gate" in read(side) for side in (file.before, file.after) if side is not None)


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
    before, after = (
        side is not None and b"vibe-gate" in read(side) for side in (file.before, file.after)
    )
    return (
        after
        and not before
        and is_listed(file, gate.file.policy.block)
        and not _diverts(file, gate)
    )


def _diverts(file: FileDiff, gate: Gate) -> bool:
    """Whether a new link or submodule stands where the gate's paths expect a folder: what it leads
    to escapes them.
    """
    if file.after is None or file.after.mode not in (SYMLINK_MODE, SUBMODULE_MODE):
        return False
    if file.before is not None and file.before.mode == file.after.mode == SUBMODULE_MODE:
        return False
    scopes = [glob for scope in gate.file.scope for glob in scope.paths]
    criteria = [
        glob
        for rubric in gate.rubrics
        for criterion in rubric.criterion
        for glob in criterion.paths
    ]
    return any(glob.lstrip("/").startswith(file.path + "/") for glob in (*scopes, *criteria))


def is_listed(file: FileDiff, globs: Iterable[str]) -> bool:
    """Whether either name matches in any case: on macOS and Windows `.Claude/` is `.claude/`."""
    return any(
        paths.matches(name.casefold(), tuple(map(str.casefold, globs))) for name in file.names
    )


def is_source(file: FileDiff, gate: Gate) -> bool:
    """Whether it is one of the files that the gate was read from, by either of its names."""
    return any(path in (file.path, file.old_path) for path, _ in gate.digests)


def steering(gate: Gate, files: Iterable[FileDiff]) -> tuple[FileDiff, ...]:
    """Those that decide about a gate, or steer agents, diffs or test runs, by its lists and by the
    usual ones.
    """
    policy = gate.file.policy
    globs = (*STEERING, *policy.block, *policy.warn)
    return tuple(file for file in files if is_listed(file, globs))
