"""`<common git dir>/vibe-gate/state.db`: what several processes share, as tables. The only importer
of sqlite3.

    state_file      the file: opened, waited for, put aside if it is damaged
    state_schema    every table, made at once
    state_table     what the classes below have in common
    run_index       what lists and figures say of runs; made again from the bundles if it is missing or wrong
    hook_records    what git's hooks saw
    override_table  what people let pass in this clone
    label_table     what people say of findings: right or wrong
    answer_table    what models answered
    day_spending    USD by day
    begun_runs      which runs and sessions began in this clone
    captured_blobs  what captured sessions wrote and when, where linked worktrees are, the key of the digests of lines
    applied_lines   what our own agents wrote, put into the working tree by `--apply`

`store/clone_state.py` has all of them as one value.
"""
