"""Workflows: `.vibe-gate/workflows/ID.toml`, with every name that they use, and `ID.py` as source;
their agents.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, get_args

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.tables import MISTAKES_SHOWN, Location, quoted, read_table, suggestion
from vibe_gate.domain.workflow import (
    IMAGE_TYPES,
    MAX_IMAGE_BYTES,
    MAX_STAGES,
    Condition,
    StageRule,
    WorkflowDefinition,
    WorkflowFile,
)
from vibe_gate.gate.agents import AGENTS, CLAUDE_AGENTS, read_agent, read_claude_agent
from vibe_gate.gate.fixing import FIXER
from vibe_gate.gate.graph import find_stage_problems
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
    read_text,
    stem,
)

if TYPE_CHECKING:
    from vibe_gate.domain.agent import Agent
    from vibe_gate.domain.gate import Gate

GATE = ".vibe-gate/gate.toml"
WORKFLOWS = ".vibe-gate/workflows/"

MAX_FILES = 200
"""Prompt files and images of one workflow that are read."""


class _WorkflowFiles(Struct, frozen=True):
    """The files of workflows, by path."""

    toml: Mapping[str, Source]

    python: Mapping[str, bytes]


class _ClaudeAgents(Struct, frozen=True):
    """The agents of `.claude/agents`."""

    by_id: Mapping[str, Agent | None]
    """None for one that has a mistake."""

    digests: Mapping[str, str]
    """By path, of the files of those that a workflow names, or mentions in Python."""

    refused: list[Mistake]
    """Those in agents that no workflow in TOML names."""


def with_workflows(
    gate: Gate,
    tree: DefinitionTree,
    sources: Mapping[str, Source],
    rubrics: Sequence[str],
    mistakes: dict[str, list[Mistake]],
) -> tuple[Gate, list[Mistake]]:
    """The gate with the agents and workflows of `sources`, the tree's TOML definitions, and of
    files in other forms.

    Mistakes go to `mistakes`, by path; those in agents of `.claude/agents` that no workflow in TOML
    names come back. What a file with a mistake defines counts as known: one mistake, one sentence.
    """
    files = _WorkflowFiles(
        toml={path: source for path, source in sources.items() if path.startswith(WORKFLOWS)},
        python={path: tree.read(path) or b"" for path in _files_in(tree, WORKFLOWS, ".py")},
    )
    toml_agents = _read_agents(sources, mistakes)
    claude_agents = _read_claude_agents(tree, files, toml_agents, mistakes)
    agents = {**toml_agents, **claude_agents.by_id}
    workflows = _read_workflows(tree, files, rubrics, {FIXER.id: FIXER, **agents}, mistakes)
    digests = {path: digest_of(raw) for path, raw in files.python.items()}
    digests |= claude_agents.digests
    for workflow in workflows:
        digests |= {path: digest_of(raw) for path, raw in workflow.files}
    right_agents = [agent for _, agent in sorted(agents.items()) if agent]
    refused = claude_agents.refused
    new_gate = replace(
        gate,
        agents=tuple(right_agents),
        workflows=tuple(sorted(workflows, key=lambda workflow: workflow.id)),
        digests=tuple(sorted([*gate.digests, *digests.items()])),
        refused=tuple((stem(paths.unquote(mistake.file)), str(mistake)) for mistake in refused),
    )
    return new_gate, refused


def _read_claude_agents(
    tree: DefinitionTree,
    files: _WorkflowFiles,
    toml_agents: Container[str],
    mistakes: dict[str, list[Mistake]],
) -> _ClaudeAgents:
    """The agents of `.claude/agents`; those with the id of one in TOML are a mistake."""
    agents: dict[str, Agent | None] = {}
    digests: dict[str, str] = {}
    refused: list[Mistake] = []
    used_names = _named_agents(files.toml.values())
    for path in _files_in(tree, CLAUDE_AGENTS, ".md"):
        name = stem(path)
        if name in toml_agents:
            mistakes[path] = [_mistake_of_twin("agent", path, f"{AGENTS}{name}.toml")]
            continue
        raw = tree.read(path) or b""
        agent_mistakes: list[Mistake] = []
        agents[name] = read_claude_agent(path, raw, agent_mistakes)
        is_used = name in used_names
        is_mentioned = any(name.encode() in code for code in files.python.values())
        if is_used or is_mentioned:
            digests[path] = digest_of(raw)
        if is_used:
            mistakes[path] = agent_mistakes
        else:
            refused += agent_mistakes
    return _ClaudeAgents(agents, digests, refused)


def _read_workflows(
    tree: DefinitionTree,
    files: _WorkflowFiles,
    rubrics: Sequence[str],
    agents: Mapping[str, Agent | None],
    mistakes: dict[str, list[Mistake]],
) -> list[WorkflowDefinition]:
    """The workflows without a mistake; they may name these rubrics and agents."""
    workflows: list[WorkflowDefinition | None] = []
    for path, source in files.toml.items():
        workflows.append(read_workflow(source, tree, rubrics, agents, mistakes[path]))
    for path, raw in files.python.items():
        mistakes[path] = []
        workflows.append(read_python(path, raw, mistakes[path]))
        toml_path = path.removesuffix(".py") + ".toml"
        if toml_path in files.toml:
            mistakes[path].append(_mistake_of_twin("workflow", path, toml_path))
    return [workflow for workflow in workflows if workflow is not None]


def _mistake_of_twin(kind: str, path: str, twin_path: str) -> Mistake:
    """That two files define the same agent or workflow."""
    message = f"defines the same {kind} as {paths.quote(twin_path)}"
    return Mistake(paths.quote(path), 1, "", message, "rename one of them")


def _read_agents(
    sources: Mapping[str, Source], mistakes: Mapping[str, list[Mistake]]
) -> dict[str, Agent | None]:
    """By id, the agents of TOML files; None for one that has a mistake."""
    servers = sources[GATE].tables.get("mcp") if GATE in sources else None
    server_names = list(servers) if isinstance(servers, dict) else []
    agents: dict[str, Agent | None] = {}
    for path in mistakes:
        if path.startswith(AGENTS):
            agents[stem(path)] = None
    for path, source in sources.items():
        if path.startswith(AGENTS):
            agents[stem(path)] = read_agent(source, server_names, mistakes[path])
    return agents


def _named_agents(workflows: Iterable[Source]) -> set[str]:
    """The agents that stages of these files name."""
    names = set()
    for source in workflows:
        for _, name in source.values("stage", None, "agent"):
            names.add(str(name))
    return names


def _files_in(tree: DefinitionTree, folder: str, ending: str) -> list[str]:
    """The files directly in the folder whose names have this ending."""
    files = []
    for path in tree.list(folder.rstrip("/")):
        if path.endswith(ending) and "/" not in path.removeprefix(folder):
            files.append(path)
    return sorted(files)


def read_workflow(
    source: Source,
    tree: DefinitionTree,
    rubrics: Sequence[str],
    agents: Mapping[str, Agent | None],
    mistakes: list[Mistake],
) -> WorkflowDefinition | None:
    """The workflow of a TOML file; it may name these rubrics and agents, and files of the tree.

    None in place of an agent: its definition has a mistake.
    """
    file = read_model(WorkflowFile, source.tables, (), source, mistakes)
    check_id(source, mistakes)
    check_unique(source, "stage", mistakes)
    mistakes += islice(_unknown_names(source, rubrics, [*agents]), MISTAKES_SHOWN)
    files = dict(_read_named_files(source, tree, mistakes))
    stages = list(file.stage) if file else _readable_stages(source)
    writes = {name: agent.writes for name, agent in agents.items() if agent}
    for problem in find_stage_problems(stages, writes):
        mistakes.append(source.mistake(("stage", *problem.location), problem.what))
        if len(mistakes) > MISTAKES_SHOWN:
            break
    if file is None:
        return None
    all_files = tuple(sorted(files.items()))
    return WorkflowDefinition(file.id, source.path, source.digest, file, files=all_files)


def read_python(path: str, raw: bytes, mistakes: list[Mistake]) -> WorkflowDefinition | None:
    """The workflow of a Python file, whose syntax alone is looked at: only a run executes it."""
    text = read_text(path, raw)
    if isinstance(text, Mistake):
        mistakes.append(text)
        return None
    name = stem(path)
    quoted_path = paths.quote(path)
    file_mistakes = []
    if not is_identifier(name):
        message = f'{quoted(name)} is not an id (lower-case letters, digits, ".", "_" and "-", at most 64)'
        file_mistakes.append(Mistake(quoted_path, 1, "", message, "rename the file"))
    try:
        with warnings.catch_warnings(action="ignore"):  # they would quote the file on stderr
            ast.parse(text)
    except SyntaxError as error:
        message = f"not Python: {paths.quote(error.msg)}"
        file_mistakes.append(Mistake(quoted_path, error.lineno or 1, "", message))
    except (ValueError, RecursionError, MemoryError):
        message = "not Python: it is nested too deeply, or holds a NUL character"
        file_mistakes.append(Mistake(quoted_path, 1, "", message))
    mistakes += file_mistakes
    if file_mistakes:
        return None
    return WorkflowDefinition(name, path, digest_of(raw), source=text.encode())


def _readable_stages(source: Source) -> list[StageRule | None]:
    """The stages of a file with mistakes, None for those that have one."""
    stages: list[StageRule | None] = []
    for _, table in source.values("stage", None)[:MAX_STAGES]:
        stages.append(read_table(StageRule, table, []) if isinstance(table, dict) else None)
    return stages


# Names of other things


def _unknown_names(
    source: Source, rubrics: Sequence[str], agents: Sequence[str]
) -> Iterator[Mistake]:
    """Names of agents, rubrics and stages that are not there, and conditions that are none."""
    for location, name in source.values("stage", None, "agent"):
        if is_identifier(name) and name not in agents:
            yield source.mistake(location, no_definition("agent", name, agents))
    rubric_names = source.values("stage", None, "rubrics", None)
    rubric_names += source.values("stage", None, "until", "rubrics", None)
    for location, name in rubric_names:
        if is_identifier(name) and name not in rubrics:
            yield source.mistake(location, no_definition("rubric", name, rubrics))
    yield from _unknown_stages(source)


def _unknown_stages(source: Source) -> Iterator[Mistake]:
    all_ids = {name for _, name in source.values("stage", None, "id") if is_identifier(name)}
    ids = sorted(all_ids)[:MAX_STAGES]
    stage_names = source.values("stage", None, "needs", None)
    stage_names += source.values("stage", None, "context", None)
    for location, name in stage_names:
        if is_identifier(name) and name not in ids:
            yield source.mistake(location, _no_stage(name, ids))
    conditions = source.values("stage", None, "when")
    conditions += source.values("stage", None, "when", None)
    for location, text in conditions:
        problem = _condition_problem(text, ids) if isinstance(text, str) else ""
        if problem:
            yield source.mistake(location, problem)


def _condition_problem(text: str, ids: Sequence[str]) -> str:
    """What is wrong with one condition of `when`; "" if nothing is."""
    stage, _, condition = text.rpartition(".")
    conditions = get_args(Condition)
    if not stage or condition not in conditions:
        advice = suggestion(condition, conditions, "conditions")
        return f"must be STAGE.CONDITION, not {quoted(text)}\n{advice}"
    return "" if stage in ids else _no_stage(stage, ids)


def _no_stage(name: str, ids: Sequence[str]) -> str:
    return f"no stage {quoted(name)}\n{suggestion(name, ids, 'the stages')}"


# Files that stages name


def _read_named_files(
    source: Source, tree: DefinitionTree, mistakes: list[Mistake]
) -> Iterator[tuple[str, bytes]]:
    """The prompt files and images of the stages, with their contents; what is wrong with them goes
    to `mistakes`.
    """
    names = source.values("stage", None, "prompt_file")
    names += source.values("stage", None, "images", None)
    first_locations: dict[str, Location] = {}
    for location, path in names:
        if isinstance(path, str):
            first_locations.setdefault(path, location)
    for path, location in islice(first_locations.items(), MAX_FILES):
        raw = None if "\0" in path else tree.read(path)
        problem = _file_problem(path, raw, is_image="images" in location)
        if problem:
            mistakes.append(source.mistake(location, problem))
        else:
            yield path, raw or b""


def _file_problem(path: str, raw: bytes | None, *, is_image: bool) -> str:
    """What is wrong with a file that a stage names; "" if nothing is. `raw`: None if there is
    none.
    """
    if raw is None:
        return (
            f"no file {quoted(path)} in this tree "
            "(paths start at its root; symbolic links are not followed)"
        )
    if not is_image:
        text = read_text(path, raw)
        if not isinstance(text, Mistake):
            return ""
        return f"{quoted(path)}: {text.message}"
    if path.lower().rpartition(".")[2] not in IMAGE_TYPES:
        return f"{quoted(path)} is not a png, jpeg, gif or webp file"
    if len(raw) > MAX_IMAGE_BYTES:
        return f"{quoted(path)} has over {MAX_IMAGE_BYTES:,} bytes"
    return ""
