"""Which revision's definitions bind, and what a change does to them.

The reviewed change must not choose its own judge: definitions are read where the
change cannot reach them. In this order: what the user names, the pull
request's base, `git config vibe-gate.trust`, the merge base with the remote's
default branch, the change's before commit.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from vibe_gate.domain import escape, in_ci, nearest, paths
from vibe_gate.domain.change import SUBMODULE_MODE, SYMLINK_MODE, Change, FileDiff, FileVersion
from vibe_gate.domain.gate import POLICY, POLICY_BLOCK, STEERING, Gate, Waivers
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import PolicyChange
from vibe_gate.domain.verdict import Finding, short
from vibe_gate.errors import DefinitionError, UsageError
from vibe_gate.gate.authorship import agent_behind
from vibe_gate.gate.loading import FOLDER, FolderFiles, built_in_gate, load_gate
from vibe_gate.gate.source import DefinitionTree
from vibe_gate.git import Repository
from vibe_gate.store import State

if TYPE_CHECKING:
    from vibe_gate.domain.agent import Agent
    from vibe_gate.domain.workflow import WorkflowDefinition

T = TypeVar("T")

WORKTREE = "worktree"


def gate_for(repository: Repository, change: Change, *, base: str | None, definitions: str | None) -> Gate:
    """The gate in force for a change.

    Raises DefinitionError for definitions that do not parse, the change's own included (let in, they would stop every
    later review); RevisionError for a revision that names nothing. Without definitions at the trusted revision those
    of the remote's default branch bind; without these the change's own (origin "bootstrap"); without any the built-in
    gate. Agents and workflows of the change itself are in force only while it is not committed: the user's own.
    """
    redefines = any(_is_listed(file, (".vibe-gate/**",)) for file in change.files)
    own = repository.tree(change.after)
    trusted = _trusted_tree(repository, change, base=base, definitions=definitions)
    try:
        gate = _trusted_gate(repository, *trusted, falls_back=definitions is None)
    except DefinitionError:
        if definitions is not None:
            raise
        gate = None  # if the change repairs them, its own are read; as a change of the gate it needs approval
    first = gate is None
    if gate is None:
        revision = change.head_commit or (WORKTREE if change.kind == "worktree" else "")
        gate = load_gate(own, revision=revision, origin="bootstrap")
        if gate and change.head_commit:  # commits may be of others: what they bring to be run is not run yet
            gate = gate._replace(agents=(), workflows=())
    elif definitions is None and _is_read_from(gate, change):
        load_gate(own, revision="", origin="trusted")
    elif definitions == WORKTREE and redefines:
        with suppress(DefinitionError):
            bound = _trusted_tree(repository, change, base=base, definitions=None)
            first = _trusted_gate(repository, *bound, falls_back=True) is None
    if gate and first:
        named = base or (None if definitions == WORKTREE else definitions)
        new = _is_first(repository, change, base)
        return gate._replace(origin="bootstrap", branch=_trusted_branch(repository, named), first=new)
    if gate is None:
        gate = built_in_gate(trusted[1])
        return gate if gate.agents or gate.workflows or change.head_commit else built_in_gate(own)
    return gate


def _is_first(repository: Repository, change: Change, base: str | None) -> bool:
    """Whether no definitions, not even broken ones, are where they would bind, whatever `--definitions` names."""
    trusted = trusted_revision(repository, change.base_commit, base=base)
    return not repository.with_folder(filter(None, (trusted or change.before, repository.remote_default())), FOLDER)


def _is_read_from(gate: Gate, change: Change) -> bool:
    """Whether the change touches a file from which a gate is read: the change's own gate must have no mistake."""
    globs = (".vibe-gate/**", ".claude/agents/*.md")
    return any(_is_listed(file, globs) or _is_named(file, gate) for file in change.files)


def _is_listed(file: FileDiff, globs: Iterable[str]) -> bool:
    """Whether either name matches in any case: on macOS and Windows `.Claude/` is `.claude/`."""
    return any(paths.matches(name.casefold(), tuple(map(str.casefold, globs))) for name in file.names)


def _is_named(file: FileDiff, gate: Gate) -> bool:
    """Whether it is one of the files that the gate was read from, by either of its names."""
    return any(path in (file.path, file.old_path) for path, _ in gate.digests)


def _trusted_branch(repository: Repository, named: str | None) -> str:
    """The branch where definitions would bind, as people know it; "" if it is the change's before commit."""
    if named and re.fullmatch("[0-9a-f]{40}", named):
        return "the base branch"
    return paths.quote(named or repository.config("vibe-gate.trust") or repository.remote_default_name)


def _trusted_gate(repository: Repository, revision: str, tree: DefinitionTree, *, falls_back: bool) -> Gate | None:
    gate = load_gate(tree, revision=revision, origin="trusted")
    default = repository.remote_default() if gate is None and falls_back else None
    if default is None:
        return gate
    # A branch that left before there was a gate, or shares no history at all, does not bring its own.
    return load_gate(repository.tree(default), revision=default, origin="trusted")


def _trusted_tree(
    repository: Repository, change: Change, *, base: str | None, definitions: str | None
) -> tuple[str, DefinitionTree]:
    revision = trusted_revision(repository, change.base_commit, base=base, definitions=definitions)
    return revision, repository.tree(repository.snapshot() if revision == WORKTREE else revision or change.before)


def trusted_revision(
    repository: Repository, before: str, *, base: str | None = None, definitions: str | None = None
) -> str:
    """The commit to read definitions at, "worktree", or "" if there is none; `before`: the commit before the change."""
    if definitions == WORKTREE:
        return WORKTREE
    if named := definitions or base:
        return repository.resolve(named)
    if named := repository.config("vibe-gate.trust"):
        return repository.resolve_shared(named)
    return repository.upstream_base() or before


def own_gate(root: Path) -> Gate:
    """The gate of a working tree as its files are, for tests of its agents and rubrics; else the built-in one."""
    files = FolderFiles(root)
    return load_gate(files, revision=WORKTREE, origin="trusted") or built_in_gate(files)


def waivers(state: State, gate: Gate, environ: Mapping[str, str], today: date, accepted: tuple[Waiver, ...]) -> Waivers:
    """What may be let pass: the gate's suppressions, what people `accepted` at the forge, and the overrides recorded
    in this clone, which have no effect in CI."""
    local = () if in_ci(environ) else state.overrides.all()
    people = tuple(one for one in local if not agent_behind({}, (one.email,)))
    return Waivers(today, people, gate.suppressions, accepted=accepted)


def approved(waivers: Waivers, impact: PolicyImpact, ask: Callable[[], Waiver | None] | None) -> Waivers:
    """The waivers with a person's approval of the changes of the gate itself, asked for only if it is needed."""
    named = impact.fingerprint
    needed = impact.needs_approval and waivers.of_policy(named) is None
    word = ask() if needed and ask is not None else None
    if word is None:
        return waivers
    return waivers._replace(approval=word.model_copy(update={"finding": POLICY + named}))


def chosen(gate: Gate, change: Change, wanted: tuple[str, ...]) -> tuple[Rubric, ...]:
    """The rubrics of this review: those the gate names for the change, or those the user wants.

    Raises UsageError for a rubric that the gate does not have.
    """
    if not wanted:
        return gate.for_change(change)
    return tuple(rubric_named(gate, name) for name in dict.fromkeys(wanted))


def rubric_named(gate: Gate, name: str) -> Rubric:
    """The rubric of this id. UsageError: there is none."""
    return _named("rubric", name, {rubric.id: rubric for rubric in gate.rubrics}, gate)


def agent_named(gate: Gate, name: str) -> Agent:
    """The agent of this id. UsageError: there is none; DefinitionError: it has one that cannot be honoured."""
    if why := [reason for refused, reason in gate.refused if refused == name]:
        raise DefinitionError(why)
    return _named("agent", name, {agent.id: agent for agent in gate.agents}, gate)


def workflow_named(gate: Gate, name: str) -> WorkflowDefinition:
    """The workflow of this id. UsageError: there is none."""
    return _named("workflow", name, {workflow.id: workflow for workflow in gate.workflows}, gate)


def _named(kind: str, name: str, known: Mapping[str, T], gate: Gate) -> T:
    if name in known:
        return known[name]
    near = nearest(name, known)
    there = f"there are: {', '.join(sorted(known))}." if known else f"write .vibe-gate/{kind}s/{name}.toml."
    advice = f"did you mean {near!r}?" if near else there
    if gate.origin == "bootstrap":
        advice += " Those that a commit brings run once they are merged, or with --definitions REV."
    elif gate.revision not in ("", WORKTREE):
        advice += f" Definitions were read at {gate.revision[:12]}; --definitions worktree reads yours."
    raise UsageError(f"There is no {kind} {name!r}; {advice}")


FINGERPRINT = 16
"""Hex digits of a fingerprint: 64 bits, plenty for the findings and changes of one repository."""


class PolicyFile(NamedTuple):
    """A changed file that is policy, and what its change means. `adopted`: one of the first definitions of all."""

    file: FileDiff
    level: Literal["block", "warn"]
    adopted: bool = False


class PolicyImpact(NamedTuple):
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


def policy_impact(
    change: Change, gate: Gate, environ: Mapping[str, str], read: Callable[[FileVersion], bytes]
) -> PolicyImpact:
    """The files of a change that the gate's policy speaks of, or that move what its paths speak of.

    `read` gives the content of one side of a changed file. Nobody chose the built-in gate, so nothing is its policy.
    The first definitions of all (origin "bootstrap"), and what begins to call vibe-gate with them, need a person's
    approval only in CI: there is nothing yet that they could weaken.
    """
    if gate.origin == "built-in":
        return PolicyImpact(())
    bootstrap = gate.origin == "bootstrap"
    found: list[PolicyFile] = []
    for file in change.files:
        if bootstrap and _adopts(file, gate, read):
            found.append(PolicyFile(file, "warn", adopted=True))
        elif _blocks(file, gate, read) or _diverts(file, gate):
            found.append(PolicyFile(file, "block"))
        elif _is_listed(file, gate.file.policy.warn):
            found.append(PolicyFile(file, "warn"))
    return PolicyImpact(tuple(found), first_gate=bootstrap and in_ci(environ))


def policy_changes(impact: PolicyImpact, file_patch: Callable[[FileDiff], str]) -> tuple[PolicyChange, ...]:
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


def _blocks(file: FileDiff, gate: Gate, read: Callable[[FileVersion], bytes]) -> bool:
    """Whether a change of this file changes the gate.

    Unless gate.toml lists what blocks, a file outside of `.vibe-gate/` counts if a workflow of the gate names it (an
    agent of `.claude/agents`, a prompt, an image); one of CI or pre-commit's settings if it names vibe-gate itself
    before or after the change.
    """
    own_list = gate.file.policy.block is not POLICY_BLOCK  # written, if only with the same globs
    if not own_list and _is_named(file, gate):
        return True
    if not _is_listed(file, gate.file.policy.block):
        return False
    if own_list or _is_listed(file, (".vibe-gate/**",)):
        return True
    return any(b"vibe-gate" in read(side) for side in (file.before, file.after) if side is not None)


def _adopts(file: FileDiff, gate: Gate, read: Callable[[FileVersion], bytes]) -> bool:
    """Whether a file is new in `.vibe-gate/`, or names vibe-gate now and did not before, as a first workflow does.

    Before there are definitions that bind, every change in `.vibe-gate/` is a part of bringing them.
    """
    if _is_listed(file, (".vibe-gate/**",)):
        return gate.first or file.change_type == "added"
    if _is_named(file, gate):  # what the first workflows name
        return True
    before, after = (side is not None and b"vibe-gate" in read(side) for side in (file.before, file.after))
    return after and not before and _is_listed(file, gate.file.policy.block) and not _diverts(file, gate)


def _diverts(file: FileDiff, gate: Gate) -> bool:
    """Whether a new link or submodule stands where the gate's paths expect a folder: what it leads to escapes them."""
    if file.after is None or file.after.mode not in (SYMLINK_MODE, SUBMODULE_MODE):
        return False
    if file.before is not None and file.before.mode == file.after.mode == SUBMODULE_MODE:
        return False
    scopes = [glob for scope in gate.file.scope for glob in scope.paths]
    criteria = [glob for rubric in gate.rubrics for criterion in rubric.criterion for glob in criterion.paths]
    return any(glob.lstrip("/").startswith(file.path + "/") for glob in (*scopes, *criteria))


def steering(gate: Gate, files: Iterable[FileDiff]) -> tuple[FileDiff, ...]:
    """Those that decide about a gate, or steer agents, diffs or test runs, by its lists and by the usual ones."""
    policy = gate.file.policy
    globs = (*STEERING, *policy.block, *policy.warn)
    return tuple(file for file in files if _is_listed(file, globs))


def policy_warning(file: FileDiff) -> Finding:
    """The finding for a file that steers agents, diffs or test runs."""
    message = "Can change what AI agents do, what diffs show, how tests run or who reviews; read this change yourself."
    return Finding(path=file.shown_path, line=0, end_line=0, level="warning", criterion="policy", message=message)


def policy_approval(sentence: str) -> Finding:
    """The finding that says who let blocking changes of the gate itself pass; they are still listed."""
    return Finding(path="", line=0, end_line=0, level="notice", criterion="policy", message=short(sentence))
