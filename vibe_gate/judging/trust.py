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
    counted_labels = [label for label in labels if label.source not in ON_FORGE]
    badges_by_ids = {}
    for rubric in gate.rubrics:
        for criterion in rubric.judge_criteria:
            badge = _badge(gate, rubric, criterion, counted_labels, model)
            badges_by_ids[rubric.id, criterion.id] = badge
    return badges_by_ids


class _JudgeRecord(Struct, frozen=True):
    """What is known of the judge of a criterion."""

    calibration: CriterionBaseline | None
    """Of this rubric, model and template."""

    stale: str
    """When or with what a calibration was made that does not count, or ""."""

    wrong: int
    """How many changes people labelled that it was wrong to block."""

    @property
    def state(self) -> TrustState:
        if self.calibration is None:
            return "stale" if self.stale else "uncalibrated"
        if self.calibration.is_unsteady:
            return "unsteady"
        return "calibrated"


def _badge(
    gate: Gate, rubric: Rubric, criterion: Criterion, labels: Iterable[Label], model: str
) -> TrustBadge:
    record = _judge_record(gate, rubric, criterion, labels, model)
    calibration = record.calibration or CriterionBaseline(
        id=criterion.id, clean=0, clean_blocked=0, defective=0, found=0
    )
    clean = calibration.clean + record.wrong
    blocked = calibration.clean_blocked + record.wrong
    blocks = may_block(gate.file.trust, record.state, clean, blocked)
    must_earn = gate.file.trust.block == "earned" and not blocks
    return TrustBadge(
        state=record.state,
        sentence=short(_sentence(record, clean, blocked)),
        blocks=blocks,
        clean=clean,
        blocked=blocked,
        defective=calibration.defective,
        found=calibration.found,
        wrong=record.wrong,
        flips=calibration.flips,
        at_most=at_most(blocked, clean) if clean else UNSET,
        recall=share(calibration.found, calibration.defective) or UNSET,
        needed=clean_needed(blocked, gate.file.trust.max_false_blocks) if must_earn else UNSET,
    )


def may_block(trust: Trust, state: TrustState, clean: int, blocked: int) -> bool:
    """Whether the fail of a criterion blocks, `blocked` of whose `clean` changes were blocked; else
    it advises.
    """
    if trust.block == "earned":
        return earned(clean, blocked, trust.max_false_blocks)
    return trust.uncalibrated == "block" or state not in ("stale", "uncalibrated")


def _judge_record(
    gate: Gate, rubric: Rubric, criterion: Criterion, labels: Iterable[Label], model: str
) -> _JudgeRecord:
    judge_model = rubric.judged_by(model)
    criterion_labels = [
        label for label in labels if label.is_about(rubric, criterion.id, judge_model)
    ]
    wrong = _wrongly_blocked(criterion_labels)
    baselines = [baseline for baseline in gate.baselines if baseline.rubric == rubric.id]
    if not baselines:
        return _JudgeRecord(None, "", wrong)
    baseline = baselines[0]
    calibration = baseline.of(criterion.id)
    if calibration is None:
        return _JudgeRecord(None, "", wrong)
    if baseline.digest != rubric.digest:
        return _JudgeRecord(None, "before the rubric changed", wrong)
    if baseline.model != judge_model:
        return _JudgeRecord(None, f"with {baseline.model}, not {judge_model}", wrong)
    from vibe_gate.judging.brief import TEMPLATE_VERSION  # most gates have no baseline

    if baseline.template != TEMPLATE_VERSION:
        stale = "with an earlier version of vibe-gate's instructions"
        return _JudgeRecord(None, stale, wrong)
    return _JudgeRecord(calibration, "", wrong)


def _wrongly_blocked(labels: Iterable[Label]) -> int:
    """How many clean changes were blocked: several findings of one run are about one change, which
    is not clean if one of them is right.
    """
    answers_by_change: dict[str, set[bool]] = defaultdict(set)
    for label in labels:
        answers_by_change[label.run or label.finding].add(label.right)
    return sum(answers == {False} for answers in answers_by_change.values())


def _sentence(record: _JudgeRecord, clean: int, blocked: int) -> str:
    """The badge in a few words: `calibrated: 1 of 60 clean blocked, 27 of 30 found`."""
    calibration = record.calibration
    if calibration is None:
        sentence: str = record.state
        if record.stale:
            sentence += f" (calibrated {record.stale})"
        if record.wrong:
            sentence += f", {counted(record.wrong, 'change')} wrongly blocked"
        return sentence
    figures = []
    if calibration.flips:
        figures.append(f"{calibration.flips} of {calibration.cases} cases flipped")
    if clean:
        figures.append(f"{blocked} of {clean} clean blocked")
    if calibration.defective:
        figures.append(f"{calibration.found} of {calibration.defective} found")
    return f"{record.state}: {', '.join(figures) or 'no case'}"
