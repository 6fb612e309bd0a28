"""The hook script: keep one hook event of an agent in the spool of its session.

    python -I -S .../capture.py [gemini|codex] [--user] < event.json

It is a process at every tool call, so it is no more than a way to `spool`, whose byte code is kept:
to compile that each time would take a sixth of the whole call.
"""

import os
import sys


def main(agent: str = "", *, user: bool = False) -> int:
    """Keep the event on stdin; as a `user`'s own hook only where vibe-gate is used. Always 0, and
    in silence.

    `agent`: whose event it is, "" for Claude Code.
    """
    try:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
        import spool  # type: ignore[import-not-found]

        spool.main(agent, user=user)
    except BaseException:  # noqa: BLE001, S110  the agent goes on whatever happens here
        pass
    return 0


if __name__ == "__main__":
    main(next((word for word in sys.argv[1:] if word[:1] != "-"), ""), user="--user" in sys.argv)
