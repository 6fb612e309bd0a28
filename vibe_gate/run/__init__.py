"""Walks: of a review, and of a workflow, which is stages of agents and gates about one change.

review           THE WALK of a review: read this first
fact_finding     what is known before anything is asked
run_bundle       a run's bundle: opened, filled, sealed
run_documents    what run.json and summary.json say, notes for people
team_store       the store that a team shares

walk             THE WALK of a workflow
workflow_steps   `wf`, what a workflow is written with
workflow_plan    what a run carries out; the source of a workflow in Python
run_request      what a face asks for, and the plan that it means
schedule         stages of TOML, started as their needs end
stage_runner     carries out an agent's stage, or a gate
stage_request    what an agent is asked; data handed over
judged_result    what agents made, judged for scripts and tests
handed_over      results handed to an agent, and whose files it begins with
agent_turns      one turn of an agent
agent_approval   a person asked before an agent begins
kept_session     a turn's session, kept and gone on with
run_tree         the files, and who may write them
turn_changes     what one turn made of the workspace
stage_graph      which stages ran, how each ended
stage_result     what a stage came to, how a loop ended
conclusion       the outcome, the summary, the patch
resume           going on with a run that died
execution        one agent on its own: `run_agent`
fix              repairing what a stored run found
repair_brief     what an agent of a repair is shown
patch_excerpt    what of a long patch it is shown: pure
served_tests     the tool with which it runs tests

each             every commit of a range reviewed
replay           a stored run judged again
repeated_run     what a workflow's run is carried out again with
recorded_run     a run and its repeat, read to be compared
case_reviews     labelled cases, each a review of its own
calibrate        the same cases several times, counted
label_proposals  commits that are worth a label
batch, cluster   many tasks: in processes, in workers of a cluster
rounds           the review before, of the same change

line_origins     who wrote each line of a file
line_sources     the commit and the write that a line comes from
line_writes      lines traced back through captured writes: pure
trace            our Agent Trace records of commits
"""
