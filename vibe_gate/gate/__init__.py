"""Definitions: `.vibe-gate/` of a tree in, a Gate or every mistake out.

loading    the gate in force, or every mistake; built-in gate          source  one file, and its mistakes
workflows  agents (agents.py) and workflows, whose stages are checked as a graph (graph.py)
trust      whose definitions bind, policy changes        authorship who wrote a change
cases      labelled cases of the rubrics
waive      override and suppress                         effective  the gate as one TOML document
"""
