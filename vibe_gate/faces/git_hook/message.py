"""commit-msg: what the message says of its author, or the gate's rule, has a judge asked who was not asked before."""

from __future__ import annotations

from vibe_gate.domain.change import Selection
from vibe_gate.domain.provenance import Record, let_through, provenance
from vibe_gate.errors import INCONCLUSIVE, PASS
from vibe_gate.faces.git_hook.call import Hook, note_empty_merge
from vibe_gate.faces.git_hook.effect import effect
from vibe_gate.git import Repository, open_repository
from vibe_gate.store import open_state

_SCISSORS = " ------------------------ >8 ------------------------"


def said(hook: Hook) -> int:
    """Review the index if the message hints at an agent, the gate wants it, or no hook has seen this index yet."""
    with open_repository(hook.start, hook.environ) as repository:
        text = _message(hook, repository)
        tree = repository.index_tree()
        before = let_through(open_state(repository.common_dir).hook_records.about(tree), tree)
        hinted = provenance({}, (repository.pending_commit(text),), uncommitted=False).decision
        settled = before is not None and (
            _was_told(hook, before, hinted) or not (before.judged or before.again or hinted)
        )
        if settled and (repository.git_dir / "MERGE_HEAD").exists() and tree == repository.tree("HEAD").id:
            note_empty_merge(hook, tree, repository)  # a framework's pre-merge-commit had nothing staged
    if settled:
        return PASS  # held against the checks already, and nothing new is said
    # Only here: what a review loads takes longer than all of the above.
    from vibe_gate.faces.git_hook.held import held

    told = before.hints if before is not None and before.judged and before.stage != "commit-msg" else None
    return held(hook, Selection("staged"), text, told=told).code


def _was_told(hook: Hook, before: Record, hinted: bool) -> bool:
    """Whether the hook before said that it is not reviewed, and this one would ask the same model in vain again."""
    tried = before.exit_code == INCONCLUSIVE and not before.again and (before.hints or (before.judged and not hinted))
    return bool(tried) and not effect(before.exit_code, "warn", hook.environ, strict=hook.strict).blocks


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
