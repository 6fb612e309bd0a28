"""The pictures of a site: each with the same figures as a table, and links to the runs behind
them.
"""

from __future__ import annotations

from collections.abc import Iterator

from vibe_gate.report.markup import Html
from vibe_gate.report.site.finding_pictures import draw_authors, draw_criteria, draw_files
from vibe_gate.report.site.judge_pictures import draw_calibration, draw_judges
from vibe_gate.report.site.site_runs import Site
from vibe_gate.report.site.time_pictures import (
    draw_durations,
    draw_outcomes,
    draw_reuse,
    draw_spending,
)


def render_pictures(site: Site) -> Iterator[Html]:
    """Those for which there are figures."""
    if site.spans:
        yield draw_outcomes(site)
        yield from filter(None, (draw_spending(site), draw_durations(site), draw_reuse(site)))
    yield from filter(None, (draw_criteria(site), draw_authors(site), draw_files(site)))
    judges = draw_judges(site)
    if judges:
        yield judges
    yield from draw_calibration(site)
