"""The store, `.vibe-artifacts`: runs recorded as they go, sealed last, read back with their hashes.

    store        runs begin, and go on                  artifacts the folder itself, opened or made
    recorder     one run, written as it goes            turn      one turn of a session
    recording    a failure ends the record alone        reopening a run whose writer died goes on
    turn_summary the turn's document, its tool calls    contents  files/ of a bundle
    log          NDJSON of whole lines, JSON of both directions
    folder       directories held open, no links        names     which names a bundle may hold
    bundle       where a bundle is, what its seal says  result    a run or turn read back: `read_bundle`
    session      messages, tool calls, events by time   files     changed files, contents and patches
    runs         lists and finding of runs              bundles   `Bundles`: all that is done with them
    gc           what is deleted                        checking  everything that is wrong
    pages        a folder with the pages of many runs
    tested       what a run was for a test
    extracts     what figures take of summaries, kept in the index
    repair       tidies, and puts aside what is corrupt
    archive      runs into one tar.gz, and out of one, trusting nothing
    state        what processes share: run index, records of git's hooks, overrides, labels, answers,
                 spending
    shared       a bucket or folder that a team shares: answers, claims; nothing there is believed but for its code
    shared_runs  sealed runs there: uploaded, listed by their objects' names, fetched, verified
    coded        the codes of what lies there                objects   the only importer of obstore
    takeover     the store of a linked worktree, moved into that of all working trees
    captures     sessions of coding agents, folded from what their hooks left
    writes       what each agent's events say: its prompts, and the files that its calls wrote
    kept_writes  writes.jsonl: what is kept of each write, as digests of lines
    applied      what our own agents wrote, when a run's patch was put into the working tree
    captured     captured sessions read back: prompts, turns, models, and (captured_writes) writes

The format, file by file: docs/reference/bundles.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vibe_gate.store import captured, captures
    from vibe_gate.store.bundles import Bundles
    from vibe_gate.store.files import FileChange
    from vibe_gate.store.gc import clean_bundles
    from vibe_gate.store.recorder import RunRecorder
    from vibe_gate.store.result import Attachment, RunResult, read_bundle
    from vibe_gate.store.runs import find_bundles
    from vibe_gate.store.shared import SharedStore
    from vibe_gate.store.state import State, open_state
    from vibe_gate.store.store import Store, open_store

__all__ = [
    "Attachment", "Bundles", "FileChange", "RunRecorder", "RunResult", "SharedStore", "State", "Store",
    "captured", "captures", "clean_bundles", "find_bundles", "open_state", "open_store", "read_bundle",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Load a name on first use: a review needs the recorder alone, `bundles list` the runs alone."""
    value: object
    match name:
        case "open_store" | "Store":
            from vibe_gate.store import store

            value = getattr(store, name)
        case "RunRecorder":
            from vibe_gate.store.recorder import RunRecorder

            value = RunRecorder
        case "Bundles":
            from vibe_gate.store.bundles import Bundles

            value = Bundles
        case "find_bundles":
            from vibe_gate.store.runs import find_bundles

            value = find_bundles
        case "SharedStore":
            from vibe_gate.store.shared import SharedStore

            value = SharedStore
        case "open_state" | "State":
            from vibe_gate.store import state

            value = getattr(state, name)
        case "clean_bundles":
            from vibe_gate.store.gc import clean_bundles

            value = clean_bundles
        case "read_bundle" | "RunResult" | "Attachment":
            from vibe_gate.store import result

            value = getattr(result, name)
        case "FileChange":
            from vibe_gate.store.files import FileChange

            value = FileChange
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
