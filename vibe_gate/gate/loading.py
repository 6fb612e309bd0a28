"""From a tree to the gate in force, or to every mistake at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from vibe_gate.domain import paths
from vibe_gate.domain.gate import Gate, GateFile, Origin
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.suppression import Suppression, SuppressionsFile
from vibe_gate.errors import DefinitionError
from vibe_gate.gate.meaning import gate_mistakes, rubric_mistakes, suppression_mistakes
from vibe_gate.gate.reading import (  # fmt: skip
    GATE_PATH,
    SUPPRESSIONS,
    Source,
    Tree,
    definition_paths,
    linked,
    misplaced,
    parse,
    with_dates_as_text,
)
from vibe_gate.gate.wording import ENOUGH, Location, M, at, dotted, parsed, quoted

MISTAKES_SHOWN = 50
"""Of one file; more help nobody."""


def load_gate(tree: Tree, *, revision: str, origin: Origin) -> Gate | None:
    """The gate that the tree's `.vibe-gate/` defines; None where it defines none.

    Without gate.toml every rubric applies to every change. Raises DefinitionError
    with every mistake of every file.
    """
    gate, found = _read(tree, revision, origin)
    if found:
        raise DefinitionError(found)
    return gate


def mistakes(tree: Tree) -> list[str]:
    """Every mistake in the tree's definitions, one sentence each; [] when all is right."""
    return _read(tree, "", "trusted")[1]


def built_in_gate() -> Gate:
    """The gate for a repository without definitions: offline checks and a small general rubric."""
    gate = load_gate(_Resources(), revision="", origin="built-in")
    assert gate is not None  # the files are part of the package
    digests = tuple((path.replace(".vibe-gate/", "built-in/"), digest) for path, digest in gate.digests)
    return dataclasses.replace(gate, digests=digests)


class _Resources:
    """The package's own definitions as a tree, so that they pass through the same strict reader."""

    def __init__(self) -> None:
        root = Path(__file__).with_name("built_in")
        self._files = {GATE_PATH: root.joinpath("gate.toml")}
        for file in root.joinpath("rubrics").iterdir():
            self._files[f".vibe-gate/rubrics/{file.name}"] = file

    def read(self, path: str) -> bytes | None:
        file = self._files.get(path)
        return file.read_bytes() if file else None

    def links(self, prefix: str) -> list[str]:
        return []

    def list(self, prefix: str) -> list[str]:
        return sorted(path for path in self._files if path.startswith(f"{prefix}/"))


def _read(tree: Tree, revision: str, origin: Origin) -> tuple[Gate | None, list[str]]:
    found = list(islice(chain(linked(tree), misplaced(tree)), MISTAKES_SHOWN))
    listed = definition_paths(tree)
    sources: list[Source] = []
    for path in listed:
        source = parse(path, tree.read(path) or b"")
        if isinstance(source, str):
            found.append(source)
        else:
            sources.append(source)
    names = [path.rsplit("/", 1)[-1].removesuffix(".toml") for path in listed if path != GATE_PATH]
    file = _gate_file(sources, names, found)
    rubrics = [_rubric(source, found) for source in sources if source.path != GATE_PATH]
    suppressed = suppressions_of(tree, found)
    if found or not listed:
        return None, found
    digests = tuple((source.path, source.digest) for source in [*sources, *filter(None, [suppressed.source])])
    return Gate(file, tuple(r for r in rubrics if r), origin, revision, digests, suppressed.rules), []


class Suppressed(NamedTuple):
    """What suppressions.toml says; nothing where there is none."""

    source: Source | None = None
    rules: tuple[Suppression, ...] = ()


def suppressions_of(tree: Tree, found: list[str]) -> Suppressed:
    """The tree's suppressions; their mistakes go to `found`."""
    raw = tree.read(SUPPRESSIONS)
    if raw is None:
        return Suppressed()
    source = parse(SUPPRESSIONS, raw)
    if isinstance(source, str):
        found.append(source)
        return Suppressed()
    source = dataclasses.replace(source, tables=with_dates_as_text(source.tables))
    file = _model(SuppressionsFile, source, suppression_mistakes(source), found)
    return Suppressed(source, file.suppression) if file else Suppressed()


def _gate_file(sources: list[Source], names: list[str], found: list[str]) -> GateFile:
    source = next((source for source in sources if source.path == GATE_PATH), None)
    default = GateFile(schema=1, rubrics=())
    if source is None:
        return default.model_copy(update={"rubrics": tuple(names)})
    return _model(GateFile, source, gate_mistakes(source, names), found) or default


def _rubric(source: Source, found: list[str]) -> Rubric | None:
    return _model(Rubric, source, rubric_mistakes(source), found)


def _model(model: type[M], source: Source, also: Iterator[tuple[Location, str]], found: list[str]) -> M | None:
    """The file as a model; its mistakes, those of single keys first, go to `found`."""
    value, wrong = parsed(model, source.tables)
    more = list(islice(also, ENOUGH))
    if more:  # what the model says of the file as a whole, `meaning` says with its key
        wrong = [(location, what) for location, what in wrong if location]
    known = {location for location, _ in wrong}
    wrong += [(location, what) for location, what in more if location not in known]
    wrong.sort(key=lambda item: _order(source.tables, item[0]))
    said = [_sentence(source, location, what) for location, what in wrong]
    if value is None and not said:  # never a default in the place of what could not be read
        said = [f"{paths.quote(source.path)}: does not hold what belongs there"]
    if len(said) > MISTAKES_SHOWN:
        said[MISTAKES_SHOWN:] = [f"{paths.quote(source.path)}: and more mistakes like these"]
    found += said
    return None if said else value


def _order(tables: object, location: Location) -> tuple[int, ...]:
    """Where in the file a location stands, so that mistakes are told from top to bottom."""
    order: list[int] = []
    for depth, part in enumerate(location):
        table = at(tables, location[:depth])
        keys = list(table) if isinstance(table, dict) else []
        order.append(part if isinstance(part, int) else keys.index(part) if part in keys else -1)
    return tuple(order)


def _sentence(source: Source, location: Location, what: str) -> str:
    key = dotted(location)
    if location[:1] == ("criterion",) and len(location) > 1:
        name = at(source.tables, (*location[:2], "id"))
        if isinstance(name, str):
            key += f" (id {quoted(name)})"
    return ": ".join(part for part in (paths.quote(source.path), key, what) if part)
