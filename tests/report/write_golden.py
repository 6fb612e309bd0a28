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
    report = test_places.report_of(test_places.spread_finding())
    for file_name, render_file in test_places.RENDERED.items():
        (test_places.GOLDEN / file_name).write_text(render_file(report))
