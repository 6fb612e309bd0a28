"""What happens after pre-commit: which commit a reviewed tree became, and which commits no hook let through.

post-commit, post-rewrite: git runs them for every commit that it makes itself, also with `--no-verify`. Nothing can be
stopped any more: the hook reports a bypass, and `verify` and CI act on the record.

reference-transaction: git calls it for every change of a ref, plumbing included, and the script (`install.py`) calls
Python only where an agent moves a branch to a commit that no ref has yet. It must be one that a hook let through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record
from vibe_gate.errors import PASS, GateError
from vibe_gate.faces.git_hook.call import REFUSED, Hook
from vibe_gate.faces.git_hook.let_through import changes_let_through, let_through, trees_before
from vibe_gate.git import HeadCommit, Repository, Updates, open_repository
from vibe_gate.receipts.notes import share_run

if TYPE_CHECKING:
    from pathlib import Path

    from vibe_gate.git import NewCommit
    from vibe_gate.store.state import HookRecords

MAX_NAMED = 5
"""Commits that a refusal names."""

_FRAMEWORK_FILES = (".pre-commit-config.yaml", "prek.toml", "lefthook.yml", ".husky/pre-commit")

ADVICE = """\
vibe-gate: Make the commit with `git commit` and without --no-verify, so that the pre-commit hook reviews it.
vibe-gate: After a conflict in a rebase run `git commit` before `git rebase --continue`; if it is too late for that:
vibe-gate:   git reset --soft HEAD~1; git commit; git rebase --continue
vibe-gate: Or review it with `vibe-gate review --commit {commit}` and repeat the command."""


def after_commit(hook: Hook) -> int:
    """Link the commit to the review of its tree, or record that no hook let it through."""
    try:
        with open_repository(hook.start, hook.environ) as repository:
            _settle(hook, repository, [repository.head_commit()])
    except GateError as error:
        return _only_say(hook, error)
    return PASS


def _settle(hook: Hook, repository: Repository, commits: Sequence[HeadCommit]) -> None:
    records = hook.state(repository.common_dir).hook_records
    linked = {made.commit: _linked(hook, made, records) for made in commits}
    # An empty commit and an amended message leave nothing to review.
    left = [made for made in commits if linked[made.commit] is None and made.tree != made.before]
    for record in filter(None, [*linked.values(), *(_bypasses(hook, left, repository) if left else ())]):
        # The hook of the message may only have repeated what the one before it was answered.
        about = (seen for seen in records.about(record.tree) if seen.tree == record.tree and not seen.blocked)
        runs = dict.fromkeys(seen.run for seen in about)
        records.append(record)
        for run in runs if record.run else ():
            if unshared := share_run(repository, run, record.tree, record.commit):
                hook.say(f"vibe-gate: its receipt was not added to git notes: {safe(unshared)}")
        if record.kind == "bypassed" and not record.during:  # of git's own picks and reverts `verify` speaks, once
            how = record.reason or "no hook let its tree through"
            says = "`vibe-gate verify` says whether its change was reviewed"
            hook.say(f"vibe-gate: commit {record.commit[:12]} went past the hooks ({how}); {says}.")


def after_rewrite(hook: Hook) -> int:
    """Record which commit became which. Frameworks do not pass git's list on: then only the tips are recorded."""
    try:
        with open_repository(hook.start, hook.environ) as repository:
            records = hook.state(repository.common_dir).hook_records
            # Our post-commit leaves a person's rebase to this hook. In a framework only a variable tells one from the
            # other, so that the work of post-commit may not be done yet.
            made = repository.rebased() or ([] if hook.words else [repository.head_commit()])
            _settle(hook, repository, [one for one in made if not _is_recorded(one.commit, records)])
            pairs = _pairs(hook, repository)
            for old, new in pairs:
                records.append(_rewritten(hook, old, new, repository.tree(new).id))
    except GateError as error:
        return _only_say(hook, error)
    return PASS


def _linked(hook: Hook, made: HeadCommit, records: HookRecords) -> Record | None:
    seen = let_through(records.about(made.tree), made.tree)
    if seen is None:
        return None
    # An agent can commit what a person had reviewed.
    hints = tuple(dict.fromkeys((*seen.hints, *hook.hints)))
    return seen._replace(ts=hook.now, commit=made.commit, during=made.during, hints=hints)


def _is_recorded(commit: str, records: HookRecords) -> bool:
    return any(record.commit == commit for record in records.about(commit))


def _bypasses(hook: Hook, commits: Sequence[HeadCommit], repository: Repository) -> Iterator[Record]:
    """A record of each commit that no hook let through, with the signs of an agent in the environment and in it."""
    # Such a commit is rare, and its files are read for this.
    from vibe_gate.gate.authorship import Authorship

    by_git = [made.commit for made in commits if made.during]
    alone = Updates(hook.start, hook.environ).made_by_git(by_git) if by_git else set()
    authorship = Authorship(repository, {}, hook.state(repository.common_dir), hook.clock())
    changes = repository.changes_of([made.commit for made in commits])
    for made in commits:
        signed = authorship.of(changes[made.commit], (repository.commit(made.commit),)).hints
        by_hand = made.during and made.commit not in alone
        yield Record(
            ts=hook.now,
            kind="bypassed",
            stage="post-commit",
            commit=made.commit,
            tree=made.tree,
            before=made.before,
            during="" if by_hand else made.during,
            hints=tuple(dict.fromkeys((*hook.hints, *signed))),
            reason=f"in a {made.during}, but not what git makes there by itself" if by_hand else "",
        )


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


def move(hook: Hook) -> int:
    """Read `OLD NEW REF` lines of branches from stdin; REFUSED if one brings a commit that no hook let through.

    A failure of vibe-gate itself does not stop git: it is reported and recorded.
    """
    moves = [line.split(" ", 2) for line in hook.stdin().split("\n") if line.count(" ") >= 2]
    try:
        updates = Updates(hook.start, hook.environ)
        refused = [(ref, bad) for _, new, ref in moves if (bad := _not_let_through(hook, updates, new))]
    except Exception as error:  # noqa: BLE001  a broken state of vibe-gate must not stop git
        return _not_checked(hook, [new for _, new, _ in moves], error)
    for ref, commits in refused:
        hook.say(f"vibe-gate: {safe(ref)} was not moved: no hook let these commits through:")
        titles = [(commit.id[:12], commit.message.partition("\n")[0][:72]) for commit in commits[:MAX_NAMED]]
        hook.say("\n".join(f"    {name} {safe(title)}" for name, title in titles))
        hook.say(ADVICE.format(commit=commits[0].id[:12]))
    return REFUSED if refused else PASS


def _not_let_through(hook: Hook, updates: Updates, tip: str) -> list[NewCommit]:
    """The new commits of a branch that no hook, no review and no work of git itself accounts for, newest first."""
    new = updates.new(tip)
    records = hook.state(updates.common_dir).hook_records.all() if new else []
    if not new or not _is_gated(updates, records):
        return []
    if updates.is_applying():
        _note_made(hook, updates, [commit.id for commit in new], "made by `git am`, which runs no other hook")
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
    """Whether `verify` knows a review of the commit, its tree or its patch that would have let pre-commit pass.

    Asked last, because it loads much.
    """
    from vibe_gate.receipts.verify import VerifyRequest, verify

    try:
        found = verify(VerifyRequest(commit.id), start=hook.start, environ=hook.environ, now=hook.clock())
    except GateError:
        return False
    passing = {"reviewed", "overridden", "incomplete", "approval"}
    if not found.blocks_inconclusive:
        passing.add("inconclusive")
    return any(status.status in passing for _, status in found.commits)


def _note_made(hook: Hook, updates: Updates, commits: Iterable[str], reason: str) -> None:
    """Record who makes commits that go through unreviewed."""
    for commit in commits:
        record = Record(
            ts=hook.now,
            kind="not-reviewed",
            stage="reference-transaction",
            commit=commit,
            hints=hook.hints,
            reason=reason,
        )
        hook.state(updates.common_dir).hook_records.append(record)


def _not_checked(hook: Hook, commits: list[str], error: Exception) -> int:
    what = safe(str(error) or type(error).__name__)
    hook.say(f"vibe-gate: not checked whether a hook let the commit through: {what}")
    with suppress(Exception):  # the failure is already reported
        _note_made(hook, Updates(hook.start, hook.environ), commits, f"not checked: {error}"[:2000])
    return PASS


def _bytes(file: Path) -> bytes:
    with suppress(OSError):
        return file.read_bytes()
    return b""
