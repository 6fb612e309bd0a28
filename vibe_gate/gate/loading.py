"""From a tree to the gate in force, or to every mistake at once."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.checks import CHECKS
from vibe_gate.domain import paths
from vibe_gate.domain.change import CASES
from vibe_gate.domain.document import read
from vibe_gate.domain.gate import Gate, GateFile, Origin, SuppressionsFile
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.tables import MISTAKES_SHOWN, Location, keys_of, quoted, suggestion
from vibe_gate.errors import DefinitionError
from vibe_gate.gate.baseline import BASELINES, read_baselines
from vibe_gate.gate.cases import read_cases
from vibe_gate.gate.source import (
    DefinitionTree,
    Mistake,
    Source,
    check_id,
    check_unique,
    digest_of,
    is_identifier,
    missing,
    read_toml,
    stem,
    validated,
)

FOLDER = ".vibe-gate"
GATE_PATH = f"{FOLDER}/gate.toml"
RUBRICS = f"{FOLDER}/rubrics/"
AGENTS = f"{FOLDER}/agents/"
WORKFLOWS = f"{FOLDER}/workflows/"
SUPPRESSIONS = f"{FOLDER}/suppressions.toml"
BUILT_IN = Path(__file__).with_name("built_in")

WORKFLOW_FOLDERS = (f"{FOLDER}/agents", f"{FOLDER}/workflows", ".claude/agents")
OTHER_FOLDERS = ("calibration", "baseline", "cases")
"""Folders of other features; what they hold is not read here."""


class FolderFiles:
    """The files of a working tree as they are on disk, as a DefinitionTree: for tests of its own
    definitions.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def read(self, path: str) -> bytes | None:
        """The content; None if there is no such file, or a link leads to it."""
        file = self._root / path
        return file.read_bytes() if file.is_file() and file.resolve() == file else None

    def links(self, prefix: str, *, without: str = "") -> list[str]:
        """The links at the prefix and below it."""
        return [path for path in self._below(prefix, without) if (self._root / path).is_symlink()]

    def list(self, prefix: str, *, without: str = "") -> list[str]:
        """The paths of the regular files below the folder."""
        return [path for path in self._below(prefix, without) if self.read(path) is not None]

    def _below(self, prefix: str, without: str) -> Iterator[str]:
        top = self._root / prefix
        found = [top] if top.is_symlink() else []
        for folder, folders, files in os.walk(top):
            found += [Path(folder, name) for name in (*folders, *files)]
            folders[:] = [
                name
                for name in folders
                if not without or Path(folder, name) != self._root / without
            ]
        yield from sorted(path.relative_to(self._root).as_posix() for path in found)


def load_gate(tree: DefinitionTree, *, revision: str, origin: Origin) -> Gate | None:
    """The gate that the tree's `.vibe-gate/` defines; None if it has neither gate.toml nor rubrics.

    Without gate.toml every rubric applies to every change. Raises DefinitionError
    with every mistake of every file.
    """
    read = _read(tree, revision, origin)
    if read.mistakes:
        raise DefinitionError(read.mistakes)
    return read.gate if read.is_whole else None


def mistakes(tree: DefinitionTree) -> list[Mistake]:
    """Every mistake in the tree's definitions and labelled cases, file by file; [] when all is
    right.

    Those of agents in `.claude/agents` that no workflow names are among them, though load_gate lets
    them be.
    """
    read = _read(tree, "", "trusted")
    found = read.mistakes + read.refused
    if tree.list(CASES):
        found += read_cases(tree, read.gate.rubrics if read.is_whole else built_in_rubrics())[1]
    return found


def definition_files(tree: DefinitionTree) -> list[Source]:
    """The definition files that can be read as TOML, right or not."""
    return [read for read in _files(tree).values() if isinstance(read, Source)]


def _files(tree: DefinitionTree) -> dict[str, Source | Mistake]:
    """By path, the tables of each definition file in TOML, or why there are none."""
    listed = [path for path in tree.list(FOLDER, without=CASES) if _is_definition(path)]
    return {path: read_toml(path, tree.read(path) or b"") for path in listed}


def built_in_gate(tree: DefinitionTree) -> Gate:
    """The gate for a repository without one: offline checks and a small general rubric; agents and
    workflows as in its tree. Raises DefinitionError for mistakes there.
    """
    own = _read(tree, "", "built-in")
    if own.mistakes:
        raise DefinitionError(own.mistakes)
    files = {
        path.relative_to(BUILT_IN).as_posix(): path.read_bytes()
        for path in sorted(BUILT_IN.rglob("*.toml"))
    }
    file = read(GateFile, tomllib.loads(files["gate.toml"].decode()))
    digests = tuple((f"built-in/{name}", digest_of(raw)) for name, raw in files.items())
    return replace(
        own.gate, file=file, rubrics=built_in_rubrics(), digests=digests + own.gate.digests
    )


@cache
def built_in_rubrics() -> tuple[Rubric, ...]:
    """Those of the built-in gate, whose digests have weights as fractions."""
    found = (
        read(Rubric, tomllib.loads(path.read_text()))
        for path in sorted(BUILT_IN.glob("rubrics/*.toml"))
    )
    return tuple(
        replace(
            one, criterion=tuple(replace(each, weight=float(each.weight)) for each in one.criterion)
        )
        for one in found
    )


OFFERED = ("asked",)
"""Built-in rubrics that a gate takes if its gate.toml names them; its own file of that name goes
first.
"""


@cache
def offered_rubric(name: str) -> Rubric:
    """The rubric of OFFERED."""
    return read(Rubric, tomllib.loads(_offered(name).read_text()))


def _offered(name: str) -> Path:
    return Path(__file__).with_name("offered") / f"{name}.toml"


class _Read(Struct, frozen=True):
    """What a tree says; `is_whole`: it has a gate.toml or rubrics; `refused`: what no workflow
    needs to be right.
    """

    gate: Gate
    is_whole: bool
    mistakes: list[Mistake]
    refused: list[Mistake]


def _read(tree: DefinitionTree, revision: str, origin: Origin) -> _Read:
    wrong = list(islice(chain(_linked(tree), _misplaced(tree)), MISTAKES_SHOWN))
    files = _files(tree)
    names = [stem(path) for path in files if path.startswith(RUBRICS)]
    found = {path: [read] if isinstance(read, Mistake) else [] for path, read in files.items()}
    sources = {path: read for path, read in files.items() if isinstance(read, Source)}
    file: GateFile | None = None
    rubrics: list[Rubric | None] = []
    suppressions: SuppressionsFile | None = None
    for path, source in sources.items():
        if path == GATE_PATH:
            file = _gate_file(source, [*names, *OFFERED], found[path])
        elif path == SUPPRESSIONS:
            suppressions = validated(SuppressionsFile, source.tables, (), source, found[path])
        elif path.startswith(RUBRICS):
            rubrics.append(_rubric(source, found[path]))
    is_whole = GATE_PATH in files or bool(names)
    taken = [name for name in OFFERED if file and name in file.named_rubrics and name not in names]
    rubrics += map(offered_rubric, taken)
    names += taken
    baselines = read_baselines(tree, wrong)
    gate = Gate(
        file or GateFile(schema=1, rubrics=tuple(names)),
        tuple(filter(None, rubrics)),
        origin,
        revision,
        (
            *((path, source.digest) for path, source in sources.items()),
            *(
                (f"built-in/rubrics/{name}.toml", digest_of(_offered(name).read_bytes()))
                for name in taken
            ),
            *baselines,
        ),
        suppressions.suppression if suppressions else (),
        baselines=tuple(baselines.values()),
    )
    refused: list[Mistake] = []
    if any(tree.list(folder) for folder in WORKFLOW_FOLDERS):
        from vibe_gate.gate.workflows import with_workflows  # most repositories have none

        known = names if is_whole else [rubric.id for rubric in built_in_rubrics()]
        gate, refused = with_workflows(gate, tree, sources, known, found)
    wrong += chain.from_iterable(_cut(path, own) for path, own in sorted(found.items()))
    return _Read(gate, is_whole, wrong, refused)


def _cut(path: str, own: list[Mistake]) -> Iterator[Mistake]:
    """The mistakes of one file by line, the first of a flood."""
    shown = sorted(own[:MISTAKES_SHOWN], key=lambda mistake: mistake.line)
    yield from shown
    if len(own) > MISTAKES_SHOWN:
        yield Mistake(paths.quote(path), shown[-1].line, "", "and more mistakes like these")


# Which files are definitions


def _is_definition(path: str) -> bool:
    """Whether it is a TOML file that is read; what workflows name, and those in Python, come on
    top.
    """
    folder, slash, name = path.rpartition("/")
    return path in (GATE_PATH, SUPPRESSIONS) or (
        folder + slash in (AGENTS, RUBRICS, WORKFLOWS) and name.endswith(".toml")
    )


def _linked(tree: DefinitionTree) -> Iterator[Mistake]:
    """A mistake for every link where a definition could stand: it must not silently count as
    none.
    """
    what = "symbolic links (and submodules) are not followed"
    for path in tree.links(
        FOLDER, without=CASES
    ):  # where a link may be content, and files are many
        place = f"{path}/".startswith((AGENTS, RUBRICS, WORKFLOWS, f"{BASELINES}/"))
        if place or path in (FOLDER, GATE_PATH, CASES) or path.endswith(".toml"):
            yield Mistake(paths.quote(path), 1, "", what, "put the file itself here")


def _misplaced(tree: DefinitionTree) -> Iterator[Mistake]:
    """A mistake for every TOML file that nothing would ever read."""
    advice = f"the gate is {GATE_PATH}; rubrics/, agents/ and workflows/ hold ID.toml"
    for path in tree.list(FOLDER, without=CASES):
        if (
            path.lower().endswith(".toml")
            and not _is_definition(path)
            and path.split("/")[1] not in OTHER_FOLDERS
        ):
            yield Mistake(paths.quote(path), 1, "", "no definition is read from here", advice)


# What they say


def _gate_file(source: Source, rubrics: Sequence[str], found: list[Mistake]) -> GateFile | None:
    """gate.toml; what does not fit the rubric files of these names is a mistake, too."""
    file = validated(GateFile, source.tables, (), source, found)
    seen = set()
    for location, name in source.values("rubrics", None) + source.values(
        "scope", None, "rubrics", None
    ):
        if not is_identifier(name) or len(found) > MISTAKES_SHOWN:
            continue
        if (location[:-1], name) in seen:
            found.append(source.mistake(location, f"{quoted(name)} is named twice"))
        elif name not in rubrics:
            found.append(source.mistake(location, missing("rubric", name, rubrics)))
        seen.add((location[:-1], name))
    return file


def _rubric(source: Source, found: list[Mistake]) -> Rubric | None:
    """The rubric; what does not fit its file's name, or the checks that there are, is a mistake,
    too.
    """
    rubric = validated(Rubric, source.tables, (), source, found)
    check_id(source, found)
    check_unique(source, "criterion", found)
    for location, criterion in source.values("criterion", None):
        if not isinstance(criterion, dict) or len(found) > MISTAKES_SHOWN:
            continue
        if rubric is None:
            _contradiction(criterion, location, source, found)
        if criterion.get("kind") == "check":
            _check_mistakes(criterion, location, source, found)
    return rubric


def _contradiction(
    criterion: dict[str, Any], location: Location, source: Source, found: list[Mistake]
) -> None:
    """Add what is wrong with a criterion as a whole, which is not said while one of its keys is
    wrong.
    """
    if (
        criterion.get("kind") not in ("judge", "check")
        or not criterion.keys() <= keys_of(Criterion).keys()
    ):
        return  # what was meant is not known
    try:
        Criterion(**{"id": ""} | criterion)
    except ValueError as error:
        mistake = source.mistake(location, str(error))
        found += [mistake] if mistake not in found else []
    except (TypeError, AttributeError):
        return  # a key whose type is wrong


def _check_mistakes(
    criterion: dict[str, Any], location: Location, source: Source, found: list[Mistake]
) -> None:
    name = criterion.get("check", "command" if "command" in criterion else None)
    options = criterion.get("options", {})
    if criterion.get("check") == "command":
        found.append(
            source.mistake((*location, "check"), 'write command = ["program", "argument"] instead')
        )
    elif isinstance(name, str) and name not in CHECKS:
        what = f"no check {quoted(name)}\n{suggestion(name, list(CHECKS), 'the checks')}"
        found.append(source.mistake((*location, "check"), what))
    elif isinstance(name, str) and isinstance(options, dict):
        validated(CHECKS[name].options, options, (*location, "options"), source, found)
