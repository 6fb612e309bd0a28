"""The stages that hold a change to the gate: the index at the commit, what is new at the push.

Git runs a hook at the top of the working tree and says in its environment which
index it means; pre-commit and prek leave both as they are. So a stage reads its
change from git alone, and never the working tree.
"""

from __future__ import annotations

from vibe_gate.adapters.git import Repository, open_repository
from vibe_gate.domain.change import Selection
from vibe_gate.errors import INTEGRITY, PASS, POLICY_CHANGED, RevisionError
from vibe_gate.faces.git_hook.call import Hook
from vibe_gate.faces.git_hook.held import held
from vibe_gate.report.text import safe

_GRAVITY = {PASS: 0, POLICY_CHANGED: 1, INTEGRITY: 3}
"""Of several pushed refs the gravest code counts; those not named here are 2."""

_NO_COMMIT = "0" * 40


def staged(hook: Hook) -> int:
    """pre-commit, pre-merge-commit, manual: the index that git means, or the range a framework was given."""
    begin, end = hook.environ.get("PRE_COMMIT_FROM_REF"), hook.environ.get("PRE_COMMIT_TO_REF")
    if begin and end:
        return held(hook, Selection("merge_base", begin, end)).code
    return held(hook, Selection("staged")).code


def push(hook: Hook) -> int:
    """pre-push: what each pushed ref brings that the remote has not. Deletions bring nothing."""
    with open_repository(hook.start, hook.environ) as repository:
        wanted = list(dict.fromkeys(_pushed(hook, repository)))
    if not wanted:
        hook.say("vibe-gate: nothing new is pushed.")
    codes = [held(hook, selection).code for selection in wanted]
    return max(codes, key=lambda code: _GRAVITY.get(code, 2), default=PASS)


def _pushed(hook: Hook, repository: Repository) -> list[Selection]:
    found = []
    remote = _remote(hook)
    for local, known in _refs(hook):
        try:
            commit = repository.resolve(local)
        except RevisionError:
            hook.say(f"vibe-gate: {safe(local)} is no commit; nothing to review in it.")
            continue
        selection = repository.unpushed(commit, known, remote)
        if selection is not None:
            found.append(selection)
    return found


def _refs(hook: Hook) -> list[tuple[str, str]]:
    """What is pushed, and what the remote has there ("": nothing): git's lines, or a framework's variables."""
    environ = hook.environ
    if "PRE_COMMIT" in environ or "PREK_HOOK_STAGE" in environ:  # both keep git's lines to themselves
        pushed = environ.get("PRE_COMMIT_TO_REF") or environ.get("PRE_COMMIT_LOCAL_BRANCH") or "HEAD"
        return [(pushed, environ.get("PRE_COMMIT_FROM_REF", ""))]
    lines = [line.split(" ") for line in hook.stdin().splitlines()]
    pairs = [(line[1], line[3]) for line in lines if len(line) == 4]
    return [(new, "" if old == _NO_COMMIT else old) for new, old in pairs if new != _NO_COMMIT]


def _remote(hook: Hook) -> str:
    """The remote's name; "" of one that is pushed to by its address alone, which git passes twice then."""
    if len(hook.words) > 1:
        return "" if hook.words[0] == hook.words[1] else hook.words[0]
    name = hook.environ.get("PRE_COMMIT_REMOTE_NAME", "")
    return "" if name == hook.environ.get("PRE_COMMIT_REMOTE_URL") else name
