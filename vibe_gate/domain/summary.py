"""The summary of a run: `summary.json` of a bundle, and what `--json` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from vibe_gate.domain.change import ChangeType
from vibe_gate.domain.model import Field, Many, Model, Named
from vibe_gate.domain.verdict import Finding, RubricResult, RunOutcome

CostBasis = Literal["known", "unknown", "none"]
"""`unknown`: a model without a listed price took part and was priced as the dearest; `none`: no model was asked."""


class Trusted(Model):
    """Where the gate was read: a commit id, "worktree", "" (built-in). `bootstrap`: there, as `branch` has none yet."""

    revision: str
    bootstrap: bool
    branch: str = ""


class ChangedFile(Model):
    """One changed path, as shown (`paths.quote`)."""

    path: str
    old_path: str | None
    change_type: ChangeType
    added: int
    deleted: int
    binary: bool


class ChangeSummary(Model):
    """The change by ids; `base_commit` and `head_commit` are "" where that side is no commit."""

    before: str
    after: str
    base_commit: str
    head_commit: str
    patch_id: str
    range_patch_id: str
    files: Many[ChangedFile]


class PolicyChange(Model):
    """A change to the gate itself or to what steers it. `diff` is unified text."""

    path: str
    change_type: str
    level: Literal["block", "warn"]
    diff: str


class Unreviewed(Model):
    """Changed lines that judges did not see: after-side lines (before-side if deleted); 0, 0 the whole file.

    `rubrics`: whose judges did not see them; () of every rubric.
    """

    path: str
    line: int
    end_line: int
    reason: str
    rubrics: Many[str] = ()


class AgentAuthored(Model):
    """Whether an agent wrote the change, and what says so."""

    decision: bool = False
    hints: Many[str] = ()


class Cost(Model):
    """What the run's models cost. USD and tokens; by node id and by model name, USD."""

    usd: float = 0.0
    basis: CostBasis = "none"
    input_tokens: int = 0
    output_tokens: int = 0
    by_node: Named[float] = Field(default_factory=dict)
    by_model: Named[float] = Field(default_factory=dict)


def least_certain(bases: Iterable[CostBasis]) -> CostBasis:
    """The basis of a sum: "none" of nothing."""
    found = set(bases)
    return "unknown" if "unknown" in found else "known" if "known" in found else "none"


class CacheUse(Model):
    """Questions answered from earlier verdicts, and questions that had to be asked."""

    hits: int = 0
    misses: int = 0


class Summary(Model):
    """The document. `bundle` is relative to the repository's root, "" if nothing was recorded."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    run_id: str
    key: str
    workflow: str
    outcome: RunOutcome
    exit_code: int
    bundle: str
    trusted: Trusted
    change: ChangeSummary
    rubrics: Many[RubricResult] = ()
    findings: Many[Finding] = ()
    policy_changes: Many[PolicyChange] = ()
    unreviewed: Many[Unreviewed] = ()
    agent_authored: AgentAuthored = AgentAuthored()
    cost: Cost = Cost()
    cache: CacheUse = CacheUse()
    duration_ms: int = 0

    def to_json(self) -> str:
        """The document as indented JSON with a final newline."""
        return self.model_dump_json(indent=2) + "\n"
