"""Writes the table of not-reviewed.md anew: `PYTHONPATH=.:tests python tests/faces/record_not_reviewed.py`."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import sdk_alone
from clean_environ import clean_environ
from faces.not_reviewed import STATES, Faces, row

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "not-reviewed.md"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        home.mkdir()
        (home / ".gitconfig").write_text("[init]\n\tdefaultBranch = main\n")
        environ = clean_environ(home)
        environ["PATH"] = f"{sdk_alone.QUICK}:{environ['PATH']}"
        os.environ.clear()
        os.environ.update(environ)
        faces = Faces(Path(place), environ)
        rows = [row(name, state, faces)[0] for name, state in STATES.items()]
    table = re.compile(r"(?<=\| --- \| --- \| --- \| --- \|\n)(?:\|.*\n)+")
    PAGE.write_text(table.sub(lambda _: "\n".join([*rows, ""]), PAGE.read_text()))
