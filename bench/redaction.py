"""How well and how fast secrets are redacted: recall on planted ones, false lines on text without
any, MB a second.

    python bench/redaction.py [--seeds 10] [FOLDER ...]

Positives and negatives are those of tests/secrets (samples.py, carriers.py), made from seeds (the
tests assert the same with one seed). A planted secret counts as missed if any ten characters of
what stood for it in its carrier are left. FOLDERs are scanned as further text that is taken to hold
no secret: look at what is listed there. Times are of this process' CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/secrets")]

from carriers import CARRIERS, leaks  # noqa: E402
from samples import every_kind, lookalikes  # noqa: E402

from vibe_gate.secrets import Redactor  # noqa: E402

GOAL_RECALL = 0.95
GOAL_FALSE = 0.005
SHOWN = 20
SIZE = 4_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("folders", nargs="*", type=Path)
    arguments = parser.parse_args()
    recall([f"bench-{number}" for number in range(arguments.seeds)])
    corpus = lookalikes()
    false_lines("what looks alike", corpus, GOAL_FALSE)
    for folder in arguments.folders:
        false_lines(str(folder), list(lines_of(folder)), None)
    speed("\n".join(corpus))


def recall(seeds: list[str]) -> None:
    asked: Counter[str] = Counter()
    missed: Counter[tuple[str, str]] = Counter()
    kinds = set()
    for seed in seeds:
        for one in every_kind(seed):
            kinds.add(one.kind)
            for carrier, carry in CARRIERS.items():
                carried = carry(one)
                asked[carrier] += 1
                missed[carrier, one.kind] += leaks(carried, Redactor({}).text(carried[0]))
    total = asked.total()
    share = 1 - missed.total() / total
    print(
        f"recall {share:.4f} of {total:,} ({len(kinds)} kinds, {len(asked)} carriers); goal {GOAL_RECALL}"
    )
    for carrier, number in asked.items():
        lost = {
            kind: count for (where, kind), count in missed.items() if where == carrier and count
        }
        print(f"  {1 - sum(lost.values()) / number:.3f}  {carrier}{f'  {lost}' if lost else ''}")


def false_lines(name: str, corpus: list[str], goal: float | None) -> None:
    redactor = Redactor({})
    before = "\n".join(corpus)
    after = redactor.text(before)
    lines = list(zip(before.split("\n"), after.split("\n"), strict=False))
    false = [pair for pair in lines if pair[0] != pair[1]]
    share = len(false) / max(1, len(lines))
    aim = f"; goal {goal:.2%}" if goal is not None else ""
    print(
        f"false lines {share:.3%} ({len(false)} of {len(lines):,}) in {name}{aim}  {dict(redactor.counts)}"
    )
    for was, told in false[:SHOWN]:
        at = max(0, told.find("[redacted:") - 60)
        print(f"    {was[at : at + 110]!r}")


def lines_of(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size < 10_000_000:
            data = path.read_bytes()
            with contextlib.suppress(UnicodeDecodeError):  # what is not UTF-8 counts as binary
                yield from [] if b"\0" in data else data.decode().split("\n")


def speed(negatives: str) -> None:
    code = "".join(path.read_text() for path in sorted((ROOT / "vibe_gate").rglob("*.py")))
    prose = "the quick gate jumps over the lazy token and keeps every key. "
    environ = {f"SERVICE_{number}_KEY": f"value-{number}-kq7zP9w" for number in range(10)}
    for name, text, held in (
        ("code", code, {}),
        ("code, 10 secrets in the environment", code, environ),
        ("code as JSON", json.dumps([code]), {}),
        ("prose", prose, {}),
        ("hashes", "".join(f"{number:040x}  a.tar.gz\n" for number in range(1000)), {}),
        ("what looks alike", negatives, {}),
    ):
        whole = (text * (SIZE // len(text) + 1))[:SIZE]
        redactor = Redactor(held)
        begin = time.process_time()
        redactor.text(whole)
        print(f"{len(whole) / 1e6 / (time.process_time() - begin):6.1f} MB/s  {name}")


if __name__ == "__main__":
    main()
