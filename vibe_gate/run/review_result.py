"""How a review came out: what a face shows of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding, RunOutcome
from vibe_gate.errors import PASS
from vibe_gate.report import sentences
from vibe_gate.run.team_store import UnsharedRun

if TYPE_CHECKING:
    from vibe_gate.store.run_result import RunResult


class Review(Struct, frozen=True):
    """How a review came out."""

    summary: Summary
    """The document that `--json` prints."""

    notes: tuple[str, ...] = ()
    """Sentences for people."""

    gate: Gate | None = None
    """The one in force; None if there was nothing to review."""

    repairs: tuple[FileDiff, ...] = ()
    """What checks would write, as differences from the reviewed files."""

    root: Path = Path()
    """The top of the reviewed working tree."""

    unshared: UnsharedRun | None = None
    """The run as it goes to the shared store, if there is one."""

    store_root: Path = Path()
    """The folder whose `.vibe-artifacts` has the run."""

    unrecorded: str = ""
    """A sentence that says why the run is not recorded, or not wholly; "" if it is."""

    def __repr__(self) -> str:  # without the gate and what checks would write
        findings = counted(len(self.findings), "finding")
        return f"<Review {self.outcome}, {findings}, in {self.summary.bundle or 'no bundle'}>"

    @property
    def outcome(self) -> RunOutcome:
        """pass, fail, inconclusive or error; a pass can still need a person's approval (exit code
        4).
        """
        return self.summary.outcome

    @property
    def headline(self) -> str:
        """The verdict and what decided, as the first line of `vibe-gate review` says it: `PASS
        (checks only) · ...`.
        """
        return safe(sentences.verdict_headline(self.summary))

    @property
    def exit_code(self) -> int:
        """What `vibe-gate review` would return."""
        return self.summary.exit_code

    @property
    def passed(self) -> bool:
        """Whether nothing is left to do: exit code 0."""
        return self.summary.exit_code == PASS

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is objected to, with places and evidence, worst first."""
        return self.summary.findings

    @property
    def bundle(self) -> RunResult | None:
        """All that was recorded, opened now and read as it is asked for; None if there was nothing
        to review, or nothing could be recorded. StorageError.
        """
        if not self.summary.bundle:
            return None
        from vibe_gate.store.run_result import read_bundle  # hooks open no bundle

        return read_bundle(self.store_root / self.summary.bundle)
