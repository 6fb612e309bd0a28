"""`vibe-gate action`: a pull request's job. What the runner says comes in here; verdict, comment and outputs go out.

inputs    what the workflow asks for                 event     what happened, from the runner's event file
span      which commits are compared, fetched        approval  who approved a change of the gate itself
gate      the walk: event -> review -> post          reporting the report of a run for a forge
relay     `post --from-artifact`: posts a claim      incoming  what was uploaded, read back without trust
runner    outputs, job summary, workflow commands    commands  `/vibe-gate` in a comment
"""
