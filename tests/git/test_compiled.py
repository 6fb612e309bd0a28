"""Objects and differences by the compiled part of pygit2 alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pygit2
import pytest

from vibe_gate.errors import IntegrityError
from vibe_gate.git import compiled
from vibe_gate.git.compiled import Database


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """A repository's folder of objects, with an alternate that has an alternate."""
    for name, alternate in (("far", ""), ("near", "far"), ("here", "near")):
        pygit2.init_repository(str(tmp_path / name), bare=True)
        if alternate:
            (tmp_path / name / "objects/info/alternates").write_text(f"{tmp_path / alternate / 'objects'}\n")
    return tmp_path / "here" / "objects"


def put(folder: Path, content: bytes) -> str:
    return str(pygit2.Repository(str(folder)).create_blob(content))


def test_an_object_is_read_from_an_alternate_of_an_alternate(objects, tmp_path):
    identity = put(tmp_path / "far", b"far away\n")
    assert Database(str(objects), []).read(identity) == (compiled.BLOB, b"far away\n")


def test_an_object_is_read_that_was_written_later(objects, tmp_path):
    database = Database(str(tmp_path / "near" / "objects"), [str(objects)])
    identity = put(tmp_path / "here", b"late\n")
    assert database.read(identity) == (compiled.BLOB, b"late\n")


def test_an_object_is_read_that_git_has_packed_meanwhile(objects, tmp_path):
    identity = put(tmp_path / "here", b"packed\n")
    database = Database(str(objects), [])
    packed = subprocess.run(
        ["git", "pack-objects", "-q", str(objects / "pack" / "pack")], input=identity.encode(), cwd=tmp_path / "here"
    )
    assert packed.returncode == 0
    (objects / identity[:2] / identity[2:]).unlink()
    assert database.read(identity) == (compiled.BLOB, b"packed\n")


def test_an_object_that_is_nowhere_is_a_key_error(objects):
    with pytest.raises(KeyError):
        Database(str(objects), []).read("4" * 40)


@pytest.mark.parametrize("damage", [zlib.compress(b"blob 6\0other\n"), b"no zlib", b""])
def test_an_object_that_does_not_hold_what_its_id_says_is_an_integrity_error(objects, tmp_path, damage):
    identity = put(tmp_path / "here", b"right\n")
    file = objects / identity[:2] / identity[2:]
    file.chmod(0o644)
    file.write_bytes(damage)
    with pytest.raises(IntegrityError, match=f"{identity} is damaged"):
        Database(str(objects), []).read(identity)


WITHOUT_THE_PACKAGE = """
import sys
from vibe_gate.git import compiled
print(compiled.compare(b"a\\n", b"b\\n", 3).line_stats, "pygit2" in sys.modules)
import pygit2
print(pygit2.Patch is type(compiled.compare(b"", b"c", 3)), pygit2._pygit2 is sys.modules["pygit2._pygit2"])
"""


def test_lines_are_compared_without_the_package_and_it_can_be_loaded_afterwards():
    done = subprocess.run([sys.executable, "-c", WITHOUT_THE_PACKAGE], capture_output=True, text=True)
    assert (done.stdout.split("\n"), done.stderr) == (["(0, 1, 1) False", "True True", ""], "")


def test_no_certificates_are_read_to_compare_lines(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # whoever opens it waits for ever
    ask = "import os; from vibe_gate.git import compiled; print(os.environ['SSL_CERT_FILE'])"
    environ = {**os.environ, "SSL_CERT_FILE": str(tmp_path / "pipe")}
    done = subprocess.run([sys.executable, "-c", ask], env=environ, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"{tmp_path / 'pipe'}\n", "")
