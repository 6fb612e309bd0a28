"""Records every cassette of the tree anew, and the picture of the demo, after a change of what a judge is told: `python
tests/record_cassettes.py`.

There is no model behind them: the answers stand in the scripts that this one runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
SCRIPTS = (
    "faces/record_demo.py",
    "run/record_cases.py",
    "faces/record_pytest_example.py",
    "../docs/images/make.py",
)


def main() -> None:
    """Run the scripts one after the other. CalledProcessError if one of them fails."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    for script in SCRIPTS:
        subprocess.run([sys.executable, str(TESTS / script)], check=True, env=environ)


if __name__ == "__main__":
    main()
