"""Where a test's answers come from, what it may cost, and what becomes of one that cannot be
decided.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from vibe_gate.domain import REPOSITORY_VARIABLES
from vibe_gate.domain.environment import Environment, read_environment
from vibe_gate.domain.escape import safe
from vibe_gate.domain.model_wire import SETUP_DIFFERENCE
from vibe_gate.domain.tables import WrongKey, read_table, sentence
from vibe_gate.errors import AgentFailed, GateError, InfrastructureError, UsageError
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.faces.pytest_plugin.marker import MARKER
from vibe_gate.run.stage_result import ModelUse

_PACKAGE, _ASYNCIO = Path(__file__).parents[2], Path(asyncio.__file__).parent

MAX_NAME = 100
"""Characters of a cassette folder's name; file systems take 255 bytes."""

MAX_DIFFERENCE = 100
"""Characters of a line of a difference."""


OUT_OF_BUDGET = "out of budget"
LEFT_OPEN = "left open by a judge"
WITHOUT_CASSETTE = "without a cassette"
"""Kinds of what is undecided, as the closing line counts them."""


class Inconclusive(InfrastructureError):
    """The test cannot be decided: it is skipped, or with `--vibe-strict` and in CI fails.

    The closing line counts its `kind`.
    """

    def __init__(self, sentence: str, kind: str) -> None:
        super().__init__(sentence)
        self.kind = kind


def is_strict(config: pytest.Config) -> bool:
    """Whether a test that cannot be decided fails: a job of CI that skips it would be green with
    nothing tested.
    """
    return bool(config.getoption("--vibe-strict")) or read_process_environment().in_ci


def no_cassette() -> Inconclusive:
    """For a test that was never recorded."""
    return Inconclusive("no cassette: record it with `--vibe-wire record`", WITHOUT_CASSETTE)


def find_caught_error(item: pytest.Item) -> pytest.ExceptionInfo[BaseException] | None:
    """What could not be decided or carried out in the test, though it went on."""
    errors = getattr(getattr(item, "funcargs", {}).get("vibe"), "errors", [])
    if not errors:
        return None
    return pytest.ExceptionInfo.from_exception(errors[0])


def note_run(
    item: pytest.Item,
    use: ModelUse,
    *,
    agent: str,
    outcome: str,
    duration_ms: int,
    **details: object,
) -> None:
    """Write down for reports what a run was; `details`: its `bundle`, whether it `judges`, or went
    `over_budget`.
    """
    figures = {
        "bundle": "",
        "agent": agent,
        "model": ", ".join(use.models),
        "judges": False,
        "outcome": outcome,
        "usd": round(use.usd, 6) if use.is_exact else None,
        "over_budget": False,
        "tokens": use.tokens,
        "turns": use.answers,
        "seconds": duration_ms / 1000,
    }
    item.user_properties.append(("vibe", json.dumps(figures | details)))


def read_test_environment() -> Environment:
    """Read this process's environment, without what a git hook that runs pytest ties to its
    repository.
    """
    variables = read_process_environment().variables
    return read_environment(
        {name: value for name, value in variables.items() if name not in REPOSITORY_VARIABLES}
    )


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the marker says: seconds for each run, USD for all of a repetition's runs,
    repetitions.
    """

    timeout_s: Annotated[float, Meta(gt=0)] | None = None
    max_usd: Annotated[float, Meta(gt=0)] | None = None
    repeat: Annotated[int, Meta(ge=1)] = 1
    pass_rate: Annotated[float, Meta(gt=0, le=1)] = 1.0

    @classmethod
    def of(cls, item: pytest.Item) -> Limits:
        """Those of an item; of each keyword the nearest marker counts. pytest.UsageError."""
        keywords: dict[str, Any] = {}
        for marker in item.iter_markers("vibe"):
            keywords = {**marker.kwargs, **{str(value): value for value in marker.args}, **keywords}
        if (times := item.config.getoption("--vibe-repeat")) is not None:
            keywords["repeat"] = times
        wrong: list[WrongKey] = []
        if limits := read_table(cls, keywords, wrong):
            return limits
        mistakes = "; ".join(map(sentence, wrong))
        raise pytest.UsageError(
            f"{mistakes}{'' if mistakes.endswith('?') else '.'} The marker is {MARKER}"
        )


class Allowance(Struct):
    """USD that runs may cost together: what is left of them, and a sentence for when nothing is."""

    usd: float
    spent: str


_SHARE = pytest.StashKey[Allowance | None]()


def share_of(config: pytest.Config) -> Allowance | None:
    """What the runs of this process may cost of `--vibe-max-usd`; None without a limit."""
    if _SHARE not in config.stash:
        usd: float | None = config.getoption("--vibe-max-usd")
        worker = getattr(config, "workerinput", {"workercount": 1, "workerid": ""})
        workers, number = worker["workercount"], worker["workerid"].removeprefix("gw")
        reason = "the budget of --vibe-max-usd is spent" + (
            " (this worker's share)" if workers > 1 else ""
        )
        if usd and number.isdecimal() and int(number) >= workers:
            usd, reason = (
                0.0,
                "this worker replaces one that crashed, and has no share of --vibe-max-usd",
            )
        config.stash[_SHARE] = None if usd is None else Allowance(usd / workers, reason)
    return config.stash[_SHARE]


class RunNote(UserWarning):
    """What a run says beside its outcome: a prompt that was sent as text, an incomplete capture."""


_SHOWN_NOTES = pytest.StashKey[set[str]]()


def warn_of_notes(item: pytest.Item, notes: Iterable[str]) -> None:
    """Have pytest show the notes of a run in its summary of warnings, each once in a session."""
    shown_notes = item.config.stash.setdefault(_SHOWN_NOTES, set())
    path, line, _ = item.location
    for note in notes:
        if note not in shown_notes:
            shown_notes.add(note)
            warnings.warn_explicit(safe(note), RunNote, path, (line or 0) + 1)


class TestWire:
    """One repetition of a test: where each of its runs is recorded, and what they may cost."""

    __test__ = False  # no test, whatever its name begins with

    def __init__(self, item: pytest.Item, max_usd: float | None, repetition: int) -> None:
        self.mode: Literal["live", "record", "replay"] = item.config.getoption("--vibe-wire")
        self._allowances: list[Allowance] = []
        if max_usd is not None:
            self._allowances.append(Allowance(max_usd, "the test's max_usd is spent"))
        session_share = share_of(item.config)
        if session_share is not None:
            self._allowances.append(session_share)
        self.recordings = item.path.parent / "cassettes"
        """Where all tests of the folder record."""
        self._folder = self.recordings / item.path.stem / _folder_name(item)
        self._repetition = repetition
        self._runs = 0

    def cassette(self, *, needed: bool = True) -> Path | None:
        """The folder of the next run's cassette; None if the wire is live.

        Inconclusive: there is nothing to replay, though it is `needed`.
        """
        self._runs += 1
        if self.mode == "live":
            return None
        folder = self._folder / (
            f"r{self._repetition}-{self._runs}" if self._repetition > 1 else str(self._runs)
        )
        if self.mode == "record":
            shutil.rmtree(
                self._folder if (self._repetition, self._runs) == (1, 1) else folder,
                ignore_errors=True,
            )
        elif needed and not folder.is_dir():
            raise no_cassette()
        return folder

    @contextmanager
    def limit(self, usd: float) -> Iterator[RunSpending]:
        """Set aside what a run may cost, at most `usd`; what it did not cost is given back.
        Inconclusive.
        """
        allowances = [] if self.mode == "replay" else self._allowances
        for allowance in allowances:
            if allowance.usd <= 0:
                raise Inconclusive(allowance.spent, OUT_OF_BUDGET)
        limit = min([usd, *(allowance.usd for allowance in allowances)])
        spending = RunSpending(limit, limit)  # until the run says what it cost
        for allowance in allowances:
            allowance.usd -= limit
        try:
            yield spending
        except UsageError:  # nothing was asked
            spending.usd = 0.0
            raise
        finally:
            for allowance in allowances:
                allowance.usd += limit - spending.usd


class RunSpending(Struct):
    """What a run may cost, and what it did."""

    limit_usd: float
    usd: float


def _folder_name(item: pytest.Item) -> str:
    """The test's name, its class and parameters included, as a folder's; with a hash if it had to
    be changed.

    Not of the node id, to which pytest-xdist may add a group.
    """
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    name = ".".join([*classes, item.name])
    plain = name.replace("[", "-", 1).removesuffix("]")
    allowed = re.sub(r"[^A-Za-z0-9_.=-]+", "_", plain)[:MAX_NAME]
    if allowed == plain:
        return allowed
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    return f"{allowed}-{digest[:8]}"


def difference(unmatched: str) -> str:
    """The first line in which a request differs from the recorded one, or which files of the set-up
    do, on one line; as of Cassette.difference.
    """
    lines = unmatched.splitlines()
    _, _, beginning = lines[0].partition(": ")  # behind the node
    if beginning.startswith(SETUP_DIFFERENCE):
        return safe(beginning)
    changed_lines = [line for line in lines[1:] if re.match(r"[-+](?![-+]{2} ).*\w", line)]
    shown_lines = changed_lines[:1] or lines[:1]
    for line in changed_lines:
        if line[0] != shown_lines[0][0]:  # the other side of the difference
            shown_lines.append(line)
            break
    return " / ".join(safe(" ".join(line.split()))[:MAX_DIFFERENCE] for line in shown_lines)


def hide_own_frames(error: BaseException) -> None:
    """Leave out of its traceback what lies inside of vibe_gate and its event loop: the test's own
    lines count.
    """
    was_inside = False
    last = None
    entry = error.__traceback__
    while entry is not None:
        path = Path(entry.tb_frame.f_code.co_filename)
        is_inside = path.is_relative_to(_PACKAGE)
        was_inside = was_inside or is_inside
        is_hidden = is_inside or (was_inside and path.parent == _ASYNCIO)
        if last is None:
            last = entry
        elif not is_hidden:
            last.tb_next = entry
            last = entry
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None


def classify_report(
    report: pytest.TestReport, item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]
) -> None:
    """Make a report of what was raised: Inconclusive skips, any other GateError is an error and no
    failure.
    """
    error = _gate_error(excinfo.value)
    if error is None:
        return
    if hasattr(report, "wasxfail"):  # what cannot be decided is not what was expected to fail
        del report.wasxfail
        report.outcome = "failed"
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:  # of the class's module, nothing fits into the short summary's line
        crash.message = f"{type(error).__name__}: {error}"
    if isinstance(error, Inconclusive):
        report.vibe_undecided = error.kind  # type: ignore[attr-defined]
    elif not isinstance(error, AgentFailed):
        report.vibe_error = True  # type: ignore[attr-defined]
    if isinstance(error, Inconclusive) and not is_strict(item.config):
        path, line, _ = item.reportinfo()
        report.outcome = "skipped"
        report.longrepr = (os.fspath(path), (line or 0) + 1, f"Skipped: {error}")


def _gate_error(error: BaseException) -> GateError | None:
    """The error, or the first of a group that holds nothing but such errors."""
    if isinstance(error, BaseExceptionGroup):
        gate_errors, other_errors = error.split(GateError)
        if gate_errors is None or other_errors is not None:
            return None
        return _gate_error(gate_errors.exceptions[0])
    return error if isinstance(error, GateError) else None
