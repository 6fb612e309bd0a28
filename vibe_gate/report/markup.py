"""HTML from texts of others: whatever is not `Html` already is escaped, and nothing invisible stays
so.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from vibe_gate.domain.escape import safe, show_block

VOID = frozenset({"meta", "br"})
"""Elements that are written without an end tag."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | float | None) -> Html:
    """An element. Children that are not Html are escaped, on one line; attributes of None are left
    out.

    `class_` is `class`, `data_c` is `data-c`.
    """
    start = name
    for key, value in attributes.items():
        if value is not None:
            attribute = key.rstrip("_").replace("_", "-")
            start += f' {attribute}="{escape(safe(str(value)))}"'
    if name in VOID:
        return Html(f"<{start}/>")
    return Html(f"<{start}>{join_html(children)}</{name}>")


def join_html(parts: Iterable[str | None]) -> Html:
    """The parts, one after the other; what is not Html is escaped."""
    texts: list[str] = []
    for part in filter(None, parts):
        if isinstance(part, Html):
            texts.append(part)
        else:
            texts.append(escape(safe(part)))
    return Html("".join(texts))


def join_with_commas(parts: Iterable[str]) -> Html:
    """The parts with commas between them; what is not Html is escaped."""
    return Html(", ".join(join_html([part]) for part in parts))


def text_block(text: str, **attributes: str) -> Html:
    """Text of several lines as it stands."""
    return tag("pre", Html(escape(show_block(text))), **attributes)


def table_row(cells: Iterable[str | None], **attributes: str) -> Html:
    """A row of a table."""
    cell_elements = [tag("td", cell) for cell in cells]
    return tag("tr", *cell_elements, **attributes)


def render_html_table(heads: Iterable[str], rows: Iterable[Html], **attributes: str) -> Html:
    """A table of rows that `table_row` made."""
    head_cells = [tag("th", name, scope="col") for name in heads]
    head = tag("thead", tag("tr", *head_cells))
    body = tag("tbody", *rows)
    return tag("table", head, body, **attributes)


def and_more(number: int, name: str, **attributes: str) -> Html | None:
    """How many of a list are not shown, as an element of that name; None if all are."""
    if number > 0:
        return tag(name, f"and {number:,} more", **attributes)
    return None


def render_facts(pairs: Iterable[tuple[str, str | None]]) -> Html:
    """A list of names and values; pairs without a value are left out."""
    items = []
    for name, value in pairs:
        if value:
            items.append(tag("div", tag("dt", name), tag("dd", value)))
    return tag("dl", *items, class_="facts")
