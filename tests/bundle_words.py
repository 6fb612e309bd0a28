"""Words of the tests about bundles: a clock, a redactor, a summary and a session's ending."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from vibe_gate.domain.bundles import Provenance, RunEntry
from vibe_gate.domain.event import Event, Graph
from vibe_gate.domain.summary import ChangeSummary, Summary, Trusted
from vibe_gate.domain.upkeep import Imported, Repaired, Verified
from vibe_gate.domain.wire import ModelCost, SessionCost, TurnResult
from vibe_gate.store.bundle_listing import find_bundles
from vibe_gate.store.bundle_location import locate_bundle
from vibe_gate.store.run_archive import export_runs, import_runs
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store_audit import verify_store
from vibe_gate.store.store_repair import repair_store

KEY = "5d401b9fe8ba4c1b8d0a2a8a7cf2b0b0a1b2c3d4"
START = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
SECRET = "hunter2-hunter2"


class Clock:
    """Starts at START; a millisecond passes at every look, or none."""

    def __init__(self, step_ms: int = 1) -> None:
        self.now = START
        self.step = timedelta(milliseconds=step_ms)

    def __call__(self) -> datetime:
        now, self.now = self.now, self.now + self.step
        return now


class OneSecretRedactor:
    """Knows one secret, and does not count."""

    counts: ClassVar[dict[str, int]] = {}

    def part(self) -> OneSecretRedactor:
        return self

    def text(self, text: str) -> str:
        return text.replace(SECRET, "[redacted]")

    def data(self, data: bytes) -> bytes:
        return data.replace(SECRET.encode(), b"[redacted]")

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(name): self.value(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value


def Ended(**fields: Any) -> TurnResult:
    """How a session ended."""
    cost = SessionCost(1200, 34, {"a-model": ModelCost(0.0125, "known")})
    session_id = "5e551011-0000-4000-8000-000000000001"
    return replace(
        TurnResult("answered", {}, "", cost=cost, session_id=session_id, duration_ms=1500), **fields
    )


def summary_of(run: RunRecorder, outcome: str = "pass", exit_code: int = 0) -> Summary:
    return Summary(
        run_id=run.run_id,
        key=KEY,
        workflow="review",
        outcome=outcome,
        exit_code=exit_code,
        bundle=run.relative,
        trusted=Trusted(revision="", bootstrap=False),
        change=ChangeSummary(
            before="a" * 40,
            after="b" * 40,
            base_commit="",
            head_commit=KEY,
            patch_id="",
            range_patch_id="",
            files=(),
        ),
    )


def record_a_review(run: RunRecorder) -> None:
    """What a small review records, up to its seal."""
    run.keep_patch(b"--- a/pay.py\n+++ b/pay.py\n@@ -1 +1 @@\n-old\n+new\n")
    run.keep_content("before", b"old\n", "pay.py")
    run.keep_content("after", b"new\n", "pay.py")
    run.keep_content("after", b"long line\n" * 2000, "long.txt")
    run.keep_content("after", bytes(range(256)), "logo.png")
    run.event("node.added", "checks", kind="checks")
    run.event("node.status", "checks", status="DONE")
    run.event("node.added", "judge-quality", kind="judge")
    run.event("edge.added", **{"from": "checks", "to": "judge-quality"})
    run.event("node.status", "judge-quality", status="RUNNING")
    turn = run.turn("judge-quality")
    turn.event({"type": "message", "role": "user", "content": "Is \x1b[31mred\x1b[0m handled?"})
    turn.hook(
        {
            "hook_event_name": "PreToolUse",
            "tool_name": "Read",
            "tool_use_id": "toolu_1",
            "tool_input": {},
        }
    )
    turn.hook({"hook_event_name": "PostToolUse", "tool_name": "Read", "tool_use_id": "toolu_1"})
    turn.event({"type": "todo", "action": "add", "text": "read pay.py", "status": "completed"})
    turn.event({"type": "usage", "tokens": {"input": 1200, "output": 34}, "cost": 0.0125})
    turn.seal(Ended())
    run.event("node.status", "judge-quality", status="DONE")


def tree(directory: Path) -> dict[str, bytes]:
    """Every file below `directory`, by its name relative to it."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@dataclass(frozen=True)
class View:
    """One run on disk, asked anew at every look."""

    directory: Path

    @property
    def run_id(self) -> str:
        return self.directory.name

    @property
    def key(self) -> str:
        return self.directory.parent.name

    @property
    def state(self) -> str:
        if not any((self.directory / name).exists() for name in ("run.json", "events.ndjson")):
            return "incomplete"  # it ended before it began
        return read_bundle(self.directory).state

    @property
    def summary(self) -> Summary:
        return read_bundle(self.directory).summary

    @property
    def run_document(self) -> dict[str, Any]:
        return read_bundle(self.directory).run_document

    def graph(self) -> Graph:
        return read_bundle(self.directory).graph()

    def events(self) -> list[Event]:
        return list(locate_bundle(self.directory).bare().events())


def list_runs(root: Path) -> list[View]:
    """The runs below `root`, newest first."""
    return [View(root / entry.bundle) for entry in find_bundles(root)]


def find_run(root: Path, begins: str = "") -> View:
    """The newest whose id begins so."""
    return next(run for run in list_runs(root) if run.run_id.startswith(begins))


def read_summary(directory: Path) -> Summary:
    return read_bundle(directory).summary


def entries_of(root: Path, runs: Iterable[View] | None) -> list[RunEntry] | None:
    ids = None if runs is None else {run.run_id for run in runs}
    return None if ids is None else [entry for entry in find_bundles(root) if entry.run_id in ids]


def verify_bundles(
    root: Path, provenance: Provenance, runs: Iterable[View] | None = None
) -> Verified:
    return verify_store(root, provenance, entries_of(root, runs))


def repair_bundles(
    root: Path, provenance: Provenance, runs: Iterable[View] | None = None
) -> Repaired:
    return repair_store(root, provenance, entries_of(root, runs))


def export_bundles(root: Path, runs: Iterable[View], target: Path, provenance: Provenance) -> int:
    return export_runs(root, provenance, entries_of(root, runs) or [], target)


def import_bundles(root: Path, archive: Path, provenance: Provenance) -> Imported:
    return import_runs(root, provenance, archive)
