"""commit-msg: review again if the message names an agent, or if the gate asks a judge at this
stage.
"""

from __future__ import annotations

from vibe_gate.domain.change import Selection
from vibe_gate.domain.provenance import Record, agent_hints
from vibe_gate.errors import INCONCLUSIVE, PASS
from vibe_gate.faces.git_hook.call import Hook
from vibe_gate.git import Repository
from vibe_gate.receipts.let_through import let_through

_SCISSORS = " ------------------------ >8 ------------------------"


def review_message(hook: Hook) -> int:
    """Review the index if the message names an agent, the gate asks for it, or no hook has reviewed
    this index yet.
    """
    with hook.open_repository() as repository:
        text = _message(hook, repository)
        tree = repository.index_tree()
        before = let_through(
            hook.state(repository.common_dir).hook_records.find_records(tree), tree
        )
        hinted = bool(agent_hints({}, (repository.pending_commit(text),)))
    if before is not None and _is_settled(before, hinted):
        return PASS
    # A review loads much more than all of the above.
    from vibe_gate.faces.git_hook.reviewing import review_change

    reported = before.judged if before is not None and before.stage != "commit-msg" else None
    return review_change(hook, Selection("staged"), text, reported=reported).code


def _is_settled(before: Record, hinted: bool) -> bool:
    """Whether the message changes nothing of what the hook before let through; `hinted`: it names
    an agent.
    """
    if before.again:  # unless the model failed: this hook would ask the same model again
        return before.judged and not hinted and before.exit_code == INCONCLUSIVE
    # What a judge answered, or what is known as an agent's without one, no trailer of the message
    # changes.
    return not hinted or before.judged or bool(before.hints)


def _message(hook: Hook, repository: Repository) -> str:
    """The message as git will store it, by its rules of cleaning up (`git commit --cleanup`)."""
    if not hook.words:
        return ""
    try:
        raw = (hook.start / hook.words[0]).read_bytes()[:1_000_000]
    except OSError:
        return ""
    cleanup = (repository.config("commit.cleanup") or "default").lower()
    if cleanup == "default":
        # Git tells its hooks by this that it opens no editor; then it takes no line for a comment.
        cleanup = "whitespace" if not hook.has_editor else "strip"
    comment = (
        repository.config("core.commentString") or repository.config("core.commentChar") or "#"
    )
    return _cleaned(
        raw.decode("utf-8", "surrogateescape"), cleanup, "#" if comment == "auto" else comment
    )


def _cleaned(text: str, cleanup: str, comment: str) -> str:
    """`how` is strip, whitespace, verbatim or scissors, as git's own setting."""
    if cleanup == "verbatim":
        return text.strip()
    lines: list[str] = []
    for line in text.split("\n"):
        if cleanup in ("strip", "scissors") and line == comment + _SCISSORS:
            break
        bare = line.rstrip(" \t\r\v\f")
        if not (cleanup == "strip" and line.startswith(comment)) and (
            bare or (lines and lines[-1])
        ):
            lines.append(bare)
    return "\n".join(lines).strip()
