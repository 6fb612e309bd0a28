"""From a tree to the gate in force, or to every mistake at once: which files are definitions, and what they say."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import tomllib
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from vibe_gate.checks import CHECKS
from vibe_gate.domain import paths
from vibe_gate.domain.escape import expression
from vibe_gate.domain.gate import Gate, GateFile, Origin, Suppression, SuppressionsFile
from vibe_gate.domain.rubric import Rubric
from vibe_gate.errors import DefinitionError
from vibe_gate.gate.mistakes import (
    FOLDER,
    GATE_PATH,
    MISTAKES_SHOWN,
    RUBRICS,
    SUPPRESSIONS,
    Source,
    gate_mistakes,
    parsed,
    rubric_mistakes,
)


def load_gate(tree: DefinitionTree, *, revision: str, origin: Origin) -> Gate | None:
    """The gate that the tree's `.vibe-gate/` defines; None where it defines none.

    Without gate.toml every rubric applies to every change. Raises DefinitionError
    with every mistake of every file.
    """
    gate, found = _read(tree, revision, origin)
    if found:
        raise DefinitionError(found)
    return gate


def mistakes(tree: DefinitionTree) -> list[str]:
    """Every mistake in the tree's definitions, one sentence each; [] when all is right."""
    return _read(tree, "", "trusted")[1]


def without_effect(gate: Gate) -> list[str]:
    """What the gate asks for and this version does not do yet, as sentences: nothing may only look alive."""
    said = [
        f"{criterion.check_name!r} of criterion {criterion.id!r} {CHECKS[criterion.check_name].not_yet}"
        for rubric in gate.rubrics
        for criterion in rubric.checked
        if CHECKS[criterion.check_name].not_yet
    ]
    if "trust" in gate.file.model_fields_set:
        said.append("[trust] uncalibrated decides nothing in this version: judges cannot be calibrated yet")
    return said


def built_in_gate() -> Gate:
    """The gate for a repository without definitions: offline checks and a small general rubric."""
    root = Path(__file__).with_name("built_in")
    files = {f"{FOLDER}/{file.relative_to(root).as_posix()}": file.read_bytes() for file in root.rglob("*.toml")}
    gate = load_gate(DefinitionFiles(files), revision="", origin="built-in")
    assert gate is not None  # the files are part of the package
    digests = tuple((path.replace(".vibe-gate/", "built-in/"), digest) for path, digest in gate.digests)
    return dataclasses.replace(gate, digests=digests)


class DefinitionFiles(dict[str, bytes]):
    """Files by their paths, as a tree that the strict reader takes."""

    def read(self, path: str) -> bytes | None:
        """The content, or None."""
        return self.get(path)

    def links(self, prefix: str) -> list[str]:
        """None."""
        return []

    def list(self, prefix: str) -> list[str]:
        """The paths below the folder."""
        return sorted(path for path in self if path.startswith(f"{prefix}/"))


def _read(tree: DefinitionTree, revision: str, origin: Origin) -> tuple[Gate | None, list[str]]:
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


def suppressions_of(tree: DefinitionTree, found: list[str]) -> Suppressed:
    """The tree's suppressions; their mistakes go to `found`."""
    raw = tree.read(SUPPRESSIONS)
    if raw is None:
        return Suppressed()
    source = parse(SUPPRESSIONS, raw)
    if isinstance(source, str):
        found.append(source)
        return Suppressed()
    file = parsed(SuppressionsFile, source, found)
    return Suppressed(source, file.suppression) if file else Suppressed()


def _gate_file(sources: list[Source], names: list[str], found: list[str]) -> GateFile:
    source = next((source for source in sources if source.path == GATE_PATH), None)
    if source is None:
        return GateFile(schema=1, rubrics=tuple(names))
    file = parsed(GateFile, source, found)
    if file is None:
        return GateFile(schema=1)
    gate_mistakes(file, source, names, found)
    return file


def _rubric(source: Source, found: list[str]) -> Rubric | None:
    rubric = parsed(Rubric, source, found)
    if rubric is not None:
        rubric_mistakes(rubric, source, found)
    return rubric


MAX_BYTES = 1_000_000
"""A definition is written by people; one larger than this is a mistake or an attack."""

MAX_LINE = 5_000
"""tomllib's time grows with the square of a dotted key's parts: 60 ms for one of this length, hours for MAX_BYTES."""

MAX_DEPTH = 16
"""No key of ours lies deeper; dotted keys can nest as deep as a file is long and exhaust the stack."""

OTHER_FOLDERS = ("agents", "workflows", "calibration", "baseline", "cases")
"""Folders of other features; what they hold is not read here."""

_LOCATION = expression(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)\s*\Z")
_PLAINER = {"Cannot overwrite a value": "a key is set twice in one table"}


class DefinitionTree(Protocol):
    """A tree read as blobs: never from disk, never through symbolic links."""

    def read(self, path: str) -> bytes | None:
        """The content of the regular file at `path`; None if there is none."""
        ...

    def links(self, prefix: str) -> list[str]:
        """The paths of symbolic links and submodules at `prefix` or below it."""
        ...

    def list(self, prefix: str) -> list[str]:
        """The paths, from the root, of the regular files below the folder `prefix`."""
        ...


def definition_paths(tree: DefinitionTree) -> list[str]:
    """The paths of gate.toml and the rubrics, sorted."""
    return [path for path in _listed(tree) if path == GATE_PATH or _is_rubric(path)]


def linked(tree: DefinitionTree) -> Iterator[str]:
    """A mistake for every link where a definition could stand: it must not silently count as none."""
    for path in tree.links(FOLDER):
        if path in (FOLDER, GATE_PATH) or path.startswith(RUBRICS.removesuffix("/")) or path.endswith(".toml"):
            yield f"{paths.quote(path)}: symbolic links (and submodules) are not followed; put the file itself here"


def misplaced(tree: DefinitionTree) -> Iterator[str]:
    """A mistake for every TOML file that nothing would ever read."""
    for path in _listed(tree):
        if path.lower().endswith(".toml") and path not in (GATE_PATH, SUPPRESSIONS) and not _is_rubric(path):
            advice = _right_place(path)
            if advice:
                yield f"{paths.quote(path)}: no definition is read from here; {advice}"


def parse(path: str, raw: bytes) -> Source | str:
    """The file's tables, or the mistake that keeps it from being read."""
    shown = paths.quote(path)
    if len(raw) > MAX_BYTES:
        return f"{shown}: {len(raw):,} bytes; a definition may have at most {MAX_BYTES:,}"
    try:
        text = raw.decode("utf-8-sig")  # editors on Windows like to put a byte order mark first
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return f"{shown}: line {line}: not UTF-8 (byte {raw[error.start]:#04x}); save the file as UTF-8"
    too_long = next((number for number, line in enumerate(text.split("\n"), 1) if len(line) > MAX_LINE), None)
    if too_long is not None:
        return f'{shown}: line {too_long}: over {MAX_LINE:,} characters; break it up (long text fits in """ quotes)'
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        return f"{shown}: arrays or tables are nested too deeply"
    except tomllib.TOMLDecodeError as error:
        return f"{shown}: {_syntax(str(error))}"
    except ValueError:  # int() refuses thousands of digits
        return f"{shown}: a number has too many digits"
    if _is_deep(tables):
        return f"{shown}: tables are nested deeper than {MAX_DEPTH} levels"
    return Source(path, tables, hashlib.sha256(raw).hexdigest())


def _listed(tree: DefinitionTree) -> list[str]:
    return sorted(path for path in tree.list(FOLDER) if path.startswith(f"{FOLDER}/"))


def _is_rubric(path: str) -> bool:
    name = path.removeprefix(RUBRICS)
    return path.startswith(RUBRICS) and "/" not in name and name.endswith(".toml")


def _right_place(path: str) -> str | None:
    """What to do with a TOML file in the wrong place; None where it belongs to another feature."""
    *folders, name = path.split("/")[1:]
    if not folders:
        if near := difflib.get_close_matches(name.lower()[:64], ["gate.toml", "suppressions.toml"], cutoff=0.7):
            return f"did you mean {FOLDER}/{near[0]}?"
        return f"the gate is {GATE_PATH}, a rubric belongs in {RUBRICS}"
    if folders[0] in OTHER_FOLDERS:
        return None
    if folders == ["rubrics"]:
        return 'the ending must be ".toml" in lower case'
    if folders[0] == "rubrics":
        return f"rubrics stand directly in {RUBRICS}"
    near = difflib.get_close_matches(folders[0].lower()[:64], ["rubrics", *OTHER_FOLDERS], n=1)
    return f"did you mean {FOLDER}/{near[0]}/?" if near else f"a rubric belongs in {RUBRICS}"


def _syntax(message: str) -> str:
    found = _LOCATION.search(message)
    what = paths.quote(_LOCATION.sub("", message))
    what = f"not TOML: {_PLAINER.get(what, what[:1].lower() + what[1:])}"
    if not found:
        return what
    return f"line {found[1]}, column {found[2]}: {what}" if found[1] else f"at the end of the file: {what}"


def _is_deep(tables: dict[str, Any]) -> bool:
    level: list[Any] = [tables]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            children = value.values() if isinstance(value, dict) else value
            inner += [child for child in children if isinstance(child, (dict, list))]
        if not inner:
            return False
        level = inner
    return True
