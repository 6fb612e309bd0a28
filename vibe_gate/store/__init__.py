"""The store, `.vibe-artifacts`: runs recorded as they go, sealed last, read back with their hashes.
And state.db.

Other rooms import these modules, and no others (a contract in pyproject.toml):

    store            runs begin, and go on             run_recorder     one run, written as it goes
    run_result       a run or turn read back           bundle_events    messages, tool calls, a timeline
    turn_chain       a turn with those whose files it began with
    changed_files    changed files, contents, patches  bundle_listing   lists of runs, and how one is found
    worktree_bundles the runs of one working tree      store_cleaning   what is deleted
    store_audit      everything that is wrong          store_repair     tidies, puts aside what is corrupt
    run_archive      runs into one tar.xz, and out of one, trusting nothing
    summary_extracts what figures take of summaries, kept in the index
    pages_folder     a folder with the pages of many runs
    tested_runs      what a run was for a test
    worktree_move    the store of a linked worktree, moved into that of all working trees
    captures         sessions of coding agents, folded from what their hooks left
    captured_turns   captured sessions read back: prompts, turns, models
    captured_heads   what lists say of captured sessions
    captured_conduct what a captured session did until now
    session_acts     what a captured session ran, wrote and said, in its order
    captured_writes  what captured sessions wrote
    applied_writes   what our own agents wrote by `--apply`
    stored_writes    writes.jsonl: what is kept of each write, as digests of lines
    clone_state      what processes share: run index, records of git's hooks, overrides, labels, answers, spending
    shared_store     a bucket or folder that a team shares: answers, claims; nothing there is believed but for its code
    shared_runs      sealed runs there: uploaded, listed by their objects' names, fetched, verified

They are made of these:

    folder           directories held open, no links   ndjson_log       NDJSON of whole lines, and its locks
    bundle_names     which names a bundle may hold     store_folder     the folder itself, opened or made
    bundle_location  where a bundle is, and its logs   bundle_seal      what a run's seal vouches for
    contents         files/ of a bundle
    recording_status a failure ends the record alone   run_reopening    a run whose writer died goes on
    turn_recorder    one turn of a session, written    turn_summary     the turn's document, its tool calls
    database/        the tables of state.db            answer_cache     answers of this clone and of the team
    object_codes     the codes of shared objects       object_storage   the only importer of obstore
    agent_events     what each agent's events say: its prompts, commands, last words
    event_writes     the files that a captured call wrote, read back from disk
    event_parts, claude_events, gemini_events, codex_events   how an event is read, by agent
    stored_writes    writes.jsonl: what is kept of each write, as digests of lines
    captured_writes  captured writes, read back        applied_writes   what our own agents wrote by `--apply`

The format, file by file: docs/reference/bundles.md.
"""
