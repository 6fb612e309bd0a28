"""pre-push: review the commits that each pushed ref brings as one change; never the working tree, and
no commit that a remote has already, or that is older than the gate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from vibe_gate.domain.cause import CommitsReviewed
from vibe_gate.domain.change import EMPTY_TREE, Selection
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.provenance import Record
from vibe_gate.errors import INTEGRITY, PASS, POLICY_CHANGED, GateError, RevisionError, UsageError
from vibe_gate.faces.git_hook.call import Hook, record_or_say
from vibe_gate.faces.git_hook.framework_call import FrameworkCall
from vibe_gate.faces.git_hook.gate_start import GateStart, read_gate_start
from vibe_gate.faces.git_hook.reviewing import review_change, settle_marks_left
from vibe_gate.faces.git_hook.sharing import share_prompts
from vibe_gate.gate import traces
from vibe_gate.gate.loading import FOLDER
from vibe_gate.gate.shared_prompts import PROMPTS
from vibe_gate.git import Pushed, Repository
from vibe_gate.receipts.receipt_notes import NOTES
from vibe_gate.receipts.verify_range import VerifyRequest, verify_commits

_GRAVITY = {PASS: 0, POLICY_CHANGED: 1, INTEGRITY: 3}
"""Of several pushed refs the gravest exit code is returned; codes not listed here count as 2."""

MAX_VERIFIED = 1_000
"""Commits of a push that are looked up one by one: with more the push is reviewed as a whole."""

_NO_COMMIT = "0" * 40

_NOTES = {f"refs/notes/{name}" for name in (NOTES, PROMPTS, traces.NOTES)}
"""Receipts, prompts and Agent Trace records pushed to the ref of the same name are not reviewed."""

_LINE = re.compile(r"(.+) ([0-9a-f]{40}) (\S+) ([0-9a-f]{40})")
"""What git writes of each ref: its name here, the commit, its name there, and the commit that is
there now.

The name here is the source as it was typed, which may have spaces: `main^{/some words}`.
"""


def review_push(hook: Hook) -> int:
    """Review what each pushed ref brings: commits that no remote has and that are not older than
    the gate.

    Nothing is older once a remote has the gate: a push may bring another `.vibe-gate/`, on commits
    of today.
    """
    url = hook.words[1] if len(hook.words) > 1 else hook.framework.remote_url
    selections = _pushed_selections(hook, url)
    worst = PASS
    for selection in selections:
        find_reviews = partial(_find_reviews, hook, selection)
        code = review_change(hook, selection, find_reviews=find_reviews).code
        if _gravity(code) > _gravity(worst):
            worst = code
    if worst == PASS and selections:
        share_prompts(hook, selections, url)
    return worst


def _gravity(code: int) -> int:
    return _GRAVITY.get(code, 2)


def _pushed_selections(hook: Hook, url: str) -> dict[Selection, tuple[str, ...]]:
    """What is to be reviewed, each with its commits, parents first."""
    selections: dict[Selection, tuple[str, ...]] = {}
    all_older: set[str] = set()
    with hook.open_repository() as repository:
        settle_marks_left(hook, repository)
        tips = repository.remote_tips(url)
        remote_has_gate = bool(repository.with_folder(tips, FOLDER))
        for commit, remote_tip in _pushed_commits(hook, repository):
            pushed = repository.unpushed(commit, remote_tip, tips)
            older = set() if remote_has_gate else _older_commits(hook, repository, pushed)
            if older:
                all_older |= older
                pushed = repository.unpushed(commit, remote_tip, [*tips, *older])
            if pushed.commits:
                base, *other_bases = pushed.bases or (EMPTY_TREE,)
                selection = Selection("range", base, commit, *other_bases[:1])
                selections[selection] = tuple(commit.id for commit in pushed.commits)
        if all_older:
            number = counted(len(all_older), "commit")
            hook.say(f"vibe-gate: {number} older than the gate here: not reviewed.")
    return selections


def _older_commits(hook: Hook, repository: Repository, pushed: Pushed) -> set[str]:
    """The pushed commits that are older than the gate: no hook here saw them, nor what they are
    made on, they do not have the `.vibe-gate/` that the push brings, and they were there when the
    gate began.
    """
    pushed_ids = [commit.id for commit in pushed.commits]
    gated = repository.with_folder([*pushed.bases, *pushed_ids], FOLDER)
    if not pushed_ids or not gated.isdisjoint(pushed.bases):
        return set()
    records = hook.state(repository.common_dir).hook_records.all()
    start = read_gate_start(repository)
    if not records and not gated:  # from now on a hook has run in this clone
        record = Record(
            ts=hook.now,
            kind="not-reviewed",
            stage="pre-push",
            commit=pushed_ids[-1],
            reason="older than the gate here",
        )
        record_or_say(hook, repository, record)
    younger: set[str] = set()
    if start is not None:
        younger = _younger_than_start(repository, pushed, start)
    elif records and not gated:
        younger = _younger_than_records(pushed, records)
    recorded = _recorded_commits(records)
    bound = set(gated)
    for commit in pushed.commits:
        change = repository.tree_of(next(iter(commit.parents), "")), commit.tree
        is_recorded = not recorded.isdisjoint((commit.id, change))
        if commit.id in younger or is_recorded or not bound.isdisjoint(commit.parents):
            bound.add(commit.id)
    return set(pushed_ids) - bound


def _recorded_commits(records: Sequence[Record]) -> set[str | tuple[str, str]]:
    """What hooks saw before a push: commits, and (tree before, tree) of what was no commit yet.

    An old commit may have had the same files, so the tree before it is compared, too.
    """
    recorded: set[str | tuple[str, str]] = set()
    for record in records:
        if record.stage != "pre-push":
            recorded.add(record.commit or (record.before, record.tree))
    return recorded


def _younger_than_start(repository: Repository, pushed: Pushed, start: GateStart) -> set[str]:
    """The pushed commits that were not there when `install git` ran.

    Dates can be forged, so they count only in a history of its own (an import), which is made on
    nothing that was there or that the remote has.
    """
    added = repository.unpushed(pushed.commits[-1].id, "", (*pushed.bases, *start.tips))
    younger: set[str] = set()
    imported: set[str] = set()
    for commit in added.commits:
        is_import = all(parent in imported for parent in commit.parents)
        if is_import and commit.time < start.second:
            imported.add(commit.id)
        else:
            younger.add(commit.id)
    return younger


def _younger_than_records(pushed: Pushed, records: Sequence[Record]) -> set[str]:
    """The pushed commits that were made (by their date) after a hook first ran in this clone."""
    first_second = int(datetime.fromisoformat(records[0].ts).timestamp())
    return {commit.id for commit in pushed.commits if commit.time >= first_second}


def _find_reviews(hook: Hook, selection: Selection) -> CommitsReviewed | None:
    """Why no judge has to be asked about the push as a whole, or None: each of its commits was
    reviewed and passed.

    Each line of the push was then shown to a judge with the tree around it: each commit against its
    parent, a merge against every parent unless git made it by itself (`verify`).
    """
    request = VerifyRequest(
        f"{selection.left}..{selection.right}", stage="pre-push", max_commits=MAX_VERIFIED
    )
    try:
        verification = verify_commits(
            request, start=hook.start, environment=hook.environment, now=hook.clock()
        )
    except GateError:  # for example too many commits
        return None
    statuses = {status.status for _, status in verification.commits}
    if not statuses or not statuses <= {"reviewed", "empty"}:
        return None
    count = len(verification.commits)
    if count == 1 and verification.commits[0][1].match in ("commit", "tree"):
        return None  # the same question: its answer is in the cache
    return CommitsReviewed(count=count)


def _pushed_commits(hook: Hook, repository: Repository) -> list[tuple[str, str]]:
    """The commits that are pushed, each with what the remote has there."""
    tips = []
    for source, remote_tip in dict.fromkeys(_pushed_refs(hook)):  # many tags may name one commit
        try:
            tips.append((repository.resolve(source), remote_tip))
        except RevisionError:
            hook.say(f"vibe-gate: {safe(source)} is not a commit; nothing to review.")
    return tips


def _pushed_refs(hook: Hook) -> list[tuple[str, str]]:
    """Pushed commits with what the remote has there ("": nothing): git's lines, or else a
    framework's variables.

    Git's lines come first, since whoever pushes can set the variables. UsageError for a line in
    another form.
    """
    lines = [line for line in hook.stdin().split("\n") if line]
    if not lines and hook.framework.is_running:
        return _framework_refs(hook.framework)
    refs = [_parse_ref_line(line) for line in lines]
    pushed_refs = []
    for source, commit, target, remote_tip in refs:
        if commit == _NO_COMMIT or _are_own_notes(source, target):
            continue
        pushed_refs.append((commit, "" if remote_tip == _NO_COMMIT else remote_tip))
    return pushed_refs


def _parse_ref_line(line: str) -> tuple[str, str, str, str]:
    """The ref's name here, the commit, its name there, and the commit there. UsageError."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise UsageError(
            f"cannot be read as a line of git for pre-push: {line!r}. "
            "Nothing was pushed; run `git push` again."
        )
    return match[1], match[2], match[3], match[4]


def _are_own_notes(source: str, target: str) -> bool:
    """Whether a ref of vibe-gate's notes is pushed to the ref of the same name."""
    return source == target and source in _NOTES


def _framework_refs(call: FrameworkCall) -> list[tuple[str, str]]:
    """The one ref of which pre-commit and prek tell: they keep git's lines to themselves."""
    if _are_own_notes(call.local_branch, call.remote_branch):
        return []
    return [(call.to_ref or call.local_branch or "HEAD", call.from_ref)]
