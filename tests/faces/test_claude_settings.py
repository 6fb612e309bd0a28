"""Claude Code's settings: our hooks go in and out, and everything else stays."""

from __future__ import annotations

import json

import pytest

from vibe_gate.errors import UsageError
from vibe_gate.faces.agent_hook.settings import (
    add_hooks,
    drop_hooks,
    hooks_of,
    read_settings,
    write_settings,
)

GUARD = {
    "type": "command",
    "command": "/p/python",
    "args": ["-I", "-S", "/p/vibe_gate/faces/agent_hook/guard.py"],
}
CAPTURE = GUARD | {"args": ["-I", "-S", "/p/vibe_gate/faces/agent_hook/capture.py"], "async": True}
WANTED = {"Stop": [{"hooks": [CAPTURE]}], "PreToolUse": [{"matcher": "Bash", "hooks": [GUARD]}]}
FOREIGN = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo theirs"}]}


def dump_json(value, **layout):
    return json.dumps(value, **layout) + "\n"


TEXTS = {
    "other settings": dump_json(
        {"model": "opus", "permissions": {"allow": ["Bash(ls:*)"]}}, indent=2
    ),
    "tabs": dump_json({"model": "opus", "env": {"A": "b"}}, indent="\t"),
    "windows line ends": dump_json({"model": "opus", "env": {"A": "b"}}, indent=4).replace(
        "\n", "\r\n"
    ),
    "others at our events": dump_json(
        {"hooks": {"Stop": [FOREIGN, FOREIGN], "PreToolUse": [FOREIGN]}}, indent=2
    ),
    "hooks first, in groups of none": dump_json(
        {"hooks": {"Stop": [FOREIGN, {"hooks": []}]}, "z": 1}, indent=2
    ),
    "letters beyond ASCII": '{\n  "grün": "é 🙂"\n}\n',
    "no last line feed": '{\n  "a": 1\n}',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_install_adds_twice_is_once_and_uninstall_gives_every_byte_back(text):
    merged = add_hooks(text, WANTED, "settings.json")
    assert hooks_of(merged, "settings.json") == WANTED
    assert add_hooks(merged, WANTED, "settings.json") == merged
    without = json.loads(merged)
    for event, groups in json.loads(text).get("hooks", {}).items():
        assert without["hooks"][event][: len(groups)] == groups
    assert {**without, "hooks": None} == {**json.loads(text), "hooks": None}
    assert drop_hooks(merged, "settings.json") == text


@pytest.mark.parametrize("text", ["{}", '{ "hooks" : {\n  } }'])
def test_settings_that_hold_nothing_else_are_none_afterwards(text):
    assert drop_hooks(add_hooks(text, WANTED, "s"), "s") is None


def test_hooks_of_an_older_installation_are_replaced():
    old = {
        "Stop": [{"hooks": [CAPTURE | {"command": "/old/python"}]}],
        "SessionStart": [{"hooks": [CAPTURE]}],
    }
    assert hooks_of(add_hooks(add_hooks("{}", old, "s"), WANTED, "s"), "s") == WANTED


@pytest.mark.parametrize("text", ["{}", '{"model":"opus", "hooks": {"Stop": []}}'])
def test_what_was_never_installed_is_not_taken_away(text):
    assert drop_hooks(text, "settings.json") == text


def test_what_others_added_later_stays():
    merged = add_hooks(TEXTS["other settings"], WANTED, "s")
    document = json.loads(merged)
    document["hooks"]["Stop"].append(FOREIGN)
    document["hooks"]["Stop"].insert(0, FOREIGN)
    remaining = json.loads(drop_hooks(json.dumps(document), "s"))
    assert remaining["hooks"] == {"Stop": [FOREIGN, FOREIGN]}


def test_our_hook_in_a_group_with_others_leaves_the_others():
    text = dump_json(
        {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo theirs"}, CAPTURE]}]}},
        indent=2,
    )
    remaining = json.loads(drop_hooks(text, "s"))
    assert remaining == {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo theirs"}]}]}
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"hooks": []}',
        '{"hooks": {"Stop": {}}}',
        '{"a": 1, "a": 2}',
        "// x\n{}",
        "[" * 9999,
    ],
)
def test_what_is_no_settings_file_is_refused_with_a_sentence(text):
    for change in (
        lambda: add_hooks(text, WANTED, "settings.json"),
        lambda: drop_hooks(text, "settings.json"),
    ):
        with pytest.raises(UsageError, match=r"settings\.json .*Nothing was changed"):
            change()


@pytest.mark.parametrize("link", ["folder", "file"])
def test_a_link_is_never_followed(tmp_path, link):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "settings.json").write_text("{}")
    if link == "folder":
        (tmp_path / ".claude").symlink_to("outside")
    else:
        (tmp_path / ".claude").mkdir()
        (tmp_path / ".claude" / "settings.json").symlink_to("../outside/settings.json")
    path = tmp_path / ".claude" / "settings.json"
    for change in (
        lambda: read_settings(path, tmp_path),
        lambda: write_settings(path, tmp_path, "x"),
    ):
        with pytest.raises(UsageError, match="is a symbolic link"):
            change()
    assert (tmp_path / "outside" / "settings.json").read_text() == "{}"


def test_text_that_no_utf8_can_spell_stays_an_escape(tmp_path):
    text = '{"a": "\\ud800"}'
    laid = add_hooks(text, WANTED, "settings.json")
    write_settings(tmp_path / "settings.json", tmp_path, laid)
    assert json.loads((tmp_path / "settings.json").read_text())["a"] == json.loads(text)["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


@pytest.mark.parametrize("mode", [0o640, 0o664])
def test_a_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "settings.json"
    path.write_text("{}")
    path.chmod(mode)
    write_settings(path, tmp_path, '{"a": 1}')
    assert (path.read_text(), path.stat().st_mode & 0o777) == ('{"a": 1}', mode)
