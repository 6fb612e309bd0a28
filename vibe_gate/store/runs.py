"""Runs of a store: what is there, as entries of a list that opens no bundle whose entry is known.

The index in the repository's state keeps the entries of each key's folder with that folder's ctime, which no program
can set. A folder that was changed since is read again, and so is one with a run that is not sealed, for a seal does
not change it. Without an index every summary is read.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple, replace

from vibe_gate.domain import nearest, paths
from vibe_gate.domain.bundles import CHANGE_IDS, MATCHES, OUTCOMES, REPLAY, STATES, RunEntry, Wanted, is_run_id
from vibe_gate.errors import UsageError
from vibe_gate.store import names
from vibe_gate.store.artifacts import open_store_folder, unreadable
from vibe_gate.store.bundle import read_object, read_summary
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import Lock

if TYPE_CHECKING:
    from typing import Unpack

    from vibe_gate.domain.bundles import Provenance
    from vibe_gate.domain.summary import Summary
    from vibe_gate.store.database.run_index import RunIndex

RACY_NS = 50_000_000
"""A folder whose ctime was younger when it was seen is read again: five ticks of the slowest kernel clock."""

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CHOICES: dict[str, tuple[str, ...]] = {"outcome": (*OUTCOMES, "sealed", *STATES), "author": ("agent", "human")}


def find_bundles(
    root: Path | str = ".",
    provenance: Provenance | None = None,
    index: RunIndex | None = None,
    limit: int | None = None,
    *,
    replays: bool = False,
    **wanted: Unpack[Wanted],
) -> list[RunEntry]:
    """The runs below `root` (the top of the working tree) that are as `wanted`, newest first, at most `limit`.

    An empty id finds nothing. With `replays`, those that judged a stored run again are among them. With `provenance`,
    runs that no review here wrote are "foreign" and have no outcome.
    StorageError: the store cannot be read. UsageError: no such folder, a value that cannot be meant (a `since` that is
    not a datetime or has no time zone, anything else that is no text, an id that is not whole, an outcome or an author
    that no run can have), or a word that it does not take.
    """
    check(wanted)
    store = open_store_folder(Path(root))
    if store is None and not Path(root).is_dir():
        raise UsageError(f"There is no folder {root}.")
    if store is None:
        return []
    most = None if wanted else limit
    try:
        runs = sorted(_looked_at(store, index, most, replays=replays), reverse=True)
        found = _told_apart(runs[:most], provenance)
    except OSError as error:
        raise unreadable(error) from error
    return [entry for entry in found if is_wanted(entry, wanted)][:limit] if wanted else found


def check(wanted: Wanted) -> None:
    """UsageError as of `find_bundles`."""
    if unknown := wanted.keys() - Wanted.__annotations__.keys():
        word = min(unknown)
        near = nearest(word, Wanted.__annotations__)
        raise UsageError(f"find_bundles takes no {word!r}{f'; did you mean {near!r}?' if near else '.'}")
    for name, value in wanted.items():
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


def _told_apart(found: list[RunEntry], provenance: Provenance | None) -> list[RunEntry]:
    """The same runs, foreign ones without what they say of themselves."""
    if provenance is None:
        return found
    return [
        RunEntry(entry.run_id, entry.key, "foreign") if provenance.foreign(entry.key, entry.run_id) else entry
        for entry in found
    ]


def is_wanted(entry: RunEntry, wanted: Wanted) -> bool:
    """Whether the run is as wanted. An unsealed run has no outcome, and of its change only the key is known."""
    return (
        ("run" not in wanted or entry.run_id == wanted["run"])
        and ("since" not in wanted or entry.run_id >= names.stamp(wanted["since"])[:-1])
        and ("prefix" not in wanted or (wanted["prefix"] != "" and entry.run_id.startswith(wanted["prefix"])))
        and all(entry.is_about(match, wanted[match]) for match in MATCHES if match in wanted)
        and ("outcome" not in wanted or wanted["outcome"] in (entry.outcome, entry.state))
        and ("rubric" not in wanted or any(name == wanted["rubric"] for name, _ in entry.rubrics))
        and ("author" not in wanted or entry.author == wanted["author"])
        and ("path" not in wanted or _touches(entry, wanted["path"]))
    )


def _touches(entry: RunEntry, glob: str) -> bool:
    return any(paths.matches(paths.unquote(path), (glob,)) for path in entry.paths)


def is_kept(store: Folder, entry: RunEntry) -> bool:
    """Whether `.vibe-keep` protects the run. OSError."""
    key = store.folder(entry.key)
    return key.has(names.KEEP) or key.folder(entry.run_id).has(names.KEEP)


def bare_entries(store: Folder) -> list[RunEntry]:
    """Every run of the store, the newest first, by its folders' names alone: nothing is read. OSError."""
    found = []
    for key in filter(names.is_key, store.folders()):
        with suppress(FileNotFoundError, NotADirectoryError):  # cleaned away meanwhile
            found += [RunEntry(run_id, key, "corrupt") for run_id in store.folder(key).folders() if is_run_id(run_id)]
    return sorted(found, reverse=True)


def _looked_at(store: Folder, index: RunIndex | None, limit: int | None, *, replays: bool) -> list[RunEntry]:
    """The newest runs, among others; replays if they are wanted.

    What somebody changes inside a sealed bundle is not seen; whoever reads the bundle compares digests.
    """
    known = {} if index is None else index.folders()
    settled = time.time_ns() - RACY_NS  # the file system's clock is this one
    found: list[RunEntry] = []
    unchanged: list[tuple[str, str]] = []
    changed: dict[str, tuple[int, str]] = {}
    keys = [key for key in store.folders() if names.is_key(key)]
    for key in (key for key in keys if replays or not key.startswith(REPLAY)):
        with suppress(FileNotFoundError, NotADirectoryError):  # cleaned away meanwhile
            ctime = store.status(key).st_ctime_ns
            before, data = known.get(key, (0, ""))
            if before == ctime:
                unchanged.append((data, key))
                continue
            runs = _read_key(store.folder(key), key)
            if runs and ctime < settled and all(run.state == "sealed" for run in runs):
                changed[key] = ctime, _encoded(runs)
            found += runs
    # What the index says of a key begins with the newest run: the greatest texts have the newest runs.
    for data, key in sorted(unchanged, reverse=True)[:limit]:
        found += _decoded(key, data) or _read_key(store.folder(key), key)
    if index is not None and (changed or known.keys() - keys):
        index.update(changed, known.keys() - keys)
    return found


def _encoded(runs: list[RunEntry]) -> str:
    return json.dumps([(run.run_id, *astuple(run)[3:]) for run in sorted(runs, reverse=True)], separators=(",", ":"))


def _decoded(key: str, data: str) -> list[RunEntry] | None:
    """The sealed runs of a key as the index has them; None if that is damaged."""
    try:
        return [
            RunEntry(run_id, key, "sealed", *simple, tuple(map(tuple, rubrics)), tuple(changed), extent)  # type: ignore[call-arg]
            for run_id, *simple, rubrics, changed, extent in map(_of_this_version, json.loads(data))
        ]
    except (ValueError, TypeError):
        return None


def _of_this_version(row: list[Any]) -> list[Any]:
    """The same. ValueError: another version wrote it, with other fields."""
    if len(row) != len(RunEntry.__struct_fields__) - 2:  # without key and state
        raise ValueError("another version's")
    return row


def _read_key(folder: Folder, key: str) -> list[RunEntry]:
    found = []
    for run_id in filter(is_run_id, folder.folders()):
        with suppress(FileNotFoundError, NotADirectoryError):
            found.append(read_entry(folder, RunEntry(run_id, key, "corrupt")))
    return found


def read_entry(key: Folder, bare: RunEntry) -> RunEntry:
    """The entry of one run, read from its bundle. FileNotFoundError: it was removed meanwhile."""
    try:
        bundle = key.folder(bare.run_id)
        summary = read_summary(read_object(bundle, names.SUMMARY))
        return sealed(bare, summary)
    except FileNotFoundError:
        bundle = key.folder(bare.run_id)  # a cleaner may have it: what is missing is only the first that went
        return replace(bare, state="running" if Lock.is_held(bundle) else "incomplete")
    except (OSError, ValueError):
        return bare


def sealed(bare: RunEntry, summary: Summary) -> RunEntry:
    """What a list says of a sealed run. ValueError if the summary is another run's."""
    if (summary.run_id, summary.key) != (bare.run_id, bare.key):
        raise ValueError("the summary of another run")
    change = summary.change
    both = (path for file in change.files for path in (file.path, file.old_path) if path)
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
        paths=tuple(dict.fromkeys(both)),
        extent=summary.extent,
    )
