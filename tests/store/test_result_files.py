"""Changed files read back from a bundle: contents through their hashes, patches that git takes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from bundle_words import KEY, START, Clock, Ended, OneSecretRedactor, summary_of
from msgspec import structs

from vibe_gate.domain import paths
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.summary import ChangedFile
from vibe_gate.domain.turn import TurnChange, TurnFile
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.git import open_repository
from vibe_gate.store.bundle_events import CapturedCall
from vibe_gate.store.changed_files import FileChange
from vibe_gate.store.run_result import RunResult, read_bundle
from vibe_gate.store.store import Store, open_store
from vibe_gate.store.turn_recorder import TurnRecorder


def git(folder: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    result = subprocess.run(["git", *arguments], cwd=folder, input=stdin, capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


ODD = r'"$(printf "latin-\351 \"quoted\"\t.txt")"'
BEFORE = rf"""
seq 0 49 >edited.py; printf 'one\r\ntwo\r\nthree\r\n' >crlf.txt; printf 'a\nb' >'no newline'; seq 20 >gone.py
seq -f 'line %g' 30 >moved.py; seq -f 'same %g' 30 >'moved exactly'; printf '\0\1\2binary' >logo.png
echo '#!/bin/sh' >run.sh; echo something >emptied; mkdir -p folder/became; echo a file in a folder >folder/became/gone
ln -s edited.py link; echo text >'becomes a link'; printf 'caf\351\n' >{ODD}
"""
AFTER = rf"""
sed -i '4d;41d' edited.py; echo more >>edited.py; printf 'one\r\nzwei\r\nthree\n' >crlf.txt; printf 'a\nc' >'no newline'
rm gone.py; mv moved.py elsewhere.py; echo tail >>elsewhere.py; mv 'moved exactly' 'moved to here'
head -c 9000 /dev/zero >logo.png; chmod +x run.sh; : >emptied; ln -sf elsewhere.py link
ln -sf edited.py 'becomes a link'; printf 'caf\351s\n' >{ODD}; rm -r folder/became; echo a file >folder/became
echo new >added.py; : >'added empty'; head -c 20000 /dev/zero >added.bin
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One commit after another, with every kind of change between them."""
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for script in (BEFORE, AFTER):
        subprocess.run(["sh", "-ec", script], cwd=root, check=True)
        git(root, "add", "-A")
        git(root, "commit", "-qm", "change")
    return root


@pytest.fixture
def reviewed(repository: Path, tmp_path: Path) -> RunResult:
    """A sealed run about the last commit, recorded as a review does it."""
    (tmp_path / "store").mkdir()
    run = open_store(tmp_path / "store", OneSecretRedactor(), Clock()).begin(KEY, START, {})
    with open_repository(repository, read_environment(dict(os.environ))) as opened:
        change = opened.change(Selection("commit"))
        run.keep_patch(opened.patch(change))
        for file in change.files:
            if file.before is not None:
                run.keep_content(
                    "before", opened.read(file.before), paths.quote(file.old_path or file.path)
                )
            if file.after is not None:
                run.keep_content("after", opened.read(file.after), file.shown_path)
    files = tuple(
        ChangedFile(
            path=file.shown_path, old_path=paths.quote(file.old_path) if file.old_path else None,
            change_type=file.change_type, added=file.added, deleted=file.deleted, binary=file.binary,
        )
        for file in change.files
    )  # fmt: skip
    summary = summary_of(run)
    run.seal(structs.replace(summary, change=structs.replace(summary.change, files=files)))
    assert run.lost is None
    return read_bundle(run.directory)


def test_every_file_of_a_change_is_there_with_its_kind(reviewed: RunResult) -> None:
    kinds = {file.path: file.change_type for file in reviewed.files.changed()}
    assert kinds == {
        "edited.py": "modified", "crlf.txt": "modified", "no newline": "modified", "gone.py": "deleted",
        "elsewhere.py": "renamed", "moved to here": "renamed", "logo.png": "modified", "run.sh": "modified",
        "emptied": "modified", "link": "modified", "becomes a link": "type_changed", "added.py": "added",
        "folder/became": "added", "folder/became/gone": "deleted",
        "added empty": "added", "added.bin": "added", '"latin-\\351 \\"quoted\\"\\t.txt"': "modified",
    }  # fmt: skip
    stats = reviewed.files.stats()
    assert (stats.added, stats.deleted, stats.renamed, stats.modified, stats.total) == (
        4,
        2,
        2,
        9,
        17,
    )


def test_the_patches_of_all_files_give_the_very_tree(reviewed: RunResult, repository: Path) -> None:
    git(repository, "checkout", "-q", "HEAD~1")
    patch = "".join(file.patch() for file in reviewed.files.changed())
    git(repository, "apply", "--index", stdin=patch.encode("utf-8", "surrogateescape"))
    assert git(repository, "write-tree") == git(repository, "rev-parse", "main^{tree}")


@pytest.mark.slow
def test_line_counts_are_those_of_git(reviewed: RunResult, repository: Path) -> None:
    for row in (
        git(repository, "diff", "--numstat", "--no-renames", "HEAD~1", "HEAD").decode().splitlines()
    ):
        added, deleted, path = row.split("\t")
        file = reviewed.files.get(path)
        if file is None or file.change_type == "renamed" or added == "-":
            continue
        assert (file.stats.added, file.stats.deleted) == (int(added), int(deleted)), path
    edited = require_file(reviewed, "edited.py")
    assert edited.stats.chunks == 3


def test_files_are_found_by_path_and_by_glob(reviewed: RunResult) -> None:
    assert [file.path for file in reviewed.files.filter("*.py")] == [
        "added.py", "edited.py", "elsewhere.py", "gone.py",
    ]  # fmt: skip
    assert {file.path for file in reviewed.files.filter(["*.png", "*.bin"])} == {
        "logo.png",
        "added.bin",
    }
    hard = paths.decode(b'latin-\xe9 "quoted"\t.txt')
    assert require_file(reviewed, hard).path == paths.quote(hard)
    assert reviewed.files.get("nothing") is None


def test_a_patch_as_data_is_json(reviewed: RunResult) -> None:
    data = json.loads(json.dumps(require_file(reviewed, "no newline").patch("json")))
    assert (data["path"], data["change_type"], data["added"], data["deleted"]) == (
        "no newline",
        "modified",
        1,
        1,
    )
    assert data["hunks"] == [
        {
            "old_start": 1, "old_lines": 2, "new_start": 1, "new_lines": 2,
            "lines": [
                {"origin": " ", "text": "a", "newline": True},
                {"origin": "-", "text": "b", "newline": False},
                {"origin": "+", "text": "c", "newline": False},
            ],
        }
    ]  # fmt: skip


def test_a_binary_file_says_so(reviewed: RunResult) -> None:
    logo = require_file(reviewed, "logo.png")
    assert logo.binary
    assert "\nGIT binary patch\nliteral " in logo.patch()
    assert logo.patch("json") | {"hunks": None} == {
        "path": "logo.png", "old_path": None, "change_type": "modified", "binary": True, "added": 0, "deleted": 0,
        "hunks": None,
    }  # fmt: skip
    assert not require_file(reviewed, "crlf.txt").binary


def test_a_content_is_read_as_text_bytes_or_a_stream(reviewed: RunResult) -> None:
    crlf = require_file(reviewed, "crlf.txt").after
    assert crlf is not None
    assert (crlf.text(), crlf.bytes()) == ("one\r\nzwei\r\nthree\n", b"one\r\nzwei\r\nthree\n")
    packed = require_file(reviewed, "added.bin").after
    assert packed is not None
    assert list((reviewed.bundle_dir / "files").glob(f"*/{packed.sha256}.bin.gz"))
    with packed.stream() as stream:
        assert [len(stream.read(8000)) for _ in range(4)] == [8000, 8000, 4000, 0]
    assert reviewed.content(packed.sha256) == packed.bytes()
    for unknown in ("0" * 64, "../run.json"):
        with pytest.raises(StorageError, match="has no content"):
            reviewed.content(unknown)
    latin = require_file(reviewed, paths.decode(b'latin-\xe9 "quoted"\t.txt')).after
    assert latin is not None and latin.text() == "caf\ufffds\n"


@pytest.mark.slow
def test_little_of_a_content_is_in_memory_while_it_is_streamed(store: Store) -> None:
    lines = b"".join(b"%d\n" % number for number in range(1_200_000))
    (file,) = turn_with(store, None, lines).files.changed()
    assert file.after is not None
    tracemalloc.start()
    try:
        with file.after.stream() as stream:
            assert sum(map(len, iter(lambda: stream.read(4096), b""))) == len(lines) > 8_000_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_of_a_file_above_the_limit_only_hash_and_size_were_kept(store: Store) -> None:
    (file,) = turn_with(store, None, bytes(10_000_001)).files.changed()
    assert file.after is not None
    assert (file.after.size, file.after.has_bytes) == (10_000_001, False)
    for ask in (file.after.text, file.after.stream):
        with pytest.raises(StorageError, match="10,000,001 bytes are more"):
            ask()


def turn_with(store: Store, before: bytes | None, after: bytes) -> RunResult:
    run = store.begin(KEY, START, {})
    turn = run.turn("fix")
    sides = {
        side: turn.keep_content(side, data)
        for side, data in (("before", before), ("after", after))
        if data is not None
    }
    file = TurnFile(
        path="a.txt", change_type="modified" if before is not None else "added", **sides
    )
    turn.seal(Ended(change=TurnChange(files=(file,))))
    return read_bundle(run.directory / turn.relative)


CALLS = [
    ("Read", "/w", {"file_path": "/w/src/a.py"}, True),
    ("Write", "/w", {"file_path": "/w/src/a.py"}, True),
    ("Bash", "/w", {"command": "cd src; sed -i s/1/2/ a.py"}, True),
    ("Edit", "/w/src", {"file_path": "a.py"}, True),
    ("Edit", "/w", {"file_path": "/w/src/a.py"}, False),
    ("NotebookEdit", "/w", {"notebook_path": "/w/./b.ipynb"}, True),
    ("Write", "/w", {"file_path": "/w/old.py"}, True),
    ("MultiEdit", "/w", {"file_path": "/w/new.py"}, True),
    ("Write", "/w", {"file_path": "/elsewhere/src/a.py"}, True),
    ("Write", "/w", {"file_path": ["src/a.py"]}, True),
    ("mcp__files__write", "/w", {"file_path": "/w/src/a.py"}, True),
]
CALLS_BY_FILE = {
    "src/a.py": ["0-1", "0-3"],
    "b.ipynb": ["0-5"],
    "new.py": ["0-6", "0-7"],
    "by-bash.py": [],
}


def record_calls(turn: TurnRecorder, number: int) -> None:
    """A turn that makes CALLS; the ids are `<number>-<index>`."""
    for index, (tool, cwd, tool_input, is_ok) in enumerate(CALLS):
        call = {"tool_name": tool, "tool_use_id": f"{number}-{index}", "cwd": cwd}
        turn.hook({"hook_event_name": "PreToolUse", "tool_input": tool_input, **call})
        end = "PostToolUse" if is_ok else "PostToolUseFailure"
        turn.hook({"hook_event_name": end, "tool_input": tool_input, **call})


def changed_files() -> tuple[TurnFile, ...]:
    """CALLS_BY_FILE, one of them renamed."""
    return tuple(
        TurnFile(path=path, change_type="renamed", old_path="old.py")
        if path == "new.py"
        else TurnFile(path=path, change_type="modified")
        for path in CALLS_BY_FILE
    )


def test_a_file_names_the_calls_that_changed_it(store: Store) -> None:
    run = store.begin(KEY, START, {})
    turn = run.turn("fix")
    record_calls(turn, 0)
    turn.seal(Ended(change=TurnChange(files=changed_files())))
    files = read_bundle(run.directory / turn.relative).files.changed()
    assert {file.path: ids_of(file.calls) for file in files} == CALLS_BY_FILE


def test_of_a_run_a_file_names_the_calls_of_all_turns(store: Store) -> None:
    run = store.begin(KEY, START, {})
    for number, tool in enumerate(("fix", "check")):
        turn = run.turn(tool)
        record_calls(turn, number)
        turn.seal(Ended())
    change = summary_of(run).change
    file = ChangedFile(
        path="src/a.py", old_path=None, change_type="modified", added=1, deleted=1, binary=False
    )
    run.seal(structs.replace(summary_of(run), change=structs.replace(change, files=(file,))))
    (changed,) = read_bundle(run.directory).files.changed()
    assert ids_of(changed.calls) == ["0-1", "0-3", "1-1", "1-3"]
    assert {call.turn for call in changed.calls} == {
        "nodes/fix/turn-001", "nodes/check/turn-001",
    }  # fmt: skip


def ids_of(calls: tuple[CapturedCall, ...]) -> list[str]:
    return [call.tool_use_id for call in calls]


def stored_content(result: RunResult) -> Path:
    (path,) = (result.bundle_dir.parents[2] / "files").glob("*/*")
    return path


def replace(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize("form", ["nope", None])
def test_a_patch_in_no_known_form_is_a_usage_error(store: Store, form: Any) -> None:
    (file,) = turn_with(store, b"old\n", b"new\n").files.changed()
    with pytest.raises(UsageError, match='"unified" or "json"'):
        file.patch(form)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-20], id="cut"),
        pytest.param(lambda data: data + gzip.compress(b"more"), id="two members"),
        pytest.param(lambda data: gzip.compress(b"x" * 20_000), id="another content"),
    ],
)
def test_a_damaged_gzip_is_an_integrity_error(store: Store, damage) -> None:
    result = turn_with(store, None, b"line\n" * 4000)
    path = stored_content(result)
    replace(path, damage(path.read_bytes()))
    (file,) = result.files.changed()
    assert file.after is not None
    for read in (file.after.bytes, lambda: result.content(path.name[:64])):
        with pytest.raises(IntegrityError, match=path.name):
            read()


def require_file(result: RunResult, path: str) -> FileChange:
    file = result.files.get(path)
    assert file is not None, path
    return file
