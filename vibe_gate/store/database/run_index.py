"""What lists and figures say of runs, by store; made again from the bundles if it is missing or
wrong.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from vibe_gate.store.database.state_file import StateFile
from vibe_gate.store.database.state_table import StateTable


class RunIndex(StateTable):
    """Rows about the runs of one store, for whoever looks at the store itself."""

    def __init__(self, file: StateFile, store: str) -> None:
        """`store`: the absolute path of a `.vibe-artifacts`, or of a folder in one."""
        super().__init__(file)
        self._store = store

    def folders(self) -> dict[str, tuple[int, str]]:
        """Folder of a key -> its ctime in ns when it was looked into, and what its runs are."""
        sql = "SELECT key, ctime, data FROM run_keys WHERE store = ?"
        return _whole_rows(self._file.read(sql, self._store))

    def update(self, folders: Mapping[str, tuple[int, str]], deleted_keys: Iterable[str]) -> None:
        """Put the folders that were looked into, and forget those that are deleted, in one
        transaction.
        """
        store = self._store
        deleted_rows = [(store, key) for key in deleted_keys]
        new_rows = [(store, key, ctime, data) for key, (ctime, data) in folders.items()]

        def action(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM run_keys WHERE store = ? AND key = ?", deleted_rows)
            connection.executemany("INSERT OR REPLACE INTO run_keys VALUES (?, ?, ?, ?)", new_rows)

        self._file.change(action)

    def extracts(self, form: int) -> dict[str, tuple[int, str]]:
        """Place of a run -> its folder's ctime in ns when this was made of its summary, and the
        text, in that form.
        """
        sql = "SELECT place, ctime, data FROM run_extracts WHERE store = ? AND form = ?"
        return _whole_rows(self._file.read(sql, self._store, form))

    def put_extracts(
        self, form: int, extracts: Mapping[str, tuple[int, str]], deleted_places: Iterable[str]
    ) -> None:
        """Put texts by place, and forget those of runs that are deleted, in one transaction."""
        store = self._store
        deleted_rows = [(store, place) for place in deleted_places]
        new_rows = [(store, place, form, ctime, text) for place, (ctime, text) in extracts.items()]

        def action(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "DELETE FROM run_extracts WHERE store = ? AND place = ?", deleted_rows
            )
            connection.executemany(
                "INSERT OR REPLACE INTO run_extracts VALUES (?, ?, ?, ?, ?)", new_rows
            )

        self._file.change(action)


def _whole_rows(rows: Iterable[tuple[object, ...]]) -> dict[str, tuple[int, str]]:
    """Rows of a name, a ctime and a text, by name; a damaged row, with other types, is left out."""
    values: dict[str, tuple[int, str]] = {}
    for name, ctime, text in rows:
        if isinstance(name, str) and isinstance(ctime, int) and isinstance(text, str):
            values[name] = (ctime, text)
    return values
