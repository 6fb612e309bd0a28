"""Judging: ask the open questions, check the answers, decide.

judge     the judges of one review: export, gateway, rubrics   brief     what a judge is told and asked
votes     one rubric asked vote by vote                        question  the key of a question in the cache
evidence  a quotation compared with the changed file           deadline  a limit for work that does not watch the clock
assemble  answers -> rubric results, findings, verdict
"""
