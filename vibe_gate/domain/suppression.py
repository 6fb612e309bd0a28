"""Suppressions: `.vibe-gate/suppressions.toml`, what the repository has decided to live with. `schema = 1`."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from vibe_gate.domain import paths
from vibe_gate.domain.model import Model
from vibe_gate.domain.rubric import Identifier
from vibe_gate.domain.verdict import Finding

Reason = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"\S")]
"""Why; never blank."""


class Suppression(Model):
    """One entry of suppressions.toml: a finding by fingerprint, or what a criterion finds at some paths."""

    finding: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")] | None = None
    criterion: Identifier | None = None
    paths: tuple[str, ...] = ()
    reason: Reason
    by: str = ""
    expires: date | None = None

    @model_validator(mode="after")
    def _says_what(self) -> Suppression:
        if self.finding is None and self.criterion is None and not self.paths:
            raise ValueError("a suppression needs a finding, a criterion or paths")
        return self

    @property
    def name(self) -> str:
        """What it is about, for people."""
        return self.finding or ":".join(filter(None, (self.criterion or "*", ",".join(self.paths))))

    def covers(self, finding: Finding) -> bool:
        """Whether it is about this finding."""
        if self.finding is not None:
            return self.finding == finding.fingerprint
        if self.criterion is not None and self.criterion != finding.criterion:
            return False
        return not self.paths or (finding.path != "" and paths.matches(paths.unquote(finding.path), self.paths))


class SuppressionsFile(Model):
    """`.vibe-gate/suppressions.toml`."""

    schema_: Literal[1] = Field(alias="schema")
    suppression: tuple[Suppression, ...] = ()
