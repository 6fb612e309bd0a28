"""Which judges may block: what calibration and people say of them, as badges. Pure.

A criterion has a badge if the repository has definitions of its own. The built-in gate has none:
its rubric was tried by us, and nobody who has no definitions could calibrate it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import UNSET, Struct

from vibe_gate.domain.calibration import CriterionBaseline, at_most, clean_needed, earned, share
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Gate, Trust
from vibe_gate.domain.label import ON_FORGE, Label
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import TrustBadge, TrustState, short

Badges = Mapping[tuple[str, str], TrustBadge]
"""By ids of rubric and criterion."""


def badges(gate: Gate, labels: Iterable[Label], model: str) -> Badges:
    """The badges of all judge criteria of the gate; none of the built-in gate's. `model`: asked if
    a rubric names none.

    What a change brings does not count for itself: baselines are read where the gate's rubrics are,
    and labels that people gave at the forge, which are those of the pull request under review, are
    left out.
    """
    if gate.origin == "built-in":
        return {}
    known = [label for label in labels if label.source not in ON_FORGE]
    return {
        (rubric.id, criterion.id): _badge(gate, rubric, criterion, known, model)
        for rubric in gate.rubrics
        for criterion in rubric.judge_criteria
    }


class _Known(Struct, frozen=True):
    """What is known of a criterion: `calibration` of this rubric, model and template; `stale`, why
    one does not count; how many changes people labelled that it was `wrong` to block.
    """

    calibration: CriterionBaseline | None
    stale: str
    wrong: int

    @property
    def state(self) -> TrustState:
        if self.calibration is None:
            return "stale" if self.stale else "uncalibrated"
        return "unsteady" if self.calibration.is_unsteady else "calibrated"


def _badge(
    gate: Gate, rubric: Rubric, criterion: Criterion, labels: Iterable[Label], model: str
) -> TrustBadge:
    known = _known(gate, rubric, criterion, labels, model)
    of_cases = known.calibration or CriterionBaseline(
        id=criterion.id, clean=0, clean_blocked=0, defective=0, found=0
    )
    clean, blocked = of_cases.clean + known.wrong, of_cases.clean_blocked + known.wrong
    blocks = may_block(gate.file.trust, known.state, clean, blocked)
    waits = gate.file.trust.block == "earned" and not blocks
    return TrustBadge(
        state=known.state,
        sentence=short(_sentence(known, clean, blocked)),
        blocks=blocks,
        clean=clean,
        blocked=blocked,
        defective=of_cases.defective,
        found=of_cases.found,
        wrong=known.wrong,
        flips=of_cases.flips,
        at_most=at_most(blocked, clean) if clean else UNSET,
        recall=share(of_cases.found, of_cases.defective) or UNSET,
        needed=clean_needed(blocked, gate.file.trust.max_false_blocks) if waits else UNSET,
    )


def may_block(trust: Trust, state: TrustState, clean: int, blocked: int) -> bool:
    """Whether the fail of a criterion blocks, `blocked` of whose `clean` changes were blocked; else
    it advises.
    """
    if trust.block == "earned":
        return earned(clean, blocked, trust.max_false_blocks)
    return trust.uncalibrated == "block" or state not in ("stale", "uncalibrated")


def _known(
    gate: Gate, rubric: Rubric, criterion: Criterion, labels: Iterable[Label], model: str
) -> _Known:
    judge = rubric.judged_by(model)
    own = [label for label in labels if label.is_about(rubric, criterion.id, judge)]
    baseline = next((one for one in gate.baselines if one.rubric == rubric.id), None)
    measured = baseline.of(criterion.id) if baseline else None
    if baseline is None or measured is None:
        return _Known(None, "", _wrong(own))
    if baseline.digest != rubric.digest:
        return _Known(None, "before the rubric changed", _wrong(own))
    if baseline.model != judge:
        return _Known(None, f"with {baseline.model}, not {judge}", _wrong(own))
    from vibe_gate.judging.brief import TEMPLATE_VERSION  # most gates have no baseline

    if baseline.template != TEMPLATE_VERSION:
        return _Known(None, "with an earlier version of vibe-gate's instructions", _wrong(own))
    return _Known(measured, "", _wrong(own))


def _wrong(labels: Iterable[Label]) -> int:
    """How many clean changes were blocked: several findings of one run are about one change, which
    is not clean if one of them is right.
    """
    by_change: dict[str, set[bool]] = defaultdict(set)
    for label in labels:
        by_change[label.run or label.finding].add(label.right)
    return sum(said == {False} for said in by_change.values())


def _sentence(known: _Known, clean: int, blocked: int) -> str:
    """The badge in a few words: `calibrated: 1 of 60 clean blocked, 27 of 30 found`."""
    if known.calibration is None:
        why = f" (calibrated {known.stale})" if known.stale else ""
        wrong = f", {counted(known.wrong, 'change')} wrongly blocked" if known.wrong else ""
        return known.state + why + wrong
    of_cases = known.calibration
    figures = [
        f"{of_cases.flips} of {of_cases.cases} cases flipped" if of_cases.flips else "",
        f"{blocked} of {clean} clean blocked" if clean else "",
        f"{of_cases.found} of {of_cases.defective} found" if of_cases.defective else "",
    ]
    return f"{known.state}: {', '.join(filter(None, figures)) or 'no case'}"
