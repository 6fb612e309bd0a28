"""Runs recorded for tests about lists, searches and cleaning: whole bundles, sealed or not, at a
time of choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from bundle_words import KEY, START, Clock, OneSecretRedactor, summary_of
from msgspec.structs import replace
from summaries import criterion

from vibe_gate.domain.summary import AgentAuthored, ChangedFile, Cost
from vibe_gate.domain.verdict import CriterionResult, RubricResult
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.store import open_store

EXIT_CODES = {"pass": 0, "fail": 1, "inconclusive": 3, "error": 3}


@dataclass(frozen=True)
class Kind:
    """What a recorded run is like. `ids` are those of its change."""

    key: str = KEY
    outcome: str = "pass"
    files: Sequence[str] = ("pay.py",)
    rubrics: Sequence[str] = ("quality",)
    binaries: Sequence[str] = ()
    agent: bool = False
    hints: Sequence[str] = ()
    contents: Sequence[bytes] = ()
    workflow: str = "review"
    criteria: tuple[CriterionResult, ...] = (criterion(),)
    ids: Mapping[str, str] = field(default_factory=dict)


def begun(root: Path, at: datetime = START, kind: Kind = Kind()) -> RunRecorder:
    """A run that is being written."""
    run = open_store(root, OneSecretRedactor(), Clock()).begin(kind.key, at, {})
    for content in kind.contents:
        run.keep_content("after", content, "pay.py")
    return run


def record_run(root: Path, at: datetime = START, kind: Kind = Kind()) -> str:
    """A sealed run; its id."""
    run = begun(root, at, kind)
    base = summary_of(run, kind.outcome, EXIT_CODES[kind.outcome])
    files = tuple(
        ChangedFile(
            path=path,
            old_path=None,
            change_type="modified",
            added=2,
            deleted=1,
            binary=path in kind.binaries,
        )
        for path in (*kind.files, *kind.binaries)
    )
    change = replace(base.change, **{"head_commit": kind.key, "files": files, **kind.ids})
    rubrics = tuple(
        RubricResult(
            id=name,
            digest="",
            outcome=kind.outcome,
            score=1.0,
            coverage=1.0,
            criteria=kind.criteria,
        )
        for name in kind.rubrics
    )
    fields = {
        "key": kind.key,
        "change": change,
        "rubrics": rubrics,
        "workflow": kind.workflow,
        "agent_authored": AgentAuthored(decision=kind.agent, hints=tuple(kind.hints)),
        "cost": Cost(usd=0.0125, basis="known"),
    }
    run.seal(replace(base, **fields))
    assert run.lost is None
    return run.run_id
