"""Agents and workflows of a tree: what becomes of them, and of Claude Code's own agents."""

from __future__ import annotations

import json
import time
import tomllib
from pathlib import Path

import pytest
from text_tree import FileTree

from vibe_gate.domain.agent import Agent
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.tables import keys_of
from vibe_gate.domain.workflow import StageRule
from vibe_gate.errors import DefinitionError, UsageError
from vibe_gate.gate.advice import find_warnings
from vibe_gate.gate.chosen import agent_named, workflow_named
from vibe_gate.gate.effective import effective_toml
from vibe_gate.gate.loading import built_in_gate, find_mistakes, load_gate
from vibe_gate.gate.schema import json_schema

CASES = Path(__file__).parents[1] / "gates"
FIXER = b'schema = 1\nid = "fixer"\ntools = ["Read", "Edit"]\n'
HOOKED = b"---\nname: hooked\ndescription: One.\nhooks: many\n---\n"
FLOW = b'schema = 1\nid = "flow"\n[[stage]]\nid = "fix"\nagent = "AGENT"\nprompt_file = "fix.md"\nwhen = []\n'


def tree(**files: bytes) -> FileTree:
    names = {
        "gate": ".vibe-gate/gate.toml",
        "fixer": ".vibe-gate/agents/fixer.toml",
        "hooked": ".claude/agents/hooked.md",
    }
    names |= {
        "flow": ".vibe-gate/workflows/flow.toml",
        "python": ".vibe-gate/workflows/py.py",
        "prompt": "fix.md",
    }
    return FileTree({names[name]: raw for name, raw in files.items()})


def gate_of(files: FileTree) -> Gate:
    gate = load_gate(files, revision="", origin="trusted")
    assert gate is not None
    return gate


def test_a_claude_code_agent_is_read_in_the_forms_that_people_write() -> None:
    raw = (CASES / "agents/.claude/agents/right.md").read_bytes()
    (agent,) = built_in_gate(FileTree({".claude/agents/right.md": raw})).agents
    assert agent == Agent(
        id="right",
        description="Folded text: with a colon, in two lines.",
        tools=("Read", "Bash"),
        disallowed_tools=("Bash(git push *)", "WebFetch"),
        model="opus",
        max_turns=7,
        system_prompt="You repair.",
    )
    assert (agent.writes, agent.level) == (True, "clone")


def test_an_agent_that_cannot_be_honoured_stops_only_who_names_it() -> None:
    gate = gate_of(tree(gate=b"schema = 1\n", fixer=FIXER, hooked=HOOKED))
    assert agent_named(gate, "fixer").tools == ("Read", "Edit")
    with pytest.raises(DefinitionError, match=r"hooked.md:4: hooks: vibe-gate cannot honour"):
        agent_named(gate, "hooked")
    with pytest.raises(DefinitionError, match=r"hooked.md:4: hooks: vibe-gate cannot honour"):
        gate_of(
            tree(
                gate=b"schema = 1\n",
                hooked=HOOKED,
                prompt=b"Go.",
                flow=FLOW.replace(b"AGENT", b"hooked"),
            )
        )


def test_an_unknown_name_gets_the_nearest() -> None:
    gate = gate_of(tree(gate=b"schema = 1\n", fixer=FIXER))
    with pytest.raises(UsageError, match="There is no agent 'fixr'; did you mean 'fixer'"):
        agent_named(gate, "fixr")
    with pytest.raises(UsageError, match="There is no workflow 'flow'; there are: fix"):
        workflow_named(gate, "flow")


def test_a_workflow_brings_the_files_that_it_names_and_each_counts_as_read() -> None:
    files = tree(
        gate=b"schema = 1\n",
        fixer=FIXER,
        prompt=b"Go.",
        flow=FLOW.replace(b"AGENT", b"fixer"),
        python=b"pass\n",
    )
    gate = gate_of(files)
    assert [(workflow.id, workflow.source, workflow.files) for workflow in gate.workflows] == [
        ("flow", b"", (("fix.md", b"Go."),)),
        ("py", b"pass\n", ()),
    ]
    assert [path for path, _ in gate.digests] == sorted(files)
    effective = tomllib.loads(effective_toml(gate))
    assert effective["workflows"]["py"]["python"] == ".vibe-gate/workflows/py.py"
    assert (
        effective["agents"]["fixer"] | {"isolation": "clone", "max_turns": 20}
        == effective["agents"]["fixer"]
    )


def test_a_rubric_that_only_a_workflow_names_is_no_oddity() -> None:
    rubric = (CASES / "right/.vibe-gate/rubrics/quality.toml").read_bytes()
    files = tree(
        gate=b"schema = 1\n",
        flow=b'schema = 1\nid = "flow"\n[[stage]]\nid = "a"\nrubrics = ["quality"]\n',
    )
    files[".vibe-gate/rubrics/quality.toml"] = rubric
    assert find_warnings(files, []) == []
    del files[".vibe-gate/workflows/flow.toml"]
    assert [warning.message for warning in find_warnings(files, [])] == [
        "no change is reviewed against this rubric"
    ]


def test_agents_and_workflows_without_a_gate_come_with_the_built_in_one() -> None:
    flow = FLOW.replace(
        b'prompt_file = "fix.md"', b'prompt = "Go."\nuntil = { rubrics = ["general"] }'
    )
    files = tree(fixer=FIXER, flow=flow.replace(b"AGENT", b"fixer"))
    assert load_gate(files, revision="", origin="trusted") is None
    gate = built_in_gate(files)
    assert (
        gate.origin,
        [agent.id for agent in gate.agents],
        [agent.id for agent in gate.workflows],
    ) == (
        "built-in",
        ["fixer"],
        ["flow"],
    )
    assert gate.rubrics == built_in_gate(FileTree()).rubrics


@pytest.mark.parametrize(
    "raw",
    [b"x=" + b"-" * 900_000 + b"1", b"x=a" + b".a" * 100_000, b"(" * 400_000, b"a\0", b"\xff"],
)
def test_hostile_python_is_a_mistake_and_is_never_run(raw: bytes) -> None:
    with pytest.raises(DefinitionError, match=r"^\.vibe-gate/workflows/py.py:1: not "):
        load_gate(tree(gate=b"schema = 1\n", python=raw), revision="", origin="trusted")


STAGE = b'[[stage]]\nid = "s%d"\nagent = "nobody%d"\nneeds = ["x%d"]\nwhen = "y%d.failed"\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    "files",
    [
        {
            "flow": b'schema = 1\nid = "flow"\n'
            + b"".join(STAGE % (at, at, at, at) for at in range(9_000))
        },
        {"flow": FLOW + b"images = [" + b'"fix.md",' * 90_000 + b"]\n", "prompt": b"Go."},
        {"hooked": b"---\n" + b"a:\n" * 300_000 + b"---\n"},
        {"hooked": b"---\ntools: [" + b"'a'," * 200_000 + b"\n---\n"},
    ],
)
def test_a_flood_is_told_in_seconds_and_cut(files: dict[str, bytes]) -> None:
    began = time.process_time()  # other programs on the machine do not count
    assert 1 <= len(find_mistakes(tree(gate=b"schema = 1\n", fixer=FIXER, **files))) <= 52
    assert time.process_time() - began < 30


@pytest.mark.parametrize("value", ["[1]", "{ a = 1 }", "3", '""', "[[]]", "true"])
def test_a_stage_with_any_wrong_value_is_a_mistake_and_no_more(value: str) -> None:
    for key in keys_of(StageRule):
        flow = f'schema = 1\nid = "flow"\n[[stage]]\n{key} = {value}\n'
        assert find_mistakes(tree(gate=b"schema = 1\n", flow=flow.encode()))


def test_schemas_for_editors_know_agents_and_workflows() -> None:
    agent, workflow = json.loads(json_schema("agent")), json.loads(json_schema("workflow"))
    assert set(agent["required"]) == {"id", "schema"}
    assert {"type": "string"} in workflow["$defs"]["StageRule"]["properties"]["when"]["anyOf"]
