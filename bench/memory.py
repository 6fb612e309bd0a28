"""How much memory an open `RunResult` takes, and how much less that is than loading its bundle at once.

    python bench/memory.py [--open 200]

Bundles of three sizes are recorded by the real recorder under a temporary directory: a
small turn, a large one (2,000 tool calls, 400 changed files), and a whole run of eight such
turns. Each is opened many times over, and what `tracemalloc` counts is divided by their
number. Eager is the same bundle with every log, document and content parsed and held, as
a context object that loads its fields would. Goals: 10 KB for an open one, 1,500 times less.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "tests"))

from bundle_words import KEY, START, Clock, Ended, Hush, summary_of  # noqa: E402

from vibe_gate.domain.turn import TurnChange, TurnFile  # noqa: E402
from vibe_gate.store import RunRecorder, Store, open_store  # noqa: E402
from vibe_gate.store.result import read_bundle  # noqa: E402

MAX_KB = 10.0
MIN_RATIO = 1500.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--open", type=int, default=200)
    options = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as name:
        for label, directory, large in bundles(Path(name)):
            lazy = (
                held(lambda directory=directory: [read_bundle(directory) for _ in range(options.open)]) / options.open
            )
            eager = held(lambda directory=directory: everything(directory))
            ratio = eager / lazy
            missed = missed or lazy > MAX_KB * 1000 or (large and ratio < MIN_RATIO)
            print(f"{label:32} open {lazy / 1000:6.1f} KB   eager {eager / 1e6:8.2f} MB   {ratio:9,.0f} x less")
    print(f"goals: {MAX_KB} KB each, {MIN_RATIO:,.0f} x less for a large bundle")
    if missed:
        sys.exit("missed")


def held(load: Callable[[], Any]) -> int:
    """Bytes that are still allocated while the result of `load` is held; the imports' own are counted before."""
    load()
    gc.collect()
    tracemalloc.start()
    kept = load()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept is not None
    return size


def everything(directory: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = {}
    for path in directory.rglob("*"):
        if not path.is_file():
            continue
        data = path.read_bytes()
        if path.suffix == ".ndjson":
            loaded[str(path)] = [json.loads(line) for line in data.splitlines()]
        elif path.suffix == ".json":
            loaded[str(path)] = json.loads(data)
        else:
            loaded[str(path)] = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
    return loaded


def store_in(directory: Path) -> Store:
    directory.mkdir()
    return open_store(directory, Hush(), Clock())


def bundles(root: Path) -> list[tuple[str, Path, bool]]:
    small, large, whole = (store_in(root / name) for name in ("small", "large", "whole"))
    found = []
    for label, store, turns, calls, files in (
        ("a small turn", small, 1, 10, 3),
        ("a large turn", large, 1, 2000, 400),
        ("a run of eight large turns", whole, 8, 2000, 400),
    ):
        with store.begin(KEY, START, {"workflow": "review"}) as run:
            for number in range(turns):
                turn(run, f"fix-{number}", calls, files)
            run.seal(summary_of(run))
        assert run.lost is None, run.lost
        turn_folder = run.directory / "nodes/fix-0/turn-001"
        found.append((label, run.directory if turns > 1 else turn_folder, calls > 1000))
    return found


def turn(run: RunRecorder, node: str, calls: int, files: int) -> None:
    recorder = run.turn(node)
    text = "def price(order):\n    return sum(line.amount for line in order.lines)\n"
    for number in range(calls):
        name = f"toolu_{number:024d}"
        asked = {"file_path": f"src/module{number}.py", "old_string": text, "new_string": text * 2}
        call = {
            "type": "message",
            "role": "assistant",
            "content": "",
            "tool": "Edit",
            "tool_use_id": name,
            "input": asked,
        }
        recorder.event(call)
        hook = {"tool_name": "Edit", "tool_use_id": name, "tool_input": asked, "cwd": "/repo"}
        recorder.hook({"hook_event_name": "PreToolUse", **hook})
        recorder.hook({"hook_event_name": "PostToolUse", **hook, "tool_response": {"content": text * 10}})
        recorder.event({"type": "message", "role": "tool", "tool_use_id": name, "result": text * 10})
    changed = tuple(file(recorder, number, text) for number in range(files))
    recorder.seal(Ended(), TurnChange(b"", None, changed))


def file(recorder: Any, number: int, text: str) -> TurnFile:
    before, after = f"# {number}\n{text * 200}".encode(), f"# {number}\n{text * 201}".encode()
    sides = {"before": recorder.content("before", before), "after": recorder.content("after", after)}
    return TurnFile(path=f"src/module{number}.py", change_type="modified", added=2, deleted=0, **sides)


if __name__ == "__main__":
    main()
