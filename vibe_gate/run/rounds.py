"""The round before a stored review: an earlier review of the same change that asked the same.

    commits       it began at the same commit, and its head is an ancestor of this one's
    no commits    it is the last one before, upon the same commit, of index or working tree as
                  this one is, that was about other contents; a changed file is in both

Whatever is less plain is no round: nothing is called fixed because another change was reviewed in
between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.document import read_text_of
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import GateError
from vibe_gate.git import Repository
from vibe_gate.report.reported_finding import ReportedFinding
from vibe_gate.report.round import answered_by, first_round, next_round
from vibe_gate.report.round_record import RoundCounts, RoundRecord, record_round
from vibe_gate.run.run_documents import WORKFLOW
from vibe_gate.store.run_result import RunResult, read_bundle

MAX_OPENED = 20
"""Earlier runs whose bundles are opened."""


def find_round_before(
    result: RunResult, entries: Sequence[RunEntry], repository: Repository
) -> RoundRecord | None:
    """What became of the findings of the round before; None if there was none, or neither found
    anything.

    `entries`: runs, the newest first. StorageError, IntegrityError: the run itself cannot be read.
    """
    if not result.complete or result.summary.workflow != WORKFLOW:
        return None
    with suppress(GateError):  # of an earlier run that is damaged nothing is said
        return _find_candidate_round(result, entries, repository)
    return None


def _find_candidate_round(
    result: RunResult, entries: Sequence[RunEntry], repository: Repository
) -> RoundRecord | None:
    """As `find_round_before`, of a review that has ended. GateError: an earlier run is damaged."""
    summary = result.summary
    head = summary.change.head_commit
    store_root = result.bundle_dir.parents[2]
    candidates = islice(_earlier_reviews(summary, entries), MAX_OPENED)
    entry = (
        _last_of_commits(head, candidates, repository)
        if head
        else _last_of_snapshots(result, candidates, store_root)
    )
    if entry is None:
        return None
    if not head and not _paths(summary).intersection(entry.paths):
        return None
    earlier_result = read_bundle(store_root / entry.bundle)
    # What a model said that was shown what stays in this clone does not get into the page of a
    # run without.
    if earlier_result.run_document.get("shown") != result.run_document.get("shown"):
        return None
    earlier_summary = earlier_result.summary
    if not asks_the_same(earlier_summary, summary):
        return None
    record = record_since(earlier_summary, summary)
    return record if record.counts != RoundCounts() else None


def _earlier_reviews(summary: Summary, entries: Sequence[RunEntry]) -> Iterator[RunEntry]:
    """Earlier reviews upon the same commit that came to a verdict about other contents."""
    change = summary.change
    if not change.base_commit:
        return
    for entry in entries:
        if entry.workflow != WORKFLOW or entry.base_commit != change.base_commit:
            continue
        if bool(entry.head_commit) != bool(change.head_commit):
            continue
        if entry.after == change.after or entry.run_id >= summary.run_id:
            continue
        if entry.outcome in ("pass", "fail"):
            yield entry


def _last_of_commits(
    head: str, candidates: Iterator[RunEntry], repository: Repository
) -> RunEntry | None:
    """The last one whose head is an ancestor of this one."""
    if not repository.has(head):
        return None
    for entry in candidates:
        earlier_head = entry.head_commit
        if repository.has(earlier_head) and repository.is_ancestor(earlier_head, head):
            return entry
    return None


def _last_of_snapshots(
    result: RunResult, candidates: Iterator[RunEntry], store_root: Path
) -> RunEntry | None:
    """The last one of index or working tree, as this one is."""
    kinds = (_kind(result), "")
    for entry in candidates:
        if _kind(read_bundle(store_root / entry.bundle)) in kinds:
            return entry
    return None


def _kind(result: RunResult) -> str:
    """Whether of the index or the working tree, as the run says; "" if it does not."""
    change = result.run_document.get("change")
    if not isinstance(change, dict):
        return ""
    return read_text_of(change, "kind")


def _paths(summary: Summary) -> set[str]:
    """The paths of the changed files, the earlier ones of those that were renamed, too."""
    names: set[str] = set()
    for file in summary.change.files:
        names.add(file.path)
        if file.old_path:
            names.add(file.old_path)
    return names - {""}


def asks_the_same(earlier: Summary, summary: Summary) -> bool:
    """Whether both asked the same rubrics, and both asked judges or neither did."""
    if bool(earlier.unasked) != bool(summary.unasked):
        return False
    return _rubric_digests(earlier) == _rubric_digests(summary)


def _rubric_digests(summary: Summary) -> set[tuple[str, str]]:
    return {(rubric.id, rubric.digest) for rubric in summary.rubrics}


def record_since(earlier: Summary, summary: Summary) -> RoundRecord:
    """What became of the findings of the earlier review.

    A file that is no longer part of uncommitted work may just not be staged: nothing of it is
    called fixed.
    """
    earlier_state = first_round(earlier.findings, earlier.change.after).state
    is_answered_by_summary = answered_by(summary, earlier_state)
    paths = _paths(summary)

    def is_answered(finding: ReportedFinding) -> bool:
        if not summary.change.head_commit and finding.path and finding.path not in paths:
            return False
        return is_answered_by_summary(finding)

    current_round = next_round(
        earlier_state,
        summary.findings,
        summary.change.after,
        touched=lambda _: True,
        blocking=lambda _: True,
        answered=is_answered,
    )
    return record_round(current_round, earlier.run_id)
