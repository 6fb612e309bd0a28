"""Runs of a store: what is there, as entries of a list that opens no bundle whose entry is known.

The index in the repository's state keeps the entries of each key's folder with that folder's ctime,
which no program can set. A folder that was changed since is read again, and so is one with a run
that is not sealed, for a seal does not change it. Without an index every summary is read.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import astuple, replace

from vibe_gate.domain import nearest, paths
from vibe_gate.domain.bundles import (
    CHANGE_IDS,
    MATCHES,
    OUTCOMES,
    REPLAY,
    STATES,
    RunEntry,
    Wanted,
    is_run_id,
)
from vibe_gate.errors import UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_location import read_object, read_unsealed_state
from vibe_gate.store.bundle_seal import read_summary
from vibe_gate.store.folder import Folder
from vibe_gate.store.store_folder import open_store_folder, unreadable_store_error

if TYPE_CHECKING:
    from typing import Unpack

    from vibe_gate.domain.bundles import Provenance
    from vibe_gate.domain.summary import Summary
    from vibe_gate.store.database.run_index import RunIndex

RACY_NS = 50_000_000
"""A folder whose ctime was younger when it was seen is read again: five ticks of the slowest kernel
clock.
"""

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CHOICES: dict[str, tuple[str, ...]] = {
    "outcome": (*OUTCOMES, "sealed", *STATES),
    "author": ("agent", "human"),
}


def find_bundles(
    root: Path | str = ".",
    provenance: Provenance | None = None,
    index: RunIndex | None = None,
    limit: int | None = None,
    *,
    replays: bool = False,
    **conditions: Unpack[Wanted],
) -> list[RunEntry]:
    """The runs below `root` (the top of the working tree) that meet all conditions, newest first,
    at most `limit`.

    An empty id finds nothing. With `replays`, those that judged a stored run again are among them.
    With `provenance`, runs that no review here wrote are "foreign" and have no outcome.
    StorageError: the store cannot be read. UsageError: no such folder, a value that cannot be meant
    (a `since` that is not a datetime or has no time zone, anything else that is no text, an id that
    is not whole, an outcome or an author that no run can have), or a word that it does not take.
    """
    check_conditions(conditions)
    store = open_store_folder(Path(root))
    if store is None and not Path(root).is_dir():
        raise UsageError(f"There is no folder {root}.")
    if store is None:
        return []
    read_limit = None if conditions else limit
    try:
        runs = sorted(_read_entries(store, index, read_limit, replays=replays), reverse=True)
        entries = _mark_foreign(runs[:read_limit], provenance)
    except OSError as error:
        raise unreadable_store_error(error) from error
    return [entry for entry in entries if meets_conditions(entry, conditions)][:limit]


def check_conditions(conditions: Wanted) -> None:
    """UsageError as of `find_bundles`."""
    unknown_words = conditions.keys() - Wanted.__annotations__.keys()
    if unknown_words:
        word = min(unknown_words)
        near = nearest(word, Wanted.__annotations__)
        raise UsageError(
            f"find_bundles takes no {word!r}{f'; did you mean {near!r}?' if near else '.'}"
        )
    for name, value in conditions.items():
        if name in MATCHES and value and _ID.fullmatch(str(value)) is None:
            raise UsageError(f"{name} is a whole id of 40 or 64 hex digits, not {value!r:.80}.")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise UsageError(f"{name} is one of {', '.join(_CHOICES[name])}, not {value!r:.40}.")
        if name == "since":
            require_time(name, value)
        elif not isinstance(value, str):
            raise UsageError(f"{name} is a text, not {value!r:.40}.")


def require_time(name: str, at: object) -> None:
    """UsageError if it is no time with a zone."""
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise UsageError(f"{name} is a datetime with a time zone, not {at!r:.60}.")


def _mark_foreign(entries: list[RunEntry], provenance: Provenance | None) -> list[RunEntry]:
    """The same runs, foreign ones without what they say of themselves."""
    if provenance is None:
        return entries
    marked_entries = []
    for entry in entries:
        is_foreign = bool(provenance.foreign(entry.key, entry.run_id))
        marked_entries.append(RunEntry(entry.run_id, entry.key, "foreign") if is_foreign else entry)
    return marked_entries


def meets_conditions(run: RunEntry, conditions: Wanted) -> bool:
    """Whether the run meets all conditions. An unsealed run has no outcome, and of its change only
    the key is known.
    """
    if "run" in conditions and run.run_id != conditions["run"]:
        return False
    if "since" in conditions and run.run_id < bundle_names.format_stamp(conditions["since"])[:-1]:
        return False
    if "prefix" in conditions:
        prefix = conditions["prefix"]
        if prefix == "" or not run.run_id.startswith(prefix):
            return False
    for match in MATCHES:
        if match in conditions and not run.is_about(match, conditions[match]):
            return False
    if "outcome" in conditions and conditions["outcome"] not in (run.outcome, run.state):
        return False
    if "rubric" in conditions and conditions["rubric"] not in [rubric for rubric, _ in run.rubrics]:
        return False
    if "author" in conditions and run.author != conditions["author"]:
        return False
    return "path" not in conditions or _touches(run, conditions["path"])


def _touches(run: RunEntry, glob: str) -> bool:
    return any(paths.matches_any_glob(paths.unquote(path), (glob,)) for path in run.paths)


def is_kept(store: Folder, entry: RunEntry) -> bool:
    """Whether `.vibe-keep` protects the run. OSError."""
    key = store.folder(entry.key)
    return key.has(bundle_names.KEEP) or key.folder(entry.run_id).has(bundle_names.KEEP)


def bare_entries(store: Folder) -> list[RunEntry]:
    """Every run of the store, the newest first, by its folders' names alone: nothing is read.
    OSError.
    """
    entries = []
    for key in filter(bundle_names.is_key, store.folders()):
        with suppress(FileNotFoundError, NotADirectoryError):  # cleaned away meanwhile
            run_ids = filter(is_run_id, store.folder(key).folders())
            entries += [RunEntry(run_id, key, "corrupt") for run_id in run_ids]
    return sorted(entries, reverse=True)


def _read_entries(
    store: Folder, index: RunIndex | None, limit: int | None, *, replays: bool
) -> list[RunEntry]:
    """The newest runs, among others; replays if they are wanted.

    What somebody changes inside a sealed bundle is not seen; whoever reads the bundle compares
    digests.
    """
    old_rows = {} if index is None else index.folders()
    new_rows: dict[str, tuple[int, str]] = {}
    unchanged: list[tuple[str, str]] = []
    settled_ns = time.time_ns() - RACY_NS  # the file system's clock is this one
    entries: list[RunEntry] = []
    keys = list(filter(bundle_names.is_key, store.folders()))
    for key in keys:
        if key.startswith(REPLAY) and not replays:
            continue
        with suppress(FileNotFoundError, NotADirectoryError):  # cleaned away meanwhile
            ctime = store.status(key).st_ctime_ns
            old_ctime, text = old_rows.get(key, (0, ""))
            if old_ctime == ctime:
                unchanged.append((text, key))
                continue
            runs = _read_key(store.folder(key), key)
            entries += runs
            if ctime < settled_ns and _are_sealed(runs):
                new_rows[key] = ctime, _encode_entries(runs)
    # What the index says of a key begins with the newest run: the greatest texts have the newest
    # runs.
    for text, key in sorted(unchanged, reverse=True)[:limit]:
        entries += _decode_entries(key, text) or _read_key(store.folder(key), key)
    deleted_keys = old_rows.keys() - keys
    if index is not None and (new_rows or deleted_keys):
        index.update(new_rows, deleted_keys)
    return entries


def _are_sealed(runs: list[RunEntry]) -> bool:
    """Whether there are runs, and all have ended: what the index says of them stays true."""
    return bool(runs) and all(run.state == "sealed" for run in runs)


def _encode_entries(runs: list[RunEntry]) -> str:
    """Sealed runs of one key as the index has them: rows of all fields but key and state, the
    newest run first.
    """
    rows = []
    for run in sorted(runs, reverse=True):
        run_id, _key, _state, *fields = astuple(run)
        rows.append((run_id, *fields))
    return json.dumps(rows, separators=(",", ":"))


def _decode_entries(key: str, text: str) -> list[RunEntry] | None:
    """The sealed runs of a key as the index has them; None if that is damaged, or has other
    fields.
    """
    entries = []
    try:
        for row in json.loads(text):
            if len(row) != len(RunEntry.__struct_fields__) - 2:  # without key and state
                return None
            run_id, *fields, rubrics, changed_paths, extent = row
            pairs = tuple(tuple(pair) for pair in rubrics)
            values = (*fields, pairs, tuple(changed_paths), extent)
            entries.append(RunEntry(run_id, key, "sealed", *values))
    except (ValueError, TypeError):
        return None
    return entries


def _read_key(folder: Folder, key: str) -> list[RunEntry]:
    entries = []
    for run_id in filter(is_run_id, folder.folders()):
        with suppress(FileNotFoundError, NotADirectoryError):
            entries.append(read_entry(folder, RunEntry(run_id, key, "corrupt")))
    return entries


def read_entry(key: Folder, bare: RunEntry) -> RunEntry:
    """The entry of one run, read from its bundle. FileNotFoundError: it was removed meanwhile."""
    try:
        bundle = key.folder(bare.run_id)
        summary = read_summary(read_object(bundle, bundle_names.SUMMARY))
        return entry_of_summary(bare, summary)
    except FileNotFoundError:
        # A cleaner may have it: what is missing is only the first that went.
        return replace(bare, state=read_unsealed_state(key.folder(bare.run_id)))
    except (OSError, ValueError):
        return bare


def entry_of_summary(bare: RunEntry, summary: Summary) -> RunEntry:
    """What a list says of a sealed run. ValueError if the summary is another run's."""
    if (summary.run_id, summary.key) != (bare.run_id, bare.key):
        raise ValueError("the summary of another run")
    change = summary.change
    changed_paths: dict[str, None] = {}
    for file in change.files:
        changed_paths[file.path] = None
        if file.old_path:
            changed_paths[file.old_path] = None
    return replace(
        bare,
        state="sealed",
        outcome=summary.outcome,
        exit_code=summary.exit_code,
        author="agent" if summary.agent_authored.decision else "human",
        workflow=summary.workflow,
        **{name: getattr(change, name) for name in CHANGE_IDS},
        files=len(change.files),
        added=change.added,
        deleted=change.deleted,
        findings=len(summary.findings),
        cost_usd=summary.cost.usd,
        cost_basis=summary.cost.basis,
        duration_ms=summary.duration_ms,
        rubrics=tuple((rubric.id, rubric.outcome) for rubric in summary.rubrics),
        paths=tuple(changed_paths),
        extent=summary.extent,
    )
