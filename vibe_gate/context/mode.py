"""How a review is carried out: one value, which says what follows from it.

| mode | asks a model | whose verdict it is |
| --- | --- | --- |
| `LiveMode` | what no earlier review answered | the change's |
| `HookMode` | as `[hooks.STAGE]` of gate.toml says | the change's, before git goes on |
| `StopMode` | as `[hooks.stop]` says | the change's, while the agent may still repair it |
| `RecheckMode`, `DraftMode` | nothing: known answers count | the pull request's, for now |
| `DisputeMode` | what no earlier review answered, and once about the disputed finding | the change's |
| `ReplayMode` | what no earlier review answered | nobody's: another rubric, or another model, on trial |
| `RepeatMode` | what no earlier review answered, and every agent | nobody's: the same agents at work again |
| `CalibrationMode` | what no earlier review answered | nobody's: the judge itself on trial |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from vibe_gate.domain.cause import (
    AsksNoModel,
    Cause,
    DraftWaits,
    HookNeverAsks,
    NotByAgent,
    StopAsksNoJudge,
)
from vibe_gate.domain.gate import Gate, HookName


class Batch(Struct, frozen=True):
    """Many reviews that one command makes; it finds again what it has made."""

    digest: str
    """The sha-256 of what all of them are asked; stands in each one's run.json."""

    has_open_ports: bool = False
    """Whether code that runs in a review reaches ports of Dask's without TLS: a gate that runs code
    of the change is refused then.
    """


class Mode(Struct, frozen=True):
    """How a review is carried out. What stands here holds of every mode that says nothing else."""

    unasked_if_new: ClassVar[Cause | None] = None
    """Why a question has no answer that no earlier review answered; None if a model is asked."""

    counts: ClassVar[bool] = True
    """Whether the verdict is one about the change: it gets a receipt, and goes to the store that a
    team shares.
    """

    tries_judge: ClassVar[bool] = False
    """Whether the judge is on trial: what is known of it, and what only this clone knows, has no
    effect.
    """

    @property
    def batch(self) -> Batch | None:
        """What it is one of; None of a review on its own."""
        return None

    @property
    def replay_of(self) -> str:
        """The id of the run whose change is judged again, or ""."""
        return ""

    @property
    def disputed_finding(self) -> str:
        """The fingerprint of the finding that somebody argues against, or ""."""
        return ""

    @property
    def judge_model(self) -> str:
        """Takes the place of every model that the gate names for judges; "" leaves the gate's."""
        return ""

    @property
    def runs_commands(self) -> bool:
        """Whether the definitions may have anything run here; else rubrics with a command are left
        out, and no fail brings a test.
        """
        return True

    @property
    def pending_message(self) -> str | None:
        """What the commit will say that git is about to make; None if none is being made."""
        return None

    @property
    def run_fields(self) -> dict[str, str]:
        """The fields that run.json has of it."""
        fields = {}
        if self.batch is not None:
            fields["batch"] = self.batch.digest
        if self.replay_of:
            fields["replay_of"] = self.replay_of
        if self.disputed_finding:
            fields["disputes"] = self.disputed_finding
        return fields

    def unasked_by_rule(self, gate: Gate, *, by_agent: bool) -> Cause | None:
        """Why no judge is wanted; None if one is. `by_agent`: there are signs that an agent wrote
        the change.
        """
        return None

    def unasked_as_reviewed(self) -> Cause | None:
        """Asked just before a judge would be: why none has to be, or None."""
        return None


class LiveMode(Mode, frozen=True):
    """A verdict about the change, for whoever asked: in a terminal, a script, a test, a job of
    CI.
    """

    batch: Batch | None = None


class HookMode(Mode, frozen=True):
    """A verdict about the change at a git hook."""

    stage: HookName

    message: str = ""
    """What the commit will say."""

    find_reviews: Callable[[], Cause | None] | None = None
    """Says why no judge has to be asked, as other reviews cover the change; None if they do not."""

    @property
    def pending_message(self) -> str | None:
        """The commit's message, "" as long as git has none."""
        return self.message

    def unasked_by_rule(self, gate: Gate, *, by_agent: bool) -> Cause | None:
        """As the gate's rule for the hook says."""
        judge = gate.file.hooks.at_stage(self.stage).judge
        if judge == "never":
            return HookNeverAsks(stage=self.stage)
        if judge == "agent-authored" and not by_agent:
            return NotByAgent()
        return None

    def unasked_as_reviewed(self) -> Cause | None:
        """As other reviews of the same commits say."""
        return self.find_reviews() if self.find_reviews else None


class StopMode(Mode, frozen=True):
    """A verdict about the working tree when a coding agent ends its turn."""

    def unasked_by_rule(self, gate: Gate, *, by_agent: bool) -> Cause | None:
        """As the gate's rule for agents' turns says."""
        if gate.file.hooks.stop.review == "judge":
            return None
        return StopAsksNoJudge()


class DisputeMode(Mode, frozen=True):
    """A verdict about a change that was reviewed before, with an argument against a finding."""

    finding: str
    """Its fingerprint."""

    argument: str
    """On one line."""

    by: str
    """As of `domain.verdict.Dispute`."""

    @property
    def disputed_finding(self) -> str:
        """That finding."""
        return self.finding


class RecheckMode(Mode, frozen=True):
    """A recheck of a pull request because somebody reviewed it: an approval counts at once, and
    nothing is paid.
    """

    unasked_if_new: ClassVar[Cause] = AsksNoModel()


class DraftMode(Mode, frozen=True):
    """A review of a pull request that is still a draft."""

    unasked_if_new: ClassVar[Cause] = DraftWaits()


class ReplayTrial(Struct, frozen=True):
    """What replays of stored runs try."""

    batch: Batch

    judge_model: str = ""
    """Asked in place of every model that the gate names for judges; "" leaves the gate's."""

    runs_commands: bool = True
    """As of Mode."""


class ReplayMode(Mode, frozen=True):
    """The change of a stored run judged again, by other rubrics or another model."""

    counts: ClassVar[bool] = False

    replay_of: str

    trial: ReplayTrial

    @property
    def batch(self) -> Batch:
        """That of all replays of the command."""
        return self.trial.batch

    @property
    def judge_model(self) -> str:
        """The one on trial."""
        return self.trial.judge_model

    @property
    def runs_commands(self) -> bool:
        """As the trial says."""
        return self.trial.runs_commands


class RepeatMode(Mode, frozen=True):
    """The run of a workflow, or of one agent, carried out again about the same trees."""

    counts: ClassVar[bool] = False

    replay_of: str


class CalibrationMode(Mode, frozen=True):
    """A labelled case, whose outcome people know."""

    counts: ClassVar[bool] = False
    tries_judge: ClassVar[bool] = True
