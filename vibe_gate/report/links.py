"""Addresses on the forge of what a report is about: commits, files with their lines, the job's
page.
"""

from __future__ import annotations

from urllib.parse import quote

from msgspec import Struct

from vibe_gate.domain import paths


class Links(Struct, frozen=True):
    """Where things are: `server` ("https://github.com"), `repository` ("owner/name"), head and base
    commit ids.

    `base` is for lines that the change removed, "" where they cannot be linked;
    `run_url` is the job's page, "" outside of one.
    """

    server: str
    repository: str
    head: str
    run_url: str = ""
    base: str = ""

    def permalink(
        self, path: str, line: int = 0, end_line: int = 0, *, before: bool = False
    ) -> str:
        """The lines of a file (shown path) at the head commit, or at the base; "" where that cannot
        be.
        """
        commit = self.base if before else self.head
        held = paths.unquote(path)
        if not commit or {"", ".", ".."} & set(
            held.split("/")
        ):  # no path of git's; a browser would walk up with it
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
