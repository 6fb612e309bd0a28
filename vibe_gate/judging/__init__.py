"""Judging: ask the open questions, check the answers, decide.

judge     the judges' answers: known ones, else asked   asking    the conversations: export the trees, ask, compare
open_model  the way to the model that they share
questions what is asked, its key, its votes             votes     one rubric asked vote by vote
brief     what a judge is told                          evidence  a quotation compared with the file
answers   what was answered, or why nobody was asked    decide    the arithmetic of answers
findings  what is pointed at, with fingerprints         verdict   answers -> rubric results, findings, outcome
"""
