"""A generated repository with every kind of history and content that breaks naive tools.

`build` writes the same objects each time: fixed names, dates and contents. Each case is one or more
commits on `main` (or on a branch merged into it), so a test that walks all commits meets them all.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

RENAMED_FILES = 1_050  # git's own limit for inexact renames is 1,000
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-")
AUTHOR = {  # for the commits that the git program writes itself
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+00:00",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+00:00",
}
_GITLINKS = ("1" * 40, "2" * 40)


@dataclass(frozen=True)
class File:
    """What a path holds: content (for a submodule the commit's id) and mode."""

    content: bytes
    mode: str = "100644"


Files = Mapping[bytes, File | None]  # None: deleted


class _Stream:
    """Commits as `git fast-import` reads them."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.mark = 0

    def commit(
        self, subject: str, files: Files, parents: tuple[int, ...] = (), branch: str = "main"
    ) -> int:
        self.mark += 1
        when = 1_767_322_800 + 60 * self.mark
        self.out.append(b"commit refs/heads/%s\nmark :%d\n" % (branch.encode(), self.mark))
        self.out.append(
            b"committer Ada <ada@example.org> %d +0000\n" % when + _data(subject.encode())
        )
        for word, parent in zip([b"from", *[b"merge"] * len(parents)], parents, strict=False):
            self.out.append(b"%s :%d\n" % (word, parent))
        for path, file in sorted(
            files.items(), key=lambda item: item[1] is not None
        ):  # deletions make room
            self.out.append(_change(path, file))
        self.out.append(b"\n")
        return self.mark


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _change(path: bytes, file: File | None) -> bytes:
    name = (
        b'"'
        + b"".join(bytes([byte]) if byte in _PLAIN else b"\\%03o" % byte for byte in path)
        + b'"'
    )
    if file is None:
        return b"D %s\n" % name
    if file.mode == "160000":
        return b"M 160000 %s %s\n" % (file.content, name)
    return b"M %s inline %s\n" % (file.mode.encode(), name) + _data(file.content)


def build(path: Path, environ: Mapping[str, str]) -> Path:
    """Make the repository at `path`, with `main` checked out; gives `path` back."""
    stream = _Stream()
    last = 0
    for subject, files in [*_plain(), *_names(), *_contents(), *_kinds(), *_renames()]:
        last = stream.commit(subject, files, (last,) if last else ())
    last = _shapes(stream, last)
    stream.commit("Attributes that hide", _attributes(), (last,))
    path.mkdir(parents=True, exist_ok=True)
    environ = {**environ, **AUTHOR}
    _git(path, environ, "init", "-q", "-b", "main")
    _git(path, environ, "fast-import", "--quiet", stdin=b"".join(stream.out))
    _git(path, environ, "reset", "-q", "--hard", "main")
    return path


def _git(path: Path, environ: Mapping[str, str], *arguments: str, stdin: bytes = b"") -> bytes:
    command = ["git", "-C", str(path), *arguments]
    return subprocess.run(
        command, input=stdin, env=dict(environ), check=True, capture_output=True
    ).stdout


def _text(*lines: object) -> bytes:
    return b"".join(f"{line}\n".encode() for line in lines)


def _plain() -> Iterator[tuple[str, Files]]:
    yield "Root commit", {b"README": File(_text("hello")), b"src/app.py": File(_text(*range(60)))}
    yield "Edit", {b"src/app.py": File(_text(*range(20), "edited", *range(21, 60)))}
    yield "Revert", {b"src/app.py": File(_text(*range(60)))}
    yield "Empty commit", {}
    yield "Add and delete", {b"README": None, b"NEWS": File(_text("entirely", "other", "words"))}


def _names() -> Iterator[tuple[str, Files]]:
    odd = [
        b"latin\xe9", "nfc-é".encode(), "nfd-e\u0301".encode(), b"new\nline", b"ta\tb", b"es\x1b[31mc", b'quo"te',
        b"-dash", b":(top)", "bidi\u202egpj".encode(), "tag\U000e0041".encode(), b"back\\slash", b" lead", b"trail ",
        b"case", b"CASE", b"\xff\xfe", b"a => b", b"{x}", b"*", b"tr\xc3",
    ]  # fmt: skip
    yield "Add odd names", {name: File(_text(index)) for index, name in enumerate(odd)}
    yield "Edit odd names", {name: File(_text(index, "more")) for index, name in enumerate(odd)}
    moved: dict[bytes, File | None] = {
        b"odd/" + name: File(_text(index, "more")) for index, name in enumerate(odd)
    }
    yield "Move odd names", moved | dict.fromkeys(odd)
    yield "Delete odd names", {b"odd/" + name: None for name in odd}
    long = b"/".join([b"d" * 199] * 25)
    yield "Add a path of 5,000 characters", {long: File(_text("deep"))}
    yield "Delete it", {long: None}


def _contents() -> Iterator[tuple[str, Files]]:
    noise = random.Random(1).randbytes(5_000)
    yield (
        "Add contents",
        {
            b"c/binary": File(noise),
            b"c/nul": File(b"text\n\0nul\nmore\n"),
            b"c/late-nul": File(_text(*range(3_000)) + b"\0\n"),
            b"c/utf16": File("Grüße\n".encode("utf-16")),
            b"c/latin1": File("Grüße\nzwei\n".encode("latin-1")),
            b"c/unended": File(b"one\ntwo"),
            b"c/crlf": File(b"one\r\ntwo\r\nthree\r\n"),
            b"c/cr": File(b"one\rtwo\rthree"),
            b"c/empty": File(b""),
            b"c/large-binary": File(b"\0" + random.Random(2).randbytes(1_100_000)),
            b"c/long-line": File(b"x" * 100_000),
        },
    )
    yield (
        "Edit contents",
        {
            b"c/binary": File(noise[:2_000] + b"edit" + noise[2_000:]),
            b"c/nul": File(b"text\n\0NUL\nmore\n"),
            b"c/late-nul": File(_text(*range(2_999)) + b"\0 and more\n"),
            b"c/utf16": File("Größe\n".encode("utf-16")),
            b"c/latin1": File("Größe\nzwei\n".encode("latin-1")),
            b"c/unended": File(b"one\ntwo\n"),
            b"c/crlf": File(b"one\ntwo\nthree\n"),
            b"c/cr": File(b"one\rTWO\rthree"),
            b"c/empty": File(b"no more"),
            b"c/large-binary": File(b"\0" + random.Random(3).randbytes(1_100_000)),
            b"c/long-line": File(b"x" * 100_000 + b"\n"),
        },
    )
    yield (
        "Take the newline away, empty a file",
        {b"c/unended": File(b"one\nTWO"), b"c/empty": File(b"")},
    )
    yield (
        "Delete contents",
        {b"c/" + name: None for name in (b"binary", b"large-binary", b"unended", b"empty")},
    )


def _kinds() -> Iterator[tuple[str, Files]]:
    script = File(_text("#!/bin/sh", "exit 0"))
    yield (
        "Add kinds",
        {
            b"k/script": script,
            b"k/file": File(_text(*range(30))),
            b"k/target": File(b"script"),
            b"k/link": File(b"script", "120000"),
            b"k/out": File(b"../../../etc/passwd", "120000"),
            b"k/module": File(_GITLINKS[0].encode(), "160000"),
            b"k/dir/inner": File(_text("inner")),
        },
    )
    yield "Change modes only", {b"k/script": File(script.content, "100755")}
    yield "Change mode and content", {b"k/script": File(_text("#!/bin/sh", "exit 1"))}
    yield "File to symlink, the same bytes", {b"k/target": File(b"script", "120000")}
    yield (
        "File to symlink, symlink to file, symlink elsewhere",
        {
            b"k/file": File(b"script", "120000"),
            b"k/link": File(_text("a", "file", "now")),
            b"k/out": File(b"nowhere", "120000"),
        },
    )
    yield "Submodule moves on", {b"k/module": File(_GITLINKS[1].encode(), "160000")}
    yield (
        "Submodule is renamed, symlink too",
        {
            b"k/module": None,
            b"k/moved-module": File(_GITLINKS[1].encode(), "160000"),
            b"k/out": None,
            b"k/moved-out": File(b"nowhere", "120000"),
        },
    )
    yield "Submodule to file", {b"k/moved-module": File(_text("a file"))}
    yield "File to submodule", {b"k/moved-module": File(_GITLINKS[0].encode(), "160000")}
    yield (
        "Directory to file, file to directory",
        {
            b"k/dir/inner": None,
            b"k/dir": File(_text("now", "a file")),
            b"k/link": None,
            b"k/link/below": File(_text("now", "a directory")),
            b"k/link-": File(_text("sorts between")),
        },
    )
    yield "Submodule is deleted", {b"k/moved-module": None}


def _renames() -> Iterator[tuple[str, Files]]:
    body = [f"statement number {number} of this file" for number in range(40)]
    yield (
        "Add what will be renamed",
        {
            b"r/exact.py": File(_text(*body)),
            b"r/edited.py": File(_text("edited", *body[::-1])),
            b"r/twin-a/same": File(_text("twins", *body[:3])),
            b"r/twin-b/same": File(_text("twins", *body[:3])),
            b"r/void": File(b""),
            b"r/lib/name.c": File(_text("name", *body[10:30])),
        },
    )
    yield (
        "Rename",
        {
            b"r/exact.py": None,
            b"r/moved/exact.py": File(_text(*body)),
            b"r/edited.py": None,
            b"r/moved/other.py": File(_text("edited", *body[::-1][:30], "new", "lines")),
            b"r/twin-a/same": None,
            b"r/twin-b/same": None,
            b"r/moved/a-other": File(_text("twins", *body[:3])),
            b"r/moved/b/same": File(_text("twins", *body[:3])),
            b"r/void": None,
            b"r/moved/void": File(b""),
            b"r/lib/name.c": None,
            b"r/src/name.c": File(_text("name", *body[10:30], "more"), "100755"),
        },
    )
    rng = random.Random(4)
    bodies = [
        [f"{index} has {rng.randrange(10**9)}" for _ in range(12)] for index in range(RENAMED_FILES)
    ]
    old = {b"m/old/%04d" % index: File(_text(*lines, "}")) for index, lines in enumerate(bodies)}
    yield "Add many files to rename", old
    order = rng.sample(range(RENAMED_FILES), RENAMED_FILES)
    new: dict[bytes, File | None] = {
        b"m/new/n%04d" % place: File(_text(*bodies[index][:9], f"edited {place}", "}"))
        for place, index in enumerate(order)
    }
    yield "Rename many files with edits", new | dict.fromkeys(old)
    yield "Delete them", dict.fromkeys(new)


def _shapes(stream: _Stream, start: int) -> int:
    """Merges: one with a change of its own, an octopus, one that takes nothing; and a second
    root.
    """
    side = [
        stream.commit(
            f"Side {number}", {b"s/%d" % number: File(_text(number))}, (start,), f"side-{number}"
        )
        for number in range(4)
    ]
    merge = stream.commit("Merge with a fix", {b"s/0": File(_text(0, "fixed"))}, (start, side[0]))
    octopus = stream.commit(
        "Octopus", {b"s/%d" % n: File(_text(n)) for n in (1, 2)}, (merge, side[1], side[2])
    )
    ours = stream.commit("Merge that takes nothing", {}, (octopus, side[3]))
    root = stream.commit("Another root", {b"other/root": File(_text("root"))}, (), "another")
    return stream.commit(
        "Merge unrelated histories", {b"other/root": File(_text("root"))}, (ours, root)
    )


def _attributes() -> Files:
    return {
        b".gitattributes": File(b"*.hidden -diff\n*.driven diff=driven\n*.hidden2 binary\n"),
        b".gitmodules": File(b'[submodule "x"]\n\tpath = k/module\n\turl = ./x\n\tignore = all\n'),
        b"a/x.hidden": File(_text("no", "attribute", "hides", "this")),
        b"a/y.driven": File(_text("nor", "this")),
        b"a/z.hidden2": File(_text("nor", "that")),
    }
