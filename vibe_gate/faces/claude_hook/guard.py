"""`agent_hook/guard.py` by the path that settings of earlier versions name."""

import os
import sys

if __name__ == "__main__":
    faces = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    sys.path[:0] = [faces + "/agent_hook", os.path.dirname(os.path.dirname(faces))]  # noqa: PTH120
    import guard  # type: ignore[import-not-found]

    guard.main(user="--user" in sys.argv)
    os._exit(0)  # nothing is left to be flushed or cleaned up
