"""`vibe-gate demo`: the whole walk on a small repository, with a recorded conversation."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from msgspec.structs import replace

from vibe_gate.agent import sdk_version
from vibe_gate.context.listeners import Progress
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.change import Selection
from vibe_gate.domain.model_wire import Wire
from vibe_gate.faces import progress
from vibe_gate.faces.cli.command import Command, parse_nothing
from vibe_gate.faces.cli.output import emit, now
from vibe_gate.faces.cli.screen import present_review
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.git import Draft, make_repository
from vibe_gate.run.review import review_around
from vibe_gate.run.review_result import Review

DATA = resources.files("vibe_gate.faces.cli") / "demo_data"

REQUEST = ReviewRequest(Selection("commit"), definitions="HEAD~1")

_START = 1_767_322_800  # 2026-01-02 03:00 UTC: any fixed time, so that the demo's commits always have the same ids

RECORDING = """\
The model's answers are a recording that ships with vibe-gate. Git, the checks,
the agent's CLI, the evidence check and the verdict are real. Nothing leaves
this machine."""

WITHOUT_JUDGE = """\
claude-agent-sdk is not installed, so the judge of this demo is not asked: run
`pip install vibe-gate` to see all of it. Git, the checks and the verdict are
real. Nothing leaves this machine."""


def _run(arguments: None) -> int:
    """Make the repository, review its last commit, show the verdict. It fails on purpose, so the
    exit code is 0.
    """
    folder = Path(tempfile.mkdtemp(prefix="vibe-gate-demo-"))
    make_demo(folder)
    introduction = RECORDING if sdk_version() else WITHOUT_JUDGE
    emit(f"{introduction}\n\n$ cd {folder}\n$ vibe-gate review --commit HEAD\n\n")
    with progress.display_progress(read_process_environment()) as display:
        finished = progress.run_walk(demo(folder, display.show))
    present_review(finished, REQUEST, as_json=False)
    place = shlex.quote(str(folder))
    emit(f"\nThe whole run as a page:  cd {place} && vibe-gate report --open\n")
    emit(f"When you are done:        rm -rf {place}\n")
    return 0


async def demo(folder: Path, progress: Progress) -> Review:
    """Review the last commit of the demo's repository in `folder` with the recorded
    conversation.
    """
    with resources.as_file(DATA / "cassette") as cassette:
        request = replace(REQUEST, wire=Wire("replay", cassette))
        return await review_around(
            request,
            start=folder,
            environment=read_process_environment(),
            clock=now,
            progress=progress,
        )


def make_demo(folder: Path) -> list[str]:
    """Make the demo's repository in `folder`: a commit by a person, then one by an agent. Returns
    both ids.
    """
    before = dict(_files(DATA / "before"))
    after = before | dict(_files(DATA / "after"))
    return make_repository(
        folder,
        [
            Draft("Send payments and write them down\n", "Ada", "ada@example.org", _START, before),
            Draft("Make sending robust\n", "Coding Agent", "agent@example.org", _START + 60, after),
        ],
    )


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.name == "__pycache__":  # an installer's, not the demo's
            continue
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_bytes()


DEMO = Command(
    "Review a small example repository, offline and free: the real CLI with recorded model answers.",
    (),
    parse_nothing,
    _run,
)
