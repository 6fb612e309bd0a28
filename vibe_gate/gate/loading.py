"""From a tree to the gate in force, or to every mistake at once."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
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
from vibe_gate.domain.gate import Gate, GateFile, Origin, Suppression, SuppressionsFile
from vibe_gate.domain.rubric import WRITE_SCHEMA, Criterion, Rubric
from vibe_gate.domain.tables import (
    MISTAKES_SHOWN,
    Location,
    WrongKey,
    keys_of,
    quoted,
    read_table,
    suggestion,
)
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
    no_definition,
    read_model,
    read_toml,
    stem,
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
        if not file.is_file() or file.resolve() != file:
            return None
        return file.read_bytes()

    def links(self, prefix: str, *, without: str = "") -> list[str]:
        """The links at the prefix and below it."""
        all_paths = self._paths_below(prefix, without)
        return [path for path in all_paths if (self._root / path).is_symlink()]

    def list(self, prefix: str, *, without: str = "") -> list[str]:
        """The paths of the regular files below the folder."""
        all_paths = self._paths_below(prefix, without)
        return [path for path in all_paths if self.read(path) is not None]

    def _paths_below(self, prefix: str, without: str) -> Sequence[str]:
        """The paths of everything below the folder, but for the contents of `without`."""
        top = self._root / prefix
        excluded_folder = self._root / without if without else None
        all_paths: list[Path] = []
        if top.is_symlink():
            all_paths.append(top)
        for folder, folders, files in os.walk(top):
            all_paths += [Path(folder, name) for name in (*folders, *files)]
            folders[:] = [name for name in folders if Path(folder, name) != excluded_folder]
        return sorted(path.relative_to(self._root).as_posix() for path in all_paths)


def load_gate(tree: DefinitionTree, *, revision: str, origin: Origin) -> Gate | None:
    """The gate that the tree's `.vibe-gate/` defines; None if it has neither gate.toml nor rubrics.

    Without gate.toml every rubric applies to every change. Raises DefinitionError
    with every mistake of every file.
    """
    definitions = _read_definitions(tree, revision, origin)
    if definitions.mistakes:
        raise DefinitionError(definitions.mistakes)
    return definitions.gate if definitions.is_gate else None


def find_mistakes(tree: DefinitionTree) -> list[Mistake]:
    """Every mistake in the tree's definitions and labelled cases, file by file; [] when all is
    right.

    Those of agents in `.claude/agents` that no workflow names are among them, though load_gate lets
    them be.
    """
    definitions = _read_definitions(tree, "", "trusted")
    mistakes = definitions.mistakes + definitions.refused
    if tree.list(CASES):
        rubrics = definitions.gate.rubrics if definitions.is_gate else built_in_rubrics()
        _, case_mistakes = read_cases(tree, rubrics)
        mistakes += case_mistakes
    return mistakes


def definition_files(tree: DefinitionTree) -> list[Source]:
    """The definition files that can be read as TOML, right or not."""
    return [source for source in _read_files(tree).values() if isinstance(source, Source)]


def _read_files(tree: DefinitionTree) -> dict[str, Source | Mistake]:
    """By path, the tables of each definition file in TOML, or why there are none."""
    files = {}
    for path in tree.list(FOLDER, without=CASES):
        if _is_definition(path):
            files[path] = read_toml(path, tree.read(path) or b"")
    return files


def built_in_gate(tree: DefinitionTree) -> Gate:
    """The gate for a repository without one: offline checks and a small general rubric; agents and
    workflows as in its tree. Raises DefinitionError for mistakes there.
    """
    definitions = _read_definitions(tree, "", "built-in")
    if definitions.mistakes:
        raise DefinitionError(definitions.mistakes)
    gate = definitions.gate
    digests = []
    for path in sorted(BUILT_IN.rglob("*.toml")):
        name = path.relative_to(BUILT_IN).as_posix()
        digests.append((f"built-in/{name}", digest_of(path.read_bytes())))
    return replace(
        gate,
        file=read(GateFile, tomllib.loads((BUILT_IN / "gate.toml").read_text(encoding="utf-8"))),
        rubrics=built_in_rubrics(),
        digests=(*digests, *gate.digests),
    )


@cache
def built_in_rubrics() -> tuple[Rubric, ...]:
    """Those of the built-in gate, whose digests have weights as fractions."""
    rubrics = []
    for path in sorted(BUILT_IN.glob("rubrics/*.toml")):
        rubric = read(Rubric, tomllib.loads(path.read_text()))
        criteria = [
            replace(criterion, weight=float(criterion.weight)) for criterion in rubric.criterion
        ]
        rubrics.append(replace(rubric, criterion=tuple(criteria)))
    return tuple(rubrics)


OFFERED = ("asked", "said")
"""Built-in rubrics that a gate takes if its gate.toml names them; its own file of that name goes
first.
"""


@cache
def offered_rubric(name: str) -> Rubric:
    """The rubric of OFFERED."""
    return read(Rubric, tomllib.loads(_offered_path(name).read_text()))


def _offered_path(name: str) -> Path:
    return Path(__file__).with_name("offered") / f"{name}.toml"


class _Definitions(Struct, frozen=True):
    """What a tree defines."""

    gate: Gate

    is_gate: bool
    """Whether the tree has a gate.toml or rubrics."""

    mistakes: list[Mistake]

    refused: list[Mistake]
    """Those in what no workflow needs to be right."""


class _DefinitionFiles(Struct, frozen=True):
    """What the TOML files of a tree define, each by itself."""

    gate_file: GateFile | None = None

    rubrics: tuple[Rubric, ...] = ()

    suppressions: tuple[Suppression, ...] = ()


def _read_definitions(tree: DefinitionTree, revision: str, origin: Origin) -> _Definitions:
    """What the tree defines, with the mistakes of every file."""
    mistakes = list(islice(chain(_linked(tree), _misplaced(tree)), MISTAKES_SHOWN))
    files = _read_files(tree)
    rubric_names = [stem(path) for path in files if path.startswith(RUBRICS)]
    is_gate = GATE_PATH in files or bool(rubric_names)
    mistakes_by_path: dict[str, list[Mistake]] = {}
    sources = {}
    for path, file in files.items():
        mistakes_by_path[path] = [file] if isinstance(file, Mistake) else []
        if isinstance(file, Source):
            sources[path] = file
    definitions = _read_sources(sources, rubric_names, mistakes_by_path)
    gate_file = definitions.gate_file
    offered_names = _named_offers(gate_file, rubric_names)
    rubric_names += offered_names
    baselines = read_baselines(tree, mistakes)
    digests = [(path, source.digest) for path, source in sources.items()]
    for name in offered_names:
        digest = digest_of(_offered_path(name).read_bytes())
        digests.append((f"built-in/rubrics/{name}.toml", digest))
    gate = Gate(
        file=gate_file or GateFile(schema=1, rubrics=tuple(rubric_names)),
        rubrics=(*definitions.rubrics, *map(offered_rubric, offered_names)),
        origin=origin,
        revision=revision,
        digests=(*digests, *baselines),
        suppressions=definitions.suppressions,
        baselines=tuple(baselines.values()),
    )
    refused: list[Mistake] = []
    if any(tree.list(folder) for folder in WORKFLOW_FOLDERS):
        from vibe_gate.gate.workflows import with_workflows  # most repositories have none

        known_rubrics = rubric_names
        if not is_gate:
            known_rubrics = [rubric.id for rubric in built_in_rubrics()]
        gate, refused = with_workflows(gate, tree, sources, known_rubrics, mistakes_by_path)
    for path, file_mistakes in sorted(mistakes_by_path.items()):
        mistakes += _first_mistakes(path, file_mistakes)
    return _Definitions(gate, is_gate, mistakes, refused)


def _named_offers(gate_file: GateFile | None, rubric_names: Sequence[str]) -> list[str]:
    """The rubrics of OFFERED that gate.toml names, and that the tree does not define itself."""
    if gate_file is None:
        return []
    absent_names = gate_file.named_rubrics.difference(rubric_names)
    return [name for name in OFFERED if name in absent_names]


def _read_sources(
    sources: Mapping[str, Source],
    rubric_names: Sequence[str],
    mistakes_by_path: Mapping[str, list[Mistake]],
) -> _DefinitionFiles:
    """What gate.toml, the rubrics and the suppressions say; mistakes go to `mistakes_by_path`."""
    gate_file: GateFile | None = None
    rubrics = []
    suppressions: tuple[Suppression, ...] = ()
    for path, source in sources.items():
        mistakes = mistakes_by_path[path]
        if path == GATE_PATH:
            gate_file = _read_gate_file(source, [*rubric_names, *OFFERED], mistakes)
        elif path == SUPPRESSIONS:
            file = read_model(SuppressionsFile, source.tables, (), source, mistakes)
            if file is not None:
                suppressions = file.suppression
        elif path.startswith(RUBRICS):
            rubric = _read_rubric(source, mistakes)
            if rubric is not None:
                rubrics.append(rubric)
    return _DefinitionFiles(gate_file, tuple(rubrics), suppressions)


def _first_mistakes(path: str, mistakes: list[Mistake]) -> list[Mistake]:
    """The mistakes of one file by line, the first of a flood."""
    first_mistakes = sorted(mistakes[:MISTAKES_SHOWN], key=lambda mistake: mistake.line)
    if len(mistakes) > MISTAKES_SHOWN:
        last_line = first_mistakes[-1].line
        ellipsis = Mistake(paths.quote(path), last_line, "", "and more mistakes like these")
        first_mistakes.append(ellipsis)
    return first_mistakes


# Which files are definitions


def _is_definition(path: str) -> bool:
    """Whether it is a TOML file that is read; what workflows name, and those in Python, come on
    top.
    """
    if path in (GATE_PATH, SUPPRESSIONS):
        return True
    folder, slash, name = path.rpartition("/")
    return folder + slash in (AGENTS, RUBRICS, WORKFLOWS) and name.endswith(".toml")


def _linked(tree: DefinitionTree) -> Iterator[Mistake]:
    """A mistake for every link where a definition could stand: it must not silently count as
    none.
    """
    message = "symbolic links (and submodules) are not followed"
    # In cases a link may be content, and files are many.
    for path in tree.links(FOLDER, without=CASES):
        is_inside = f"{path}/".startswith((AGENTS, RUBRICS, WORKFLOWS, f"{BASELINES}/"))
        is_definition = path in (FOLDER, GATE_PATH, CASES) or path.endswith(".toml")
        if is_inside or is_definition:
            yield Mistake(paths.quote(path), 1, "", message, "put the file itself here")


def _misplaced(tree: DefinitionTree) -> Iterator[Mistake]:
    """A mistake for every TOML file that nothing would ever read."""
    advice = f"the gate is {GATE_PATH}; rubrics/, agents/ and workflows/ hold ID.toml"
    for path in tree.list(FOLDER, without=CASES):
        if not path.lower().endswith(".toml") or _is_definition(path):
            continue
        if path.split("/")[1] not in OTHER_FOLDERS:
            yield Mistake(paths.quote(path), 1, "", "no definition is read from here", advice)


# What they say


def _read_gate_file(
    source: Source, rubrics: Sequence[str], mistakes: list[Mistake]
) -> GateFile | None:
    """gate.toml; what does not fit the rubric files of these names is a mistake, too."""
    file = read_model(GateFile, source.tables, (), source, mistakes)
    named_rubrics = source.values("rubrics", None)
    named_rubrics += source.values("scope", None, "rubrics", None)
    earlier_names = set()
    for location, name in named_rubrics:
        if not is_identifier(name) or len(mistakes) > MISTAKES_SHOWN:
            continue
        if (location[:-1], name) in earlier_names:
            mistakes.append(source.mistake(location, f"{quoted(name)} is named twice"))
        elif name not in rubrics:
            mistakes.append(source.mistake(location, no_definition("rubric", name, rubrics)))
        earlier_names.add((location[:-1], name))
    return file


def _read_rubric(source: Source, mistakes: list[Mistake]) -> Rubric | None:
    """The rubric; what does not fit its file's name, or the checks that there are, is a mistake,
    too.
    """
    if "schema" not in source.tables:
        mistakes.append(source.mistake(("schema",), WRITE_SCHEMA))
    rubric = read_model(Rubric, source.tables, (), source, mistakes)
    check_id(source, mistakes)
    check_unique(source, "criterion", mistakes)
    for location, criterion in source.values("criterion", None):
        if not isinstance(criterion, dict) or len(mistakes) > MISTAKES_SHOWN:
            continue
        if rubric is None:
            _add_contradiction(criterion, location, source, mistakes)
        if criterion.get("kind") == "check":
            _add_check_mistakes(criterion, location, source, mistakes)
    return rubric


def _add_contradiction(
    criterion: dict[str, Any], location: Location, source: Source, mistakes: list[Mistake]
) -> None:
    """Add what is wrong with a criterion as a whole: its keys that are right by themselves
    contradict each other.
    """
    if criterion.get("kind") not in ("judge", "check"):
        return  # what was meant is not known
    if not criterion.keys() <= keys_of(Criterion).keys():
        return
    wrong_keys: list[WrongKey] = []
    read_table(Criterion, criterion | {"id": "any"}, wrong_keys)
    wrong_names = {wrong_key.location[0] for wrong_key in wrong_keys if wrong_key.location}
    if not wrong_names.isdisjoint(("question", "check", "command", "options")):
        return  # without one of these it would seem to lack something
    right_keys = {name: value for name, value in criterion.items() if name not in wrong_names}
    contradictions: list[WrongKey] = []
    read_table(Criterion, right_keys | {"id": "any"}, contradictions)
    for contradiction in contradictions:
        mistake = source.mistake(location, contradiction.what)
        if mistake not in mistakes:
            mistakes.append(mistake)


def _add_check_mistakes(
    criterion: dict[str, Any], location: Location, source: Source, mistakes: list[Mistake]
) -> None:
    """Add what is wrong with the check that a criterion names, and with its options."""
    default_name = "command" if "command" in criterion else None
    name = criterion.get("check", default_name)
    options = criterion.get("options", {})
    if criterion.get("check") == "command":
        problem = 'write command = ["program", "argument"] instead'
        mistakes.append(source.mistake((*location, "check"), problem))
    elif isinstance(name, str) and name not in CHECKS:
        advice = suggestion(name, list(CHECKS), "the checks")
        problem = f"no check {quoted(name)}\n{advice}"
        mistakes.append(source.mistake((*location, "check"), problem))
    elif isinstance(name, str) and isinstance(options, dict):
        options_location = (*location, "options")
        read_model(CHECKS[name].options, options, options_location, source, mistakes)
