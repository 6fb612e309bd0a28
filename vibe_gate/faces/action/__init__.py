"""`vibe-gate action`: a pull request's job. What the runner says comes in here; verdict, comment and outputs go out.

inputs    what the workflow asks for                 event     what happened, from the runner's event file
span      which commits are compared, fetched        approval  who approved a change of the gate itself
gate      the story: event -> review -> post         outcome   outputs, job summary, exit code
artifact  what is uploaded                           incoming  the same, read back by a job that trusts nothing
posting   from a review to what is said about it
"""
