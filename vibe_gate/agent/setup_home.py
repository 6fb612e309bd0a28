"""The set-up of a project in the home of one agent, in place of what a person has in theirs.

Claude Code is shown no settings but those written here. It takes commands, skills and agents of its
configuration folder, and instructions of a second folder, where they count as the project's. The
`.claude` of the folder that it works in is not read: there the change under review could speak.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from vibe_gate.domain.project_setup import ProjectSetup

SETUP_VARIABLES: Mapping[str, str] = {
    "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    # A subagent that works on while the agent does makes each run another one.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
}
"""Instructions of the second folder are read; nothing is remembered; an agent waits for its
subagents.
"""

_OUTER_PATH = re.compile(r"""(?:^|(?<=[\s"'@=(:,]))/[^\s"']*""")
_UP = re.compile(r"""(?:^|[\s"'@=(:,/])\.\.(?:/|["'\s]|\Z)""")


def project_folder(home: Path) -> Path:
    """Where the instructions are."""
    return home / "project"


def write_setup(setup: ProjectSetup, home: Path, folder: Path) -> None:
    """Write everything that Claude Code loads below `home`. `folder`: where it works. OSError."""
    for file in setup.files:
        path = home / file.place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        if file.is_executable:
            path.chmod(0o700)
    project_folder(home).mkdir(exist_ok=True)
    config = home / "config"
    settings = {"hooks": setup.hooks} if setup.hooks else {}
    (config / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    # The files that instructions import are in the second folder, which counts as outside.
    approval = {"hasClaudeMdExternalIncludesApproved": True, "hasTrustDialogAccepted": True}
    projects = {str(folder): approval, os.path.realpath(folder): approval}
    (config / ".claude.json").write_text(json.dumps({"projects": projects}), encoding="utf-8")


def readable_folders(home: Path) -> tuple[Path, ...]:
    """What the agent's tools may read outside of its working directory: files of skills, and
    instructions.
    """
    return (home / "config" / "skills", project_folder(home))


def leads_outside(text: str, folder: Path) -> bool:
    """Whether arguments of a command or skill name a file outside of `folder`, which Claude Code
    would read where the text has an "@" before them.
    """
    if _UP.search(text):
        return True
    root = os.path.realpath(folder)
    for match in _OUTER_PATH.finditer(text):
        path = match[0]
        is_inside = Path(os.path.realpath(path)).is_relative_to(root)
        if path.strip("/") and not is_inside and Path(path).exists():
            return True
    return False
