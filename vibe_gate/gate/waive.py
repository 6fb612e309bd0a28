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
from vibe_gate.domain.gate import POLICY, Override, Suppression, SuppressionsFile
from vibe_gate.domain.receipt import parse
from vibe_gate.domain.tables import WrongKey, read_table
from vibe_gate.errors import DefinitionError, InfrastructureError, UsageError
from vibe_gate.gate.loading import FOLDER, SUPPRESSIONS, load_gate
from vibe_gate.gate.source import Mistake, read_model, read_toml
from vibe_gate.gate.stored import StoredFinding, only_finding, person, sealed_runs, stored_finding
from vibe_gate.git import Repository
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.run_result import read_bundle

DEFAULT_TIME = timedelta(days=30)
"""How long an override without a date of its own holds."""


class WaiverAsked(Struct, frozen=True):
    """What a person asks: `what` may pass because of `reason`, until `expires` (inclusive; None:
    the default).
    """

    what: str
    reason: str
    expires: date | None = None


def override(ask: WaiverAsked, repository: Repository, now: datetime) -> tuple[Override, str]:
    """Record an override; what it is about comes back as a sentence.

    UsageError: an agent asks, nothing or several things are meant, or the date is past.
    """
    name, email = person(repository, "accept")
    expires = _checked(ask, now)
    meant = (
        _policy(repository, now)
        if ask.what == "policy"
        else stored_finding(repository, ask.what, now)
    )
    made = Override(
        ts=now.isoformat(timespec="seconds"),
        finding=meant.fingerprint,
        reason=" ".join(ask.reason.split()),
        by=f"{name} <{email}>",
        email=email,
        expires=expires or now.date() + DEFAULT_TIME,
        run=meant.entry.run_id,
    )
    open_state(repository.common_dir).overrides.append(made)
    remark = f"{made.finding} is overridden by {made.by} until {made.expires}: {made.reason}"
    redactor = Redactor(repository.environment.variables)
    bundle = read_bundle(
        repository.store_root / meant.entry.bundle, redact=redactor, clock=lambda: now
    )
    bundle.annotate(remark[:10_000], "override")
    return made, meant.about


def take_back(what: str, repository: Repository) -> str:
    """Remove the overrides of one finding, named by the beginning of its fingerprint; the whole of
    it comes back.

    UsageError: it has none, or several are meant.
    """
    state = open_state(repository.common_dir).overrides
    name = only_finding(state.all(), what, "override", "override")
    state.remove(name)
    return name


def suppress(ask: WaiverAsked, repository: Repository, now: datetime) -> tuple[Suppression, str]:
    """Write a suppression into the working tree; its file's path comes back. UsageError as of
    `override`.
    """
    name, email = person(repository, "accept")
    expires = _checked(ask, now)
    criterion, colon, glob = ask.what.partition(":")
    if colon and not glob:
        raise UsageError(
            f"{paths.quote(ask.what)} lacks a glob: write CRITERION:GLOB, as in no-secrets:tests/**."
        )
    known = _criteria(repository)
    if not colon:
        found = stored_finding(repository, ask.what, now)
        path = (paths.unquote(found.path),) if found.path else ()
        aim: dict[str, object] = {
            "finding": found.fingerprint,
            "criterion": found.criterion,
            "paths": path,
        }
    elif criterion in (*known, "*"):
        aim = {"criterion": None if criterion == "*" else criterion, "paths": (glob,)}
    else:
        near = nearest(criterion, known)
        hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(known)}."
        raise UsageError(f"The gate has no criterion {paths.quote(criterion)!r}; {hint}")
    said = {"reason": " ".join(ask.reason.split()), "by": f"{name} <{email}>", "expires": expires}
    wrong: list[WrongKey] = []
    rule = read_table(Suppression, said | aim, wrong)
    if rule is None:
        raise UsageError(f"{paths.quote(ask.what)} cannot be suppressed: {wrong[0].what}.")
    return rule, add_suppression(repository.root, rule)


def _criteria(repository: Repository) -> list[str]:
    """The criteria of the gate in the working tree. UsageError without one: a suppression would
    have no effect.
    """
    gate = load_gate(repository.tree(repository.snapshot()), revision="", origin="trusted")
    if gate is None:
        raise UsageError(
            "Suppressions are a part of the repository's own gate, and there is none: run `vibe-gate init` first. "
            "`vibe-gate override` accepts a finding in this clone."
        )
    return [
        *dict.fromkeys(criterion.id for rubric in gate.rubrics for criterion in rubric.criterion),
        "policy",
    ]


def _checked(ask: WaiverAsked, now: datetime) -> date | None:
    if not ask.reason.strip():
        raise UsageError("The reason is empty; say why this is acceptable.")
    if ask.expires is not None and ask.expires < now.date():
        raise UsageError(f"{ask.expires} is in the past; use a future date.")
    return ask.expires


def _policy(repository: Repository, now: datetime) -> StoredFinding:
    """The change of the gate itself that the newest run with such a change was about."""
    for entry, papers in sealed_runs(repository, now):
        if papers.receipt is not None and (fingerprint := parse(papers.receipt).receipt.policy):
            changed = [
                change["path"]
                for change in papers.document["policy_changes"]
                if change["level"] == "block"
            ]
            return StoredFinding(POLICY + fingerprint, f"changes of {', '.join(changed)}", entry)
    raise UsageError("No run found with a change of the gate itself.")


_HEAD = """\
# What this repository has decided to live with. Read at the trusted revision; docs/reference/receipts.md.
schema = 1
"""


def add_suppression(root: Path, rule: Suppression) -> str:
    """Append a suppression; its file's path from the root.

    DefinitionError where the file has mistakes already, UsageError at a symbolic link.
    """
    folder, target = root / FOLDER, root / SUPPRESSIONS
    if folder.is_symlink() or target.is_symlink():
        raise UsageError(f"{paths.quote(SUPPRESSIONS)}: is a symbolic link; move it away.")
    try:
        old = target.read_bytes() if target.exists() else _HEAD.encode()
        table = {name: value for name, value in asdict(rule).items() if value not in (None, "", ())}
        text = "\n" + tomli_w.dumps({"suppression": [table]}, multiline_strings=False)
        new = old + (b"" if old.endswith(b"\n") else b"\n") + text.encode()
        source = read_toml(SUPPRESSIONS, new)
        wrong = [source] if isinstance(source, Mistake) else list[Mistake]()
        if (
            isinstance(source, Mistake)
            or read_model(SuppressionsFile, source.tables, (), source, wrong) is None
        ):
            raise DefinitionError(wrong)
        folder.mkdir(exist_ok=True)
        part = folder / f".{secrets.token_hex(8)}"
        part.write_bytes(new)
        part.replace(target)
    except OSError as error:
        raise InfrastructureError(
            f"{SUPPRESSIONS} could not be written: {error.strerror}."
        ) from error
    return SUPPRESSIONS
