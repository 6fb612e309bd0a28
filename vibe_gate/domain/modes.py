"""Git's modes of tree entries, and the tree without any. Apart from `change`, whose dataclasses take long to load."""

from __future__ import annotations

NO_MODE = 0
TREE_MODE = 0o040000
SYMLINK_MODE = 0o120000
SUBMODULE_MODE = 0o160000
REGULAR_MODE = 0o100644
EXECUTABLE_MODE = 0o100755

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
