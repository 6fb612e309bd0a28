"""RUN: the run that a user means by a run id, a prefix of one, a revision, or nothing."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import nearest, paths
from vibe_gate.domain.begun_run import BegunRun
from vibe_gate.domain.bundles import MATCHES, STORE, Match, Provenance, RunEntry, is_run_id
from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import listed, safe
from vibe_gate.errors import IntegrityError, RevisionError, UsageError
from vibe_gate.faces.cli.command import argument
from vibe_gate.faces.cli.output import complain, now, open_repository_here
from vibe_gate.git import Repository, open_repository
from vibe_gate.report.run_figures import (
    FORM,
    RunFigures,
    extract_figures,
    pack_figures,
    unpack_figures,
)
from vibe_gate.run.worktree_stores import move_worktree_stores
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.run_result import RunResult, read_bundle
from vibe_gate.store.summary_extracts import open_extracts
from vibe_gate.store.worktree_bundles import Bundles

RUN_HELP = "run id, unambiguous prefix of one, or revision"
RUN_ARGUMENT = argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP} (default: the newest)")

_LIST = "`vibe-gate bundles list` shows all runs."

MAX_CANDIDATES = 5
"""Runs that the sentence about an ambiguous prefix lists."""

RUN_FILE = "run.json"
"""What every run's folder has from its beginning."""

_AGO = re.compile(r"([0-9]{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

REDIRECTIONS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")
"""Variables that make git look elsewhere."""


class NamedRun(Struct, frozen=True):
    """The run that was meant, what it was matched by, and how many other runs match too.

    `foreign` says why no review in this clone wrote it; only a run named by its id can be.
    """

    entry: RunEntry
    matched: str
    others: int = 0
    foreign: str = ""


STORE_OPTION = argument(
    "--store",
    action="store_true",
    help="of the shared store ([store] in gate.toml), not of this clone",
)


class StoredRuns:
    """The runs of the repository around the current folder, or of a store that lies there without
    one. UsageError.
    """

    def __init__(self, root: Path | None = None) -> None:
        """`root`: the folder with the store, if that is not the one which the current folder's
        repository uses.
        """
        self.top: Path = root or _top()
        """The top of the working tree; of a store without a repository the folder with it."""
        if root is not None:
            self.root = root

    @cached_property
    def root(self) -> Path:
        """The folder with the store. GateError."""
        if (self.top / ".git").is_dir() and "GIT_DIR" not in os.environ:
            return self.top  # no linked worktree, without asking git
        with self.repository() as repository:
            return self.top if repository is None else repository.store_root

    @contextlib.contextmanager
    def repository(self) -> Iterator[Repository | None]:
        """The repository of the runs; None for a downloaded artifact."""
        if not os.path.lexists(self.top / ".git") and "GIT_DIR" not in os.environ:
            yield None
            return
        with open_repository(self.top, os.environ) as repository:
            yield repository

    @cached_property
    def bundles(self) -> Bundles:
        """The store, with the run index if it is a repository's. GateError."""
        with self.repository() as repository:
            if repository is None:
                return Bundles(self.root, Provenance(now()))
            state = open_state(repository.common_dir)
            is_shared = self.root == repository.store_root
            if is_shared:
                move_worktree_stores(repository, state, now())
                for remark in repository.remarks:
                    complain(f"note: {safe(remark)}")
            index = state.run_index(self.root / STORE)
            tracked = repository.tracked_in_store() if is_shared else repository.tracked(STORE)
            return Bundles(self.root, Provenance(now(), tracked), index)

    @cached_property
    def begun(self) -> Mapping[str, BegunRun]:
        """The runs that began in this clone, by id; none of a store without a repository.
        GateError.
        """
        with self.repository() as repository:
            return {} if repository is None else open_state(repository.common_dir).begun.runs()

    def begun_first(self, found: Sequence[RunEntry]) -> list[RunEntry]:
        """The same runs, those that began in this clone before those that were brought here.
        GateError.
        """
        return sorted(found, key=lambda entry: entry.run_id not in self.begun)

    def require_begun(self, named_run: NamedRun, command: str) -> None:
        """UsageError: the run is only the newest that was brought here, and `command` uses such a
        run by name alone.
        """
        if named_run.entry.run_id not in self.begun:
            raise UsageError(
                f"No run began in this clone. Name the run: `vibe-gate {command} {named_run.entry.run_id}`."
            )

    def entries(self, references: Sequence[str]) -> list[RunEntry] | None:
        """The named runs, each once; None if none was named. UsageError."""
        return list(dict.fromkeys(self.named(reference).entry for reference in references)) or None

    def named(self, reference: str | None) -> NamedRun:
        """The run that `reference` means (None: the newest). UsageError if no run or several
        match.
        """
        all_entries, provenance = self.bundles.find(), self.bundles.provenance
        found = [entry for entry in all_entries if entry.state != "foreign"]
        if reference is None and found:
            return NamedRun(self.begun_first(found)[0], "newest")
        matches = [
            entry for entry in all_entries if reference and entry.run_id.startswith(reference)
        ]
        if (
            reference and not matches and reference[:1].isdigit()
        ):  # a replay is meant by its id alone
            matches = self.bundles.find(replays=True, prefix=reference)
        if reference is None or not (all_entries or matches):
            raise UsageError(f"No runs in {STORE} yet; `vibe-gate review` records one.")
        exact_matches = [entry for entry in matches if entry.run_id == reference]
        if len(exact_matches or matches) == 1:
            entry = (exact_matches or matches)[0]
            matched = "run id" if exact_matches else "run id prefix"
            return NamedRun(entry, matched, foreign=provenance.foreign(entry.key, entry.run_id))
        if matches:
            names = listed((entry.run_id for entry in matches), MAX_CANDIDATES)
            raise UsageError(
                f'"{paths.quote(reference)}" is ambiguous: {len(matches)} runs match ({names}).'
            )
        by_key = [entry for entry in found if entry.key == reference]
        if by_key:
            return self._best(by_key, "tree" if reference.startswith("tree-") else "commit")
        return self._by_revision(found, reference)

    def own(self, reference: str | None) -> NamedRun:
        """As `named`. IntegrityError: no review in this clone wrote the run, so what it says does
        not count.
        """
        return _own(self.named(reference))

    def opened(self, reference: str | None) -> tuple[StoredRuns, NamedRun]:
        """The runs of the store that has it, and the run, as of `own`. `reference` may also be the
        run's folder, in another working tree, too: what `verify` prints of a review, or has printed
        before the run was moved.
        """
        folder = self._folder(reference) if reference else None
        if folder is None:
            return self, self.own(reference)
        own_bundles = self.bundles  # which takes over what linked worktrees keep
        is_elsewhere = folder.exists() and not folder.parents[2].samefile(own_bundles.root)
        runs = StoredRuns(folder.parents[2]) if is_elsewhere else self
        key = folder.parent.name
        found = runs.bundles.find(replays=True, run=folder.name)
        entry = next((entry for entry in found if entry.key == key), None)
        if entry is None:
            raise UsageError(f"No run found for {paths.quote(str(reference))}; {_LIST}")
        return runs, _own(
            NamedRun(entry, "folder", foreign=runs.bundles.provenance.foreign(key, entry.run_id))
        )

    def _folder(self, reference: str) -> Path | None:
        """The folder of a run that `reference` is a path of, from here or from the top of the
        working tree; or None.
        """
        if "/" not in reference or any(name in os.environ for name in REDIRECTIONS):
            return None
        for start in (Path.cwd(), self.root):
            folder = Path(os.path.abspath(start / reference))  # noqa: PTH100 - resolve would follow links
            if folder.parts[-3:-2] != (STORE,) or not is_run_id(folder.name):
                continue
            root = folder.parents[2]
            if os.path.lexists(folder / RUN_FILE) and (root == self.root or _is_top(root)):
                return folder
            was_moved = os.path.lexists(
                self.root / STORE / folder.parent.name / folder.name / RUN_FILE
            )
            if was_moved and not os.path.lexists(folder):
                return folder
        return None

    def read(self, named_run: NamedRun) -> RunResult:
        """The run, lazily. GateError."""
        return read_bundle(self.root / named_run.entry.bundle)

    def _best(self, found: Sequence[RunEntry], matched: str) -> NamedRun:
        """The newest sealed run of them, of this clone if there is one."""
        runs = self.begun_first(found)
        sealed_runs = [entry for entry in runs if entry.state == "sealed"]
        return NamedRun((sealed_runs or runs)[0], matched, len(found) - 1)

    def _by_revision(self, found: list[RunEntry], reference: str) -> NamedRun:
        unknown = f"No run found for {paths.quote(reference)}"
        with self.repository() as repository:
            try:
                ids = _ids(repository, reference) if repository is not None else {}
            except RevisionError as error:
                nearest_name = (
                    nearest(reference, repository.names()) if repository is not None else ""
                )
                named_run = f" Did you mean {nearest_name!r}?" if nearest_name else ""
                raise UsageError(
                    f"{unknown}, which is not a revision either; {_LIST}{named_run}"
                ) from error
        for match in MATCHES:
            alike = [entry for entry in found if entry.is_about(match, ids.get(match, ""))]
            if alike:
                return self._best(alike, match.replace("_", " ").replace("patch id", "patch-id"))
        raise UsageError(f"{unknown}; {_LIST}")


def _is_top(root: Path) -> bool:
    """Whether a store in `root` is not inside of a repository's tree, where what git tracks would
    not be told.
    """
    return (
        next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), root)
        == root
    )


def _own(named_run: NamedRun) -> NamedRun:
    if named_run.foreign:
        run = named_run.entry.run_id
        raise IntegrityError(
            f"Run {run} is foreign: {named_run.foreign}. It is listed, and nothing else."
        )
    return named_run


def _top() -> Path:
    """The top of the repository around the current folder, or the nearest folder with a store.
    UsageError.
    """
    if any(name in os.environ for name in REDIRECTIONS):
        with open_repository_here() as repository:
            return repository.root
    here = Path.cwd()
    for name in (".git", STORE):  # the store alone too, because bundles can be moved
        for folder in (here, *here.parents):
            if os.path.lexists(folder / name):
                return folder
    raise UsageError(f"No git repository and no {STORE} here. Change to a folder that has one.")


def moment(text: str) -> datetime:
    """The value of `--since`: that long ago, or a date."""
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        then = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"'{text}' is neither an age (30d, 12h, 2w) nor an ISO date"
        ) from None
    return then if then.tzinfo else then.replace(tzinfo=UTC)


@contextlib.contextmanager
def figures_of(bundles: Bundles) -> Iterator[Callable[[RunEntry], RunFigures | None]]:
    """What figures about many runs take of one; None if its summary cannot be read any more."""
    with open_extracts(
        bundles, FORM, lambda summary: pack_figures(extract_figures(summary))
    ) as text_of:
        yield cache(lambda entry: unpack_figures(text_of(entry)))


def _ids(repository: Repository, reference: str) -> dict[Match, str]:
    """The ids by which a run can match the revision. RevisionError."""
    try:
        repository.resolve(reference)
    except RevisionError:
        return {"tree": repository.tree(reference).id}  # a tree, which has no commit
    change = repository.change(Selection("commit", left=reference))
    patch_id = change.patch_id
    # A squash merge is one commit with the change of a whole range.
    return {
        "commit": change.head_commit,
        "tree": change.after,
        "patch_id": patch_id,
        "range_patch_id": patch_id,
    }
