"""`vibe-gate action`: a pull request's job. What the runner says comes in here; verdict, comment
and outputs go out.

inputs              what the workflow asks for
trigger             what happened, from the runner's event file
commit_range        which commits are compared, fetched if they are missing
job                 the walk: trigger -> review -> report
job_check           what GitHub shows before there is a verdict, and if there is none
job_report          what people and later steps read of the review
approvals           who approved a change of the gate itself, or accepted findings
issues              what the issues that the pull request closes say
travelling_answers  judges' answers that travel between jobs
standing            the verdict that an earlier job left for the commit
look                what a job that a review of the pull request started comes to
replayed_history    what the change's rubrics would have said of earlier runs
report_inputs       what a report takes from the clone: the recorded change, lines changed since
runner              outputs, job summary, workflow commands
comment_commands    `/vibe-gate` in a comment
comment_labels      what people say of findings, in comments and by thumbs
relay               `post --from-artifact`: posts what another job claims
incoming            what that job uploaded, read back without trust
"""
