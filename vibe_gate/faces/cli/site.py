"""`vibe-gate report --all`: the stored runs as a site of pages in a folder."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import STORE, RunEntry, Wanted
from vibe_gate.domain.change import EMPTY_TREE
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import Gate, Trust
from vibe_gate.domain.leaving import WHY_NOT
from vibe_gate.errors import GateError, IntegrityError, RevisionError, UsageError
from vibe_gate.faces.cli.commit_names import (
    days_and_authors_by_commit,
    titles_and_authors_by_key,
)
from vibe_gate.faces.cli.label import known_labels
from vibe_gate.faces.cli.lazy_arguments import SiteArguments
from vibe_gate.faces.cli.output import complain, now
from vibe_gate.faces.cli.runs import NamedRun, StoredRuns, figures_of
from vibe_gate.faces.cli.team import TeamRuns, runs_of
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.faces.run_page import page_of, round_before
from vibe_gate.gate.trusted import standing_gate
from vibe_gate.git import Repository, commit_columns
from vibe_gate.judging.trust import Badges, badges
from vibe_gate.receipts.verify_range import Verification, VerifyRequest, verify
from vibe_gate.report import run_list
from vibe_gate.report.run_figures import RunFigures
from vibe_gate.report.site import CommitTime, Site, SiteRun, commits_before, render_index_page
from vibe_gate.report.statistics import compute_statistics, has_figures
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.pages_folder import PagesFolder, open_pages
from vibe_gate.store.tested_runs import read_tested_run

COMMITS = 200
"""So many steps back from HEAD commits are verified without a range: each costs a diff."""

WITH_PAGES = ("sealed", "incomplete")
"""States of runs that have a page."""


def write_site(arguments: SiteArguments) -> tuple[Path, bool]:
    """Write the site; the index, and whether it is new. GateError."""
    conditions = Wanted()
    if arguments.since is not None:
        conditions["since"] = arguments.since
    if arguments.path is not None:
        conditions["path"] = arguments.path
    with runs_of(in_store=arguments.store) as stored:
        entries = stored.bundles.find(**conditions)
        if not entries:
            complain(f"note: {run_list.NO_MATCHES if conditions else run_list.NO_RUNS}")
        if isinstance(stored, TeamRuns):
            _fetch(stored, entries)
        all_runs = stored.bundles.find() if conditions else entries
        folder = _folder(arguments.output, stored, all_runs)
        is_new = not folder.index.exists()
        corrupt = _put_pages(stored, entries, all_runs, folder, arguments)
        folder.put_index(render_index_page(_site(arguments, stored, entries, folder, corrupt)))
        return folder.index, is_new


def _fetch(stored: TeamRuns, entries: Sequence[RunEntry]) -> None:
    """Bring the runs; of those that are not what the team uploaded, say so."""
    try:
        stored.bundles.fetch([entry for entry in entries if entry.state == "sealed"])
    except IntegrityError as error:
        complain(f"vibe-gate: {safe(str(error))}")


def _folder(
    output: str | None,
    stored: StoredRuns,
    all_runs: Sequence[RunEntry],
) -> PagesFolder:
    """Where the site stands. Without -o beside the runs of this clone, also those of the shared
    store. GateError.
    """
    if output is None:
        clone = StoredRuns() if isinstance(stored, TeamRuns) else stored
        return open_pages(clone.bundles, None, all_runs)
    target, shown = Path(output), paths.quote(output)
    if target.exists() and not target.is_dir():
        raise UsageError(f"--output {shown}: is a file; --all writes a folder.")
    if not target.parent.is_dir():
        parent = paths.quote(str(target.parent))
        raise UsageError(f"--output {shown}: folder {parent} does not exist; create it first.")
    return open_pages(stored.bundles, target, all_runs)


def _put_pages(
    stored: StoredRuns,
    entries: Sequence[RunEntry],
    known: Sequence[RunEntry],
    folder: PagesFolder,
    arguments: SiteArguments,
) -> set[str]:
    """Write the pages that are missing or older than their runs, so many at once: the newest; the
    places of runs that are not what was written.

    `known`: all runs. Of those that are written the oldest comes first, so that the next round's
    page can link it.
    """
    corrupt = set[str]()
    old = [entry for entry in entries if entry.state in WITH_PAGES and not folder.is_current(entry)]
    looked_at, room, staying = 0, arguments.pages, set[str]()
    with stored.repository() as repository:
        while room > 0 and looked_at < len(
            old
        ):  # runs that are damaged take no room from older ones
            chosen = list[RunEntry]()
            while looked_at < len(old) and len(chosen) < room:
                entry, looked_at = old[looked_at], looked_at + 1
                if not arguments.prompts and not stored.bundles.may_leave(entry):
                    staying.add(entry.run_id)
                else:
                    chosen.append(entry)
            for one in reversed(chosen):
                state = _put_page(stored, one, known, folder, repository, prompts=arguments.prompts)
                room -= state == "written"
                corrupt |= {one.place} if state == "corrupt" else set()
    if staying:
        complain(
            f"note: {counted(len(staying), 'run')} without a page: {WHY_NOT} (--prompts writes it)."
        )
    if (left := len(old) - looked_at) > 0:
        most = f"each call writes {arguments.pages:,}, the newest first (--pages N)"
        complain(f"note: {counted(left, 'page')} left; {most}.")
    return corrupt


def _put_page(
    stored: StoredRuns,
    entry: RunEntry,
    known: Sequence[RunEntry],
    folder: PagesFolder,
    repository: Repository | None,
    *,
    prompts: bool,
) -> Literal["written", "unread", "corrupt"]:
    """Write the run's page; if the run cannot be read, or is not what was written, say why."""
    try:
        result = stored.read(NamedRun(entry, ""))
        earlier = round_before(result, known, repository, folder.runs)
        text = page_of(result, repository, prompts=prompts or None, earlier=earlier)
    except GateError as error:
        complain(f"vibe-gate: no page of {entry.run_id}: {safe(str(error))}")
        return "corrupt" if isinstance(error, IntegrityError) else "unread"
    folder.put_page(entry, text)
    return "written"


def _site(
    arguments: SiteArguments,
    stored: StoredRuns,
    entries: Sequence[RunEntry],
    folder: PagesFolder,
    corrupt: set[str],
) -> Site:
    """What the index is made of. `corrupt`: places of runs that are not what was written, and are
    listed so.
    """
    with stored.repository() as repository:
        labels = () if repository is None else known_labels(repository)
        coverage, commits = (
            (None, "") if repository is None else _coverage(repository, arguments.commits)
        )
        gate = None if repository is None else _gate(repository)
        judges = {} if gate is None or repository is None else _judges(gate, repository)
    if coverage and not isinstance(stored, TeamRuns):  # which are not those that were verified
        corrupt |= set(
            _forged(coverage, {one.place for one in entries if one.state == "sealed"} - corrupt)
        )
    entries = _with_corrupt(entries, corrupt)
    bundles, known = stored.bundles, {entry.place: entry for entry in entries}
    if arguments.since is not None or arguments.path is not None:
        known = {entry.place: entry for entry in _with_corrupt(bundles.find(), corrupt)}
    with stored.repository() as repository:
        first_run = None if repository is None else _first_run(known.values(), repository)
    redact = Redactor(read_process_environment().variables).text
    titles, people = titles_and_authors_by_key(entries)
    titles = {key: redact(title) for key, title in titles.items()}
    people = {key: redact(name) for key, name in people.items()}
    with figures_of(bundles) as figures:
        runs = [
            SiteRun(
                entry,
                (figures(entry) if has_figures(entry) else None) or RunFigures(),
                run_list.run_title(entry, titles),
                folder.address_of(entry),
                read_tested_run(bundles, entry) if entry.state == "sealed" else None,
                people.get(entry.key, ""),
            )
            for entry in entries
        ]
        total = compute_statistics(entries, known, figures, labels, arguments.since)
    only = []
    if arguments.since:
        only.append(f"since {arguments.since.astimezone(UTC):%Y-%m-%d %H:%M} (UTC)")
    if arguments.path:
        only.append(f"paths {safe(redact(arguments.path))}")
    baselines = gate.baselines if gate else ()
    trust = gate.file.trust if gate else Trust()
    made: dict[str, tuple[str, str]] = {}
    if coverage:
        days_and_authors = days_and_authors_by_commit(
            identity.commit for identity, _ in coverage.commits
        )
        made = {commit: (day, redact(author)) for commit, (day, author) in days_and_authors.items()}
    older = _older_commits(coverage, first_run) if coverage else frozenset()
    return Site(
        tuple(runs),
        total,
        tuple(labels),
        baselines,
        coverage,
        redact(commits),
        ", ".join(only),
        judges=judges,
        trust=trust,
        authorship=made,
        first_run=first_run.date().isoformat() if first_run else "",
        older=older,
    )


def _first_run(entries: Iterable[RunEntry], repository: Repository) -> datetime | None:
    """When the oldest run with a verdict about this repository began, in UTC; None without one.

    A run that was imported counts if it is about a commit that is here. A replay is no review.
    """
    for entry in sorted(entries, key=lambda entry: entry.run_id):
        began_at = _began_at(entry)
        if began_at is None or entry.state != "sealed" or entry.replay_of:
            continue
        commit = entry.base_commit or entry.head_commit
        with suppress(RevisionError):  # a run of another repository
            if commit:
                repository.resolve(commit)
            return began_at
    return None


def _began_at(entry: RunEntry) -> datetime | None:
    """When the run began by its id; None if no clock can have made the id yet."""
    with suppress(ValueError):
        began_at = datetime.fromisoformat(entry.created_at)
        return began_at if began_at <= now() else None
    return None


def _older_commits(coverage: Verification, first_run: datetime | None) -> frozenset[str]:
    """The commits from before the first run; without a run all that have a date."""
    commits = [identity.commit for identity, _ in coverage.commits]
    present = now()
    since = (first_run or present).timestamp()
    return commits_before(since, present.timestamp(), commits, _commit_times(commits))


def _commit_times(commits: Iterable[str]) -> dict[str, CommitTime]:
    """By commit, when it was made, and which commits it follows."""
    columns = commit_columns(Path.cwd(), read_process_environment(), ("%H", "%ct", "%P"), commits)
    times: dict[str, CommitTime] = {}
    for commit, (seconds, parents) in columns.items():
        is_date = seconds.isascii() and seconds.isdigit()
        times[commit] = CommitTime(int(seconds) if is_date else None, tuple(parents.split()))
    return times


def _forged(coverage: Verification, places: Container[str]) -> Iterator[str]:
    """Those of `places` whose runs their receipts or digests contradict; why is told."""
    forged = (status.found for _, status in coverage.commits if status.status == "forged")
    for place, found in {one.place.removeprefix(f"{STORE}/"): one for one in forged if one}.items():
        if found.problem and place in places:
            complain(f"vibe-gate: run {safe(found.run_id)} is corrupt: {safe(found.problem)}")
            yield place


def _with_corrupt(entries: Iterable[RunEntry], corrupt: Container[str]) -> list[RunEntry]:
    return [
        RunEntry(one.run_id, one.key, "corrupt") if one.place in corrupt else one for one in entries
    ]


def _coverage(repository: Repository, asked: str | None) -> tuple[Verification | None, str]:
    """What `verify` tells of the commits that were asked for, or the newest ones; and their
    range.
    """
    span = asked
    if span is None:
        span = f"HEAD~{COMMITS}..HEAD"
        try:
            repository.resolve("HEAD")
        except RevisionError:
            return None, ""  # no commits yet
        try:
            repository.resolve(f"HEAD~{COMMITS}")
        except RevisionError:
            span = f"{EMPTY_TREE}..HEAD"
    try:
        found = verify(
            VerifyRequest(range=span),
            start=repository.root,
            environment=read_process_environment(),
            now=now(),
        )
    except GateError as error:
        if asked is not None:
            raise
        complain(f"vibe-gate: the site shows no commits: {safe(str(error))}")
        return None, ""
    if asked is None and (branch := repository.branch()):
        span = span.replace("HEAD", branch)
    return found, span.removeprefix(f"{EMPTY_TREE}..")


def _gate(repository: Repository) -> Gate | None:
    with suppress(GateError):  # definitions that do not parse, which a review tells of
        return standing_gate(repository)
    return None


def _judges(gate: Gate, repository: Repository) -> Badges:
    """What a review here goes by: the labels of this clone alone."""
    return badges(
        gate,
        open_state(repository.common_dir).labels.all(),
        gate.default_model(repository.environment),
    )
