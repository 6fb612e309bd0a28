"""pre-push: review the commits that each pushed ref brings as one change; never the working tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from vibe_gate.domain.change import EMPTY_TREE, Selection
from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record
from vibe_gate.errors import INTEGRITY, PASS, POLICY_CHANGED, GateError, RevisionError, UsageError
from vibe_gate.faces.git_hook.call import Hook, loud, record_or_say
from vibe_gate.faces.git_hook.record import seen_commits
from vibe_gate.faces.git_hook.reviewing import SETTLED, review_change
from vibe_gate.git import Repository, open_repository
from vibe_gate.receipts.notes import NOTES
from vibe_gate.receipts.verify import VerifyRequest, verify

_GRAVITY = {PASS: 0, POLICY_CHANGED: 1, INTEGRITY: 3}
"""Of several pushed refs the gravest exit code is returned; codes not listed here count as 2."""

_NO_COMMIT = "0" * 40

_RECEIPTS = f"refs/notes/{NOTES}"
"""Pushed receipts are not reviewed."""

MAX_UNSEEN = 1_000
"""Commits of one push, the newest first, that are recorded as an agent's."""

MAX_LISTED = 5
"""Commits dropped by a forced push that are listed."""

_LINE = re.compile(r".+ ([0-9a-f]{40}) (\S+) ([0-9a-f]{40})")
"""What git writes of each ref: its name here, the commit, its name there, and the commit that is there now.

The name here is the source as it was typed, which may have spaces: `main^{/some words}`.
"""


def push(hook: Hook) -> int:
    """Review what each pushed ref adds to the remote. Deletions and receipts add nothing."""
    with open_repository(hook.start, hook.environ) as repository:
        wanted = list(dict.fromkeys(_pushed(hook, repository)))
        _note_unseen(hook, repository, wanted)
    if not wanted:
        hook.say("vibe-gate: nothing new is pushed.")
    codes = [review_change(hook, one, settled=partial(_one_by_one, hook, one)).code for one in wanted]
    return max(codes, key=lambda code: _GRAVITY.get(code, 2), default=PASS)


def _note_unseen(hook: Hook, repository: Repository, wanted: list[Selection]) -> None:
    """Record that an agent pushes commits that no hook saw being made."""
    if not hook.hints or not wanted:
        return
    seen = seen_commits(hook.state(repository.common_dir).hook_records.all())
    for selection in wanted:
        base = "" if selection.left == EMPTY_TREE else selection.left
        for commit in repository.span(base, selection.right)[:MAX_UNSEEN]:
            record = Record(ts=hook.now, kind="unseen", stage="pre-push", commit=commit, hints=hook.hints)
            if commit not in seen and not record_or_say(hook, repository, record):
                return


def _one_by_one(hook: Hook, selection: Selection) -> str:
    """Why no judge has to be asked about the push as a whole, or "": each of its commits was reviewed and passed.

    Each line of the push was then shown to a judge with the tree around it: each commit against its parent, a merge
    against every parent unless git made it by itself (`verify`).
    """
    dots = "..." if selection.kind == "merge_base" else ".."
    request = VerifyRequest(f"{selection.left}{dots}{selection.right}", stage="pre-push")
    try:
        found = verify(request, start=hook.start, environ=hook.environ, now=hook.clock())
    except GateError:  # for example too many commits
        return ""
    if not found.commits or any(one.status not in ("reviewed", "empty") for _, one in found.commits):
        return ""
    count = len(found.commits)
    if count == 1 and found.commits[0][1].match in ("commit", "tree"):
        return ""  # the same question: its answer is in the cache
    each = "its one commit was" if count == 1 else f"each of its {count} commits was"
    return f"{SETTLED}{each} reviewed and passed"


def _pushed(hook: Hook, repository: Repository) -> list[Selection]:
    found = []
    remote = _remote(hook)
    for local, known in dict.fromkeys(_refs(hook)):  # hundreds of tags may name one commit
        try:
            commit = repository.resolve(local)
        except RevisionError:
            hook.say(f"vibe-gate: {safe(local)} is not a commit; nothing to review.")
            continue
        if known:
            _report_dropped(hook, repository.lost_commits(commit, known), known)
        selection = repository.unpushed(commit, known, remote)
        if selection is not None:
            found.append(selection)
    return found


def _report_dropped(hook: Hook, lost: list[str] | None, known: str) -> None:
    """Name the commits that a forced push drops: the review starts at the merge base and does not see them."""
    if lost == []:
        return
    if lost is None:
        what = f"unknown what this push drops: the remote's {known[:12]} is not here (run `git fetch`)"
    else:
        more = f" and {len(lost) - MAX_LISTED} more" if len(lost) > MAX_LISTED else ""
        what = f"this push drops from the remote, unreviewed: {'; '.join(map(safe, lost[:MAX_LISTED]))}{more}"
    hook.say(loud(what) if hook.hints else f"vibe-gate: {what}")


def _refs(hook: Hook) -> list[tuple[str, str]]:
    """Pushed commits with what the remote has there ("": nothing): git's lines, or else a framework's variables.

    Git's lines come first, since whoever pushes can set the variables. UsageError for a line in another form.
    """
    lines = [line for line in hook.stdin().split("\n") if line]
    if not lines and ("PRE_COMMIT" in hook.environ or "PREK_HOOK_STAGE" in hook.environ):
        return _framework_refs(hook.environ)
    found = [(_LINE.fullmatch(line), line) for line in lines]
    for match, line in found:
        if match is None:
            raise UsageError(
                f"cannot be read as a line of git for pre-push: {line!r}. Nothing was pushed; run `git push` again."
            )
    pairs = [match.groups() for match, _ in found if match is not None]
    return [
        (new, "" if old == _NO_COMMIT else old) for new, there, old in pairs if new != _NO_COMMIT and there != _RECEIPTS
    ]


def _framework_refs(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The one ref of which pre-commit and prek tell: they keep git's lines to themselves."""
    if environ.get("PRE_COMMIT_REMOTE_BRANCH") == _RECEIPTS:
        return []
    pushed = environ.get("PRE_COMMIT_TO_REF") or environ.get("PRE_COMMIT_LOCAL_BRANCH") or "HEAD"
    return [(pushed, environ.get("PRE_COMMIT_FROM_REF", ""))]


def _remote(hook: Hook) -> str:
    """The remote's name; "" of one that is pushed to by its address alone, which git passes twice then."""
    if len(hook.words) > 1:
        return "" if hook.words[0] == hook.words[1] else hook.words[0]
    name = hook.environ.get("PRE_COMMIT_REMOTE_NAME", "")
    return "" if name == hook.environ.get("PRE_COMMIT_REMOTE_URL") else name
