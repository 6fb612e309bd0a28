"""What is reported about a run on a pull request: the summary, its links, and the lines of its change. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote

from vibe_gate.domain import paths
from vibe_gate.domain.summary import Summary
from vibe_gate.report.round import Round


@dataclass(frozen=True, slots=True)
class Links:
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

_HUNK = re.compile(rb"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")


@dataclass(frozen=True, slots=True)
class Anchors:
    """Lines by file. Paths are asked for as shown (`paths.quote`)."""

    _places: dict[tuple[str, DiffSide], dict[int, int]] = field(default_factory=dict)
    """Line number -> number of its hunk."""
    _added: set[tuple[str, int]] = field(default_factory=set)
    """Lines that the change added."""

    def holds(self, path: str, start: int, end: int, side: DiffSide = "RIGHT") -> bool:
        """Whether a comment may stand at lines `start`..`end`: all within one hunk."""
        places = self._places.get((paths.unquote(path), side), {})
        hunk = places.get(start)
        if hunk is None or end < start or end - start > len(places):
            return False
        return all(places.get(line) == hunk for line in range(start, end + 1))

    def touches(self, path: str, start: int, end: int) -> bool:
        """Whether any of the lines `start`..`end` of the after side was added by the change."""
        held = paths.unquote(path)
        return any(name == held and start <= line <= end for name, line in self._added)

    def names(self, path: str) -> bool:
        """Whether the change has hunks of this file."""
        held = paths.unquote(path)
        return any((held, side) in self._places for side in ("LEFT", "RIGHT"))


def anchors(patch: bytes) -> Anchors:
    """The anchors of a patch as `git diff` writes it, with `a/` and `b/` before the paths."""
    found = Anchors()
    old = new = ""
    hunk = 0
    lines = iter(patch.split(b"\n"))
    line = next(lines, None)
    while line is not None:
        header = _HUNK.match(line)
        if line.startswith(b"diff --git "):
            old = new = ""
        elif line.startswith(b"--- "):
            old = _path(line[4:], b"a/")
        elif line.startswith(b"+++ "):
            new = _path(line[4:], b"b/")
        elif header is not None and (old or new):
            hunk += 1
            line = _read_hunk(found, (old, new), header, lines, hunk)
            continue
        line = next(lines, None)
    return found


def _read_hunk(
    found: Anchors, names: tuple[str, str], header: re.Match[bytes], lines: Iterator[bytes], number: int
) -> bytes | None:
    """Take the hunk's lines; returns the line after them."""
    start, removed, at, added = (int(group) if group is not None else 1 for group in header.groups())
    right: list[int] = []
    left: list[int] = []
    new: set[int] = set()
    line = next(lines, None)
    while line is not None and (line[:1] in (b" ", b"+", b"-", b"\\")):
        if line[:1] == b"+":
            new.add(at + len(right))
        if line[:1] in (b" ", b"+"):
            right.append(at + len(right))
        if line[:1] in (b" ", b"-"):
            left.append(start + len(left))
        line = next(lines, None)
    if len(right) == added and len(left) == removed:
        name = names[1] or names[0]  # of a renamed file both sides go by the new name, as with findings
        found._places.setdefault((name, "RIGHT"), {}).update((place, number) for place in right)
        found._places.setdefault((name, "LEFT"), {}).update((place, number) for place in left)
        found._added.update((name, place) for place in new)
    return line


def _path(raw: bytes, prefix: bytes) -> str:
    """The path as the program holds it; "" for /dev/null."""
    text = paths.unquote(paths.decode(raw.removesuffix(b"\t")))
    start = paths.decode(prefix)
    return text[len(start) :] if text.startswith(start) else ""


@dataclass(frozen=True)
class Report:
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
    patch: str = field(default="", repr=False)
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
