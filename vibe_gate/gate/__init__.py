"""Definitions: `.vibe-gate/` of a tree in, a Gate or every mistake out. The only door to TOML.

reading    which files are definitions, bytes to tables
wording    tables to models, errors to sentences
meaning    mistakes between keys and files
loading    the gate in force; the built-in gate
effective  the gate as one TOML document
starters   what `vibe-gate init` writes
writing    starters into a working tree
"""

from __future__ import annotations

# Names are loaded on first use: a review reads definitions and writes none.

_HOMES = {
    "FOLDER": "reading",
    "GATE_PATH": "reading",
    "STARTERS": "starters",
    "Plan": "writing",
    "Tree": "reading",
    "built_in_gate": "loading",
    "effective_toml": "effective",
    "load_gate": "loading",
    "mistakes": "loading",
    "plan_starters": "writing",
    "write_starter": "writing",
}

TYPE_CHECKING = False  # typing's own constant would cost the import of typing
if TYPE_CHECKING:
    from vibe_gate.gate.effective import effective_toml
    from vibe_gate.gate.loading import built_in_gate, load_gate, mistakes
    from vibe_gate.gate.reading import FOLDER, GATE_PATH, Tree
    from vibe_gate.gate.starters import STARTERS
    from vibe_gate.gate.writing import Plan, plan_starters, write_starter

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


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(__import__(f"{__name__}.{home}", fromlist=["_"]), name)
    globals()[name] = value
    return value
