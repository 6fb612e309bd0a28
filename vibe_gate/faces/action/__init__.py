"""`vibe-gate action`: a pull request's job. What the runner says comes in here; verdict, comment
and outputs go out.

inputs        what the workflow asks for
event         what happened, from the runner's event file
commit_range  which commits are compared, fetched if they are missing
job_check     what GitHub shows before there is a verdict, and if there is none
job           the walk: event -> review -> post
approval      who approved a change of the gate itself
issues        what the issues that the pull request closes say
answers       judges' answers that travel between jobs
report_inputs what a report takes from the clone: the recorded change, lines changed since
runner        outputs, job summary, workflow commands
commands      `/vibe-gate` in a comment
relay         `post --from-artifact`: posts what another job claims
incoming      what that job uploaded, read back without trust
"""
