"""What Claude Code's hooks cost: one call against a bare interpreter, and whole sessions with and
without.

    python bench/capture.py [--pairs 41] [--sessions 7] [--calls 30]

Of no pairs one round is timed, without one to warm up before it.

Interleaved pairs, medians, ratios. The sessions are the real CLI with a scripted model that asks
for thirty tool calls one after the other; hooks are those of `vibe-gate install claude`.

Goals: capture <= 1.0 x `python -c pass` at 2 KB and at 200 KB; a session with capture
<= 1.3 x without, with capture and guard <= 1.7 x.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from claude_cli import calls, cli_environ  # noqa: E402
from scripted_messages_api import ToolUse  # noqa: E402
from wire import answering  # noqa: E402

from vibe_gate.agent import find_cli  # noqa: E402
from vibe_gate.faces.agent_hook import capture, guard  # noqa: E402
from vibe_gate.faces.agent_hook.hooked_agents import CLAUDE  # noqa: E402

CALL_GOAL = 1.0
CAPTURE_GOAL = 1.3
GUARD_GOAL = 1.7
CALLS = 30


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=41, help="pairs of single calls")
    parser.add_argument("--sessions", type=int, default=7, help="pairs of whole sessions")
    parser.add_argument("--calls", type=int, default=CALLS, help="tool calls of a session")
    args = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="vibe-gate-bench-"))
    try:
        good = [single(place, script, size, goal, args.pairs) for script, size, goal in SINGLE]
        good += sessions(place, args.sessions, args.calls)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print("all goals reached" if all(good) else "a goal was missed")
    return 0 if all(good) else 1


SINGLE = (
    (capture.__file__, 2_000, CALL_GOAL),
    (capture.__file__, 200_000, CALL_GOAL),
    (guard.__file__, 2_000, None),
)


def event(size: int) -> bytes:
    """A PostToolUse event of about `size` bytes, as the CLI writes it."""
    given = {
        "session_id": "0f3c9a1e-1111-2222-3333-444455556666",
        "cwd": "/",
        "hook_event_name": "PostToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "/x/a.py", "content": "value = 1\n" * (size // 11)},
    }
    return json.dumps(given, separators=(",", ":")).encode()


def repository(place: Path) -> Path:
    where = Path(tempfile.mkdtemp(dir=place))
    subprocess.run(["git", "init", "-q"], cwd=where, check=True)
    return where


def single(place: Path, script: str, size: int, goal: float | None, pairs: int) -> bool:
    """One call of a script against a bare interpreter that does nothing with the same stdin."""
    where, given = repository(place), place / f"event-{size}"
    given.write_bytes(event(size))
    ours, bare = [sys.executable, "-I", "-S", script], [sys.executable, "-c", "pass"]
    times: list[tuple[float, float]] = []
    os.chdir(where)
    warming = 3 if pairs else 0
    for number in range(warming + max(1, pairs)):
        if number % 2:
            pair = spend(ours, given), spend(bare, given)
        else:
            pair = tuple(reversed((spend(bare, given), spend(ours, given))))  # type: ignore[assignment]
        if number >= warming:
            times.append(pair)
    ratio = statistics.median(mine / other for mine, other in times)
    name = f"{Path(script).stem}, {size // 1000} KB"
    return tell(name, [a for a, _ in times], [b for _, b in times], ratio, "python -c pass", goal)


def spend(command: list[str], given: Path) -> float:
    """Seconds from the start of the process to its end."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, str(given), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    began = time.perf_counter()
    _, status = os.waitpid(os.posix_spawn(command[0], command, os.environ, file_actions=actions), 0)
    took = time.perf_counter() - began
    if status:
        raise SystemExit(f"{command} failed")
    return took


def sessions(place: Path, pairs: int, count: int) -> list[bool]:
    """Whole sessions: without hooks, with capture, with capture and guard."""
    everything = CLAUDE.hooks()
    only_capture = {name: groups for name, groups in everything.items() if name != "PreToolUse"}
    kinds: dict[str, dict[str, Any]] = {"without": {}, "capture": only_capture, "both": everything}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    warming = 1 if pairs else 0
    for number in range(warming + max(1, pairs)):
        order = list(kinds) if number % 2 else list(reversed(kinds))
        for kind in order:
            took = session(place, kinds[kind], count)
            if number >= warming:
                times[kind].append(took)
    reached = []
    for kind, goal in (("capture", CAPTURE_GOAL), ("both", GUARD_GOAL)):
        ratio = statistics.median(a / b for a, b in zip(times[kind], times["without"], strict=True))
        name = f"{count} tool calls, " + ("capture" if kind == "capture" else "capture and guard")
        reached.append(tell(name, times[kind], times["without"], ratio, "no hooks", goal))
    return reached


def session(place: Path, settings: dict[str, Any], count: int) -> float:
    """Seconds of one session of the real CLI."""
    where, home = repository(place), Path(tempfile.mkdtemp(dir=place))
    (where / ".claude").mkdir()
    (where / ".claude" / "settings.json").write_text(json.dumps({"hooks": settings}))
    tools = [tool(where, number) for number in range(count)]
    with answering(*calls(*tools)) as model:
        command = [
            *(
                str(find_cli(os.environ["PATH"])),
                "-p",
                "go",
                "--output-format",
                "stream-json",
                "--verbose",
            ),
            *("--permission-mode", "acceptEdits", "--allowedTools", "Bash", "Read", "Write"),
            *("--setting-sources", "project"),
        ]
        began = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=where,
            env=cli_environ(home) | model.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        took = time.perf_counter() - began
        if done.returncode or not model.script.finished:
            raise SystemExit(f"the session failed: {done.stdout[-500:]!r} {done.stderr[-500:]!r}")
    return took


def tool(where: Path, number: int) -> ToolUse:
    """What an agent does: it runs commands, writes files and reads them."""
    path = str(where / f"file{number // 3}.py")
    if number % 3 == 0:
        return ToolUse("Write", {"file_path": path, "content": f"value = {number}\n" * 100})
    if number % 3 == 1:
        return ToolUse("Read", {"file_path": path})
    return ToolUse("Bash", {"command": f"wc -l {path} && git status --short | head -3"})


def tell(
    name: str, mine: list[float], other: list[float], ratio: float, peer: str, goal: float | None
) -> bool:
    """One line; whether the goal is reached."""
    reached = goal is None or ratio <= goal
    wanted = "" if goal is None else f"  goal <= {goal}: {'yes' if reached else 'NO'}"
    left, right = statistics.median(mine) * 1e3, statistics.median(other) * 1e3
    print(
        f"{name:<36} {left:8.2f} ms   {peer:<16} {right:8.2f} ms   ratio {ratio:5.2f}{wanted}",
        flush=True,
    )
    return reached


if __name__ == "__main__":
    sys.exit(main())
