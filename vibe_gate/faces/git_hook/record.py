"""What happens after pre-commit: the calls of git that have its commits recorded
(`receipts/commit_records.py`), or refused.

post-commit, post-rewrite: git runs them for every commit that it makes itself, also with
`--no-verify`. Nothing can be stopped any more: the hook reports a bypass, and `verify` and CI act
on the record.

reference-transaction: git calls it for every change of a ref, plumbing included, and the script
(`install.py`) calls Python only where an agent moves a branch to a commit that no ref has yet. It
must be one that a hook let through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record
from vibe_gate.errors import INCONCLUSIVE, PASS, POLICY_CHANGED, GateError
from vibe_gate.faces.git_hook.call import REFUSED, TRACED, Hook, effect
from vibe_gate.faces.git_hook.frameworks import names_gate
from vibe_gate.faces.git_hook.unreviewed import loud
from vibe_gate.git import Repository, Updates
from vibe_gate.receipts.commit_records import CommitRecords
from vibe_gate.receipts.let_through import changes_let_through, let_through, trees_before

if TYPE_CHECKING:
    from vibe_gate.git import NewCommit

MAX_TRACED = 100
"""Rewritten commits of which records are kept: each costs a `git blame` of its files, and git
waits.
"""

MAX_NAMED = 5
"""Commits that a refusal names."""

ADVICE = """\
vibe-gate: Make the commit with `git commit` and without --no-verify, so that the pre-commit hook reviews it.
vibe-gate: After a conflict in a rebase run `git commit` before `git rebase --continue`; if it is too late for that:
vibe-gate:   git reset --soft HEAD~1; git commit; git rebase --continue
vibe-gate: Or review it with `vibe-gate review --commit {commit}` and repeat the command."""


def commit_records(hook: Hook, repository: Repository) -> CommitRecords:
    """The records of the repository's commits, as this call by git adds to them."""
    state = hook.state(repository.common_dir)
    return CommitRecords(repository, state, hook.clock(), hook.hints, hook.say)


def settle_marks(hook: Hook, repository: Repository) -> None:
    """Record what the scripts left marks of; if that fails, say so."""
    with _report_failure(hook):
        commit_records(hook, repository).settle_marks()


def after_commit(hook: Hook) -> int:
    """Link the commit to the review of its tree, or record that no hook let it through."""
    with _report_failure(hook), hook.open_repository() as repository:
        settle_marks(hook, repository)
        with _report_failure(hook):
            head = repository.head_commit()
            commit_records(hook, repository).settle([head])
            _repeat_warning(hook, repository, head.tree)
        _keep_traces(hook, repository, [("", "HEAD")])
    return PASS


def _repeat_warning(hook: Hook, repository: Repository, tree: str) -> None:
    """Say again that the commit was not reviewed, if a framework hid that and there is no terminal
    to say it in.
    """
    if not hook.framework.is_running:
        return
    records = hook.state(repository.common_dir).hook_records.find_records(tree)
    record = let_through(records, tree)
    if record is None or record.exit_code not in (INCONCLUSIVE, POLICY_CHANGED):
        return
    with hook.persons_terminal() as terminal:
        if terminal is not None:
            return
    from vibe_gate.gate.trusted import standing_gate  # few commits need it

    gate = standing_gate(repository)
    rule = gate.file.on.inconclusive if gate else "warn"
    warning = effect(record.exit_code, rule, in_ci=False, strict=False).warning
    if not warning:
        return
    reason = safe(record.reason)
    if record.run:
        reason = f"`vibe-gate bundles show {record.run}` says why."
    hook.say(f"{loud(warning)}\nvibe-gate: {reason}")


def after_rewrite(hook: Hook) -> int:
    """Record which commit became which. Frameworks do not pass git's list on: then only the tips
    are recorded.
    """
    with _report_failure(hook), hook.open_repository() as repository:
        settle_marks(hook, repository)
        pairs: list[tuple[str, str]] = []
        # A variable can tell of a rebase that is not one; the commit is recorded all the same.
        with _report_failure(hook):
            pairs = _rewritten_pairs(hook, repository)
        # An agent's own commits without a branch were not necessarily let through.
        sources = () if hook.hints else tuple(old for old, _ in pairs)
        records = replace(commit_records(hook, repository), sources=sources)
        commits = repository.commits_of_rebase()
        if not commits and not hook.words:
            # Our post-commit leaves a person's rebase to this hook. In a framework only a variable
            # tells one from the other, so that the work of post-commit may not be done yet.
            commits = [repository.head_commit()]
        with _report_failure(hook):
            records.settle(records.unrecorded(commits))
            records.rewritten(pairs, _command(hook))
        _keep_traces(hook, repository, pairs)
    return PASS


def _keep_traces(hook: Hook, repository: Repository, pairs: Sequence[tuple[str, str]]) -> None:
    """Keep the Agent Trace records of new commits, if that is wanted: (what it was rewritten from
    or "", commit).

    A rewritten commit has one only if the one before it had. Whatever fails is said, and stops
    nothing.
    """
    if not (repository.common_dir / "vibe-gate" / TRACED).is_file():
        return
    try:
        from vibe_gate.run import trace  # what a review loads (60 ms), for those who want it

        new_revisions: dict[str, None] = {}
        for old, new in pairs:
            if not old or trace.has_own_trace_record(repository, old):
                new_revisions[new] = None
        commits = [repository.resolve(revision) for revision in new_revisions]
        if len(commits) > MAX_TRACED:
            hook.say(
                f"vibe-gate: Agent Trace records of the last {MAX_TRACED} of {len(commits)} commits are kept."
            )
        roots = trace.fold_captured_sessions(repository, hook.clock) if commits else ()
        for record in trace.make_trace_records(repository, roots, commits[-MAX_TRACED:]):
            trace.keep_trace_record(repository, record)
    except Exception as error:  # noqa: BLE001  the commit is made, and its review has nothing to do with this
        problem = safe(str(error) or type(error).__name__)
        hook.say(f"vibe-gate: its Agent Trace record was not kept: {problem}")


@contextmanager
def _report_failure(hook: Hook) -> Iterator[None]:
    """Say why this block fails, and go on: a commit that is made is not stopped any more."""
    try:
        yield
    except GateError as error:
        hook.say(f"vibe-gate: not recorded: {safe(str(error))}")


def _rewritten_pairs(hook: Hook, repository: Repository) -> list[tuple[str, str]]:
    """(commit before, commit after), as git lists them, or of the branch's tip."""
    lines = [line.split(" ") for line in hook.stdin().splitlines()]
    pairs = [(words[0], words[1]) for words in lines if len(words) >= 2]
    if pairs:
        return pairs
    new = repository.resolve("HEAD")
    old = repository.resolve("ORIG_HEAD" if _command(hook) == "rebase" else "HEAD@{1}")
    # If the old commit is a parent, the new one was added to it and does not replace it.
    if old == new or old in repository.parents(new):
        return []
    return [(old, new)]


def _command(hook: Hook) -> str:
    if hook.words:
        return hook.words[0]
    return hook.framework.rewrite_command or "amend"


def move(hook: Hook) -> int:
    """Read `OLD NEW REF` lines of branches from stdin; REFUSED if one brings a commit that no hook
    let through.

    A failure of vibe-gate itself does not stop git: it is reported and recorded.
    """
    lines = hook.stdin().split("\n")
    moves = [line.split(" ", 2) for line in lines if line.count(" ") >= 2]
    refusals: list[tuple[str, list[NewCommit]]] = []
    try:
        updates = Updates(hook.start, hook.environment)
        for _, tip, ref in moves:
            commits = _not_let_through(hook, updates, tip)
            if commits:
                refusals.append((ref, commits))
    except Exception as error:  # noqa: BLE001  a broken state of vibe-gate must not stop git
        return _not_checked(hook, [tip for _, tip, _ in moves], error)
    for ref, commits in refusals:
        _say_refusal(hook, ref, commits)
    return REFUSED if refusals else PASS


def _say_refusal(hook: Hook, ref: str, commits: Sequence[NewCommit]) -> None:
    """Say which commits the branch may not have, and how they get in."""
    hook.say(f"vibe-gate: {safe(ref)} was not moved: no hook let these commits through:")
    lines = []
    for commit in commits[:MAX_NAMED]:
        title = commit.message.partition("\n")[0][:72]
        lines.append(f"    {commit.id[:12]} {safe(title)}")
    hook.say("\n".join(lines))
    hook.say(ADVICE.format(commit=commits[0].id[:12]))


def _not_let_through(hook: Hook, updates: Updates, tip: str) -> list[NewCommit]:
    """The new commits of a branch that no hook, no review and no work of git itself accounts for,
    newest first.
    """
    commits = updates.new(tip)
    if not commits:
        return []
    hook_records = hook.state(updates.common_dir).hook_records
    records = hook_records.all()
    if not _is_gated(updates, records):
        return []
    if updates.is_applying():
        ids = [commit.id for commit in commits]
        _note_made(hook, updates, ids, "made by `git am`, which runs no other hook")
        return []
    unexplained = _not_recorded(updates, commits, records)
    if unexplained and hook_records.marks():
        with suppress(GateError), hook.open_repository() as repository:  # not from inside .git
            commit_records(hook, repository).settle_marks(by_agent=True)
            unexplained = _not_recorded(updates, unexplained, hook_records.all())
    return [commit for commit in unexplained if not _is_reviewed(hook, commit)]


def _not_recorded(
    updates: Updates, commits: list[NewCommit], records: list[Record]
) -> list[NewCommit]:
    """Those that no hook let through, by the records, and that git did not make by itself."""
    reviewed = partial(trees_before, changes_let_through(records))
    unreviewed = [commit for commit in commits if commit.before not in reviewed(commit.tree)]
    made_by_git = updates.by_itself(unreviewed, reviewed) if unreviewed else set()
    return [commit for commit in unreviewed if commit.id not in made_by_git]


def _is_gated(updates: Updates, records: list[Record]) -> bool:
    """Whether this repository's commits are reviewed: a hook names vibe-gate, or one has recorded a
    commit here.
    """
    if any(record.stage in ("pre-commit", "commit-msg", "pre-merge-commit") for record in records):
        return True
    return names_gate(updates.common_dir.parent, updates.hooks)


def _is_reviewed(hook: Hook, commit: NewCommit) -> bool:
    """Whether `verify` knows a review of the commit, its tree or its patch that would have let
    pre-commit pass.

    Asked last, because it loads much.
    """
    from vibe_gate.receipts.verify_range import VerifyRequest, verify_commits

    try:
        request = VerifyRequest(commit.id)
        verification = verify_commits(
            request, start=hook.start, environment=hook.environment, now=hook.clock()
        )
    except GateError:
        return False
    passing = {"reviewed", "overridden", "incomplete", "approval"}
    if not verification.blocks_inconclusive:
        passing.add("inconclusive")
    return any(status.status in passing for _, status in verification.commits)


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
    problem = safe(str(error) or type(error).__name__)
    hook.say(loud(f"NOT CHECKED whether a hook let the commit through: {problem}"))
    try:
        _note_made(
            hook,
            Updates(hook.start, hook.environment),
            commits,
            f"not checked: {error}"[:2000],
        )
    except Exception as failure:  # noqa: BLE001  the same bug may occur again, and is already reported
        hook.say(f"vibe-gate: not recorded: {safe(str(failure) or type(failure).__name__)}")
    return PASS
