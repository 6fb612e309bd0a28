"""Workflows: stages of agents and gates about one change. `walk` tells the story: read it first.

walk       a workflow from request to summary      stages     an agent's turn, a gate: nodes of the graph
workflow   `wf`, what a workflow is written with   schedule   stages of TOML, started as their needs end
script     a Python workflow's source              prompts    what an agent is asked; results handed over as data
tree       the files, and who may write them       changes    what one turn made of the workspace
result     what a stage came to, how a loop ended  execution  one agent on its own: `run_agent`
cases      labelled cases, each a review of its own
"""

from __future__ import annotations
