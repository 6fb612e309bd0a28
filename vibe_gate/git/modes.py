"""Modes of tree entries, and the tree without any, as in `domain.change`.

Said again here because a snapshot needs nothing else of `domain.change`, whose dataclasses
take ten milliseconds to load.
"""

from __future__ import annotations

TREE_MODE = 0o040000
SYMLINK_MODE = 0o120000
SUBMODULE_MODE = 0o160000
REGULAR_MODE = 0o100644
EXECUTABLE_MODE = 0o100755

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
