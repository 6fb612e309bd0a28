"""The marker `vibe`, and which repetition of a test is under way. Imports pytest alone, as the
package does.
"""

from __future__ import annotations

import pytest

MARKER = (
    "vibe(timeout_s=None, max_usd=None, repeat=1, pass_rate=1.0): limits of a test's agents; how often it is carried "
    "out, and which share must pass."
)

REPETITION = pytest.StashKey[int]()
"""Of an item: which repetition of it is under way, from 1 on."""
