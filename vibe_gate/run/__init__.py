"""Walks: of a review, and of a workflow, which is stages of agents and gates about one change.

review     THE WALK of a review: read this first    facts      what is known before anything is asked
record     a run's bundle: opened, filled, sealed   summary    run.json, summary.json, notes for people
deadline   when a run must end

walk       THE WALK of a workflow                   stages     carries out an agent's turn, or a gate
graph      which stages ran, how each ended         turn       one turn of an agent
tree       the files, and who may write them        model      the run's one way to the model
prompts    what an agent is asked; data handed over changes    what one turn made of the workspace
approval   a person asked before an agent begins    conversation  a turn's session, kept and gone on with
workflow   `wf`, what a workflow is written with    schedule   stages of TOML, started as their needs end
result     what a stage came to, how a loop ended   conclusion the outcome, the summary, the patch
resume     going on with a run that died            execution  one agent on its own: `run_agent`
cases      labelled cases, each a review of its own     fix        repairing what a stored run found

blame      who wrote each line of a file            line_writes   lines traced back through captured writes: pure
trace      our Agent Trace records of commits
"""
