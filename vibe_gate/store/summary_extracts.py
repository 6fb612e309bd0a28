"""Extracts of summaries, kept in the repository's state: so figures about many runs read each
summary once.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vibe_gate.domain.bundles import STORE
from vibe_gate.store.bundle_listing import RACY_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vibe_gate.domain.bundles import RunEntry
    from vibe_gate.domain.summary import Summary
    from vibe_gate.store.worktree_bundles import Bundles


@contextmanager
def open_extracts(
    bundles: Bundles, form: int, make: Callable[[Summary], str]
) -> Iterator[Extracts]:
    """Texts that `make` makes of summaries, each once: the index keeps those that are made in this
    block.
    """
    extracts = Extracts(bundles, form, make)
    yield extracts
    extracts.keep()


class Extracts:
    """Texts that are made of summaries.

    A text counts as long as its run's folder has the ctime that it had, which no program can set.
    """

    def __init__(self, bundles: Bundles, form: int, make: Callable[[Summary], str]) -> None:
        """`form` is that of the texts: those that are kept in another are made anew."""
        self._bundles = bundles
        self._index = bundles.index
        self._form = form
        self._make = make
        self._store = f"{bundles.root}/{STORE}/"
        self._indexed: dict[str, tuple[int, str]] = {}
        """By place, the ctime of the run's folder in ns, and the text."""
        if self._index is not None:
            self._indexed = dict(self._index.extracts(form))
        self._settled_ns = time.time_ns() - RACY_NS
        self._new_extracts: dict[str, tuple[int, str]] = {}
        """As `_indexed`."""

    def __call__(self, entry: RunEntry) -> str:
        """The text of a sealed run; "" if its summary cannot be read any more, or is not for
        keeping.
        """
        place = entry.place
        try:
            ctime = os.lstat(self._store + place).st_ctime_ns
        except OSError:
            return ""
        indexed_ctime, text = self._indexed.get(place, (0, ""))
        if indexed_ctime == ctime:
            return text
        summary = self._bundles.summary(entry)
        text = "" if summary is None else self._make(summary)
        if text and ctime < self._settled_ns:
            self._new_extracts[place] = ctime, text
        return text

    def keep(self) -> None:
        """Keep what was made, and forget runs that are gone."""
        if self._index is None or not self._new_extracts:
            return
        deleted_places = [
            place for place in self._indexed if not os.path.lexists(self._store + place)
        ]
        self._index.put_extracts(self._form, self._new_extracts, deleted_places)
