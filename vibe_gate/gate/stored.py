"""What a person means by a finding's fingerprint, looked up in the stored runs; and who the person
is.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import UNSET, Struct

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.domain.document import read
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Gate, Override
from vibe_gate.domain.label import FindingSource, Label
from vibe_gate.domain.summary import Summary, decode_summary
from vibe_gate.domain.upkeep import SealedDocuments
from vibe_gate.domain.verdict import SHORT_FINGERPRINT, Finding
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.gate.authorship import agent_behind
from vibe_gate.gate.loading import built_in_gate, load_gate
from vibe_gate.git import Repository
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.worktree_bundles import Bundles

SHORTEST = 4
"""The least characters of a fingerprint's prefix."""

MOST_CHOICES = 10
"""Findings that a refusal lists."""

_PREFIX = re.compile(r"[0-9a-f]{1,16}")


class StoredFinding(Struct, frozen=True):
    """What was meant by a fingerprint, and the run that has it."""

    fingerprint: str

    about: str
    """A sentence about it."""

    entry: RunEntry

    criterion: str = ""
    """Of a finding."""

    path: str = ""
    """Of a finding."""

    sources: tuple[FindingSource, ...] = ()
    """Of a finding, what `Summary.sources` says."""

    summary: Summary | None = None
    """The run's."""

    finding: Finding | None = None
    """Itself."""


def require_person(repository: Repository, verb: str) -> tuple[str, str]:
    """Name and address of the person who does with a finding what the verb says.

    UsageError if it is an agent, or git config has no name.
    """
    name = repository.config("user.name") or ""
    email = repository.config("user.email") or ""
    agent = name_acting_agent(repository)
    if agent:
        raise UsageError(
            f"Only a person can {verb} a finding, and {agent}. Ask a person to run this command."
        )
    if not name or not email:
        raise UsageError("Cannot record who does this: set user.name and user.email in git config.")
    return name, email


def name_acting_agent(repository: Repository) -> str:
    """The sign that a coding agent runs this, for people; "" where there is none."""
    environment = repository.environment
    email = repository.config("user.email") or ""
    return agent_behind(environment.agents, [email, *environment.author_addresses])


def stored_finding(repository: Repository, name: str, now: datetime) -> StoredFinding:
    """The finding with this fingerprint, or beginning of one, in the newest run that has it.
    UsageError.
    """
    if not is_fingerprint(name):
        raise UsageError(
            f"{paths.quote(name)} is not a fingerprint; give at least {SHORTEST} of its 16 hex "
            "digits (in brackets at each finding in the output of a review)."
        )
    finding = finding_if_any(repository, name, now)
    if finding is None:
        raise UsageError(f"No run found with a finding {name}.")
    return finding


def is_fingerprint(name: str) -> bool:
    """Whether it can be a fingerprint, or the beginning of one that is long enough."""
    return _PREFIX.fullmatch(name) is not None and len(name) >= SHORTEST


def finding_if_any(repository: Repository, name: str, now: datetime) -> StoredFinding | None:
    """As `stored_finding`; None if no run has it. UsageError if it is the beginning of several."""
    for entry, documents in sealed_runs(repository, now):
        findings = [read(Finding, document) for document in documents.document["findings"]]
        matches = [finding for finding in findings if finding.fingerprint.startswith(name)]
        fingerprints = sorted({finding.fingerprint for finding in matches})
        if len(fingerprints) > 1:
            listed = ", ".join(fingerprints)
            raise UsageError(
                f'"{name}" is ambiguous: {len(fingerprints)} findings match ({listed}).'
            )
        if matches:
            return _stored(matches[0], entry, decode_summary(documents.document))
    return None


def finding_of_criterion(repository: Repository, name: str, now: datetime) -> StoredFinding:
    """The one finding of a criterion in the newest run. UsageError if it has none or several, which
    names what there is.
    """
    for entry, documents in sealed_runs(repository, now):
        summary = decode_summary(documents.document)
        matches = [finding for finding in summary.findings if finding.criterion == name]
        if len(matches) == 1:
            return _stored(matches[0], entry, summary)
        raise UsageError(_describe_choice(name, summary, matches))
    raise UsageError("No run found; run `vibe-gate review` first.")


def _stored(finding: Finding, entry: RunEntry, summary: Summary) -> StoredFinding:
    return StoredFinding(
        fingerprint=finding.fingerprint,
        about=_describe_finding(finding),
        entry=entry,
        criterion=finding.criterion,
        path=finding.path,
        sources=summary.sources(finding),
        summary=summary,
        finding=finding,
    )


def _describe_choice(name: str, summary: Summary, matches: Sequence[Finding]) -> str:
    """Why a criterion names no finding of the run, and which findings there are."""
    run = f"the newest run ({summary.run_id})"
    if not summary.findings:
        return f"No finding {paths.quote(name)}: {run} has no findings."
    findings = matches or summary.findings
    choices = []
    for finding in findings[:MOST_CHOICES]:
        place = finding.path or "the change"
        if finding.line:
            place += f":{finding.line}"
        choices.append(f"{finding.fingerprint[:SHORT_FINGERPRINT]} ({finding.criterion}, {place})")
    if len(findings) > MOST_CHOICES:
        choices.append(f"and {len(findings) - MOST_CHOICES:,} more")
    problem = f"{paths.quote(name)} is neither a fingerprint nor a criterion with a finding"
    if matches:
        problem = f"{paths.quote(name)} has {len(matches):,} findings"
    return f"{problem} in {run}; name one of: {', '.join(choices)}."


def _describe_finding(finding: Finding) -> str:
    """The finding as a sentence; and what else has its fingerprint."""
    place = finding.path or "the change"
    if finding.line:
        place = f"{finding.path}:{finding.line}"
    if finding.other_places:
        place += f" and {counted(len(finding.other_places), 'more place')}"
    text = f"{finding.criterion}, {place}: {finding.message}"
    if not finding.evidence:
        return f"{text} (It quotes no line: whatever {finding.criterion} says there so is covered.)"
    if finding.basis is not UNSET:
        lines = "these lines" if len(finding.evidence) > 1 else "this line"
        return f"{text} (Covers what this question finds at {lines}, in whatever words.)"
    if len(finding.evidence) > 1:
        return f"{text} (Covers these lines of text together; one more is another finding.)"
    return f"{text} (Covers this line of text wherever it stands in the file.)"


def sealed_runs(
    repository: Repository, now: datetime
) -> Iterator[tuple[RunEntry, SealedDocuments]]:
    """The sealed runs of the store, newest first, without those that git tracks or that were
    altered.
    """
    bundles = _open_bundles(repository, now)
    for entry in bundles.find():
        if entry.state == "sealed":
            with contextlib.suppress(IntegrityError, StorageError):
                bundles.receipted(entry)
                yield entry, bundles.documents(entry)


def sealed_summary(repository: Repository, entry: RunEntry, now: datetime) -> Summary:
    """The summary of a sealed run, after every file of it and its receipt were compared.
    StorageError, IntegrityError.
    """
    bundles = _open_bundles(repository, now)
    bundles.receipted(entry)
    return decode_summary(bundles.documents(entry).document)


def _open_bundles(repository: Repository, now: datetime) -> Bundles:
    provenance = Provenance(now, repository.tracked_in_store())
    state = open_state(repository.common_dir)
    index = state.run_index(repository.store_root / STORE)
    return Bundles(repository.store_root, provenance, index)


def only_finding(records: Iterable[Label | Override], prefix: str, noun: str, command: str) -> str:
    """The finding of these records whose fingerprint begins so. UsageError: there is none, or
    several.
    """
    names = set()
    for record in records:
        if prefix and record.finding.startswith(prefix):
            names.add(record.finding)
    if len(names) == 1:
        return names.pop()
    problem = f"{len(names)} {noun}s match" if names else f"no {noun} matches"
    raise UsageError(f"{problem} {paths.quote(prefix)}; `vibe-gate {command} list` shows all.")


def gate_of_run(repository: Repository, summary: Summary) -> Gate:
    """The gate as it was read for the run: at its revision, or of the reviewed tree.
    GateError.
    """
    revision = summary.trusted.revision
    is_of_change = revision in ("", "worktree")
    tree = repository.tree(summary.change.after if is_of_change else revision)
    gate = load_gate(tree, revision=revision, origin="trusted")
    if gate is None and summary.trusted.bootstrap:
        gate = load_gate(repository.tree(summary.change.after), revision="", origin="trusted")
    return gate or built_in_gate(tree)
