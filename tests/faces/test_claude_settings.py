"""Claude Code's settings: our hooks go in and out, and every other byte stays."""

from __future__ import annotations

import json

import pytest

from vibe_gate.errors import UsageError
from vibe_gate.faces.claude_hook.settings import (
    Undo,
    Undos,
    add_hooks,
    drop_hooks,
    hooks_of,
    read_settings,
    write_settings,
)

GUARD = {"type": "command", "command": "/p/python", "args": ["-I", "-S", "/p/vibe_gate/faces/claude_hook/guard.py"]}
CAPTURE = GUARD | {"args": ["-I", "-S", "/p/vibe_gate/faces/claude_hook/capture.py"], "async": True}
WANTED = {"Stop": [{"hooks": [CAPTURE]}], "PreToolUse": [{"matcher": "Bash", "hooks": [GUARD]}]}
FOREIGN = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo theirs"}]}


def dumped(value, **layout):
    return json.dumps(value, **layout) + "\n"


TEXTS = {
    "an empty object": "{}",
    "an empty object and a line feed": "{}\n",
    "other settings": dumped({"model": "opus", "permissions": {"allow": ["Bash(ls:*)"]}}, indent=2),
    "four spaces": dumped({"model": "opus", "env": {"A": "b"}}, indent=4),
    "tabs": dumped({"model": "opus", "env": {"A": "b"}}, indent="\t"),
    "one line": '{"model":"opus","env":{"A":"b"}}',
    "one line with spaces": '{ "model": "opus" , "env": {} }\n',
    "windows line ends": dumped({"model": "opus", "env": {"A": "b"}}, indent=2).replace("\n", "\r\n"),
    "hooks of others": dumped({"hooks": {"PostToolUse": [FOREIGN]}, "model": "opus"}, indent=2),
    "others at our events": dumped({"hooks": {"Stop": [FOREIGN, FOREIGN], "PreToolUse": [FOREIGN]}}, indent=2),
    "hooks first": dumped({"hooks": {"Stop": [FOREIGN]}, "z": 1}, indent=2),
    "a layout of its own": '{\n  "a": ["b",\n     "c"], "n": 1.50,\n\n  "hooks" : { "Stop" :[{"hooks":[]}] }\n}',
    "letters beyond ASCII": '{\n  "grün": "\\u00e9 é 🙂"\n}\n',
    "no last line feed": '{\n  "a": 1\n}',
    "space around": '\n\n  {\n    "a": 1\n  }  \n\n',
    "a key that looks like ours": dumped({"env": {"hooks": "{}", "x": '"hooks": {'}}, indent=2),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_install_adds_and_uninstall_gives_every_byte_back(text):
    merged = add_hooks(text, WANTED, "settings.json")
    assert hooks_of(merged, "settings.json") == WANTED
    without = json.loads(merged)
    for event, groups in json.loads(text).get("hooks", {}).items():
        assert without["hooks"][event][: len(groups)] == groups
    assert {**without, "hooks": None} == {**json.loads(text), "hooks": None}
    assert drop_hooks(merged, "settings.json") == text


BARE = {
    "space in braces": "{ }",
    "an empty line": "{\n\n}\n",
    "hooks of nobody": dumped({"hooks": {}}),
    "an event of nobody": dumped({"hooks": {"Stop": []}, "a": 1}, indent=2),
    "spread out": '{ "hooks" : {\n  } }',
}


@pytest.mark.parametrize("text", (TEXTS | BARE).values(), ids=TEXTS | BARE)
def test_what_was_written_can_be_undone_to_the_byte(text):
    merged = add_hooks(text, WANTED, "settings.json")
    undo = Undo.between(text, merged)
    assert undo.fits(merged) and not undo.fits(merged + " ")
    assert undo.before(merged) == text


def test_undos_are_remembered_by_file_and_leave_no_trace(tmp_path):
    undos = Undos(tmp_path / "state" / "undo.json")
    first, second = Undo.between("{}", "{1}"), Undo.between(None, "{2}", folder=True)
    undos.keep(tmp_path / "a", first)
    undos.keep(tmp_path / "b", second)
    assert (undos.of(tmp_path / "a"), undos.of(tmp_path / "b"), undos.of(tmp_path / "c")) == (first, second, None)
    undos.forget(tmp_path / "a")
    undos.forget(tmp_path / "a")
    undos.forget(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"PATH": 1}', '{"PATH": {"x": 1}}', "[" * 9999])
def test_a_damaged_memory_is_none(tmp_path, damaged):
    (tmp_path / "undo.json").write_text(damaged.replace("PATH", str(tmp_path / "a")))
    assert Undos(tmp_path / "undo.json").of(tmp_path / "a") is None


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_twice_is_once(text):
    once = add_hooks(text, WANTED, "settings.json")
    assert add_hooks(once, WANTED, "settings.json") == once


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hooks_of_an_older_installation_are_replaced(text):
    old = {
        "Stop": [{"hooks": [CAPTURE | {"command": "/old/python"}]}],
        "SessionStart": [{"hooks": [CAPTURE]}],
    }
    assert hooks_of(add_hooks(add_hooks(text, old, "s"), WANTED, "s"), "s") == WANTED


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_was_never_installed_is_not_taken_away(text):
    assert drop_hooks(text, "settings.json") == text


def test_what_others_added_later_stays():
    merged = add_hooks(TEXTS["other settings"], WANTED, "s")
    document = json.loads(merged)
    document["hooks"]["Stop"].append(FOREIGN)
    document["hooks"]["Stop"].insert(0, FOREIGN)
    left = json.loads(drop_hooks(json.dumps(document), "s"))
    assert left["hooks"] == {"Stop": [FOREIGN, FOREIGN]}


def test_our_hook_in_a_group_with_others_leaves_the_others():
    text = dumped({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo theirs"}, CAPTURE]}]}}, indent=2)
    left = json.loads(drop_hooks(text, "s"))
    assert left == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo theirs"}]}]}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"hooks": []}',
        '{"hooks": {"Stop": {}}}',
        '{"a": 1, "a": 2}',
        "// x\n{}",
        "{'a': 1}",
        "[" * 9999,
    ],
)
def test_what_is_no_settings_file_is_refused_with_a_sentence(text):
    for change in (lambda: add_hooks(text, WANTED, "settings.json"), lambda: drop_hooks(text, "settings.json")):
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
    for change in (lambda: read_settings(path, tmp_path), lambda: write_settings(path, tmp_path, "x")):
        with pytest.raises(UsageError, match="is a symbolic link"):
            change()
    assert (tmp_path / "outside" / "settings.json").read_text() == "{}"


@pytest.mark.parametrize("mode", [0o640, 0o664, 0o600])
def test_a_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "settings.json"
    path.write_text("{}")
    path.chmod(mode)
    write_settings(path, tmp_path, '{"a": 1}')
    assert (path.read_text(), path.stat().st_mode & 0o777) == ('{"a": 1}', mode)
