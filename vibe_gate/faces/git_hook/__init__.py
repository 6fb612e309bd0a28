"""The face that git calls: `vibe-gate hook STAGE`, and the scripts that `vibe-gate install git` writes.

call.py        one call by git: environment, arguments, time
effect.py      what an exit code does here: stop git, warn, or pass (pure)
held.py        pre-commit, pre-merge-commit, manual: the review of a change, said and recorded
push.py        pre-push: what each ref brings, and whether each of its commits has a verdict already
message.py     commit-msg: what the message says of its author
record.py      post-commit, post-rewrite: which commit a reviewed tree became, and what went past the gate
transaction.py reference-transaction: an agent moves a branch only to what a hook let through
scripts.py     the hooks as sh (pure)
install.py     writing them beside others, and taking them away again
"""
