"""The index: one line a sealed run, so that a list of ten thousand runs opens no bundle.

    .vibe-artifacts/index/runs.tsv    a line for each sealed run, in the order of their ids
    .vibe-artifacts/index/sealed      when each of these runs' summary.json had last changed
    .vibe-artifacts/index/seen        which folders were looked into, and when they had last changed

All are caches: deleted, they come back, `runs.tsv` with the same bytes. This module
holds the format and the quick answer; `indexing` looks at the store and mends the
cache. Only `io`, `os`, `stat` and `zlib` are imported: `vibe-gate bundles list` is answered
in little more than the time of a bare interpreter.

Whether a folder or a summary changed is told by its ctime, which no program can set. A ctime
that was recent when it was seen is not believed later: a second change could have
had the same one.
"""

from __future__ import annotations

import io
import os
import stat
import zlib

STORE = ".vibe-artifacts"
FOLDER = "index"
RUNS = "runs.tsv"
SEALED = "sealed"
SEEN = "seen"

HEADER = b"vibe-gate runs\t1\n"
SEEN_HEADER = "vibe-gate seen\t1"

OWN_FOLDERS = frozenset({"objects", "quarantine", "sessions", FOLDER, "trash"})
"""Names under the store that are no key of a change."""

OUTCOMES = ("pass", "fail", "inconclusive", "error")

CHECKED_KEYS = 1000
"""In a store of so few keys every key's ctime is looked at, also for the newest runs only (2 ms)."""

TRUST_NS = 3_600_000_000_000
"""How long the newest runs of a larger store are told without a look at every key: an hour."""

OPEN_AT_MOST = 100
"""Unsealed runs that the quick answer looks at; where there are more, the store is looked at anyway."""

LARGEST_SEEN = 64_000_000
"""Bytes; of a million keys. A larger one is none of ours."""

_MOST_WRONG = 1000
"""Lines of an index that are none: after so many the rest is not looked at, for it is made anew anyway."""

_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TAIL = 1 << 14  # bytes read from the end of the index at first; doubled until enough lines are in them

_NUMBERS = (3, 12, 13, 14, 15, 18)  # fields by their place
_COST = 16
_RUBRICS = 19
_FIELDS = 20  # then, as one text, the paths and the line's checksum

_LONGEST_NUMBER = 18
_LONGEST_KEY = 128


class Entry:
    """One run as a list shows it.

    `state` is "sealed", "running", "incomplete" or "corrupt"; only a sealed run has an
    outcome. Of the others nothing but `run_id` and `key` is known. `seal` is the ctime in ns
    that its summary.json had when it was read, 0 where that is not known.
    """

    __slots__ = ("_line", "_split", "seal", "state")

    def __init__(self, line: str, state: str = "sealed", seal: int = 0) -> None:
        """`line` is one of the index without its line end."""
        self._line = line
        self._split: list[str] | None = None  # only when asked for: to split ten thousand lines takes 15 ms
        self.state = state
        self.seal = seal

    @classmethod
    def sealed(cls, fields: list[str], seal: int = 0) -> Entry:
        """A run with a verdict: the fields in the order of the index, encoded; the paths follow."""
        text = "\t".join(fields)
        return cls(f"{text}\t{zlib.crc32(text.encode()):08x}", seal=seal)

    @classmethod
    def unsealed(cls, run_id: str, key: str, state: str) -> Entry:
        """A run without a verdict."""
        return cls("\t".join([run_id, key, *[""] * (_FIELDS - 1)]), state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and (self._line, self.state) == (other._line, other.state)

    def __hash__(self) -> int:
        return hash(self.place)

    def __repr__(self) -> str:
        return f"<Entry {self.run_id} {self.outcome or self.state}>"

    @property
    def _fields(self) -> list[str]:
        if self._split is None:
            self._split = self._line.split("\t", _FIELDS)
        return self._split

    @property
    def place(self) -> tuple[str, str]:
        """Run id and key: what entries are ordered by."""
        return self._fields[0], self._fields[1]

    @property
    def run_id(self) -> str:
        """The run's id, which begins with the time at which it began."""
        return self._fields[0]

    @property
    def key(self) -> str:
        """The change's key."""
        return self._fields[1]

    @property
    def bundle(self) -> str:
        """The bundle relative to the repository's root."""
        return f"{STORE}/{self._fields[1]}/{self._fields[0]}"

    @property
    def created_at(self) -> str:
        """ISO 8601 in UTC with milliseconds, as the run id says it."""
        i = self._fields[0]
        return f"{i[:4]}-{i[4:6]}-{i[6:8]}T{i[9:11]}:{i[11:13]}:{i[13:15]}.{i[15:18]}Z"

    @property
    def outcome(self) -> str:
        """pass, fail, inconclusive or error; "" where the run is not sealed."""
        return self._fields[2]

    @property
    def exit_code(self) -> int:
        """The exit code of the review."""
        return int(self._fields[3] or 3)

    @property
    def author(self) -> str:
        """`agent` or `human`; "" where the run is not sealed."""
        return self._fields[4]

    @property
    def workflow(self) -> str:
        """The workflow's id."""
        return decoded(self._fields[5])

    @property
    def before(self) -> str:
        """Tree id."""
        return decoded(self._fields[6])

    @property
    def after(self) -> str:
        """Tree id."""
        return decoded(self._fields[7])

    @property
    def base_commit(self) -> str:
        """Commit id, or ""."""
        return decoded(self._fields[8])

    @property
    def head_commit(self) -> str:
        """Commit id, or "" while uncommitted."""
        return decoded(self._fields[9])

    @property
    def patch_id(self) -> str:
        """Stable patch-id of the commit's change, or ""."""
        return decoded(self._fields[10])

    @property
    def range_patch_id(self) -> str:
        """Stable patch-id of the whole change, or ""."""
        return decoded(self._fields[11])

    @property
    def files(self) -> int:
        """Changed files."""
        return int(self._fields[12] or 0)

    @property
    def added(self) -> int:
        """Added lines."""
        return int(self._fields[13] or 0)

    @property
    def deleted(self) -> int:
        """Deleted lines."""
        return int(self._fields[14] or 0)

    @property
    def findings(self) -> int:
        """Findings of any level."""
        return int(self._fields[15] or 0)

    @property
    def cost_usd(self) -> float:
        """US dollars."""
        return float(self._fields[16] or 0)

    @property
    def cost_basis(self) -> str:
        """known, unknown or none."""
        return self._fields[17] or "none"

    @property
    def duration_ms(self) -> int:
        """Milliseconds."""
        return int(self._fields[18] or 0)

    @property
    def rubrics(self) -> tuple[tuple[str, str], ...]:
        """Id and outcome of every rubric."""
        pairs = decoded(self._fields[_RUBRICS]).split("\0") if self._fields[_RUBRICS] else []
        return tuple((pair.rpartition("=")[0], pair.rpartition("=")[2]) for pair in pairs)

    @property
    def paths(self) -> tuple[str, ...]:
        """Changed paths and old paths of renames, as shown (`paths.quote`)."""
        return tuple(decoded(path) for path in self._fields[_FIELDS].split("\t")[:-1])

    def shown(self) -> list[str]:
        """As texts: run id, key, outcome, exit code, author, files, added, deleted, findings, cost, rubrics."""
        fields = self._line.split("\t", _FIELDS)  # not kept: a list shows each entry once
        text = fields[_RUBRICS]
        names = ",".join(name for name, _ in self.rubrics) if "\\" in text else text.rpartition("=")[0]
        return [*fields[:5], *fields[12:17], names]

    def line(self) -> bytes:
        """The line of the index."""
        return f"{self._line}\n".encode()


def encoded(text: str) -> str:
    """Text as a field: ASCII without tab, line end or anything that acts on a terminal."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return text.encode("unicode_escape").decode()


def decoded(field: str) -> str:
    """The text of a field."""
    return field.encode().decode("unicode_escape") if "\\" in field else field


def entry_of(line: bytes) -> Entry | None:
    """The entry of one line without its line end; None for a line that is torn, altered or not ours."""
    if line[-9:] != b"\t%08x" % zlib.crc32(line[:-9]) or not line.isascii():
        return None
    entry = Entry(line.decode())
    return entry if _is_right(entry._fields) else None


def _is_right(fields: list[str]) -> bool:
    """Whether these are an entry's fields: a checksum proves no honest writer."""
    if len(fields) <= _FIELDS or not is_run_id(fields[0]) or fields[2] not in OUTCOMES or "/" in fields[1]:
        return False
    numbers = [fields[number] for number in _NUMBERS]
    if not "".join(numbers).isdigit() or max(map(len, numbers)) > _LONGEST_NUMBER:
        return False
    try:
        float(fields[_COST])
        for field in (*fields[:_FIELDS], *fields[_FIELDS].split("\t")):
            decoded(field)
    except ValueError:
        return False
    return True


def entries_of(data: bytes) -> tuple[list[Entry], bool]:
    """The entries that `data` holds in order, and whether all of it is right."""
    if not data.startswith(HEADER):
        return [], False
    found: list[Entry] = []
    wrong = 0
    lines = io.BytesIO(data)
    lines.seek(len(HEADER))
    for line in lines:
        entry = entry_of(line[:-1]) if line.endswith(b"\n") else None
        if entry is not None:
            found.append(entry)
        elif (wrong := wrong + 1) > _MOST_WRONG:
            break
    whole = wrong == 0
    places = [entry.place for entry in found]
    if whole and all(one < two for one, two in zip(places, places[1:], strict=False)):  # noqa: RUF007  itertools
        return found, True
    by_place = {entry.place: entry for entry in found}
    return [by_place[place] for place in sorted(by_place)], False


def is_run_id(name: str) -> bool:
    """Whether a name is a run's; the same as `names.is_run_id`, without `re`."""
    return (
        len(name) == 28
        and name[8] == "T"
        and name[18:20] == "Z-"
        and name.isascii()
        and (name[:8] + name[9:18]).isdigit()
        and not name[20:].strip("0123456789abcdef")
    )


def is_key(name: str) -> bool:
    """Whether a name can be the key of a change."""
    letters = name.replace("-", "").replace(".", "").replace("_", "")
    return name[:1].isalnum() and letters.isalnum() and name.isascii() and len(name) <= _LONGEST_KEY


Stamp = tuple[int, int, int]
"""Size, mtime in ns and CRC-32 of runs.tsv."""

_CHECKSUM = 9  # bytes of one, line end included


class Seen:
    """What was seen of the store when the index was last right.

    `store` and `keys` are ctimes in ns, 0 for one not to be believed; `began` is the
    time of the look by the file system's clock; `index` size, mtime and checksum of
    runs.tsv then; `unsealed` run id and key of what has no line in it.
    """

    __slots__ = ("began", "index", "keys", "number", "store", "unsealed")

    def __init__(self, store: int, began: int, index: Stamp, keys: dict[str, int]) -> None:
        self.store = store
        self.began = began
        self.index = index
        self.keys = keys
        self.number = len(keys)
        self.unsealed: list[tuple[str, str]] = []

    def encode(self) -> bytes:
        """The file: its head with a checksum of its own, so that the head can be read alone."""
        numbers = (self.store, self.began, *self.index, len(self.keys))
        head = [SEEN_HEADER, "\t".join(map(str, numbers)), *(f"{run}\t{key}" for run, key in self.unsealed)]
        text = "".join(f"{line}\n" for line in [*head, ""]).encode()
        keys = "".join(f"{ctime}\t{key}\n" for key, ctime in self.keys.items()).encode()
        return b"%s%08x\n%s%08x\n" % (text, zlib.crc32(text), keys, zlib.crc32(keys))

    @classmethod
    def decode(cls, data: bytes, with_keys: bool = True) -> Seen | None:
        """What `encode` wrote; None if it is anything else. `with_keys` False: `keys` stays empty. ValueError."""
        end = data.find(b"\n\n") + 2
        text, keys = data[:end], data[end + _CHECKSUM : -_CHECKSUM]
        if data[end : end + _CHECKSUM] != b"%08x\n" % zlib.crc32(text) or not text.startswith(SEEN_HEADER.encode()):
            return None
        lines = text.decode().split("\n")[1:-2]
        store, began, size, mtime, checksum, number = map(int, lines[0].split("\t"))
        seen = cls(store, began, (size, mtime, checksum), {})
        seen.number = number
        seen.unsealed = [(run, key) for run, _, key in (line.partition("\t") for line in lines[1:])]
        if not all(is_run_id(run) and is_key(key) for run, key in seen.unsealed):
            return None
        if with_keys:
            if data[-_CHECKSUM:] != b"%08x\n" % zlib.crc32(keys):
                return None
            words = keys.decode().split()
            seen.keys = dict(zip(words[1::2], map(int, words[::2]), strict=True))
        return seen


def newest(root: str, limit: int | None, now_ns: int) -> list[Entry] | None:
    """The newest `limit` runs (None: all), newest first, if the index is known to be right; else None.

    `now_ns` is the time in ns since 1970. Nothing is written, and no sealed bundle is opened.
    """
    try:
        store = os.open(os.path.join(root, STORE), _READ_DIRECTORY)  # noqa: PTH118  pathlib would cost its import
    except FileNotFoundError:
        return []
    except OSError:
        return None
    try:
        folder = os.open(FOLDER, _READ_DIRECTORY, dir_fd=store)
        try:
            return _newest(store, folder, limit, now_ns)
        finally:
            os.close(folder)
    except (OSError, ValueError):  # no index yet, or none of ours
        return None
    finally:
        os.close(store)


def _newest(store: int, folder: int, limit: int | None, now_ns: int) -> list[Entry] | None:
    with open(os.open(SEEN, _READ_FILE, dir_fd=folder), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_SEEN:
            return None
        data = file.read(1 << 16) if limit is not None else file.read()
        seen = Seen.decode(data, with_keys=limit is None)
        if seen is None or seen.store == 0 or os.fstat(store).st_ctime_ns != seen.store:
            return None
        every_key = limit is None or seen.number <= CHECKED_KEYS
        if every_key:
            seen = seen if limit is None else Seen.decode(data + file.read())
            if seen is None or not _keys_are(store, seen.keys):
                return None
        elif not 0 <= now_ns - seen.began < TRUST_NS:
            return None
    if len(seen.unsealed) > OPEN_AT_MOST or any(is_sealed(store, run, key) for run, key in seen.unsealed):
        return None
    sealed = _last_lines(folder, limit, seen.index)
    if sealed is None or not _seals_are(store, sealed, seals_of(folder, seen.index[2], len(sealed))):
        return None
    if not (every_key or _are_there(store, sealed)):
        return None
    found = sealed + [Entry.unsealed(run, key, "") for run, key in seen.unsealed]
    found.sort(key=lambda entry: entry._line, reverse=True)  # the order of the places, which the lines begin with
    return found if limit is None else found[:limit]


def _keys_are(store: int, keys: dict[str, int]) -> bool:
    """Whether no key's folder changed. The store itself has not, so that no key came or went."""
    return all(os.stat(key, dir_fd=store, follow_symlinks=False).st_ctime_ns == ctime for key, ctime in keys.items())


def seals_of(folder: int, checksum: int, number: int) -> list[bytes]:
    """The ctimes of the summaries of the last `number` runs of the index, as numbers in ns, in its order.

    None of them where they are those of an index with another checksum. OSError.
    """
    with open(os.open(SEALED, _READ_FILE, dir_fd=folder), "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return []
        data = file.read(LARGEST_SEEN)
    return data.rsplit(maxsplit=number)[1:] if data.startswith(b"%08x\n" % checksum) else []


def _seals_are(store: int, sealed: list[Entry], seals: list[bytes]) -> bool:
    """Whether the summaries of these runs, the last of the index, are there and as they were when they were read."""
    places = (entry._line.split("\t", 2)[:2] for entry in sealed)
    return all(seal_of(store, *place) == int(seal) for place, seal in zip(places, seals, strict=True))


def is_sealed(store: int, run: str, key: str) -> bool:
    """Whether the run has a summary: whoever takes it away changes no key's ctime. OSError: there is no such run."""
    try:
        seal_of(store, run, key)
    except FileNotFoundError:
        os.stat(f"{key}/{run}", dir_fd=store, follow_symlinks=False)  # gone altogether: OSError, a full look
        return False
    return True


def seal_of(store: int, run: str, key: str) -> int:
    """The ctime of the run's summary.json, in ns: whoever replaces it in its place changes nothing else. OSError."""
    return os.stat(f"{key}/{run}/summary.json", dir_fd=store, follow_symlinks=False).st_ctime_ns


def _are_there(store: int, sealed: list[Entry]) -> bool:
    """Whether the entries' runs are there, and no newer one beside them."""
    known = {entry.place for entry in sealed}
    oldest = min(known, default=("", ""))
    for key in {entry.key for entry in sealed}:
        there = {(name, key) for name in names_in(store, key) if is_run_id(name)}
        if any(place not in known and place > oldest for place in there):
            return False
        known -= there
    return not known


def names_in(parent: int, name: str) -> list[str]:
    """The names in a folder of an open folder, links not followed. OSError."""
    folder = os.open(name, _READ_DIRECTORY, dir_fd=parent)
    try:
        return os.listdir(folder)  # noqa: PTH208  an open folder has no path
    finally:
        os.close(folder)


def _last_lines(folder: int, limit: int | None, expected: Stamp) -> list[Entry] | None:
    with open(os.open(RUNS, _READ_FILE, dir_fd=folder), "rb", buffering=0) as file:
        now = os.fstat(file.fileno())
        if (now.st_size, now.st_mtime_ns) != expected[:2] or not stat.S_ISREG(now.st_mode):
            return None
        if limit is None:
            data = file.read()
            right = zlib.crc32(data) == expected[2]  # every line was looked at before this checksum was taken
            return [Entry(line) for line in data.decode().split("\n")[1:-1]] if right else None
        window = _TAIL
        while True:
            start = max(0, now.st_size - window)
            lines = os.pread(file.fileno(), now.st_size - start, start).split(b"\n")[1:-1]
            if start == 0 or len(lines) >= limit:
                break
            window *= 2
    entries = [entry_of(line) for line in lines[-limit:]] if limit else []
    return None if None in entries else [entry for entry in entries if entry is not None]
