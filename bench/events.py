"""How long a timeline of 1,000,000 events takes to stream, as a ratio to `wc -l` of the same logs.

    python bench/events.py [--events 1000000] [--pairs 7]

A sealed run with one turn is generated under bench/.work, its lines like those of a session
that reads very short files: half the SDK's stream, half hook events with the tool's input and
response. The mean length of a line is printed, for the longer the lines, the better the ratio:
here 440 bytes, in a real session with the real CLI (`vibe-gate demo`) 1,150, in the made-up
sample bundle of the tests 125. `--lines N` sets it: files of 4 N lines are read.
`wc -l` and the streaming run in turn, A B A B ...; the figure is the median of the pairs'
ratios, with all of them beside it. Streaming is timed in a process of its own, from the opened
bundle to the last event, with every event handed out one by one and the logs compared with
the seal, which takes a second core; its memory is the growth of the process's peak over what
the imports took. For comparison the same lines through `json`, and as msgspec structs of a
number and a time, the least that a reader in Python has to do; neither merged nor compared.
Goals: 7.5 times, 20 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from vibe_gate.domain.summary import ChangeSummary, Summary, Trusted  # noqa: E402
from vibe_gate.domain.turn import TurnSummary  # noqa: E402
from vibe_gate.store.consistency import digests  # noqa: E402
from vibe_gate.store.folder import Folder  # noqa: E402

STREAM = """
import asyncio, resource, sys, time
from vibe_gate.store.result import read_bundle
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
async def stream(result):
    count = 0
    async for event in result.timeline.events():
        count += 1
    return count
result = read_bundle(sys.argv[1])
before, started = peak(), time.perf_counter()
count = asyncio.run(stream(result))
print(time.perf_counter() - started, peak() - before, peak(), count)
"""
JSON = """
import json, sys, time
started = time.perf_counter()
count = 0
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        for line in file:
            json.loads(line)
            count += 1
print(time.perf_counter() - started, 0, 0, count)
"""
THIN = """
import msgspec, sys, time
class Line(msgspec.Struct, gc=False):
    seq: int
    ts: int
decode = msgspec.json.Decoder(Line).decode_lines
started = time.perf_counter()
count = 0
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        while lines := file.readlines(1 << 20):
            for line in decode(b"".join(lines)):
                count += 1
print(time.perf_counter() - started, 0, 0, count)
"""
SESSION = "5e551011-0000-4000-8000-000000000001"
RUN_ID = "20260102T030405678Z-0123abcd"
KEY = "5d401b9fe8ba4c1b8d0a2a8a7cf2b0b0a1b2c3d4"
START_MS = 1767323045678
MAX_RATIO = 7.5
MAX_MB = 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--lines", type=int, default=2, help="a quarter of the lines of each file that is read")
    options = parser.parse_args()
    run = HERE / ".work" / f"events-{options.events}-{options.lines}" / RUN_ID
    if not (run / "summary.json").exists():
        print(f"generating {options.events:,} events ...")
        generate(run, options.events, options.lines)
    turn = run / "nodes/judge-quality/turn-001"
    logs = [turn / "events.ndjson", turn / "hooks.ndjson"]
    size = sum(log.stat().st_size for log in logs)
    each = size / options.events
    print(f"{options.events:,} events in {size / 1e6:,.0f} MB, {each:.0f} bytes a line, {options.pairs} pairs")
    report(turn, logs, options)


def report(turn: Path, logs: list[Path], options: argparse.Namespace) -> None:
    ratios, others, thin, wcs, grown, whole = [], [], [], [], [], []
    for pair in range(options.pairs):
        counted = count_lines(logs)
        seconds, kilobytes, peak, count = measured(STREAM, turn)
        if count != options.events:
            sys.exit(f"wrong: {count:,} of {options.events:,} events came")
        wcs.append(counted)
        thin.append(measured(THIN, *logs)[0] / counted)
        ratios.append(seconds / counted)
        grown.append(kilobytes * 1024 / 1e6)
        whole.append(peak * 1024 / 1e6)
        if pair < 2:
            others.append(measured(JSON, *logs)[0])
    ratio, memory = statistics.median(ratios), max(grown)
    each = ", ".join(f"{one:.1f}" for one in sorted(ratios))
    print(f"wc -l            {statistics.median(wcs) * 1000:8.1f} ms")
    print(f"timeline.events  {ratio:8.2f} x wc -l    goal {MAX_RATIO}  ({each})")
    print(f"memory           {memory:8.1f} MB          goal {MAX_MB}   (the whole process {max(whole):.0f} MB)")
    print(f"structs, unmerged{statistics.median(thin):8.2f} x wc -l")
    print(f"json, unmerged   {statistics.median(others) / statistics.median(wcs):8.2f} x wc -l")
    if ratio > MAX_RATIO or memory > MAX_MB:
        sys.exit("missed")


def count_lines(logs: list[Path]) -> float:
    started = time.perf_counter()
    subprocess.run(["wc", "-l", *logs], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def measured(script: str, *paths: Path) -> tuple[float, int, int, int]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, paths)], env=env, check=True, capture_output=True, text=True
    )
    seconds, grown, peak, count = done.stdout.split()
    return float(seconds), int(grown), int(peak), int(count)


def generate(run: Path, events: int, lines: int) -> None:
    turn = run / "nodes/judge-quality/turn-001"
    turn.mkdir(parents=True, exist_ok=True)
    with (turn / "events.ndjson").open("w") as sdk, (turn / "hooks.ndjson").open("w") as hooks:
        numbers = {sdk: 0, hooks: 0}
        for index, (log, event) in enumerate(conversation(events, lines)):
            out = sdk if log == "sdk" else hooks
            line = {"seq": numbers[out], "ts": START_MS + index * 2} | event
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
            numbers[out] += 1
    write_documents(run, turn)


def conversation(events: int, lines: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """A quarter each: a call, its start, its end, its result."""
    content = "def price(order):\n    return sum(line.amount for line in order.lines)\n\n\n" * lines
    for index in range(events // 4):
        name = f"toolu_{index:024d}"
        asked = {"file_path": f"/repo/src/area{index % 13}/module{index % 101}.py", "offset": index % 400, "limit": 120}
        about = {
            "session_id": SESSION, "transcript_path": f"/home/ada/.claude/projects/repo/{SESSION}.jsonl",
            "cwd": "/repo", "permission_mode": "dontAsk",
        }  # fmt: skip
        call = {
            "tool": "Read",
            "tool_use_id": name,
            "input": asked,
            "model": "claude-sonnet-5",
            "message_id": f"m{index}",
        }
        yield "sdk", {"type": "message", "role": "assistant", "content": "", **call}
        started = {"hook": "PreToolUse", "tool_use_id": name, **about, "hook_event_name": "PreToolUse"}
        yield "hook", {**started, "tool_name": "Read", "tool_input": asked}
        ended = {"hook": "PostToolUse", "tool_use_id": name, **about, "hook_event_name": "PostToolUse"}
        file = {
            "filePath": asked["file_path"],
            "content": content,
            "numLines": 4 * lines,
            "startLine": 1,
            "totalLines": 4 * lines,
        }
        response = {"type": "text", "file": file}
        yield "hook", {**ended, "tool_name": "Read", "tool_input": asked, "tool_response": response}
        yield "sdk", {"type": "message", "role": "tool", "result": content, "tool_use_id": name, "is_error": False}


def write_documents(run: Path, turn: Path) -> None:
    summary = TurnSummary(test_id=f"{RUN_ID}/judge-quality/turn-001", session_id=SESSION, status="answered")
    (turn / "summary.json").write_text(summary.model_dump_json(by_alias=True, exclude_none=True))
    (run / "run.json").write_text(json.dumps({"schema": 1, "run_id": RUN_ID, "key": KEY}))
    started = {
        "seq": 1, "ts": "2026-01-02T03:04:05.678Z", "type": "turn.started", "run_id": RUN_ID,
        "node_id": "judge-quality", "data": {"turn": "turn-001"},
    }  # fmt: skip
    (run / "events.ndjson").write_text(json.dumps(started) + "\n")
    change = ChangeSummary(
        before="b" * 40, after="c" * 40, base_commit="a" * 40, head_commit=KEY, patch_id="", range_patch_id="", files=()
    )
    verdict = Summary(
        run_id=RUN_ID, key=KEY, workflow="review", outcome="pass", exit_code=0, bundle="",
        trusted=Trusted(revision="", bootstrap=False), change=change,
    )  # fmt: skip
    document = verdict.model_dump(mode="json", by_alias=True) | {"digests": digests(Folder.at(run))}
    (run / "summary.json").write_text(json.dumps(document))


if __name__ == "__main__":
    main()
