"""`override` and `suppress`: what a person asks to let pass is looked up in the bundles, and
written down.
"""

from __future__ import annotations

import secrets
from datetime import date, datetime, timedelta
from pathlib import Path

import tomli_w
from msgspec import Struct
from msgspec.structs import asdict

from vibe_gate.domain import nearest, paths
from vibe_gate.domain.gate import (
    CRITERIA_WITHOUT_RUBRIC,
    POLICY,
    Override,
    Suppression,
    SuppressionsFile,
)
from vibe_gate.domain.receipt import parse
from vibe_gate.domain.tables import WrongKey, read_table
from vibe_gate.errors import DefinitionError, InfrastructureError, UsageError
from vibe_gate.gate.loading import FOLDER, SUPPRESSIONS, load_gate
from vibe_gate.gate.source import Mistake, read_model, read_toml
from vibe_gate.gate.stored import (
    StoredFinding,
    only_finding,
    require_person,
    sealed_runs,
    stored_finding,
)
from vibe_gate.git import Repository
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.run_result import read_bundle

MAX_REMARK = 10_000
"""Letters of what is written into a run's bundle."""

DEFAULT_TIME = timedelta(days=30)
"""How long an override without a date of its own holds."""


class WaiverAsked(Struct, frozen=True):
    """What a person asks to let pass."""

    what: str
    """The beginning of a finding's fingerprint, "policy" (the newest change of the gate), its
    fingerprint ("policy-" and hex digits), or CRITERION:GLOB.
    """

    reason: str

    expires: date | None = None
    """The last day; None: the default."""


def override(ask: WaiverAsked, repository: Repository, now: datetime) -> tuple[Override, str]:
    """Record an override; what it is about comes back as a sentence.

    UsageError: an agent asks, nothing or several things are meant, or the date is past.
    """
    name, email = require_person(repository, "accept")
    _check_request(ask, now)
    if ask.what == "policy" or ask.what.startswith(POLICY):
        finding = _policy_finding(repository, ask.what.removeprefix(POLICY), now)
    else:
        finding = stored_finding(repository, ask.what, now)
    new_override = Override(
        ts=now.isoformat(timespec="seconds"),
        finding=finding.fingerprint,
        reason=" ".join(ask.reason.split()),
        by=f"{name} <{email}>",
        email=email,
        expires=ask.expires or now.date() + DEFAULT_TIME,
        run=finding.entry.run_id,
    )
    open_state(repository.common_dir).overrides.append(new_override)
    _annotate_run(repository, finding, new_override, now)
    return new_override, finding.about


def _annotate_run(
    repository: Repository, finding: StoredFinding, new_override: Override, now: datetime
) -> None:
    """Write into the run's bundle that its finding is overridden."""
    remark = (
        f"{new_override.finding} is overridden by {new_override.by} "
        f"until {new_override.expires}: {new_override.reason}"
    )
    redactor = Redactor(repository.environment.variables)
    folder = repository.store_root / finding.entry.bundle
    bundle = read_bundle(folder, redact=redactor, clock=lambda: now)
    bundle.annotate(remark[:MAX_REMARK], "override")


def remove_override(prefix: str, repository: Repository) -> str:
    """Remove the overrides of one finding, named by the beginning of its fingerprint; the whole of
    it comes back.

    UsageError: it has none, or several are meant.
    """
    overrides = open_state(repository.common_dir).overrides
    fingerprint = only_finding(overrides.all(), prefix, "override", "override")
    overrides.remove(fingerprint)
    return fingerprint


def suppress(ask: WaiverAsked, repository: Repository, now: datetime) -> tuple[Suppression, str]:
    """Write a suppression into the working tree; its file's path comes back. UsageError as of
    `override`.
    """
    name, email = require_person(repository, "accept")
    _check_request(ask, now)
    table = {
        "reason": " ".join(ask.reason.split()),
        "by": f"{name} <{email}>",
        "expires": ask.expires,
        **_suppressed(ask.what, repository, now),
    }
    wrong_keys: list[WrongKey] = []
    rule = read_table(Suppression, table, wrong_keys)
    if rule is None:
        problem = wrong_keys[0].what
        raise UsageError(f"{paths.quote(ask.what)} cannot be suppressed: {problem}.")
    return rule, add_suppression(repository.root, rule)


def _suppressed(subject: str, repository: Repository, now: datetime) -> dict[str, object]:
    """What a suppression is about, as the keys of its table: a finding, or CRITERION:GLOB."""
    criterion, colon, glob = subject.partition(":")
    if colon and not glob:
        raise UsageError(
            f"{paths.quote(subject)} lacks a glob: write CRITERION:GLOB, as in no-secrets:tests/**."
        )
    criterion_ids = _criterion_ids(repository)
    if not colon:
        stored = stored_finding(repository, subject, now)
        return {
            "finding": stored.fingerprint,
            "criterion": stored.criterion,
            "paths": globs_of_finding(stored),
        }
    if criterion == "*":
        return {"criterion": None, "paths": (glob,)}
    if criterion in criterion_ids:
        return {"criterion": criterion, "paths": (glob,)}
    near = nearest(criterion, criterion_ids)
    hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(criterion_ids)}."
    raise UsageError(f"The gate has no criterion {paths.quote(criterion)!r}; {hint}")


def globs_of_finding(stored: StoredFinding) -> tuple[str, ...]:
    """The files of all its places; () of a finding about the change as a whole."""
    finding_paths = stored.finding.paths if stored.finding else (stored.path,)
    return tuple(paths.unquote(path) for path in finding_paths if path)


def _criterion_ids(repository: Repository) -> list[str]:
    """The criteria of the gate in the working tree. UsageError without one: a suppression would
    have no effect.
    """
    gate = load_gate(repository.tree(repository.snapshot()), revision="", origin="trusted")
    if gate is None:
        raise UsageError(
            "Suppressions are a part of the repository's own gate, and there is none: "
            "run `vibe-gate init` first. `vibe-gate override` accepts a finding in this clone."
        )
    ids: dict[str, None] = {}
    for rubric in gate.rubrics:
        ids |= dict.fromkeys(criterion.id for criterion in rubric.criterion)
    return [*ids, *CRITERIA_WITHOUT_RUBRIC]


def _check_request(ask: WaiverAsked, now: datetime) -> None:
    """UsageError without a reason, or if the date is past."""
    if not ask.reason.strip():
        raise UsageError("The reason is empty; say why this is acceptable.")
    if ask.expires is not None and ask.expires < now.date():
        raise UsageError(f"{ask.expires} is in the past; use a future date.")


def _policy_finding(repository: Repository, name: str, now: datetime) -> StoredFinding:
    """The change of the gate itself in the newest run that has one: this one, or any ("policy")."""
    for entry, documents in sealed_runs(repository, now):
        if documents.receipt is None:
            continue
        fingerprint = parse(documents.receipt).receipt.policy
        if not fingerprint or name not in ("policy", fingerprint):
            continue
        blocking_paths = []
        for change in documents.document["policy_changes"]:
            if change["level"] == "block":
                blocking_paths.append(change["path"])
        description = f"changes of {', '.join(blocking_paths)}"
        return StoredFinding(POLICY + fingerprint, description, entry)
    raise UsageError(
        "No review here is about such a change of the gate; "
        "run `vibe-gate review --commit REV` for its commit first."
    )


_HEAD = """\
# What this repository has decided to live with. Read at the trusted revision; \
docs/reference/receipts.md.
schema = 1
"""


def add_suppression(root: Path, rule: Suppression) -> str:
    """Append a suppression; its file's path from the root.

    DefinitionError if the file has mistakes already, UsageError at a symbolic link.
    """
    folder = root / FOLDER
    target = root / SUPPRESSIONS
    if folder.is_symlink() or target.is_symlink():
        raise UsageError(f"{paths.quote(SUPPRESSIONS)}: is a symbolic link; move it away.")
    try:
        old_content = target.read_bytes() if target.exists() else _HEAD.encode()
        new_content = _append_rule(old_content, rule)
        _check_suppressions(new_content)
        folder.mkdir(exist_ok=True)
        part = folder / f".{secrets.token_hex(8)}"
        part.write_bytes(new_content)
        part.replace(target)
    except OSError as error:
        raise InfrastructureError(
            f"{SUPPRESSIONS} could not be written: {error.strerror}."
        ) from error
    return SUPPRESSIONS


def _append_rule(content: bytes, rule: Suppression) -> bytes:
    table = {name: value for name, value in asdict(rule).items() if value not in (None, "", ())}
    text = tomli_w.dumps({"suppression": [table]}, multiline_strings=False)
    line_end = b"" if content.endswith(b"\n") else b"\n"
    return content + line_end + f"\n{text}".encode()


def _check_suppressions(content: bytes) -> None:
    """DefinitionError if a file of suppressions with this content has mistakes."""
    source = read_toml(SUPPRESSIONS, content)
    if isinstance(source, Mistake):
        raise DefinitionError([source])
    mistakes: list[Mistake] = []
    if read_model(SuppressionsFile, source.tables, (), source, mistakes) is None:
        raise DefinitionError(mistakes)
