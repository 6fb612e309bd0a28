"""The gate in force as one TOML document: what `vibe-gate config show` prints."""

from __future__ import annotations

from typing import Any

import tomli_w

from vibe_gate.checks import CHECKS
from vibe_gate.domain import paths
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.document import plain, read, without_none
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.workflow import WorkflowDefinition


def effective_toml(gate: Gate) -> str:
    """Every setting with its default filled in, rubrics as `[rubric.ID]`, agents as `[agents.ID]`,
    workflows as `[workflows.ID]`; parses as TOML.

    A rubric or agent without a model of its own shows the gate's. What has no value (no
    `budget.per_day_usd`) is left out, as TOML has no null.
    """
    tables: dict[str, Any] = without_none(plain(gate.file))
    tables["hooks"]["commit-msg"] = plain(gate.file.hooks.at_stage("commit-msg"))
    tables["rubric"] = {}
    for rubric in gate.rubrics:
        tables["rubric"][rubric.id] = _rubric(rubric, gate.file.model.default)
    tables["agents"] = {}
    for agent in gate.agents:
        tables["agents"][agent.id] = _agent(agent, gate)
    tables["workflows"] = {}
    for workflow in gate.workflows:
        tables["workflows"][workflow.id] = _workflow(workflow)
    filled_tables = {key: value for key, value in tables.items() if value != {}}
    document = tomli_w.dumps(filled_tables)
    return _header(gate) + _visible(document)


def _agent(agent: Agent, gate: Gate) -> dict[str, Any]:
    """The agent with the gate's settings where it has none of its own."""
    default = {
        "model": gate.file.model.default,
        "isolation": agent.level,
        "max_turns": gate.file.budget.max_turns,
    }
    tables: dict[str, Any] = without_none(plain(agent))
    return default | tables


def _workflow(workflow: WorkflowDefinition) -> dict[str, Any]:
    """The stages of a workflow in TOML; the file of one in Python, which only a run executes."""
    if workflow.file is None:
        return {"python": workflow.path, "sha256": workflow.digest}
    tables: dict[str, Any] = without_none(plain(workflow.file))
    return tables


def _rubric(rubric: Rubric, default_model: str) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    if not rubric.models:
        tables["model"] = default_model
    tables |= without_none(plain(rubric))
    tables["criterion"] = list(map(_criterion, rubric.criterion))
    return tables


def _criterion(criterion: Criterion) -> dict[str, Any]:
    """The criterion with its check's own defaults; a judge has no options to show."""
    tables: dict[str, Any] = without_none(plain(criterion))
    del tables["options"]
    if criterion.kind == "judge":
        return tables
    options = read(CHECKS[criterion.check_name].options, criterion.options)
    return tables | {"options": without_none(plain(options))}


def _header(gate: Gate) -> str:
    lines = [_provenance(gate)]
    for path, digest in gate.digests:
        lines.append(f"sha-256 {digest} {paths.quote(path)}")
    for _, reason in gate.refused:
        lines.append(f"Not used: {reason}")
    comments = [f"# {line}\n" for line in lines]
    return "".join(comments) + "\n"


def _provenance(gate: Gate) -> str:
    """Which gate it is, and where it was read."""
    if gate.origin == "built-in":
        return "Definitions built in: this repository has no .vibe-gate/ of its own."
    place = f"at {paths.quote(gate.revision)}"
    if gate.revision in ("worktree", ""):
        place = "of the working tree"
    if gate.origin != "bootstrap":
        return f"Definitions {place}."
    if gate.branch:
        return f"Definitions {place}: not on {gate.branch} yet; merge them to make them binding."
    return f"Definitions {place}: the first ones; later changes are bound by them."


def _visible(text: str) -> str:
    """The document with what a terminal would not show written as TOML escapes.

    Such characters stand only inside double-quoted strings here, so the document
    means the same as before.
    """
    return "".join(map(_visible_char, text))


def _visible_char(char: str) -> str:
    if char == "\n" or paths.is_visible(char):
        return char
    return f"\\U{ord(char):08x}"
