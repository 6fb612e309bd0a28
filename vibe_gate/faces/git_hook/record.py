"""post-commit, post-rewrite: record which commit a reviewed tree became, and which commit no hook let through.

Git runs post-commit for every commit that it makes itself, also with `--no-verify` and if it runs no pre-commit
hook. Nothing can be stopped any more: the hook reports the bypass, and `verify` and CI act on the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record, let_through, provenance
from vibe_gate.errors import PASS, GateError
from vibe_gate.faces.git_hook.call import Hook
from vibe_gate.git import HeadCommit, Repository, Updates, open_repository
from vibe_gate.receipts.notes import share_run

if TYPE_CHECKING:
    from vibe_gate.store.state import HookRecords


def seen_commits(records: Iterable[Record]) -> set[str]:
    """The commits that a hook saw being made, and what such commits were rewritten to; `records`: the oldest first."""
    seen: set[str] = set()
    for record in records:
        is_seen = record.old in seen if record.kind == "rewritten" else record.stage != "pre-push"
        if is_seen or record.kind == "unseen":
            seen.add(record.commit)
    return seen


def after_commit(hook: Hook) -> int:
    """Link the commit to the review of its tree, or record that no hook let it through."""
    try:
        with open_repository(hook.start, hook.environ) as repository:
            _settle(hook, repository, repository.head_commit())
    except GateError as error:
        return _only_say(hook, error)
    return PASS


def _settle(hook: Hook, repository: Repository, made: HeadCommit) -> None:
    records = hook.state(repository.common_dir).hook_records
    record = _linked(hook, made, records) or _unreviewed(hook, made, repository)
    if record is None:
        return
    records.append(record)
    if unshared := share_run(repository, record.run, made.tree, made.commit):
        hook.say(f"vibe-gate: its receipt was not added to git notes: {safe(unshared)}")
    if record.kind == "bypassed" and not record.during:  # of git's own picks and reverts `verify` speaks, once
        how = record.reason or "no hook let its tree through"
        says = "`vibe-gate verify` says whether its change was reviewed"
        hook.say(f"vibe-gate: commit {made.commit[:12]} went past the hooks ({how}); {says}.")


def after_rewrite(hook: Hook) -> int:
    """Record which commit became which. Frameworks do not pass git's list on: then only the tips are recorded."""
    try:
        with open_repository(hook.start, hook.environ) as repository:
            records = hook.state(repository.common_dir).hook_records
            made = repository.head_commit()
            # In a framework only a variable tells this hook from post-commit, whose work may not be done yet.
            # Git itself passes an argument, and has called post-commit before.
            known = bool(hook.words) or any(record.commit == made.commit for record in records.about(made.commit))
            if not known and made.tree != made.before:
                _settle(hook, repository, made)
            pairs = _pairs(hook, repository)
            for old, new in pairs:
                records.append(_rewritten(hook, old, new, repository.tree(new).id))
            _note_unseen(hook, records, [new for _, new in pairs])
            _report_named(hook, repository, records, pairs)
    except GateError as error:
        return _only_say(hook, error)
    return PASS


def _note_unseen(hook: Hook, records: HookRecords, rewritten: list[str]) -> None:
    """Record that an agent rewrote a commit that no hook saw being made (`git am`, then an amend)."""
    if not hook.hints:
        return
    seen = seen_commits(records.all())
    for commit in rewritten:
        if commit not in seen:
            records.append(Record(ts=hook.now, kind="unseen", stage="post-rewrite", commit=commit, hints=hook.hints))


def _report_named(hook: Hook, repository: Repository, records: HookRecords, pairs: list[tuple[str, str]]) -> None:
    """Report messages that name an agent now and did not before: with the same tree no hook had asked a judge."""
    for old, new in pairs:
        before, hints = (provenance({}, (repository.commit(name),), uncommitted=False).hints for name in (old, new))
        if before or not hints:
            continue
        tree = repository.tree(new).id
        seen = let_through(records.about(tree), tree)
        if seen is not None and not seen.judged:
            again = f"Run `vibe-gate review --commit {new[:12]}`."
            hook.say(f"vibe-gate: {safe(hints[0])}; no judge was asked. {again}")


def _linked(hook: Hook, made: HeadCommit, records: HookRecords) -> Record | None:
    seen = let_through(records.about(made.tree), made.tree)
    if seen is None:
        return None
    # An agent can commit what a person had reviewed.
    hints = tuple(dict.fromkeys((*seen.hints, *hook.hints)))
    return seen.model_copy(update={"ts": hook.now, "commit": made.commit, "during": made.during, "hints": hints})


def _unreviewed(hook: Hook, made: HeadCommit, repository: Repository) -> Record | None:
    """A bypass; None if there was nothing to review: an empty commit, or an amended message."""
    if made.tree == made.before:
        return None
    alone = bool(made.during) and Updates(hook.start, hook.environ).is_made_by_git(made.commit)
    return Record(
        ts=hook.now,
        kind="bypassed",
        stage="post-commit",
        commit=made.commit,
        tree=made.tree,
        before=made.before,
        during=made.during if alone else "",
        hints=_hints(hook, made, repository, alone=alone),
        reason=f"in a {made.during}, but not what git makes there by itself" if made.during and not alone else "",
    )


def _hints(hook: Hook, made: HeadCommit, repository: Repository, *, alone: bool) -> tuple[str, ...]:
    """Signs of an agent in the environment, in the commit, and in the commits it was made from.

    `alone`: git made it by itself; otherwise any recorded commit may be its source.
    """
    # A commit that no hook let through is rare, and its files are read for this.
    from vibe_gate.gate.authorship import Authorship

    authorship = Authorship(repository, {}, hook.state(repository.common_dir), hook.clock())
    change = repository.change(Selection("commit", left=made.commit))
    commit = repository.commit(made.commit)
    signed = authorship.of(change, (commit,)).hints
    taken = authorship.taken_over(commit.message) or (() if alone else authorship.taken_from(change))
    return tuple(dict.fromkeys((*hook.hints, *signed, *taken)))


def _rewritten(hook: Hook, old: str, new: str, tree: str) -> Record:
    return Record(
        ts=hook.now,
        kind="rewritten",
        stage="post-rewrite",
        commit=new,
        tree=tree,
        old=old,
        during="rebase" if _command(hook) == "rebase" else "",
    )


def _pairs(hook: Hook, repository: Repository) -> list[tuple[str, str]]:
    lines = [line.split(" ") for line in hook.stdin().splitlines()]
    pairs = [(words[0], words[1]) for words in lines if len(words) >= 2]
    if pairs:
        return pairs
    new = repository.resolve("HEAD")
    old = repository.resolve("ORIG_HEAD" if _command(hook) == "rebase" else "HEAD@{1}")
    # If the old commit is a parent, the new one was added to it and does not replace it.
    return [(old, new)] if old != new and old not in repository.parents(new) else []


def _command(hook: Hook) -> str:
    return hook.words[0] if hook.words else hook.environ.get("PRE_COMMIT_REWRITE_COMMAND", "amend")


def _only_say(hook: Hook, error: GateError) -> int:
    hook.say(f"vibe-gate: not recorded: {safe(str(error))}")
    return PASS
