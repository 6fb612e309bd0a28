"""Votes that fail a criterion with one defect."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from vibe_gate.domain.verdict import CheckedEvidence, Defect, SecondLook, Vote

_DEFECT_FIELDS = ("also", "counterexample", "proof", "second_look", "stops")


def fail_vote(reason: str = "so", *evidence: CheckedEvidence, **fields: Any) -> Vote:
    """The vote; `fields` are the vote's and its defect's."""
    defect_fields = {name: fields.pop(name) for name in _DEFECT_FIELDS if name in fields}
    defect = Defect(
        reason=reason, evidence=evidence, **{"counterexample": "x -> y", **defect_fields}
    )
    return Vote(
        **{"outcome": "fail", "said": "fail", "reason": reason, **fields}, defects=(defect,)
    )


def change_defects(vote: Vote, **fields: Any) -> Vote:
    """The vote, each of its defects with these fields."""
    return replace(vote, defects=tuple(replace(defect, **fields) for defect in vote.defects))


def looks_of(vote: Vote) -> list[SecondLook]:
    """The second looks at its defects."""
    return [defect.second_look for defect in vote.defects if defect.second_look]
