"""`vibe-gate config show|check`: the gate that a place defines, or every mistake in it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_gate.domain import paths
from vibe_gate.domain.gate import Gate
from vibe_gate.errors import PASS, DefinitionError
from vibe_gate.faces.cli.output import complain, emit
from vibe_gate.gate.effective import effective_toml
from vibe_gate.gate.loading import Tree, built_in_gate, load_gate, mistakes
from vibe_gate.gate.mistakes import GATE_PATH
from vibe_gate.git import open_repository

if TYPE_CHECKING:
    from vibe_gate.git import Repository

SUMMARY = "Show the gate that .vibe-gate/ defines, defaults filled in, or check it for mistakes."

EXAMPLES = """\
examples:
  vibe-gate config check                         the working tree: every mistake at once, exit 2
  vibe-gate config show                          the whole effective gate, as TOML
  vibe-gate config show --definitions main       as it stands on main
"""

WORKTREE = "worktree"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `config` takes."""
    parser.add_argument("action", choices=("show", "check"), help="show: print it as TOML; check: look for mistakes")
    parser.add_argument(
        "--definitions",
        metavar="REV|worktree",
        default=WORKTREE,
        help="where to read .vibe-gate/: a revision, or the working tree (default: worktree)",
    )


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Do it; DefinitionError with every mistake where there is one."""
    with open_repository(Path.cwd(), environ) as repository:
        tree, revision = _place(repository, args.definitions)
        found = mistakes(tree)
        if revision == WORKTREE:
            found += _unread(repository.root, tree)
        if found:
            raise DefinitionError(found)
        gate = load_gate(tree, revision=revision, origin="trusted")
    if args.action == "show":
        emit(effective_toml(gate or built_in_gate()))
    else:
        emit(_sentence(gate, _shown_place(revision)))
    if gate is None and args.action == "show":
        complain(
            f"No definitions {_shown_place(revision)}: this is the built-in gate. `vibe-gate init` begins your own."
        )
    for rubric in _unused(gate):
        complain(f"note: no change is held against rubric {rubric!r} yet; name it in {GATE_PATH}.")
    return PASS


def _place(repository: Repository, definitions: str) -> tuple[Tree, str]:
    if definitions == WORKTREE:
        return repository.tree(repository.snapshot()), WORKTREE
    revision = repository.resolve(definitions)
    return repository.tree(revision), revision


def _shown_place(revision: str) -> str:
    return "in the working tree" if revision == WORKTREE else f"at {paths.quote(revision)[:12]}"


def _unread(root: Path, tree: Tree) -> list[str]:
    """A gate.toml that lies on disk but is no part of a snapshot would be missed without a word."""
    if os.path.lexists(root / GATE_PATH) and tree.read(GATE_PATH) is None:
        return [f"{GATE_PATH}: git does not record it as a file: it is ignored, or a symbolic link; mend that"]
    return []


def _sentence(gate: Gate | None, place: str) -> str:
    if gate is None:
        return f"ok: no definitions {place}; the built-in gate applies. `vibe-gate init` begins your own.\n"
    judged = sum(len(rubric.judged) for rubric in gate.rubrics)
    checked = sum(len(rubric.checked) for rubric in gate.rubrics)
    counts = (_count(len(gate.rubrics), "rubric"), _count(judged, "judge question"), _count(checked, "check"))
    return f"ok: {', '.join(counts)} {place}.\n"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _unused(gate: Gate | None) -> list[str]:
    if gate is None:
        return []
    used = {*gate.file.rubrics, *(name for scope in gate.file.scope for name in scope.rubrics)}
    return [rubric.id for rubric in gate.rubrics if rubric.id not in used]
