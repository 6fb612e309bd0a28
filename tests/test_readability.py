"""How code reads: plain expressions, names that say what a value is, each name in one place.

`readability_rules.toml` holds the names that are refused, and the exceptions with their reasons.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from syntax import nodes_of

PACKAGE = Path(__file__).resolve().parents[1] / "vibe_gate"
RULES_FILE = Path(__file__).with_name("readability_rules.toml")
SETTINGS = tomllib.loads(RULES_FILE.read_text())
VAGUE_NAMES = frozenset(" ".join(SETTINGS["vague_names"]).split())
RULES = {
    "comprehension": "a comprehension has one `for` and at most one `if`; write a loop",
    "nested-conditional": "a conditional expression stands inside another; write `if`",
    "vague-name": "a local, a parameter or a function has a name that says nothing",
    "function-name-twice": "several modules have a public function of that name",
    "file-name-twice": "several files have that name",
}

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Offence(NamedTuple):
    """One place that breaks a rule."""

    rule: str
    path: str
    line: int
    name: str = ""
    """The name that is vague or stands twice; "" of an expression."""

    def __str__(self) -> str:
        return f"vibe_gate/{self.path}:{self.line}: {self.rule} {self.name}".rstrip()


def dense_expressions(path: str, nodes: list[ast.AST]) -> Iterator[Offence]:
    """Comprehensions that should be loops, and conditional expressions inside others."""
    for node in nodes:
        if isinstance(node, COMPREHENSIONS):
            conditions = sum(len(generator.ifs) for generator in node.generators)
            if len(node.generators) > 1 or conditions > 1:
                yield Offence("comprehension", path, node.lineno)
        elif isinstance(node, ast.IfExp):
            conditionals = sum(isinstance(child, ast.IfExp) for child in ast.walk(node))
            if conditionals > 1:
                yield Offence("nested-conditional", path, node.lineno)


def field_names(nodes: list[ast.AST]) -> set[ast.expr]:
    """The names that stand in the bodies of classes: documents keep theirs."""
    targets = set()
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            statements = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            targets.update(statement.target for statement in statements)
    return targets


def bound_name(node: ast.AST) -> str:
    """The name of the local, the parameter or the function that a node makes, else ""."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, (*FUNCTIONS, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return node.name or ""
    return ""


def vague_names(path: str, nodes: list[ast.AST]) -> Iterator[Offence]:
    """Locals, parameters and functions whose name is a participle, a pronoun and the like."""
    fields = field_names(nodes)
    for node in nodes:
        name = bound_name(node)
        if name.strip("_") in VAGUE_NAMES and node not in fields:
            yield Offence("vague-name", path, node.lineno, name)


def public_names(path: str, tree: ast.Module) -> Iterator[Offence]:
    """What offends if another module has it, too: public functions at the top of the module, and
    its file's name. A command of the terminal is called as users type it.
    """
    for node in tree.body:
        if isinstance(node, FUNCTIONS) and not node.name.startswith("_"):
            yield Offence("function-name-twice", path, node.lineno, node.name)
    name = Path(path).name
    if name != "__init__.py" and not path.startswith("faces/cli/"):
        yield Offence("file-name-twice", path, 1, name)


def repeated_names(names: list[Offence]) -> Iterator[Offence]:
    """The names that several modules have."""
    offences = defaultdict(list)
    for offence in names:
        offences[offence.rule, offence.name].append(offence)
    for namesakes in offences.values():
        if len({offence.path for offence in namesakes}) > 1:
            yield from namesakes


def offences_of(modules: Iterable[tuple[str, ast.Module]]) -> list[Offence]:
    """Every offence of these modules, each with its path in the package."""
    offences: list[Offence] = []
    names: list[Offence] = []
    for path, tree in modules:
        nodes = nodes_of(tree)
        offences += dense_expressions(path, nodes)
        offences += vague_names(path, nodes)
        names += public_names(path, tree)
    return [*repeated_names(names), *offences]


def read_modules() -> Iterator[tuple[str, ast.Module]]:
    """The modules of the package one after the other: all at once would be half a million nodes,
    which the garbage collector looks through again and again.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        if "demo_data" not in path.parts:
            yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text())


@cache
def package_offences() -> list[Offence]:
    """Every offence of the package, the exceptions, too."""
    return offences_of(read_modules())


def refused_offences() -> list[Offence]:
    """The package's offences but for the exceptions."""
    exceptions = {(exception["rule"], exception["name"]) for exception in SETTINGS["exceptions"]}
    return [
        offence for offence in package_offences() if (offence.rule, offence.name) not in exceptions
    ]


def test_no_line_breaks_a_rule_of_reading():
    places = [f"{offence}: {RULES[offence.rule]}" for offence in refused_offences()]
    assert places == []


def test_an_exception_has_a_reason_and_is_needed():
    offences = {(offence.rule, offence.name) for offence in package_offences()}
    for exception in SETTINGS["exceptions"]:
        assert exception["reason"]
        assert (exception["rule"], exception["name"]) in offences


@pytest.mark.parametrize("room", SETTINGS["test_rooms"])
def test_a_name_in_a_test_says_what_it_names(room):
    folder = RULES_FILE.parent / room
    places = []
    for path in sorted(folder.glob("*.py") if room == "." else folder.rglob("*.py")):
        for offence in vague_names(path.name, nodes_of(ast.parse(path.read_text()))):
            places.append(f"tests/{room}/{offence.path}:{offence.line}: {offence.name}")
    assert places == []


OFFENDING = {
    "comprehension": "pairs = [row for table in tables for row in table]",
    "nested-conditional": "size = 1 if small else 2 if large else 3",
    "vague-name": "def parse(told): ...",
    "function-name-twice": "def render(): ...",
    "file-name-twice": "",
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_finds_what_it_refuses(rule):
    module = ast.parse(OFFENDING[rule])
    offences = offences_of([("git/changes.py", module), ("run/changes.py", module)])
    places = [(offence.path, offence.rule) for offence in offences if offence.rule == rule]
    assert places == [("git/changes.py", rule), ("run/changes.py", rule)]


@pytest.mark.parametrize(
    "source",
    [
        "paths = [change.path for change in changes if change.is_text]",
        "size = 1 if small else 2",
        "class Vote:\n    why: str",
        "def _render(): ...",
    ],
)
def test_what_reads_well_is_no_offence(source):
    module = ast.parse(source)
    assert offences_of([("git/changes.py", module), ("faces/cli/changes.py", module)]) == []
