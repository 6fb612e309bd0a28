"""Addresses on the forge of what a report is about: commits, files with their lines, the job's
page.
"""

from __future__ import annotations

from urllib.parse import quote

from msgspec import Struct

from vibe_gate.domain import paths


class Links(Struct, frozen=True):
    """Where things are on the forge."""

    server: str
    """As "https://github.com"."""
    repository: str
    """As "owner/name"."""
    head: str
    """A commit id."""
    run_url: str = ""
    """The job's page, "" outside of one."""
    base: str = ""
    """A commit id, for lines that the change removed; "" where they cannot be linked."""

    def permalink(
        self, path: str, line: int = 0, end_line: int = 0, *, before: bool = False
    ) -> str:
        """The lines of a file (shown path) at the head commit, or at the base; "" where that cannot
        be.
        """
        commit = self.head
        if before:
            commit = self.base
        own_path = paths.unquote(path)
        # Such a path is none of git's; a browser would walk up with it.
        if not commit or {"", ".", ".."} & set(own_path.split("/")):
            return ""
        address = f"{self._root}/blob/{commit}/{quote(paths.encode(own_path), safe='/')}"
        if not line:
            return address
        # Without plain=1 a rendered file (Markdown) has no lines to point at.
        if own_path.lower().endswith((".md", ".markdown")):
            address += "?plain=1"
        address += f"#L{line}"
        if end_line > line:
            return f"{address}-L{end_line}"
        return address

    def commit(self, id: str) -> str:
        """A commit's page."""
        return f"{self._root}/commit/{quote(id, safe='')}"

    @property
    def run(self) -> int:
        """The number of the workflow's run, 0 outside of one."""
        number = self.run_url.rpartition("/")[2]
        if number.isascii() and number.isdecimal():
            return int(number)
        return 0

    @property
    def _root(self) -> str:
        return f"{self.server.rstrip('/')}/{quote(self.repository, safe='/')}"
