"""`vibe-gate doctor`: what a review needs, whether it is here, and what to do where it is not."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from vibe_gate import __version__
from vibe_gate.agent import find_cli
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.escape import counted
from vibe_gate.errors import PASS, USAGE, AgentError, GateError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.output import emit
from vibe_gate.faces.git_hook.install import outdated
from vibe_gate.gate.loading import mistakes
from vibe_gate.gate.mistakes import FOLDER
from vibe_gate.gateway import find_upstream
from vibe_gate.git import Repository, open_repository
from vibe_gate.report.text import safe
from vibe_gate.store.captures import MAX_AGE, gaps

SUMMARY = "Say what works here, what does not, and what to do about it."

EXAMPLES = """\
examples:
  vibe-gate doctor           exit 0: a review can run; exit 2: something it needs is broken
  vibe-gate doctor --json    the same as one JSON document
"""

State = Literal["ok", "warning", "broken"]
MARKS = {"ok": "✓", "warning": "!", "broken": "✗"}

ANSWER_S = 10.0
"""Seconds that a program may take to say its version."""

LEAST_FREE_MB = 1000
"""Free disk below which bundles are at risk; the default of `[retention] min_free_disk_mb`."""


MOST_REASONS = 3
"""Why events of agents were not captured: so many of the reasons are shown."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing looked at. `advice` says what to do, "" where there is nothing to do."""

    name: str
    state: State
    what: str
    advice: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `doctor` takes."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Look at everything, print it; 2 where something that every review needs is broken."""
    points = list(examine(Path.cwd(), environ))
    exit_code = USAGE if any(point.state == "broken" for point in points) else PASS
    if args.json:
        document = {"schema": 1, "exit_code": exit_code, "points": [asdict(point) for point in points]}
        emit(json.dumps(document, indent=2) + "\n")
    else:
        emit("\n".join(line for point in points for line in _lines(point)) + "\n")
    return exit_code


def examine(start: Path, environ: Mapping[str, str]) -> Iterator[Point]:
    """Every point in the order in which a review meets it."""
    yield Point("vibe-gate", "ok", f"{__version__}, Python {sys.version.split()[0]}")
    yield _git(environ)
    yield _libgit2()
    yield _agent(environ)
    yield _key(environ)
    yield _terminal(environ)
    yield from _here(start, environ)


def _lines(point: Point) -> list[str]:
    first = f"{MARKS[point.state]} {point.name:<12}{safe(point.what)}"
    return [first, *(f"{'':<14}→ {safe(line)}" for line in point.advice.splitlines())]


def _git(environ: Mapping[str, str]) -> Point:
    program = shutil.which("git", path=environ.get("PATH", os.defpath))
    if program is None:
        return Point("git", "broken", "the git program is not on PATH", "Install git 2.36 or newer.")
    try:
        said = subprocess.run([program, "--version"], capture_output=True, timeout=ANSWER_S, check=True, cwd="/")
    except (OSError, subprocess.SubprocessError) as error:
        return Point("git", "broken", f"{program} does not run ({type(error).__name__})", "Reinstall git.")
    return Point("git", "ok", f"{said.stdout.decode('utf-8', 'replace').strip()} ({program})")


def _libgit2() -> Point:
    return Point("libgit2", "ok", f"pygit2 {importlib.metadata.version('pygit2')}")


def _agent(environ: Mapping[str, str]) -> Point:
    try:
        cli = find_cli(environ)
    except AgentError as error:
        return Point(
            "claude", "warning", str(error), "Until then checks bind and the judge's criteria are inconclusive."
        )
    if cli.parent.name == "_bundled":
        return Point("claude", "ok", f"{_bundled_version(cli)}, bundled with claude-agent-sdk")
    return Point("claude", "ok", f"{cli} (this claude-agent-sdk has none of its own)")


def _bundled_version(cli: Path) -> str:
    try:
        return cli.with_suffix(".version").read_text().strip()
    except OSError:
        return "Claude Code"


def _key(environ: Mapping[str, str]) -> Point:
    advice = "Set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a local model. Without it checks bind, judges do not."
    try:
        upstream = find_upstream(environ)
    except GateError as error:
        return Point("key", "warning", str(error), advice)
    if upstream is None:
        return Point("key", "warning", "no credentials for a model", advice)
    address = urlsplit(upstream.base_url)
    where = f" to {address.hostname}" if address.hostname else ""  # the host only: a URL may carry a password
    metered = "; the cloud's own, not metered here" if upstream.passed_through else ""
    return Point("key", "ok", f"{upstream.source}{where}{metered}")


def _terminal(environ: Mapping[str, str]) -> Point:
    if sys.stdout is None or not sys.stdout.isatty():
        return Point("terminal", "ok", "stdout is no terminal: plain lines, nothing is cut")
    size = shutil.get_terminal_size()
    plain = bool(environ.get("NO_COLOR")) or environ.get("TERM", "") in ("", "dumb")
    moving = "a moving progress line" if progress.is_lively(environ) else "plain progress lines"
    return Point("terminal", "ok", f"{size.columns}x{size.lines}, {'no colours' if plain else 'colours'}, {moving}")


def _here(start: Path, environ: Mapping[str, str]) -> Iterator[Point]:
    with ExitStack() as stack:
        try:
            repository = stack.enter_context(open_repository(start, environ))
        except GateError as error:
            yield Point("repository", "broken", str(error), "Go to a git repository with a working tree.")
            return
        yield Point("repository", "ok", str(repository.root))
        yield _guarded("definitions", _definitions, repository)
        yield _guarded("hooks", _hooks, repository)
        yield _store(repository.root)
        yield from _sessions(repository.common_dir)


def _guarded(name: str, look: Callable[[Repository], Point], repository: Repository) -> Point:
    try:
        return look(repository)
    except GateError as error:
        return Point(name, "broken", str(error))


def _definitions(repository: Repository) -> Point:
    tree = repository.tree(repository.snapshot())
    files = tree.list(FOLDER)
    if not files:
        return Point("definitions", "ok", f"no {FOLDER} here: the built-in gate", "`vibe-gate init` writes starters.")
    wrong = mistakes(tree)
    if wrong:
        return Point("definitions", "broken", f"{counted(len(wrong), 'mistake')} in the working tree", "\n".join(wrong))
    return Point("definitions", "ok", f"{counted(len(files), 'file')} under {FOLDER} in the working tree, no mistakes")


def _hooks(repository: Repository) -> Point:
    old = outdated(repository)
    if old is None:
        return Point("hooks", "ok", "none of `install git` here")
    if old:
        advice = "`vibe-gate install git` writes them anew."
        return Point("hooks", "warning", f"not what this vibe-gate would write: {', '.join(old)}", advice)
    return Point("hooks", "ok", "those of `install git`, as this version writes them")


def _store(root: Path) -> Point:
    store = root / STORE
    if store.is_symlink() or (store.exists() and not store.is_dir()):
        return Point(
            "store", "broken", f"{store} is no directory of its own", "Move it away; a review makes a new one."
        )
    place = store if store.exists() else root
    if not os.access(place, os.W_OK | os.X_OK):
        return Point(
            "store", "broken", f"{place} is not writable", "Bundles are written there: change its owner or mode."
        )
    free_mb = shutil.disk_usage(place).free // 1_000_000
    if free_mb < LEAST_FREE_MB:
        return Point("store", "warning", f"{store}: {free_mb} MB free", "Free some disk; bundles need room.")
    return Point("store", "ok", f"{store} ({free_mb:,} MB free)")


def _sessions(common_dir: Path) -> Iterator[Point]:
    """Events of agents that were not kept while a change may still be about them; nothing where none was captured."""
    place = common_dir / "vibe-gate" / "sessions"
    if not place.is_dir():
        return
    since = datetime.now(UTC) - MAX_AGE
    found = [(moment, why) for moment, why in gaps(common_dir) if moment >= since]
    if not found:
        yield Point("sessions", "ok", "captured, and no event is missing that we know of")
        return
    reasons = Counter(why for _, why in found).most_common()
    rest = len(reasons) - MOST_REASONS
    advice = [
        *(f"{count} x {why}" for why, count in reasons[:MOST_REASONS]),
        *([f"... and {rest} other reasons"] if rest > 0 else []),
        "What an agent did then may pass for a person's work: commit it with the agent's trailer (Co-authored-by).",
        f"Their times are in {place / 'gaps'}: delete that file once the cause is mended.",
    ]
    last = max(moment for moment, _ in found)
    what = f"{len(found)} gap{'' if len(found) == 1 else 's'} in what was captured, the last {last:%Y-%m-%d %H:%M}Z"
    yield Point("sessions", "warning", what, "\n".join(advice))
