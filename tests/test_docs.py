"""The documents: what the code says of itself is written there as it is now."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_reference_in_the_pages_is_what_the_code_says(capsys):
    """Every argument, key, check, exit code and document. `python docs/site/reference.py --write` writes it anew."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "site" / "reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert reference.main([]) == 0, capsys.readouterr().out
