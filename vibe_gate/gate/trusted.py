"""Which revision's definitions bind.

The reviewed change must not choose its own judge: definitions are read where the
change cannot reach them. In this order: what the user names, the pull
request's base, `git config vibe-gate.trust`, the merge base with the remote's
default branch, the change's before commit.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.change import Change
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.summary import GateAbsence
from vibe_gate.errors import DefinitionError, RevisionError, UsageError
from vibe_gate.gate.loading import FOLDER, FolderFiles, built_in_gate, load_gate
from vibe_gate.gate.policy import is_listed, is_source
from vibe_gate.gate.source import DefinitionTree
from vibe_gate.git import Repository
from vibe_gate.secrets import GITLEAKS_FILE

if TYPE_CHECKING:
    from vibe_gate.store.shared_store import SharedStore

WORKTREE = "worktree"

CONFIRMED_STORE = "vibe-gate.store"
"""The setting that allows a folder of this machine as the shared store."""


def gate_for(
    repository: Repository, change: Change, *, base: str | None, definitions: str | None
) -> Gate:
    """The gate in force for a change.

    Raises DefinitionError for definitions that do not parse, the change's own included (let in,
    they would stop every later review); RevisionError for a revision that names nothing. Without
    definitions at the trusted revision those of the remote's default branch bind; without these the
    change's own (origin "bootstrap"); without any the built-in gate. Agents and workflows of the
    change itself are in force only while it is not committed: the user's own.
    """
    gate, tree = _gate_for(repository, change, base=base, definitions=definitions)
    return replace(gate, gitleaks=tree.read(GITLEAKS_FILE) or b"")


def _gate_for(
    repository: Repository, change: Change, *, base: str | None, definitions: str | None
) -> tuple[Gate, DefinitionTree]:
    """The gate in force, and the trusted tree, whatever the gate was read from."""
    own_tree = repository.tree(change.after)
    revision, tree = _trusted_tree(repository, change, base=base, definitions=definitions)
    absence: GateAbsence = ""
    gate: Gate | None = None
    try:
        gate = _trusted_gate(repository, revision, tree, falls_back=definitions is None)
    except DefinitionError:
        if definitions is not None:
            raise
        # If the change repairs them, its own are read; as a change of the gate it needs approval.
        absence = "broken"
    is_bootstrap = gate is None
    if gate is None:
        gate = _gate_of_change(own_tree, change)
    elif definitions is None and _is_read_from(gate, change):
        load_gate(own_tree, revision="", origin="trusted")
    elif definitions == WORKTREE and _redefines(change):
        is_bootstrap = _has_no_bound_gate(repository, change, base)
    if gate is None:
        gate = built_in_gate(tree)
        if not gate.agents and not gate.workflows and not change.head_commit:
            gate = built_in_gate(own_tree)
        return gate, tree
    if not is_bootstrap:
        return gate, tree
    if not absence and _is_removed(repository, change, revision):
        absence = "removed"
    user_revision = None if definitions == WORKTREE else definitions
    bootstrap_gate = replace(
        gate,
        origin="bootstrap",
        branch=_trusted_branch(repository, base or user_revision),
        first=_is_first(repository, change, base),
        absence=absence,
    )
    return bootstrap_gate, tree


def _gate_of_change(tree: DefinitionTree, change: Change) -> Gate | None:
    """The gate that the change brings itself."""
    revision = change.head_commit or (WORKTREE if change.kind == "worktree" else "")
    gate = load_gate(tree, revision=revision, origin="bootstrap")
    if gate is None or not change.head_commit:
        return gate
    # Commits may be of others: what they bring to be run is not run yet.
    return replace(gate, agents=(), workflows=())


def _redefines(change: Change) -> bool:
    """Whether the change touches `.vibe-gate/`."""
    return any(is_listed(file, (".vibe-gate/**",)) for file in change.files)


def _has_no_bound_gate(repository: Repository, change: Change, base: str | None) -> bool:
    """Whether no gate is where it would bind if the user named no definitions; False if that one is
    broken.
    """
    with suppress(DefinitionError):
        revision, tree = _trusted_tree(repository, change, base=base, definitions=None)
        return _trusted_gate(repository, revision, tree, falls_back=True) is None
    return False


def _is_removed(repository: Repository, change: Change, trusted: str) -> bool:
    """Whether the trusted revision, which has no gate, had one where the change left it."""
    before = change.base_commit
    if not before or not trusted or repository.tree(before).read(f"{FOLDER}/gate.toml") is None:
        return False
    return repository.is_ancestor(before, trusted)


def _is_first(repository: Repository, change: Change, base: str | None) -> bool:
    """Whether no definitions, not even broken ones, are where they would bind, whatever
    `--definitions` names.
    """
    revision = trusted_revision(repository, change.base_commit, base=base)
    revisions = filter(None, (revision or change.before, repository.remote_default()))
    return not repository.with_folder(revisions, FOLDER)


def _is_read_from(gate: Gate, change: Change) -> bool:
    """Whether the change touches a file from which a gate is read: the change's own gate must have
    no mistake.
    """
    globs = (".vibe-gate/**", ".claude/agents/*.md")
    return any(is_listed(file, globs) or is_source(file, gate) for file in change.files)


def _trusted_branch(repository: Repository, user_revision: str | None) -> str:
    """The branch where definitions would bind, as people know it; "" if it is the change's before
    commit.
    """
    if user_revision and re.fullmatch("[0-9a-f]{40}", user_revision):
        return "the base branch"
    branch = user_revision or repository.config("vibe-gate.trust")
    return paths.quote(branch or repository.remote_default_name)


def _trusted_gate(
    repository: Repository, revision: str, tree: DefinitionTree, *, falls_back: bool
) -> Gate | None:
    gate = load_gate(tree, revision=revision, origin="trusted")
    if gate is not None or not falls_back:
        return gate
    # A branch that left before there was a gate, or shares no history at all, does not bring its
    # own.
    default = repository.remote_default()
    if default is None:
        return None
    return load_gate(repository.tree(default), revision=default, origin="trusted")


def _trusted_tree(
    repository: Repository, change: Change, *, base: str | None, definitions: str | None
) -> tuple[str, DefinitionTree]:
    """The trusted revision, and its tree."""
    revision = trusted_revision(repository, change.base_commit, base=base, definitions=definitions)
    if revision == WORKTREE:
        return revision, repository.tree(repository.snapshot())
    return revision, repository.tree(revision or change.before)


def trusted_revision(
    repository: Repository, before: str, *, base: str | None = None, definitions: str | None = None
) -> str:
    """The commit to read definitions at, "worktree", or "" if there is none; `before`: the commit
    before the change.
    """
    if definitions == WORKTREE:
        return WORKTREE
    user_revision = definitions or base
    if user_revision:
        return repository.resolve(user_revision)
    configured_revision = repository.config("vibe-gate.trust")
    if configured_revision:
        return repository.resolve_shared(configured_revision)
    return repository.upstream_base() or before


def standing_gate(repository: Repository) -> Gate | None:
    """The gate at the trusted revision of what is checked out, so that a change under review
    decides nothing about the store; None if there is none. DefinitionError.
    """
    try:
        revision = trusted_revision(repository, repository.resolve("HEAD"))
    except RevisionError:
        return None  # no commits yet
    return load_gate(repository.tree(revision), revision=revision, origin="trusted")


def standing_store(repository: Repository, clock: Callable[[], datetime]) -> SharedStore:
    """The shared store that the gate at the trusted revision names.

    UsageError: none, there is no key to it here, or HEAD may be a change under review, as in the
    checkout of a CI job.
    """
    gate = standing_gate(repository)
    url = gate.store_url if gate else ""
    if not url:
        raise UsageError(_no_store(repository))
    uncertainty = unknown_branch(repository)
    if uncertainty:
        raise UsageError(f"The shared store is not used: {uncertainty}")
    from vibe_gate.store.shared_store import SharedStore  # few gates name one

    access = repository.environment.store
    obstacle = SharedStore.unusable(url, access) or unconfirmed_store(repository, url)
    if obstacle:
        raise UsageError(obstacle)
    return SharedStore(url, access, clock)


def unconfirmed_store(repository: Repository, url: str) -> str:
    """The sentence why a folder is not used as the shared store; "" if its user allowed it, or for
    a bucket.

    The default branch could name any folder that the user may write to. Git's configuration is no
    part of a repository.
    """
    if not url.startswith("file://") or repository.config(CONFIRMED_STORE) == url:
        return ""
    return (
        f"The shared store {url} is not used: a folder of this machine must be allowed here once: "
        f"`git config {CONFIRMED_STORE} {shlex.quote(url)}`."
    )


def _no_store(repository: Repository) -> str:
    """At which revision no shared store is named, and what to do."""
    branch = _trusted_branch(repository, None)
    place = f"on {branch}" if branch else "at HEAD"
    with suppress(RevisionError):  # no commits yet
        revision = trusted_revision(repository, repository.resolve("HEAD"))[:12]
        if revision:
            place += f" ({revision})"
    names_one = False
    with suppress(DefinitionError):
        names_one = bool(own_gate(repository.root).file.store)
    advice = "Name one there: [store] url = ..."
    if names_one:
        merge_advice = f", merge it into {branch} and push" if branch else ""
        advice = f"The working tree has one: commit it{merge_advice}."
    return f"No shared store: .vibe-gate/gate.toml {place} has no [store]. {advice}"


def unknown_branch(repository: Repository, *user_revisions: str | None) -> str:
    """The sentence why the trusted revision may be of the change itself; `user_revisions`: what the
    user says it is, if so.
    """
    if any(user_revisions) or repository.config("vibe-gate.trust"):
        return ""
    return repository.unknown_default


def own_gate(root: Path) -> Gate:
    """The gate of a working tree as its files are, for tests of its agents and rubrics; else the
    built-in one.
    """
    files = FolderFiles(root)
    return load_gate(files, revision=WORKTREE, origin="trusted") or built_in_gate(files)
