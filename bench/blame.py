"""What `vibe-gate blame` takes beside `git blame -w`, of a file with a long history.

    python bench/blame.py [--lines 8000] [--commits 800] [--rounds 3]

Each commit brings lines at another place of the file, until it has so many. Two histories: all
commits by people, and every second one with the trailer of an agent, whose lines are followed
further back than git goes. All sides in turn; processor seconds, the least of each, and the largest
process. No goal: `git blame` is asked once or twice, and the rest is ours.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from _pairs import VIBE_GATE, WORK, environment
from growth import git, measure

PLACE = WORK / "blame"
FILE = "module.py"
PEER = ("git", "blame", "-w", FILE)
OURS = (*VIBE_GATE, "blame", FILE)
MESSAGES = {
    "people": ("Change\n",),
    "every second by an agent": (
        "Change\n",
        "Change\n\nCo-Authored-By: Claude <noreply@anthropic.com>\n",
    ),
}
"""The messages that the commits of a history have in turn."""

STRIDE = 7
"""Commits go round the file in so many places, so that neighbouring lines differ in age."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=8_000, help="of the file (default: 8000)")
    parser.add_argument("--commits", type=int, default=800, help="of the file (default: 800)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    environ = environment(PLACE / "home")
    for title, messages in MESSAGES.items():
        folder = PLACE / title.replace(" ", "-")
        shutil.rmtree(folder, ignore_errors=True)
        git(environ, PLACE, "init", "-q", "-b", "main", str(folder))
        stream = write_history(options.lines, options.commits, messages)
        git(environ, folder, "fast-import", "--quiet", stdin=stream)
        git(environ, folder, "reset", "-q", "--hard")
        print(f"{options.lines:,} lines, commits: {options.commits:,}, {title}", flush=True)
        compare(folder, environ, options.rounds)
    return 0


def write_history(lines: int, commits: int, messages: tuple[str, ...]) -> bytes:
    """A stream for `git fast-import`: the file as each commit leaves it."""
    stream = bytearray()
    text: list[bytes] = []
    for number in range(commits):
        new_lines = range(lines * number // commits, lines * (number + 1) // commits)
        place = len(text) * (number % STRIDE) // STRIDE
        text[place:place] = [b"value_%d = compute(%d)\n" % (line, line) for line in new_lines]
        content = b"".join(text)
        message = messages[number % len(messages)].encode()
        stream += b"commit refs/heads/main\ncommitter Ada <a@example.org> %d +0000\n" % (
            1_700_000_000 + number * 60
        )
        stream += b"data %d\n%s" % (len(message), message)
        stream += b"M 100644 inline %s\ndata %d\n%s\n" % (FILE.encode(), len(content), content)
    return bytes(stream)


def compare(folder: Path, environ: dict[str, str], rounds: int) -> None:
    """Run both sides in turn and print a line for each."""
    sides = {"git blame -w": PEER, "vibe-gate blame": OURS}
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides) if number % 2 else reversed(list(sides)):
            figures[name].append(measure(sides[name], folder, environ))
    least_of_peer = min(seconds for seconds, _ in figures["git blame -w"])
    for name, taken in figures.items():
        seconds = min(seconds for seconds, _ in taken)
        megabytes = max(megabytes for _, megabytes in taken)
        print(
            f"  {name:<16} {seconds:7.2f} s {megabytes:5.0f} MB   ratio {seconds / least_of_peer:5.2f}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
