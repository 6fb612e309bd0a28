"""reference-transaction: in an agent's environment, let a branch move only to commits that a hook let through.

Git calls the hook for every change of a ref, `--no-verify` and plumbing included. The script
(`scripts.py`) calls this only where an agent moves a branch to a commit that no ref has yet.
A person is never stopped: what a person commits with --no-verify is recorded (`record.py`) and listed by `verify`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record, changes_let_through, trees_before
from vibe_gate.errors import PASS, GateError
from vibe_gate.faces.git_hook.call import Hook
from vibe_gate.faces.git_hook.scripts import REFUSED
from vibe_gate.git import Updates

if TYPE_CHECKING:
    from vibe_gate.git import NewCommit

MAX_NAMED = 5
"""Commits that a refusal names."""

_FRAMEWORK_FILES = (".pre-commit-config.yaml", "prek.toml", "lefthook.yml", ".husky/pre-commit")

ADVICE = """\
vibe-gate: Make the commit with `git commit` and without --no-verify, so that the pre-commit hook reviews it.
vibe-gate: After a conflict in a rebase run `git commit` before `git rebase --continue`; if it is too late for that:
vibe-gate:   git reset --soft HEAD~1; git commit; git rebase --continue
vibe-gate: Or review it with `vibe-gate review --commit {commit}` and repeat the command."""


def move(hook: Hook) -> int:
    """Read `OLD NEW REF` lines of branches from stdin; REFUSED if one brings a commit that no hook let through.

    A failure of vibe-gate itself does not stop git: it is reported and recorded.
    """
    moves = [line.split(" ", 2) for line in hook.stdin().split("\n") if line.count(" ") >= 2]
    try:
        updates = Updates(hook.start, hook.environ)
        refused = [(ref, bad) for _, new, ref in moves if (bad := _unreviewed(hook, updates, new))]
    except Exception as error:  # noqa: BLE001  a broken state of vibe-gate must not stop git
        return _not_checked(hook, [new for _, new, _ in moves], error)
    for ref, commits in refused:
        hook.say(f"vibe-gate: {safe(ref)} was not moved: no hook let these commits through:")
        hook.say("\n".join(f"    {commit.id[:12]} {safe(_title(commit))}" for commit in commits[:MAX_NAMED]))
        hook.say(ADVICE.format(commit=commits[0].id[:12]))
    return REFUSED if refused else PASS


def _unreviewed(hook: Hook, updates: Updates, tip: str) -> list[NewCommit]:
    """The new commits of a branch that no hook, no review and no work of git itself accounts for, newest first."""
    new = updates.new(tip)
    records = hook.state(updates.common_dir).hook_records.all() if new else []
    if not new or not _is_gated(updates, records):
        return []
    if updates.is_applying():
        _note_unseen(hook, updates.common_dir, [commit.id for commit in new])
        return []
    reviewed = partial(trees_before, changes_let_through(records))
    left = [commit for commit in new if commit.before not in reviewed(commit.tree)]
    made = updates.by_itself(left, reviewed) if left else set()
    left = [commit for commit in left if commit.id not in made]
    return [commit for commit in left if not _is_reviewed(hook, commit)]


def _is_gated(updates: Updates, records: list[Record]) -> bool:
    """Whether this repository's commits are reviewed: a hook names vibe-gate, or one has recorded a commit here."""
    if any(record.stage in ("pre-commit", "commit-msg", "pre-merge-commit") for record in records):
        return True
    root = updates.common_dir.parent
    return any(
        b"vibe-gate" in _bytes(file)
        for file in (updates.hooks / "pre-commit", *(root / name for name in _FRAMEWORK_FILES))
    )


def _is_reviewed(hook: Hook, commit: NewCommit) -> bool:
    """Whether `verify` knows a review of the commit, its tree or its patch; asked last, because it loads much."""
    from vibe_gate.receipts.verify import VerifyRequest, verify

    try:
        found = verify(VerifyRequest(commit.id), start=hook.start, environ=hook.environ, now=hook.clock())
    except GateError:
        return False
    return any(status.status in ("reviewed", "incomplete") for _, status in found.commits)


def _note_unseen(hook: Hook, common_dir: Path, commits: Iterable[str], reason: str = "") -> None:
    """Record who makes the commits: git runs no other hook for `git am`."""
    for commit in commits:
        record = Record(
            ts=hook.now, kind="unseen", stage="reference-transaction", commit=commit, hints=hook.hints, reason=reason
        )
        hook.state(common_dir).hook_records.append(record)


def _not_checked(hook: Hook, commits: list[str], error: Exception) -> int:
    what = safe(str(error) or type(error).__name__)
    hook.say(f"vibe-gate: not checked whether a hook let the commit through: {what}")
    with suppress(Exception):  # the failure is already reported
        _note_unseen(hook, Updates(hook.start, hook.environ).common_dir, commits, f"not checked: {error}"[:2000])
    return PASS


def _title(commit: NewCommit) -> str:
    return commit.message.partition("\n")[0][:72]


def _bytes(file: Path) -> bytes:
    with suppress(OSError):
        return file.read_bytes()
    return b""
