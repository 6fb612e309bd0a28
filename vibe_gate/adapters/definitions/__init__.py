"""Definitions: `.vibe-gate/` of a tree in, a Gate or every mistake out. The only door to TOML.

reading    which files are definitions, bytes to tables
wording    tables to models, errors to sentences
meaning    mistakes between keys and files
loading    the gate in force; the built-in gate
effective  the gate as one TOML document
starters   what `vibe-gate init` writes
writing    starters into a working tree
"""

from vibe_gate.adapters.definitions.effective import effective_toml
from vibe_gate.adapters.definitions.loading import built_in_gate, load_gate, mistakes
from vibe_gate.adapters.definitions.reading import FOLDER, GATE_PATH, Tree
from vibe_gate.adapters.definitions.starters import STARTERS
from vibe_gate.adapters.definitions.writing import Plan, plan_starters, write_starter

__all__ = [
    "FOLDER",
    "GATE_PATH",
    "STARTERS",
    "Plan",
    "Tree",
    "built_in_gate",
    "effective_toml",
    "load_gate",
    "mistakes",
    "plan_starters",
    "write_starter",
]
