"""`install` and `uninstall` for agents: where they write, and what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
from command import on_a_terminal, vibe_gate
from faces.jobs import FORBIDDEN
from program import git, repository


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ((), "r/.claude/settings.local.json"),
        (("--shared",), "r/.claude/settings.json"),
    ],
)
def test_the_command_installs_where_it_is_told(tmp_path, environ, option, place):
    repo = repository(tmp_path / "r")
    (repo / "deep").mkdir()
    result = vibe_gate("install", "claude", *option, cwd=repo / "deep", environ=environ)
    assert result.returncode == 0, result.stderr
    assert ("affects agents" in result.stderr) is (option == ("--shared",))
    hooks = json.loads((tmp_path / place).read_text())["hooks"]
    result = vibe_gate(
        "uninstall", "claude", *(() if option else ("--shared",)), cwd=repo, environ=environ
    )
    assert (result.code, "--shared and --user mean other files" in result.out) == (0, True)
    assert vibe_gate("install", "claude", *option, cwd=repo, environ=environ).code == 0
    (guard,) = hooks["PreToolUse"]
    if option == ("--shared",):
        assert (guard["hooks"][0]["command"], guard["hooks"][0]["args"]) == ("vibe-gate", ["guard"])
    else:
        assert guard["hooks"][0]["args"][:2] == ["-I", "-S"]
        assert guard["hooks"][0]["command"].startswith("/")
    assert "async" not in guard["hooks"][0]
    assert hooks["PostToolUse"][0]["hooks"][0]["async"] is True
    assert vibe_gate("install", "claude", *option, cwd=repo, environ=environ).stdout.startswith(
        "unchanged"
    )
    assert vibe_gate("uninstall", "claude", *option, cwd=repo, environ=environ).returncode == 0
    assert not (tmp_path / place).parent.exists()
    assert not (repo / ".git" / "vibe-gate").exists()
    assert not (repo / ".git" / "hooks" / "reference-transaction").exists()
    assert vibe_gate("uninstall", "claude", *option, cwd=repo, environ=environ).stdout.startswith(
        "unchanged"
    )


def test_git_ignores_the_settings_of_this_machine_until_the_last_working_tree_gives_them_back(
    tmp_path, environ
):
    repo, linked = repository(tmp_path / "r"), tmp_path / "linked"
    git(repo, "worktree", "add", "-q", str(linked))
    file = repo / ".git" / "info" / "exclude"
    file.parent.mkdir(exist_ok=True)
    own_lines = b"*.o \xff\nbuild"  # the user's, without a last line feed
    file.write_bytes(own_lines)
    for root in (linked, repo):
        assert vibe_gate("install", "claude", cwd=root, environ=environ).code == 0
        git(root, "add", "-A")
        assert git(root, "status", "--porcelain") == ""
    assert (
        file.read_bytes()
        == b"# vibe-gate install claude\n/.claude/settings.local.json\n" + own_lines
    )
    for root, expected in ((repo, file.read_bytes()), (linked, own_lines)):
        assert vibe_gate("uninstall", "claude", cwd=root, environ=environ).code == 0
        assert file.read_bytes() == expected
    file.unlink()
    (mine := tmp_path / "mine").write_bytes(own_lines)
    for planted in (lambda: os.mkfifo(file), lambda: file.symlink_to(mine)):
        planted()
        result = vibe_gate("install", "claude", cwd=repo, environ=environ)
        assert (result.code, f"git was not told to ignore it: {file} " in result.err) == (0, True)
        result = vibe_gate("uninstall", "claude", cwd=repo, environ=environ)
        assert (result.code, f"was not looked at: {file} " in result.err) == (0, True)
        assert not (repo / ".git" / "hooks" / "reference-transaction").exists()
        file.unlink()
    assert mine.read_bytes() == own_lines
    assert "info/exclude" in vibe_gate("install", "claude", cwd=repo, environ=environ).out
    git(repo, "add", "-f", ".claude/settings.local.json")
    assert "git rm --cached" in vibe_gate("install", "claude", cwd=repo, environ=environ).err
    assert vibe_gate("uninstall", "claude", cwd=repo, environ=environ).code == 0
    assert not file.exists()


def test_with_user_the_hooks_go_into_the_users_own_settings_from_anywhere_and_out_again(
    tmp_path, environ
):
    environ = environ | {"HOME": str(tmp_path / "h")}
    settings = tmp_path / "h" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    before = '{\n\t"model": "opus",\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n'
    settings.write_text(before)
    result = vibe_gate("install", "claude", "--user", cwd=tmp_path, environ=environ)
    assert result.code == 0
    assert result.out.splitlines() == [
        f"merged  capture and guard into {settings}",
        "Restart running sessions of Claude Code to load it.",
    ]
    assert "Elsewhere they do nothing" in result.err
    text = settings.read_text()
    assert text.startswith('{\n\t"model": "opus",\n\t"hooks": {')
    (guard,) = json.loads(text)["hooks"]["PreToolUse"]
    assert guard["hooks"][0]["args"][:2] + guard["hooks"][0]["args"][3:] == ["-I", "-S", "--user"]
    assert vibe_gate("install", "claude", "--user", cwd=tmp_path, environ=environ).out.startswith(
        "unchanged"
    )
    agent = environ | {"CLAUDECODE": "1"}
    assert vibe_gate("uninstall", "claude", "--user", cwd=tmp_path, environ=agent).code == 2
    result = vibe_gate("uninstall", "claude", "--user", cwd=tmp_path, environ=environ)
    assert (result.code, result.out) == (0, f"cleaned  {settings}\n")
    assert json.loads(settings.read_text()) == {"model": "opus"}


def test_the_users_own_settings_are_where_claude_code_reads_them_through_links_of_the_users_own(
    tmp_path, environ
):
    repo, dotfiles = repository(tmp_path / "r"), tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "settings.json").write_text("{}\n")
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "settings.json").symlink_to(dotfiles / "settings.json")
    environ = environ | {"CLAUDE_CONFIG_DIR": str(folder)}
    assert vibe_gate("install", "claude", "--user", cwd=repo, environ=environ).code == 0
    assert (folder / "settings.json").is_symlink()
    assert "PreToolUse" in json.loads((dotfiles / "settings.json").read_text())["hooks"]
    assert not (repo / ".git" / "hooks" / "reference-transaction").exists()
    assert not (repo / ".claude").exists()
    installation = vibe_gate(
        "install",
        "claude",
        "--user",
        cwd=repo,
        environ=environ | {"CLAUDE_CONFIG_DIR": str(tmp_path / "n/m")},
    )
    assert installation.out.splitlines()[0] == (
        f"wrote  capture and guard into {tmp_path / 'n/m/settings.json'}"
    )


@pytest.mark.parametrize(
    ("options", "variables", "sentence"),
    [
        (("--user", "--shared"), {}, "--shared and --user mean different files"),
        (("--user",), {"HOME": ""}, "neither HOME nor CLAUDE_CONFIG_DIR is set"),
        (("--user",), {"HOME": "home"}, "home/.claude is a relative path"),
    ],
)
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_what_cannot_be_meant_is_said(tmp_path, environ, command, options, variables, sentence):
    result = vibe_gate(command, "claude", *options, cwd=tmp_path, environ=environ | variables)
    assert (result.code, sentence in result.err) == (2, True)


@pytest.mark.slow
def test_git_refuses_what_the_guard_cannot_see(tmp_path, environ):
    repo = repository(tmp_path / "r")
    result = vibe_gate("install", "claude", cwd=repo, environ=environ)
    assert "reference-transaction" in result.stdout
    assert "No gate at commits yet, and git refuses nothing until there is" in result.stderr
    agent = {"CLAUDECODE": "1"}
    git(repo, "commit", "-q", "--allow-empty", "-nm", "free", **agent)
    (repo / "a.txt").write_text("two\n")
    git(repo, "commit", "-qanm", "free as long as no gate stands at commits", **agent)
    assert vibe_gate("install", "git", cwd=repo, environ=environ).returncode == 0
    (repo / "a.txt").write_text("three\n")
    assert vibe_gate("uninstall", "git", cwd=repo, environ=environ | agent).returncode == 2
    with pytest.raises(subprocess.CalledProcessError):
        git(repo, "commit", "-qanm", "refused", **agent)
    assert vibe_gate("uninstall", "claude", cwd=repo, environ=environ).returncode == 0
    assert (repo / ".git" / "hooks" / "reference-transaction").exists()  # that of `install git`


def test_the_installation_is_a_warning_in_the_next_review_of_a_repository_with_a_gate(
    tmp_path, environ
):
    repo = repository(tmp_path / "r")
    (repo / ".vibe-gate" / "rubrics").mkdir(parents=True)
    (repo / ".vibe-gate" / "rubrics" / "quality.toml").write_text(FORBIDDEN)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "gate")
    vibe_gate("install", "claude", "--shared", cwd=repo, environ=environ)
    git(repo, "add", "-A")
    review = vibe_gate("review", "--staged", "--no-judge", "--json", cwd=repo, environ=environ)
    findings = json.loads(review.stdout)["findings"]
    assert [(finding["path"], finding["level"]) for finding in findings] == [
        (".claude/settings.json", "warning")
    ]


def test_geminis_hooks_go_into_its_one_file_which_is_this_machines_own_unless_it_is_shared(
    tmp_path, environ
):
    repo = repository(tmp_path / "r")
    settings, ignored = repo / ".gemini" / "settings.json", repo / ".git" / "info" / "exclude"
    settings.parent.mkdir()
    before = '{\n    "ui": {"theme": "x"},\n    "hooks": {\n        "AfterTool": []\n    }\n}'
    settings.write_text(before)
    result = vibe_gate("install", "gemini", cwd=repo, environ=environ)
    assert (result.code, "only if you trust the folder" in result.err) == (0, True)
    document = json.loads(settings.read_text())
    (guard,), hook = document["hooks"]["BeforeTool"], document["hooks"]["AfterTool"][0]["hooks"][0]
    assert (list(document), hook["timeout"]) == (["ui", "hooks"], 10_000)
    assert hook["command"].endswith("capture.py gemini || true")
    assert re.search(guard["matcher"], "write_file")
    assert not re.search(guard["matcher"], "read_file")
    assert b"/.gemini/settings.json" in ignored.read_bytes()
    assert vibe_gate("install", "gemini", cwd=repo, environ=environ).out.startswith("unchanged")

    assert vibe_gate("install", "gemini", "--shared", cwd=repo, environ=environ).code == 0
    shared = json.loads(settings.read_text())["hooks"]["BeforeTool"]
    assert [hook["command"] for hook in shared[0]["hooks"]] == ["vibe-gate guard gemini || true"]
    assert not ignored.exists() or b".gemini" not in ignored.read_bytes()
    git(repo, "add", ".gemini")
    result = vibe_gate("install", "gemini", cwd=repo, environ=environ)
    assert (result.code, "use `install gemini --shared` or `--user`" in result.err) == (2, True)

    assert (
        vibe_gate("uninstall", "gemini", cwd=repo, environ=environ | {"GEMINI_CLI": "1"}).code == 2
    )
    assert vibe_gate("uninstall", "gemini", cwd=repo, environ=environ).code == 0
    assert json.loads(settings.read_text()) == {"ui": {"theme": "x"}}
    assert not (repo / ".git" / "hooks" / "reference-transaction").exists()

    user_settings = tmp_path / "home" / ".gemini" / "settings.json"
    around = environ | {"GEMINI_CLI_HOME": str(tmp_path / "home")}
    result = vibe_gate("install", "gemini", "--user", cwd=tmp_path, environ=around)
    assert (result.code, result.out.splitlines()[0]) == (
        0,
        f"wrote  capture and guard into {user_settings}",
    )
    assert "capture.py gemini --user || true" in user_settings.read_text()


def test_codexs_hooks_go_into_a_file_of_their_own_and_a_person_is_told_to_trust_them(
    tmp_path, environ
):
    repo = repository(tmp_path / "r")
    result = vibe_gate("install", "codex", cwd=repo, environ=environ)
    assert (result.code, "only after a person has trusted them" in result.err) == (0, True)
    hooks = json.loads((repo / ".codex" / "hooks.json").read_text())["hooks"]
    assert hooks["PostToolUse"][0]["hooks"][0]["command"].endswith("capture.py codex || true")
    assert hooks["PreToolUse"][0]["matcher"] == "^(Bash|apply_patch)$"
    assert git(repo, "status", "--porcelain") == ""
    assert vibe_gate("uninstall", "codex", cwd=repo, environ=environ).code == 0
    assert not (repo / ".codex").exists()
    around = environ | {"CODEX_HOME": str(tmp_path / "own")}
    result = vibe_gate("install", "codex", "--user", cwd=tmp_path, environ=around)
    assert result.out.startswith(f"wrote  capture and guard into {tmp_path}/own/hooks.json\n")


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path, environ):
    repo = repository(tmp_path / "r")
    (repo / ".claude").mkdir()
    os.mkfifo(repo / ".claude" / "settings.local.json")
    for command in ("install", "uninstall"):
        assert vibe_gate(command, "claude", cwd=repo, environ=environ).returncode == 2


def test_without_a_target_the_command_says_what_to_type(tmp_path, environ):
    result = vibe_gate("install", cwd=repository(tmp_path / "r"), environ=environ)
    assert (result.returncode, "SUBCOMMAND: git, claude, gemini, codex" in result.stderr) == (
        2,
        True,
    )


def stop_hooks(repo):
    """The hooks at the end of a turn in the settings of this machine."""
    document = json.loads((repo / ".claude" / "settings.local.json").read_text())
    hooks = [hook for group in document["hooks"]["Stop"] for hook in group["hooks"]]
    return [hook for hook in hooks if hook["args"][2].endswith("stop.py")]


@pytest.mark.parametrize(("typed", "count"), [(b"\n", 1), (b"y\n", 1), (b"n\n", 0)])
def test_at_a_terminal_the_first_installation_asks_whether_turns_are_reviewed(
    tmp_path, environ, typed, count
):
    repo = repository(tmp_path / "r")
    code, screen = on_a_terminal(repo, environ, "install", "claude", typed=typed)
    assert (code, screen.count("Do that? [Y/n]")) == (0, 1)
    assert len(stop_hooks(repo)) == count
    code, screen = on_a_terminal(repo, environ, "install", "claude", typed=b"\n")
    assert (code, screen.count("Do that? [Y/n]")) == (0, 0)
    assert len(stop_hooks(repo)) == count


def test_without_a_terminal_turns_are_reviewed_only_if_the_command_says_so(tmp_path, environ):
    repo = repository(tmp_path / "r")
    result = vibe_gate("install", "claude", cwd=repo, environ=environ)
    assert (result.code, stop_hooks(repo)) == (0, [])
    assert "`vibe-gate install claude --stop` adds that" in result.err
    result = vibe_gate("install", "claude", "--stop", cwd=repo, environ=environ)
    assert "merged  capture, guard and stop" in result.out
    (hook,) = stop_hooks(repo)
    assert hook["timeout"] > 600
    assert "async" not in hook
    result = vibe_gate("install", "claude", cwd=repo, environ=environ)
    assert "capture, guard and stop are there already" in result.out
    result = vibe_gate("install", "claude", "--no-stop", cwd=repo, environ=environ)
    assert (result.code, stop_hooks(repo)) == (0, [])
    result = vibe_gate("install", "claude", "--stop", "--no-stop", cwd=repo, environ=environ)
    assert (result.code, "contradict" in result.err) == (2, True)


def test_an_agent_may_have_its_turns_reviewed_and_not_take_that_away(tmp_path, environ):
    repo = repository(tmp_path / "r")
    agents = {**environ, "CLAUDECODE": "1"}
    assert vibe_gate("install", "claude", "--stop", cwd=repo, environ=agents).code == 0
    result = vibe_gate("install", "claude", "--no-stop", cwd=repo, environ=agents)
    assert (result.code, len(stop_hooks(repo))) == (2, 1)
    assert "an agent may not remove the gate" in result.err
    result = vibe_gate("install", "claude", cwd=repo, environ=agents)
    assert (result.code, len(stop_hooks(repo))) == (0, 1)
    assert vibe_gate("uninstall", "claude", cwd=repo, environ=environ).code == 0
    assert not (repo / ".claude").exists()
