"""Each time that a test of agents was carried out: told by pytest's reports, and by the bundles of
its runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import to_builtins

from vibe_gate.domain.attempt import TestedRun, TestResult
from vibe_gate.domain.bundles import Provenance, RunEntry
from vibe_gate.errors import GateError
from vibe_gate.faces.cli.output import now
from vibe_gate.faces.pytest_plugin.marker import REPETITION
from vibe_gate.faces.pytest_plugin.plugin_wire import read_test_environment
from vibe_gate.secrets import Redactor
from vibe_gate.store.tested_runs import note_tested_run
from vibe_gate.store.worktree_bundles import Bundles

if TYPE_CHECKING:
    from vibe_gate.faces.pytest_plugin.costs import Run

Row = dict[str, Any]
"""A run of an attempt, as JSON, for it may come from a worker: `tested`, and `run` as of
`costs.Run`, with its `entry`; of an attempt without a run with a bundle `tested` alone.
"""

_ROWS, _SEEN = pytest.StashKey[list[Row]](), pytest.StashKey[int]()


def note_attempt(item: pytest.Item, report: pytest.TestReport) -> None:
    """Take down how a test ended, once its call did, or what kept it from that; its last report has
    all of it.
    """
    rows = item.stash.setdefault(_ROWS, [])
    if report.when == "teardown":
        if report.failed and rows:
            _end_with_error(rows)
        report.vibe_attempts = rows  # type: ignore[attr-defined]  # one list: repetitions that follow are in it
    elif report.when == "call" or not report.passed:
        rows += _rows(item, _result(report))


def _result(report: pytest.TestReport) -> TestResult:
    if hasattr(report, "vibe_undecided"):
        return "undecided"
    if hasattr(report, "wasxfail"):
        return "xpassed" if report.passed else "xfailed"
    if report.failed and (report.when != "call" or hasattr(report, "vibe_error")):
        return "error"
    return report.outcome


def _end_with_error(rows: Sequence[Row]) -> None:
    """The teardown of the last time failed. Bundles keep what the call came to: they may be gone by
    now.
    """
    last = rows[-1]["tested"]
    for row in rows:
        if row["tested"]["attempt"] == last["attempt"]:
            row["tested"]["result"] = "error"


def _rows(item: pytest.Item, result: TestResult) -> Iterator[Row]:
    """What is reported of this time, and written into the bundles of its runs."""
    runs = _new_runs(item)
    redact = Redactor(read_test_environment().variables).text
    model = _tested_model(runs)
    test, requested_model = split_test_id(item, model)
    attempt = Path(runs[0]["bundle"]).name if runs else f"{len(item.stash[_ROWS])}"
    for run in runs or [{}]:
        tested = TestedRun(
            test=redact(test),
            model=redact(model or requested_model),
            attempt=attempt,
            result=result,
            repetition=item.stash.get(REPETITION, 1),
            judges=run.get("judges", False),
            usd=run.get("usd"),
        )
        row: Row = {"tested": to_builtins(tested)}
        if run.get("bundle"):
            entry = _note_in_bundle(item.config.rootpath / run["bundle"], tested)
            if entry:
                row |= {"run": run, "entry": to_builtins(entry)}
        yield row


def _new_runs(item: pytest.Item) -> list[Run]:
    """The runs since the last time that the test was carried out."""
    properties = item.user_properties
    all_runs = [json.loads(str(value)) for name, value in properties if name == "vibe"]
    new_runs = all_runs[item.stash.get(_SEEN, 0) :]
    item.stash[_SEEN] = len(all_runs)
    return new_runs


def _tested_model(runs: Sequence[Run]) -> str:
    """The model of the first run that is no judge's, else of the first; "" without runs."""
    for run in runs:
        if not run["judges"]:
            return str(run["model"])
    return str(runs[0]["model"]) if runs else ""


def _note_in_bundle(bundle: Path, tested: TestedRun) -> RunEntry | None:
    """The run's entry; None if its bundle cannot be read any more. What cannot be written is not
    worth a test.
    """
    key, run_id = bundle.parts[-2:]
    bundles = Bundles(bundle.parents[2], Provenance(now()))
    try:
        entry = bundles.read_run(key, run_id)
    except GateError:
        return None
    with suppress(GateError):
        note_tested_run(bundles, entry, tested, now())
    return entry


def split_test_id(item: pytest.Item, model: str) -> tuple[str, str]:
    """The test's id without the parameter that names its model, and what that parameter says; ""
    without one.

    A parameter names it if its value is the model that answered, or if it is called `model` and its
    value is part of that model's name, or nothing answered.
    """
    name = item.name
    requested_model = ""
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        # pytest joins a parameter's id with others' by "-", which ids have, too.
        ids = list(getattr(callspec, "_idlist", ()))
        position = _position_of_model(callspec.params, model)
        if position is not None and len(ids) == len(callspec.params):
            requested_model = str(list(callspec.params.values())[position])
            del ids[position]
            name = getattr(item, "originalname", item.name)
            if ids:
                name += f"[{'-'.join(map(str, ids))}]"
    parent = item.parent.nodeid if item.parent else ""
    return "::".join(filter(None, (parent, name))), requested_model


def _position_of_model(parameters: Mapping[str, object], model: str) -> int | None:
    """The position of the first parameter that names the model."""
    for position, (name, value) in enumerate(parameters.items()):
        if _names_model(name, value, model):
            return position
    return None


def _names_model(name: str, value: object, model: str) -> bool:
    if not isinstance(value, str) or not value:
        return False
    if value == model:
        return True
    return name == "model" and (not model or value in model)
