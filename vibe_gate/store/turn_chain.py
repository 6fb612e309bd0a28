"""The turns of a chain, one of which began with the files that those before it left; from bundles
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from vibe_gate.domain.document import parse_object, read
from vibe_gate.domain.escape import show_text
from vibe_gate.domain.turn import ChainStep
from vibe_gate.errors import StorageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_events import Tools, calls_of
from vibe_gate.store.bundle_location import BundleLocation, corrupt_bundle_error, locate_bundle
from vibe_gate.store.changed_files import (
    EditingCalls,
    FileChange,
    Files,
    files_of_chain,
    files_of_turn,
)
from vibe_gate.store.turn_summary import TurnSummary

MAX_PATCH_BYTES = 100_000_000
"""Of a patch that is read whole, as git takes it: ten of the largest contents."""


class ChainTurn(Struct, frozen=True):
    """One turn of a chain."""

    stage: str
    """The id of its stage; of a turn of `run_agent`, the agent's."""

    test_id: str
    """`<run id>/<node id>/<turn>`."""

    files: Files
    """What it changed."""

    _bundle: BundleLocation
    _patch_name: str

    def patch(self) -> bytes:
        """What it changed, as `git apply` takes it; b"" if nothing. StorageError, IntegrityError."""
        return read_stored_patch(self._bundle, self._patch_name)


class ResultChain(Struct, frozen=True):
    """What turns changed together, one after the other."""

    turns: tuple[ChainTurn, ...]
    """In order; the last is the result's own. Of a turn that began with no other's files, that
    alone; none of a run without agents.
    """

    files: Files
    """What they changed together, against where the first of them began."""

    _bundle: BundleLocation
    _patch_name: str

    def by_stage(self, id: str | None = None) -> list[FileChange]:
        """What one stage changed, each time it ran; None: every stage, so a file that two of them
        changed is there twice.
        """
        files: list[FileChange] = []
        for turn in self.turns:
            if id is None or turn.stage == id:
                files += turn.files.changed()
        return files

    def patch(self) -> bytes:
        """What they changed together, as `git apply` takes it. StorageError, IntegrityError."""
        return read_stored_patch(self._bundle, self._patch_name)


def chain_of_turn(bundle: BundleLocation, summary: TurnSummary, calls: EditingCalls) -> ResultChain:
    """The chain of a sealed turn. StorageError: a turn of its run is not there. IntegrityError.

    `calls`: its own; of a turn of another run none are known.
    """
    files = files_of_turn(bundle, summary, calls)
    chain = summary.chain
    node = summary.test_id.split("/")[-2] if "/" in summary.test_id else ""
    stage = node if chain is None else chain.stage
    last_turn = ChainTurn(stage, summary.test_id, files, bundle, bundle_names.TURN_PATCH)
    if chain is None:
        return ResultChain((last_turn,), files, bundle, bundle_names.TURN_PATCH)
    turns = tuple(_earlier_turns(bundle, summary.test_id, chain.steps))
    chain_files = files_of_chain(bundle, chain, calls, bundle_names.CHAIN_PATCH)
    return ResultChain((*turns, last_turn), chain_files, bundle, bundle_names.CHAIN_PATCH)


def _earlier_turns(
    bundle: BundleLocation, test_id: str, steps: tuple[ChainStep, ...]
) -> Iterator[ChainTurn]:
    for step in steps:
        name = step.patch
        if name and not bundle_names.is_step_patch(name):
            reason = f"{show_text(name)} is not a patch of a step"
            raise corrupt_bundle_error(bundle.path(bundle_names.SUMMARY), reason)
        if name:
            files = files_of_chain(bundle, step, EditingCalls(_no_tools), name)
            yield ChainTurn(step.stage, step.test_id, files, bundle, name)
            continue
        sibling = _sibling(bundle, test_id, step.test_id)
        document = sibling.document(bundle_names.SUMMARY, parse_object)
        calls = EditingCalls(partial(_tools_of, sibling))
        files = files_of_turn(sibling, read(TurnSummary, document), calls)
        yield ChainTurn(step.stage, step.test_id, files, sibling, bundle_names.TURN_PATCH)


def _no_tools() -> Tools:
    return Tools(())


def _tools_of(bundle: BundleLocation) -> Tools:
    return Tools(tuple(calls_of(bundle, None)))


def _sibling(bundle: BundleLocation, test_id: str, step_id: str) -> BundleLocation:
    """The bundle of another turn of the same run."""
    run_id, _, place = step_id.partition("/")
    inside = f"nodes/{place}"
    if not bundle_names.is_turn(inside) or run_id != test_id.partition("/")[0]:
        reason = f"{show_text(step_id)} is not a turn of its run"
        raise corrupt_bundle_error(bundle.path(bundle_names.SUMMARY), reason)
    if not bundle.inside:
        raise StorageError(
            f"The turn {test_id} began with the files of {step_id}, which are in its run's folder: "
            "open it there."
        )
    return locate_bundle(bundle.root / inside)


def read_stored_patch(bundle: BundleLocation, name: str) -> bytes:
    """A patch of a bundle, whole; b"" if there is none. StorageError, IntegrityError."""
    lines = []
    size = 0
    for line in bundle.patch_lines(name):
        size += len(line)
        if size > MAX_PATCH_BYTES:
            raise StorageError(
                f"{name} of {bundle.directory} has more than {MAX_PATCH_BYTES:,} bytes, "
                "so it is not applied."
            )
        lines.append(line)
    return b"".join(lines)
