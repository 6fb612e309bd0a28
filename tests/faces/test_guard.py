"""The guard: the plain ways around the gate get a sentence, other work goes through, and nothing
stops the agent.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from growth import assert_linear
from program import git, repository

from vibe_gate.domain.provenance import AGENT_COMMANDS
from vibe_gate.faces.agent_hook import commands, guard
from vibe_gate.faces.agent_hook.hooked_agents import CLAUDE, CODEX, GEMINI

BARE = [sys.executable, "-I", "-S", guard.__file__]
SETTINGS = ".claude/settings.json"


def corpus() -> dict[str, list[str]]:
    """The command lines of `guard_corpus.txt`, by what stops them."""
    lines: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("guard_corpus.txt").read_text().splitlines():
        if line.startswith(("[guard]", "[git]", "[verify]", "[free]")):
            group = lines.setdefault(line[1:].partition("]")[0], [])
        elif line and not line.startswith("# "):
            group.append(line.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\"))
    return lines


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A repository with a gate and a linked worktree, and somebody else's."""
    outside = tmp_path_factory.mktemp("places")
    project, scratch = repository(outside / "project"), repository(outside / "scratch")
    for root in (project, scratch):
        (root / ".vibe-gate").mkdir()
        (root / ".vibe-gate" / "gate.toml").write_text("schema = 1\n")
    (project / ".claude").mkdir()
    (project / SETTINGS).write_text(json.dumps({"hooks": CLAUDE.hooks()}))
    git(project, "worktree", "add", "-q", "../linked")
    (outside / "linked" / ".vibe-gate").mkdir()
    (outside / "linked" / ".vibe-gate" / "gate.toml").write_text("schema = 1\n")
    return {"outside": str(outside)} | {
        name: str(outside / name) for name in ("project", "linked", "scratch")
    }


def fill_places(text: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        text = text.replace("{" + name + "}", path)
    return text


def refusal(places: dict[str, str], tool: str, **tool_input: object) -> str:
    return guard.refusal(
        {"tool_name": tool, "tool_input": tool_input, "cwd": places["project"]}, places["project"]
    )


def said_of(line: str, places: dict[str, str]) -> str:
    try:
        return refusal(places, "Bash", command=fill_places(line, places))
    except ValueError:  # a quote that is never closed
        return ""


def test_the_plain_ways_around_the_gate_are_refused(places):
    lines = corpus()["guard"]
    assert len(lines) > 120
    assert [line for line in lines if not said_of(line, places)] == []


def test_ordinary_work_goes_through(places):
    lines = corpus()["free"]
    assert len(lines) > 300
    assert [line for line in lines if said_of(line, places)] == []


def test_what_git_or_verify_stops_is_left_to_them(places):
    lines = corpus()
    assert [line for line in lines["git"] + lines["verify"] if said_of(line, places)] == []


def test_a_refusal_says_what_to_do_instead(places):
    assert said_of("git commit -anm x", places) == (
        "`git commit` without its hooks goes around the gate; run it without -anm and fix what the hooks report"
    )
    assert "ask the user" in said_of("git config core.hooksPath /dev/null", places)


ODD_FOLDERS = [
    "src/routes/$postId",
    "${HOME}",
    "`tick`",
    "app/[id]",
    "*",
    "~",
    "two words",
    "it's",
    'a "quoted" one',
    "line\nbreak",
    "back\\slash",
    ";",
]


@pytest.mark.parametrize(
    ("command", "is_refused"),
    [
        ("git commit --no-verify -m x", True),
        ("git config core.hooksPath /dev/null", True),
        ("rm -rf {project}/.git/hooks", True),
        ("cd deeper && git commit -n -m x", True),
        ("git -C deeper commit -n -m x", True),
        ("git --git-dir {scratch}/.git commit -m x", True),
        ("git commit -m x", False),
        ("cd {scratch} && git commit --no-verify -m x", False),
        ('cd "$UNKNOWN" && git commit --no-verify -m x', False),
        ('cd "`mktemp -d`" && git init && git commit --no-verify -m x', False),
        ('cd "$UNKNOWN" && cd deeper && git commit --no-verify -m x', False),
        ('rm -rf "$UNKNOWN/.git/hooks"', False),
    ],
)
def test_the_folder_of_a_session_is_known_whatever_it_is_called(
    places, command, is_refused, subtests
):
    for folder in ODD_FOLDERS:
        cwd = Path(places["project"], folder)
        (cwd / "deeper").mkdir(parents=True, exist_ok=True)
        call = {
            "tool_name": "Bash",
            "tool_input": {"command": fill_places(command, places)},
            "cwd": str(cwd),
        }
        with subtests.test(folder=folder):
            assert bool(guard.refusal(call, places["project"])) is is_refused


def test_a_folder_that_is_there_is_known_though_its_name_has_a_dollar(places):
    Path(places["project"], "routes/$id").mkdir(parents=True, exist_ok=True)
    assert refusal(places, "Bash", command="cd 'routes/$id' && git commit --no-verify -m x")
    assert refusal(places, "Bash", command="git -C 'routes/$id' commit --no-verify -m x")
    assert not refusal(places, "Bash", command="cd routes/$other && git commit --no-verify -m x")


@pytest.mark.parametrize("folder", ODD_FOLDERS)
def test_tools_may_not_write_definitions_from_a_folder_with_an_odd_name(places, folder):
    cwd = Path(places["project"], folder)
    cwd.mkdir(parents=True, exist_ok=True)
    up = "../" * len(folder.split("/"))
    call = {
        "tool_name": "Write",
        "tool_input": {"file_path": f"{up}.vibe-gate/gate.toml", "content": ""},
    }
    assert guard.refusal({**call, "cwd": str(cwd)}, places["project"])


@pytest.mark.parametrize("tool", ["Write", "Edit"])
@pytest.mark.parametrize(
    ("path", "refused"),
    [
        (".vibe-gate/gate.toml", True),
        (".vibe-gate/rubrics/new.toml", True),
        (".vibe-artifacts/x/y/summary.json", True),
        (".git/hooks/pre-commit", True),
        (".git/config", True),
        (".git/vibe-gate/state.db", True),
        ("{linked}/.vibe-gate/gate.toml", True),
        ("{project}/tests/../.vibe-gate/gate.toml", True),
        (".git/info/exclude", False),
        ("{scratch}/.vibe-gate/gate.toml", False),
        ("{scratch}/.git/hooks/pre-commit", False),
        ("tests/fixtures/.vibe-gate/gate.toml", False),
        ("{outside}/not-there-yet/.vibe-gate/gate.toml", False),
        ("src/pre-commit", False),
        (".claude/commands/x.md", False),
        (".github/workflows/ci.yml", False),
    ],
)
def test_tools_may_write_what_is_not_the_gates(places, tool, path, refused):
    tool_input = {"content": "x"} if tool == "Write" else {"old_string": "1", "new_string": "2"}
    assert bool(refusal(places, tool, file_path=fill_places(path, places), **tool_input)) is refused


def test_a_link_to_a_definition_is_seen_through(places):
    link = Path(places["project"]) / "innocent"
    link.symlink_to(".vibe-gate")
    assert refusal(places, "Write", file_path="innocent/gate.toml", content="x")
    link.unlink()


def test_the_first_definitions_may_be_written(tmp_path):
    root = repository(tmp_path / "r")
    call = {
        "tool_name": "Write",
        "tool_input": {"file_path": ".vibe-gate/gate.toml", "content": "x"},
    }
    assert guard.refusal(call | {"cwd": str(root)}, str(root)) == ""


def test_settings_may_change_around_our_hooks(places):
    document = json.loads((Path(places["project"]) / SETTINGS).read_text())
    document["permissions"] = {"allow": ["Bash(ls:*)"]}
    document["hooks"]["PreToolUse"].insert(
        0, {"hooks": [{"type": "command", "command": "echo theirs"}]}
    )
    assert (
        refusal(places, "Write", file_path=SETTINGS, content=json.dumps(document, indent=2)) == ""
    )
    assert (
        refusal(places, "Edit", file_path=SETTINGS, old_string="{", new_string='{"model":"opus",')
        == ""
    )
    assert (
        refusal(
            places, "Write", file_path=".claude/settings.local.json", content='{"model": "opus"}'
        )
        == ""
    )


def test_our_hooks_may_not_leave_the_settings_nor_be_switched_off(places):
    text = (Path(places["project"]) / SETTINGS).read_text()
    weaker = json.loads(text)
    weaker["hooks"]["PreToolUse"][0]["matcher"] = "Nothing"
    off = json.loads(text) | {"disableAllHooks": True}
    for content in (
        "{}",
        "",
        "{",
        json.dumps(weaker),
        json.dumps(off),
        text.replace("guard.py", "guardian.py"),
    ):
        assert "ask the user" in refusal(places, "Write", file_path=SETTINGS, content=content)
    assert refusal(
        places,
        "Edit",
        file_path=SETTINGS,
        old_string="guard.py",
        new_string="x.py",
        replace_all=True,
    )
    edits = [
        {"old_string": '"PreToolUse"', "new_string": '"Pre"'},
        {"old_string": '"Pre"', "new_string": '"PreTool"'},
    ]
    assert refusal(places, "MultiEdit", file_path=SETTINGS, edits=edits)


def test_the_guard_knows_every_variable_that_tells_of_an_agent():
    assert set(AGENT_COMMANDS) == commands.AGENT_VARIABLES


def test_geminis_tools_are_judged_as_claude_codes(places):
    project = Path(places["project"])
    line = "git commit --no-verify -m x"
    assert (
        refusal(places, "run_shell_command", command=line)
        == refusal(places, "Bash", command=line)
        != ""
    )
    assert refusal(places, "run_shell_command", command=line, dir_path=places["scratch"]) == ""
    at = str(project / ".vibe-gate" / "gate.toml")
    assert "let the user edit it" in refusal(places, "write_file", file_path=at, content="softer")
    edit = {"old_string": "1", "new_string": "2"}
    assert "let the user edit it" in refusal(
        places, "replace", file_path=".vibe-gate/gate.toml", **edit
    )
    assert refusal(places, "replace", file_path="a.txt", **edit) == ""


def test_a_patch_of_codex_is_refused_if_one_of_its_files_is_the_gates_or_holds_our_hooks(tmp_path):
    root = repository(tmp_path / "r")
    for folder in (".vibe-gate", ".codex"):
        (root / folder).mkdir()
    (root / ".vibe-gate" / "gate.toml").write_text("schema = 1\n")
    (root / ".codex" / "hooks.json").write_text(json.dumps({"hooks": CODEX.hooks()}))

    def patch_refusal(*lines: str) -> str:
        patch = "\n".join(
            ["*** Begin Patch", "*** Add File: a.py", "+*** Update File: .vibe-gate/x", *lines]
        )
        call = {"tool_name": "apply_patch", "tool_input": {"command": patch}, "cwd": str(root)}
        return guard.refusal(call, str(root))

    assert patch_refusal() == ""
    assert "let the user edit it" in patch_refusal("*** Update File: .vibe-gate/gate.toml")
    assert "let the user edit it" in patch_refusal(
        "*** Update File: a.txt", "*** Move to: .vibe-gate/gate.toml"
    )
    assert "hooks.json holds hooks of vibe-gate" in patch_refusal(
        "*** Delete File: .codex/hooks.json"
    )
    (root / ".codex" / "hooks.json").write_text("{}")
    assert patch_refusal("*** Update File: .codex/hooks.json") == ""


def test_our_hooks_may_not_leave_geminis_settings_nor_be_switched_off(tmp_path):
    root = repository(tmp_path / "r")
    settings = root / ".gemini" / "settings.json"
    settings.parent.mkdir()
    document = {"hooks": GEMINI.hooks(shared=True)}
    text = json.dumps(document)
    settings.write_text(text)

    def settings_refusal(tool: str, **tool_input: object) -> str:
        call = {
            "tool_name": tool,
            "tool_input": {"file_path": str(settings), **tool_input},
            "cwd": str(root),
        }
        return guard.refusal(call, str(root))

    off = [{"enabled": False}, {"disabled": ["vibe-gate guard"]}]
    for content in ("{}", *(json.dumps(document | {"hooksConfig": config}) for config in off)):
        assert "ask the user" in settings_refusal("write_file", content=content)
    assert "ask the user" in settings_refusal(
        "replace", old_string="guard", new_string="x", allow_multiple=True
    )
    assert (
        settings_refusal("write_file", content=json.dumps(document | {"model": {"name": "m"}}))
        == ""
    )
    assert settings_refusal("replace", old_string='{"hooks"', new_string='{"a": 1, "hooks"') == ""


def event(cwd: object = "/git", **tool_input: str) -> bytes:
    """A PreToolUse event as the CLI writes it."""
    tool = "Bash" if "command" in tool_input else "Write"
    document = {
        "session_id": "s1",
        "transcript_path": "/h/.claude/x",
        "cwd": str(cwd),
        "tool_name": tool,
    }
    return json.dumps(document | {"tool_input": tool_input}, separators=(",", ":")).encode()


def run_guard_script(data: bytes, root: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        BARE, input=data, cwd=root, env={"CLAUDE_PROJECT_DIR": str(root)}, capture_output=True
    )


def test_a_refusal_is_a_decision_in_the_form_that_claude_code_reads(tmp_path):
    root = repository(tmp_path / "r")
    result = run_guard_script(event(root, command="git commit -n"), root)
    output = json.loads(result.stdout)["hookSpecificOutput"]
    assert (result.returncode, result.stderr) == (0, b"")
    assert (output["hookEventName"], output["permissionDecision"]) == ("PreToolUse", "deny")
    assert output["permissionDecisionReason"].startswith(
        "vibe-gate: `git commit` without its hooks"
    )


def test_a_refusal_of_geminis_guard_is_a_decision_in_the_form_that_gemini_cli_reads(tmp_path):
    root = repository(tmp_path / "r")
    call = {
        "session_id": "s1",
        "cwd": str(root),
        "hook_event_name": "BeforeTool",
        "tool_name": "run_shell_command",
    }
    call_line = json.dumps(
        call | {"tool_input": {"command": "git commit -n"}}, separators=(",", ":")
    ).encode()
    result = subprocess.run(
        [*BARE, "gemini"], input=call_line, cwd=root, env={}, capture_output=True
    )
    decision = json.loads(result.stdout)
    assert (result.returncode, result.stderr, decision["decision"]) == (0, b"", "deny")
    assert decision["reason"].startswith("vibe-gate: `git commit` without its hooks")
    (spool,) = (root / ".git/vibe-gate/captures").iterdir()
    assert spool.name == "gemini.s1"


@pytest.mark.parametrize(
    "data",
    [
        event(command="git status"),
        event(file_path="a.py", content="git commit --no-verify"),
        event(command="git commit -m 'unclosed"),
        b"",
        b'{"tool_input":"git"}',
        b'{"tool_name":"Bash","tool_input":{"git":1}}',
        b"[" * 100_000 + b"git",
        b"\xff\xfe git",
    ],
)
def test_everything_else_goes_through_in_silence(tmp_path, data):
    result = run_guard_script(data, repository(tmp_path / "r"))
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_what_cannot_be_read_is_noted_as_a_gap(tmp_path):
    root = repository(tmp_path / "r")
    run_guard_script(event(command="git commit -m 'unclosed"), root)
    (gaps,) = (root / ".git" / "vibe-gate").glob("*/gaps")
    assert "guard: ValueError: No closing quotation" in gaps.read_text()


def test_most_calls_import_nothing():
    program = [*BARE[:3], "-X", "importtime", BARE[3]]
    for data in (
        event(command="ls"),
        event(command="python -m pytest -q"),
        event(file_path="/r/src/a.py", content="x"),
    ):
        result = subprocess.run(program, input=data, capture_output=True)
        imported = {line.rsplit("|")[-1].strip() for line in result.stderr.decode().splitlines()}
        assert not {"json", "re", "shlex", "vibe_gate"} & imported


@pytest.mark.parametrize("piece", ["git ;", "rm .git ", "cat <<A\n"])
def test_a_long_line_is_read_in_linear_time(piece):
    def read(line: str) -> None:
        commands.refusal_of_line(line, "/r", lambda folder: False)

    assert_linear(read, lambda size: piece * (size // len(piece)), 20_000)


@pytest.mark.slow
def test_a_guard_of_the_users_own_settings_refuses_only_where_vibe_gate_is_used(tmp_path, environ):
    root = repository(tmp_path / "r")
    call = {
        "session_id": "s",
        "tool_name": "Bash",
        "tool_input": {"command": "git commit -n"},
        "cwd": str(root),
    }
    call_line = json.dumps(call, separators=(",", ":")).encode()

    def run_guard() -> bytes:
        result = subprocess.run(
            [*BARE, "--user"], input=call_line, cwd=root, env=environ, capture_output=True
        )
        assert (result.returncode, result.stderr) == (0, b"")
        return result.stdout

    assert run_guard() == b""
    (root / ".vibe-gate").mkdir()
    assert b"goes around the gate" in run_guard()
    spooled = root / ".git/vibe-gate/captures/s/events.ndjson"
    assert spooled.read_bytes().count(b"\n") == 1
    # An agent may write what looks like a guard of the project's own; a real one keeps the refused
    # call itself.
    (root / ".claude").mkdir()
    for settings in ({"env": {"A": "claude_hook/capture.py"}}, {"hooks": CLAUDE.hooks()}):
        (root / SETTINGS).write_text(json.dumps(settings))
        assert b"goes around the gate" in run_guard()
        assert spooled.read_bytes().count(b"\n") == 2


def test_the_users_own_settings_are_guarded_wherever_claude_code_reads_them(
    places, monkeypatch, tmp_path
):
    settings = tmp_path / "own" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"hooks": CLAUDE.hooks(user=True)}))
    tool_input = {"file_path": str(settings), "content": "{}"}
    assert refusal(places, "Write", **tool_input) == ""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(settings.parent))
    assert "would lose hooks of vibe-gate" in refusal(places, "Write", **tool_input)
