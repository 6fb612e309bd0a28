"""Receipts: statements about reviewed trees.

issue_receipt  made when a run is sealed              find_receipts   read from bundles and notes
signatures     ssh-keygen -Y                          receipt_notes   carried in refs/notes
commit_status  what one receipt says of a commit      verify_range    every commit of a range
let_through    which trees git hooks let pass         commit_records  commits linked to their reviews, bypasses
reused_answers a signed pass that saves a question    earlier_commits what commits were before a rebase
"""
