"""How far the judges of a gate can be trusted: whether their fails block, and shares with their
intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct

from vibe_gate.domain.calibration import earned
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Trust
from vibe_gate.domain.interval import Interval
from vibe_gate.domain.verdict import TrustBadge
from vibe_gate.report import svg
from vibe_gate.report.markup import Html, render_html_table, table_row, tag
from vibe_gate.report.sentences import advice_sentence
from vibe_gate.report.site.picture_parts import MOST_LINES, MOST_ROWS, render_sentence
from vibe_gate.report.site.site_runs import Site, cut_for_table, link_to_runs
from vibe_gate.report.svg import Range

AS_OF_NOW = (
    "This is how it stands now, with what people said of findings since; a run's page says what "
    "held when it ran. Checks always block and are not listed."
)


def draw_judges(site: Site) -> Html | None:
    """Whether the fail of each judge question blocks now, and the figures that decide it: a table
    alone.
    """
    if not site.judges:
        return None
    lines = []
    for (rubric, criterion), badge in site.judges.items():
        name = f"{rubric}/{criterion}"
        cells = (
            svg.link_text(cut_for_table(name), link_to_runs(criterion=name)),
            _may_block(badge, site.trust),
            _clean_blocked(badge),
            _defects_found(badge),
            _calibration_state(badge),
        )
        lines.append(table_row(cells))
    title = "May a judge's fail block?"
    rule = tag("p", f"{_rule(site.trust)} {AS_OF_NOW}", class_="sentence")
    caption = tag("figcaption", tag("h3", title), rule)
    heads = (
        "Criterion",
        "May block",
        "Clean changes blocked",
        "Defects found (95 % interval)",
        "Calibration",
    )
    table = render_html_table(heads, lines, class_="figures")
    return tag("figure", caption, table, id="judges", aria_label=title)


def _rule(trust: Trust) -> str:
    """What `[trust]` asks of a judge."""
    if trust.block == "earned":
        most = f"{trust.max_false_blocks:.1%}".replace(".0%", "%")
        return (
            "A fail blocks while labelled answers show that the judge blocks at most "
            f"{most} of clean changes."
        )
    if trust.uncalibrated == "advise":
        return "A fail blocks if its judge is calibrated."
    return (
        "Every fail blocks, whatever is known of its judge ([trust] in gate.toml can change that)."
    )


def _may_block(badge: TrustBadge, trust: Trust) -> str:
    """Whether its fail blocks; if not, until when, and whether labels alone are in the way."""
    if badge.blocks:
        return "yes"
    text = f"no, {advice_sentence(badge)}"
    if trust.block != "earned" or not badge.wrong:
        return text
    blocked, clean = badge.blocked - badge.wrong, badge.clean - badge.wrong
    if not earned(clean, blocked, trust.max_false_blocks):
        return text
    return f"{text}. It would block without the {counted(badge.wrong, 'change')} labelled wrong"


def _clean_blocked(badge: TrustBadge) -> str:
    """Of cases, and of changes on which people called its findings wrong; both, as the run's page
    adds them up.
    """
    cases = badge.clean - badge.wrong
    parts = []
    if cases:
        parts.append(f"{badge.blocked - badge.wrong:,} of {counted(cases, 'case')}")
    if badge.wrong:
        parts.append(f"{counted(badge.wrong, 'change')} labelled wrong")
    text = " and ".join(parts)
    if len(parts) < 2:
        return text
    return f"{badge.blocked:,} of {badge.clean:,}: {text}"


def _defects_found(badge: TrustBadge) -> str:
    if badge.recall is UNSET:
        return ""
    share = f"{badge.recall.value:.0%} ({badge.recall.low:.0%} to {badge.recall.high:.0%})"
    return f"{badge.found:,} of {badge.defective:,}: {share}"


def _calibration_state(badge: TrustBadge) -> str:
    """Whether there is a calibration, or why it does not count."""
    if badge.state == "unsteady":
        return f"unsteady: {counted(badge.flips, 'case')} flipped"
    if badge.state == "calibrated":
        return badge.state
    return badge.sentence


class _CriterionShare(Struct, frozen=True):
    """A share of findings or cases of one criterion."""

    criterion: str
    interval: Interval | None
    """None if there are no cases."""
    cases: str
    """The numbers that it is the share of."""


def draw_calibration(site: Site) -> Iterator[Html]:
    """How far judges can be trusted: shares with their 95 % intervals, of labelled findings and
    labelled cases.
    """
    right_shares = []
    for entry in site.total.criteria:
        cases = f"{entry.right:,} of {entry.right + entry.wrong:,}"
        name = f"{entry.rubric}/{entry.criterion}"
        right_shares.append(_CriterionShare(name, entry.precision, cases))
    recalls = []
    false_blocks = []
    for baseline in site.baselines:
        for figures in baseline.criterion:
            name = f"{baseline.rubric}/{figures.id}"
            cases = f"{figures.found:,} of {figures.defective:,}"
            recalls.append(_CriterionShare(name, figures.recall, cases))
            cases = f"{figures.clean_blocked:,} of {figures.clean:,}"
            false_blocks.append(_CriterionShare(name, figures.false_blocks, cases))
    yield from _draw_shares("precision", "Right, of the findings with a label", right_shares)
    title = "Found, of the defective cases of vibe-gate calibrate"
    yield from _draw_shares("recall", title, recalls)
    title = "Blocked, of the clean cases of vibe-gate calibrate"
    note = "Cases alone: changes that people labelled wrong are not among them."
    yield from _draw_shares("false-blocks", title, false_blocks, note)


def _draw_shares(
    name: str, title: str, shares: Iterable[_CriterionShare], note: str = ""
) -> Iterator[Html]:
    """The shares of which there are cases; nothing without any."""
    ranges: list[Range] = []
    lines: list[Html] = []
    for share in shares:
        interval = share.interval
        if interval is None or len(lines) == MOST_LINES:
            continue
        criterion, link = cut_for_table(share.criterion), link_to_runs(criterion=share.criterion)
        ranges.append(Range(criterion, interval, share.cases, link))
        cells = (
            svg.link_text(criterion, link),
            share.cases,
            f"{interval.value:.0%}",
            f"{interval.low:.0%} to {interval.high:.0%}",
        )
        lines.append(table_row(cells))
    if not lines:
        return
    picture = svg.draw_ranges(ranges[:MOST_ROWS])
    heads = ("Criterion", "Cases", "Share", "95 % interval")
    yield svg.render_figure(name, title, picture, render_sentence(note), heads, lines)
