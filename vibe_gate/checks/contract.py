"""What a check is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, FileChange, FileVersion
from vibe_gate.domain.model import Model
from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.verdict import Finding, Outcome

if TYPE_CHECKING:
    from vibe_gate.domain.execution import CommandResult, Execution


@dataclass(frozen=True, slots=True)
class CheckInput:
    """Everything a check may look at.

    `read` gives the content of one side of a changed file (a symlink's target text;
    b"" for a submodule). `run_command(argv, timeout_s)` runs in a fresh export of
    the head tree. `execution` is what an agent of this run did; None in a review of a change that
    no agent of ours wrote. `policy` holds the globs of the gate's block list. `redact` takes secrets out of a
    text that is going to be cut: what a limit leaves of one may not be known as a secret any more.
    """

    change: Change
    criterion: Criterion
    read: Callable[[FileVersion], bytes]
    run_command: Callable[[tuple[str, ...], float], CommandResult]
    execution: Execution | None = None
    policy: tuple[str, ...] = ()
    redact: Callable[[str], str] = str

    @property
    def files(self) -> tuple[FileChange, ...]:
        """The changed files that the criterion's `paths` select (all without `paths`).

        A rename is selected by either of its names, so that moving a file out of
        the way does not take it out of a check.
        """
        globs = self.criterion.paths
        if not globs:
            return self.change.files
        return tuple(
            file
            for file in self.change.files
            if paths.matches(file.path, globs) or (file.old_path is not None and paths.matches(file.old_path, globs))
        )


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check's answer. `reason` is one sentence of at most 280 characters."""

    outcome: Outcome
    reason: str
    findings: tuple[Finding, ...] = ()


class NoOptions(Model):
    """For checks that have nothing to set."""


@dataclass(frozen=True, slots=True)
class Check:
    """An entry of CHECKS: the homes, `module:name`, of its options and of its function."""

    summary: str
    home_of_options: str
    home_of_function: str

    @property
    def options(self) -> type[Model]:
        """What the criterion may set."""
        return cast("type[Model]", _at(self.home_of_options))

    @property
    def function(self) -> Callable[[CheckInput, Any], CheckResult]:
        """`function(input, options)` with `options` of type `options`."""
        return cast("Callable[[CheckInput, Any], CheckResult]", _at(self.home_of_function))


def _at(home: str) -> object:
    module, _, name = home.partition(":")
    return getattr(import_module(f"vibe_gate.checks.{module}"), name)
