"""Where a judge reads, taken out of what is recorded of it: its trees may lie in somebody's home."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = "."
OUTER_FOLDER = "…"
"""Any folder above it: of `/home/ada/notes` stays `…/notes`."""

TOP_PARTS = 2
"""`/` and one name, as in `/home` or `/tmp`: not hidden, as it tells of nobody."""

MAX_BACKSLASHES = 16
"""Before a character: JSON doubles them with each text that it stands in."""

NOTHING = "(?!)"
"""The pattern that is nowhere."""

_QUOTE = re.compile(r'("quote": "(?:[^"\\]|\\.)*")')
"""What a judge copies out of a file, which may name the home of whoever wrote it. It is looked up
there letter by letter, so the folders above are left in it.
"""


class HiddenFolder:
    """A working directory that is not told. Paths below it stay, as `./src/a.py`."""

    def __init__(self, folder: Path, session_key: str) -> None:
        """`session_key`: the folder's name among Claude Code's sessions."""
        folders = (folder, folder.resolve())
        outer_names: list[str] = []
        for path in folders:
            for parent in path.parents:
                if len(parent.parts) > TOP_PARTS:
                    outer_names.append(str(parent))
        self._session_key = session_key
        self._folder_names = _any_spelling(map(str, folders))
        self._outer_names = _any_spelling(outer_names)

    def hide_in(self, value: Any) -> Any:  # noqa: ANN401 any JSON
        """The JSON value without the folder and those above it."""
        # As text: a value that a model nested a thousand times is no matter to the json module.
        text = json.dumps(value, ensure_ascii=False)
        text = text.replace(self._session_key, FOLDER)
        text = self._folder_names.sub(FOLDER, text)
        parts = _QUOTE.split(text)
        for number in range(0, len(parts), 2):
            parts[number] = self._outer_names.sub(OUTER_FOLDER, parts[number])
        return json.loads("".join(parts))


def _any_spelling(names: Iterable[str]) -> re.Pattern[str]:
    """Any of the absolute paths, the longest first; `/home/ada` is not in `/home/adam`."""
    alternatives: list[str] = []
    for name in sorted(set(names), key=len, reverse=True):
        alternatives.append("".join(map(_spellings, name[1:])))
    any_name = "|".join(alternatives) or NOTHING
    # A pattern that begins with a plain character is looked for many times faster.
    return re.compile(rf"/(?:{any_name})(?!\w)")


def _spellings(character: str) -> str:
    """A character in a JSON text: as it is, behind a shell's backslash, as in a URL, and as in JSON
    that stands in that text.
    """
    if character.isascii() and character.isalnum():
        return character
    if character == "\\":
        return r"(?:\\\\)+"  # pairs, without the backslash of a quotation mark behind them
    in_url = "".join(f"%{byte:02x}" for byte in os.fsencode(character))
    in_json = f"u{ord(character):04x}"
    return rf"\\{{0,{MAX_BACKSLASHES}}}(?:{re.escape(character)}|(?i:{in_url}|{in_json}))"
