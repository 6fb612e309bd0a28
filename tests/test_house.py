"""The house itself: its public surface, its documents and its floors."""

from __future__ import annotations

import ast
import functools
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from syntax import nodes_of

import vibe_gate
from vibe_gate import errors

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    path for path in (ROOT / "vibe_gate").rglob("*.py") if "demo_data" not in path.parts
)
NAMES = """
    review review_sync Review run_workflow WorkflowRun AgentExecution Summary __version__
    find_bundles clean_bundles read_bundle RunResult
    FileChange Attachment Agent Rubric Criterion Workflow WorkflowContext
    run_agent judge workflow expect GateError ApprovalNeeded UsageError DefinitionError
    RevisionError UnsupportedRepository InfrastructureError AgentError AgentFailed GatewayError StorageError
    ForgeError IntegrityError Vibe VibeRepo"""
PUBLIC = set(NAMES.split())


def test_the_public_names_are_these_and_each_loads():
    assert set(vibe_gate.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(vibe_gate, name) is not None
    assert set(dir(vibe_gate)) == PUBLIC
    everything: dict[str, object] = {}
    exec("from vibe_gate import *", everything)
    assert everything.keys() >= PUBLIC


def test_every_error_is_public():
    tree = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert tree <= PUBLIC


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'reviwe'"):
        vibe_gate.reviwe  # noqa: B018


DOORS = ("agent", "forge", "gateway", "git", "sandbox", "secrets", "sessions")


@pytest.mark.parametrize("room", DOORS)
def test_a_door_has_at_most_fifteen_names_and_each_loads(room):
    door = importlib.import_module(f"vibe_gate.{room}")
    __import__(
        door.__name__, fromlist=door.__all__
    )  # as `from vibe_gate.store import captures` does, a module of it
    assert len(door.__all__) <= 15
    assert all(getattr(door, name) is not None for name in door.__all__)


class CallSite(NamedTuple):
    """A call: its line, the name that is called, and the names of its keywords."""

    line: int
    function: str
    is_attribute: bool
    """Whether it is called by a dot behind something else."""
    keywords: list[str | None]


class ParsedModule(NamedTuple):
    """What the tests below look at in a module of the package."""

    name: str
    docstring: str | None
    classes: list[str]
    calls: list[CallSite]


def call_site(node: ast.Call) -> CallSite:
    """What a call says of itself: its tree would be looked through for garbage."""
    function = node.func
    name = getattr(function, "id", getattr(function, "attr", ""))
    keywords = [keyword.arg for keyword in node.keywords]
    return CallSite(node.lineno, name, not isinstance(function, ast.Name), keywords)


@functools.cache
def parsed_modules() -> list[ParsedModule]:
    """The modules of the package; walked once, since that takes a second."""
    modules = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        nodes = nodes_of(tree)
        classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
        calls = [call_site(node) for node in nodes if isinstance(node, ast.Call)]
        name = str(path.relative_to(ROOT / "vibe_gate"))
        modules.append(ParsedModule(name, ast.get_docstring(tree), classes, calls))
    return modules


def test_a_module_has_a_docstring_and_no_import_by_string():
    """Types and floors do not see what `import_module` and `__import__` load."""
    for module in parsed_modules():
        assert module.docstring, module.name
        names = {call.function for call in module.calls}
        assert not names & {"import_module", "__import__"}, module.name


def test_no_class_name_stands_twice():
    classes: Counter[str] = Counter()
    for module in parsed_modules():
        classes.update(name.lstrip("_") for name in module.classes)
    assert [name for name, count in classes.items() if count > 1] == []


VERDICTS = {
    "RubricResult": ("judging",),
    "RunVerdict": ("judging",),
    "PostedVerdict": ("judging",),
    "CriterionResult": ("judging", "checks"),
    "Summary": ("run/run_documents.py",),
}
"""What says how something came out -> where alone it is made; a document that is read is none of
these calls.
"""

COPIES = {
    "outcome": (
        "judging",
        "checks",
        "run/run_documents.py",
        "run/stage_graph.py",
        "run/schedule.py",
        "report/node_outcomes.py",
        "store/bundle_listing.py",
    ),
    "exit_code": ("judging", "run/run_documents.py", "store/bundle_listing.py"),
}
"""A field -> where alone a copy gets another value of it: judging's verdicts and the summaries that
are made of them; the stages of a workflow (run/stage_graph.py, run/schedule.py); the words of nodes in a
drawing and of runs in a list, as their summaries say.
"""


def test_only_judging_makes_outcomes_and_exit_codes():
    """Nobody else builds an outcome from others, or takes a finished summary apart."""
    wrong = []
    for module in parsed_modules():
        name = module.name
        for call in module.calls:
            if call.is_attribute:
                continue
            fields = call.keywords if call.function == "replace" else []
            places = [VERDICTS[call.function]] if call.function in VERDICTS else []
            places += [COPIES[field] for field in fields if field in COPIES]
            wrong += [f"{name}:{call.line}" for allowed in places if not name.startswith(allowed)]
    assert wrong == []


def test_nothing_that_tests_put_on_the_path_hides_a_module_of_pythons():
    """`bench` and the folders of tests come first on `sys.path`: a `secrets.py` there is what
    `import secrets` gets.
    """
    files = [*(ROOT / "bench").glob("*.py"), *(ROOT / "tests").rglob("*.py")]
    assert [path for path in files if path.stem in sys.stdlib_module_names] == []


def test_the_map_shows_the_tree():
    """docs/explanation/architecture.md draws each room and each module at the top of the package,
    and nothing else.
    """
    page = ROOT / "docs" / "explanation" / "architecture.md"
    drawing = page.read_text().split("```text\nvibe_gate/\n", 1)[1].split("```", 1)[0]
    names = set(re.findall(r"^  (\w+(?:/|\.py))", drawing, re.MULTILINE))
    present = {path.name + "/" * path.is_dir() for path in (ROOT / "vibe_gate").iterdir()}
    assert names == present - {"py.typed", "__pycache__/"}


def test_what_the_map_names_is_there():
    """Each `room/file.py` of docs/explanation/architecture.md, and each function or class named
    behind it.
    """
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    wrong = []
    for file, behind in re.findall(r"`((?:\w+/)+\w+\.py|errors\.py)`(?: \(([^)]*)\))?", page):
        path = (
            ROOT / file
            if file.startswith(("docs/", "tests/", "vibe_gate/"))
            else ROOT / "vibe_gate" / file
        )
        text = path.read_text() if path.is_file() else ""
        names = re.findall(r"`([A-Za-z_]+)`", behind)
        wrong += [file] if not text else []
        wrong += [
            f"{file}: {name}" for name in names if not re.search(rf"\b(?:def|class) {name}\b", text)
        ]
    assert wrong == []


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def test_every_contract_about_imports_holds():
    pytest.importorskip("importlinter", reason="import-linter is not installed here")
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


WRONG = {
    "domain/paths.py": "from vibe_gate.git import open_repository",
    "errors.py": "from vibe_gate.domain import paths",
    "git/__init__.py": "from vibe_gate.store.store import Store",
    "checks/__init__.py": "from vibe_gate.faces import cli",
    "gate/__init__.py": "from vibe_gate.checks import run",
    "judging/__init__.py": "from vibe_gate.agent import turn_runner",
    "run/review.py": "from vibe_gate.store import folder",
    "report/__init__.py": "import pygit2, claude_agent_sdk, github3, sqlite3, tomllib, tomli_w, requests",
    "gateway/__init__.py": "import rich",
    "receipts/find_receipts.py": "from vibe_gate.receipts import verify_range",
}
"""A wrong import in each kind of place, and below what each breaks."""

BROKEN = (
    "Floors",
    *(
        "Only git imports pygit2",
        "Only the agent room imports claude_agent_sdk",
        "Only the forge imports github3",
    ),
    *("imports? sqlite3", "imports? tomli_w", "imports? tomllib"),
    *(
        "imports? requests",
        "imports? rich",
        "past the door of agent",
        "past the doors of store",
        "No import cycle",
    ),
)


@pytest.mark.slow
def test_a_wrong_import_is_refused_in_each_kind_of_place(tmp_path):
    pytest.importorskip("importlinter", reason="import-linter is not installed here")
    shutil.copytree(
        ROOT / "vibe_gate", tmp_path / "vibe_gate", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for place, line in WRONG.items():
        file = tmp_path / "vibe_gate" / place
        file.write_text(f"{file.read_text()}\n{line}\n")
    output = lint(tmp_path).stdout
    assert [name for name in BROKEN if not re.search(rf"{name}.* BROKEN", output)] == []
    assert "No cycles are allowed in vibe_gate.receipts." in output


def test_no_test_replaces_our_own_code():
    forbidden = ("mock" + ".patch", "Magic" + "Mock", "unittest" + ".mock")
    assert [
        p.name
        for p in (ROOT / "tests").rglob("*.py")
        if any(word in p.read_text() for word in forbidden)
    ] == []
