"""Whether git may track something of a store, told without git. Imports next to nothing, for `bundles list`."""

from __future__ import annotations

import os
import sys

_SIGNATURE = b"DIRC"
_WHOLE_NAMES = (b"\0\0\0\2", b"\0\0\0\3")
"""Versions of git's index that write every path out."""

_SHORT_NAMES = b"\0\0\0\4"
"""The version whose paths leave out what they share with the path before."""

_STORE = b".vibe-artifacts"
_SMALLEST = 32  # bytes of an index of nothing: its head and its checksum
_ENTRY = 62  # bytes before a path: times, numbers, an id of SHA-1, flags
_EXTENDED = 0x40  # in the flags: two more bytes of them follow

_LONGEST_PATH = 4096
"""Bytes, of an index's too: what is longer is a doubt, and no hostile index costs more than its length."""


def may_be_tracked(root: str) -> bool:
    """Whether the index of the repository at `root` may name `.vibe-artifacts`; False where there is no repository.

    Every doubt is True: an index of an unknown version or in two parts, one that is torn, ids
    that are no SHA-1 in an index of version 4, a disk that may ignore case (all but Linux's).
    """
    git = os.path.join(root, ".git")  # noqa: PTH118  pathlib would cost its import
    if not os.path.lexists(git):
        return False
    try:
        if os.path.isfile(git):  # noqa: PTH113  a linked working tree, or a submodule
            git = _folder_of(root, git)
        if sys.platform != "linux" or not os.path.isdir(git):  # noqa: PTH112
            return True
        if any(name.startswith("sharedindex.") for name in os.listdir(git)):  # noqa: PTH208
            return True
        with open(os.path.join(git, "index"), "rb") as file:  # noqa: PTH118
            data = file.read()
    except FileNotFoundError:
        return False  # nothing was ever added
    except OSError:
        return True
    if data[:8] == _SIGNATURE + _SHORT_NAMES:
        try:
            return _other_ids(git) or _is_named(data)
        except (OSError, ValueError, IndexError):
            return True
    return data[:4] != _SIGNATURE or data[4:8] not in _WHOLE_NAMES or b"vibe-artifacts" in data


def _is_named(data: bytes) -> bool:
    """Whether an index of version 4 names the store. Paths are sorted: few come before it. ValueError, IndexError."""
    if len(data) < _SMALLEST:
        raise ValueError("torn")
    path, at = b"", 12
    for _ in range(int.from_bytes(data[8:12], "big")):
        at += _ENTRY + (2 if data[at + _ENTRY - 2] & _EXTENDED else 0)
        left_out = data[at] & 0x7F
        while data[at] & 0x80 and left_out <= len(path):
            at += 1
            left_out = (left_out + 1) << 7 | data[at] & 0x7F
        if left_out > len(path):
            raise ValueError("more left out than there is")
        end = data.index(b"\0", at + 1)
        path = path[: len(path) - left_out] + data[at + 1 : end]
        if path.startswith(_STORE) or path > _STORE:
            return path.startswith(_STORE)
        if len(path) > _LONGEST_PATH:
            raise ValueError("longer than any file's")
        at = end + 1
    return False


def _other_ids(git: str) -> bool:
    """Whether the repository's ids may be others than SHA-1, which are longer. OSError."""
    common = git
    if os.path.isfile(os.path.join(git, "commondir")):  # noqa: PTH113, PTH118  a linked working tree
        with open(os.path.join(git, "commondir"), "rb") as file:  # noqa: PTH118
            common = os.path.join(git, os.fsdecode(file.read(_LONGEST_PATH).strip()))  # noqa: PTH118
    with open(os.path.join(common, "config"), "rb") as file:  # noqa: PTH118
        return b"objectformat" in file.read().lower()


def _folder_of(root: str, git: str) -> str:
    """The folder that a `.git` file names. OSError."""
    with open(git, "rb") as file:
        words = file.read(_LONGEST_PATH)
    name = os.fsdecode(words.removeprefix(b"gitdir:").strip()) if words.startswith(b"gitdir:") else "."
    return os.path.join(root, name)  # noqa: PTH118
