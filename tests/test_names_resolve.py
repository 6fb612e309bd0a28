"""What tests name of the package is there: no type checker reads them, and a test that imports
late would fail only where it runs.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from syntax import nodes_of

TESTS = Path(__file__).parent
FILES = sorted(path for path in TESTS.rglob("*.py") if "gates" not in path.parts)


@cache
def read_name(module_name: str, name: str) -> object:
    """What the module has of this name, a module below it, too; None if there is nothing."""
    module = importlib.import_module(module_name)
    if hasattr(module, name):
        return getattr(module, name) or True
    try:
        return importlib.import_module(f"{module_name}.{name}")
    except ModuleNotFoundError:
        return None


def unresolved_names(source: str) -> Iterator[str]:
    """What a test imports of the package, or reads of a module of it, and is not there."""
    modules: dict[str, ModuleType] = {}
    bound_names = set()
    attributes = []
    for node in nodes_of(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("vibe_gate."):
            for alias in node.names:
                value = read_name(str(node.module), alias.name)
                if value is None:
                    yield f"{node.module}.{alias.name}"
                elif isinstance(value, ModuleType):
                    modules[alias.asname or alias.name] = value
        elif isinstance(node, ast.arg):
            bound_names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound_names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.append((node.value.id, node.attr))
    for name, attribute in attributes:
        if name in modules and name not in bound_names and not hasattr(modules[name], attribute):
            yield f"{modules[name].__name__}.{attribute}"


@pytest.mark.slow
def test_what_tests_name_of_the_package_is_there():
    missing = {}
    for path in FILES:
        names = list(unresolved_names(path.read_text()))
        if names:
            missing[str(path.relative_to(TESTS))] = names
    assert missing == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from vibe_gate.domain import paths\npaths.quote", []),
        ("from vibe_gate.domain import paths\npaths.quotes", ["vibe_gate.domain.paths.quotes"]),
        ("from vibe_gate.errors import Oops", ["vibe_gate.errors.Oops"]),
        ("from vibe_gate.domain import paths\ndef f(paths): paths.quotes", []),
    ],
)
def test_a_name_that_is_not_there_is_found(source, names):
    assert list(unresolved_names(source)) == names
