"""How the product's commands grow with what they are given: hunks of one file, files, findings,
commits, commits with a receipt in a note, runs, captured sessions, nodes of a workflow's run, turns
of one of its nodes.

    python bench/growth.py [--sizes 10,100,1000] [--only hunks,files]
    python bench/growth.py --sizes 10,100,1000,10000 --only runs

Each command runs by checks alone, in a repository made for it. Processor seconds of it and of all
that it started, the slope between the last two sizes less what a start takes (1: twice as much
costs twice as much), and the largest process. A slope over 1.1, or more than 500 MB, is marked.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import _pairs
from msgspec.structs import replace

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from bundle_words import Ended, OneSecretRedactor, summary_of  # noqa: E402 (a module of the tests)

from vibe_gate.domain import receipt as receipts  # noqa: E402
from vibe_gate.faces.agent_hook import spool  # noqa: E402
from vibe_gate.store.run_recorder import RunRecorder  # noqa: E402
from vibe_gate.store.store import open_store  # noqa: E402

WORK = _pairs.WORK / "growth"
STEEPEST = 1.1
LARGEST_MB = 500
VERDICTS = (0, 1, 3, 4)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="10,100,1000", help="with commas (default: 10,100,1000)")
    parser.add_argument("--only", default=",".join(SUBJECTS), help=f"of {', '.join(SUBJECTS)}")
    options = parser.parse_args()
    environ = _pairs.environment(WORK / "home")
    sizes = [int(size) for size in options.sizes.split(",")]
    code = 0
    for subject in options.only.split(","):
        make, commands = SUBJECTS[subject]
        spent: dict[str, list[tuple[float, float]]] = {command: [] for command in commands}
        for size in sizes:
            folder = WORK / f"{subject}-{size}"
            shutil.rmtree(folder, ignore_errors=True)
            git(environ, WORK, "init", "-q", "-b", "main", str(folder))
            make(folder, environ, size)
            for command in commands:
                spent[command].append(spend(command, folder, environ))
        for command, figures in spent.items():
            code |= show(subject, command, sizes, figures)
    return code


def show(subject: str, command: str, sizes: list[int], figures: list[tuple[float, float]]) -> int:
    """Print a row; 1 if it is too steep or too large."""
    start = figures[0][0] * 0.9
    slope = 0.0
    if len(sizes) > 1:
        last, before = (max(0.001, seconds - start) for seconds, _ in (figures[-1], figures[-2]))
        slope = math.log(last / before) / math.log(sizes[-1] / sizes[-2])
    peak = max(megabytes for _, megabytes in figures)
    # Less than twice the start is no measure of a slope.
    is_steep = slope > STEEPEST and figures[-1][0] > 2 * figures[0][0]
    is_bad = is_steep or peak > LARGEST_MB
    seconds = "  ".join(
        f"{size:,}: {taken:.2f} s" for size, (taken, _) in zip(sizes, figures, strict=True)
    )
    print(
        f"{subject:<9} {command:<44} {seconds}  slope {slope:.2f}  {peak:.0f} MB"
        f"{'  TOO MUCH' if is_bad else ''}",
        flush=True,
    )
    return int(is_bad)


def spend(command: str, folder: Path, environ: Mapping[str, str]) -> tuple[float, float]:
    """Processor seconds of a command of vibe-gate, and megabytes of its largest process."""
    return measure([*_pairs.VIBE_GATE, *command.split()], folder, environ)


def measure(argv: Sequence[str], folder: Path, environ: Mapping[str, str]) -> tuple[float, float]:
    """Processor seconds of a command and of all that it started, and megabytes of the largest
    process.
    """
    with (folder.parent / "output").open("wb") as output:
        process = subprocess.Popen(
            argv, cwd=folder, env=dict(environ), stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in VERDICTS:
        text = (folder.parent / "output").read_text("utf-8", "replace")[-500:]
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode} in {folder}: {text}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def git(environ: Mapping[str, str], folder: Path, *argv: str, stdin: bytes = b"") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", *argv], cwd=folder, env=dict(environ), input=stdin, check=True)


def read_git(environ: Mapping[str, str], folder: Path, *argv: str) -> list[str]:
    """The lines that a command of git prints."""
    done = subprocess.run(
        ["git", *argv], cwd=folder, env=dict(environ), capture_output=True, check=True
    )
    return done.stdout.decode().splitlines()


def commit(folder: Path, environ: Mapping[str, str], files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(environ, folder, "add", "-A")
    git(environ, folder, "commit", "-q", "--no-verify", "-m", "Change")


def make_hunks(folder: Path, environ: Mapping[str, str], size: int) -> None:
    """Scattered changes of lines that all stand twice."""
    lines = [f"value_{number // 2} = {number // 2}\n" for number in range(size * 10)]
    commit(folder, environ, {"a.py": "".join(lines)})
    for number in range(4, len(lines), 10):
        lines[number] = f"new_{number} = 1\n"
    commit(folder, environ, {"a.py": "".join(lines)})


def make_files(folder: Path, environ: Mapping[str, str], size: int) -> None:
    commit(folder, environ, {"README": "x\n"})
    commit(folder, environ, {f"d{number % 100}/f{number}.py": "x = 1\n" for number in range(size)})


def make_findings(folder: Path, environ: Mapping[str, str], size: int) -> None:
    """Markers of conflicts, each a finding."""
    commit(folder, environ, {"a.py": "x\n"})
    commit(folder, environ, {"a.py": "".join(f"<<<<<<< ours\nx = {n}\n" for n in range(size))})


def make_commits(folder: Path, environ: Mapping[str, str], size: int) -> None:
    stream = b""
    parts = []
    for number in range(size + 1):
        parent = b"from :%d\n" % number if number else b""
        text = b"value = %d\n" % number
        parts.append(
            b"commit refs/heads/main\nmark :%d\ncommitter Ada <a@example.org> %d +0000\ndata 7\n"
            b"Change\n%sM 100644 inline m%d.py\ndata %d\n%s\n"
            % (number + 1, 1_700_000_000 + number, parent, number % 50, len(text), text)
        )
    stream = b"".join(parts)
    git(environ, folder, "fast-import", "--quiet", stdin=stream)
    git(environ, folder, "tag", "first", "main~" + str(size))
    git(environ, folder, "reset", "-q", "--hard")


def make_runs(folder: Path, environ: Mapping[str, str], size: int) -> None:
    make_commits(folder, environ, size)
    spend("review first..main --each --no-judge --jobs 1", folder, environ)


def make_notes(folder: Path, environ: Mapping[str, str], size: int) -> None:
    """A receipt in a git note for each commit, and no run."""
    make_commits(folder, environ, size)
    spend("review --commit main --no-judge", folder, environ)
    (run,) = folder.glob(".vibe-artifacts/*/2*")
    receipt = receipts.parse((run / "receipt.json").read_bytes()).receipt
    shutil.rmtree(folder / ".vibe-artifacts")
    notes = [b"commit refs/notes/vibe-gate\ncommitter Ada <a@example.org> 0 +0000\ndata 0\n"]
    for number, commit in enumerate(read_commits(folder, environ, "first..main")):
        parent, before, head, after = commit
        about = replace(
            receipt,
            run_id=f"20250101T{number:09d}Z-{number:08x}",
            key=head,
            before=before,
            after=after,
            base_commit=parent,
            head_commit=head,
            patch_id=f"{number:040x}",
            range_patch_id=f"{number:040x}",
        )
        text = receipts.envelope(receipts.statement(about))
        notes.append(b"N inline %s\ndata %d\n%s\n" % (head.encode(), len(text), text))
    git(environ, folder, "fast-import", "--quiet", stdin=b"".join(notes))


def read_commits(
    folder: Path, environ: Mapping[str, str], span: str
) -> Iterator[tuple[str, str, str, str]]:
    """Of each commit of a linear range its parent with that one's tree, and itself with its own;
    oldest first.
    """
    log = read_git(environ, folder, "log", "--reverse", "--boundary", "--format=%H %T", span)
    commits = [line.split() for line in log]
    for (parent, before), (commit, after) in pairwise(commits):
        yield parent, before, commit, after


def make_sessions(folder: Path, environ: Mapping[str, str], size: int) -> None:
    """Captured sessions that each wrote a file, in one commit."""
    commit(folder, environ, {"README": "x\n"})
    for number in range(size):
        path = folder / f"a{number}.py"
        text = f"value = {number}\n" * 20
        path.write_text(text)
        session = f"{number:08x}-0000-4000-8000-000000000000"
        keep_event(folder, session, "UserPromptSubmit", prompt=f"Write the value {number}.")
        written = {"file_path": str(path), "content": text}
        call = {"tool_name": "Write", "tool_input": written, "tool_use_id": f"toolu_{number}"}
        response = {"type": "create", "filePath": str(path), "content": text}
        keep_event(folder, session, "PostToolUse", tool_response=response, **call)
        keep_event(folder, session, "Stop", last_assistant_message="Written.")
    commit(folder, environ, {})


def keep_event(folder: Path, session: str, kind: str, **about: object) -> None:
    """Keep an event of Claude Code as its hook does."""
    event = {"session_id": session, "cwd": str(folder), "hook_event_name": kind, **about}
    spool.keep(os.fsencode(folder / ".git/vibe-gate/captures"), json.dumps(event).encode(), event)


def make_nodes(folder: Path, environ: Mapping[str, str], size: int) -> None:
    """A workflow's run of so many nodes, ten wide, each with a turn."""
    run = begin_run(folder, environ)
    for number in range(size):
        node = f"node-{number}"
        run.event("node.added", node, kind="agent", agent="fixer")
        if number >= 10:
            run.event("edge.added", **{"from": f"node-{number - 10}", "to": node})
        record_turn(run, node, number)
    seal(run)


def make_turns(folder: Path, environ: Mapping[str, str], size: int) -> None:
    """A run with one node of so many turns."""
    run = begin_run(folder, environ)
    run.event("node.added", "fix", kind="agent", agent="fixer")
    for number in range(size):
        record_turn(run, "fix", number)
    seal(run)


def begin_run(folder: Path, environ: Mapping[str, str]) -> RunRecorder:
    commit(folder, environ, {"a.py": "x = 1\n"})
    (head,) = read_git(environ, folder, "rev-parse", "HEAD")
    store = open_store(folder, OneSecretRedactor(), lambda: datetime.now(UTC))
    return store.begin(head, datetime.now(UTC), {"workflow": "mend"})


def record_turn(run: RunRecorder, node: str, number: int) -> None:
    """A turn that reads a file and says something."""
    run.event("node.status", node, status="RUNNING")
    turn = run.turn(node)
    turn.event({"type": "message", "role": "user", "content": f"Do step {number}."})
    call = {"tool_name": "Read", "tool_use_id": f"toolu_{number}", "tool_input": {"file_path": "a"}}
    turn.hook({"hook_event_name": "PreToolUse", **call})
    turn.hook({"hook_event_name": "PostToolUse", **call})
    turn.event({"type": "message", "role": "assistant", "content": f"Step {number} is done."})
    turn.event({"type": "usage", "tokens": {"input": 1200, "output": 34}, "cost": 0.0125})
    turn.seal(Ended(text="Done."))
    run.event("node.status", node, status="DONE")


def seal(run: RunRecorder) -> None:
    summary = summary_of(run)
    head = run.directory.parent.name
    change = replace(summary.change, head_commit=head)
    run.seal(replace(summary, key=head, workflow="mend", change=change))
    if run.lost is not None:
        raise SystemExit(f"the run was not recorded: {run.lost}")


Make = Callable[[Path, Mapping[str, str], int], None]
REVIEW = "review --commit HEAD --no-judge --force"
RUN_COMMANDS = (
    "bundles show --log",
    "viz",
    "report -o ../run.html",
    "bundles list",
    "bundles verify",
    "stats",
)
SUBJECTS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "hunks": (make_hunks, (REVIEW, "report -o ../run.html")),
    "files": (make_files, (REVIEW,)),
    "findings": (make_findings, (REVIEW,)),
    "verify": (make_commits, ("verify first..main",)),
    "notes": (make_notes, ("verify --from-notes first..main",)),
    "commits": (make_commits, ("review first..main --each --table --no-judge",)),
    "runs": (
        make_runs,
        (
            "verify first..main",
            "review first..main --each --table --no-judge",
            "bundles list",
            "stats",
            "bundles verify",
            "bundles du",
            "report --all -o ../site",
        ),
    ),
    "sessions": (
        make_sessions,
        ("sessions list", "blame a0.py", "trace -o ../trace", REVIEW, "bundles du", "stats"),
    ),
    "nodes": (make_nodes, RUN_COMMANDS),
    "turns": (make_turns, RUN_COMMANDS),
}


if __name__ == "__main__":
    sys.exit(main())
