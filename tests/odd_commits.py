"""Commits that no program expects: old imports, converters and `git hash-object --literally` make
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

PERSON = b"Ada <ada@example.org>"
DATE = b" 1600000000 +0000"
SIGNED = PERSON + DATE

_Signatures = tuple[bytes, bytes]


def _signatures_of(line: bytes) -> _Signatures:
    return b"author " + line + b"\n", b"committer " + line + b"\n"


SIGNATURES: dict[str, _Signatures] = {
    "as git writes it": _signatures_of(SIGNED),
    "no date": _signatures_of(PERSON),
    "no zone": _signatures_of(PERSON + b" 1600000000"),
    "no space before the date": _signatures_of(b"Ada <ada@example.org>1600000000 +0000"),
    "a negative date": _signatures_of(PERSON + b" -1 +0000"),
    "a date of the year 33658": _signatures_of(PERSON + b" 1000000000000 +0000"),
    "a date beyond 64 bits": _signatures_of(PERSON + b" " + b"9" * 40 + b" +0000"),
    "a date of 5,000 digits": _signatures_of(PERSON + b" " + b"9" * 5000 + b" +0000"),
    "a date with zeros before it": _signatures_of(PERSON + b" 000001600000000 +0000"),
    "a date in words": _signatures_of(PERSON + b" yesterday +0000"),
    "a date in other digits": _signatures_of(PERSON + " ١٦٠٠٠٠٠٠٠٠ +0000".encode()),
    "an impossible zone": _signatures_of(PERSON + b" 1600000000 +99999999"),
    "a zone in words": _signatures_of(PERSON + b" 1600000000 CEST"),
    "no name": _signatures_of(b"<ada@example.org>" + DATE),
    "no address": _signatures_of(b"Ada <>" + DATE),
    "no brackets": _signatures_of(b"Ada" + DATE),
    "an open bracket": _signatures_of(b"Ada <ada@example.org" + DATE),
    "two addresses": _signatures_of(b"Ada <a@example.org> <b@example.org>" + DATE),
    "nothing at all": _signatures_of(b""),
    "no author": (b"", b"committer " + SIGNED + b"\n"),
    "no committer": (b"author " + SIGNED + b"\n", b""),
    "neither": (b"", b""),
    "two authors": (_signatures_of(SIGNED)[0] * 2, _signatures_of(SIGNED)[1]),
    "line breaks that are none": _signatures_of(
        "A\rB\vC\fD\x1c\x85\u2028\u2029E <ada@example.org>".encode() + DATE
    ),
    "a terminal's escapes": _signatures_of(b"\x1b[31mAda\x1b[0m\x07 <ada@example.org>" + DATE),
    "no UTF-8": _signatures_of(b"\xc0\xff\xed\xa0\x80 <\xff@example.org>" + DATE),
    "a NUL": _signatures_of(b"A\0da <ada@example.org>" + DATE),
    "marks of right to left": _signatures_of("\u202eadA <ada@example.org>".encode() + DATE),
    "a very long name": _signatures_of(b"A" * 100_000 + b" <ada@example.org>" + DATE),
}

_ROW = b"+AAo-" + b"1" * 40 + b" 1 1 1+AAo-"
"""In UTF-7 a line break, what `git blame` begins a group of lines with, and a line break."""

MESSAGES: dict[str, tuple[bytes, bytes]] = {
    "an encoding that makes line breaks": (b"encoding UTF-7\n", b"\nchange" + _ROW + b"\n"),
    "an encoding of two bytes": (b"encoding UTF-16\n", b"\nchange\n"),
    "an unknown encoding": (b"encoding nonsense\n", b"\nchange\n"),
    "a message in Latin-1": (b"encoding ISO-8859-1\n", b"\nR\xe9sum\xe9\n"),
    "no message": (b"", b"\n"),
    "no empty line": (b"", b""),
    "a message that looks like a header": (
        b"",
        b"\ncommitter Eve <eve@example.org> 1700000000 +0000\n",
    ),
    "a NUL in the message": (b"", b"\nchange\0hidden\n"),
    "a header of several lines": (
        b"gpgsig -----BEGIN\n parent " + b"1" * 40 + b"\n \n end\n",
        b"\nchange\n",
    ),
}


def odd_commit(
    tree: str,
    parents: list[str],
    signatures: _Signatures,
    headers: bytes = b"",
    text: bytes = b"\nc\n",
) -> bytes:
    """The bytes of a commit."""
    rows = [
        b"tree " + tree.encode() + b"\n",
        *(b"parent " + parent.encode() + b"\n" for parent in parents),
    ]
    return b"".join([*rows, *signatures, headers, text])


def every_odd_commit(tree: str, parents: list[str]) -> dict[str, bytes]:
    """By what is odd of it, each commit."""
    commits = {name: odd_commit(tree, parents, lines) for name, lines in SIGNATURES.items()}
    for name, (headers, text) in MESSAGES.items():
        person = (
            _signatures_of(b"a+AAo-" + b"1" * 40 + b" 1 1 1 <a@example.org>" + DATE)
            if b"UTF-7" in headers
            else _signatures_of(SIGNED)
        )
        commits[name] = odd_commit(tree, parents, person, headers, text)
    return commits


Git = Callable[..., str]


WORST = (
    "no date", "a date of the year 33658", "a date beyond 64 bits", "nothing at all", "neither",
    "line breaks that are none", "a terminal's escapes", "no UTF-8", "an encoding that makes line breaks",
    "no empty line",
)  # fmt: skip
"""A few that stand for all, for tests that take a while with each."""


def write_odd_history(
    git: Git,
    write: Callable[[str, str], object],
    path: str,
    names: Iterable[str] = (*SIGNATURES, *MESSAGES),
) -> dict[str, str]:
    """A chain of such commits on the branch, each of which adds a line to the file; their ids,
    oldest first.
    """
    ids: dict[str, str] = {}
    lines: list[str] = []
    for name in names:
        lines.append(f"# {name}\n")
        write(path, "".join(lines))
        git("add", path)
        content = every_odd_commit(git("write-tree"), [git("rev-parse", "HEAD")])[name]
        ids[name] = git(
            "hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=content
        )
        git("update-ref", "HEAD", ids[name])
    return ids
