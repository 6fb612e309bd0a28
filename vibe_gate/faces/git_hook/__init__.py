"""The face that git calls: `vibe-gate hook STAGE`, and the scripts that `vibe-gate install git`
writes.

call.py        one call by git: its environment and arguments, and what a verdict does to git
reviewing.py   pre-commit, pre-merge-commit, pre-push: review a change, report the result, record it
sharing.py     pre-push: what people asked for leaves with the commits, if they agree; terminal.py: where they are asked
waiting_notice.py  what a person is told of a review that takes longer than a moment
message.py     commit-msg: review again if the message names an agent
record.py      post-commit, post-rewrite, reference-transaction: which commits no hook let through
unreviewed.py  what a hook says and does if vibe-gate itself failed
hidden_output.py  what pre-commit and prek would hide
install.py     the hooks as sh, beside those of other tools, and away again
frameworks.py  whose a hook is, and whether it runs vibe-gate; framework_advice.py: what a framework's settings lack
"""
