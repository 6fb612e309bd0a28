"""`install claude` and `uninstall claude`: where they write, and what they say."""

from __future__ import annotations

import json

import pytest
from program import git, repository, vibe_gate


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ((), "r/.claude/settings.json"),
        (("--local",), "r/.claude/settings.local.json"),
        (("--user",), "h/settings.json"),
    ],
)
def test_the_command_installs_where_it_is_told(tmp_path, environ, option, place):
    where = repository(tmp_path / "r")
    environ = environ | {"CLAUDE_CONFIG_DIR": str(tmp_path / "h")}
    (where / "deep").mkdir()
    done = vibe_gate("install", "claude", *option, cwd=where / "deep", environ=environ)
    assert done.returncode == 0, done.stderr
    assert ("a policy file" in done.stderr) is (option == ())
    hooks = json.loads((tmp_path / place).read_text())["hooks"]
    (guard,) = hooks["PreToolUse"]
    assert guard["hooks"][0]["args"][:2] == ["-I", "-S"]
    assert guard["hooks"][0]["command"].startswith("/")
    assert "async" not in guard["hooks"][0]
    assert hooks["PostToolUse"][0]["hooks"][0]["async"] is True
    assert vibe_gate("install", "claude", *option, cwd=where, environ=environ).stdout.startswith("unchanged")
    assert vibe_gate("uninstall", "claude", *option, cwd=where, environ=environ).returncode == 0
    assert not (tmp_path / place).exists()
    assert vibe_gate("uninstall", "claude", *option, cwd=where, environ=environ).stdout.startswith("unchanged")


def test_settings_that_are_no_json_are_left_alone(tmp_path, environ):
    where = repository(tmp_path / "r")
    (where / ".claude").mkdir()
    (where / ".claude" / "settings.json").write_text("{ // mine\n}")
    done = vibe_gate("install", "claude", cwd=where, environ=environ)
    assert done.returncode == 2
    assert "no valid JSON" in done.stderr
    assert (where / ".claude" / "settings.json").read_text() == "{ // mine\n}"


def test_the_installation_is_a_warning_in_the_next_review(tmp_path, environ):
    where = repository(tmp_path / "r")
    vibe_gate("install", "claude", cwd=where, environ=environ)
    git(where, "add", "-A")
    done = vibe_gate("review", "--staged", "--no-judge", "--json", cwd=where, environ=environ)
    findings = json.loads(done.stdout)["findings"]
    assert [(finding["path"], finding["level"]) for finding in findings] == [(".claude/settings.json", "warning")]
