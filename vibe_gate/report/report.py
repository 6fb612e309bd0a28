"""What is reported about a run on a pull request: the summary, its links, and the lines of its change. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Literal
from urllib.parse import quote

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.patch import hunks, sections
from vibe_gate.domain.summary import Summary
from vibe_gate.report.round import Round


class Links(Struct, frozen=True):
    """Where things are: `server` ("https://github.com"), `repository` ("owner/name"), head and base commit ids.

    `base` is for lines that the change removed, "" where they cannot be linked;
    `run_url` is the job's page, "" outside of one.
    """

    server: str
    repository: str
    head: str
    run_url: str = ""
    base: str = ""

    def permalink(self, path: str, line: int = 0, end_line: int = 0, *, before: bool = False) -> str:
        """The lines of a file (shown path) at the head commit, or at the base; "" where that cannot be."""
        commit = self.base if before else self.head
        held = paths.unquote(path)
        if not commit or {"", ".", ".."} & set(held.split("/")):  # no path of git's; a browser would walk up with it
            return ""
        lines = f"#L{line}" + (f"-L{end_line}" if end_line > line else "") if line else ""
        # Without plain=1 a rendered file (Markdown) has no lines to point at.
        plain = "?plain=1" if line and held.lower().endswith((".md", ".markdown")) else ""
        return f"{self._root}/blob/{commit}/{quote(paths.encode(held), safe='/')}{plain}{lines}"

    def commit(self, id: str) -> str:
        """A commit's page."""
        return f"{self._root}/commit/{quote(id, safe='')}"

    @property
    def run(self) -> int:
        """The number of the workflow's run, 0 outside of one."""
        number = self.run_url.rpartition("/")[2]
        return int(number) if number.isascii() and number.isdecimal() else 0

    @property
    def _root(self) -> str:
        return f"{self.server.rstrip('/')}/{quote(self.repository, safe='/')}"


DiffSide = Literal["LEFT", "RIGHT"]
"""A forge's words for the before and the after side."""


class Anchors(Struct, frozen=True):
    """Lines of a change. Paths are asked for as shown (`paths.quote`); the fields have them as git does.

    `places`: by path and side, line number -> number of its hunk. `added`: paths and lines that the change added.
    """

    places: Mapping[tuple[str, DiffSide], Mapping[int, int]] = {}
    added: Set[tuple[str, int]] = frozenset()

    def holds(self, path: str, start: int, end: int, side: DiffSide = "RIGHT") -> bool:
        """Whether a comment may stand at lines `start`..`end`: all within one hunk."""
        places = self.places.get((paths.unquote(path), side), {})
        hunk = places.get(start)
        if hunk is None or end < start or end - start > len(places):
            return False
        return all(places.get(line) == hunk for line in range(start, end + 1))

    def touches(self, path: str, start: int, end: int) -> bool:
        """Whether any of the lines `start`..`end` of the after side was added by the change."""
        held = paths.unquote(path)
        return any(name == held and start <= line <= end for name, line in self.added)

    def names(self, path: str) -> bool:
        """Whether the change has hunks of this file."""
        held = paths.unquote(path)
        return any((held, side) in self.places for side in ("LEFT", "RIGHT"))


def anchors(patch: bytes) -> Anchors:
    """The anchors of a patch as git writes it. A hunk that does not add up has none: redaction made a line of several.

    Both sides of a renamed file go by its new name, as findings do.
    """
    places: dict[tuple[str, DiffSide], dict[int, int]] = {}
    added: set[tuple[str, int]] = set()
    for path, start, end in sections(patch):
        for number, hunk in enumerate(hunks(patch[start:end])):
            lines = hunk.lines
            left = [line for line in lines if line.origin != "+"]
            right = [line for line in lines if line.origin != "-"]
            if (len(left), len(right)) != (hunk.old_lines, hunk.new_lines):
                continue
            sides: tuple[tuple[DiffSide, int, int], ...] = (
                ("LEFT", hunk.old_start, len(left)),
                ("RIGHT", hunk.new_start, len(right)),
            )
            for side, first, count in sides:
                held = places.setdefault((path, side), {})
                held |= dict.fromkeys(range(first, first + count), number)
            added.update((path, line) for line, one in enumerate(right, hunk.new_start) if one.origin == "+")
    return Anchors(places, added)


class Report(Struct, frozen=True):
    """A run as it is told.

    `notes` are the review's sentences. `patch` is the redacted change.patch as text ("" if there is none), `artifact`
    whether the bundle is uploaded, `number` the pull request's. `name` tells several gates of one repository apart (a
    matrix); "" if there is one. `review` is the command that repeats the review here, without `vibe-gate review`.
    `fork`: the pull request is a fork's. `dependabot`: Dependabot started the job. `blocks` is False if the job
    succeeds whatever the verdict (`mode: warn`). `remarks` are sentences in sight: approvals that do not count.
    """

    summary: Summary
    notes: tuple[str, ...]
    round: Round
    links: Links | None = None
    patch: str = ""
    artifact: bool = False
    number: int | None = None
    name: str = ""
    review: str = ""
    fork: bool = False
    dependabot: bool = False
    blocks: bool = True
    remarks: tuple[str, ...] = ()

    @property
    def anchors(self) -> Anchors:
        """Lines of the change."""
        return anchors(self.patch.encode("utf-8", "surrogateescape"))
