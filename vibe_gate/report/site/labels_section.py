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
    """A finding of which people said something."""

    finding: FoundFinding
    source: str
    """RUBRIC/CRITERION."""
    word: str
    run: SiteRun
    """The first that let it pass, else the newest that has it."""
    label: Label | None

    @property
    def by(self) -> str:
        """Who said so, and until when and why it passes; else why."""
        grounds = self.finding.grounds.removeprefix("by ")
        if grounds or self.label is None:
            return grounds
        person = self.label.by.partition(" <")[0]
        return ": ".join(filter(None, (person, self.label.reason)))

    @property
    def day(self) -> str:
        """When it was said, or first had an effect."""
        if self.label:
            return f"{self.label.ts:%Y-%m-%d}"
        return self.run.entry.created_at[:10]

    @property
    def is_waived(self) -> bool:
        """Whether it is let pass."""
        return bool(self.finding.grounds) or self.word in ("accepted", "overridden")


def render_labels_section(site: Site) -> Iterator[Html]:
    """The findings with a word of people's: those that passed, then as many as the picture of
    findings has for a word; nothing if there are none.
    """
    by_word: dict[str, list[_LabelledFinding]] = {}
    for labelled in _labelled_findings(site):
        if labelled.is_waived:
            by_word.setdefault(WAIVED, []).append(labelled)
        by_word.setdefault(labelled.word, []).append(labelled)
    words = [word for word in (WAIVED, "wrong", "right") if word in by_word]
    if words:
        lists = []
        for word in words:
            lists.append(_render_list(word, by_word[word]))
        yield tag("section", tag("h2", "What people said of findings"), *lists, id="said")


def _labelled_findings(site: Site) -> list[_LabelledFinding]:
    """Each once, the newest first."""
    labels = {}
    for label in newest(site.all_labels):
        labels[f"{label.rubric}/{label.criterion}", label.finding] = label
    labelled: dict[tuple[str, str], _LabelledFinding] = {}
    for run in site.runs:
        for finding in run.figures.findings:
            for source in finding.sources:
                key = (source, finding.fingerprint)
                word = site.words[key]
                # Runs come newest first; one that let it pass says more of it.
                if word != "no word yet" and (key not in labelled or finding.grounds):
                    labelled[key] = _LabelledFinding(finding, source, word, run, labels.get(key))
    return sorted(
        labelled.values(), key=lambda item: (item.day, item.run.entry.run_id), reverse=True
    )


def _render_list(word: str, findings: list[_LabelledFinding]) -> Html:
    """The findings of one word, as a table that opens."""
    heads = ("Day", "Criterion", "File", "Said", "By", "Run")
    table = render_html_table(heads, map(_finding_row, findings[:MOST_SAID]), class_="said")
    omission = and_more(len(findings) - MOST_SAID, "p", class_="none")
    head = f"{word}: {counted(len(findings), 'finding')}"
    if word == WAIVED:
        counts = Counter(labelled.word for labelled in findings)
        words = [f"{counts[name]:,} {name}" for name in feedback.WORDS if counts[name]]
        head += f" ({', '.join(words)})"
    name = f"said-{word.replace(' ', '-')}"
    is_open = word == WAIVED and len(findings) <= MOST_OPEN
    return tag(
        "details", tag("summary", head), table, omission, id=name, open="" if is_open else None
    )


def _finding_row(labelled: _LabelledFinding) -> Html:
    run_id = labelled.run.entry.run_id
    cells = (
        labelled.day,
        cut_for_table(labelled.source),
        cut_for_table(labelled.finding.path),
        labelled.word,
        cut_for_table(labelled.by, MOST_BY),
        svg.link_text(run_id, link_to_runs(run=run_id)),
    )
    return table_row(cells)
