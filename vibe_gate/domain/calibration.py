"""What a judge did on labelled cases: counts, their 95 % intervals, and the rule by which blocking
is earned.

Intervals are Clopper and Pearson's, which are exact: they hold the rate in at least 95 % of all
cases, where Wilson's fall well below that for rates near 0 and 1, which are those of a good judge.
Of 0 of n, one end alone, they say at most 1 - 0.05^(1/n), for which "3 / n" is short.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from vibe_gate.domain.interval import Interval
from vibe_gate.domain.paths import is_plain
from vibe_gate.domain.rubric import Identifier, ModelName, Schema

if TYPE_CHECKING:
    from vibe_gate.domain.verdict import Outcome  # which has intervals

ALPHA = 0.05
"""Intervals and the rule that earns blocking err in at most this share of judges."""

BET = 0.25
"""What `log_ratio` bets on, as a share of the bound: of 0.1 to 0.5 it is where a judge with 1 %
false blocks has earned 5 % most surely within 300 looks (98 %), and one without any after 78 clean
cases.
"""

MAX_CASES = 10_000
"""Labelled cases of a criterion: far more than anybody writes, and few enough to work out their
intervals at once.
"""

MAX_REPEATS = 100
"""Of each case: a baseline's are asked again at the next calibration, whoever wrote it."""

MAX_TEMPLATE = 10_000
"""Of instructions: more versions than there ever are."""

_STEPS = 60
"""Halvings of an interval of length 1: to the last bit of a float."""


def _require_plain(text: str) -> None:
    if not is_plain(text):
        raise ValueError("cannot be shown as it is")


Plain = Annotated[str, Meta(extra={"check": _require_plain})]


class CriterionBaseline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Counts of labelled cases. A case whose repeats differ counts by the worst: blocked if clean,
    else not found.
    """

    id: Annotated[Identifier, Meta(description="The criterion.")]
    clean: Annotated[int, Meta(ge=0, le=MAX_CASES, description="Cases that it must not fail.")]
    clean_blocked: Annotated[
        int, Meta(ge=0, le=MAX_CASES, description="Of these, failed: false blocks.")
    ]
    defective: Annotated[int, Meta(ge=0, le=MAX_CASES, description="Cases that it must fail.")]
    found: Annotated[int, Meta(ge=0, le=MAX_CASES, description="Of these, failed.")]
    abstained: Annotated[
        int, Meta(ge=0, le=MAX_CASES, description="Cases of either kind that it did not decide.")
    ] = 0
    flips: Annotated[
        int,
        Meta(ge=0, le=MAX_CASES, description="Cases whose repeats differ in whether they fail."),
    ] = 0
    repeats: Annotated[
        int, Meta(ge=1, le=MAX_REPEATS, description="How often each case was asked.")
    ] = 1
    agreement: Annotated[
        Annotated[float, Meta(ge=-1, le=1)] | None,
        Meta(description="Cohen's kappa of judge and labels."),
    ] = None

    def __post_init__(self) -> None:
        """Refuse counts that contradict each other, with ValueError."""
        if self.clean_blocked > self.clean or self.found > self.defective:
            raise ValueError(
                "clean_blocked and found count cases among clean and defective; they cannot be more"
            )
        if max(self.abstained, self.flips) > self.cases:
            raise ValueError(
                "abstained and flips count cases; they cannot be more than clean + defective"
            )

    @property
    def cases(self) -> int:
        """The labelled cases that were asked."""
        return self.clean + self.defective

    @property
    def is_unsteady(self) -> bool:
        """Whether asking again gave another answer."""
        return self.flips > 0

    @property
    def false_blocks(self) -> Interval | None:
        """The share of clean cases that it fails."""
        return share(self.clean_blocked, self.clean)

    @property
    def recall(self) -> Interval | None:
        """The share of defective cases that it fails."""
        return share(self.found, self.defective)

    @property
    def precision(self) -> Interval | None:
        """The share of defective ones among the cases that it fails."""
        return share(self.found, self.found + self.clean_blocked)

    @property
    def kappa(self) -> Interval | None:
        """The agreement of judge and labels beyond chance."""
        return kappa(self.found, self.defective, self.clean_blocked, self.clean)


class Baseline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`baseline/ID.toml`: what `vibe-gate calibrate` measured of a rubric, and of which judge."""

    schema: Schema
    rubric: Annotated[Identifier, Meta(description="The file's name without `.toml`.")]
    digest: Annotated[
        str,
        Meta(
            pattern=r"^[0-9a-f]{64}(?!\n)$",
            description="The rubric's digest.",
            extra={"means": "a sha-256 in hexadecimal"},
        ),
    ]
    model: Annotated[ModelName, Meta(description="The model that was asked.")]
    template: Annotated[
        int, Meta(ge=1, le=MAX_TEMPLATE, description="The version of the judge's instructions.")
    ]
    cli: Annotated[Plain, Meta(description="The version of Claude Code.")] = ""
    created_at: Annotated[Plain, Meta(description="When, in UTC.")]
    criterion: Annotated[
        tuple[CriterionBaseline, ...], Meta(description="One for each judge criterion with cases.")
    ]

    def of(self, criterion: str) -> CriterionBaseline | None:
        """The counts of a criterion; None if no case has a label for it."""
        return next((baseline for baseline in self.criterion if baseline.id == criterion), None)


# Counts


class LabelledAnswers(Struct, frozen=True):
    """What a criterion was found to be in a labelled case, each time that it was asked; never
    empty.
    """

    is_clean: bool
    outcomes: tuple[Outcome, ...]

    @property
    def is_flip(self) -> bool:
        """Whether the criterion failed one time and did not another."""
        fails = self.outcomes.count("fail")
        return 0 < fails < len(self.outcomes)

    @property
    def is_failed(self) -> bool:
        """Whether it counts as failed: a clean case by any fail, a defective one if it failed each
        time.
        """
        fails = self.outcomes.count("fail")
        if self.is_clean:
            return fails > 0
        return fails == len(self.outcomes)


def count_cases(criterion: str, cases: Sequence[LabelledAnswers]) -> CriterionBaseline:
    """The counts of a criterion; each of its cases was asked equally often."""
    clean = clean_blocked = 0
    defective = defective_failed = 0
    abstained = flips = repeats = 0
    for case in cases:
        if case.is_clean:
            clean += 1
            clean_blocked += case.is_failed
        else:
            defective += 1
            defective_failed += case.is_failed
        abstained += "abstain" in case.outcomes
        flips += case.is_flip
        repeats = max(repeats, len(case.outcomes))
    agreement = kappa(defective_failed, defective, clean_blocked, clean)
    return CriterionBaseline(
        id=criterion,
        clean=clean,
        clean_blocked=clean_blocked,
        defective=defective,
        found=defective_failed,
        abstained=abstained,
        flips=flips,
        repeats=repeats,
        agreement=None if agreement is None else round(agreement.value, 4),
    )


# The rule that earns blocking


def log_ratio(clean: int, blocked: int, max_false_blocks: float) -> float:
    """The natural logarithm of a likelihood ratio: how much speaks for a judge that blocks less
    than that share.

    `blocked` of `clean` labelled clean changes were blocked. The ratio is the likelihood of these
    answers at BET x the bound, over that at the bound. For a judge at the bound or above it is a
    bet that gains nothing on average with each answer, so it *ever* reaches 1 / ALPHA for at most
    ALPHA of such judges (Ville's inequality): one may look after every answer, and stop at any
    time. It depends on the counts alone, not on the order of the answers.
    """
    bet = BET * max_false_blocks
    loss = math.log(BET)
    gain = math.log1p(-bet) - math.log1p(-max_false_blocks)
    return blocked * loss + (clean - blocked) * gain


def earned(clean: int, blocked: int, max_false_blocks: float) -> bool:
    """Whether so few of the labelled clean changes were blocked that the criterion may block.

    It may be asked after each label. A share of 0 is never earned, of 1 always.
    """
    if not 0 < max_false_blocks < 1:
        return max_false_blocks >= 1
    return log_ratio(clean, blocked, max_false_blocks) >= -math.log(ALPHA)


def clean_needed(blocked: int, max_false_blocks: float) -> int:
    """How many clean changes, `blocked` among them, earn blocking. `max_false_blocks` is between 0
    and 1, exclusive.
    """
    gain = log_ratio(1, 0, max_false_blocks)
    missing = -math.log(ALPHA) - log_ratio(blocked, blocked, max_false_blocks)
    return blocked + math.ceil(missing / gain)


# Intervals


def share(hits: int, cases: int, alpha: float = ALPHA) -> Interval | None:
    """The share of cases that are hits, with Clopper and Pearson's interval; None of no cases."""
    if not cases:
        return None
    low = 1 - _at_most(cases - hits, cases, alpha / 2)
    return Interval(hits / cases, low, _at_most(hits, cases, alpha / 2))


def at_most(hits: int, cases: int) -> float:
    """The largest rate that `hits` of `cases` leave possible: the upper end of a one-sided 95 %
    interval.
    """
    return _at_most(hits, cases, ALPHA)


def _at_most(hits: int, cases: int, alpha: float) -> float:
    """The rate at which so few hits or fewer have the probability alpha."""
    if hits >= cases:
        return 1.0
    if not hits:
        return 1 - math.pow(alpha, 1 / cases)
    return _root(lambda rate: alpha - _probability_of_at_most(hits, cases, rate))


def _probability_of_at_most(hits: int, cases: int, rate: float) -> float:
    """Of a binomial count."""
    log_hit = math.log(rate)
    log_miss = math.log1p(-rate)
    log_orders = math.lgamma(cases + 1)
    probabilities = []
    for number in range(hits + 1):
        log_ways = log_orders - math.lgamma(number + 1) - math.lgamma(cases - number + 1)
        log_probability = log_ways + number * log_hit + (cases - number) * log_miss
        probabilities.append(math.exp(log_probability))
    return math.fsum(probabilities)


def _root(rising: Callable[[float], float]) -> float:
    """Where a function on 0..1 that rises becomes positive."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if rising(middle) > 0:
            high = middle
        else:
            low = middle
    return high


def kappa(defective_found: int, defective: int, clean_blocked: int, clean: int) -> Interval | None:
    """Cohen's kappa of a judge and the labels; None unless there are cases of both kinds.

    How many cases are clean was chosen, not drawn, so kappa is a function of two shares, found and
    false blocks, that rises with the one and falls with the other: the ends are those of both
    shares' 97.5 % intervals.
    """
    recall = share(defective_found, defective, ALPHA / 2)
    false_blocks = share(clean_blocked, clean, ALPHA / 2)
    if recall is None or false_blocks is None:
        return None
    defective_share = defective / (defective + clean)
    return Interval(
        _kappa(defective_share, recall.value, false_blocks.value),
        _kappa(defective_share, recall.low, false_blocks.high),
        _kappa(defective_share, recall.high, false_blocks.low),
    )


def _kappa(defective_share: float, recall: float, false_blocks: float) -> float:
    """Of judge and labels, by the share of the cases that are defective."""
    clean_share = 1 - defective_share
    blocked = defective_share * recall + clean_share * false_blocks
    by_chance = defective_share * blocked + clean_share * (1 - blocked)
    agreed = defective_share * recall + clean_share * (1 - false_blocks)
    return (agreed - by_chance) / (1 - by_chance)


def mean(values: Sequence[float]) -> Interval | None:
    """The mean with Student's interval; None of fewer than three values."""
    if len(values) < 3:
        return None
    value = statistics.fmean(values)
    standard_error = statistics.stdev(values) / math.sqrt(len(values))
    half = _student_quantile(len(values) - 1) * standard_error
    return Interval(value, max(value - half, 0.0), value + half)


def _student_quantile(freedom: int) -> float:
    """The quantile of Student's distribution with so many degrees of freedom at 1 - ALPHA / 2.

    Expanded around the normal one: 3 % too small for 2 degrees, under 1 % from 4 on.
    """
    normal = statistics.NormalDist().inv_cdf(1 - ALPHA / 2)
    first = (normal**3 + normal) / 4
    second = (5 * normal**5 + 16 * normal**3 + 3 * normal) / 96
    third = (3 * normal**7 + 19 * normal**5 + 17 * normal**3 - 15 * normal) / 384
    return normal + sum((first / freedom, second / freedom**2, third / freedom**3))
