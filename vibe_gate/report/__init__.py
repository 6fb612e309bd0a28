"""A run as text, and posted to the forge.

terminal, words  the screen and its sentences            report       what is told of a run; links, lines
comment          a pull request's comment, job summary   annotations  check run, review comments, workflow commands
formats          SARIF, JUnit, GitLab                    markdown     text of others that acts on nothing
posting, round   what is posted, what is new since       listing, verified   tables of runs, of commits
"""
