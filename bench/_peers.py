"""The programs that benchmarks compare with, in an environment of their own under bench/.work
(needs pip and npm).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).resolve().parent / ".work" / "peers"
BIN = PEERS / "venv" / "bin"


def install_peers() -> None:
    """Install the peers into an environment of their own, once."""
    if (PEERS / "complete").exists():
        return
    shutil.rmtree(PEERS, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", PEERS / "venv"], check=True)
    subprocess.run(
        [BIN / "pip", "install", "-q", "detect-secrets", "pre-commit-hooks", "pre-commit"],
        check=True,
    )
    packages = ("secretlint", "@secretlint/secretlint-rule-preset-recommend")
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run(["npm", "install", "--prefix", PEERS / "node", *quiet, *packages], check=True)
    (PEERS / "secretlintrc.json").write_text(f'{{"rules": [{{"id": "{packages[1]}"}}]}}\n')
    (PEERS / "complete").touch()
