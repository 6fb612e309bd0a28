"""What scripts rely on is typed and documented."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from pathlib import Path
from types import FunctionType

import pytest

import vibe_gate
from vibe_gate.domain.turn import GitState, TurnTodo
from vibe_gate.store.bundle_events import (
    CallEnding,
    CapturedCall,
    Message,
    Timeline,
    TimelineEvent,
    Tools,
)
from vibe_gate.store.changed_files import FileChange, Files, LineStats, StoredContent
from vibe_gate.store.run_result import (
    Annotation,
    Attachment,
    Git,
    NameStatus,
    RunResult,
    read_bundle,
)
from vibe_gate.store.turn_chain import ChainTurn, ResultChain
from vibe_gate.store.turn_summary import FileStats, HookCaptureStatus, HookRef, TurnMetrics

DOCUMENT = (Path(__file__).parents[2] / "docs/reference/api.md").read_text()

CLASSES = [
    RunResult, Message, Git, NameStatus, Files, FileChange, LineStats, StoredContent, Tools, CapturedCall,
    Timeline, TimelineEvent, Annotation, Attachment, ResultChain, ChainTurn,
]  # fmt: skip
NAMED_ONLY = [FileStats, GitState, HookCaptureStatus, HookRef, TurnMetrics, TurnTodo]
"""Whose fields a member's line lists."""


def members(kind: type) -> set[str]:
    methods = {
        name for name, value in vars(kind).items() if callable(value) or isinstance(value, property)
    }
    fields = set(kind.__annotations__) | {
        f.name for f in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())
    }
    slots = set(vars(kind).get("__slots__", ()))
    return {
        name
        for name in methods | fields | slots
        if not name.startswith("_") and name != "model_config"
    }


def test_every_public_name_and_every_state_of_a_call_is_documented() -> None:
    for name in set(vibe_gate.__all__) - {"__version__"}:
        assert f"`{name}" in DOCUMENT or f"## {name}\n" in DOCUMENT
    assert [state for state in typing.get_args(CallEnding) if f"`{state}`" not in DOCUMENT] == []


@pytest.mark.parametrize("kind", [*CLASSES, *NAMED_ONLY], ids=lambda kind: kind.__name__)
def test_every_member_is_documented(kind: type) -> None:
    missing = {
        name for name in members(kind) if f"`{name}" not in DOCUMENT and f" {name}" not in DOCUMENT
    }
    assert missing == set()


def methods(kind: type) -> list[FunctionType]:
    """Its public methods, and what its properties call."""
    values = [inspect.getattr_static(kind, name, None) for name in sorted(members(kind))]
    functions = [value.fget if isinstance(value, property) else value for value in values]
    return [function for function in functions if inspect.isfunction(function)]


WITH_METHODS = [kind for kind in CLASSES if methods(kind)]


@pytest.mark.parametrize("kind", WITH_METHODS, ids=lambda kind: kind.__name__)
def test_every_public_method_is_typed_and_says_what_it_does(kind: type) -> None:
    for function in methods(kind):
        assert inspect.getdoc(function), function
        parameters = list(inspect.signature(function).parameters.values())[1:]
        assert "return" in function.__annotations__, function
        assert all(parameter.name in function.__annotations__ for parameter in parameters), function


def test_the_contract_names_are_there() -> None:
    assert {
        "bundle_dir", "metrics", "messages", "todos", "git", "files", "tools", "timeline", "hook_capture_status",
        "annotate",
    } <= members(RunResult)  # fmt: skip
    assert {"before", "after", "changed_count", "diff_summary"} <= members(Git)
    assert {"changed", "get", "filter", "stats"} <= members(Files)
    assert {"all", "used", "find_first", "failed", "succeeded", "in_progress"} <= members(Tools)
    assert {
        "path",
        "change_type",
        "old_path",
        "before",
        "after",
        "stats",
        "patch",
        "calls",
    } <= members(FileChange)
    assert {"sha256", "size", "text", "bytes", "stream"} <= members(StoredContent)
    assert {"role", "summary", "ts", "load"} <= members(Message)
    assert inspect.isasyncgenfunction(Timeline.events)
    assert inspect.signature(read_bundle).return_annotation == "RunResult"
