"""The face that git calls: `vibe-gate hook STAGE`, and the scripts that `vibe-gate install git` writes.

call.py        one call by git: environment, arguments, time
effect.py      what an exit code does here: stop git, warn, or pass (pure)
stages.py      pre-commit, pre-merge-commit, manual: which change
push.py        pre-push: what each ref brings, and whether each of its commits has a verdict already
message.py     commit-msg: what the message says of its author
held.py        the review of that change, said and written down
record.py      post-commit, post-rewrite: which commit a reviewed tree became, and what went past the gate
scripts.py     the hooks as sh (pure)
edition.py     which edition of them this version writes
install.py     writing them beside others, and taking them away again
"""
