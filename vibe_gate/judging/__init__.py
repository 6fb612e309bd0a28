"""Judging: ask the open questions, check the answers, decide.

answers     why no judge is asked                       judge     the judges' answers: known ones, else asked
questions   what is asked, its key, its votes           brief     what a judge is told
open_model  the way to the model, shared by all         asking    export the trees, ask, compare the trees
votes       one question asked vote by vote             evidence  a quotation compared with the file
findings    what is pointed at, with fingerprints       decide    the arithmetic of answers
surroundings  what stands around a change               verdict   answers -> rubric results, findings, outcome
"""
