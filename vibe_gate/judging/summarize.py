"""The account of a run: its Summary and records, put together from what was found."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from vibe_gate.domain import paths, unredacted_fields
from vibe_gate.domain.change import Change, FileChange
from vibe_gate.domain.decide import short
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import ChangedFile, ChangeSummary, Summary, Trusted, Unreviewed
from vibe_gate.domain.verdict import CriterionResult, Finding

WORKFLOW = "review"
"""The built-in workflow: checks, then the judge."""

FINGERPRINT = 16
"""Hex digits of a fingerprint: 64 bits, plenty for the findings of one repository."""


def of_change(change: Change) -> ChangeSummary:
    """The change by ids and paths, as a summary carries it."""
    return ChangeSummary(
        before=change.before,
        after=change.after,
        base_commit=change.base_commit,
        head_commit=change.head_commit,
        patch_id=change.patch_id,
        range_patch_id=change.range_patch_id,
        files=tuple(_changed_file(file) for file in change.files),
    )


def _changed_file(file: FileChange) -> ChangedFile:
    return ChangedFile(
        path=file.shown_path,
        old_path=None if file.old_path is None else paths.quote(file.old_path),
        change_type=file.change_type,
        added=file.added,
        deleted=file.deleted,
        binary=file.binary,
    )


def nothing(change: Change) -> Summary:
    """The summary of a review with nothing to do: no run, no bundle, exit 0."""
    return Summary(
        run_id="",
        key=change.key,
        workflow=WORKFLOW,
        outcome="pass",
        exit_code=0,
        bundle="",
        trusted=Trusted(revision="", bootstrap=False),
        change=of_change(change),
    )


def about(change: Change, gate: Gate, rubrics: Sequence[Rubric], limits: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says of a run before anything is asked."""
    return {
        "workflow": WORKFLOW,
        "mode": change.kind,
        "prompt": None,
        "budgets": dict(limits),
        "change": of_change(change).model_dump(exclude={"files"}),
        "trusted": {"revision": gate.revision, "origin": gate.origin},
        "definitions": dict(gate.digests),
        "rubrics": {rubric.id: rubric.digest for rubric in rubrics},
    }


def not_asked(criterion: Criterion, why: str, *, chosen: bool) -> CriterionResult:
    """A judge criterion that nobody was asked about.

    `chosen`: it does not bear on this change or was left out on purpose; otherwise
    it could not be asked, and stays undecided.
    """
    return CriterionResult(
        id=criterion.id,
        kind="judge",
        must=criterion.must,
        weight=criterion.weight,
        outcome="not_applicable" if chosen else "abstain",
        decided_by="none",
        reason=why,
    )


def findings_of(criterion: Criterion, result: CriterionResult) -> list[Finding]:
    """What a failed judge criterion points at: every piece of evidence that stands."""
    if result.outcome != "fail":
        return []
    found = [
        Finding(
            path=evidence.path,
            line=evidence.line,
            end_line=evidence.end_line,
            level="failure" if criterion.must else "warning",
            criterion=criterion.id,
            message=vote.reason or "The answer gives no reason.",
            evidence=(evidence,),
        )
        for vote in result.votes
        if vote.outcome == "fail"
        for evidence in vote.evidence
        if evidence.standing != "void"
    ]
    return list({(f.path, f.line, f.end_line): f for f in reversed(found)}.values())[::-1]


def fingerprinted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with fingerprints that hold across rebases.

    A fingerprint is made of criterion, path and the quoted text (its white space
    folded), never of line numbers; equal ones are told apart by their order.
    """
    seen: Counter[str] = Counter()
    made = []
    for finding in findings:
        quotes = " ".join(evidence.quote for evidence in finding.evidence) or finding.message
        basis = "\0".join((finding.criterion, finding.path, " ".join(quotes.split())))
        seen[basis] += 1
        digest = hashlib.sha256(f"{basis}\0{seen[basis]}".encode()).hexdigest()[:FINGERPRINT]
        made.append(finding.model_copy(update={"fingerprint": digest}))
    return tuple(made)


def redacted(summary: Summary, redact: Callable[[Any], Any]) -> Summary:
    """The summary as it may be shown: a terminal is often a public log. `redact` takes and gives JSON values."""
    document = unredacted_fields.summary(summary.model_dump(mode="json", by_alias=True), redact)
    for finding in document["findings"]:
        finding["message"] = short(finding["message"])
    return Summary.model_validate(document)


def unasked(files: Iterable[FileChange], why: str) -> tuple[Unreviewed, ...]:
    """Whole files that no judge was shown."""
    return tuple(Unreviewed(path=file.shown_path, line=0, end_line=0, reason=why) for file in files)
