"""Makes the pictures of what is posted: `python docs/images/comment.py`. Needs Chromium, cmarkgfm
and Pillow.

The golden comments go through GitHub's own Markdown renderer onto a page that looks
like GitHub's (the styles are our own), and a real browser photographs that.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cmarkgfm
from cmarkgfm.cmark import Options
from PIL import Image

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parents[1] / "tests" / "golden" / "comments"

PICTURES = {
    "comment.png": "first-round.md",
    "comment-round-two.png": "second-round.md",
    "job-summary.png": "job-summary.md",
}
"""File: the golden document."""

COLUMN = 780
"""Pixels of a comment's column on github.com."""

COLOURS = 64
"""Of a picture: text and its shades need no more, and a page loads half as much."""

STYLE = """
* { box-sizing: border-box }
body { margin: 0; padding: 16px; width: 812px; background: #fff; color: #1f2328; word-wrap: break-word;
       font: 14px/1.5 "Liberation Sans", "DejaVu Sans", sans-serif }
.box { border: 1px solid #d1d9e0; border-radius: 6px; width: 780px }
.head { background: #f6f8fa; border-bottom: 1px solid #d1d9e0; border-radius: 6px 6px 0 0; padding: 8px 16px;
        color: #59636e }
.head b { color: #1f2328 }
.head i { border: 1px solid #d1d9e0; border-radius: 2em; font: 12px sans-serif; padding: 1px 7px }
.body { padding: 16px }
.body > :first-child { margin-top: 0 } .body > :last-child { margin-bottom: 0 }
p, ul, table, pre, details { margin: 0 0 16px } ul { padding-left: 2em } li + li { margin-top: 4px }
h3 { font-size: 1.25em; margin: 24px 0 16px } h4 { font-size: 1em; margin: 24px 0 16px }
a { color: #0969da; text-decoration: none }
code { background: #818b981f; border-radius: 6px; font: 85% "Liberation Mono", "DejaVu Sans Mono", monospace;
       padding: .2em .4em }
pre { background: #f6f8fa; border-radius: 6px; font-size: 85%; line-height: 1.45; overflow: auto; padding: 16px }
pre code { background: none; font-size: 100%; padding: 0; white-space: pre }
table { border-collapse: collapse; display: block; max-width: 100%; overflow: auto; width: max-content }
th, td { border: 1px solid #d1d9e0; padding: 6px 13px; text-align: left } tr:nth-child(2n) td { background: #f6f8fa }
.add { background: #dafbe1; color: #116329 } .del { background: #ffebe9; color: #82071e }
"""

_OPTIONS = (
    Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_HARDBREAKS | Options.CMARK_OPT_GITHUB_PRE_LANG
)
_EXTENSIONS = ["table", "autolink", "tagfilter", "strikethrough", "tasklist"]
_DIFF = re.compile(r'(<pre lang="diff"><code>)(.*?)(</code></pre>)', re.DOTALL)
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
          "--disable-background-networking", "--disable-component-update", "--disable-sync")  # fmt: skip


def github_page(markdown: str, more: str = "") -> str:
    """A page with one comment on it; `more` goes to the end of its body."""
    body = cmarkgfm.markdown_to_html_with_extensions(
        markdown, options=_OPTIONS, extensions=_EXTENSIONS
    )
    body = _DIFF.sub(lambda match: match[1] + _coloured(match[2]) + match[3], body)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>comment</title>'
        f"<style>{STYLE}</style></head>"
        '<body><div class="box"><div class="head"><b>github-actions</b> <i>bot</i> commented</div>'
        f'<div class="body">{body}</div></div>{more}</body></html>\n'
    )


def browse(page: Path, *flags: str, width: int = COLUMN + 32, height: int = 800) -> str:
    """Open a page in Chromium, which leaves with what `flags` ask for; its stdout."""
    with tempfile.TemporaryDirectory() as profile:
        size = f"--window-size={width},{height}"
        done = subprocess.run(
            [
                "chromium",
                *_FLAGS,
                f"--user-data-dir={profile}",
                size,
                *flags,
                page.resolve().as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        )
    return done.stdout


def photograph(markdown: str, picture: Path) -> None:
    """A picture of the comment as it stands on the page, folds closed."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(
            github_page(markdown, "<script>document.title = document.body.scrollHeight</script>")
        )
        tall = re.search(r"<title>(\d+)</title>", browse(page, "--dump-dom"))
        assert tall is not None
        page.write_text(github_page(markdown))
        browse(page, f"--screenshot={picture}", height=int(tall[1]))
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


def _coloured(text: str) -> str:
    kinds = {"+": "add", "-": "del"}
    lines = (
        f'<span class="{kinds[line[0]]}">{line}</span>'
        if line[:1] in kinds and line[:3] not in ("+++", "---")
        else line
        for line in text.split("\n")
    )
    return "\n".join(lines)


if __name__ == "__main__":
    for name, document in PICTURES.items():
        photograph((GOLDEN / document).read_text(), HERE / name)
        sys.stdout.write(f"docs/images/{name}\n")
