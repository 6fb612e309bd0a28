"""The tools that a repository's configuration files name, and a command check for each: what `init`
proposes.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from vibe_gate.faces.cli.scripts import propose_commands

*TOOLS, OWN = (
    Path(__file__).with_name("starters").joinpath("commands.toml").read_text().split("\n\n")
)
"""Criteria, commented out, below `# uses NAME: FILE or [TABLE of pyproject.toml] ...`; the last is
an example.
"""

MAX_CHARACTERS = 1_000_000
"""What is read of a pyproject.toml."""


def proposals(root: Path) -> tuple[list[str], str]:
    """The names of the tools and commands in use, and their criteria, commented out."""
    root, names, criteria = root.resolve(), [], ""
    commands = propose_commands(root)
    has_lint_script = any(command.id == "lint" for command in commands)
    for tool in TOOLS:
        name, _, places = tool.partition("\n")[0].removeprefix("# uses ").partition(": ")
        if name == "eslint" and has_lint_script:
            continue
        if any(_holds(root, place) for place in places.split()):
            names.append(name)
            criteria += f"\n{tool}\n"
    for command in commands:
        names.append(command.title)
        criteria += f"\n{command.criterion()}"
    example = OWN.replace('id = "lint"', 'id = "my-lint"') if has_lint_script else OWN
    return names, f"{criteria}\n{example}"


def _holds(root: Path, place: str) -> bool:
    """Whether a file of that name, or that table, is there. Symbolic links do not count."""
    with suppress(OSError):
        if place.startswith("["):
            return _has_table(root, place[1:-1])
        return any(path.is_file() and path.resolve() == path for path in root.glob(place))
    return False


def _has_table(root: Path, table: str) -> bool:
    """Whether pyproject.toml has that table. OSError."""
    if not _holds(root, "pyproject.toml"):
        return False
    with (root / "pyproject.toml").open(errors="replace") as file:
        text = file.read(MAX_CHARACTERS)
    return re.search(rf"^\[+{re.escape(table)}[].]", text, re.M) is not None
