"""Workflows: stages of agents and gates about one change. `walk` tells the story: read it first.

walk       a workflow from request to summary      stages     an agent's turn, a gate: nodes of the graph
workflow   `wf`, what a workflow is written with   schedule   stages of TOML, started as their needs end
tree       the files, and who may write them       prompts    what an agent is asked; results handed over as data
result     what a stage came to, how a loop ended  changes    what one turn made of the workspace
conclusion the outcome, the summary, the patch     execution  one agent on its own: `run_agent`
resume     going on with a run that died           conversation  a turn's session, kept and gone on with
cases      labelled cases, each a review of its own
"""

from __future__ import annotations
