"""pre-push: the commits that each pushed ref brings, held to the gate as one change; never the working tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from vibe_gate.domain.change import EMPTY_TREE, Selection
from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record, provenance
from vibe_gate.errors import INTEGRITY, PASS, POLICY_CHANGED, GateError, RevisionError, StorageError, UsageError
from vibe_gate.faces.git_hook.call import Hook, loud
from vibe_gate.faces.git_hook.held import SETTLED, held
from vibe_gate.faces.git_hook.seen import Seen
from vibe_gate.git import Repository, open_repository
from vibe_gate.receipts.notes import NOTES
from vibe_gate.receipts.verify import VerifyRequest, verify
from vibe_gate.store import open_state

_GRAVITY = {PASS: 0, POLICY_CHANGED: 1, INTEGRITY: 3}
"""Of several pushed refs the gravest code counts; those not named here are 2."""

_NO_COMMIT = "0" * 40

_RECEIPTS = f"refs/notes/{NOTES}"
"""Receipts are no code: what is pushed there brings nothing to review."""

MAX_UNSEEN = 1_000
"""Commits of one push, the newest first, of which an agent's hand is written down: one is enough to be strict."""

MAX_TOLD = 5
"""Commits that a forced push takes away, and that are named."""

_LINE = re.compile(r".+ ([0-9a-f]{40}) (\S+) ([0-9a-f]{40})")
"""What git writes of each ref: its name here, the commit, its name there, and the commit that is there now.

The name here is the source as it was typed, which may have spaces: `main^{/some words}`.
"""


def push(hook: Hook) -> int:
    """pre-push: what each pushed ref brings that the remote has not. Deletions and receipts bring nothing."""
    with open_repository(hook.start, hook.environ) as repository:
        wanted = list(dict.fromkeys(_pushed(hook, repository)))
        _note_unseen(hook, repository, wanted)
    if not wanted:
        hook.say("vibe-gate: nothing new is pushed.")
    codes = [held(hook, selection, settled=partial(_one_by_one, hook, selection)).code for selection in wanted]
    return max(codes, key=lambda code: _GRAVITY.get(code, 2), default=PASS)


def _note_unseen(hook: Hook, repository: Repository, wanted: list[Selection]) -> None:
    """Write down that an agent pushes commits that no hook saw being made: nobody else can say who made them."""
    hints = provenance(hook.environ, (), uncommitted=True).hints
    if not hints or not wanted:
        return
    records = open_state(repository.common_dir).hook_records
    seen = Seen(repository, records.all())
    try:
        for selection in wanted:
            base = "" if selection.left == EMPTY_TREE else selection.left
            for commit in repository.span(base, selection.right)[:MAX_UNSEEN]:
                if not seen.has(commit):
                    records.append(Record(ts=hook.now, kind="unseen", stage="pre-push", commit=commit, hints=hints))
    except StorageError as error:
        hook.say(f"vibe-gate: not recorded: {safe(str(error))}")


def _one_by_one(hook: Hook, selection: Selection) -> str:
    """Why nobody has to be asked about the whole: each of its commits has a verdict of its own, and passed.

    Every line that the push adds or takes away was then shown to a judge, beside the tree in which it stands: each
    commit against its parent, a merge against every parent unless it only puts them together (`verify`). What two
    commits break together the second one's judge could see.
    """
    dots = "..." if selection.kind == "merge_base" else ".."
    request = VerifyRequest(f"{selection.left}{dots}{selection.right}", stage="pre-push")
    try:
        found = verify(request, start=hook.start, environ=hook.environ, now=hook.clock())
    except GateError:  # too many commits, say: then the whole is asked about
        return ""
    if not found.commits or any(one.status not in ("reviewed", "empty") for _, one in found.commits):
        return ""
    count = len(found.commits)
    if count == 1 and found.commits[0][1].match in ("commit", "tree"):
        return ""  # the very same question: its answer is kept, and is worth more than a sentence about it
    each = "its one commit was" if count == 1 else f"each of its {count} commits was"
    return f"{SETTLED}{each} reviewed and passed"


def _pushed(hook: Hook, repository: Repository) -> list[Selection]:
    found = []
    remote = _remote(hook)
    for local, known in dict.fromkeys(_refs(hook)):  # hundreds of tags may name one commit
        try:
            commit = repository.resolve(local)
        except RevisionError:
            hook.say(f"vibe-gate: {safe(local)} is no commit; nothing to review in it.")
            continue
        if known:
            _tell_dropped(hook, repository.lost_commits(commit, known), known)
        selection = repository.unpushed(commit, known, remote)
        if selection is not None:
            found.append(selection)
    return found


def _tell_dropped(hook: Hook, lost: list[str] | None, known: str) -> None:
    """A forced push is held to the gate from where the histories parted: what it takes away no judge sees."""
    if lost == []:
        return
    if lost is None:
        what = f"what this push takes away cannot be told: the remote's {known[:12]} is not here (`git fetch`)"
    else:
        more = f" and {len(lost) - MAX_TOLD} more" if len(lost) > MAX_TOLD else ""
        what = f"this push takes away from the remote, unreviewed: {'; '.join(map(safe, lost[:MAX_TOLD]))}{more}"
    by_agent = provenance(hook.environ, (), uncommitted=True).hints
    hook.say(loud(what) if by_agent else f"vibe-gate: {what}")


def _refs(hook: Hook) -> list[tuple[str, str]]:
    """What is pushed, and what the remote has there ("": nothing): git's lines, or else a framework's variables.

    UsageError for a line that says neither: what is pushed by it would be seen by nobody.
    """
    # Git's word first: whoever pushes can set the variables, too.
    lines = [line for line in hook.stdin().split("\n") if line]
    if not lines and ("PRE_COMMIT" in hook.environ or "PREK_HOOK_STAGE" in hook.environ):
        return _framework_refs(hook.environ)
    found = [(_LINE.fullmatch(line), line) for line in lines]
    for match, line in found:
        if match is None:
            raise UsageError(f"what git says of this push cannot be read, so nothing is pushed: {line!r}")
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
