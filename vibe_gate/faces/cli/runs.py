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
from vibe_gate.domain.escape import list_names, safe
from vibe_gate.errors import IntegrityError, RevisionError, UsageError
from vibe_gate.faces.cli.command import JSON, argument
from vibe_gate.faces.cli.output import complain, now, open_repository_here
from vibe_gate.faces.process_environment import read_process_environment
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
RUNS_ARGUMENTS = (
    argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: all runs)"),
    JSON,
)
STORE_OPTION = argument(
    "--store",
    action="store_true",
    help="of the shared store ([store] in gate.toml), not of this clone",
)

_LIST = "`vibe-gate bundles list` shows all runs."

NO_RUNS_YET = f"No runs in {STORE} yet; `vibe-gate review` records one."

MAX_CANDIDATES = 5
"""Runs that the sentence about an ambiguous prefix lists."""

RUN_FILE = "run.json"
"""What every run's folder has from its beginning."""

_AGE = re.compile(r"([0-9]{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

REDIRECTIONS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")
"""Variables that make git look elsewhere."""


class RunsArguments(Struct, frozen=True):
    """The arguments of subcommands about several runs of this clone."""

    references: tuple[str, ...]
    """The runs; none: all."""
    as_json: bool


def parse_runs(args: argparse.Namespace) -> RunsArguments:
    """The arguments that RUNS_ARGUMENTS declare."""
    return RunsArguments(tuple(args.runs), args.json)


class NamedRun(Struct, frozen=True):
    """The run that a user meant."""

    entry: RunEntry
    matched: str
    """What it was matched by, in a word or two: "run id", "commit"."""
    others: int = 0
    """How many other runs match, too."""
    foreign: str = ""
    """Why no review in this clone wrote it, else "". Only a run named by its id can be foreign."""


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
        if (self.top / ".git").is_dir() and "GIT_DIR" not in read_process_environment().variables:
            return self.top  # no linked worktree, without asking git
        with self.repository() as repository:
            if repository is None:
                return self.top
            return repository.store_root

    @contextlib.contextmanager
    def repository(self) -> Iterator[Repository | None]:
        """The repository of the runs; None for a downloaded artifact."""
        if (
            not os.path.lexists(self.top / ".git")
            and "GIT_DIR" not in read_process_environment().variables
        ):
            yield None
            return
        with open_repository(self.top, read_process_environment()) as repository:
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
            if repository is None:
                return {}
            return open_state(repository.common_dir).begun.runs()

    def begun_first(self, entries: Sequence[RunEntry]) -> list[RunEntry]:
        """The same runs, those that began in this clone before those that were brought here.
        GateError.
        """
        return sorted(entries, key=lambda entry: entry.run_id not in self.begun)

    def require_begun(self, named_run: NamedRun, command: str) -> None:
        """UsageError: the run is only the newest that was brought here, and `command` uses such a
        run by name alone.
        """
        if named_run.entry.run_id not in self.begun:
            run_id = named_run.entry.run_id
            raise UsageError(
                f"No run began in this clone. Name the run: `vibe-gate {command} {run_id}`."
            )

    def entries(self, references: Sequence[str]) -> list[RunEntry] | None:
        """The named runs, each once; None if none was named. UsageError."""
        if not references:
            return None
        all_entries = self.bundles.find()
        named_runs = [self.find_run(reference, all_entries) for reference in references]
        return list(dict.fromkeys(named_run.entry for named_run in named_runs))

    def find_run(
        self, reference: str | None, entries: Sequence[RunEntry] | None = None
    ) -> NamedRun:
        """The run that `reference` means (None: the newest). UsageError if no run or several
        match.

        `entries`: all runs, from whoever names many of them; None: they are read.
        """
        entries = self.bundles.find() if entries is None else entries
        own_entries = [entry for entry in entries if entry.state != "foreign"]
        if reference is None:
            if not own_entries:
                raise UsageError(NO_RUNS_YET)
            return NamedRun(self.begun_first(own_entries)[0], "newest")
        id_matches = self._id_matches(entries, reference)
        if id_matches:
            return self._by_id(id_matches, reference)
        if not entries:
            raise UsageError(NO_RUNS_YET)
        key_matches = [entry for entry in own_entries if entry.key == reference]
        if key_matches:
            return self._best(key_matches, "tree" if reference.startswith("tree-") else "commit")
        return self._by_revision(own_entries, reference)

    def _id_matches(self, entries: Sequence[RunEntry], reference: str) -> list[RunEntry]:
        """The runs whose id begins with `reference`."""
        if not reference:
            return []
        matches = [entry for entry in entries if entry.run_id.startswith(reference)]
        if not matches and reference[0].isdigit():
            return self.bundles.find(replays=True, prefix=reference)  # a replay has its id alone
        return matches

    def _by_id(self, matches: Sequence[RunEntry], reference: str) -> NamedRun:
        """The only run of them, or the one that has exactly this id. UsageError: there are more."""
        matched = "run id prefix"
        exact_matches = [entry for entry in matches if entry.run_id == reference]
        if exact_matches:
            matches, matched = exact_matches, "run id"
        if len(matches) > 1:
            names = list_names((entry.run_id for entry in matches), MAX_CANDIDATES)
            raise UsageError(
                f'"{paths.quote(reference)}" is ambiguous: {len(matches)} runs match ({names}).'
            )
        entry = matches[0]
        foreign = self.bundles.provenance.foreign(entry.key, entry.run_id)
        return NamedRun(entry, matched, foreign=foreign)

    def find_own_run(
        self, reference: str | None, entries: Sequence[RunEntry] | None = None
    ) -> NamedRun:
        """As `find_run`. IntegrityError: no review in this clone wrote the run, so what it says does
        not count.
        """
        return _require_own(self.find_run(reference, entries))

    def open_run(self, reference: str | None) -> tuple[StoredRuns, NamedRun]:
        """The runs of the store that has it, and the run, as of `find_own_run`. `reference` may also be the
        run's folder, in another working tree, too: what `verify` prints of a review, or has printed
        before the run was moved.
        """
        folder = self._folder(reference) if reference else None
        if folder is None:
            return self, self.find_own_run(reference)
        bundles = self.bundles  # which takes over what linked worktrees keep
        root = folder.parents[2]
        is_elsewhere = folder.exists() and not root.samefile(bundles.root)
        runs = StoredRuns(root) if is_elsewhere else self
        key = folder.parent.name
        for entry in runs.bundles.find(replays=True, run=folder.name):
            if entry.key == key:
                foreign = runs.bundles.provenance.foreign(key, entry.run_id)
                return runs, _require_own(NamedRun(entry, "folder", foreign=foreign))
        raise UsageError(f"No run found for {paths.quote(str(reference))}; {_LIST}")

    def _folder(self, reference: str) -> Path | None:
        """The folder of a run that `reference` is a path of, from here or from the top of the
        working tree; or None.
        """
        if "/" not in reference or is_git_redirected():
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

    def _best(self, entries: Sequence[RunEntry], matched: str) -> NamedRun:
        """The newest sealed run of them, of this clone if there is one."""
        runs = self.begun_first(entries)
        sealed_runs = [entry for entry in runs if entry.state == "sealed"]
        return NamedRun((sealed_runs or runs)[0], matched, len(entries) - 1)

    def _by_revision(self, entries: Sequence[RunEntry], reference: str) -> NamedRun:
        """The best run about the commit, the tree or the change that a revision means.
        UsageError.
        """
        unknown = f"No run found for {paths.quote(reference)}"
        ids: dict[Match, str] = {}
        with self.repository() as repository:
            if repository is not None:
                try:
                    ids = _ids(repository, reference)
                except RevisionError as error:
                    similar_name = nearest(reference, repository.names())
                    hint = f" Did you mean {similar_name!r}?" if similar_name else ""
                    raise UsageError(
                        f"{unknown}, which is not a revision either; {_LIST}{hint}"
                    ) from error
        for match in MATCHES:
            matches = [entry for entry in entries if entry.is_about(match, ids.get(match, ""))]
            if matches:
                return self._best(matches, match.replace("_", " ").replace("patch id", "patch-id"))
        raise UsageError(f"{unknown}; {_LIST}")


def _is_top(root: Path) -> bool:
    """Whether a store in `root` is not inside of a repository's tree, where what git tracks would
    not be told.
    """
    for folder in (root, *root.parents):
        if os.path.lexists(folder / ".git"):
            return folder == root
    return True


def _require_own(named_run: NamedRun) -> NamedRun:
    """The run. IntegrityError: no review in this clone wrote it."""
    if named_run.foreign:
        run = named_run.entry.run_id
        raise IntegrityError(
            f"Run {run} is foreign: {named_run.foreign}. It is listed, and nothing else."
        )
    return named_run


def is_git_redirected() -> bool:
    """Whether the user's environment names the repository that git is to use."""
    return not read_process_environment().variables.keys().isdisjoint(REDIRECTIONS)


def _top() -> Path:
    """The top of the repository around the current folder, or the nearest folder with a store.
    UsageError.
    """
    if is_git_redirected():
        with open_repository_here() as repository:
            return repository.root
    current = Path.cwd()
    for name in (".git", STORE):  # the store alone too, because bundles can be moved
        for folder in (current, *current.parents):
            if os.path.lexists(folder / name):
                return folder
    raise UsageError(f"No git repository and no {STORE} here. Change to a folder that has one.")


def parse_since(text: str) -> datetime:
    """The value of `--since`: that long ago, or a date."""
    age = _AGE.fullmatch(text)
    try:
        if age:
            number, unit = age.groups()
            return now() - timedelta(**{_UNITS[unit]: int(number)})
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"'{text}' is neither an age (30d, 12h, 2w) nor an ISO date"
        ) from None
    if moment.tzinfo:
        return moment
    return moment.replace(tzinfo=UTC)


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
