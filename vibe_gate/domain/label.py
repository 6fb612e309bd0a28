"""What people say of findings: right or wrong. It counts where judges are measured, never in a
verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from vibe_gate.domain.document import Timestamp
from vibe_gate.domain.rubric import Identifier, Rubric
from vibe_gate.domain.verdict import MAX_REASON, short

LabelSource = Literal["cli", "command", "reaction", "override"]
"""Of a label: `vibe-gate label`, a comment or a thumb on the forge, or the answer when a finding
was accepted.
"""

ON_FORGE: tuple[LabelSource, ...] = ("command", "reaction")
"""Sources of labels that stand on the forge and are read there again by each run."""


class FindingSource(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Who found a finding: a rubric as its `digest` defines it, the model that judged ("" of a
    check), the run.
    """

    rubric: Identifier
    criterion: Identifier
    digest: Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{64})?(?!\n)$")] = ""
    model: Annotated[str, Meta(max_length=200)] = ""
    run: Annotated[str, Meta(max_length=64)] = ""


class Label(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's word on one finding of a rubric's criterion: it was `right`, or wrong.

    `ts`: when it was said. `by`: git's name and address, of the forge `@LOGIN`. `digest`: of the
    rubric that asked; `model`: the judge, "" of a check, and where it is not known. `run`: id of
    the run that has the finding.
    """

    schema: Literal[1] = 1
    ts: Timestamp
    finding: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}(?!\n)$")]
    rubric: Identifier
    criterion: Identifier
    right: bool
    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""
    by: Annotated[str, Meta(min_length=1, max_length=400)]
    digest: Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{64})?(?!\n)$")]
    model: Annotated[str, Meta(max_length=200)] = ""
    run: Annotated[str, Meta(max_length=64)] = ""
    source: LabelSource

    def is_about(self, rubric: Rubric, criterion: str, judge: str) -> bool:
        """Whether it is about this criterion as the rubric defines it, and about the judge: its
        `Rubric.judged_by`.
        """
        is_same_question = (self.rubric, self.criterion, self.digest) == (
            rubric.id,
            criterion,
            rubric.digest,
        )
        return is_same_question and {*self.model.split(", ")} <= {
            *judge.split(", ")
        }  # of models that take turns, who voted


class Word(Struct, frozen=True, kw_only=True):
    """What a person says, of whatever finding: see `Label`."""

    ts: datetime
    right: bool
    reason: str
    by: str
    source: LabelSource

    def on(self, finding: str, sources: Iterable[FindingSource]) -> tuple[Label, ...]:
        """The word on this finding, by its fingerprint: a label for each rubric that found it."""
        reason = short(self.reason)
        return tuple(
            Label(
                ts=self.ts,
                finding=finding,
                rubric=source.rubric,
                criterion=source.criterion,
                right=self.right,
                reason=reason,
                by=self.by,
                digest=source.digest,
                model=source.model,
                run=source.run,
                source=self.source,
            )
            for source in sources
        )


def newest(labels: Iterable[Label]) -> tuple[Label, ...]:
    """The last label of each finding and rubric, whoever gave it; oldest first."""
    last = {
        (label.finding, label.rubric, label.criterion): label
        for label in sorted(labels, key=lambda label: label.ts)
    }
    return tuple(sorted(last.values(), key=lambda label: label.ts))
