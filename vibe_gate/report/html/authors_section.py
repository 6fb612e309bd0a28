"""The turns of captured sessions that wrote changed lines, with their prompts and these lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vibe_gate.domain.escape import counted
from vibe_gate.report import sentences
from vibe_gate.report.html.addresses import file_link
from vibe_gate.report.html.authors import Authors, WritingTurn, WrittenLines, limit_prompts
from vibe_gate.report.markup import Html, and_more, join_html, render_facts, tag, text_block

MAX_WRITTEN = 500
"""Places of a turn's lines that are shown one by one."""


def render_authors_section(authors: Authors) -> Iterator[Html]:
    """How many lines agents wrote, and each turn that wrote some."""
    yield tag("h2", "Turns that wrote changed lines")
    if authors.untold:
        text = (
            "Who wrote the lines is not known: the reviewed files are not in git any more, "
            "nor wholly in the bundle."
        )
        yield tag("p", text, class_="none")
        return
    count = sum(lines.end_line - lines.line + 1 for lines in authors.lines)
    text = (
        f"Agents wrote {counted(count, 'added line')}, "
        "as captured sessions and records of tools say."
    )
    if authors.withheld:
        text += (
            " This page was made without the prompts; "
            "`vibe-gate report` shows them in the clone that has them."
        )
    yield tag("p", text, class_="none")
    lines_by_turn: dict[int, list[WrittenLines]] = {}
    for lines in authors.lines:
        lines_by_turn.setdefault(lines.writer, []).append(lines)
    prompts = list(limit_prompts(authors.turns))
    for index, written_lines in lines_by_turn.items():
        yield _render_turn(index, authors.turns[index], prompts[index], written_lines)


def writer_element_id(index: int) -> str:
    """The id of the element of the turn with that index among those that wrote lines."""
    return f"w-{index + 1}"


def turn_name(turn: WritingTurn) -> str:
    """What people call a turn."""
    if turn.turn is None:
        return turn.agent
    if not turn.turn:
        return f"{turn.agent}, before the first prompt"
    return f"{turn.agent}, turn {turn.turn}"


def claimed_tool(turn: WritingTurn) -> str:
    """The tool whose record says who wrote the lines; "" for a captured session."""
    if turn.source == "captured":
        return ""
    return turn.source


def claimed_name(turn: WritingTurn) -> str:
    """The turn's name, as a claim if it is one."""
    tool = claimed_tool(turn)
    name = turn_name(turn)
    if tool:
        return f"{tool} says: {name}"
    return name


def _render_turn(
    index: int, turn: WritingTurn, prompt: str, written_lines: Sequence[WrittenLines]
) -> Html:
    """`prompt`: as the page shows it; "" if it would make the page too large."""
    element_id = writer_element_id(index)
    items = []
    for lines in written_lines[:MAX_WRITTEN]:
        items.append(tag("li", _lines_link(lines)))
    omission = and_more(len(written_lines) - len(items), "li")
    return tag(
        "article",
        tag("h3", claimed_name(turn)),
        _turn_facts(turn, prompt, element_id),
        _render_prompt(turn, prompt, element_id),
        tag("ul", *items, omission, class_="written"),
        class_="writer",
        id=element_id,
    )


def _turn_facts(turn: WritingTurn, prompt: str, element_id: str) -> Html:
    tool = claimed_tool(turn)
    return render_facts(
        [
            ("session", turn.session),
            ("began", f"{turn.at:%Y-%m-%d %H:%M} UTC" if turn.at else ""),
            ("said by", f"{tool} (a record of that tool)" if tool else ""),
            ("asked", tag("a", turn.asked, href=f"#{element_id}-prompt") if prompt else turn.asked),
        ]
    )


def _render_prompt(turn: WritingTurn, prompt: str, element_id: str) -> Html | None:
    if prompt:
        return text_block(
            prompt,
            id=f"{element_id}-prompt",
            class_="prompt",
            tabindex="0",
            role="region",
            aria_label=f"Prompt of {turn_name(turn)}",
        )
    if turn.prompt:
        text = "This page leaves the prompt out; it would be too large."
        return tag("p", text, class_="none")
    return None


def _lines_link(lines: WrittenLines) -> Html:
    words = sentences.place_words(lines.path, lines.line, lines.end_line)
    place = tag("a", words, href=file_link(lines.path, str(lines.line)))
    call = " ".join(filter(None, (lines.tool, lines.tool_use_id)))
    return join_html([place, tag("small", f" {call}") if call else None])
