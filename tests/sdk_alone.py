"""The Claude Agent SDK without the CLI that its wheel brings, as it is installed from source: the
CLI is that on PATH.

Imported before the SDK is. `REAL` is the folder of the CLI itself, `QUICK` that of `quick_cli.py`,
which answers as a judge in a hundredth of the time. Programs that a test starts as a user does have
the whole SDK.
"""

from __future__ import annotations

import atexit
import importlib.util
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from quick_cli import VERSION

_spec = importlib.util.find_spec("claude_agent_sdk")
assert _spec is not None and _spec.origin is not None
_sdk = Path(_spec.origin).parent
_folder = Path(tempfile.mkdtemp(prefix="vibe-gate-sdk-"))
tempfile.tempdir = None  # chosen anew by each process that is forked, from its own TMPDIR
atexit.register(shutil.rmtree, _folder, ignore_errors=True)

REAL = _sdk / "_bundled"
QUICK = _folder / "quick"
QUICK_PYTHON = f"""\
import sys
sys.path.append({str(Path(__file__).parent)!r})
import quick_cli
quick_cli.Cli(sys.argv[1:]).run()
"""
"""What that program is once it holds a conversation: compiled once, unlike a script."""

SITE = _folder / "site"
"""Where Python finds the SDK without it: for programs that a test starts, as PYTHONPATH."""


def refused() -> str:
    """What `quick_cli.py` was asked for since the last call, and is not made for."""
    refusals = QUICK / "claude.py.refused"
    if not refusals.exists():
        return ""
    text = refusals.read_text()
    refusals.unlink()
    return text


def _install() -> None:
    package = SITE / "claude_agent_sdk"
    package.mkdir(parents=True)
    for part in _sdk.iterdir():
        if part.name not in ("_bundled", "__pycache__"):
            (package / part.name).symlink_to(part)
    sys.path.insert(0, str(SITE))
    QUICK.mkdir()
    program = QUICK / "claude"
    conversation = QUICK / "claude.py"
    conversation.write_text(QUICK_PYTHON)
    program.write_text(
        f"#!/bin/sh\n[ \"$1\" != --version ] || exec echo '{VERSION} (quick)'\n"
        f'exec {shlex.quote(sys.executable)} -IS {shlex.quote(str(conversation))} "$@"\n'
    )
    program.chmod(0o755)


_install()
