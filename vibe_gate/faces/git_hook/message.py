"""commit-msg: review again if the message names an agent, or if the gate asks a judge at this stage."""

from __future__ import annotations

from vibe_gate.domain.change import Selection
from vibe_gate.domain.provenance import Record, agent_hints
from vibe_gate.errors import INCONCLUSIVE, PASS
from vibe_gate.faces.git_hook.call import Hook, effect
from vibe_gate.git import Repository, open_repository
from vibe_gate.receipts.let_through import let_through

_SCISSORS = " ------------------------ >8 ------------------------"


def review_message(hook: Hook) -> int:
    """Review the index if the message names an agent, the gate asks for it, or no hook has reviewed this index yet."""
    with open_repository(hook.start, hook.environ) as repository:
        text = _message(hook, repository)
        tree = repository.index_tree()
        before = let_through(hook.state(repository.common_dir).hook_records.about(tree), tree)
        hinted = bool(agent_hints({}, (repository.pending_commit(text),), uncommitted=False))
        # What a judge answered, or what is known as an agent's without one, no trailer of the message changes.
        said = before is not None and not before.again and (not hinted or before.judged or bool(before.hints))
        settled = said or (before is not None and _was_reported(hook, before, hinted))
    if settled:
        return PASS
    # A review loads much more than all of the above.
    from vibe_gate.faces.git_hook.reviewing import review_change

    reported = before.judged if before is not None and before.stage != "commit-msg" else None
    return review_change(hook, Selection("staged"), text, reported=reported).code


def _was_reported(hook: Hook, before: Record, hinted: bool) -> bool:
    """Whether the hook before reported that the model failed: this one would ask the same model again."""
    asked = (before.judged and not hinted) or (bool(before.hints) and not before.again)
    tried = before.exit_code == INCONCLUSIVE and asked
    return tried and not effect(before.exit_code, "warn", hook.environ, strict=hook.strict).blocks


def _message(hook: Hook, repository: Repository) -> str:
    """The message as git will store it, by its rules of cleaning up (`git commit --cleanup`)."""
    if not hook.words:
        return ""
    try:
        raw = (hook.start / hook.words[0]).read_bytes()[:1_000_000]
    except OSError:
        return ""
    how = (repository.config("commit.cleanup") or "default").lower()
    if how == "default":
        # Git tells its hooks by this that it opens no editor; then it takes no line for a comment.
        how = "whitespace" if hook.environ.get("GIT_EDITOR") == ":" else "strip"
    comment = repository.config("core.commentString") or repository.config("core.commentChar") or "#"
    return _cleaned(raw.decode("utf-8", "surrogateescape"), how, "#" if comment == "auto" else comment)


def _cleaned(text: str, how: str, comment: str) -> str:
    """`how` is strip, whitespace, verbatim or scissors, as git's own setting."""
    if how == "verbatim":
        return text.strip()
    kept: list[str] = []
    for line in text.split("\n"):
        if how in ("strip", "scissors") and line == comment + _SCISSORS:
            break
        bare = line.rstrip(" \t\r\v\f")
        if not (how == "strip" and line.startswith(comment)) and (bare or (kept and kept[-1])):
            kept.append(bare)
    return "\n".join(kept).strip()
