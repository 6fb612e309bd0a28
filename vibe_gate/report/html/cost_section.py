"""What a run cost: a sentence, pictures, and tables by stage and model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from vibe_gate.domain.summary import Summary
from vibe_gate.report import queries, sentences
from vibe_gate.report.html import cost_pictures, stage_figures
from vibe_gate.report.html.page_parts import format_dollars
from vibe_gate.report.html.view import MAX_ROWS, TurnView, View
from vibe_gate.report.markup import Html, render_html_table, table_row, tag


def render_cost_section(view: View) -> Iterator[Html]:
    """The cost of a run that ended."""
    yield tag("h2", "Cost")
    summary = view.summary
    if summary is None:
        yield tag("p", "Known when the run ends.", class_="none")
        return
    yield tag("p", sentences.cost_words(summary))
    recorded_usd = sum(turn.usd or 0 for turn in view.turns)
    if recorded_usd and queries.is_from_recording(summary):
        yield tag("p", f"When the answers were recorded they cost {format_dollars(recorded_usd)}.")
    yield from cost_pictures.render_cost_pictures(view, stage_figures.collect_stages(view))
    tables = [*_stage_table(view, summary), *_model_table(summary.cost.by_model)]
    if tables:
        yield tag("h3", "By stage and model")
        yield from tables


def _stage_table(view: View, summary: Summary) -> Iterator[Html]:
    """A row for each stage that had turns or cost something; many are a table that opens."""
    usd_by_node = summary.cost.by_node
    turns_by_node: dict[str, list[TurnView]] = {}
    for turn in view.turns:
        turns_by_node.setdefault(turn.node, []).append(turn)
    names = list(dict.fromkeys([*usd_by_node, *turns_by_node]))
    rows = []
    for name in names[:MAX_ROWS]:
        usd = ""
        if name in usd_by_node:
            usd = format_dollars(usd_by_node[name])
        rows.append(table_row((name, *_turn_figures(turns_by_node.get(name, [])), usd)))
    if not rows:
        return
    heads = ("Stage", "Turns", "Tokens in", "Tokens out", "US dollars")
    table = render_html_table(heads, rows, class_="costs")
    if len(rows) <= cost_pictures.MOST_ROWS:
        yield table
        return
    title = f"{len(names):,} stages"
    if len(rows) < len(names):
        title += f" (the first {len(rows):,})"
    yield tag("details", tag("summary", title), table)


def _turn_figures(turns: list[TurnView]) -> tuple[str, str, str]:
    """How many turns, tokens in, tokens out."""
    if not turns:
        return "", "", ""
    tokens_in = sum(turn.input_tokens for turn in turns)
    tokens_out = sum(turn.output_tokens for turn in turns)
    return f"{len(turns):,}", f"{tokens_in:,}", f"{tokens_out:,}"


def _model_table(usd_by_model: Mapping[str, float]) -> Iterator[Html]:
    """A row for each model."""
    if not usd_by_model:
        return
    rows = []
    for model, usd in islice(usd_by_model.items(), MAX_ROWS):
        rows.append(table_row((model, format_dollars(usd))))
    yield render_html_table(("Model", "US dollars"), rows, class_="costs")
    if len(usd_by_model) > len(rows):
        text = f"And {len(usd_by_model) - len(rows):,} more; the bundle has them."
        yield tag("p", text, class_="none")
