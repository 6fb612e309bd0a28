"""What to type for a command that a hook's text names: a hook's `vibe-gate` need not be on a
person's PATH.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import safe
from vibe_gate.faces.cli.help import COMMANDS

_COMMAND = re.compile(rf"\bvibe-gate ({'|'.join(COMMANDS)})\b")


def program_note(environment: Environment, text: str) -> str:
    """What to type for the commands that a text names, if the person's PATH has no vibe-gate; "" if
    it has.
    """
    if not _COMMAND.search(text):
        return ""
    programs = Path(sys.executable).parent
    folders = environment.variables.get("PATH", os.defpath).split(os.pathsep)
    if _is_frameworks(Path(sys.prefix)):
        folders = [folder for folder in folders if Path(folder) != programs]
    program = programs / "vibe-gate"
    if shutil.which("vibe-gate", path=os.pathsep.join(folders)) or not program.exists():
        return ""
    return f"vibe-gate: it is not on your PATH; type this in its place: {safe(shlex.quote(str(program)))}"


def _is_frameworks(prefix: Path) -> bool:
    """Whether a framework made this environment: then it is on PATH for the framework's hooks
    alone.
    """
    is_pre_commits = (
        prefix.name.startswith("py_env-") and (prefix.parent / ".pre-commit-hooks.yaml").exists()
    )
    return is_pre_commits or (prefix / ".prek-hook.json").exists()
