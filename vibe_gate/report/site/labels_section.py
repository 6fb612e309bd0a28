"""What people said of findings, one by one, with who and when; those that they let pass stand
open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from vibe_gate.domain.escape import counted
from vibe_gate.domain.label import Label, newest
from vibe_gate.report import feedback, svg
from vibe_gate.report.markup import Html, and_more, render_html_table, table_row, tag
from vibe_gate.report.run_figures import FoundFinding
from vibe_gate.report.site.site_runs import Site, SiteRun, cut_for_table, link_to_runs

WAIVED = "let pass"
"""Above the findings that an override or the repository lets pass, whatever else people said of
them; those that they called right or wrong stand below, too.
"""

MOST_SAID = 200
"""Findings of one word that are listed, the newest first."""

MOST_BY = 240
"""Characters of who said it, and why."""

MOST_OPEN = 20
"""Findings that stand open: more would hide the runs below."""


class _LabelledFinding(Struct, frozen=True):
    """A finding of which people said something. `run` is the first that let it pass, else the
    newest that has it.
    """

    finding: FoundFinding
    source: str
    word: str
    run: SiteRun
    label: Label | None

    @property
    def by(self) -> str:
        """Who said so, and until when and why it passes; else why."""
        grounds = self.finding.grounds.removeprefix("by ")
        if grounds or self.label is None:
            return grounds
        return ": ".join(filter(None, (self.label.by.partition(" <")[0], self.label.reason)))

    @property
    def day(self) -> str:
        """When it was said, or first had an effect."""
        return f"{self.label.ts:%Y-%m-%d}" if self.label else self.run.entry.created_at[:10]


def render_labels_section(site: Site) -> Iterator[Html]:
    """The findings with a word of people's: those that passed, then as many as the picture of
    findings has for a word; nothing if there are none.
    """
    by_word: dict[str, list[_LabelledFinding]] = {}
    for one in _each(site):
        is_waived = one.finding.grounds or one.word in ("accepted", "overridden")
        for word in dict.fromkeys((WAIVED if is_waived else one.word, one.word)):
            by_word.setdefault(word, []).append(one)
    order = (WAIVED, "wrong", "right")
    parts = [_details(word, by_word[word]) for word in order if word in by_word]
    if parts:
        yield tag("section", tag("h2", "What people said of findings"), *parts, id="said")


def _each(site: Site) -> list[_LabelledFinding]:
    labels = {
        (f"{one.rubric}/{one.criterion}", one.finding): one for one in newest(site.all_labels)
    }
    found: dict[tuple[str, str], _LabelledFinding] = {}
    for run in site.runs:
        for finding in run.figures.findings:
            for source in finding.sources:
                key = (source, finding.fingerprint)
                if (word := site.words[key]) != "no word yet" and _is_better(
                    finding, found.get(key)
                ):
                    found[key] = _LabelledFinding(finding, source, word, run, labels.get(key))
    return sorted(found.values(), key=lambda one: (one.day, one.run.entry.run_id), reverse=True)


def _is_better(finding: FoundFinding, known: _LabelledFinding | None) -> bool:
    """Whether the run says more of the finding; runs come newest first."""
    return known is None or bool(finding.grounds)


def _details(word: str, every: list[_LabelledFinding]) -> Html:
    rows = map(_row, every[:MOST_SAID])
    listed = render_html_table(
        ("Day", "Criterion", "File", "Said", "By", "Run"), rows, class_="said"
    )
    is_open = word == WAIVED and len(every) <= MOST_OPEN
    rest = and_more(len(every) - MOST_SAID, "p", class_="none")
    words = Counter(one.word for one in every)
    sums = ", ".join(f"{words[each]:,} {each}" for each in feedback.WORDS if words[each])
    head = tag(
        "summary",
        f"{word}: {counted(len(every), 'finding')}{f' ({sums})' if word == WAIVED else ''}",
    )
    name = f"said-{word.replace(' ', '-')}"
    return tag("details", head, listed, rest, id=name, open="" if is_open else None)


def _row(one: _LabelledFinding) -> Html:
    run = one.run.entry.run_id
    who = cut_for_table(one.by, MOST_BY)
    return table_row(
        (
            one.day,
            cut_for_table(one.source),
            cut_for_table(one.finding.path),
            one.word,
            who,
            svg.link_text(run, link_to_runs(run=run)),
        )
    )
