"""What Codex's events say of the files that a patch wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_gate.store.event_parts import WrittenFile, split_patched_lines, text_in


def read_codex_patch(
    tool_input: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[WrittenFile, ...]:
    """The files that a patch adds and updates: it tells the whole text of the first, and what it
    changes in the others.
    """
    hunks_by_path: dict[str, list[list[str]]] = {}
    added_paths: set[str] = set()
    path = ""
    for line in (text_in(tool_input, "command") or "").split("\n"):
        mark, _, name = line.partition(": ")
        if mark in ("*** Add File", "*** Update File"):
            path = name.strip()
            hunks_by_path[path] = [[]]
            if mark == "*** Add File":
                added_paths.add(path)
        elif mark == "*** Delete File":
            path = ""
        elif mark == "*** Move to":
            moved_hunks = hunks_by_path.pop(path, [[]])
            path = name.strip()
            hunks_by_path[path] = moved_hunks
        elif path and line.startswith("@@"):
            hunks_by_path[path].append([])
        elif path:
            hunks_by_path[path][-1].append(line)

    files = []
    for path, hunks in hunks_by_path.items():
        is_new = path in added_paths
        files.append(_added_file(path, hunks) if is_new else _updated_file(path, hunks))
    return tuple(files)


def _added_file(path: str, hunks: list[list[str]]) -> WrittenFile:
    lines: list[str] = []
    for hunk in hunks:
        lines += split_patched_lines(hunk).new
    return WrittenFile(path, "", "".join(f"{line}\n" for line in lines))


def _updated_file(path: str, hunks: list[list[str]]) -> WrittenFile:
    patched_hunks = [split_patched_lines(hunk) for hunk in hunks]
    changed_hunks = [hunk for hunk in patched_hunks if hunk.old or hunk.new]
    return WrittenFile(path, hunks=tuple(changed_hunks))
