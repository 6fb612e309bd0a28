"""What another job uploaded, read without trust: whoever opened the pull request may have written every byte of it.

A handful of plain files of bounded size, no links, strict models. What it says is a
claim; number, head and repository of the pull request are never taken from it.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import Provenance, impossible, is_run_id
from vibe_gate.domain.model import parse_object
from vibe_gate.domain.receipt import MAX_BYTES as MAX_RECEIPT
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import IntegrityError, UsageError
from vibe_gate.faces.action.artifact import BUNDLE, PAPERS, REPORT
from vibe_gate.judging import assemble
from vibe_gate.receipts.verify_artifact import ArtifactClaim
from vibe_gate.secrets import Redactor
from vibe_gate.store import Bundles, read_bundle

MAX_SUMMARY = 8 << 20
"""Bytes of a summary that is read; the largest reviews leave a tenth of that."""

MAX_ARCHIVE = 64 << 20
"""Bytes of an exported bundle; more is not imported by a job that only posts."""

MAX_FILES = 16
"""Files of one artifact, and artifacts in one folder."""

MAX_FINDINGS = 10_000
"""Of a summary: as many as ten checks keep; they are a comment and a check run in two seconds."""

MAX_LINE = 10_000_000

_FINGERPRINT = re.compile(r"[0-9a-f]{16}\Z")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_KNOWN = frozenset({*PAPERS, REPORT, BUNDLE})


@dataclass(frozen=True, slots=True)
class Incoming:
    """One artifact: the summary, redacted once more; what holds it against its receipt; its bundle if it was whole."""

    name: str
    summary: Summary
    claim: ArtifactClaim
    bundle: Path | None


@contextmanager
def incoming(folder: Path, environ: Mapping[str, str], now: datetime) -> Iterator[list[Incoming]]:
    """The artifacts in `folder`: itself, or its folders. Bundles stay until the context ends.

    UsageError: no artifact. IntegrityError: one is not what the Action uploads.
    """
    with tempfile.TemporaryDirectory(prefix="vibe-gate-incoming-") as aside:
        yield [_read(place, Path(aside) / str(number), environ, now) for number, place in enumerate(_artifacts(folder))]


def _artifacts(folder: Path) -> list[Path]:
    names = _names(folder)
    if "summary.json" in names:
        return [folder]
    found = [folder / name for name in sorted(names) if stat.S_ISDIR(os.lstat(folder / name).st_mode)]
    if not found or len(found) != len(names):
        raise UsageError(f"{paths.quote(str(folder))} holds no artifact of the gate: there is no summary.json.")
    return found


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for _, entry in zip(range(MAX_FILES + 1), entries, strict=False)]
    except OSError as error:
        raise UsageError(f"The artifact {paths.quote(str(folder))} cannot be read: {error.strerror}.") from error
    if len(names) > MAX_FILES:
        raise _refused(folder, f"it holds more than {MAX_FILES} files")
    return names


def _read(folder: Path, aside: Path, environ: Mapping[str, str], now: datetime) -> Incoming:
    for name in _names(folder):
        if name not in _KNOWN:
            raise _refused(folder, f"{paths.quote(name)} is not a file that the Action uploads")
    raw = _bytes(folder, "summary.json", MAX_SUMMARY)
    if raw is None:
        raise _refused(folder, "it has no summary.json")
    bundle = _bundle(folder, aside, now)
    if bundle is None:
        claim, summary = _papers(folder, raw)
    else:
        sealed = read_bundle(bundle).documents
        claim = ArtifactClaim(sealed.document, sealed.digests, sealed.receipt)
        summary = _summary(folder, sealed.document)
        if claim.document != _papers(folder, raw)[0].document:
            raise _refused(folder, "its bundle and its summary.json are not the same run")
    _require_plausible(folder, summary)
    return Incoming(folder.name, assemble.redacted(summary, Redactor(environ).value), claim, bundle)


def _papers(folder: Path, raw: bytes) -> tuple[ArtifactClaim, Summary]:
    try:
        document = parse_object(raw)
    except ValueError as error:
        raise _refused(folder, f"summary.json: {error}") from None
    files = document.pop("digests", None)
    if not isinstance(files, dict) or not all(isinstance(value, str) for value in files.values()):
        raise _refused(folder, "summary.json has no digests")
    files.pop("receipt.json", None)
    return ArtifactClaim(document, files, _bytes(folder, "receipt.json", MAX_RECEIPT)), _summary(folder, document)


def _summary(folder: Path, document: Mapping[str, object]) -> Summary:
    said = {name: value for name, value in document.items() if name != "redacted"}
    try:
        return Summary.model_validate_json(json.dumps(said))
    except (ValidationError, ValueError, RecursionError) as error:
        first = error.errors(include_url=False, include_input=False)[0] if isinstance(error, ValidationError) else None
        where = ".".join(str(part) for part in first["loc"])[:200] if first else "nested too deeply"
        raise _refused(folder, f"summary.json: {paths.quote(where)} is not what a summary has") from None


def _bundle(folder: Path, aside: Path, now: datetime) -> Path | None:
    """The exported bundle, through the reader that trusts nothing, in a place of its own."""
    if BUNDLE not in _names(folder):
        return None
    raw = _bytes(folder, BUNDLE, MAX_ARCHIVE)
    aside.mkdir()
    archive = aside / BUNDLE
    archive.write_bytes(raw or b"")
    bundles = Bundles(aside, Provenance(now))
    bundles.import_archive(archive)
    runs = bundles.runs()
    if len(runs) != 1:
        raise _refused(folder, f"its bundle holds {len(runs)} runs, not one")
    return aside / runs[0].bundle


def _bytes(folder: Path, name: str, limit: int) -> bytes | None:
    """A plain file's content, None if it is missing; links, pipes and files that are too large are refused."""
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(folder, f"{name} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refused(folder, f"{name} is not a plain file")
    with os.fdopen(descriptor, "rb") as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise _refused(folder, f"{name} is larger than {limit >> 20} MB")
    return raw


def _require_plausible(folder: Path, summary: Summary) -> None:
    """IntegrityError for what the models allow and no review writes."""
    change = summary.change
    lines = [value for finding in summary.findings for value in (finding.line, finding.end_line)]
    lines += [value for item in summary.unreviewed for value in (item.line, item.end_line)]
    checks = {
        "its run id is malformed": is_run_id(summary.run_id),
        "it names no commit": bool(_COMMIT.match(change.head_commit)) and summary.key == change.head_commit,
        "its exit code is unknown": 0 <= summary.exit_code <= 5,
        "its outcome and its exit code disagree": not impossible(summary.outcome, summary.exit_code),
        f"it has more than {MAX_FINDINGS:,} findings": len(summary.findings) <= MAX_FINDINGS,
        "a line number in it is out of range": all(0 <= value <= MAX_LINE for value in lines),
        "a fingerprint in it is malformed": all(
            _FINGERPRINT.match(finding.fingerprint) for finding in summary.findings
        ),
        "a name in it is too long": all(
            len(finding.path) <= 4096 and len(finding.criterion) <= 64 for finding in summary.findings
        ),
        "its cost is negative": summary.cost.usd >= 0 and all(value >= 0 for value in summary.cost.by_model.values()),
    }
    wrong = next((sentence for sentence, holds in checks.items() if not holds), "")
    if wrong:
        raise _refused(folder, f"summary.json: {wrong}")


def _refused(folder: Path, why: str) -> IntegrityError:
    return IntegrityError(f"The artifact {paths.quote(folder.name)} is refused: {why}.")
