"""`python -m vibe_gate`: the same as the command `vibe-gate`."""

import os
import sys

# With -m the current directory comes first on the path, and it may be the
# reviewed repository: its json.py must not become ours.
try:
    if sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109  pathlib would cost its import
        del sys.path[0]
except FileNotFoundError:  # the current directory was deleted, and has no modules
    pass

from vibe_gate.faces.cli import main

sys.exit(main())
