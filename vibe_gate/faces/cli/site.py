"""`vibe-gate report --all`: the stored runs as a site of pages in a folder."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import STORE, RunEntry, Wanted
from vibe_gate.domain.calibration import Baseline
from vibe_gate.domain.change import EMPTY_TREE
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import Gate, Trust
from vibe_gate.domain.label import Label
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
from vibe_gate.receipts.verify_range import Verification, VerifyRequest, verify_commits
from vibe_gate.report import run_list
from vibe_gate.report.run_figures import RunFigures
from vibe_gate.report.site import CommitTime, Site, SiteRun, commits_before, render_index_page
from vibe_gate.report.statistics import compute_statistics, has_figures
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.new_file import describe_obstacle
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
        clone = stored
        if isinstance(stored, TeamRuns):
            clone = StoredRuns()
        return open_pages(clone.bundles, None, all_runs)
    target, option = Path(output), f"--output {paths.quote(output)}"
    obstacle = describe_obstacle(target)
    if obstacle:
        raise UsageError(f"{option}: {obstacle}.")
    if target.exists() and not target.is_dir():
        raise UsageError(f"{option}: is a file; --all writes a folder.")
    return open_pages(stored.bundles, target, all_runs)


def _put_pages(
    stored: StoredRuns,
    entries: Sequence[RunEntry],
    all_runs: Sequence[RunEntry],
    folder: PagesFolder,
    arguments: SiteArguments,
) -> set[str]:
    """Write the pages that are missing or older than their runs, so many at once: the newest; the
    places of runs that are not what was written.

    Of those that are written the oldest comes first, so that the next round's page can link it.
    """
    corrupt: set[str] = set()
    withheld_count = 0
    waiting = deque(
        entry for entry in entries if entry.state in WITH_PAGES and not folder.is_current(entry)
    )
    room = arguments.pages
    with stored.repository() as repository:
        while room > 0 and waiting:  # runs that are damaged take no room from older ones
            batch, withheld = _take_batch(waiting, room, stored, arguments)
            withheld_count += withheld
            for entry in reversed(batch):
                state = _put_page(
                    stored, entry, all_runs, folder, repository, prompts=arguments.prompts
                )
                if state == "written":
                    room -= 1
                elif state == "corrupt":
                    corrupt.add(entry.place)
    if withheld_count:
        number = counted(withheld_count, "run")
        complain(f"note: {number} without a page: {WHY_NOT} (--prompts writes it).")
    if waiting:
        limit = f"each call writes {arguments.pages:,}, the newest first (--pages N)"
        complain(f"note: {counted(len(waiting), 'page')} left; {limit}.")
    return corrupt


def _take_batch(
    waiting: deque[RunEntry], room: int, stored: StoredRuns, arguments: SiteArguments
) -> tuple[list[RunEntry], int]:
    """The next runs whose pages may be written, at most `room`; how many were passed over that may
    not leave the clone.
    """
    batch: list[RunEntry] = []
    withheld_count = 0
    while waiting and len(batch) < room:
        entry = waiting.popleft()
        if arguments.prompts or stored.bundles.may_leave(entry):
            batch.append(entry)
        else:
            withheld_count += 1
    return batch, withheld_count


def _put_page(
    stored: StoredRuns,
    entry: RunEntry,
    all_runs: Sequence[RunEntry],
    folder: PagesFolder,
    repository: Repository | None,
    *,
    prompts: bool,
) -> Literal["written", "unread", "corrupt"]:
    """Write the run's page; if the run cannot be read, or is not what was written, say why."""
    try:
        result = stored.read(NamedRun(entry, ""))
        earlier = round_before(result, all_runs, repository, folder.runs)
        text = page_of(result, repository, prompts=prompts or None, earlier=earlier)
    except GateError as error:
        complain(f"vibe-gate: no page of {entry.run_id}: {safe(str(error))}")
        if isinstance(error, IntegrityError):
            return "corrupt"
        return "unread"
    folder.put_page(entry, text)
    return "written"


class _CloneView(Struct, frozen=True):
    """What the index says of the repository around the runs; nothing of a store without one."""

    labels: tuple[Label, ...] = ()
    """What people here say of findings."""
    coverage: Verification | None = None
    """What `verify` says of the commits."""
    commits: str = ""
    """Their range."""
    gate: Gate | None = None
    """The one at the trusted revision."""
    judges: Badges = msgspec.field(default_factory=dict)
    """How far each judge is trusted."""

    @property
    def baselines(self) -> tuple[Baseline, ...]:
        """Of the gate's judges."""
        if self.gate is None:
            return ()
        return self.gate.baselines

    @property
    def trust(self) -> Trust:
        """What the gate asks of a judge that is to block."""
        if self.gate is None:
            return Trust()
        return self.gate.file.trust


def _read_clone(stored: StoredRuns, commits: str | None) -> _CloneView:
    """`commits`: the range to verify; None: the newest ones. GateError."""
    with stored.repository() as repository:
        if repository is None:
            return _CloneView()
        labels = known_labels(repository)
        coverage, span = _coverage(repository, commits)
        gate = _gate(repository)
        judges: Badges = {}
        if gate is not None:
            judges = _judges(gate, repository)
    return _CloneView(tuple(labels), coverage, span, gate, judges)


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
    clone = _read_clone(stored, arguments.commits)
    coverage = clone.coverage
    if coverage and not isinstance(stored, TeamRuns):  # which are not those that were verified
        sealed = {entry.place for entry in entries if entry.state == "sealed"}
        corrupt = corrupt | set(_contradicted_places(coverage, sealed - corrupt))
    entries = _with_corrupt(entries, corrupt)
    all_entries = entries
    if arguments.since is not None or arguments.path is not None:
        all_entries = _with_corrupt(stored.bundles.find(), corrupt)
    entries_by_place = {entry.place: entry for entry in all_entries}
    first_run = None
    with stored.repository() as repository:
        if repository:
            first_run = _first_run(all_entries, repository)
    redact = Redactor(read_process_environment().variables).text
    with figures_of(stored.bundles) as figures:
        runs = _site_runs(stored, entries, folder, figures, redact)
        total = compute_statistics(
            entries, entries_by_place, figures, clone.labels, arguments.since
        )
    authorship: dict[str, tuple[str, str]] = {}
    older_commits: frozenset[str] = frozenset()
    if coverage:
        authorship = _days_and_authors(coverage, redact)
        older_commits = _older_commits(coverage, first_run)
    return Site(
        tuple(runs),
        total,
        clone.labels,
        clone.baselines,
        coverage,
        redact(clone.commits),
        _conditions(arguments, redact),
        judges=clone.judges,
        trust=clone.trust,
        authorship=authorship,
        first_run=first_run.date().isoformat() if first_run else "",
        older=older_commits,
    )


def _site_runs(
    stored: StoredRuns,
    entries: Sequence[RunEntry],
    folder: PagesFolder,
    figures: Callable[[RunEntry], RunFigures | None],
    redact: Callable[[str], str],
) -> list[SiteRun]:
    """The runs as the index lists them, their titles and authors redacted."""
    titles, authors = titles_and_authors_by_key(entries)
    titles = {key: redact(title) for key, title in titles.items()}
    runs = []
    for entry in entries:
        run_figures = None
        if has_figures(entry):
            run_figures = figures(entry)
        tested = None
        if entry.state == "sealed":
            tested = read_tested_run(stored.bundles, entry)
        runs.append(
            SiteRun(
                entry,
                run_figures or RunFigures(),
                run_list.run_title(entry, titles),
                folder.address_of(entry),
                tested,
                redact(authors.get(entry.key, "")),
            )
        )
    return runs


def _conditions(arguments: SiteArguments, redact: Callable[[str], str]) -> str:
    """What the runs were narrowed to, in words; "" for all runs."""
    conditions = []
    if arguments.since:
        conditions.append(f"since {arguments.since.astimezone(UTC):%Y-%m-%d %H:%M} (UTC)")
    if arguments.path:
        conditions.append(f"paths {safe(redact(arguments.path))}")
    return ", ".join(conditions)


def _days_and_authors(
    coverage: Verification, redact: Callable[[str], str]
) -> dict[str, tuple[str, str]]:
    """By commit, the day on which its author wrote it, and the author's name, redacted."""
    commits = [identity.commit for identity, _ in coverage.commits]
    days_and_authors = days_and_authors_by_commit(commits)
    return {commit: (day, redact(author)) for commit, (day, author) in days_and_authors.items()}


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
    try:
        began_at = datetime.fromisoformat(entry.created_at)
    except ValueError:
        return None
    if began_at > now():
        return None
    return began_at


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
        made_at = None
        if seconds.isascii() and seconds.isdigit():
            made_at = int(seconds)
        times[commit] = CommitTime(made_at, tuple(parents.split()))
    return times


def _contradicted_places(coverage: Verification, places: Container[str]) -> Iterator[str]:
    """Those of `places` whose runs their receipts or digests contradict; why is complained of."""
    receipts = {}
    for _, status in coverage.commits:
        if status.status == "forged" and status.found:
            receipts[status.found.place.removeprefix(f"{STORE}/")] = status.found
    for place, receipt in receipts.items():
        if receipt.problem and place in places:
            complain(f"vibe-gate: run {safe(receipt.run_id)} is corrupt: {safe(receipt.problem)}")
            yield place


def _with_corrupt(entries: Iterable[RunEntry], corrupt: Container[str]) -> list[RunEntry]:
    """The entries; those at the places `corrupt` as corrupt ones."""
    marked_entries = []
    for entry in entries:
        if entry.place in corrupt:
            entry = RunEntry(entry.run_id, entry.key, "corrupt")
        marked_entries.append(entry)
    return marked_entries


def _coverage(repository: Repository, commits: str | None) -> tuple[Verification | None, str]:
    """What `verify` says of a range, or of the newest commits; and the range. GateError of a range
    that a user wrote.
    """
    span = commits
    if span is None:
        span = _newest_span(repository)
        if not span:
            return None, ""
    request = VerifyRequest(range=span)
    try:
        coverage = verify_commits(
            request, start=repository.root, environment=read_process_environment(), now=now()
        )
    except GateError as error:
        if commits is not None:
            raise
        complain(f"vibe-gate: the site shows no commits: {safe(str(error))}")
        return None, ""
    branch = repository.branch()
    if commits is None and branch:
        span = span.replace("HEAD", branch)
    return coverage, span.removeprefix(f"{EMPTY_TREE}..")


def _newest_span(repository: Repository) -> str:
    """The range of the newest commits; "" if there are none yet."""
    try:
        repository.resolve("HEAD")
    except RevisionError:
        return ""
    try:
        repository.resolve(f"HEAD~{COMMITS}")
    except RevisionError:
        return f"{EMPTY_TREE}..HEAD"
    return f"HEAD~{COMMITS}..HEAD"


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
