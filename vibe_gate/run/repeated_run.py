"""What a stored run of a workflow, or of one agent, is carried out again with: its request, its
change, and the definitions that it began with.

    run -> its request, as this clone noted it -> the same two trees, by their ids
        -> the gate whose definitions have the noted digests

Its bundle chooses nothing of that: the trees and the definitions are known by ids and digests that
stand in the git directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.agent import Agent
from vibe_gate.domain.begun_run import BegunRun
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.change import Change
from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import list_names
from vibe_gate.domain.gate import Gate
from vibe_gate.errors import GateError, StorageError, UsageError
from vibe_gate.gate.trusted import WORKTREE, gate_for
from vibe_gate.git import Repository
from vibe_gate.run.resume import KeptRun, kept_run
from vibe_gate.store.run_result import read_bundle

SHOWN_DEFINITIONS = 3
"""Of those that differ, in one sentence."""

_PLACEHOLDER = "[redacted:"
"""How it begins what stands in place of a secret."""


class RepeatedRun(Struct, frozen=True):
    """A stored run that is carried out again."""

    entry: RunEntry

    begun_run: KeptRun
    """What it was asked, as this clone noted it."""

    definitions: str | None = None
    """Where the user has definitions read, in place of those that the run began with."""

    is_interactive: bool = False
    """Whether a person was asked before agents began."""

    approved_nodes: frozenset[str] = frozenset()
    """Those of agents that began."""

    setup: Mapping[str, str] = {}
    """sha-256 of the parts of the set-up that was loaded, by path, as its bundle has them."""

    def approve(self, node: str, agent: Agent, prompt: str, usd: float) -> bool:
        """As an Approve: whether the agent began in the run; False if a person denied it, or nobody
        was asked about it.
        """
        return node in self.approved_nodes

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.entry.run_id


class RunStart(Struct, frozen=True):
    """What a workflow's run begins with."""

    change: Change

    gate: Gate

    remark: str = ""
    """A sentence if the definitions of a repeat are not those of the run, or ""."""


def kept_run_to_repeat(
    entry: RunEntry, run_document: Mapping[str, Any], begun: BegunRun | None
) -> KeptRun:
    """What the run was asked, as this clone noted it.

    IntegrityError: it did not begin in this clone, or its run.json was changed. UsageError: it
    cannot be asked the same again.
    """
    if entry.replay_of:
        raise UsageError(f"Run {entry.run_id} is itself a repeat; name the run {entry.replay_of}.")
    begun_run = kept_run(entry, run_document, begun, "repeated")
    if begun_run.request.session:
        raise UsageError(
            f"Run {entry.run_id} cannot be repeated: it went on with a session, which is no longer "
            "as it was then. `vibe-gate sessions fork` begins another one from it."
        )
    if _PLACEHOLDER in begun_run.prompt or _PLACEHOLDER in str(plain(begun_run.agent_run)):
        raise UsageError(
            f"Run {entry.run_id} cannot be repeated: there was a secret in what its agent was asked, "
            "and no bundle keeps it."
        )
    return begun_run


def prepare_repeat(repository: Repository, repeated: RepeatedRun) -> RunStart:
    """The change and the gate of the run. StorageError: its trees cannot be had. UsageError: its
    definitions cannot.
    """
    change = _begun_change(repository, repeated)
    gate, remark = _gate_of_run(repository, change, repeated)
    return RunStart(change, gate, remark)


def _begun_change(repository: Repository, repeated: RepeatedRun) -> Change:
    """The change that the run began with; not that of the working tree, even if this was its
    kind.
    """
    _require_trees(repository, repeated)
    ids = repeated.begun_run.change
    change = repository.between(ids.before, ids.after)
    commits = [commit for commit in (ids.base_commit, ids.head_commit) if commit]
    if ids.head_commit and all(map(repository.has, commits)):
        kind = "commit" if ids.kind == "commit" else "range"
        return replace(
            change,
            kind=kind,
            base_commit=ids.base_commit,
            head_commit=ids.head_commit,
            patch_id=ids.patch_id,
        )
    if repository.has(ids.base_commit):
        return replace(change, base_commit=ids.base_commit, patch_id=ids.patch_id)
    return change


def _require_trees(repository: Repository, repeated: RepeatedRun) -> None:
    """Have the trees before and after the change: of this clone, of the files as they are now, or
    made by the patches of the bundle. StorageError: they cannot be had.
    """
    before, after = repeated.begun_run.change.before, repeated.begun_run.change.after
    has_before = repository.has_tree(before)
    if has_before and not repository.has_tree(after):
        repository.snapshot()
        repository.index_tree()
    if has_before and (repository.has_tree(after) or _is_made(repository, repeated)):
        return
    raise StorageError(
        f"Run {repeated.run_id} cannot be repeated: the files that it began with are not in this "
        f"clone (trees {before[:12]} and {after[:12]}), and its patches do not give them. Fetch "
        "its commits; secrets and contents over 10 MB are not kept."
    )


def _is_made(repository: Repository, repeated: RepeatedRun) -> bool:
    """Whether the stored patches give the tree after the change.

    The bundle's patch leads to what the run's agents left, so theirs is taken back from there.
    """
    before, after = repeated.begun_run.change.before, repeated.begun_run.change.after
    stored_run = read_bundle(repository.store_root / repeated.entry.bundle)
    patch = "".join(file.patch() for file in stored_run.files.changed())
    tree = before
    if patch:  # git takes no empty one
        tree = repository.patched(before, patch.encode("utf-8", "surrogateescape"))
    if tree and tree != after and stored_run.made_patch:
        tree = repository.patched(tree, stored_run.made_patch, reverse=True)
    return tree == after


def _gate_of_run(repository: Repository, change: Change, repeated: RepeatedRun) -> tuple[Gate, str]:
    """The gate whose definitions are those of the run, or the one that the user names, with a
    remark. UsageError: no definitions here are the run's.
    """
    begun_run = repeated.begun_run
    if repeated.definitions is not None:
        gate = gate_for(repository, change, base=None, definitions=repeated.definitions)
        differing_names = begun_run.list_other_definitions(gate)
        if not differing_names:
            return gate, ""
        names = list_names(differing_names, SHOWN_DEFINITIONS)
        return gate, f"The definitions are not those of run {repeated.run_id}: {names}."
    differing_names = []
    for gate in _gates_to_try(repository, change, begun_run):
        differing_names = begun_run.list_other_definitions(gate)
        if not differing_names:
            return gate, ""
    names = list_names(differing_names, SHOWN_DEFINITIONS) or "they cannot be read"
    raise UsageError(
        f"Run {repeated.run_id} cannot be repeated by the definitions that it began with: those "
        f"here differ ({names}){_where_they_were(repository, begun_run)}. "
        "`--definitions worktree`, or REV, repeats it by others."
    )


def _gates_to_try(repository: Repository, change: Change, begun_run: KeptRun) -> Iterator[Gate]:
    """The gates that may have the run's definitions: as it had them read, then those on disk."""
    base, definitions = begun_run.request.base, begun_run.request.definitions
    if begun_run.trusted.origin == "trusted" and repository.has(begun_run.trusted.revision):
        base, definitions = None, begun_run.trusted.revision
    # Definitions that cannot be read now are not the run's.
    with suppress(GateError):
        yield gate_for(repository, change, base=base, definitions=definitions)
    with suppress(GateError):
        yield gate_for(repository, change, base=None, definitions=WORKTREE)


def _where_they_were(repository: Repository, begun_run: KeptRun) -> str:
    """A clause about the revision that is not here any more, or ""."""
    revision = begun_run.trusted.revision
    if revision in ("", WORKTREE) or repository.has(revision):
        return ""
    return f", and the commit {revision[:12]} is not in this clone"
