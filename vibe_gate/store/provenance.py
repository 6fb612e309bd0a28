"""Runs that no review here wrote: a repository can commit a bundle, sealed and green, dated far in the future."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from vibe_gate.store import names

_CLOCK_MAY_GO_BACK = timedelta(minutes=5)


class Provenance:
    """What is known here: the time, and what git tracks of the store (`Repository.tracked`, relative to the root)."""

    def __init__(self, now: datetime, tracked: Collection[str] = ()) -> None:
        self._newest = names.iso(now + _CLOCK_MAY_GO_BACK)
        self.tracked = frozenset(tracked)
        # By the first components, so that ten thousand runs are not compared with ten thousand paths.
        # Without case: on a disk that ignores it, a tracked .VIBE-ARTIFACTS is the store.
        parts = [path.casefold().split("/") for path in self.tracked]
        self._places = {tuple(part[:3]) for part in parts}
        self._whole = {tuple(part) for part in parts}
        self._above = {whole[:length] for whole in self._whole for length in range(1, len(whole))}

    def tracks(self, place: str) -> bool:
        """Whether git tracks `place`, relative to the store, anything in it, or what it is in (a submodule, a link)."""
        parts = (names.STORE, *place.casefold().split("/"))
        return parts in self._above or any(parts[:length] in self._whole for length in range(1, len(parts) + 1))

    def foreign(self, key: str, run_id: str) -> str:
        """Why the run is foreign, in a few words; "" where nothing speaks against it."""
        place = (names.STORE, key.casefold(), run_id.casefold())
        if any(place[:length] in self._places for length in (1, 2, 3)):
            return "git tracks it: it came with the repository, no review here wrote it"
        if names.began(run_id) > self._newest:
            return f"it is dated {names.began(run_id)}, in the future: no review here wrote it"
        return ""
