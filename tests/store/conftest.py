"""A store in a folder of its own, with a clock that ticks a millisecond and a redactor that knows
one secret.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bundle_words import Clock, OneSecretRedactor

from vibe_gate.store.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path, OneSecretRedactor(), Clock())
