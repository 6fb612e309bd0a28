"""The page as it is read without scripts: verdict, findings, criteria, changes, activity, cost, the
run itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import UNSET

from vibe_gate.domain.document import read_text_of
from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import PolicyChange, Summary
from vibe_gate.errors import POLICY_CHANGED
from vibe_gate.report import queries, sentences
from vibe_gate.report.html import glance, nodes, stage_figures
from vibe_gate.report.html.addresses import file_link, place_link
from vibe_gate.report.html.authors import Authors
from vibe_gate.report.html.authors_section import render_authors_section
from vibe_gate.report.html.cost_section import render_cost_section
from vibe_gate.report.html.criteria_section import render_rubric
from vibe_gate.report.html.finding_articles import render_finding
from vibe_gate.report.html.page_parts import format_dollars, render_place
from vibe_gate.report.html.record_section import render_record_section
from vibe_gate.report.html.view import FileView, TurnView, View, findings_on_page
from vibe_gate.report.markup import (
    Html,
    and_more,
    join_html,
    render_facts,
    render_html_table,
    table_row,
    tag,
    text_block,
)
from vibe_gate.report.reported_finding import finding_identity

MAX_UNREVIEWED = 500
"""Places that no judge saw that are shown one by one."""


def page_title(view: View) -> str:
    """The text of the page's tab."""
    name = view.graph.run_id
    if view.summary:
        name = sentences.short_change_id(view.summary)
    return f"{_outcome_words(view)} · {name} · vibe-gate"


def render_body(view: View) -> Html:
    """Everything that stands in the page's body but data and scripts."""
    sections = [
        _section("verdict", "Verdict", _verdict_parts(view)),
        _section("changes", "Changes", _change_parts(view)),
        _section("activity", "Activity", _activity_parts(view)),
        _section("cost", "Cost", render_cost_section(view)),
        _section("run", "Run", _run_parts(view)),
    ]
    if view.authors != Authors() or view.record is not None:
        sections.append(_section("authors", "Authors", _author_parts(view)))
    return join_html([_head(view), tag("main", *sections, id="main")])


def _author_parts(view: View) -> Iterator[Html]:
    if view.authors != Authors():
        yield from render_authors_section(view.authors)
    if view.record is not None:
        yield from render_record_section(view.record)


def _section(name: str, label: str, parts: Iterator[Html]) -> Html:
    return tag("section", *parts, id=name, data_tab=label, aria_label=label)


def _outcome_words(view: View) -> str:
    if view.summary is not None:
        return sentences.verdict_words(view.summary)
    if view.state == "running":
        return "INCOMPLETE (running)"
    return "INCOMPLETE"


def _head(view: View) -> Html:
    """The verdict, what decided, and the facts."""
    summary = view.summary
    if summary is None:
        style = "incomplete"
        reason = "The run did not end, so there is no verdict."
        facts: list[tuple[str, str | None]] = [("run", view.graph.run_id)]
    else:
        style = _verdict_style(summary)
        reason = _verdict_reason(summary)
        facts = _head_facts(summary)
    return tag(
        "header",
        tag("p", _outcome_words(view), class_=f"outcome {style}"),
        tag("h1", reason),
        render_facts(facts),
        tag("div", id="tools"),
        class_="top",
    )


def _verdict_style(summary: Summary) -> str:
    if summary.extent == "nothing":
        return "nothing"
    if summary.exit_code == POLICY_CHANGED:
        return "approval"
    return summary.outcome


def _verdict_reason(summary: Summary) -> str:
    reason = sentences.deciding_reason(summary, sentence=True)
    if not reason and not summary.run_id:
        reason = "Nothing to review."
    if summary.outcome == "pass":
        return reason[:1].upper() + reason[1:]
    return reason


def _head_facts(summary: Summary) -> list[tuple[str, str | None]]:
    change = summary.change
    size = f"{counted(len(change.files), 'file')}, +{change.added} −{change.deleted} lines"
    change_id = tag("code", sentences.short_change_id(summary))
    return [
        ("change", join_html([change_id, f" · {size}"])),
        ("effect", queries.change_description(summary)),
        ("gate", sentences.gate_words(summary)),
        ("cost", sentences.cost_words(summary)),
        ("time", stage_figures.format_seconds(summary.duration_ms / 1000)),
    ]


def _left_alone_parts(summary: Summary) -> Iterator[Html]:
    """What agents of a repair saw beside the findings and did not touch."""
    if summary.left_alone is UNSET:
        return
    yield tag("h2", "Seen and left alone")
    for note in summary.left_alone:
        yield tag("p", f"By the agent of {note.node}; nobody has checked it:")
        yield text_block(note.text)


def _verdict_parts(view: View) -> Iterator[Html]:
    summary = view.summary
    yield from glance.render_rounds(view)
    yield tag("h2", "Findings")
    if summary is None:
        yield tag("p", "None is shown until the run ends.", class_="none")
        return
    yield from _finding_parts(view, summary)
    yield from _left_alone_parts(summary)
    yield from glance.render_file_bars(summary)
    yield tag("h2", "Criteria")
    yield from glance.render_vote_rows(summary)
    for rubric in summary.rubrics:
        yield from render_rubric(rubric, view)
    if not summary.rubrics:
        yield tag("p", "No rubric applied.", class_="none")
    yield from _unreviewed_parts(summary)
    if summary.policy_changes:
        yield tag("h2", "Changes to the gate")
        for change in summary.policy_changes:
            yield _policy_change(change, summary)
    if view.annotations:
        yield tag("h2", "Notes added to the bundle")
        notes = []
        for note in view.annotations:
            notes.append(tag("li", tag("b", note.type), " ", note.message))
        yield tag("ul", *notes)


def _finding_parts(view: View, summary: Summary) -> Iterator[Html]:
    """The findings, the worst first."""
    if not summary.findings:
        yield tag("p", "No findings.", class_="none")
        return
    numbers = {id(summary.findings[number]): number for number in findings_on_page(summary)}
    findings = []
    for finding in summary.findings:
        if id(finding) in numbers:
            findings.append(finding)
    news = glance.find_news(view)
    for finding in queries.worst_first(findings, summary):
        finding_news = news.get(finding_identity(finding), "")
        yield render_finding(finding, numbers[id(finding)], view, summary, finding_news)
    omitted = len(summary.findings) - len(findings)
    if omitted:
        text = f"And {omitted:,} more, no graver than these; the bundle has them."
        yield tag("p", text, class_="none")


def _unreviewed_parts(summary: Summary) -> Iterator[Html]:
    """The places that no judge saw."""
    yield tag("h2", "Not judged")
    places = queries.missed_places(summary)
    if not places:
        text = "No criterion asks a judge."
        if queries.asks_judges(summary):
            text = "Every changed line was shown to a judge."
        yield tag("p", text, class_="none")
        return
    items = []
    for place in places[:MAX_UNREVIEWED]:
        rubrics = None
        if place.rubrics:
            rubrics = f" (by {', '.join(place.rubrics)}; other rubrics did)"
        items.append(tag("li", render_place(place), f": {place.reason}", rubrics))
    yield tag("ul", *items, and_more(len(places) - len(items), "li"), class_="unreviewed")


def _policy_change(change: PolicyChange, summary: Summary) -> Html:
    """A change of the gate, as a diff that opens."""
    meaning = sentences.policy_meaning(change, summary)
    text = f" {change.change_type.replace('_', ' ')}: {meaning}"
    title = tag("summary", tag("code", change.path), text)
    return tag("details", title, text_block(change.diff, class_="diff"), class_="policy")


def _change_parts(view: View) -> Iterator[Html]:
    yield tag("h2", "Changed files")
    if not view.files:
        text = "Shown when the run ends."
        if view.summary:
            text = "No file changed."
        yield tag("p", text, class_="none")
        return
    heads = ("File", "Added", "Deleted", "Change")
    yield render_html_table(heads, map(_file_row, view.files), class_="files")


def _file_row(file: FileView) -> Html:
    name = file.path
    if file.old_path:
        name = f"{file.old_path} → {file.path}"
    kind = file.type.replace("_", " ")
    if file.binary:
        kind += ", binary"
    link = tag("a", name, href=file_link(file.path))
    return table_row((link, f"+{file.added}", f"−{file.deleted}", kind), id=f"f={file.path}")


def _activity_parts(view: View) -> Iterator[Html]:
    yield tag("h2", "Turns of agents and judges")
    if not view.turns:
        text = "This page holds the verdict alone; the bundle has the rest."
        if view.graph.run_id:
            text = "No agent and no judge was asked."
        yield tag("p", text, class_="none")
        return
    is_recorded = view.summary is not None and queries.is_from_recording(view.summary)
    cost = "Cost"
    if is_recorded:
        cost = "Cost when recorded"
    heads = ("Turn", "Agent", "Model", "Ended", "Tool calls", "Tokens in", "Tokens out", cost)
    yield render_html_table(heads, map(_turn_row, view.turns), class_="turns")


def _turn_row(turn: TurnView) -> Html:
    states = Counter(call.state for call in turn.calls if call.state != "completed")
    calls = str(len(turn.calls))
    if states:
        counts = ", ".join(f"{number} {state}" for state, number in states.items())
        calls += f" ({counts})"
    cells = (
        tag("a", turn.id.removeprefix("nodes/"), href=place_link("e", turn.id)),
        turn.agent or turn.kind,
        turn.model,
        turn.status,
        calls,
        f"{turn.input_tokens:,}",
        f"{turn.output_tokens:,}",
        format_dollars(turn.usd),
    )
    return table_row(cells, id=f"e={turn.id}")


def _run_parts(view: View) -> Iterator[Html]:
    if view.graph.nodes:
        yield tag("h2", "Graph")
        yield from nodes.render_graph_section(view, stage_figures.collect_stages(view))
    yield tag("h2", "Run")
    yield render_facts(_run_facts(view))
    if view.left_out:
        text = f"This page leaves out {', '.join(view.left_out)}; the bundle has them."
        yield tag("p", text, class_="none")


_MEANINGS = {
    ("mode", "auto"): "auto (nobody was asked before a stage)",
    ("mode", "interactive"): "interactive (a person approved each agent before it began)",
    ("isolation", "none"): "none (judges and agents only read an export of the files)",
    ("isolation", "clone"): "clone (agents wrote in a clone of their own)",
    ("isolation", "sandbox"): "sandbox (agents ran behind a wall of the kernel)",
}
"""What words of run.json say."""


def _run_facts(view: View) -> Iterator[tuple[str, str | None]]:
    yield "run", view.graph.run_id
    for name in ("created_at", "workflow", "mode", "isolation", "prompt", "replay_of"):
        value = read_text_of(view.about, name)
        label = name.replace("created_at", "started").replace("_", " ")
        yield label, _MEANINGS.get((name, value), value)
    if view.summary is not None:
        yield from _summary_facts(view.summary)
    setup = view.about.get("setup")
    if isinstance(setup, dict) and setup:
        yield "setup", f"project ({', '.join(map(str, setup))})"
    for name in ("budgets", "versions", "definitions"):
        values = view.about.get(name)
        if isinstance(values, dict):
            pairs = [f"{key} {value}" for key, value in values.items() if value is not None]
            yield name, ", ".join(pairs)


def _summary_facts(summary: Summary) -> Iterator[tuple[str, str | None]]:
    change = summary.change
    yield "before", _code(change.base_commit or change.before)
    yield "after", _code(change.head_commit or change.after)
    yield "patch-id", _code(change.patch_id)
    yield "gate", sentences.gate_words(summary)
    signs = sentences.agent_signs(sentences.hint_sentences(summary)) or "no sign of an AI agent"
    answer = "no"
    if summary.agent_authored.decision:
        answer = "yes"
    yield "written by an agent", f"{answer} ({signs})"
    yield "exit code", str(summary.exit_code)
    yield "bundle", _code(summary.bundle)


def _code(text: str) -> Html | None:
    if not text:
        return None
    return tag("code", text)
