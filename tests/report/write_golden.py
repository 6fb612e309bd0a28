"""Writes the golden comments anew: `PYTHONPATH=.:tests:tests/report python
tests/report/write_golden.py`.
"""

from __future__ import annotations

from test_comment import GOLDEN, RENDERED, without_state

if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, render in RENDERED.items():
        (GOLDEN / name).write_text(without_state(render()))
