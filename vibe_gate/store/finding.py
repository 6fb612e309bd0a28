"""Runs found by what the index says of them: ids of the change, outcome, rubric, author, path, time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypedDict, Unpack

from vibe_gate.domain import paths
from vibe_gate.errors import UsageError
from vibe_gate.store.index import OUTCOMES, Entry
from vibe_gate.store.indexing import entries
from vibe_gate.store.provenance import Provenance

Match = Literal["commit", "tree", "patch_id", "range_patch_id"]

STATES = ("running", "incomplete", "corrupt", "foreign")
"""Of runs that have no outcome to show."""

MATCHES: tuple[Match, ...] = ("commit", "tree", "patch_id", "range_patch_id")
"""The ways in which a run is about a change, the closest first."""


_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CHOICES: dict[str, tuple[str, ...]] = {"outcome": (*OUTCOMES, "sealed", *STATES), "author": ("agent", "human")}


class Wanted(TypedDict, total=False):
    """What a run must be to be found; everything given must hold."""

    run: str
    """The whole run id."""
    prefix: str
    """How the run id begins."""
    commit: str
    """The head commit's id."""
    tree: str
    """The id of the tree after the change."""
    patch_id: str
    """The stable patch-id of the reviewed commit."""
    range_patch_id: str
    """The stable patch-id of the whole reviewed change."""
    outcome: str
    """pass, fail, inconclusive or error; or a state: sealed, running, incomplete, corrupt, foreign."""
    rubric: str
    """The id of a rubric that the change was held against."""
    author: Literal["agent", "human"]
    """Who wrote the change."""
    path: str
    """A glob that a changed path, or the old path of a rename, matches."""
    since: datetime
    """Not begun earlier."""


def find_bundles(root: Path, provenance: Provenance | None = None, **wanted: Unpack[Wanted]) -> list[Entry]:
    """The runs below `root` (the top of the repository) that are as `wanted`, newest first.

    No sealed bundle is opened that the index knows. An empty id finds nothing. With
    `provenance`, runs that no review here wrote are "foreign" and have no outcome.
    Raises StorageError if the store cannot be read, UsageError for a value that cannot
    be meant (a `since` that is no datetime or has no time zone, an id that is none, an outcome or an author
    that no run can have), TypeError for an unknown word.
    """
    if unknown := wanted.keys() - Wanted.__annotations__.keys():
        raise TypeError(f"find_bundles() knows no {sorted(unknown)[0]!r}")
    for name, value in wanted.items():
        if name != "since" and not isinstance(value, str):
            raise UsageError(f"{name} is a text, not {value!r:.40}.")
        if name in MATCHES and value and _ID.fullmatch(str(value)) is None:
            raise UsageError(f"{name} is a whole id of 40 or 64 hex digits, not {value!r:.80}.")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise UsageError(f"{name} is one of {', '.join(_CHOICES[name])}, not {value!r:.40}.")
    since = wanted.get("since")
    if "since" in wanted and (not isinstance(since, datetime) or since.utcoffset() is None):
        raise UsageError(f"since is a datetime with a time zone, not {since!r:.60}.")
    return [entry for entry in told_apart(entries(root), provenance) if is_wanted(entry, wanted)]


def told_apart(found: list[Entry], provenance: Provenance | None) -> list[Entry]:
    """The same runs, those that no review here wrote without what they say of themselves."""
    if provenance is None:
        return found
    return [
        Entry.unsealed(entry.run_id, entry.key, "foreign") if provenance.foreign(entry.key, entry.run_id) else entry
        for entry in found
    ]


def is_wanted(entry: Entry, wanted: Wanted) -> bool:
    """Whether the run is as wanted. An unsealed run has no outcome, and of its change only the key is known."""
    return (
        _is_run(entry, wanted)
        and all(is_about(entry, match, wanted[match]) for match in MATCHES if match in wanted)
        and ("outcome" not in wanted or wanted["outcome"] in (entry.outcome, entry.state))
        and ("rubric" not in wanted or any(name == wanted["rubric"] for name, _ in entry.rubrics))
        and ("author" not in wanted or entry.author == wanted["author"])
        and ("path" not in wanted or _touches(entry, wanted["path"]))
    )


def _is_run(entry: Entry, wanted: Wanted) -> bool:
    if "run" in wanted and entry.run_id != wanted["run"]:
        return False
    if "since" in wanted and entry.run_id[:_STAMP] < _stamp(wanted["since"]):
        return False
    return "prefix" not in wanted or (wanted["prefix"] != "" and entry.run_id.startswith(wanted["prefix"]))


def _stamp(moment: datetime) -> str:
    """How the id of a run of that time begins."""
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:  # in UTC it is before the first year, or after the last one
        return "" if moment.year < datetime.max.year else "~"
    return f"{utc.year:04d}{utc:%m%dT%H%M%S%f}"[:_STAMP]


_STAMP = 18  # characters of a run id that are its time, to the millisecond


def is_about(entry: Entry, match: Match, name: str) -> bool:
    """Whether the run is about the change that is known by this id in this way."""
    if name == "":
        return False
    if match == "commit":
        return name in (entry.head_commit, entry.key)
    if match == "tree":
        return name == entry.after or entry.key == f"tree-{name}"
    return name == (entry.patch_id if match == "patch_id" else entry.range_patch_id)


def _touches(entry: Entry, glob: str) -> bool:
    return any(paths.matches(paths.unquote(path), (glob,)) for path in entry.paths)
