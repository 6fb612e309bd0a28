"""reference-transaction: in an agent's environment, let a branch move only to commits that a hook let through.

Git calls the hook for every change of a ref, `--no-verify` and plumbing included. The script
(`scripts.py`) calls this only where an agent moves a branch to a commit that no ref has yet.
People are never held up: what they commit past the hooks is recorded (`record.py`) and named by `verify`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record, let_through, provenance
from vibe_gate.errors import PASS, GateError
from vibe_gate.faces.git_hook.call import Hook
from vibe_gate.faces.git_hook.scripts import REFUSED
from vibe_gate.git import Updates
from vibe_gate.store import open_state

if TYPE_CHECKING:
    from vibe_gate.git import NewCommit

MAX_NAMED = 5
"""Commits that a refusal names."""

_FRAMEWORK_FILES = (".pre-commit-config.yaml", "prek.toml", "lefthook.yml", ".husky/pre-commit")

ADVICE = """\
vibe-gate: Make the commit with `git commit` and without --no-verify, so that the pre-commit hook reviews it.
vibe-gate: After a conflict in a rebase run `git commit` before `git rebase --continue`.
vibe-gate: Or review it with `vibe-gate review --commit {commit}` and repeat the command."""


def move(hook: Hook) -> int:
    """Read `OLD NEW REF` lines of branches from stdin; REFUSED if one brings a commit that no hook let through.

    A failure of vibe-gate itself lets git go on: it is said and recorded.
    """
    moves = [line.split(" ", 2) for line in hook.stdin().split("\n") if line.count(" ") >= 2]
    try:
        updates = Updates(hook.start, hook.environ)
        refused = [(ref, bad) for _, new, ref in moves if (bad := _unreviewed(hook, updates, new))]
    except Exception as error:  # noqa: BLE001  a broken state of ours must not keep anybody from working
        return _not_checked(hook, [new for _, new, _ in moves], error)
    for ref, commits in refused:
        hook.say(f"vibe-gate: {safe(ref)} was not moved: no hook let these commits through:")
        hook.say("\n".join(f"    {commit.id[:12]} {safe(_title(commit))}" for commit in commits[:MAX_NAMED]))
        hook.say(ADVICE.format(commit=commits[0].id[:12]))
    return REFUSED if refused else PASS


def _unreviewed(hook: Hook, updates: Updates, tip: str) -> list[NewCommit]:
    """The new commits of a branch that nothing speaks for, newest first."""
    new = updates.new(tip)
    records = open_state(updates.common_dir).hook_records.all() if new else []
    if not new or not _is_gated(updates, records):
        return []
    if updates.is_applying():
        _note_unseen(hook, updates, new)
        return []
    left = [commit for commit in new if let_through(records, commit.tree) is None]
    made = updates.by_itself(left) if left else set()
    left = [commit for commit in left if commit.id not in made]
    return [commit for commit in left if not _is_reviewed(hook, commit)]


def _is_gated(updates: Updates, records: list[Record]) -> bool:
    """Whether a gate stands at this repository's commits: a hook that names vibe-gate, or one that has worked here."""
    if any(record.stage in ("pre-commit", "commit-msg", "pre-merge-commit") for record in records):
        return True
    root = updates.common_dir.parent
    return any(
        b"vibe-gate" in _bytes(file)
        for file in (updates.hooks / "pre-commit", *(root / name for name in _FRAMEWORK_FILES))
    )


def _is_reviewed(hook: Hook, commit: NewCommit) -> bool:
    """Whether `verify` knows a review of the commit, its tree or its patch; asked last, for it loads much."""
    from vibe_gate.receipts.verify import VerifyRequest, verify

    try:
        found = verify(VerifyRequest(commit.id), start=hook.start, environ=hook.environ, now=hook.clock())
    except GateError:
        return False
    return any(standing.status in ("reviewed", "incomplete") for _, standing in found.commits)


def _note_unseen(hook: Hook, updates: Updates, commits: Iterable[NewCommit]) -> None:
    """Record who applies a mail: git runs no hook of ours for `git am`."""
    hints = provenance(hook.environ, (), uncommitted=True).hints
    for commit in commits:
        open_state(updates.common_dir).hook_records.append(
            Record(ts=hook.now, kind="unseen", stage="reference-transaction", commit=commit.id, hints=hints)
        )


def _not_checked(hook: Hook, commits: list[str], error: Exception) -> int:
    hook.say(
        f"vibe-gate: not checked whether a hook let the commit through: {safe(str(error) or type(error).__name__)}"
    )
    hints = provenance(hook.environ, (), uncommitted=True).hints
    with suppress(Exception):  # what cannot be recorded has been said
        records = open_state(Updates(hook.start, hook.environ).common_dir).hook_records
        for commit in commits:
            reason = f"not checked: {error}"[:2000]
            records.append(
                Record(
                    ts=hook.now, kind="unseen", stage="reference-transaction", commit=commit, hints=hints, reason=reason
                )
            )
    return PASS


def _title(commit: NewCommit) -> str:
    return commit.message.partition("\n")[0][:72]


def _bytes(file: Path) -> bytes:
    with suppress(OSError):
        return file.read_bytes()
    return b""
