"""What stands around a change: its hunks with their enclosing functions, and lines that name a word.

Git is asked in the bare repository of our own (see `diff`); which line begins a function is told by its own patterns
for each language, chosen by the file's name and by nothing that the repository says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Timer

from vibe_gate.domain import paths
from vibe_gate.domain.change import Hunk, NamedLine
from vibe_gate.git.diff import RENAMES, Trees, hunks_of, split_patch
from vibe_gate.git.objects import Objects

LINES_AROUND = 10
"""Unchanged lines that are shown around a change at least."""

MAX_FOUND_BYTES = 2_000_000
"""Of a search's output; whoever names a word more often than that tells nothing by it."""

_SEARCH_S = 10.0  # a tree that takes longer is told nothing about

_SCRIPT = (
    r"!^[ \t]*(if|for|while|switch|catch|return|else|do|await|throw|new)[ \t(]"
    "\n"
    r"^[ \t]*((export[ \t]+)?(default[ \t]+)?(declare[ \t]+)?(abstract[ \t]+)?(async[ \t]+)?"
    r"((function|class|interface|enum|namespace)[ \t*].*"
    r"|(const|let|var)[ \t]+[A-Za-z_$][A-Za-z0-9_$]*[^=]*=.*(=>|function).*"
    r"|((static|public|private|protected|readonly|override|get|set)[ \t]+)*[A-Za-z_$#][A-Za-z0-9_$]*[ \t]*\(.*\).*\{))"
)
_LANGUAGES = {
    "bash": "sh bash", "cpp": "c h cc cpp cxx hh hpp hxx", "csharp": "cs", "elixir": "ex exs", "golang": "go",
    "java": "java", "kotlin": "kt kts", "perl": "pl pm", "php": "php", "python": "py pyi", "ruby": "rb", "rust": "rs",
    "script": "js jsx ts tsx mjs cjs mts cts",
}  # fmt: skip
"""Git's names of what it knows (gitattributes(5)), and one of our own, by extension."""


def in_context(objects: Objects, trees: Trees) -> dict[str, tuple[Hunk, ...]]:
    """By path, a change's hunks with all of the enclosing function, or `LINES_AROUND` lines; not of binary files."""
    attributes = objects.folder / "attributes"
    if not attributes.exists():
        named = [f"*.{end} diff={name}\n" for name, ends in _LANGUAGES.items() for end in ends.split()]
        attributes.write_text("".join(named))
    done = objects.bare.run(
        "-c", f"core.attributesFile={attributes}", "-c", f"diff.script.xfuncname={_SCRIPT}",
        "diff-tree", "-r", "-p", "-W", f"-U{LINES_AROUND}", "--full-index", *RENAMES, *trees,
    )  # fmt: skip
    return {paths.decode(path): hunks_of(section) for path, section in split_patch(done.out).items()}


def search(objects: Objects, tree: str, words: Sequence[str]) -> list[NamedLine]:
    """The lines of a tree's text files that hold one of the words as a whole word, in the order of the paths.

    Less if there are too many, none if it takes too long.
    """
    asked = [argument for word in words for argument in ("-e", word)]
    process = objects.bare.start("grep", "-z", "-n", "-I", "-w", "-F", *asked, tree)
    assert process.stdout is not None
    timer = Timer(_SEARCH_S, process.kill)
    timer.start()
    try:
        found = process.stdout.read(MAX_FOUND_BYTES)
    finally:
        timer.cancel()
        process.kill()
        process.communicate()
    return list(_named_lines(found.rpartition(b"\n")[0], len(tree) + 1))


def _named_lines(found: bytes, prefix: int) -> Iterator[NamedLine]:
    for row in found.split(b"\n"):
        with suppress(ValueError):
            path, number, text = row.split(b"\0", 2)
            yield NamedLine(paths.decode(path[prefix:]), int(number), text)
