"""commit-msg: what the message says of its author, or the gate's rule, has a judge asked who was not asked before."""

from __future__ import annotations

import importlib

from vibe_gate.adapters.git import open_repository
from vibe_gate.adapters.records import Records
from vibe_gate.domain.change import Selection
from vibe_gate.domain.provenance import provenance
from vibe_gate.domain.record import let_through
from vibe_gate.errors import PASS
from vibe_gate.faces.git_hook.call import Hook

_SCISSORS = " ------------------------ >8 ------------------------"


def said(hook: Hook) -> int:
    """Review the index if the message hints at an agent, the gate wants it, or no hook has seen this index yet."""
    text = _message(hook)
    with open_repository(hook.start, hook.environ) as repository:
        tree = repository.index_tree()
        before = let_through(Records(repository.common_dir).about(tree), tree)
        hinted = provenance({}, (repository.draft(text),), uncommitted=False).decision
    if before is not None and not (before.judged or before.again or hinted):
        return PASS  # held against the checks already, and nothing new is said
    # Only here: what a review loads takes longer than all of the above.
    code: int = importlib.import_module("vibe_gate.faces.git_hook.held").held(hook, Selection("staged"), text).code
    return code


def _message(hook: Hook) -> str:
    """The message that git wrote for the hook, without its comments and what stands below the scissors."""
    if not hook.words:
        return ""
    try:
        raw = (hook.start / hook.words[0]).read_bytes()[:1_000_000]
    except OSError:
        return ""
    lines = []
    for line in raw.decode("utf-8", "surrogateescape").splitlines():
        if line[1:] == _SCISSORS:
            break
        if not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines).strip()
