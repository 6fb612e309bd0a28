"""Reading the timeline of a turn with a long log: seconds to the first event and to the last, and
how much memory that takes.

    python bench/timeline.py [--megabytes 82]

The turn is one folder, copied out of its run: three messages for each hook, a thousand characters
each. Seconds by the wall clock; megabytes are by how much the process grew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from pathlib import Path

from vibe_gate.store.run_result import RunResult, read_bundle

START_MS = 1_767_323_045_000
BYTES_PER_ROUND = 4_350  # three messages and a hook
MEGABYTE = 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=82, help="of both logs (default: 82)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "turn"
        write_turn(folder, options.megabytes * MEGABYTE // BYTES_PER_ROUND)
        size = sum(file.stat().st_size for file in folder.iterdir())
        before = peak_megabytes()
        first_s, all_s, count = asyncio.run(read_all(read_bundle(folder)))
        grown = peak_megabytes() - before
        print(f"{size / MEGABYTE:.0f} MB, {count:,} events")
        print(f"first event {first_s:.3f} s, all {all_s:.2f} s, memory +{grown:.1f} MB")
    return 0


def write_turn(folder: Path, rounds: int) -> None:
    """A turn's two logs."""
    folder.mkdir()
    with (
        (folder / "events.ndjson").open("w") as events,
        (folder / "hooks.ndjson").open("w") as hooks,
    ):
        for number in range(rounds):
            ts = START_MS + number * 10
            for part in range(3):
                message = {"seq": 3 * number + part, "ts": ts + part, "type": "message"}
                speech = {"role": "assistant", "content": "x" * 1_000}
                events.write(json.dumps(message | speech) + "\n")
            hook = {"seq": number, "ts": ts + 3, "hook": "PreToolUse", "tool_name": "Read"}
            call = {"tool_use_id": f"toolu_{number}", "tool_input": {"file_path": "x" * 1_000}}
            hooks.write(json.dumps(hook | call) + "\n")


async def read_all(result: RunResult) -> tuple[float, float, int]:
    """Seconds to the first event and to the end, and how many events there are."""
    start = time.perf_counter()
    first_s = 0.0
    count = 0
    async for _ in result.timeline.events():
        count += 1
        first_s = first_s or time.perf_counter() - start
    return first_s, time.perf_counter() - start, count


def peak_megabytes() -> float:
    """The most memory that the process had until now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGABYTE


if __name__ == "__main__":
    raise SystemExit(main())
