"""The tables of state.db. A new file gets all of them at once; one that lacks some gets those, and
keeps its rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

SCHEMA = 3
"""The number in the file's header; an empty file has 0. Files with paid answers have this one, so
it stays.
"""

TABLES: Mapping[str, tuple[str, ...]] = {
    "run_keys": (
        "CREATE TABLE IF NOT EXISTS run_keys"
        " (store TEXT, key TEXT, ctime INTEGER, data TEXT, PRIMARY KEY (store, key)) WITHOUT ROWID",
    ),
    "run_extracts": (
        "CREATE TABLE IF NOT EXISTS run_extracts"
        " (store TEXT, place TEXT, form INTEGER, ctime INTEGER, data TEXT, PRIMARY KEY (store, place)) WITHOUT ROWID",
    ),
    "hook_records": (
        "CREATE TABLE IF NOT EXISTS hook_records"
        " (id INTEGER PRIMARY KEY, commit_id TEXT, tree TEXT, old TEXT, line TEXT)",
        "CREATE INDEX IF NOT EXISTS hook_records_commit ON hook_records (commit_id)",
        "CREATE INDEX IF NOT EXISTS hook_records_tree ON hook_records (tree)",
        "CREATE INDEX IF NOT EXISTS hook_records_old ON hook_records (old)",
    ),
    "overrides": ("CREATE TABLE IF NOT EXISTS overrides (id INTEGER PRIMARY KEY, line TEXT)",),
    "labels": ("CREATE TABLE IF NOT EXISTS labels (id INTEGER PRIMARY KEY, line TEXT)",),
    "answers": (
        "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, created_at REAL, answer TEXT) WITHOUT ROWID",
    ),
    "unshared": ("CREATE TABLE IF NOT EXISTS unshared (key TEXT PRIMARY KEY)",),
    "private": ("CREATE TABLE IF NOT EXISTS private (key TEXT PRIMARY KEY) WITHOUT ROWID",),
    "spending": (
        "CREATE TABLE IF NOT EXISTS spending"
        " (day TEXT, run_id TEXT, usd REAL, PRIMARY KEY (day, run_id)) WITHOUT ROWID",
    ),
    "begun": (
        "CREATE TABLE IF NOT EXISTS begun (name TEXT PRIMARY KEY, worktree TEXT, request TEXT) WITHOUT ROWID",
    ),
    "captured_blobs": (
        "CREATE TABLE IF NOT EXISTS captured_blobs (session TEXT, blob TEXT, UNIQUE (session, blob))",
    ),
    "captured_times": (
        "CREATE TABLE IF NOT EXISTS captured_times"
        " (session TEXT, blob TEXT, at INTEGER, PRIMARY KEY (session, blob)) WITHOUT ROWID",
    ),
    "worktree_tops": (
        "CREATE TABLE IF NOT EXISTS worktree_tops (top TEXT PRIMARY KEY) WITHOUT ROWID",
    ),
    "line_key": (
        "CREATE TABLE IF NOT EXISTS line_key (id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB)",
    ),
    "applied_writes": (
        "CREATE TABLE IF NOT EXISTS applied_writes (agent TEXT, session TEXT, line BLOB)",
    ),
}
"""By name, the statements that make a table and its indexes."""


def make_missing_tables(connection: sqlite3.Connection) -> None:
    """Make the tables that the file lacks, in one transaction; a new file gets all of them.
    OSError, sqlite3.Error.
    """
    if _read_schema(connection) == SCHEMA and not _missing_tables(connection):
        return
    connection.execute(
        "PRAGMA journal_mode = WAL"
    )  # stays as it was if the file system shares no memory
    connection.execute("BEGIN IMMEDIATE")
    if _read_schema(connection) not in (0, SCHEMA):
        raise OSError(
            0, "another version of vibe-gate wrote it: upgrade this one, or move the file away"
        )
    for name in _missing_tables(connection):
        for statement in TABLES[name]:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.execute("COMMIT")


def has_every_column(connection: sqlite3.Connection) -> bool:
    """Whether every table is in the file with the columns and indexes that it was made with."""
    try:
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    present_statements = {" ".join(sql.split()) for (sql,) in rows}
    for statements in TABLES.values():
        for statement in statements:
            if statement.replace("IF NOT EXISTS ", "") not in present_statements:
                return False
    return True


def _read_schema(connection: sqlite3.Connection) -> int:
    ((schema,),) = connection.execute("PRAGMA user_version")
    return int(schema)


def _missing_tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    present_names = {name for (name,) in rows}
    return [name for name in TABLES if name not in present_names]
