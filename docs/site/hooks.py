"""What mkdocs adds to the pages of docs/: the README, the examples and the changelog; and what the
built site may hold.

Links lead where they do on a forge: `../README.md`, `../examples/hooks/README.md` and files of an
example become pages.
"""

from __future__ import annotations

import html
import logging
import re
import subprocess
from pathlib import Path

from cmarkgfm import github_flavored_markdown_to_html
from cmarkgfm.cmark import Options
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml", ".ini": "ini"}
"""Of the files that a page about an example shows; recorded answers are not among them."""

_LOG = logging.getLogger("mkdocs.hooks")
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
_ESCAPED_PIPE = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=["']?(?P<source>[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|prefetch|preconnect|dns-prefetch|icon|manifest))"""
    r"""[^>]*?\bhref=["']?(?P<link>[^"'\s>]+)"""
    r"""|@import\s+(?:url\()?["']?(?P<imported>[^"'\s);]+)|url\(["']?(?P<url>[^"')]+)""",
    re.IGNORECASE,
)
"""What a browser fetches by itself, in HTML and in CSS."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace a folder's name in `nav` by its pages."""
    pages = {
        "decisions": [
            f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))
        ],
        "examples": ["examples/index.md", *(f"examples/{name}.md" for name in _examples())],
    }
    for entry in config.nav or []:
        for title, value in entry.items() if isinstance(entry, dict) else ():
            if isinstance(value, str) and value in pages:
                entry[title] = pages[value]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose text stands outside of docs/."""
    texts = {
        "index.md": _moved(ROOT / "README.md", "."),
        "changelog.md": _moved(ROOT / "CHANGELOG.md", "."),
        "contributing.md": _moved(ROOT / "CONTRIBUTING.md", "."),
    }
    index = ["# Examples", "", "Folders of `examples/`, to be copied.", ""]
    for name in _examples():
        texts[f"examples/{name}.md"] = text = _example(ROOT / "examples" / name)
        index.append(f"- [{text.splitlines()[0].lstrip('# ')}]({name}.md)")
    texts["examples/index.md"] = "\n".join(index) + "\n"
    for path, text in texts.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links out of docs/ at pages of the site; show a pipe in a table's code as GitHub
    does.
    """
    if page.file.src_path.startswith("decisions/"):
        page.meta["search"] = {"boost": 0.2}  # who searches wants to know what is so, before why
    if page.file.generated_by is None:
        markdown = _relinked(
            markdown, ROOT / "docs" / page.file.src_path, str(Path(page.file.src_path).parent)
        )
    lines = markdown.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("|"):
            lines[number] = _ESCAPED_PIPE.sub(_code, line)
    return "\n".join(lines)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Warn, which fails a strict build, if a page has other lists, rows or blocks of code here than
    on GitHub.
    """
    on_github = github_flavored_markdown_to_html(page.markdown or "", Options.CMARK_OPT_UNSAFE)
    for tag in ("li", "tr", "pre"):
        here, there = (len(re.findall(rf"<{tag}\b", text)) for text in (content, on_github))
        if here != there:
            _LOG.warning(
                "%s has %d <%s> here and %d on GitHub", page.file.src_path, here, tag, there
            )
    return content


def on_post_build(config: MkDocsConfig) -> None:
    """Fail if a built page or style sheet would load anything from another host."""
    site = Path(config.site_dir)
    loaded = {
        f"{path.relative_to(site)}: {address}"
        for path in [*site.rglob("*.html"), *site.rglob("*.css")]
        for match in _LOADED.finditer(path.read_text())
        for address in match.groups()
        if address and re.match(r"(?:[a-z]+:)?//", address, re.IGNORECASE)
    }
    if loaded:
        raise PluginError("the site loads from other hosts:\n" + "\n".join(sorted(loaded)))


def _examples() -> list[str]:
    return sorted(path.name for path in (ROOT / "examples").iterdir() if path.is_dir())


def _example(folder: Path) -> str:
    """A page: the folder's README, or a title, and each of its files that git has."""
    readme = folder / "README.md"
    parts = [_moved(readme, "examples") if readme.exists() else f"# {folder.name.capitalize()}\n"]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "."], cwd=folder, capture_output=True, text=True, check=True
    )
    for name in sorted(name for name in listed.stdout.split("\0") if name):
        language = LANGUAGES.get(Path(name).suffix)
        if language:
            text = (folder / name).read_text().rstrip()
            parts.append(f"## `{name}` {{ #{name} }}\n\n````{language}\n{text}\n````\n")
    return "\n".join(parts)


def _moved(path: Path, folder: str) -> str:
    return _relinked(path.read_text(), path, folder)


def _relinked(text: str, path: Path, folder: str) -> str:
    """The text of a file of the repository as a page in `folder` of the site."""

    def link(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        place = (path.parent / target).resolve()
        if not place.exists() or not place.is_relative_to(ROOT):
            return match[0]  # mkdocs says what is wrong
        page, inner = _page(place.relative_to(ROOT))
        return f"{'../' * len(Path(folder).parts)}{page}{inner or anchor}"

    return _LINK.sub(link, text)


def _page(place: Path) -> tuple[str, str]:
    """The page of the site that shows a file of the repository, and where in it."""
    first, *rest = place.parts or ("",)
    if first == "docs":
        return "/".join(rest) if Path(
            *rest
        ).suffix else f"{'/'.join(rest)}/0001-record-decisions.md", ""
    if first == "examples" and rest:
        name, *inner = rest
        return f"examples/{name}.md", f"#{'/'.join(inner)}" if inner and inner != [
            "README.md"
        ] else ""
    pages = {
        "README.md": "index.md",
        "CHANGELOG.md": "changelog.md",
        "CONTRIBUTING.md": "contributing.md",
        "examples": "examples/index.md",
    }
    return pages.get(place.as_posix(), place.as_posix()), ""


def _code(match: re.Match[str]) -> str:
    return f"<code>{html.escape(match[1]).replace(chr(92) + '|', '&#124;')}</code>"
