"""How long a run's graph of a thousand nodes takes: its log read and folded, then drawn.

    python bench/graph.py [--nodes 1000] [--times 9]

Goal: a thousand nodes read, folded and drawn in both layouts in less than a second of the processor.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from vibe_gate.domain.event import fold
from vibe_gate.report.graph import drawn, listed
from vibe_gate.store.bundle import parse_events

GOAL_S = 1.0


def log(nodes: int) -> list[bytes]:
    """A loop of three stages, each after the one before, every third after two."""
    lines: list[bytes] = []

    def add(type: str, node: str | None, **data: object) -> None:
        event = {"seq": len(lines) + 1, "ts": "2026-01-02T03:04:05.678Z", "type": type, "run_id": "r", "data": data}
        lines.append(json.dumps(event | ({"node_id": node} if node else {})).encode() + b"\n")

    for number in range(nodes):
        node = f"stage-{number:04}"
        add("node.added", node, kind="stage", agent="fixer", digest="d" * 64)
        if number:
            add("edge.added", None, **{"from": f"stage-{number - 1:04}", "to": node})
        if number % 3 == 2:
            add("edge.added", None, **{"from": f"stage-{number - 2:04}", "to": node})
        add("node.status", node, status="RUNNING")
        add("turn.started", node, turn="turn-001")
        add("turn.completed", node, turn="turn-001", status="done", usd=0.01, before="a" * 40, after="b" * 40)
        add("node.status", node, status="DONE", outcome="pass")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--times", type=int, default=9)
    args = parser.parse_args()
    lines = log(args.nodes)
    taken: dict[str, list[float]] = {"read and folded": [], "list": [], "dag": []}
    for _ in range(args.times):
        began = time.process_time()
        graph = fold(parse_events(lines))
        folded = time.process_time()
        listed(graph, 80)
        shown = time.process_time()
        drawing = drawn(graph, 80)
        ended = time.process_time()
        for name, seconds in zip(taken, (folded - began, shown - folded, ended - shown), strict=True):
            taken[name].append(seconds)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    for name, seconds in medians.items():
        print(f"{name:<16} {seconds:7.3f} s")
    print(
        f"{'all':<16} {sum(medians.values()):7.3f} s  (goal {GOAL_S} s; {len(lines):,} events, {len(drawing):,} rows)"
    )
    return 0 if sum(medians.values()) <= GOAL_S else 1


if __name__ == "__main__":
    sys.exit(main())
