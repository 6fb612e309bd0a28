"""What is left of a folder's names in what a judge said and was told."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from vibe_gate.agent.hidden_folder import HiddenFolder

HOME = "/home/Ada L. Löve"
FOLDER = f"{HOME}/.local/state/kept-export/trees"
KEY = "-home-Ada-L--L-ve--local-state-kept-export-trees"


def hide_in(value: object) -> object:
    return HiddenFolder(Path(FOLDER), KEY).hide_in(value)


@pytest.mark.parametrize(
    ("text", "hidden_text"),
    [
        (f"I read {FOLDER}/after/src/load.py.", "I read ./after/src/load.py."),
        (f"{FOLDER}", "."),
        (f"{FOLDER}/..", "./.."),
        (f"projects/{KEY}/x.jsonl", "projects/./x.jsonl"),
        (f"{Path(FOLDER).parent}/tree", "…/tree"),
        (f"{HOME}/.ssh and {HOME}.", "…/.ssh and …."),
        (f"file://{quote(FOLDER)}/after/a.py", "file://./after/a.py"),
        (f"file://{quote(HOME).lower().replace('ada%20l', 'Ada%20L').replace('l%c3', 'L%c3')}", "file://…"),
        (f"file://{FOLDER.replace(' ', '%20')}", "file://."),
        (f"ls {FOLDER.replace(' ', chr(92) + ' ')}/after", "ls ./after"),
        (json.dumps({"path": f"{HOME}/notes"}), '{"path": "…/notes"}'),
        (json.dumps(json.dumps([HOME])), json.dumps(json.dumps(["_"])).replace("_", "…")),
    ],
)  # fmt: skip
def test_of_a_folder_and_those_above_no_name_is_left(text: str, hidden_text: str) -> None:
    assert hide_in([{"text": text}]) == [{"text": hidden_text}]


def test_names_of_other_folders_stay() -> None:
    text = f"{HOME}r, /home, /home/adam, src/home"
    assert hide_in(text) == text


def test_a_home_with_signs_that_json_escapes_leaves_the_value_whole() -> None:
    hidden_folder = HiddenFolder(Path('/home/a"b\\/c'), "-home-a-b--c")
    assert hidden_folder.hide_in(['/home/a"b\\"', '/home/a"b\\', '"quote": "']) == [
        '…"', "…", '"quote": "',
    ]  # fmt: skip


def test_a_value_that_is_nested_deeply_is_hidden_in() -> None:
    depth = 900
    assert hide_in(json.loads("[" * depth + f'"{HOME}"' + "]" * depth)) == json.loads(
        "[" * depth + '"…"' + "]" * depth
    )


def test_a_key_of_a_call_is_a_text_too() -> None:
    assert hide_in({HOME: 1, "n": [None, True, 2.5]}) == {"…": 1, "n": [None, True, 2.5]}


def test_a_quote_keeps_the_home_that_stands_in_the_file_and_not_the_folder() -> None:
    evidence = {"quote": f'ROOT = "{HOME}/notes"', "path": f"{FOLDER}/after/a.py"}
    hidden_evidence = {"quote": f'ROOT = "{HOME}/notes"', "path": "./after/a.py"}
    assert hide_in({"evidence": [evidence]}) == {"evidence": [hidden_evidence]}
    assert hide_in({"quote": f"{FOLDER}/after"}) == {"quote": "./after"}


def test_a_link_and_where_it_leads_are_both_hidden(tmp_path: Path) -> None:
    (tmp_path / "real/trees").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    hidden_folder = HiddenFolder(tmp_path / "link/trees", KEY)
    text = f"{tmp_path}/link/trees/a {tmp_path}/real/trees/a {tmp_path}/link {tmp_path}/real"
    assert hidden_folder.hide_in(text) == "./a ./a … …"


def test_above_a_folder_that_lies_at_the_top_nothing_is_hidden() -> None:
    assert (
        HiddenFolder(Path("/judged"), "-judged").hide_in("/judged/a, /, // /x") == "./a, /, // /x"
    )
