"""The face that git calls: `vibe-gate hook STAGE`, and the scripts that `vibe-gate install git` writes.

call.py        one call by git: its environment and arguments, and what a verdict does to git
reviewing.py   pre-commit, pre-merge-commit, manual: review a change, report the result, record it
message.py     commit-msg: review again if the message names an agent
push.py        pre-push: what each ref brings, and whether each of its commits has a verdict already
record.py      post-commit, post-rewrite: which commit a reviewed tree became, and which no hook let through
transaction.py reference-transaction: refuse an agent's commits that no hook let through
scripts.py     the hooks as sh (pure)
install.py     write the hooks beside those of other tools, and remove them
"""
