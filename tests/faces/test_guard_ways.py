"""The guard in a real repository: ways around the gate by tools and command lines, and ordinary work beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from guard_lines import ALLOWED, REFUSED
from program import git, repository

from vibe_gate.domain.provenance import AGENT_VARIABLES
from vibe_gate.faces.claude_hook import git_settings, guard
from vibe_gate.faces.claude_hook.guarded import Project
from vibe_gate.faces.claude_hook.rules import refused_command
from vibe_gate.faces.claude_hook.verdict import edit, refusal
from vibe_gate.faces.cli.install_claude import hooks

PATCH = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A project with a gate and a linked worktree, and a repository of somebody else's."""
    outside = tmp_path_factory.mktemp("places")
    project = repository(outside / "project")
    for name, text in {
        ".vibe-gate/gate.toml": "schema = 1\n",
        ".vibe-artifacts/x/y/summary.json": "{}",
        ".pre-commit-config.yaml": "repos: [{repo: x/vibe-gate}]\n",
        ".husky/pre-commit": "vibe-gate hook pre-commit\n",
        ".claude/settings.json": json.dumps({"hooks": hooks()}),
        "tests/fixtures/.vibe-gate/gate.toml": "schema = 1\n",
        "src/a.py": "a\n",
        "gate.patch": PATCH.format(".vibe-gate/gate.toml"),
        "src.patch": PATCH.format("src/a.py"),
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    git(project, "add", ".vibe-gate")
    git(project, "commit", "-q", "-m", "a gate")
    git(project, "worktree", "add", "-q", "../linked")
    for name, meaning in {
        "ci": "commit",
        "cin": "commit -n",
        "loud": '!f() { git commit "$@"; }; f',
        "st": "status",
    }.items():
        git(project, "config", f"alias.{name}", meaning)
    scratch = repository(outside / "scratch")
    (scratch / ".vibe-gate").mkdir()
    (scratch / ".vibe-gate" / "gate.toml").write_text("schema = 1\n")
    found = {name: str(outside / name) for name in ("project", "linked", "scratch")}
    return {**found, "outside": str(outside)}


def judged(line: str, places: dict[str, str]) -> str | None:
    project = places["project"]
    return refused_command(placed(line, places), project, Project(project, str(Path.home())))


def placed(line: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        line = line.replace("{" + name + "}", path)
    return line


@pytest.mark.parametrize("line", REFUSED)
def test_a_way_around_the_gate_is_refused_with_what_to_do_instead(places, line):
    said = judged(line, places)
    assert said is not None
    assert said.startswith("vibe-gate: ")
    assert said.endswith(".")
    assert ";" in said


@pytest.mark.parametrize("line", REFUSED)
def test_the_quick_look_stops_at_every_line_that_is_refused(places, line):
    given = {"tool_name": "Bash", "tool_input": {"command": placed(line, places)}}
    assert guard.worth_a_look(json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.mark.parametrize("line", ALLOWED)
def test_ordinary_work_goes_through(places, line):
    assert judged(line, places) is None


def event(tool: str, where: str, **asked: object) -> bytes:
    return json.dumps({"tool_name": tool, "tool_input": asked, "cwd": where}, separators=(",", ":")).encode()


def asked(places: dict[str, str], tool: str, **given: object) -> str | None:
    """What the guard says of a call, which its quick look must not pass by if that is a refusal."""
    data = event(tool, places["project"], **given)
    said = refusal(data, {"HOME": str(Path.home()), "CLAUDE_PROJECT_DIR": places["project"]})
    assert said is None or guard.worth_a_look(data)
    return said


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        (".vibe-gate/gate.toml", True),
        (".vibe-gate/rubrics/new.toml", True),
        (".vibe-artifacts/x/y/summary.json", True),
        (".git/hooks/pre-commit", True),
        (".git/config", True),
        (".git/vibe-gate/overrides.ndjson", True),
        (".git/packed-refs", True),
        (".git/refs/heads/main", True),
        (".git/info/exclude", False),
        (".pre-commit-config.yaml", True),
        (".husky/pre-commit", True),
        ("{linked}/.vibe-gate/gate.toml", True),
        ("{project}/tests/../.vibe-gate/gate.toml", True),
        ("{scratch}/.vibe-gate/gate.toml", False),
        ("{scratch}/.git/hooks/pre-commit", False),
        ("{scratch}/.pre-commit-config.yaml", False),
        ("tests/fixtures/.vibe-gate/gate.toml", False),
        ("/opt/venv/lib/python3.11/site-packages/vibe_gate/review.py", True),
        ("/opt/venv/lib/python3.11/site-packages/vibe_gate_plugin/x.py", False),
        ("/opt/venv/lib/python3.11/site-packages/requests/x.py", False),
        ("~/.gitconfig", True),
        ("~/.config/git/config", True),
        ("~/.config/git/ignore", False),
        ("dotfiles/.gitconfig", False),
        ("tests/not-there-yet/.vibe-gate/gate.toml", False),
        ("{outside}/not-there-yet/.vibe-gate/gate.toml", False),
        ("src/pre-commit", False),
        ("src/settings.json", False),
        (".claude/commands/x.md", False),
        (".github/workflows/ci.yml", False),
    ],
)
@pytest.mark.parametrize("tool", ["Write", "mcp__filesystem__write_file", "mcp__filesystem__edit_file"])
def test_tools_may_write_what_is_not_the_gates(places, tool, path, refused):
    key = "file_path" if tool == "Write" else "path"
    assert (asked(places, tool, **{key: placed(path, places), "content": "x"}) is not None) is refused


@pytest.mark.parametrize(
    ("tool", "given", "refused"),
    [
        ("mcp__fs__read_file", {"path": ".vibe-gate/gate.toml"}, False),
        ("mcp__fs__read_multiple_files", {"paths": [".vibe-gate/gate.toml"]}, False),
        ("mcp__fs__list_directory", {"path": ".git/hooks"}, False),
        ("mcp__fs__move_file", {"source": ".vibe-gate/gate.toml", "destination": "x"}, True),
        ("mcp__fs__move_file", {"source": "x", "destination": ".git/hooks/pre-commit"}, True),
        ("mcp__fs__delete_files", {"files": [{"path": ".vibe-gate"}]}, True),
        ("mcp__fs__create_directory", {"path": "src/x"}, False),
        ("mcp__fs__write_file", {"path": "a.md", "content": ".vibe-gate/gate.toml"}, False),
        ("mcp__fs__write_file", {"path": ".claude/settings.json", "content": "{}"}, True),
        ("mcp__fs__write_file", {"uri": "file://{project}/.vibe-gate/gate.toml", "text": "x"}, True),
        ("mcp__shell__execute", {"command": "git commit --no-verify -m x"}, True),
        ("mcp__shell__execute", {"command": "git", "args": ["commit", "-n", "-m", "a b"]}, True),
        ("mcp__shell__execute", {"command": "git status"}, False),
        ("mcp__git__git_commit", {"message": "x", "no_verify": True}, True),
        ("mcp__git__git_commit", {"message": "do not use --no-verify", "noVerify": False}, False),
        ("mcp__git__git_commit", {"message": "x", "skip_hooks": True}, True),
        ("mcp__git__git_commit", {"message": "x", "args": ["--no-verify"]}, True),
        ("mcp__git__git_commit", {"message": "--no-verify is not for us"}, False),
        ("mcp__search__query", {"q": "git commit --no-verify"}, False),
    ],
)
def test_tools_of_mcp_servers_are_held_to_the_same(places, tool, given, refused):
    given = json.loads(placed(json.dumps(given), places))
    assert (asked(places, tool, **given) is not None) is refused


SETTINGS = ".claude/settings.json"


def settings(places: dict[str, str]) -> str:
    return (Path(places["project"]) / SETTINGS).read_text()


def test_settings_may_change_around_our_hooks(places):
    document = json.loads(settings(places))
    document["permissions"] = {"allow": ["Bash(ls:*)"]}
    document["hooks"]["PreToolUse"].insert(0, {"hooks": [{"type": "command", "command": "echo theirs"}]})
    document["env"] = {"NODE_ENV": "test"}
    assert asked(places, "Write", file_path=SETTINGS, content=json.dumps(document, indent=2)) is None
    assert asked(places, "Edit", file_path=SETTINGS, old_string="{", new_string='{"model":"opus",') is None
    assert asked(places, "Edit", file_path=SETTINGS, old_string="not there", new_string="") is None
    assert asked(places, "Write", file_path=".claude/settings.local.json", content='{"model": "opus"}') is None


def test_our_hooks_may_not_leave_the_settings(places):
    text, document = settings(places), json.loads(settings(places))
    del document["hooks"]["PreToolUse"]
    weaker = json.loads(text)
    weaker["hooks"]["PreToolUse"][0]["matcher"] = "Nothing"
    for content in ("{}", "", "{", json.dumps(document), json.dumps(weaker), text.replace("guard.py", "guardian.py")):
        said = asked(places, "Write", file_path=SETTINGS, content=content)
        assert said is not None and "ask the user" in said
    assert asked(places, "Edit", file_path=SETTINGS, old_string="guard.py", new_string="x.py", replace_all=True)
    edits = [{"old_string": '"PreToolUse"', "new_string": '"Pre"'}, {"old_string": '"Pre"', "new_string": '"PreTool"'}]
    assert asked(places, "MultiEdit", file_path=SETTINGS, edits=edits)
    assert asked(places, "Write", file_path=f"{places['project']}/{SETTINGS}", content="{}")


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
@pytest.mark.parametrize(
    "given",
    [
        {"disableAllHooks": True},
        {"env": {"SKIP": "vibe-gate"}},
        {"env": {"CLAUDECODE": ""}},
        {"env": {"GIT_CONFIG_GLOBAL": "/dev/null"}},
    ],
)
def test_no_settings_may_switch_the_gate_off(places, name, given):
    ours = json.loads(settings(places)) if name == "settings.json" else {}
    said = asked(places, "Write", file_path=f".claude/{name}", content=json.dumps(ours | given))
    assert said is not None and "ask the user" in said


def test_a_gate_may_be_made_where_there_is_none(places):
    where = places["scratch"] + "-bare"
    repository(Path(where))
    project = Project(where)
    for line in ("mkdir .vibe-gate", "mkdir -p .vibe-gate/rubrics && echo x > .vibe-gate/gate.toml"):
        assert refused_command(line, where, project) is None
    assert edit(".vibe-gate/gate.toml", "Write", {"content": "x"}, where, project) is None
    assert refused_command("echo x > .pre-commit-config.yaml", where, project) is None


def test_the_guard_knows_every_variable_that_tells_of_an_agent():
    assert set(git_settings.AGENT_VARIABLES) == set(AGENT_VARIABLES)


def test_there_are_enough_ways_and_no_line_is_on_both_sides():
    assert len(REFUSED) >= 120
    assert len(ALLOWED) >= 120
    assert not set(REFUSED) & set(ALLOWED)
