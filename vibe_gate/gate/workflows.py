"""Workflows: `.vibe-gate/workflows/ID.toml`, with every name that they use, and `ID.py` as source;
their agents.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, get_args

from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.tables import MISTAKES_SHOWN, quoted, read_table, suggestion
from vibe_gate.domain.workflow import (
    IMAGE_TYPES,
    MAX_IMAGE_BYTES,
    MAX_STAGES,
    Condition,
    StageRule,
    WorkflowDefinition,
    WorkflowFile,
)
from vibe_gate.gate import graph
from vibe_gate.gate.agents import AGENTS, CLAUDE_AGENTS, read_agent, read_claude_agent
from vibe_gate.gate.fixing import FIXER
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

Found = list[Mistake]


def with_workflows(
    gate: Gate,
    tree: DefinitionTree,
    sources: Mapping[str, Source],
    rubrics: Sequence[str],
    found: dict[str, Found],
) -> tuple[Gate, Found]:
    """The gate with the agents and workflows of `sources`, the tree's TOML definitions, and of
    files in other forms.

    Mistakes go to `found`, by path; those in agents of `.claude/agents` that no workflow in TOML
    names come back. What a file with a mistake defines counts as known: one mistake, one sentence.
    """
    servers = sources[GATE].tables.get("mcp") if GATE in sources else None
    agents: dict[str, Agent | None] = {
        stem(path): None for path in found if path.startswith(AGENTS)
    }
    for path, source in sources.items():
        if path.startswith(AGENTS):
            agents[stem(path)] = read_agent(
                source, [*servers] if isinstance(servers, dict) else [], found[path]
            )
    python = {path: tree.read(path) or b"" for path in _files_in(tree, WORKFLOWS, ".py")}
    workflows = {path: source for path, source in sources.items() if path.startswith(WORKFLOWS)}
    named = {
        str(name)
        for source in workflows.values()
        for _, name in source.values("stage", None, "agent")
    }
    digests = {path: digest_of(raw) for path, raw in python.items()}
    refused: Found = []
    for path in _files_in(tree, CLAUDE_AGENTS, ".md"):
        name, raw, own = stem(path), tree.read(path) or b"", Found()
        agent = read_claude_agent(path, raw, own)
        if name in agents:
            what = f"defines the same agent as {paths.quote(f'{AGENTS}{name}.toml')}"
            found[path] = [Mistake(paths.quote(path), 1, "", what, "rename one of them")]
            continue
        agents[name] = agent
        if name in named or any(name.encode() in source for source in python.values()):
            digests[path] = digest_of(raw)
        if name in named:
            found[path] = own
        else:
            refused += own
    known = {FIXER.id: FIXER, **agents}
    made = [
        read_workflow(source, tree, rubrics, known, found[path])
        for path, source in workflows.items()
    ]
    for path, raw in python.items():
        found[path] = []
        made.append(read_python(path, raw, found[path]))
        if path[:-3] + ".toml" in workflows:
            what = f"defines the same workflow as {paths.quote(path[:-3] + '.toml')}"
            found[path].append(Mistake(paths.quote(path), 1, "", what, "rename one of them"))
    right = tuple(sorted(filter(None, made), key=lambda one: one.id))
    digests |= {path: digest_of(raw) for workflow in right for path, raw in workflow.files}
    made_gate = replace(
        gate,
        agents=tuple(agent for _, agent in sorted(agents.items()) if agent),
        workflows=right,
        digests=tuple(sorted([*gate.digests, *digests.items()])),
        refused=tuple((stem(paths.unquote(mistake.file)), str(mistake)) for mistake in refused),
    )
    return made_gate, refused


def _files_in(tree: DefinitionTree, folder: str, ending: str) -> list[str]:
    """The files directly in the folder whose names have this ending."""
    return sorted(
        path
        for path in tree.list(folder[:-1])
        if path.endswith(ending) and "/" not in path[len(folder) :]
    )


def read_workflow(
    source: Source,
    tree: DefinitionTree,
    rubrics: Sequence[str],
    agents: Mapping[str, Agent | None],
    found: Found,
) -> WorkflowDefinition | None:
    """The workflow of a TOML file; it may name these rubrics and agents, and files of the tree.

    None in place of an agent: its definition has a mistake.
    """
    file = read_model(WorkflowFile, source.tables, (), source, found)
    check_id(source, found)
    check_unique(source, "stage", found)
    found += islice(_unknown_names(source, rubrics, [*agents]), MISTAKES_SHOWN)
    files = dict(_files(source, tree, found))
    stages = list(file.stage) if file else _readable(source)
    writes = {name: agent.writes for name, agent in agents.items() if agent}
    for one in graph.find_stage_problems(stages, writes):
        found.append(source.mistake(("stage", *one.location), one.what))
        if len(found) > MISTAKES_SHOWN:
            break
    if file is None:
        return None
    return WorkflowDefinition(
        file.id, source.path, source.digest, file, files=tuple(sorted(files.items()))
    )


def read_python(path: str, raw: bytes, found: Found) -> WorkflowDefinition | None:
    """The workflow of a Python file, whose syntax alone is looked at: only a run executes it."""
    text = read_text(path, raw)
    if isinstance(text, Mistake):
        found.append(text)
        return None
    name, shown = stem(path), paths.quote(path)
    if not is_identifier(name):
        what = f'{quoted(name)} is not an id (lower-case letters, digits, ".", "_" and "-", at most 64)'
        found.append(Mistake(shown, 1, "", what, "rename the file"))
    try:
        with warnings.catch_warnings(action="ignore"):  # they would quote the file on stderr
            ast.parse(text)
    except SyntaxError as error:
        found.append(Mistake(shown, error.lineno or 1, "", f"not Python: {paths.quote(error.msg)}"))
    except (ValueError, RecursionError, MemoryError):
        found.append(
            Mistake(shown, 1, "", "not Python: it is nested too deeply, or holds a NUL character")
        )
    return None if found else WorkflowDefinition(name, path, digest_of(raw), source=text.encode())


def _readable(source: Source) -> list[StageRule | None]:
    """The stages of a file with mistakes, None for those that have one."""
    stages: list[StageRule | None] = []
    for _, table in source.values("stage", None)[:MAX_STAGES]:
        stages.append(read_table(StageRule, table, []) if isinstance(table, dict) else None)
    return stages


# Names of other things


def _unknown_names(
    source: Source, rubrics: Sequence[str], agents: Sequence[str]
) -> Iterator[Mistake]:
    ids = sorted({name for _, name in source.values("stage", None, "id") if is_identifier(name)})[
        :MAX_STAGES
    ]
    for location, name in source.values("stage", None, "agent"):
        if is_identifier(name) and name not in agents:
            yield source.mistake(location, no_definition("agent", name, agents))
    asked = source.values("stage", None, "rubrics", None) + source.values(
        "stage", None, "until", "rubrics", None
    )
    for location, name in asked:
        if is_identifier(name) and name not in rubrics:
            yield source.mistake(location, no_definition("rubric", name, rubrics))
    for location, name in source.values("stage", None, "needs", None) + source.values(
        "stage", None, "context", None
    ):
        if is_identifier(name) and name not in ids:
            yield source.mistake(
                location, f"no stage {quoted(name)}\n{suggestion(name, ids, 'the stages')}"
            )
    for location, text in source.values("stage", None, "when") + source.values(
        "stage", None, "when", None
    ):
        if isinstance(text, str) and (what := _wrong_condition(text, ids)):
            yield source.mistake(location, what)


def _wrong_condition(text: str, ids: Sequence[str]) -> str:
    """What is wrong with one condition of `when`; "" if nothing is."""
    stage, _, condition = text.rpartition(".")
    conditions = get_args(Condition)
    if not stage or condition not in conditions:
        return f"must be STAGE.CONDITION, not {quoted(text)}\n{suggestion(condition, conditions, 'conditions')}"
    return (
        "" if stage in ids else f"no stage {quoted(stage)}\n{suggestion(stage, ids, 'the stages')}"
    )


# Files that stages name


def _files(source: Source, tree: DefinitionTree, found: Found) -> Iterator[tuple[str, bytes]]:
    """The prompt files and images of the stages, with their contents; what is wrong with them goes
    to `found`.
    """
    named = source.values("stage", None, "prompt_file") + source.values(
        "stage", None, "images", None
    )
    first = {path: location for location, path in reversed(named) if isinstance(path, str)}
    for path, location in islice(reversed(first.items()), MAX_FILES):
        raw = None if "\0" in path else tree.read(path)
        if raw is None:
            what = (
                "no file {} in this tree (paths start at its root; symbolic links are not followed)"
            )
        elif "images" not in location:
            what = (
                "{}: " + text.message if isinstance(text := read_text(path, raw), Mistake) else ""
            )
        elif path.lower().rpartition(".")[2] not in IMAGE_TYPES:
            what = "{} is not a png, jpeg, gif or webp file"
        else:
            what = (
                "{} has over " + f"{MAX_IMAGE_BYTES:,} bytes" if len(raw) > MAX_IMAGE_BYTES else ""
            )
        if what:
            found.append(source.mistake(location, what.format(quoted(path))))
        else:
            yield path, raw or b""
