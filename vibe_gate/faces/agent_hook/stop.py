"""The hook at the end of an agent's turn: review what the session wrote, and say what still fails.

    python -I -S .../stop.py [gemini|codex] [--user] < event.json

Most turns end here, in a bare interpreter: nothing was written since the last review. Otherwise
`stop_review` does the work in a process of its own, which ends before the agent's time-out does.
"""

import os
import sys


def main(agent: str = "", *, user: bool = False) -> int:
    """Answer the agent ("": Claude Code) whose turn ends, on stdout. Always 0: it may stop unless
    the answer says otherwise.
    """
    try:
        from vibe_gate.faces.agent_hook import turn_end

        answer = turn_end.answer_event(agent, user=user)
    except BaseException as error:  # noqa: BLE001  no failure of ours may hold the agent
        name = type(error).__name__
        answer = b'{"systemMessage": "vibe-gate: turn not reviewed: %b"}' % name.encode()
    write_answer(answer)
    return 0


def write_answer(answer: bytes) -> None:
    """Write the answer to stdout, if the agent still reads it."""
    while answer:
        try:
            answer = answer[os.write(1, answer) :]
        except OSError:
            return


if __name__ == "__main__":
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    sys.path.insert(0, os.path.dirname(package))  # noqa: PTH120
    main(next((word for word in sys.argv[1:] if word[:1] != "-"), ""), user="--user" in sys.argv)
