"""What another job uploaded, read without trust: whoever opened the pull request may have written
every byte of it.

One plain file of bounded size, no link, a strict model; other files are not opened. What it says is
a claim; number, head and repository of the pull request are never taken from it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from vibe_gate.domain import paths, unredacted_fields
from vibe_gate.domain.bundles import impossible, is_run_id
from vibe_gate.domain.document import first_mistake, holds_all, parse_object
from vibe_gate.domain.summary import Summary, decode_summary, upgrade_summary
from vibe_gate.errors import IntegrityError, UsageError
from vibe_gate.secrets import Redactor

MAX_SUMMARY = 8 << 20
"""Bytes of a summary that is read; the largest reviews leave a tenth of that."""

MAX_ARTIFACTS = 16
"""Artifacts in one folder."""

MAX_FINDINGS = 10_000
"""Of a summary: as many as ten checks keep; they are a comment and a check run in two seconds."""

_FINGERPRINT = re.compile(r"[0-9a-f]{16}\Z")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")


def read_artifacts(folder: Path, redactor: Redactor) -> list[Summary]:
    """The summaries of the artifacts in `folder` (itself, or its folders), redacted once more.

    UsageError: no artifact. IntegrityError: one is not what the Action uploads.
    """
    try:
        if (folder / "summary.json").exists():
            return [_read_artifact(folder, redactor)]
        places = sorted(islice(folder.iterdir(), MAX_ARTIFACTS + 1))
        are_folders = all(stat.S_ISDIR(place.lstat().st_mode) for place in places)
    except OSError as error:
        raise UsageError(
            f"The artifact {paths.quote(str(folder))} cannot be read: {error.strerror}."
        ) from error
    if not places or not are_folders:
        raise UsageError(
            f"{paths.quote(str(folder))} holds no artifact of the gate: there is no summary.json."
        )
    if len(places) > MAX_ARTIFACTS:
        raise _refusal(folder, f"it holds more than {MAX_ARTIFACTS} artifacts")
    return [_read_artifact(place, redactor) for place in places]


def _read_artifact(folder: Path, redactor: Redactor) -> Summary:
    try:
        document = parse_object(_read_summary_file(folder))
    except ValueError as error:
        raise _refusal(folder, f"summary.json: {error}") from None
    return unredacted_fields.redacted_summary(_summary(folder, document), redactor.value)


def _read_summary_file(folder: Path) -> bytes:
    """The content of summary.json; links, pipes and files that are too large are refused."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with open(os.open(folder / "summary.json", flags), "rb") as file:
            is_plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            raw = file.read(MAX_SUMMARY + 1) if is_plain else b""
    except FileNotFoundError:
        raise _refusal(folder, "it has no summary.json") from None
    except OSError as error:
        raise _refusal(folder, f"summary.json cannot be read: {error.strerror}") from error
    if not is_plain:
        raise _refusal(folder, "summary.json is not a plain file")
    if len(raw) > MAX_SUMMARY:
        raise _refusal(folder, f"summary.json is larger than {MAX_SUMMARY >> 20} MB")
    return raw


def _summary(folder: Path, document: Mapping[str, object]) -> Summary:
    """The summary; IntegrityError also for what the model allows and no review writes."""
    claim = {name: value for name, value in document.items() if name not in ("redacted", "digests")}
    try:
        summary = decode_summary(claim)
    except ValueError as error:
        mistake = paths.quote(first_mistake(error)[:200])
        raise _refusal(folder, f"summary.json: {mistake}") from None
    fault = _fault(summary)
    if not fault and not holds_all(summary, upgrade_summary(claim)):
        fault = "it has a key that no summary has"
    if fault:
        raise _refusal(folder, f"summary.json: {fault}")
    return summary


def _fault(summary: Summary) -> str:
    """What no summary of a review says, or ""."""
    commit = summary.change.head_commit
    if not is_run_id(summary.run_id):
        return "its run id is malformed"
    if not _COMMIT.match(commit) or summary.key != commit:
        return "it names no commit"
    if impossible(summary.outcome, summary.exit_code):
        return "its outcome and its exit code disagree"
    if len(summary.findings) > MAX_FINDINGS:
        return f"it has more than {MAX_FINDINGS:,} findings"
    for finding in summary.findings:
        if not _FINGERPRINT.match(finding.fingerprint):
            return "a fingerprint in it is malformed"
    return ""


def _refusal(folder: Path, reason: str) -> IntegrityError:
    return IntegrityError(f"The artifact {paths.quote(folder.name)} is refused: {reason}.")
