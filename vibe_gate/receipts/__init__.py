"""Receipts: statements about reviewed trees.

issue       made when a run is sealed        find             read from bundles and notes
signatures  ssh-keygen -Y                    notes            carried in refs/notes
status      what one receipt says of a commit    segments     what several say of a range
verify      every commit of a range          verify_artifact  a claimed verdict of another job
reuse       a signed pass that saves a question
"""
