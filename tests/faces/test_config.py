"""`vibe-gate config show|check|schema`: the gate as it is, or all that is wrong with it."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import jsonschema
import pytest
from command import vibe_gate
from program import ROOT, git

from vibe_gate.faces.cli.definitions import STARTERS

GATES = ROOT / "tests/gates"
RUBRIC = (
    'schema = 1\nid = "quality"\n[[criterion]]\nid = "a"\nkind = "judge"\nquestion = "Is it?"\n'
)


def put_definitions(repo: Path, case: str) -> Path:
    """The definitions of a case, uncommitted."""
    shutil.copytree(GATES / case / ".vibe-gate", repo / ".vibe-gate")
    return repo


@pytest.mark.parametrize("case", ["one-run", "misplaced", "hostile-text"])
def test_check_tells_every_mistake_at_once(repo: Path, environ: dict[str, str], case: str) -> None:
    result = vibe_gate("config", "check", cwd=put_definitions(repo, case), environ=environ)
    expected = (GATES / case / "mistakes.txt").read_text().splitlines()
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [f"vibe-gate: {line}" for line in expected]
    assert all(char.isprintable() or char == "\n" for char in result.stderr)
    result = vibe_gate("config", "show", cwd=repo, environ=environ)
    assert (result.returncode, result.stdout) == (2, "")


def test_check_counts_what_it_found_right(repo: Path, environ: dict[str, str]) -> None:
    result = vibe_gate("config", "check", cwd=put_definitions(repo, "right"), environ=environ)
    warning = (
        'warning: .vibe-gate/gate.toml:4: scope[0].paths[1]: "*.sql" matches no file of this tree'
    )
    assert (result.returncode, result.stderr.splitlines()[1:]) == (0, [warning])
    assert (
        result.stdout
        == "ok: 2 rubrics, 1 judge question, 1 check, 1 agent, 1 workflow, 1 case in the working tree.\n"
    )


def test_check_warns_of_a_command_in_one_word(repo: Path, environ: dict[str, str]) -> None:
    rubric = put_definitions(repo, "right") / ".vibe-gate/rubrics/quality.toml"
    rubric.write_text(
        f'{rubric.read_text()}[[criterion]]\nid = "ruff"\nkind = "check"\ncommand = ["ruff check"]\n'
    )
    result = vibe_gate("config", "check", cwd=repo, environ=environ)
    assert result.returncode == 0
    assert 'is one program with spaces in its name; write ["ruff", "check"]' in result.stderr


def test_show_prints_the_effective_gate_as_toml(repo: Path, environ: dict[str, str]) -> None:
    result = vibe_gate("config", "show", cwd=put_definitions(repo, "right"), environ=environ)
    assert (result.returncode, result.stderr) == (0, "")
    gate = tomllib.loads(result.stdout)
    assert gate["rubrics"] == ["quality"]
    assert gate["budget"]["max_turns"] == 20
    assert set(gate["rubric"]) == {"payments.v2", "quality"}
    assert result.stdout.startswith(
        "# Definitions of the working tree: the first ones; later changes are bound by them.\n"
    )


def test_show_without_definitions_prints_the_built_in_gate(
    repo: Path, environ: dict[str, str]
) -> None:
    result = vibe_gate("config", "show", cwd=repo, environ=environ)
    assert result.returncode == 0
    assert result.stdout.startswith("# Definitions built in")
    assert "no-secrets" in tomllib.loads(result.stdout)["rubric"]["safety"]["criterion"][0]["id"]
    assert "vibe-gate init" in result.stderr


def test_show_prints_the_gate_that_binds_and_its_revision_not_the_files_as_they_lie(
    repo, environ
) -> None:
    put_definitions(repo, "right")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Gate")
    gate = repo / ".vibe-gate/gate.toml"
    gate.write_text(gate.read_text().replace("max_turns = 20", "") + "[budget]\nmax_turns = 7\n")
    binding = vibe_gate("config", "show", cwd=repo, environ=environ)
    assert binding.stdout.startswith(
        f"# Definitions at {git(repo, 'rev-parse', 'HEAD').strip()}.\n"
    )
    assert tomllib.loads(binding.stdout)["budget"]["max_turns"] == 20
    assert "differ from this gate: `vibe-gate config show --worktree`" in binding.stderr
    files = vibe_gate("config", "show", "--worktree", cwd=repo, environ=environ)
    assert files.stdout.startswith("# Definitions of the working tree.\n")
    assert (tomllib.loads(files.stdout)["budget"]["max_turns"], files.stderr) == (7, "")
    git(repo, "checkout", "-q", ".")
    assert vibe_gate("config", "show", cwd=repo, environ=environ).stderr == ""


def test_show_prints_the_built_in_gate_before_the_first_commit(tmp_path, environ) -> None:
    git(tmp_path, "init", "-q", "new")
    result = vibe_gate("config", "show", cwd=tmp_path / "new", environ=environ)
    assert (result.returncode, result.stdout.startswith("# Definitions built in")) == (0, True)


def test_show_says_when_the_gate_is_not_on_the_trusted_branch_yet(repo, environ) -> None:
    git(repo, "init", "-q", "--bare", "../hub")
    git(repo, "remote", "add", "origin", "../hub")
    git(repo, "push", "-q", "-u", "origin", "HEAD")
    git(repo, "remote", "set-head", "origin", "-a")
    branch = git(repo, "rev-parse", "--abbrev-ref", "HEAD").strip()
    git(repo, "checkout", "-qb", "topic", "--track", f"origin/{branch}")
    put_definitions(repo, "right")
    result = vibe_gate("config", "show", cwd=repo, environ=environ)
    place = f"# Definitions of the working tree: not on origin/{branch} yet; merge them to make them binding.\n"
    assert result.stdout.startswith(place)


@pytest.mark.parametrize(
    ("path", "warning"),
    [
        ("gate.yaml", 'gate.yaml:1: nothing reads this; did you mean "gate.toml"?'),
        ("gate.tml", 'gate.tml:1: nothing reads this; did you mean "gate.toml"?'),
        (
            "rubrics/new.yaml",
            "rubrics/new.yaml:1: nothing reads this file; those of rubrics/ end with .toml",
        ),
        ("rubric/new.txt", 'rubric/:1: nothing reads this; did you mean "rubrics"?'),
        (
            "suppression.txt",
            'suppression.txt:1: nothing reads this; did you mean "suppressions.toml"?',
        ),
        ("README.md", ""),
        ("rubrics/README.md", ""),
        ("cases/quality/a/before/x.bin", ""),
        ("allowed_signers", ""),
    ],
)
def test_check_warns_of_files_that_nothing_reads(repo, environ, path: str, warning: str) -> None:
    file = put_definitions(repo, "right") / ".vibe-gate" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x\n")
    result = vibe_gate("config", "check", cwd=repo, environ=environ)
    unread = [line for line in result.stderr.splitlines() if "nothing reads" in line]
    assert unread == ([f"warning: .vibe-gate/{warning}"] if warning else [])


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ('["ruffx", "check"]', "ruffx"), ('["./tools/no.sh"]', "./tools/no.sh"), ('["/opt/no/lint"]', "/opt/no/lint"),
        ('["sh", "-c", "ruffx"]', ""), ('["./tools/lint.sh"]', ""), ('["tools/../tools/lint.sh"]', ""),
    ],
)  # fmt: skip
def test_check_warns_of_a_command_whose_program_is_missing(
    repo, environ, command: str, missing: str
) -> None:
    rubric = put_definitions(repo, "right") / ".vibe-gate/rubrics/quality.toml"
    rubric.write_text(
        f'{rubric.read_text()}[[criterion]]\nid = "lint"\nkind = "check"\ncommand = {command}\n'
    )
    (repo / "tools").mkdir()
    (repo / "tools/lint.sh").write_text("#!/bin/sh\n")
    result = vibe_gate("config", "check", cwd=repo, environ=environ)
    expected = f'"{missing}" is not installed here; the check will be an error'
    assert ("is not installed here" in result.stderr, expected in result.stderr) == (
        bool(missing),
    ) * 2


@pytest.fixture
def demanding(repo: Path) -> Path:
    """A gate in which a check must pass whose program is not installed here."""
    rubric = put_definitions(repo, "right") / ".vibe-gate/rubrics/quality.toml"
    criterion = (
        '[[criterion]]\nid = "lint"\nkind = "check"\ncommand = ["ruffx", "check"]\nmust = true\n'
    )
    rubric.write_text(f"{rubric.read_text()}{criterion}")
    return repo


def test_a_program_that_a_must_check_lacks_is_a_mistake_that_says_what_to_do(
    demanding, environ
) -> None:
    result = vibe_gate("config", "check", cwd=demanding, environ=environ)
    sentence = (
        'criterion[1].command (id "lint"): "ruffx" is not installed here; the check will be an error, and so every '
        "review here, as it must pass; install it, or drop `must`; if only CI has it, check with "
        "`vibe-gate config check --without ruffx`"
    )
    assert result.returncode == 2
    assert sentence in result.stderr


def test_a_program_that_only_ci_has_may_be_named(demanding, environ) -> None:
    result = vibe_gate("config", "check", "--without", "ruffx", cwd=demanding, environ=environ)
    assert (result.returncode, result.stdout[:3]) == (0, "ok:")
    assert "warning: .vibe-gate/rubrics/quality.toml" in result.stderr


def test_a_named_program_excuses_no_other_one(demanding, environ) -> None:
    result = vibe_gate(
        "config", "check", "--without", "mypyx", "--json", cwd=demanding, environ=environ
    )
    document = json.loads(result.stdout)
    assert (result.returncode, document["exit_code"]) == (2, 2)
    assert [mistake["key"] for mistake in document["mistakes"]] == ["criterion[1].command"]


@pytest.mark.slow
def test_schema_prints_a_json_schema_that_the_starters_fit(
    repo: Path, environ: dict[str, str]
) -> None:
    for name, starter in (("gate", "gate.toml"), ("rubric", "rubrics/general.toml")):
        schema = json.loads(vibe_gate("config", "schema", name, cwd=repo, environ=environ).stdout)
        tables = tomllib.loads(STARTERS[f".vibe-gate/{starter}"])
        jsonschema.validate(tables, schema, jsonschema.Draft202012Validator)
        with pytest.raises(jsonschema.ValidationError, match="bugdet"):
            jsonschema.validate({**tables, "bugdet": 1}, schema)


@pytest.mark.parametrize("cause", ["link", "ignored"])
def test_a_gate_file_that_git_would_not_record_is_no_silent_default(
    repo: Path, environ: dict[str, str], cause: str
) -> None:
    (repo / ".vibe-gate/rubrics").mkdir(parents=True)
    (repo / ".vibe-gate/rubrics/quality.toml").write_text(RUBRIC)
    if cause == "link":
        (repo / "elsewhere.toml").write_text("schema = 1\n")
        (repo / ".vibe-gate/gate.toml").symlink_to("../elsewhere.toml")
    else:
        (repo / ".vibe-gate/gate.toml").write_text("schema = 1\n")
        (repo / ".gitignore").write_text("gate.toml\n")
    result = vibe_gate("config", "check", cwd=repo, environ=environ)
    assert result.returncode == 2
    assert ".vibe-gate/gate.toml:1: git does not record it as a file" in result.stderr


@pytest.mark.parametrize("argv", [[], ["show", "gate"]])
def test_what_cannot_be_understood_is_one_sentence(
    repo: Path, environ: dict[str, str], argv: list[str]
) -> None:
    result = vibe_gate("config", *argv, cwd=repo, environ=environ)
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1


def test_check_warns_of_what_has_no_effect(repo: Path, environ: dict[str, str]) -> None:
    put_definitions(repo, "right")
    criterion = '[[criterion]]\nid = "tools"\nkind = "check"\ncheck = "todos-completed"\n'
    (repo / ".vibe-gate/rubrics/conduct.toml").write_text(
        f'schema = 1\nid = "conduct"\n{criterion}'
    )
    suppression = '[[suppression]]\ncriterion = "testet"\nreason = "why"\n'
    (repo / ".vibe-gate/suppressions.toml").write_text(f"schema = 1\n{suppression}")
    with (repo / ".vibe-gate/gate.toml").open("a") as gate:
        gate.write('[policy]\nwarn = ["conftest.py"]\n')
    (repo / "a.sql").write_text("")
    result = vibe_gate("config", "check", "--json", cwd=repo, environ=environ)
    document = json.loads(result.stdout)
    assert (result.returncode, document["exit_code"], document["mistakes"]) == (0, 0, [])
    assert [
        (warning["file"][11:], warning["line"], warning["key"]) for warning in document["warnings"]
    ] == [
        ("gate.toml", 4, "scope[0].paths[0]"),
        ("rubrics/conduct.toml", 1, ""),
        ("suppressions.toml", 3, "suppression[0].criterion"),
    ]
    assert document["warnings"][-1]["suggestion"] == 'did you mean "tested"?'


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('setup_hooks = ["Nope"]', "There is no hook Nope in .claude/settings.json of the working"),
        ('setup_mcp_servers = ["nope"]', "There is no MCP server nope in .mcp.json of the working"),
        ("", ".claude/commands/fix.md:2: front matter that cannot be read"),
    ],
)
def test_check_tells_what_a_set_up_lacks(repo, environ, line, sentence):
    agent = f'schema = 1\nid = "user"\nsetup = "project"\ntools = ["Bash"]\n{line}\n'
    files = {
        ".vibe-gate/agents/user.toml": agent,
        ".claude/commands/fix.md": "---\ndescription: [a\n---\n" if not line else "Fix.\n",
    }
    for path, text in files.items():
        (repo / path).parent.mkdir(parents=True)
        (repo / path).write_text(text)
    result = vibe_gate("config", "check", cwd=repo, environ=environ)
    assert (result.returncode, result.stdout) == (2, "")
    assert f".vibe-gate/agents/user.toml:1: setup: {sentence}" in result.stderr
