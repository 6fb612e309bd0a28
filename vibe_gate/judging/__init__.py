"""Judging: the brief, the votes, the evidence and what they come to."""
