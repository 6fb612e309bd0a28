"""Writes the golden comments anew: `PYTHONPATH=.:tests:tests/report python
tests/report/write_golden.py`.
"""

from __future__ import annotations

import test_places
from test_comment import GOLDEN, RENDERED, without_state

if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, render in RENDERED.items():
        (GOLDEN / name).write_text(without_state(render()))
    for name in test_places.FINDINGS:
        folder = test_places.GOLDEN / name
        folder.mkdir(parents=True, exist_ok=True)
        report = test_places.report_of(*test_places.FINDINGS[name])
        for file_name, render_file in test_places.RENDERED.items():
            (folder / file_name).write_text(render_file(report))
