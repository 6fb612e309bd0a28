"""What is read of a project's own Claude Code, and what is said of what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from repos import Repo

from vibe_gate import Agent, UsageError
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.project_setup import ProjectSetup
from vibe_gate.gate.setup_files import read_setup
from vibe_gate.git import open_repository

AGENT = Agent(id="user", setup="project", tools=("Read", "Agent"))
COMMAND = ".claude/commands/fix.md"


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    return Repo(tmp_path / "repo", environ)


def setup_with(repo: Repo, path: str, text: str, agent: Agent = AGENT) -> ProjectSetup:
    """The set-up of a project with one file."""
    repo.write(path, text)
    with open_repository(repo.path, read_environment(repo.environ)) as repository:
        return read_setup(repository.tree(repository.snapshot()), agent, "the working tree")


UNREADABLE = [
    (COMMAND, "---\ndescription: [a\n---\nFix.\n", "fix.md:2: front matter that cannot be read"),
    (COMMAND, "---\nmodel: m\nallowed-tools: Bash(\n---\n", "fix.md:3: front matter that cannot"),
    (COMMAND, '---\ndescription: "a\n---\n', 'description opens " and does not close it'),
    (COMMAND, '---\ndescription: "a" b\n---\n', 'goes on behind its closing "'),
    (COMMAND, "---\ndescription: a\n  b: c\n---\n", "is text and has keys below it"),
    (COMMAND, "---\ndescription: a\nFix.\n", "fix.md:1: front matter that does not end"),
    (".claude/agents/x.md", "---\nname: x\ntools: [Read\n---\nX\n", "x.md:3: front matter"),
    (".claude/rules/x.md", "---\npaths:\n  - [src\n---\nX\n", "x.md:2: front matter"),
    (".claude/skills/x/SKILL.md", "---\nname: x\ndescription: 'x\n---\n", "SKILL.md:3: front"),
    ("CLAUDE.md", "One.\n\nSee @../x.md\n", "CLAUDE.md:3 refers to @../x.md, which is outside"),
]


@pytest.mark.parametrize(("path", "text", "sentence"), UNREADABLE)
def test_what_cannot_be_read_is_an_error_with_its_line(repo, path, text, sentence):
    with pytest.raises(UsageError) as caught:
        setup_with(repo, path, text)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "description: a: b: c",
        "description: it's [WIP]",
        "argument-hint: [file] [message]",
        'description: "a" # b',
        "description: >-\n  [a\n  b: c",
        "allowed-tools:\n- Bash(git *)\n- Read",
        "allowed-tools: [Read,\n  Grep]",
        'description: "a" b: c',
        "metadata:\n  author: me",
        "model:",
    ],
)
def test_front_matter_that_claude_code_takes_is_loaded_as_it_stands(repo, line):
    setup = setup_with(repo, COMMAND, f"---\n{line}\n---\nFix.\n")
    assert [file.content.decode() for file in setup.files] == [f"---\n{line}\n---\nFix.\n"]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("description: a\n---\nFix.\n", "begins with keys, but not with ---: it is text"),
        ("See @missing.md\n", "refers to @missing.md, which is not there"),
    ],
)
def test_what_may_be_a_mistake_is_a_note(repo, text, note):
    assert setup_with(repo, COMMAND, text).left_out == (f"{COMMAND} ({note})",)


def test_a_plain_file_has_no_front_matter_to_read(repo):
    assert setup_with(repo, COMMAND, "---\nA rule above text.\n").left_out == ()


@pytest.mark.parametrize(
    ("written", "loaded"),
    [
        ("tools: Read, Grep, Bash(git log *)", 'tools: ["Read"]'),
        ("tools: [Read, Task]", 'tools: ["Read", "Task"]'),
        ("tools:\n  - Grep\n  - mcp__docs__find", 'tools: ["mcp__docs__find"]'),
        ("model: m", "model: m"),
    ],
)
def test_a_subagent_has_no_tool_that_the_agent_lacks(repo, written, loaded):
    setup = setup_with(repo, ".claude/agents/x.md", f"---\nname: x\n{written}\n---\nX\n")
    assert setup.files[0].content.decode() == f"---\nname: x\n{loaded}\n---\nX\n"
