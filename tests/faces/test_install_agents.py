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
    where = repository(tmp_path / "r")
    (where / "deep").mkdir()
    done = vibe_gate("install", "claude", *option, cwd=where / "deep", environ=environ)
    assert done.returncode == 0, done.stderr
    assert ("affects agents" in done.stderr) is (option == ("--shared",))
    hooks = json.loads((tmp_path / place).read_text())["hooks"]
    done = vibe_gate(
        "uninstall", "claude", *(() if option else ("--shared",)), cwd=where, environ=environ
    )
    assert (done.code, "--shared and --user mean other files" in done.out) == (0, True)
    assert vibe_gate("install", "claude", *option, cwd=where, environ=environ).code == 0
    (guard,) = hooks["PreToolUse"]
    if option == ("--shared",):
        assert (guard["hooks"][0]["command"], guard["hooks"][0]["args"]) == ("vibe-gate", ["guard"])
    else:
        assert guard["hooks"][0]["args"][:2] == ["-I", "-S"]
        assert guard["hooks"][0]["command"].startswith("/")
    assert "async" not in guard["hooks"][0]
    assert hooks["PostToolUse"][0]["hooks"][0]["async"] is True
    assert vibe_gate("install", "claude", *option, cwd=where, environ=environ).stdout.startswith(
        "unchanged"
    )
    assert vibe_gate("uninstall", "claude", *option, cwd=where, environ=environ).returncode == 0
    assert not (tmp_path / place).parent.exists()
    assert not (where / ".git" / "vibe-gate").exists()
    assert not (where / ".git" / "hooks" / "reference-transaction").exists()
    assert vibe_gate("uninstall", "claude", *option, cwd=where, environ=environ).stdout.startswith(
        "unchanged"
    )


def test_git_ignores_the_settings_of_this_machine_until_the_last_working_tree_gives_them_back(
    tmp_path, environ
):
    where, linked = repository(tmp_path / "r"), tmp_path / "linked"
    git(where, "worktree", "add", "-q", str(linked))
    file = where / ".git" / "info" / "exclude"
    file.parent.mkdir(exist_ok=True)
    own = b"*.o \xff\nbuild"  # the user's, without a last line feed
    file.write_bytes(own)
    for root in (linked, where):
        assert vibe_gate("install", "claude", cwd=root, environ=environ).code == 0
        git(root, "add", "-A")
        assert git(root, "status", "--porcelain") == ""
    assert file.read_bytes() == b"# vibe-gate install claude\n/.claude/settings.local.json\n" + own
    for root, left in ((where, file.read_bytes()), (linked, own)):
        assert vibe_gate("uninstall", "claude", cwd=root, environ=environ).code == 0
        assert file.read_bytes() == left
    file.unlink()
    (mine := tmp_path / "mine").write_bytes(own)
    for planted in (lambda: os.mkfifo(file), lambda: file.symlink_to(mine)):
        planted()
        done = vibe_gate("install", "claude", cwd=where, environ=environ)
        assert (done.code, f"git was not told to ignore it: {file} " in done.err) == (0, True)
        done = vibe_gate("uninstall", "claude", cwd=where, environ=environ)
        assert (done.code, f"was not looked at: {file} " in done.err) == (0, True)
        assert not (where / ".git" / "hooks" / "reference-transaction").exists()
        file.unlink()
    assert mine.read_bytes() == own
    assert "info/exclude" in vibe_gate("install", "claude", cwd=where, environ=environ).out
    git(where, "add", "-f", ".claude/settings.local.json")
    assert "git rm --cached" in vibe_gate("install", "claude", cwd=where, environ=environ).err
    assert vibe_gate("uninstall", "claude", cwd=where, environ=environ).code == 0
    assert not file.exists()


def test_with_user_the_hooks_go_into_the_users_own_settings_from_anywhere_and_out_again(
    tmp_path, environ
):
    environ = environ | {"HOME": str(tmp_path / "h")}
    settings = tmp_path / "h" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    before = '{\n\t"model": "opus",\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n'
    settings.write_text(before)
    done = vibe_gate("install", "claude", "--user", cwd=tmp_path, environ=environ)
    assert done.code == 0
    assert done.out.splitlines() == [
        f"merged  capture and guard into {settings}",
        "Restart running sessions of Claude Code to load it.",
    ]
    assert "Elsewhere they do nothing" in done.err
    text = settings.read_text()
    assert text.startswith('{\n\t"model": "opus",\n\t"hooks": {')
    (guard,) = json.loads(text)["hooks"]["PreToolUse"]
    assert guard["hooks"][0]["args"][:2] + guard["hooks"][0]["args"][3:] == ["-I", "-S", "--user"]
    assert vibe_gate("install", "claude", "--user", cwd=tmp_path, environ=environ).out.startswith(
        "unchanged"
    )
    agent = environ | {"CLAUDECODE": "1"}
    assert vibe_gate("uninstall", "claude", "--user", cwd=tmp_path, environ=agent).code == 2
    done = vibe_gate("uninstall", "claude", "--user", cwd=tmp_path, environ=environ)
    assert (done.code, done.out) == (0, f"cleaned  {settings}\n")
    assert json.loads(settings.read_text()) == {"model": "opus"}


def test_the_users_own_settings_are_where_claude_code_reads_them_through_links_of_the_users_own(
    tmp_path, environ
):
    where, dotfiles = repository(tmp_path / "r"), tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "settings.json").write_text("{}\n")
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "settings.json").symlink_to(dotfiles / "settings.json")
    environ = environ | {"CLAUDE_CONFIG_DIR": str(folder)}
    assert vibe_gate("install", "claude", "--user", cwd=where, environ=environ).code == 0
    assert (folder / "settings.json").is_symlink()
    assert "PreToolUse" in json.loads((dotfiles / "settings.json").read_text())["hooks"]
    assert not (where / ".git" / "hooks" / "reference-transaction").exists()
    assert not (where / ".claude").exists()
    own = vibe_gate(
        "install",
        "claude",
        "--user",
        cwd=where,
        environ=environ | {"CLAUDE_CONFIG_DIR": str(tmp_path / "n/m")},
    )
    assert own.out.splitlines()[0] == (
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
    done = vibe_gate(command, "claude", *options, cwd=tmp_path, environ=environ | variables)
    assert (done.code, sentence in done.err) == (2, True)


@pytest.mark.slow
def test_git_refuses_what_the_guard_cannot_see(tmp_path, environ):
    where = repository(tmp_path / "r")
    done = vibe_gate("install", "claude", cwd=where, environ=environ)
    assert "reference-transaction" in done.stdout
    assert "No gate at commits yet, and git refuses nothing until there is" in done.stderr
    agent = {"CLAUDECODE": "1"}
    git(where, "commit", "-q", "--allow-empty", "-nm", "free", **agent)
    (where / "a.txt").write_text("two\n")
    git(where, "commit", "-qanm", "free as long as no gate stands at commits", **agent)
    assert vibe_gate("install", "git", cwd=where, environ=environ).returncode == 0
    (where / "a.txt").write_text("three\n")
    assert vibe_gate("uninstall", "git", cwd=where, environ=environ | agent).returncode == 2
    with pytest.raises(subprocess.CalledProcessError):
        git(where, "commit", "-qanm", "refused", **agent)
    assert vibe_gate("uninstall", "claude", cwd=where, environ=environ).returncode == 0
    assert (where / ".git" / "hooks" / "reference-transaction").exists()  # that of `install git`


def test_the_installation_is_a_warning_in_the_next_review_of_a_repository_with_a_gate(
    tmp_path, environ
):
    where = repository(tmp_path / "r")
    (where / ".vibe-gate" / "rubrics").mkdir(parents=True)
    (where / ".vibe-gate" / "rubrics" / "quality.toml").write_text(FORBIDDEN)
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", "gate")
    vibe_gate("install", "claude", "--shared", cwd=where, environ=environ)
    git(where, "add", "-A")
    done = vibe_gate("review", "--staged", "--no-judge", "--json", cwd=where, environ=environ)
    findings = json.loads(done.stdout)["findings"]
    assert [(finding["path"], finding["level"]) for finding in findings] == [
        (".claude/settings.json", "warning")
    ]


def test_geminis_hooks_go_into_its_one_file_which_is_this_machines_own_unless_it_is_shared(
    tmp_path, environ
):
    where = repository(tmp_path / "r")
    settings, ignored = where / ".gemini" / "settings.json", where / ".git" / "info" / "exclude"
    settings.parent.mkdir()
    before = '{\n    "ui": {"theme": "x"},\n    "hooks": {\n        "AfterTool": []\n    }\n}'
    settings.write_text(before)
    done = vibe_gate("install", "gemini", cwd=where, environ=environ)
    assert (done.code, "only if you trust the folder" in done.err) == (0, True)
    document = json.loads(settings.read_text())
    (guard,), hook = document["hooks"]["BeforeTool"], document["hooks"]["AfterTool"][0]["hooks"][0]
    assert (list(document), hook["timeout"]) == (["ui", "hooks"], 10_000)
    assert hook["command"].endswith("capture.py gemini || true")
    assert re.search(guard["matcher"], "write_file")
    assert not re.search(guard["matcher"], "read_file")
    assert b"/.gemini/settings.json" in ignored.read_bytes()
    assert vibe_gate("install", "gemini", cwd=where, environ=environ).out.startswith("unchanged")

    assert vibe_gate("install", "gemini", "--shared", cwd=where, environ=environ).code == 0
    shared = json.loads(settings.read_text())["hooks"]["BeforeTool"]
    assert [hook["command"] for hook in shared[0]["hooks"]] == ["vibe-gate guard gemini || true"]
    assert not ignored.exists() or b".gemini" not in ignored.read_bytes()
    git(where, "add", ".gemini")
    done = vibe_gate("install", "gemini", cwd=where, environ=environ)
    assert (done.code, "use `install gemini --shared` or `--user`" in done.err) == (2, True)

    assert (
        vibe_gate("uninstall", "gemini", cwd=where, environ=environ | {"GEMINI_CLI": "1"}).code == 2
    )
    assert vibe_gate("uninstall", "gemini", cwd=where, environ=environ).code == 0
    assert json.loads(settings.read_text()) == {"ui": {"theme": "x"}}
    assert not (where / ".git" / "hooks" / "reference-transaction").exists()

    own = tmp_path / "home" / ".gemini" / "settings.json"
    around = environ | {"GEMINI_CLI_HOME": str(tmp_path / "home")}
    done = vibe_gate("install", "gemini", "--user", cwd=tmp_path, environ=around)
    assert (done.code, done.out.splitlines()[0]) == (0, f"wrote  capture and guard into {own}")
    assert "capture.py gemini --user || true" in own.read_text()


def test_codexs_hooks_go_into_a_file_of_their_own_and_a_person_is_told_to_trust_them(
    tmp_path, environ
):
    where = repository(tmp_path / "r")
    done = vibe_gate("install", "codex", cwd=where, environ=environ)
    assert (done.code, "only after a person has trusted them" in done.err) == (0, True)
    hooks = json.loads((where / ".codex" / "hooks.json").read_text())["hooks"]
    assert hooks["PostToolUse"][0]["hooks"][0]["command"].endswith("capture.py codex || true")
    assert hooks["PreToolUse"][0]["matcher"] == "^(Bash|apply_patch)$"
    assert git(where, "status", "--porcelain") == ""
    assert vibe_gate("uninstall", "codex", cwd=where, environ=environ).code == 0
    assert not (where / ".codex").exists()
    around = environ | {"CODEX_HOME": str(tmp_path / "own")}
    done = vibe_gate("install", "codex", "--user", cwd=tmp_path, environ=around)
    assert done.out.startswith(f"wrote  capture and guard into {tmp_path}/own/hooks.json\n")


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path, environ):
    where = repository(tmp_path / "r")
    (where / ".claude").mkdir()
    os.mkfifo(where / ".claude" / "settings.local.json")
    for command in ("install", "uninstall"):
        assert vibe_gate(command, "claude", cwd=where, environ=environ).returncode == 2


def test_without_a_target_the_command_says_what_to_type(tmp_path, environ):
    done = vibe_gate("install", cwd=repository(tmp_path / "r"), environ=environ)
    assert (done.returncode, "SUBCOMMAND: git, claude, gemini, codex" in done.stderr) == (2, True)


def stop_hooks(where):
    """The hooks at the end of a turn in the settings of this machine."""
    document = json.loads((where / ".claude" / "settings.local.json").read_text())
    hooks = [hook for group in document["hooks"]["Stop"] for hook in group["hooks"]]
    return [hook for hook in hooks if hook["args"][2].endswith("stop.py")]


@pytest.mark.parametrize(("typed", "count"), [(b"\n", 1), (b"y\n", 1), (b"n\n", 0)])
def test_at_a_terminal_the_first_installation_asks_whether_turns_are_reviewed(
    tmp_path, environ, typed, count
):
    where = repository(tmp_path / "r")
    code, screen = on_a_terminal(where, environ, "install", "claude", typed=typed)
    assert (code, screen.count("Do that? [Y/n]")) == (0, 1)
    assert len(stop_hooks(where)) == count
    code, screen = on_a_terminal(where, environ, "install", "claude", typed=b"\n")
    assert (code, screen.count("Do that? [Y/n]")) == (0, 0)
    assert len(stop_hooks(where)) == count


def test_without_a_terminal_turns_are_reviewed_only_if_the_command_says_so(tmp_path, environ):
    where = repository(tmp_path / "r")
    done = vibe_gate("install", "claude", cwd=where, environ=environ)
    assert (done.code, stop_hooks(where)) == (0, [])
    assert "`vibe-gate install claude --stop` adds that" in done.err
    done = vibe_gate("install", "claude", "--stop", cwd=where, environ=environ)
    assert "merged  capture, guard and stop" in done.out
    (hook,) = stop_hooks(where)
    assert hook["timeout"] > 600
    assert "async" not in hook
    done = vibe_gate("install", "claude", cwd=where, environ=environ)
    assert "capture, guard and stop are there already" in done.out
    done = vibe_gate("install", "claude", "--no-stop", cwd=where, environ=environ)
    assert (done.code, stop_hooks(where)) == (0, [])
    done = vibe_gate("install", "claude", "--stop", "--no-stop", cwd=where, environ=environ)
    assert (done.code, "contradict" in done.err) == (2, True)


def test_an_agent_may_have_its_turns_reviewed_and_not_take_that_away(tmp_path, environ):
    where = repository(tmp_path / "r")
    agents = {**environ, "CLAUDECODE": "1"}
    assert vibe_gate("install", "claude", "--stop", cwd=where, environ=agents).code == 0
    done = vibe_gate("install", "claude", "--no-stop", cwd=where, environ=agents)
    assert (done.code, len(stop_hooks(where))) == (2, 1)
    assert "an agent may not remove the gate" in done.err
    done = vibe_gate("install", "claude", cwd=where, environ=agents)
    assert (done.code, len(stop_hooks(where))) == (0, 1)
    assert vibe_gate("uninstall", "claude", cwd=where, environ=environ).code == 0
    assert not (where / ".claude").exists()
