"""The set-up of a project in the home of one agent, in place of what a person has in theirs.

Claude Code is shown no settings but those written here. It takes commands, skills and agents of its
configuration folder, and instructions of a second folder, where they count as the project's. The
`.claude` of the folder that it works in is not read: there the change under review could speak.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
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

_WEB_ADDRESS = re.compile(r"https?://")
_OWN_REFERENCE = re.compile(
    r"(?:^|(?<=\s))@([\w.-]+(?:/[\w.-]+)*/?(?:#L\d+(?:-\d+)?)?)(?=[:,;!?)]?(?:\s|\Z))"
)
_QUOTES = str.maketrans("", "", "\"'`\\")
_PARTS_OF_OUTER_PATHS: Mapping[str, re.Pattern[str]] = {
    '"@" before a name': re.compile(r"(?<![A-Za-z0-9_])@"),
    'a word that begins with "~"': re.compile(r"(?<![\w.+*\]}/-])~(?![0-9])"),
    '".." as a part of a path': re.compile(r"(?<![\w.-])\.\.(?![\w.-])"),
    '"$"': re.compile(r"\$(?![0-9])"),
    "a control character": re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"),
}
"""By words for people. A word begins behind everything but letters, and signs that stand in names:
Claude Code parts arguments as a shell does, at quotes, brackets and ";", too.
"""
_SLASHED_WORD = re.compile(r"(?<![\w.+*\]}/-])/(?=(?P<text>[^\n]{0,256}))")
"""With what stands behind it, as far as a name of a file can be, where other words begin, too."""


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


def part_of_outer_path(arguments: str, *, with_references: bool = False) -> str:
    """What in the arguments of a command or skill could make Claude Code read a file outside of its
    working directory, in a few words; "" if nothing could.

    Which file that is, Claude Code decides in ways of its own (quotes, variables, `#L1`, a full stop
    at the end), so whether it exists is not asked. But a word that begins with "/" may be a route
    (`/api/users`), unless the file system has such a name at its root. `with_references`: `@` may
    stand before a plain path below the working directory.
    """
    root_names = [_without_quotes(path.name).casefold() for path in Path("/").iterdir()]
    text = _WEB_ADDRESS.sub(" ", arguments)
    if with_references:
        text = _OWN_REFERENCE.sub(r"\1", text)
    for reading in (text, _without_quotes(text)):
        for words, pattern in _PARTS_OF_OUTER_PATHS.items():
            if pattern.search(reading):
                return words
        for word in _SLASHED_WORD.finditer(reading):
            if _may_be_at_root(word["text"].casefold(), root_names):
                return 'a word that begins with "/" and a folder of this machine'
    return ""


def _may_be_at_root(text: str, root_names: Iterable[str]) -> bool:
    """Whether the text behind a "/" begins with one of these names, or with no name at all."""
    if not (text[:1].isalnum() or text[:1] == "_"):
        return True
    for name in root_names:
        next_letter = text[len(name) : len(name) + 1]
        if text.startswith(name) and not (next_letter.isalnum() or next_letter == "_"):
            return True
    return False


def _without_quotes(text: str) -> str:
    """What is left where quotes, backslashes and characters that are not seen are taken out, and
    compatible letters are one.
    """
    visible_letters = [letter for letter in text if unicodedata.category(letter) != "Cf"]
    return unicodedata.normalize("NFKC", "".join(visible_letters)).translate(_QUOTES)
