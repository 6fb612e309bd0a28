"""`vibe-gate bundles ...`: what was recorded, listed, shown, kept and cleaned.

`quick` answers `bundles list` before anything of weight is imported; everything
else comes through here.
"""
