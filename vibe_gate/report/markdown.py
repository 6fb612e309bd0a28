"""Text of others as GitHub Markdown that shows it and never obeys it. Pure.

GitHub first renders Markdown, then looks for mentions, references, addresses and
emoji in what has been rendered, but for `code` and `pre`. An escape is gone by then,
so whatever it could act upon stands in code, and what is left is plain words.

    prose   one line of words; those that GitHub would act upon stand in code
    code    one line, all of it in code
    fence   many lines
    html    one line within our own HTML (a fold's title)
    cell    finished Markdown as a table's cell
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal

from msgspec import Struct

from vibe_gate.domain.escape import counted, safe, shorten_text

MAX_PROSE = 1_000
"""Characters of one text among others; a reason has 280."""

MAX_CODE = 300
"""Characters of a path or a name."""

MAX_FENCED_LINE = 400
"""Characters of a line in a fence: minified files have lines of megabytes."""

_NOTE = 200
"""Bytes kept free for each sentence about what was left out."""

_ACTS = re.compile(
    r"[@#$&<>\\`*_~\[\]|/]|:.|www\.|\b[0-9a-fA-F]{7,}\b|[A-Za-z]-[0-9]", re.IGNORECASE
)
"""Within a word: what Markdown or GitHub acts upon; `:` at its end does nothing."""

_WORD = re.compile(r"[(\"']*`[^`]+`[^ `]*|[^ ]+")
"""A word, or words between backticks with what surrounds them in a sentence."""

_QUOTED = re.compile(r"([(\"']*)`([^`]+)`([^ `]*)")

_ARROWS = ("->", "=>")
"""Words that Markdown does not act upon, though their letters are among `_ACTS`."""

_BRACKETED = re.compile(r"\(([^()]+)\)")

_OPENS = re.compile(r"[-+=.:]+\Z|[0-9]+[.)]\Z")
"""A first word that would begin a list, a heading's line or a table's."""


def escape_prose(text: str, limit: int = MAX_PROSE) -> str:
    """Words on one line, `limit` characters at most; "" for blank text."""
    words = safe(" ".join(shorten_text(text, 4 * limit).split()))
    return "".join(_phrases(shorten_text(words, limit)))


def _phrases(text: str) -> Iterable[str]:
    """Runs of words that are plain or stand in code; what its author put between backticks stands
    in code, too.
    """
    first = True
    for kind, group in groupby(_WORD.findall(text), _kind):
        words = list(group)
        phrase = " ".join(words)
        if kind == "quoted":
            phrase = " ".join(map(_quoted, words))
        elif kind == "acting":
            inside = phrase.rstrip(".,:;!?") or phrase  # what ends a sentence is not part of a name
            bracketed = _BRACKETED.fullmatch(inside)
            name = inside
            if bracketed:
                name = bracketed[1]
            phrase = phrase.replace(name, _span(name), 1)
        elif first and _OPENS.match(words[0]):
            phrase = " ".join([_span(words[0]), *words[1:]])
        yield phrase if first else f" {phrase}"
        first = False


def _kind(word: str) -> Literal["plain", "acting", "quoted"]:
    """What is done with the word."""
    if word in _ARROWS or not _ACTS.search(word):
        return "plain"
    quoted = _QUOTED.fullmatch(word)
    if quoted and not _ACTS.search(quoted[3]):
        return "quoted"
    return "acting"


def _quoted(word: str) -> str:
    """Words between backticks, in code of our own."""
    before, inside, after = _QUOTED.fullmatch(word).groups()  # type: ignore[union-attr]  # as `_kind` found
    return f"{before}{_span(inside)}{after}"


def escape_code(text: str, limit: int = MAX_CODE) -> str:
    """The text in code, on one line; "" for empty text. No break stands in it, so it cannot leave
    its place.
    """
    if not text:
        return ""
    return _span(shorten_text(safe(shorten_text(text, 4 * limit)), limit))


def _span(text: str) -> str:
    """The text in code, between as many backticks as it needs."""
    ticks = "`" * (_longest("`", text) + 1)
    needs_padding = text.startswith(("`", " ")) or text.endswith(("`", " "))
    padding = ""
    if needs_padding:
        padding = " "
    return f"{ticks}{padding}{text}{padding}{ticks}"


def fence_code(text: str, language: str = "", *, uncut: bool = False) -> str:
    """Lines as a block of code; `language` is ours. Long lines are cut, unless the text is wanted
    `uncut`.
    """
    limit: int | None = MAX_FENCED_LINE
    if uncut:
        limit = None
    lines = []
    for line in text.removesuffix("\n").split("\n"):
        lines.append(show_code_line(line, limit))
    ticks = "`" * max(3, _longest("`", "\n".join(lines)) + 1)
    return "\n".join((ticks + language, *lines, ticks))


def show_code_line(line: str, limit: int | None = MAX_FENCED_LINE) -> str:
    """A line as `fence_code` shows it, cut to the limit if there is one."""
    beginning = line[:limit]
    visible = "\t".join(map(safe, beginning.removesuffix("\r").split("\t")))
    if len(beginning) < len(line):
        visible += f" … {len(line) - len(beginning):,} more characters"
    return visible


def escape_html_code(text: str, limit: int = MAX_CODE) -> str:
    """The text within our own HTML, as code: there Markdown is not read, and GitHub looks for
    mentions all the same.
    """
    return f"<code>{escape_html_words(shorten_text(safe(shorten_text(text, 4 * limit)), limit))}</code>"


def escape_html_words(text: str) -> str:
    """Our own words within HTML."""
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )


def link_code(text: str, address: str) -> str:
    """Code that leads to one of our own addresses (percent-encoded); plain code where there is
    none.
    """
    if address:
        return f"[{escape_code(text)}]({address})"
    return escape_code(text)


def escape_cell(markdown: str) -> str:
    """Finished inline Markdown as a cell: a `|` in code is escaped for the table, which takes that
    back.
    """
    return markdown.replace("|", "\\|")


def render_markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of finished inline Markdown."""
    lines = [_table_line(head), _table_line(["---"] * len(head))]
    for row in rows:
        lines.append(_table_line([escape_cell(text) for text in row]))
    return "\n".join(lines)


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def render_fold(title: str, body: str) -> str:
    """A fold; `title` is our own HTML, made of `escape_html_words` and `escape_html_code`."""
    return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"


def cut_lines(text: str, limit: int) -> tuple[str, int]:
    """The first whole lines that fit `limit` characters, and how many are left out; at least one
    line is kept.
    """
    if len(text) <= limit:
        return text, 0
    end = text.rfind("\n", 0, limit)
    if end < 0:
        end = text.find("\n")
        if end < 0:
            return text, 0
    return text[:end], text.count("\n", end + 1) + (not text.endswith("\n"))


class Block(Struct, frozen=True):
    """A part of a document that stands or is left out as a whole; its fences and folds are
    closed.
    """

    text: str
    rank: int = 0
    """How soon it is left out; 0 last."""
    name: str = ""
    """What it is, as the subject of "did not fit": "the list of changed files", or a noun in the
    singular if there is a `plural`.
    """
    plural: str = ""
    """The noun for several; "" if a document has one block of the name."""
    number: int = 1
    """How many of these it has."""


def fit_blocks(blocks: Sequence[Block], limit: int, places: Mapping[str, str]) -> str:
    """The blocks as one document of `limit` bytes (UTF-8) at most, in their order.

    Where not all fit, those of low rank go first, and of equals the last; where the first of a name
    is missing, a sentence says how many did not fit and where they are: `places` by the name of a
    block, "" for all others.
    """
    blocks = [block for block in blocks if block.text]
    sizes = []
    for block in blocks:
        sizes.append(len(block.text.encode("utf-8", "replace")) + 2)
    fitting = set(range(len(blocks)))
    if sum(sizes) > limit:
        names = {block.name for block in blocks}
        fitting = _choose_blocks(blocks, sizes, limit - _NOTE * len(names))
    missing: Counter[str] = Counter()
    fitting_names = set()
    for index, block in enumerate(blocks):
        if index in fitting:
            fitting_names.add(block.name)
        else:
            missing[block.name] += block.number
    parts = []
    for index, block in enumerate(blocks):
        if index in fitting:
            parts.append(block.text)
        elif number := missing.pop(block.name, 0):
            subject = _missing_subject(block, number, is_rest=block.name in fitting_names)
            place = places.get(block.name, places[""])
            parts.append(f"**{subject}** did not fit: see {place}.")
    return "\n\n".join(parts) + "\n"


def _missing_subject(block: Block, number: int, *, is_rest: bool) -> str:
    """What did not fit, with a capital; `is_rest`: others of the name stand in the document."""
    if not block.plural:
        return f"{block.name[0].upper()}{block.name[1:]}"
    if is_rest:
        return counted(number, f"more {block.name}", f"more {block.plural}")
    return counted(number, block.name, block.plural)


def _choose_blocks(blocks: Sequence[Block], sizes: Sequence[int], room: int) -> set[int]:
    """The indexes of those that fit."""
    fitting: set[int] = set()
    full_names: set[tuple[int, str]] = set()
    for index in sorted(range(len(blocks)), key=lambda index: blocks[index].rank):
        name = (blocks[index].rank, blocks[index].name)
        if name in full_names or sizes[index] > room:
            # No later one of its name: a reader could not tell which are missing.
            full_names.add(name)
            continue
        fitting.add(index)
        room -= sizes[index]
    return fitting


def _longest(char: str, text: str) -> int:
    runs = re.findall(re.escape(char) + "+", text)
    return max(map(len, runs), default=0)
