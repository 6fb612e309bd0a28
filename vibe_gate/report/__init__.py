"""A run as text, and posted to the forge.

report          what is reported of a run; links: addresses; anchors: lines that take comments
queries         which criteria, findings and places of a summary a report is about
sentences       what is said of a verdict, the same everywhere
verdict_screen  the verdict in a terminal, of screen_criteria, screen_findings, screen_rows
comment         a pull request's comment and the job summary; next_step: what its reader does next
markdown        text of others as Markdown that acts on nothing
annotations     check run; finding_comments: review comments; workflow_commands; suggestions: suggested
                changes
round           what was said before, what is new since
posting         all of it posted to the forge
sarif           SARIF 2.1.0; junit: JUnit XML; code_quality: GitLab
html            the page of a run; markup: elements, with everything escaped; svg: pictures
finding_list    the findings as a coding agent is handed them
text_graph      a run's graph as text; node_outcomes: how its checks and judges came out
blame_rows      who wrote the lines of a file
turns           what a turn's log says of model and tokens; waits: when it waited
spans           the run as a trace
charts          bars and sparklines of a terminal
run_list        tables of runs; statistics: what runs come to
commit_reviews  reviews of the commits of a range; verified: tables of commits
"""
