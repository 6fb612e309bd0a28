"""Writes the table of not-reviewed.md anew: `PYTHONPATH=.:tests python
tests/faces/record_not_reviewed.py`.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from faces.not_reviewed import STATES, faces_in, row

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "not-reviewed.md"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        faces = faces_in(Path(place))
        os.environ.clear()
        os.environ.update(faces.environ)
        rows = [row(name, state, faces)[0] for name, state in STATES.items()]
    table = re.compile(r"(?<=\| --- \| --- \| --- \| --- \|\n)(?:\|.*\n)+")
    PAGE.write_text(table.sub(lambda _: "\n".join([*rows, ""]), PAGE.read_text()))
