"""What people see of a hook under pre-commit and prek, which hide the output of a hook that lets
git go on.
"""

from __future__ import annotations

from vibe_gate.errors import PASS
from vibe_gate.faces.git_hook.call import Hook

FAILED_AFTER_COMMIT = 1
"""By it a framework shows a hook's output. Git ignores how its hooks end once the commit is
made.
"""


def show_hidden_output(hook: Hook, code: int, text: str) -> int:
    """Show a person what the framework hides of a hook that lets git go on; returns the hook's exit
    code.

    Without a person's terminal only the hooks after a commit can have it shown: they fail. What
    others said is repeated there as far as it is about a missing review (`record.py`). At a push
    the framework hides nothing.
    """
    is_shown = code != PASS or hook.stage == "pre-push"
    if is_shown or not text or not hook.framework.is_running:
        return code
    with hook.persons_terminal() as terminal:
        if terminal is not None:
            terminal.say(f"\n{text}\n")
            return code
    if hook.stage.startswith("post-"):
        return FAILED_AFTER_COMMIT
    return code
