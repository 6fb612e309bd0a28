"""What is odd about definitions without being a mistake: what has no effect, or not the one that was meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vibe_gate.domain import paths
from vibe_gate.domain.gate import POLICY_BLOCK, POLICY_WARN
from vibe_gate.domain.tables import quoted, suggestion
from vibe_gate.gate import loading
from vibe_gate.gate.source import DefinitionTree, Mistake, Source

_GLOBS = (
    ("scope", None, "paths", None), ("policy", "block", None), ("policy", "warn", None),
    ("criterion", None, "paths", None), ("suppression", None, "paths", None),
)  # fmt: skip
"""Globs of files that should be there. Those of a check's options may be of files that must not be."""


def warnings(tree: DefinitionTree, mistakes: Sequence[Mistake]) -> list[Mistake]:
    """What is odd about the tree's definitions; nothing about a key that has one of the `mistakes`."""
    sources = loading.definition_files(tree)
    files = tree.list("") + tree.links("") if sources else []
    wrong = {(mistake.file, mistake.key) for mistake in mistakes}
    # While a file cannot be read, or a name in it is wrong, what no other file has may be there.
    found = [] if mistakes else [*_unused(sources), *_unknown_criteria(sources), *_unprovable(sources)]
    for source in sources:
        found += [*_unmatched(source, files), *_unsplit(source)]
    return sorted((one for one in found if (one.file, one.key) not in wrong), key=lambda one: (one.file, one.line))


def _unmatched(source: Source, files: Sequence[str]) -> Iterator[Mistake]:
    # A list of one's own repeats the default globs, and a repository need not have such files.
    for location, glob in (item for path in _GLOBS for item in source.values(*path)):
        if not isinstance(glob, str) or glob in POLICY_BLOCK + POLICY_WARN:
            continue
        if not any(paths.matches(file, (glob,)) for file in files):
            yield source.mistake(location, f"{quoted(glob)} matches no file of this tree")


def _unsplit(source: Source) -> Iterator[Mistake]:
    for location, command in source.values("criterion", None, "command"):
        if isinstance(command, list) and len(command) == 1 and len(words := str(command[0]).split()) > 1:
            told = ", ".join(map(quoted, words))
            yield source.mistake(location, f"is one program with spaces in its name\nwrite [{told}]")


def _unknown_criteria(sources: Sequence[Source]) -> Iterator[Mistake]:
    known = {"policy", *(str(name) for source in sources for _, name in source.values("criterion", None, "id"))}
    for source in sources:
        for location, name in source.values("suppression", None, "criterion"):
            if isinstance(name, str) and name not in known:
                advice = suggestion(name, sorted(known), "criteria")
                yield source.mistake(location, f"no rubric has this criterion\n{advice}")


def _unprovable(sources: Sequence[Source]) -> Iterator[Mistake]:
    if any(source.path == loading.GATE_PATH and "counterexample" in source.tables for source in sources):
        return
    for source in sources:
        for location, _ in source.values("criterion", None, "proof"):
            yield source.mistake(
                location, f"blocks nothing: no test is run\nadd [counterexample] to {loading.GATE_PATH}"
            )


def _unused(sources: Sequence[Source]) -> Iterator[Mistake]:
    stages = (("stage", None, "rubrics", None), ("stage", None, "until", "rubrics", None))
    places = (("rubrics", None), ("scope", None, "rubrics", None), *stages)
    named = {str(name) for source in sources for place in places for _, name in source.values(*place)}
    if any(source.path == loading.GATE_PATH for source in sources):
        for source in sources:
            if source.path.startswith(loading.RUBRICS) and source.path[len(loading.RUBRICS) : -5] not in named:
                yield source.mistake((), f"no change is reviewed against this rubric\nname it in {loading.GATE_PATH}")
