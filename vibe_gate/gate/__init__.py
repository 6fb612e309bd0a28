"""Definitions: `.vibe-gate/` of a tree in, a Gate or every mistake out.

loading    the gate in force, or every mistake; built-in gate          source  one file, and its mistakes
workflows  agents (agents.py) and workflows, whose stages are checked as a graph (graph.py)
trusted    whose definitions bind                           authorship who wrote a change, of which
traces     (Agent Trace records of any tool) is one witness
policy     what a change does to the gate                  chosen  which rubric, agent, workflow is meant
cases      labelled cases of the rubrics                   baseline what was measured with them; writing: files
waivers    what may be let pass; waive writes it           effective  the gate as one TOML document
prompts    what was asked for behind a change; shared_prompts: as git notes
guidance   the project's conventions for judges            fixing     the built-in workflow `fix`
"""
