"""`bundles list [--json] [--limit N]` without the imports of the other commands; every doubt is left to them."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.report.listing import documents, lines, table
from vibe_gate.store import State, find_bundles

_DIGITS = 9
_IS_COMMIT = re.compile(r"[0-9a-f]{40}").fullmatch
_REDIRECTIONS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE")
_LS_FILES = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "ls-files", "--", f":(top,icase){STORE}")
_LOG = ("git", "--no-optional-locks", "-c", "log.showSignature=false", "log", "--no-walk=unsorted", "--ignore-missing",
        "--format=%H %s", "--stdin")  # fmt: skip


def listed(arguments: list[str]) -> str | None:
    """The text of the list; None if something else is asked, or it cannot be told here."""
    as_json, rest = "--json" in arguments, [argument for argument in arguments if argument != "--json"]
    limit = None
    if rest:
        if len(rest) != 2 or rest[0] != "--limit" or not rest[1].isdecimal() or not 0 < len(rest[1]) < _DIGITS:
            return None
        limit = int(rest[1])
    if limit == 0 or any(name in os.environ for name in _REDIRECTIONS):
        return None
    root = next((folder for folder in (Path.cwd(), *Path.cwd().parents) if os.path.lexists(folder / ".git")), None)
    state = None if root is None else State.of_working_tree(root)
    if root is None or state is None or _tracks_store():
        return None
    gc.disable()  # ten thousand runs, and no cycle among them
    runs = find_bundles(root, Provenance(datetime.now(UTC)), state.run_index(root / STORE), limit)
    if not runs:
        return None
    return documents(runs) if as_json else shown(runs)


def shown(runs: Sequence[RunEntry]) -> str:
    """The list for whoever reads stdout: a table on a terminal, a line of everything in a pipe."""
    width = columns()
    return lines(runs) if width is None else table(runs, width, datetime.now(UTC), _titles(runs))


def _titles(runs: Sequence[RunEntry]) -> dict[str, str]:
    """The titles of the runs' commits, as far as they are here; git is asked once."""
    keys = {run.key for run in runs if _IS_COMMIT(run.key)}
    if not keys:
        return {}
    import subprocess  # on a terminal only

    asked = "".join(f"{key}\n" for key in keys)
    done = subprocess.run(_LOG, input=asked, capture_output=True, text=True, errors="replace", check=False)
    return {line[:40]: line[41:] for line in done.stdout.splitlines()}


def columns() -> int | None:
    """The width of the terminal on stdout; None if it is not a terminal, or does not say."""
    try:
        return os.get_terminal_size(1).columns or None
    except OSError:
        return None


def _tracks_store() -> bool:
    """Whether git may track something of the store: it came with the repository, then."""
    read, write = os.pipe()
    quiet = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    try:
        process = os.posix_spawnp("git", _LS_FILES, os.environ, file_actions=quiet)
    except OSError:
        os.close(read)
        return True
    finally:
        os.close(write)
    with open(read, "rb") as names:
        found = names.read()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != 0 or found != b""
