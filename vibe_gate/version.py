"""The version of vibe-gate; the build and the release read it here."""

__version__ = "0.1.0"
