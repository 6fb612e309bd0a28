"""The compiled part of pygit2 by itself: to read objects and to compare lines, no more of it is needed.

The package around it sets TLS up, loads the whole of its interface in Python, and takes five times as long as this;
a commit by a person would wait for that. What needs repositories imports pygit2 as usual, before or after.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any, Protocol

from vibe_gate.errors import IntegrityError

_NAME = "pygit2._pygit2"
_CERTIFICATES = "SSL_CERT_FILE"
_NEEDED = (
    "GIT_DIFF_FORCE_TEXT", "GIT_DIFF_INDENT_HEURISTIC", "GIT_OBJECT_BLOB", "GIT_OBJECT_COMMIT", "GIT_OBJECT_TAG",
    "GIT_OBJECT_TREE", "GitError", "Odb", "Patch",
)  # fmt: skip


def _load() -> ModuleType:
    """The extension module, without the package that it lies in; the package where a release has it otherwise."""
    if "pygit2" not in sys.modules:
        made = _alone()
        if made is not None and all(hasattr(made, name) for name in _NEEDED):
            return made
    return importlib.import_module("pygit2")


def _alone() -> ModuleType | None:
    package = importlib.util.find_spec("pygit2")
    folders = package.submodule_search_locations if package else None
    found = PathFinder.find_spec(_NAME, folders) if folders else None
    if found is None or found.loader is None:
        return None
    with _without_certificates():
        made = importlib.util.module_from_spec(found)
        found.loader.exec_module(made)
    sys.modules.pop(_NAME, None)  # whoever imports pygit2 later finds the package as it is always
    return made


@contextmanager
def _without_certificates() -> Iterator[None]:
    """libgit2 parses a file of certificates that the environment names, hundreds of them, when it is loaded.

    Nothing here speaks TLS; the package reads the variable again when it is imported.
    """
    named = os.environ.get(_CERTIFICATES)
    if named is None:
        yield
        return
    os.environ[_CERTIFICATES] = os.devnull
    try:
        yield
    finally:
        os.environ[_CERTIFICATES] = named


_library = _load()

BLOB: int = _library.GIT_OBJECT_BLOB
TREE: int = _library.GIT_OBJECT_TREE
_KINDS = {_library.GIT_OBJECT_COMMIT: b"commit", TREE: b"tree", BLOB: b"blob", _library.GIT_OBJECT_TAG: b"tag"}
_TEXT: int = _library.GIT_DIFF_FORCE_TEXT | _library.GIT_DIFF_INDENT_HEURISTIC

BINARY_PROBE_BYTES = 8_000  # git looks this far for a NUL
BIG_FILE_BYTES = 512 * 1024 * 1024  # git's core.bigFileThreshold; libgit2 compares no lines above it either


class Objects(Protocol):
    """What objects are read from; a `pygit2.Repository` is one, too."""

    def read(self, identity: str, /) -> tuple[int, bytes]:
        """Kind (`BLOB`, `TREE`, ...) and content of an object; KeyError where it is missing."""
        ...


class Database:
    """The objects of some folders, and of the alternates that these name; no configuration has a say."""

    def __init__(self, folder: str, alternates: Sequence[str]) -> None:
        self._all = _library.Odb(folder)
        for path in alternates:
            self._all.add_disk_alternate(path)
        self._backends = list(self._all.backends)

    def read(self, identity: str, /) -> tuple[int, bytes]:
        """Kind and content of an object; KeyError where it is missing, IntegrityError where it is another's."""
        try:
            kind, content = self._find(identity)
        except KeyError:
            for backend in self._backends:  # git may have packed meanwhile
                backend.refresh()
            kind, content = self._find(identity)
        digest = hashlib.sha1(b"%s %d\0" % (_KINDS.get(kind, b""), len(content)), usedforsecurity=False)
        digest.update(content)
        if digest.hexdigest() != identity:
            raise _damaged(identity)
        return kind, content

    def _find(self, identity: str) -> tuple[int, bytes]:
        for backend in self._backends:
            try:
                kind, content = backend.read(identity)
            except KeyError:
                continue
            except _library.GitError as error:
                raise _damaged(identity) from error
            return kind, bytes(content)
        raise KeyError(identity)


def _damaged(identity: str) -> IntegrityError:
    return IntegrityError(f"The object {identity} is damaged; run `git fsck`.")


def is_binary(content: bytes) -> bool:
    """Whether git calls this content binary: a NUL byte near its start, or more than half a gigabyte."""
    return b"\0" in content[:BINARY_PROBE_BYTES] or len(content) > BIG_FILE_BYTES


def compare(old: bytes, new: bytes, context_lines: int) -> Any:  # noqa: ANN401 (a pygit2.Patch, which this must not import)
    """How two contents differ, as text whatever they are, by git's own algorithm and indent heuristic."""
    return _library.Patch.create_from(old, new, flag=_TEXT, context_lines=context_lines)
