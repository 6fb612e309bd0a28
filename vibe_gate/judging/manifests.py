"""What a project declares about the language and the libraries that a changed file uses.

Rows of the manifests are quoted as they stand: nothing is resolved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from vibe_gate.domain import escape, paths
from vibe_gate.parsing import FileOutline

MAX_MANIFEST = 200_000
"""Bytes of a manifest that is read: a larger one is a lock."""

MAX_DEPENDENCIES = 6
"""Rows of dependencies that are quoted of one manifest."""

_MAX_TEXT = 120  # characters of a quoted row

_PYTHON = r"requires-python\s*=|python_requires\s*=|python\s*=\s*[\"'^~>=]"
_JVM = (
    r"<(?:maven\.compiler\.(?:source|target|release)|java\.version|release)>"
    r"|(?:source|target)Compatibility|languageVersion|jvmToolchain"
)
_MANIFESTS = {
    "pyproject.toml": ("py pyi", _PYTHON),
    "setup.cfg": ("py pyi", _PYTHON),
    "setup.py": ("py pyi", _PYTHON),
    "requirements.txt": ("py pyi", r"(?!)"),
    "package.json": ("js jsx mjs cjs ts tsx mts cts", r"\"node\"\s*:|\"type\"\s*:\s*\"module\""),
    "tsconfig.json": ("ts tsx mts cts", r"\"(?:target|strict)\"\s*:"),
    "go.mod": ("go", r"go\s+\d"),
    "Cargo.toml": ("rs", r"rust-version\s*=|edition\s*="),
    "pom.xml": ("java kt scala", _JVM),
    "build.gradle": ("java kt scala", _JVM),
    "build.gradle.kts": ("java kt scala", _JVM),
    "Gemfile": ("rb", r"ruby\s+[\"']"),
    "composer.json": ("php", r"\"php\"\s*:"),
}
"""A manifest's name -> the ends of the files that it is about, and how a row begins that says a
version of the language.
"""

_WORD = re.compile(r"[A-Za-z][\w-]{2,}")
_OF_ITSELF = re.compile(r"[\"']?(?:name|module|description|keywords|homepage|url)\b")
_GENERAL_WORDS = (
    "import from require include use using static const let var package com org net java javax std "
    "crate super self type types future annotations main http https github src lib core"
)
_GENERAL = frozenset(_GENERAL_WORDS.split())
"""Words of imports that name no library by themselves."""


class ManifestRows(Struct, frozen=True):
    """What a manifest says."""

    path: str
    rows: tuple[str, ...]
    """As they stand, but for white space around them."""


def find_manifests(
    changed: Iterable[tuple[str, FileOutline | None]], read: Callable[[str], bytes | None]
) -> list[ManifestRows]:
    """The rows that matter of the nearest manifests of each changed file.

    Args:
        changed: Paths with what stands in them.
        read: A file's content by its path; None if there is none.
    """
    words: dict[str, set[str]] = {}
    for path, outline in changed:
        for manifest in _nearest(path, read):
            words.setdefault(manifest, set()).update(_imported_words(outline))
    manifests = []
    for manifest, manifest_words in sorted(words.items()):
        rows = tuple(_telling_rows(manifest, read(manifest) or b"", manifest_words))
        if rows:
            manifests.append(ManifestRows(manifest, rows))
    return manifests


def manifest_facts(manifests: Sequence[ManifestRows]) -> Iterator[str]:
    """What a judge is told about them."""
    for manifest in manifests:
        yield f"{paths.quote(manifest.path)} declares:"
        for row in manifest.rows:
            yield f"    {escape.show_text(row)[:_MAX_TEXT]}"


def _nearest(path: str, read: Callable[[str], bytes | None]) -> Iterator[str]:
    """Of each manifest about the file's language, the one in the nearest folder above it."""
    ending = path.rpartition(".")[2].lower()
    folders = [folder.as_posix() for folder in PurePosixPath(path).parents]
    for name, (endings, _) in _MANIFESTS.items():
        if ending not in endings.split():
            continue
        for folder in folders:
            manifest = name if folder == "." else f"{folder}/{name}"
            if read(manifest) is not None:
                yield manifest
                break


def _imported_words(outline: FileOutline | None) -> set[str]:
    if outline is None:
        return set()
    words: set[str] = set()
    for row in outline.imports:
        for word in _WORD.findall(row.text):
            words.add(_plain(word))
    return words - _GENERAL


def _telling_rows(manifest: str, content: bytes, words: set[str]) -> Iterator[str]:
    if len(content) > MAX_MANIFEST:
        return
    version_row = re.compile(_MANIFESTS[PurePosixPath(manifest).name][1])
    dependency_count = 0
    is_xml = manifest.endswith(".xml")  # a dependency's name and version are rows apart
    for line in content.decode("utf-8", "replace").split("\n"):
        row = line.strip()
        if version_row.match(row):
            yield row
        elif dependency_count < MAX_DEPENDENCIES and _names_library(row, words) and not is_xml:
            dependency_count += 1
            yield row


def _names_library(row: str, words: set[str]) -> bool:
    """Whether a row that has a version names one of the words."""
    if _OF_ITSELF.match(row) or row.startswith(("#", "//")) or not re.search(r"\d", row):
        return False
    return any(_plain(word) in words for word in _WORD.findall(row))


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")
