"""Writes the table of not-reviewed.md anew: `PYTHONPATH=.:tests python
tests/faces/record_not_reviewed.py`.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from faces.not_reviewed import STATES, complete_cells, faces_in, look_at_faces

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "not-reviewed.md"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        faces = faces_in(Path(place))
        os.environ.clear()
        os.environ.update(faces.environ)
        table: dict[str, list[str]] = {}
        for name, state in STATES.items():
            cells, _ = look_at_faces(name, state, faces)
            table[name] = complete_cells(cells, state, table)
    rows = [f"| {' | '.join(cells)} |" for cells in table.values()]
    rows_of_page = re.compile(r"(?<=\| --- \| --- \| --- \| --- \|\n)(?:\|.*\n)+")
    PAGE.write_text(rows_of_page.sub(lambda _: "\n".join([*rows, ""]), PAGE.read_text()))
