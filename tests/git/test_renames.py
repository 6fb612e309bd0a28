"""Rename detection, held against the git program: by construction, and by histories at random."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pygit2
import pytest
from gitoracle import TYPES

from vibe_gate.git import diff, renames

Trees = list[tuple[dict[bytes, tuple[int, bytes]], dict[bytes, tuple[int, bytes]]]]
Row = tuple[str, bytes | None, bytes, int]


class Repo:
    """A bare repository of trees."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.repo = pygit2.init_repository(str(path), bare=True)
        self.path = path
        self.environ = dict(environ)

    def tree(self, files: Mapping[bytes, tuple[int, bytes]]) -> str:
        folders: dict[bytes, dict[bytes, tuple[int, bytes]]] = {}
        builder = self.repo.TreeBuilder()
        for path, file in files.items():
            top, _, below = path.partition(b"/")
            if below:
                folders.setdefault(top, {})[below] = file
            else:
                builder.insert(top.decode(), self.repo.create_blob(file[1]), pygit2.enums.FileMode(file[0]))
        for name, below_files in folders.items():
            builder.insert(name.decode(), pygit2.Oid(hex=self.tree(below_files)), pygit2.enums.FileMode.TREE)
        return str(builder.write())

    def ours(self, before: str, after: str) -> list[Row]:
        rows: list[Row] = []
        for delta in diff.deltas(self.repo, before, after):
            renamed = delta.change_type == "renamed"
            assert delta.before or not renamed
            rows.append((delta.change_type, delta.before.path if renamed else None, delta.kept.path, delta.percent))
        return rows

    def gits(self, before: str, after: str) -> list[Row]:
        command = ["git", f"--git-dir={self.path}", "diff", "--name-status", "-M", "-l0", "-z", before, after]
        out = subprocess.run(command, env=self.environ, capture_output=True, check=True).stdout
        fields = iter(out.split(b"\0"))
        rows: list[Row] = []
        for status in fields:
            if status:
                renamed = status[:1] == b"R"
                old_path = next(fields) if renamed else None
                rows.append((TYPES[status[:1]], old_path, next(fields), int(status[1:]) if renamed else 0))
        return rows


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    return Repo(tmp_path / "trees.git", environ)


def numbered(*numbers: int, end: bytes = b"\n") -> bytes:
    return b"".join(b"line number %d" % number + end for number in numbers)


F, X, L = 0o100644, 0o100755, 0o120000
TEN = tuple(range(10))
CASES: dict[str, tuple[dict[bytes, tuple[int, bytes]], dict[bytes, tuple[int, bytes]]]] = {
    "an identical file": ({b"a": (F, numbered(*TEN))}, {b"b": (F, numbered(*TEN))}),
    "an identical file that became executable": ({b"a": (F, numbered(*TEN))}, {b"b": (X, numbered(*TEN))}),
    "exactly half": ({b"a": (F, numbered(*TEN))}, {b"b": (F, numbered(0, 1, 2, 3, 4, 15, 16, 17, 18, 19))}),
    "just under half": ({b"a": (F, numbered(*TEN))}, {b"b": (F, numbered(0, 1, 2, 3, 14, 15, 16, 17, 18, 19))}),
    "half of the size": ({b"a": (F, numbered(*TEN))}, {b"b": (F, numbered(*TEN[:5]))}),
    "less than half of the size": ({b"a": (F, numbered(*TEN))}, {b"b": (F, numbered(*TEN[:4]))}),
    "lines in another order": ({b"a": (F, numbered(*TEN))}, {b"b": (F, numbered(*TEN[::-1]))}),
    "no line ends": ({b"a": (F, b"x" * 640)}, {b"b": (F, b"x" * 512 + b"y" * 128)}),
    "other line ends": ({b"a": (F, numbered(*TEN))}, {b"b": (F, numbered(*TEN, end=b"\r\n"))}),
    "other line ends in a binary": (
        {b"a": (F, b"\0\n" + numbered(*TEN))},
        {b"b": (F, b"\0\n" + numbered(*TEN, end=b"\r\n"))},
    ),
    "an identical symlink": ({b"a": (L, b"target")}, {b"b": (L, b"target")}),
    "an edited symlink": ({b"a": (L, b"target/of/it\nx")}, {b"b": (L, b"target/of/it\ny")}),
    "a symlink and a file of the same bytes": ({b"a": (L, b"target")}, {b"b": (F, b"target")}),
    "an empty file": ({b"a": (F, b"")}, {b"b": (F, b"")}),
    "empty and not empty": ({b"a": (F, b"")}, {b"b": (F, b"x")}),
    "three alike, one name kept": (
        {b"a/x": (F, b"1\n"), b"b/y": (F, b"1\n"), b"c/z": (F, b"1\n")},
        {b"d/z": (F, b"1\n"), b"e/w": (F, b"1\n")},
    ),
    "a name kept, but another file more similar": (
        {b"a/x": (F, numbered(*TEN)), b"a/y": (F, numbered(*range(7), 50, 51, 52))},
        {b"b/x": (F, numbered(*range(8), 50, 51)), b"b/z": (F, b"nothing\n")},
    ),
    "a name kept twice": (
        {b"a/x": (F, numbered(*TEN, 20)), b"b/x": (F, numbered(*TEN, 21))},
        {b"c/x": (F, numbered(*TEN, 22)), b"d/x": (F, numbered(*TEN, 23))},
    ),
    "ten equals for one": (
        {b"s%d" % n: (F, numbered(*TEN, 100 + n)) for n in range(10)},
        {b"t": (F, numbered(*TEN, 200))},
    ),
    "ten equals for ten": (
        {b"s%d" % n: (F, numbered(*TEN, 100 + n)) for n in range(10)},
        {b"t%d" % n: (F, numbered(*TEN, 200 + n)) for n in range(10)},
    ),
    "swapped places of a file and a folder": (
        {b"a": (F, numbered(*TEN)), b"b/c": (F, numbered(*range(20, 40)))},
        {b"a/c": (F, numbered(*range(20, 39))), b"b": (F, numbered(*TEN[:9]))},
    ),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.replace(" ", "-"))
def test_a_rename_is_decided_as_git_decides_it(case: str, repo: Repo) -> None:
    before, after = (repo.tree(files) for files in CASES[case])
    assert repo.ours(before, after) == repo.gits(before, after)


def contents(rng: random.Random) -> bytes:
    size = rng.choice([0, 1, 2, 3, 5, 8, 13, 20, 40])
    kind = rng.random()
    if kind < 0.05:
        return b""
    if kind < 0.15:
        return bytes(rng.choice(b"\0\1\n\rAB\xff") for _ in range(size * 9)) + b"\n"
    if kind < 0.25:
        return (b"xy" * rng.choice([10, 33, 64, 100]) + rng.choice([b"", b"\n"])) * rng.randint(1, 4) + b"\n"
    words = rng.choice([3, 6, 30, 3000])
    end = rng.choice([b"\n"] * 5 + [b"\r\n", b"\r\r\n"])
    return b"".join(b"line %d" % rng.randrange(words) * rng.choice([1, 1, 1, 4]) + end for _ in range(size))


def edited(rng: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    for _ in range(rng.choice([0, 1, 1, 2, 4, 8])):
        place = rng.randrange(len(lines))
        lines[place : place + rng.randrange(2)] = [b"new %d" % rng.randrange(50)] * rng.randrange(2)
        lines = lines or [b""]
    return b"\n".join([*lines[:-1], b""])  # ended: git 2.44 changed how a last line without an end counts


def place(rng: random.Random) -> bytes:
    folder = b"".join(rng.choice([b"a_d/", b"b_d/", b"c-_d/"]) for _ in range(rng.randint(0, 2)))
    return folder + rng.choice([b"f", b"g", b"h.py", b"Makefile", b"z%d" % rng.randrange(40)])


def scattered(rng: random.Random) -> Mapping[bytes, tuple[int, bytes]]:
    pool = [contents(rng) for _ in range(rng.choice([1, 2, 4, 16]))]
    files = {}
    for _ in range(rng.choice([2, 4, 8, 16, 40])):
        mode = rng.choice([F] * 8 + [X, L])
        files[place(rng)] = (mode, edited(rng, rng.choice(pool)) if rng.random() < 0.7 else rng.choice(pool))
    return files


def moved(rng: random.Random, files: Mapping[bytes, tuple[int, bytes]]) -> Mapping[bytes, tuple[int, bytes]]:
    after = {}
    for path, (mode, content) in files.items():
        fate = rng.random()
        if fate < 0.2:
            after[path] = (mode, content)
        elif fate < 0.85:
            after[place(rng)] = (mode, edited(rng, content) if rng.random() < 0.7 else content)
    return after


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_are_paired_as_git_pairs_them_ties_included(seed: int, repo: Repo) -> None:
    rng = random.Random(seed)
    paired = 0
    for _ in range(60):
        files = scattered(rng)
        before, after = repo.tree(files), repo.tree(moved(rng, files))
        expected = repo.gits(before, after)
        assert repo.ours(before, after) == expected
        paired += sum(row[0] == "renamed" for row in expected)
    assert paired > 100


def test_files_that_are_mostly_the_same_licence_are_paired_as_git_pairs_them(repo: Repo) -> None:
    rng = random.Random(9)
    licence = numbered(*range(60))
    bodies = [numbered(*(rng.randrange(10**6) for _ in range(20))) for _ in range(40)]
    before = repo.tree({b"old/%d" % n: (F, licence + body) for n, body in enumerate(bodies)})
    after = repo.tree(
        {b"new/%d" % (n * 7 % 40 + 100): (F, licence + edited(rng, body)) for n, body in enumerate(bodies)}
    )
    assert repo.ours(before, after) == repo.gits(before, after)


def test_more_than_git_looks_at_by_default_are_still_renames(repo: Repo) -> None:
    rng = random.Random(5)
    bodies = [numbered(*(rng.randrange(10**9) for _ in range(12))) for _ in range(1_550)]
    before = repo.tree({b"old-%d" % n: (F, body) for n, body in enumerate(bodies)})
    after = repo.tree({b"new-%d" % n: (F, body + b"edited\n") for n, body in enumerate(bodies)})
    ours = repo.ours(before, after)
    assert [row[0] for row in ours] == ["renamed"] * 1_550
    assert ours == repo.gits(before, after)


def one_by_one(span: bytes) -> int:
    """The hash as git works it out: two words, byte by byte."""
    low = high = 0
    for byte in span:
        low, high = ((low << 7) ^ (high >> 25)) & 0xFFFFFFFF, ((high << 7) ^ (low >> 25)) & 0xFFFFFFFF
        low = (low + byte) & 0xFFFFFFFF
    return ((low + high * 0x61) & 0xFFFFFFFF) % 107_927


def test_spans_hashed_together_hash_as_they_do_one_by_one() -> None:
    """But for a carry that git drops, as in a run of DEL bytes: see `span_hashes`."""
    rng = random.Random(3)
    spans = [rng.randbytes(rng.randint(1, 64)) for _ in range(2_000)] + [bytes([byte]) * 64 for byte in range(127)]
    assert renames.span_hashes(spans) == [one_by_one(span) for span in spans]
