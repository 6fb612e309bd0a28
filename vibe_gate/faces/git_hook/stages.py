"""The stages that hold the index to the gate before a commit, a merge, or by hand.

Git runs a hook at the top of the working tree and says in its environment which
index it means; pre-commit and prek leave both as they are. So a stage reads its
change from git alone, and never the working tree.
"""

from __future__ import annotations

from vibe_gate.domain.change import Selection
from vibe_gate.faces.git_hook.call import Hook
from vibe_gate.faces.git_hook.held import held


def staged(hook: Hook) -> int:
    """pre-commit, pre-merge-commit, manual: the index that git means, or the range a framework was given by hand.

    Before a commit git names its index: then that is what is committed, whatever the variables say.
    """
    begin, end = hook.environ.get("PRE_COMMIT_FROM_REF"), hook.environ.get("PRE_COMMIT_TO_REF")
    if begin and end and "GIT_INDEX_FILE" not in hook.environ:
        return held(hook, Selection("merge_base", begin, end)).code
    return held(hook, Selection("staged")).code
