"""The store, `.vibe-artifacts`: runs recorded as they go, sealed last, read back with their hashes.
And state.db.

Other rooms import these modules, and no others (a contract in pyproject.toml):

    store        runs begin, and go on                recorder     one run, written as it goes
    result       a run or turn read back              session      messages, tool calls, events by time
    files        changed files, contents, patches     runs         lists of runs, and how one is found
    bundles      the runs of one working tree         gc           what is deleted
    checking     everything that is wrong             repair       tidies, and puts aside what is corrupt
    archive      runs into one tar.gz, and out of one, trusting nothing
    extracts     what figures take of summaries, kept in the index
    pages        a folder with the pages of many runs
    tested       what a run was for a test
    worktree_move the store of a linked worktree, moved into that of all working trees
    captures     sessions of coding agents, folded from what their hooks left
    captured     captured sessions read back: prompts, turns, models, writes
    state        what processes share: run index, records of git's hooks, overrides, labels, answers, spending
    shared       a bucket or folder that a team shares: answers, claims; nothing there is believed but for its code
    shared_runs  sealed runs there: uploaded, listed by their objects' names, fetched, verified

They are made of these:

    folder       directories held open, no links      log          NDJSON of whole lines, JSON of both directions
    names        which names a bundle may hold        artifacts    the folder itself, opened or made
    contents     files/ of a bundle                   bundle       where a bundle is, what its seal says
    recording    a failure ends the record alone      reopening    a run whose writer died goes on
    turn         one turn of a session, written       turn_summary the turn's document, its tool calls
    database/    the tables of state.db               answer_cache answers of this clone and of the team
    coded        the codes of shared objects          objects      the only importer of obstore
    writes       what each agent's events say: its prompts, and the files that its calls wrote
    stored_writes  writes.jsonl: what is kept of each write, as digests of lines
    captured_writes  captured writes, read back       applied      what our own agents wrote by `--apply`

The format, file by file: docs/reference/bundles.md.
"""
