"""The round before a stored review: an earlier review of the same change that asked the same.

    commits       it began at the same commit, and its head is an ancestor of this one's
    no commits    it is the last one before, upon the same commit, of index or working tree as this one is, that was
                  about other contents; a changed file is in both

Whatever is less plain is no round: nothing is called fixed because another change was reviewed in
between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.document import text_of
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import GateError
from vibe_gate.git import Repository
from vibe_gate.report.reported_finding import ReportedFinding
from vibe_gate.report.round import answered_by, first_round, next_round
from vibe_gate.report.round_record import RoundCounts, RoundRecord, record_round
from vibe_gate.run.run_documents import WORKFLOW
from vibe_gate.store.run_result import RunResult, read_bundle

MOST_LOOKED_AT = 20
"""Earlier runs whose bundles are opened."""


def round_before(
    result: RunResult, entries: Sequence[RunEntry], repository: Repository
) -> RoundRecord | None:
    """What became of the findings of the round before; None if there was none, or neither found
    anything.

    `entries`: runs, the newest first. StorageError, IntegrityError: the run itself cannot be read.
    """
    if not result.complete or (summary := result.summary).workflow != WORKFLOW:
        return None
    root, head = result.bundle_dir.parents[2], summary.change.head_commit
    earlier = islice(_candidates(summary, entries), MOST_LOOKED_AT)
    with suppress(GateError):  # of an earlier run that is damaged nothing is told
        entry = (
            _of_commits(head, earlier, repository) if head else _of_snapshots(result, earlier, root)
        )
        if entry is None or not (head or _paths(summary).intersection(entry.paths)):
            return None
        before = read_bundle(root / entry.bundle)
        # What a model said that was shown what stays in this clone does not get into the page of a
        # run without.
        is_shown_the_same = before.about.get("shown") == result.about.get("shown")
        if is_shown_the_same and asks_the_same(then := before.summary, summary):
            told = told_since(then, summary)
            return told if told.counts != RoundCounts() else None
    return None


def _candidates(summary: Summary, entries: Sequence[RunEntry]) -> Iterator[RunEntry]:
    """Earlier reviews upon the same commit that came to a verdict about other contents."""
    change = summary.change
    if not change.base_commit:
        return
    for entry in entries:
        is_upon = (entry.workflow, entry.base_commit) == (WORKFLOW, change.base_commit)
        is_alike = (
            is_upon
            and bool(entry.head_commit) == bool(change.head_commit)
            and entry.after != change.after
        )
        if is_alike and entry.run_id < summary.run_id and entry.outcome in ("pass", "fail"):
            yield entry


def _of_commits(head: str, earlier: Iterator[RunEntry], repository: Repository) -> RunEntry | None:
    """The last one whose head is an ancestor of this one."""
    if not repository.has(head):
        return None
    names = ((entry, entry.head_commit) for entry in earlier)
    return next(
        (one for one, old in names if repository.has(old) and repository.is_ancestor(old, head)),
        None,
    )


def _of_snapshots(result: RunResult, earlier: Iterator[RunEntry], root: Path) -> RunEntry | None:
    """The last one of index or working tree, as this one is."""
    kinds = (_kind(result), "")
    return next(
        (entry for entry in earlier if _kind(read_bundle(root / entry.bundle)) in kinds), None
    )


def _kind(result: RunResult) -> str:
    """Whether of the index or the working tree, as the run says; "" if it does not."""
    change = result.about.get("change")
    return text_of(change, "kind") if isinstance(change, dict) else ""


def _paths(summary: Summary) -> set[str]:
    return {name for file in summary.change.files for name in (file.path, file.old_path) if name}


def asks_the_same(earlier: Summary, summary: Summary) -> bool:
    """Whether both asked the same rubrics, and both asked judges or neither did."""
    rubrics, others = (
        {(one.id, one.digest) for one in each.rubrics} for each in (earlier, summary)
    )
    return rubrics == others and bool(earlier.unasked) == bool(summary.unasked)


def told_since(earlier: Summary, summary: Summary) -> RoundRecord:
    """What became of the findings of the earlier review.

    A file that is no longer part of uncommitted work may just not be staged: nothing of it is
    called fixed.
    """
    before = first_round(earlier.findings, earlier.change.after).state
    decided, paths = answered_by(summary, before), _paths(summary)

    def answered(seen: ReportedFinding) -> bool:
        is_there = bool(summary.change.head_commit) or not seen.path or seen.path in paths
        return is_there and decided(seen)

    told = next_round(
        before,
        summary.findings,
        summary.change.after,
        touched=lambda _: True,
        blocking=lambda _: True,
        answered=answered,
    )
    return record_round(told, earlier.run_id)
