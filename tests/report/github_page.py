"""GitHub's own renderer, and what GitHub does to its output: what readers of a comment see and are
notified of.
"""

from __future__ import annotations

import re

import cmarkgfm
from cmarkgfm.cmark import Options
from lxml import html
from lxml.html import HtmlElement

EXTENSIONS = ["table", "autolink", "tagfilter", "strikethrough", "tasklist"]

ACTED_UPON = {
    # html-pipeline's mention filter, widened: any @ before a letter or digit at a word's start.
    "mention": re.compile(r"(?:^|\W)@[a-z0-9]", re.IGNORECASE),
    "issue": re.compile(r"(?:^|\W)#[0-9]+|\bgh-[0-9]+", re.IGNORECASE),
    "commit": re.compile(r"\b[0-9a-f]{7,40}\b", re.IGNORECASE),
    "address": re.compile(r"[a-z][a-z0-9+.-]*://|\bwww\.|mailto:", re.IGNORECASE),
    "e-mail": re.compile(r"[^\s@]+@[^\s@]+\.[a-z]", re.IGNORECASE),
    "emoji": re.compile(r":[a-z0-9_+-]+:", re.IGNORECASE),
    "mathematics": re.compile(r"\$[^\s$][^$]*\$"),
    "ticket": re.compile(r"\b[A-Z]+-[0-9]+"),
}
"""What GitHub looks for in text that is rendered already, outside of pre, code, tt and a."""

TAGS = {
    "article", "h3", "h4", "p", "br", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code", "pre",
    "details", "summary", "a", "sub",
}  # fmt: skip
"""All that our own Markdown becomes."""


def rendered(markdown: str, *, breaks: bool = True) -> str:
    """The HTML that GitHub makes of a comment (`breaks`: a line's end stays one, as in
    comments).
    """
    options = (
        Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES | Options.CMARK_OPT_GITHUB_PRE_LANG
    )
    if breaks:
        options |= Options.CMARK_OPT_HARDBREAKS
    return cmarkgfm.markdown_to_html_with_extensions(
        markdown, options=options, extensions=EXTENSIONS
    )


def page(markdown: str, *, breaks: bool = True) -> HtmlElement:
    """The same as a tree."""
    return html.fromstring(f"<article>{rendered(markdown, breaks=breaks)}</article>")


def acted_upon(tree: HtmlElement) -> list[str]:
    """What GitHub would turn into a mention, a reference, a link, an emoji or mathematics."""
    hits = []
    for text in tree.xpath(
        "//text()[not(ancestor::pre or ancestor::code or ancestor::tt or ancestor::a)]"
    ):
        hits += [
            f"{name}: {text!r}" for name, pattern in ACTED_UPON.items() if pattern.search(str(text))
        ]
    return hits


def skeleton(tree: HtmlElement) -> list[str]:
    """The tags in order, but for code within a line."""
    inline = {node for node in tree.iter("code") if node.getparent().tag != "pre"}
    return [
        str(node.tag) for node in tree.iter() if isinstance(node.tag, str) and node not in inline
    ]
