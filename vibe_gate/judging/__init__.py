"""Judging: ask the open questions, check the answers, decide.

answers     why no judge is asked                       judge     the judges' answers: known ones, else asked
questions   what is asked, its key, its votes           brief     what a judge is told
votes       one question asked vote by vote             reading   a model's answer, and what its form lacks
evidence    a quotation compared with the file          vote_counting  votes -> the result of a criterion
rubric_tally  criteria -> rubric, run, exit code        decide    the rubrics without what people let pass
findings    what is pointed at, with fingerprints       verdict   answers -> rubric results, findings, outcome
surroundings  what stands around a change               second_look  a fail put to one more conversation
second_look_brief  what that is told                    asking    export the trees, ask, compare the trees
judged_trees  where the trees stand that judges read
"""
