"""Which version of a package is installed, told without `importlib.metadata`, whose import costs more than a check."""

from __future__ import annotations

import importlib
import os
import sys


def version_of(package: str) -> str:
    """As `importlib.metadata.version` says it, from the first folder of the path that has the package's record."""
    start = package.replace("-", "_").lower() + "-"
    for folder in sys.path:
        try:
            names = [name for name in os.listdir(folder) if name.lower().startswith(start)]  # noqa: PTH208 (a text)
            for name in names:
                if name.endswith(".dist-info"):
                    with open(f"{folder}/{name}/METADATA", encoding="utf-8") as file:
                        return next(line[9:].strip() for line in file if line.startswith("Version: "))
        except (OSError, StopIteration, UnicodeDecodeError):
            continue
    found: str = importlib.import_module("importlib.metadata").version(package)
    return found
