"""ObjectStorage of a bucket or a folder, by their names. The only importer of obstore.

No call takes longer than it is given, and what it raises never quotes an address, which may hold a
signature. A symbolic link in a folder is not followed: its writer would choose which other files
are listed, read and deleted.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from msgspec import Struct
from obstore import exceptions
from obstore.store import from_url

from vibe_gate.domain import paths
from vibe_gate.domain.store_access import StoreAccess
from vibe_gate.errors import StorageError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")

CONNECT_S = 3
AT_ONCE = 16
"""Requests side by side; a bucket answers one in some 30 ms."""

FILE = "file://"
TOO_LATE = "it does not answer in time"
_STATUS = re.compile(r"status code: (\d{3}[ A-Za-z]*)")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_ERRNO = re.compile(r"\(os error (\d+)\)")
_OBJECT = re.compile(r'Path "([^"]{1,200})')
_BEING_WRITTEN = re.compile(r".*#[0-9]+")
"""What obstore appends to the name of a file until it is whole."""


class StoreUnavailable(StorageError):
    """A store that cannot be used, and why, as a clause."""

    def __init__(self, reason: str, *, denied: bool = False) -> None:
        super().__init__(reason)
        self.denied = denied
        """Whether it is there, but does not allow this."""


class StoredObject(Struct, frozen=True):
    """An object as a list of its store shows it."""

    name: str
    size: int
    """Bytes."""
    modified: datetime
    """By the store's clock."""


class ObjectStorage:
    """The objects below one address. Every method raises StoreUnavailable."""

    def __init__(self, url: str, access: StoreAccess, seconds: float) -> None:
        """`seconds`: of one call. obstore itself reads credentials and endpoints in the process's
        environment.
        """
        self._seconds = seconds
        self._root = Path(url.removeprefix(FILE)) if url.startswith(FILE) else None
        self._store = _wait_for(lambda: _open(url, access, seconds), seconds)

    def get(self, name: str, most: int) -> bytes | None:
        """The object's bytes; None if there is none, b"" if it has more than `most` bytes."""
        return self._call(name, lambda: _get(self._store, name, most))

    def get_all(self, names: Iterable[str], most: int) -> dict[str, bytes]:
        """Those of these objects that there are, by name, AT_ONCE side by side."""
        name_list = list(names)
        data_by_name = dict[str, bytes]()

        def get_every_nth(first: int) -> None:
            for name in name_list[first::AT_ONCE]:
                self._refuse_link(name)
                data = _get(self._store, name, most)
                if data is not None:
                    data_by_name[name] = data

        request_count = min(AT_ONCE, len(name_list))
        self._side_by_side([partial(get_every_nth, first) for first in range(request_count)])
        return data_by_name

    def create(self, name: str, data: bytes | Path) -> bool:
        """Write a new object; False if there is one of this name, which stays as it is."""
        try:
            self._call(
                name,
                lambda: obstore.put(self._store, name, data, mode="create", use_multipart=False),
            )
        except exceptions.AlreadyExistsError:
            return False
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write an object, in place of one that has the name."""
        self._call(name, lambda: obstore.put(self._store, name, data, use_multipart=False))

    def delete(self, name: str) -> None:
        """Delete an object, if there is one."""

        def delete() -> None:
            with suppress(FileNotFoundError):
                obstore.delete(self._store, name)

        self._call(name, delete)

    def list_objects(self, folder: str, after: str = "") -> list[StoredObject]:
        """Every object below a folder, by name; `after`: only those whose names are greater. Opens
        none.
        """

        def list_by_name() -> list[StoredObject]:
            if self._root is None:
                objects = _list_bucket(self._store, folder, after)
            else:
                objects = _list_files(self._root, folder)
            later_objects = [stored for stored in objects if stored.name > after]
            return sorted(later_objects, key=lambda stored: stored.name)

        return self._call(folder, list_by_name)

    def _call(self, name: str, action: Callable[[], T]) -> T:
        def act_unless_link() -> T:
            self._refuse_link(name)
            return action()

        return _wait_for(act_unless_link, self._seconds)

    def _refuse_link(self, name: str) -> None:
        """StoreUnavailable: on the way to this name a symbolic link leaves the folder."""
        if self._root is None:
            return
        for path in (Path(name), *Path(name).parents[:-1]):
            if (self._root / path).is_symlink():
                raise StoreUnavailable(f"{path} in it is a symbolic link")

    def _side_by_side(self, actions: Iterable[Callable[[], None]]) -> None:
        """Carry all of them out in one call's time."""
        end = monotonic() + self._seconds
        requests = [_Request(action) for action in actions]
        for request in requests:
            request.result(end - monotonic())


class _Request:
    """What a thread does that nobody has to wait for: a program may end while it waits for an
    answer.
    """

    def __init__(self, action: Callable[[], Any]) -> None:
        self._action = action
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._action()
        except BaseException as error:  # noqa: BLE001 - raised where the result is waited for
            self._error = error

    def result(self, seconds: float) -> Any:  # noqa: ANN401 - of any type
        """What came of it. StoreUnavailable, FileNotFoundError, AlreadyExistsError."""
        self._thread.join(max(seconds, 0.001))
        if self._thread.is_alive():
            raise StoreUnavailable(TOO_LATE)
        if self._error is not None:
            raise _translate_error(self._error) from self._error
        return self._value


def _wait_for(action: Callable[[], T], seconds: float) -> T:
    """What `action` gives within so many seconds. Errors as of `_Request.result`."""
    value: T = _Request(action).result(seconds)
    return value


def _translate_error(error: BaseException) -> BaseException:
    """An error of obstore in our words, but for those that are answers."""
    if isinstance(error, exceptions.AlreadyExistsError | StoreUnavailable):
        return error
    if isinstance(error, FileNotFoundError):
        return StoreUnavailable("there is no such bucket, container or folder", denied=True)
    text = str(error)
    status = f"{_first_match(_STATUS, text)} {_first_match(_CODE, text)}".strip()
    if isinstance(error, exceptions.InvalidPathError):  # of one such name no list comes
        name = paths.quote(_first_match(_OBJECT, text))
        return StoreUnavailable(
            f"an object there has a name that cannot be read, delete it: {name}"
        )
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        reason = f"access is denied: {status}" if status else "access is denied"
        return StoreUnavailable(reason, denied=True)
    number = getattr(error, "errno", None) or _first_match(_ERRNO, text)
    if number:
        denied = int(number) in (errno.EACCES, errno.EPERM, errno.EROFS)
        return StoreUnavailable(os.strerror(int(number)), denied=denied)
    if isinstance(error, exceptions.BaseError | OSError | ValueError):
        return StoreUnavailable(status or _reason_of(error))
    return error


def _first_match(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1].strip() if match else ""


def _reason_of(error: BaseException) -> str:
    text = str(error)
    if "timed out" in text or "Timeout" in text:
        return TOO_LATE
    if "error sending request" in text or "HTTP error" in text:
        return "no connection"
    if "169.254.169.254" in text or "metadata" in text:
        return "no credentials in the environment"
    if isinstance(error, ValueError):
        return "obstore cannot open it; see its address and the environment"
    return "no answer"


def _get(store: ObjectStore, name: str, most: int) -> bytes | None:
    try:
        response = obstore.get(store, name)
    except FileNotFoundError:
        return None
    if response.meta["size"] > most:
        return b""
    return bytes(response.bytes())


def _list_bucket(store: ObjectStore, folder: str, after: str) -> Iterator[StoredObject]:
    for page in obstore.list(store, folder, offset=after or None, chunk_size=1000):
        for meta in page:
            yield StoredObject(meta["path"], meta["size"], meta["last_modified"])


def _list_files(root: Path, folder: str) -> Iterator[StoredObject]:
    """The files below a folder, but for names that obstore would not open, and so never gave."""

    def fail(error: OSError) -> None:
        # A folder may be just deleted, or nothing was written there yet.
        if not isinstance(error, FileNotFoundError):
            raise error

    for path, _, files in os.walk(root / folder, onerror=fail):
        place = path[len(f"{root}/") :]
        for file in files:
            name = f"{place}/{file}"
            if _BEING_WRITTEN.fullmatch(file) or not name.isprintable():
                continue
            with suppress(FileNotFoundError):
                status = os.lstat(f"{root}/{name}")
                if stat.S_ISREG(status.st_mode):
                    modified = datetime.fromtimestamp(status.st_mtime, UTC)
                    yield StoredObject(name, status.st_size, modified)


def _open(url: str, access: StoreAccess, seconds: float) -> ObjectStore:
    if url.startswith(FILE):
        # A share may not be mounted: none is made in its place.
        if not Path(url.removeprefix(FILE)).is_dir():
            raise StoreUnavailable("there is no such folder")
        return from_url(url)
    return from_url(
        url,
        client_options={
            "timeout": f"{seconds + 1:g}s",
            "connect_timeout": f"{CONNECT_S}s",
            "allow_http": access.allows_http,
        },
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=seconds)},
    )
