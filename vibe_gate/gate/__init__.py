"""Definitions: `.vibe-gate/` of a tree in, a Gate or every mistake out.

loading    the gate in force; the built-in gate          mistakes   errors in plain sentences
trust      whose definitions bind, policy changes        authorship who wrote a change
waive      override and suppress                         effective  the gate as one TOML document
"""
