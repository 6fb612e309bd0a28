"""Folders and files that the words of a command line name, as far as that is known before it runs."""

from __future__ import annotations

import os.path
from collections.abc import Callable

UNKNOWN = ""
"""The folder of which only the shell that runs the line will know the name (`cd "$DIR"`)."""

Elsewhere = Callable[[str], bool]
"""Whether a folder belongs to another repository, or to none."""


def is_free(folder: str, elsewhere: Elsewhere) -> bool:
    """Whether a folder is not this repository's, or cannot be known before the line runs: git's
    hook knows it.
    """
    return folder == UNKNOWN or elsewhere(folder)


def folder_below(folder: str, word: str) -> str:
    """The folder that a word of a command names; UNKNOWN if only a shell can say which it is."""
    if folder == UNKNOWN and not word.startswith(("/", "~")):
        return UNKNOWN
    return path_if_known(path_from_folder(folder, word), folder)


def path_if_known(path: str, cwd: str) -> str:
    """The path, or UNKNOWN if a word behind `cwd` has what a shell replaces, and no file is called
    so.
    """
    if path == cwd or os.path.lexists(path):
        return path
    words = path.removeprefix(f"{cwd}/")
    if "$" in words or "`" in words:
        return UNKNOWN
    return path


def path_from_folder(folder: str, path: str) -> str:
    """The path that a word names for a command that runs in the folder."""
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))  # noqa: PTH111, PTH118
