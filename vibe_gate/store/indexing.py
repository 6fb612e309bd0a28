"""Looks at the store and mends the index: what is there that has no line, what has a line and is not there.

Only folders whose ctime changed since they were last seen are looked into, and only
runs without a line are opened. The index is appended to where the new runs are the
newest, and else written anew, so that it always holds what a new one would.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vibe_gate.domain import paths
from vibe_gate.errors import StorageError
from vibe_gate.store import index
from vibe_gate.store.index import Entry, Seen, Stamp, encoded
from vibe_gate.store.place import MAX_DOCUMENT_BYTES
from vibe_gate.store.strict import require_few
from vibe_gate.store.tracked import may_be_tracked

RACY_NS = 50_000_000
"""A ctime that was younger when it was seen is not believed: what comes next could have had the same.

Both times are the file system's own, so that one which counts in seconds rounds them
alike; this is five ticks of the slowest kernel clock.
"""

LARGEST_INDEX = 300_000_000
"""Bytes; a million runs. A larger one is none of ours."""

_LARGEST_NUMBER = 10**18

_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND_FILE = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Place = tuple[str, str]
"""Run id and key."""

NOTHING_SEEN = Seen(0, 0, (0, 0, 0), {})


def listed(root: Path, limit: int | None, now_ns: int) -> list[Entry]:
    """The newest `limit` runs below `root` (None: all), newest first; the index is mended where it is not right.

    `now_ns`: ns since 1970. StorageError if the store cannot be read.
    """
    quick = index.newest(str(root), limit, now_ns)
    if quick is None:
        return entries(root)[:limit]
    return quick if all(entry.state for entry in quick) else _with_states(root, quick)


def entries(root: Path) -> list[Entry]:
    """All runs below `root`, newest first, after a look at the store. StorageError."""
    with store_at(root) as store:
        found = [] if store is None else _look(root, store)
    return sorted(found, key=lambda entry: entry.place, reverse=True)


def forget(root: Path) -> None:
    """Drop the index; for whoever changes sealed bundles in their place, as a repair may."""
    for name in (index.SEEN, index.SEALED, index.RUNS):
        with contextlib.suppress(OSError):
            os.unlink(root / index.STORE / index.FOLDER / name)  # noqa: PTH108


def _with_states(root: Path, quick: list[Entry]) -> list[Entry]:
    with store_at(root) as store:
        if store is None:
            return []
        read = [entry if entry.state else _read(store, entry.place) for entry in quick]
    return [entry for entry in read if entry is not None]


@contextlib.contextmanager
def store_at(root: Path) -> Iterator[int | None]:
    """The store's folder, None where there is none; StorageError for what goes wrong inside."""
    descriptor = None
    try:
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(_path(root), _READ_DIRECTORY)
        yield descriptor
    except OSError as error:
        raise StorageError(f"{index.STORE} cannot be read or written: {error.strerror}.") from error
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _path(root: Path) -> str:
    path = os.fspath(root / index.STORE)
    if "\0" in path:
        raise StorageError(f"{paths.quote(os.fspath(root))} is no folder: its name has a NUL.")
    return path


def _look(root: Path, store: int) -> list[Entry]:
    with contextlib.ExitStack() as stack:
        folder = None if may_be_tracked(os.fspath(root)) else _index_folder(store)
        if folder is None:  # without an index, or with one that came with the repository and is not ours to change
            return _found(store, {}, NOTHING_SEEN)[0]
        stack.callback(os.close, folder)
        began = _file_system_time(folder)
        if began is None:
            return _found(store, {}, NOTHING_SEEN)[0]
        changed = os.fstat(store).st_ctime_ns
        data, stamp = _content(folder, index.RUNS, LARGEST_INDEX)
        known, whole = index.entries_of(data)
        _note_seals(folder, known, stamp)
        seen = _seen(folder)
        if seen is None or not whole or seen.index != stamp:
            seen = NOTHING_SEEN
        found, ctimes = _found(store, {entry.place: entry for entry in known}, seen)
        _keep(folder, found, data, stamp, Seen(changed, began, stamp, ctimes))
        return found


def _note_seals(folder: int, known: list[Entry], stamp: Stamp) -> None:
    """Give the entries the ctimes of their summaries; where they are not known, all are read again."""
    with contextlib.suppress(OSError, ValueError):
        seals = [int(word) for word in index.seals_of(folder, stamp[2], len(known))]
        for entry, seal in zip(known, seals, strict=True):
            entry.seal = seal


def _seen(folder: int) -> Seen | None:
    try:
        return Seen.decode(_content(folder, index.SEEN, index.LARGEST_SEEN)[0])
    except ValueError:
        return None


def _found(store: int, known: dict[Place, Entry], seen: Seen) -> tuple[list[Entry], dict[str, int]]:
    """Every run that is there, and the ctimes of the keys as they were before they were looked into."""
    runs: dict[str, list[str]] = {}
    for run, key in [*known, *seen.unsealed] if seen.keys else []:
        runs.setdefault(key, []).append(run)
    found: list[Entry] = []
    ctimes: dict[str, int] = {}
    for key in os.listdir(store):
        if key not in seen.keys and (not index.is_key(key) or key in index.OWN_FOLDERS):
            continue
        try:
            about = os.stat(key, dir_fd=store, follow_symlinks=False)
            if not stat.S_ISDIR(about.st_mode):
                continue
            unchanged = seen.keys.get(key) == about.st_ctime_ns
            names = runs.get(key, []) if unchanged else index.names_in(store, key)
        except (FileNotFoundError, NotADirectoryError):
            continue  # cleaned away meanwhile
        ctimes[key] = about.st_ctime_ns
        for name in names:
            entry = known.get((name, key))
            if entry is None or not _has_seal(store, entry):
                entry = _read(store, (name, key)) if index.is_run_id(name) else None
            if entry is not None:
                found.append(entry)
    return found, ctimes


def _has_seal(store: int, entry: Entry) -> bool:
    """Whether what the index says of a run still holds: nobody took its summary away, or the run, or replaced it."""
    try:
        return index.seal_of(store, entry.run_id, entry.key) == entry.seal
    except OSError:
        return False


def _keep(folder: int, found: list[Entry], data: bytes, stamp: Stamp, seen: Seen) -> None:
    """Bring the index up to date, if nobody else has and the disk lets us; it is a cache."""
    sealed = sorted((entry for entry in found if entry.state == "sealed"), key=lambda entry: entry.place)
    wanted = index.HEADER + b"".join(entry.line() for entry in sealed)
    with contextlib.suppress(OSError):
        if data != wanted:
            appending = data != b"" and wanted.startswith(data)
            written = _append(folder, wanted, stamp) if appending else _place(folder, index.RUNS, wanted)
            if written is None:
                return
            seen.index = written
        believed = seen.began - RACY_NS
        seals = (entry.seal if entry.seal < believed else 0 for entry in sealed)
        _place(folder, index.SEALED, b"%08x\n%s" % (seen.index[2], b"".join(b"%d\n" % seal for seal in seals)))
        seen.store = seen.store if seen.store < believed else 0
        seen.keys = {key: ctime if ctime < believed else 0 for key, ctime in seen.keys.items()}
        seen.unsealed = [entry.place for entry in found if entry.state != "sealed"]
        _place(folder, index.SEEN, seen.encode())


def _append(folder: int, wanted: bytes, read: Stamp) -> Stamp | None:
    """Append by one write what is missing, if the index is still as it was `read`; its new stamp, else None."""
    descriptor = os.open(index.RUNS, _APPEND_FILE, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        about = os.fstat(descriptor)
        if (about.st_size, about.st_mtime_ns) != read[:2]:
            return None
        more = memoryview(wanted)[about.st_size :]
        if os.write(descriptor, more) != len(more):  # a full disk: what is torn is found by the next look
            return None
        return _stamp(os.fstat(descriptor), wanted)
    finally:
        os.close(descriptor)


def _place(folder: int, name: str, data: bytes) -> Stamp:
    """The file `name` with these bytes, whole or not at all; its size and mtime. Not durable: it is a cache."""
    temporary = f".tmp-{secrets.token_hex(8)}"
    try:
        with open(os.open(temporary, _WRITE_FILE, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            stamp = _stamp(os.fstat(file.fileno()), data)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # interrupted, too
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    return stamp


def _stamp(about: os.stat_result, data: bytes) -> Stamp:
    return about.st_size, about.st_mtime_ns, zlib.crc32(data)


def _content(folder: int, name: str, limit: int) -> tuple[bytes, Stamp]:
    """A file of the index and its stamp; b"" where there is none, or something else."""
    try:
        data, about = _regular(folder, name, limit)
    except OSError:
        return b"", (0, 0, 0)
    return data, _stamp(about, data)


def _regular(folder: int, name: str, limit: int) -> tuple[bytes, os.stat_result]:
    """A regular file of at most `limit` bytes, and what it was like when it was opened. OSError."""
    descriptor = os.open(name, _READ_FILE, dir_fd=folder)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > limit:
            raise OSError(errno.EINVAL, "none of our files")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(), about
    finally:
        os.close(descriptor)


def _index_folder(store: int) -> int | None:
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            os.mkdir(index.FOLDER, 0o700, dir_fd=store)
        return os.open(index.FOLDER, _READ_DIRECTORY, dir_fd=store)
    return None  # read-only, full, or something else lies there: the look costs more, no less


def _file_system_time(folder: int) -> int | None:
    """Now, in ns by the clock that gives ctimes; None where nothing can be written."""
    name = f".tmp-{secrets.token_hex(8)}"
    try:
        descriptor = os.open(name, _WRITE_FILE, 0o600, dir_fd=folder)
    except OSError:
        return None
    try:
        return os.fstat(descriptor).st_ctime_ns
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)


def _read(store: int, place: Place) -> Entry | None:
    """The entry of one run, read from its bundle; None if there is no such run any more."""
    run, key = place
    try:
        bundle = _bundle(store, run, key)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return Entry.unsealed(run, key, "corrupt")
    try:
        data, seal = _summary(bundle)
        if data is None and _is_gone(store, place):
            return None  # a cleaner has it: what is missing is only the first that went
        if data is None:
            return Entry.unsealed(run, key, "running" if _is_running(bundle) else "incomplete")
        require_few(data)
        return Entry.sealed(_fields(json.loads(data), place), seal)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Entry.unsealed(run, key, "corrupt")
    finally:
        os.close(bundle)


def _is_gone(store: int, place: Place) -> bool:
    try:
        os.close(_bundle(store, *place))
    except OSError:
        return True
    return False


def _bundle(store: int, run: str, key: str) -> int:
    runs = os.open(key, _READ_DIRECTORY, dir_fd=store)
    try:
        return os.open(run, _READ_DIRECTORY, dir_fd=runs)
    finally:
        os.close(runs)


def _summary(bundle: int) -> tuple[bytes | None, int]:
    """summary.json and its ctime before it was read; None where the run is not sealed. OSError: none of our files."""
    try:
        data, about = _regular(bundle, "summary.json", MAX_DOCUMENT_BYTES)
    except FileNotFoundError:
        return None, 0
    return data, about.st_ctime_ns


def _is_running(bundle: int) -> bool:
    try:
        descriptor = os.open(".lock", _READ_FILE, dir_fd=bundle)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _fields(document: dict[str, Any], place: Place) -> list[str]:
    """What the index says of a sealed run. KeyError, TypeError, ValueError where that is no summary of this run."""
    change, cost = document["change"], document["cost"]
    if (document["run_id"], document["key"]) != place or document["schema"] != 1:
        raise ValueError("the summary of another run")
    if document["outcome"] not in index.OUTCOMES:
        raise ValueError("no outcome")
    paths = dict.fromkeys(path for file in change["files"] for path in (file["path"], file["old_path"]) if path)
    rubrics = encoded("\0".join(f"{rubric['id']}={rubric['outcome']}" for rubric in document["rubrics"]))
    return [
        *place,
        _text(document["outcome"]),
        _number(document["exit_code"]),
        "agent" if document["agent_authored"]["decision"] is True else "human",
        *(_text(text) for text in (document["workflow"], change["before"], change["after"])),
        *(_text(change[name]) for name in ("base_commit", "head_commit", "patch_id", "range_patch_id")),
        _number(len(change["files"])),
        *(_number(sum(file[name] for file in change["files"])) for name in ("added", "deleted")),
        _number(len(document["findings"])),
        _dollars(cost["usd"]),
        _text(cost["basis"]),
        _number(document["duration_ms"]),
        rubrics,
        *(_text(path) for path in paths),
    ]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return encoded(value)


def _number(value: object) -> str:
    if not isinstance(value, int) or not 0 <= value < _LARGEST_NUMBER:
        raise ValueError("no number")
    return str(int(value))


def _dollars(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError("no sum")
    return repr(float(value))
