"""After the fact: which commit a reviewed tree became, and which commit no hook let through.

Git runs post-commit for every commit that it makes itself, also with `--no-verify`
and where it runs no pre-commit hook. Nothing can be stopped any more; it can be
said, and `verify` and CI can act on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record, let_through, provenance
from vibe_gate.errors import PASS, GateError
from vibe_gate.faces.git_hook.call import Hook
from vibe_gate.git import HeadCommit, Repository, open_repository
from vibe_gate.receipts.notes import share_run
from vibe_gate.store import open_state

if TYPE_CHECKING:
    from vibe_gate.store.state import HookRecords


def after_commit(hook: Hook) -> int:
    """post-commit: link the commit to its tree's review, or record that it went past the gate."""
    try:
        with open_repository(hook.start, hook.environ) as repository:
            _settle(hook, repository, repository.head_commit())
    except GateError as error:
        return _only_say(hook, error)
    return PASS


def _settle(hook: Hook, repository: Repository, made: HeadCommit) -> None:
    records = open_state(repository.common_dir).hook_records
    record = _linked(hook, made, records) or _unreviewed(hook, made, repository)
    if record is None:
        return
    records.append(record)
    if unshared := share_run(repository, record.run, made.tree, made.commit):
        hook.say(f"vibe-gate: its receipt is in no note: {safe(unshared)}")
    if record.kind == "bypassed":
        own = f"git ran no pre-commit hook during its {record.during}" if record.during else ""
        how = own or record.reason or "no hook let its tree through"
        says = "`vibe-gate verify` says whether its change was reviewed all the same"
        hook.say(f"vibe-gate: commit {made.commit[:12]} went past the hooks ({how}); {says}.")


def after_rewrite(hook: Hook) -> int:
    """post-rewrite: which commit became which. Frameworks keep git's list to themselves: the tips, then."""
    try:
        with open_repository(hook.start, hook.environ) as repository:
            records = open_state(repository.common_dir).hook_records
            made = repository.head_commit()
            # A variable alone tells this hook from post-commit in a framework: its work is done here where it was not.
            # Git itself says in a word what it rewrote, and has called post-commit for all that has one.
            known = bool(hook.words) or any(record.commit == made.commit for record in records.about(made.commit))
            if not known and made.tree != made.before:
                _settle(hook, repository, made)
            pairs = _pairs(hook, repository)
            for old, new in pairs:
                records.append(_rewritten(hook, old, new, repository.tree(new).id))
            _note_unseen(hook, repository, records, [new for _, new in pairs])
            _tell_named(hook, repository, records, pairs)
    except GateError as error:
        return _only_say(hook, error)
    return PASS


def _note_unseen(hook: Hook, repository: Repository, records: HookRecords, rewritten: list[str]) -> None:
    """Write down that an agent rewrote what no hook saw being made (`git am`, then an amend): who pushes it may not."""
    hints = provenance(hook.environ, (), uncommitted=True).hints
    if not hints:
        return
    # Only here: to compare two commits takes more than all else that is loaded.
    from vibe_gate.faces.git_hook.seen import Seen

    seen = Seen(repository, records.all())
    for commit in rewritten:
        if not seen.has(commit):
            records.append(Record(ts=hook.now, kind="unseen", stage="post-rewrite", commit=commit, hints=hints))


def _tell_named(hook: Hook, repository: Repository, records: HookRecords, pairs: list[tuple[str, str]]) -> None:
    """Say which messages name an agent now and did not before: no hook had anything to review, and nobody was asked."""
    for old, new in pairs:
        before, hints = (provenance({}, (repository.commit(name),), uncommitted=False).hints for name in (old, new))
        if before or not hints:
            continue
        tree = repository.tree(new).id
        seen = let_through(records.about(tree), tree)
        if seen is not None and not seen.judged:
            again = f"`vibe-gate review --commit {new[:12]}` asks one, if the gate wants it."
            hook.say(f"vibe-gate: {safe(hints[0])}; no judge was asked. {again}")


def _linked(hook: Hook, made: HeadCommit, records: HookRecords) -> Record | None:
    seen = let_through(records.about(made.tree), made.tree)
    if seen is None:
        return None
    # Who looked at the tree need not be who commits it: an agent can commit what a person had reviewed.
    hints = tuple(dict.fromkeys((*seen.hints, *provenance(hook.environ, (), uncommitted=True).hints)))
    now = hook.now
    return seen.model_copy(update={"ts": now, "commit": made.commit, "during": made.during, "hints": hints})


def _unreviewed(hook: Hook, made: HeadCommit, repository: Repository) -> Record | None:
    """A bypass; None where there was nothing to review: an empty commit, or an amended message."""
    if made.tree == made.before:
        return None
    alone = repository.is_made_by_git(made)
    return Record(
        ts=hook.now,
        kind="bypassed",
        stage="post-commit",
        commit=made.commit,
        tree=made.tree,
        during=made.during if alone else "",
        hints=_hints(hook, made, repository, alone=alone),
        reason=f"in a {made.during}, but not what git makes there by itself" if made.during and not alone else "",
    )


def _hints(hook: Hook, made: HeadCommit, repository: Repository, *, alone: bool) -> tuple[str, ...]:
    """Who made the commit: whoever runs this made it just now, so the environment counts, too.

    `alone`: git made it by itself of a commit that it names; else it may be of any.
    """
    seen = provenance(hook.environ, (), uncommitted=True).hints
    # Only here: a commit that no hook let through is rare, and its files are read for this.
    from vibe_gate.gate.authorship import Authorship

    authorship = Authorship(repository, {}, open_state(repository.common_dir), hook.clock())
    change = repository.change(Selection("commit", left=made.commit))
    commit = repository.commit(made.commit)
    signed = authorship.of(change, (commit,)).hints
    taken = authorship.taken_over(commit.message) or (() if alone else authorship.taken_from(change))
    return tuple(dict.fromkeys((*seen, *signed, *taken)))


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
    # An amended commit never stands on the one that it was.
    return [(old, new)] if old != new and old not in repository.parents(new) else []


def _command(hook: Hook) -> str:
    return hook.words[0] if hook.words else hook.environ.get("PRE_COMMIT_REWRITE_COMMAND", "amend")


def _only_say(hook: Hook, error: GateError) -> int:
    hook.say(f"vibe-gate: not recorded: {safe(str(error))}")
    return PASS
