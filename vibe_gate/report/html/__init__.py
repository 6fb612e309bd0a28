"""A run as one HTML page: `render_run_page(result)`. It asks nothing of the network, and its
strings are data, never markup.

view           what is shown; read_view: read from the bundle
authors        which turns of captured sessions wrote the changed lines
page_body      the page as it is without scripts, of finding_articles, criteria_section,
               cost_section, authors_section and page_parts; glance: rounds, files and votes
nodes          the graph as a picture (graph_drawing); cost_pictures: dollars, tokens and time
stage_figures  what nodes did; addresses: of links
app/           what scripts add, in TypeScript; built by `nox -s page` into page.js, page.css, and
               the site's
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from vibe_gate.domain.document import plain
from vibe_gate.domain.summary import Summary
from vibe_gate.report import finding_places, queries
from vibe_gate.report.html import page_body
from vibe_gate.report.html.addresses import finding_element_id
from vibe_gate.report.html.authors import Authors, WhoWrote, no_authors
from vibe_gate.report.html.authors_section import claimed_tool, turn_name, writer_element_id
from vibe_gate.report.html.read_view import read_view
from vibe_gate.report.html.view import EarlierRound, View, findings_on_page, verdict_view
from vibe_gate.report.markup import Html, join_html, tag
from vibe_gate.store.run_result import RunResult

_HERE = Path(__file__).parent

_BEFORE_BODY = 'document.documentElement.classList.add("live")'
"""Run before the body is read: tabs that are not shown are then never laid out, only to be hidden
by the script.
"""


async def render_run_page(
    result: RunResult,
    who_wrote: WhoWrote = no_authors,
    *,
    conversations: bool = True,
    earlier: EarlierRound | None = None,
) -> str:
    """The page of a run, sealed or not; the same bundle, authors and earlier round give the same
    text.

    Without `conversations` it leaves out what was said to agents and judges, and by them.
    StorageError, IntegrityError.
    """
    view = await read_view(result, who_wrote, conversations=conversations)
    return render_page(replace(view, earlier=earlier))


def render_verdict_page(summary: Summary, earlier: EarlierRound | None = None) -> str:
    """The page of a verdict alone: without contents, conversations and events."""
    return render_page(replace(verdict_view(summary), earlier=earlier))


def render_page(view: View) -> str:
    """The page of what is shown."""
    script = _file("page.js")
    contents = []
    for name, packed in view.contents.items():
        contents.append(tag("script", Html(packed), type="text/plain", data_blob=name))
    data = tag("script", _embedded(_data(view)), type="application/json", id="data")
    body = [
        tag("script", Html(_BEFORE_BODY)),
        page_body.render_body(view),
        data,
        *contents,
        tag("script", Html(script)),
    ]
    return _html(
        page_body.page_title(view), join_html(body), _file("page.css"), _BEFORE_BODY, script
    )


def _file(name: str) -> str:
    return (_HERE / name).read_text("utf-8")


def render_site_page(title: str, body: Html, data: object) -> str:
    """The index of a site: `body`, which stands without scripts, and what `site.js` reads."""
    script = _file("site.js")
    scripts = [
        tag("script", _embedded(data), type="application/json", id="data"),
        tag("script", Html(script)),
    ]
    return _html(title, join_html([body, *scripts]), _file("page.css") + _file("site.css"), script)


def _embedded(data: object) -> Html:
    return Html(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _html(title: str, body: Html, style: str, *scripts: str) -> str:
    """A document that may run `scripts`, take `style`, and nothing else."""
    allowed = " ".join(map(_hash, scripts)) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    head = tag(
        "head",
        Html('<meta charset="utf-8"/>'),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", title),
        tag("style", Html(style)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', body), lang='en')}\n"


def _hash(text: str) -> str:
    """The source expression of a policy (CSP level 3) that allows exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(view: View) -> dict[str, Any]:
    """What scripts read; `app/src/data.ts` describes it."""
    findings: list[dict[str, Any]] = []
    unreviewed = []
    summary = view.summary
    if summary:
        for number in findings_on_page(summary):
            findings += _finding_data(number, summary)
        unreviewed = [plain(place) for place in summary.unreviewed]
    writers = range(len(view.authors.turns))
    return {
        "files": to_builtins(view.files),
        "turns": to_builtins(view.turns),
        "findings": findings,
        "unreviewed": unreviewed,
        "events": to_builtins(view.events),
        "writers": [_writer_data(index, view.authors) for index in writers],
        "written": to_builtins(view.authors.lines),
    }


def _writer_data(index: int, authors: Authors) -> dict[str, Any]:
    """What the viewer says of a turn below a line; the prompt itself stands in the document."""
    turn = authors.turns[index]
    return {
        "id": writer_element_id(index),
        "name": turn_name(turn),
        "session": turn.session,
        "source": claimed_tool(turn),
        "asked": turn.asked,
        "prompt": bool(turn.prompt),
    }


def _finding_data(index: int, summary: Summary) -> list[dict[str, Any]]:
    """The finding once for each of its places, its first place first."""
    finding = summary.findings[index]
    sources = queries.sources_of_finding(finding, summary)
    criteria = [f"{rubric.id}/{criterion.id}" for rubric, criterion in sources]
    common = {
        "id": finding_element_id(index),
        "criterion": criteria[0] if criteria else "",
        "level": finding.level,
        "message": finding.message,
    }
    entries = []
    for place in finding_places.quoted_places(finding):
        side = "after"
        if place.is_removed:
            side = "before"
        entries.append(common | {"side": side, "path": place.path, "line": place.place.line})
    return entries
