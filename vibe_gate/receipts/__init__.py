"""Receipts: statements about reviewed trees.

issue       made when a run is sealed               find             read from bundles and notes
signatures  ssh-keygen -Y                           notes            carried in refs/notes
status      what one receipt says of a commit       verify           every commit of a range
let_through which trees git hooks let pass          committed        commits linked to their reviews, bypasses
reuse       a signed pass that saves a question
"""
