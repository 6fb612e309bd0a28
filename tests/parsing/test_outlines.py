"""What source files define, import and name, in the languages that are parsed; and hostile ones."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from vibe_gate.parsing import (
    MAX_LINE,
    MAX_SOURCE,
    FileOutline,
    SourceFile,
    SourceParser,
    parse_files,
)

_BODY = re.compile(r"x ?:?= ?1")


class Sample(NamedTuple):
    """A file with a function `total` that has the line `x = 1`."""

    path: str
    text: str
    parameters: tuple[str, ...]
    place: tuple[int, int]
    """Its first and last line."""
    others: tuple[str, ...] = ()
    """What else is defined."""
    imports: tuple[str, ...] = ()


SAMPLES = [
    Sample(
        "a.py",
        "import os\nLIMIT = 1\n\n\nclass Basket:\n    @cached\n    async def total(self, a, *rest, b: int = 2):\n"
        "        x = 1\n        y = 2\n",
        ("a", "rest", "b"),
        (6, 9),
        ("LIMIT", "Basket"),
        ("import os",),
    ),
    Sample(
        "a.js",
        "const fs = require('fs');\nexport const total = async (a, b) => {\n  let x = 1\n}\n",
        ("a", "b"),
        (2, 4),
        (),
        ("const fs = require('fs');",),
    ),
    Sample(
        "a.ts",
        "import { z } from './z';\nexport class Basket {\n  private total(a: number): number {\n    let x = 1\n  }\n}\n",
        ("a",),
        (3, 5),
        ("Basket",),
        ("import { z } from './z';",),
    ),
    Sample(
        "a.go",
        'package a\n\nimport (\n\t"fmt"\n)\n\nconst Limit = 3\n\nfunc (b *Basket) total(a int) int {\n\tx := 1\n}\n',
        ("a",),
        (9, 11),
        ("Limit",),
        ('"fmt"',),
    ),
    Sample(
        "a.rs",
        "use std::io;\nimpl Basket {\n    pub(crate) fn total(&self, a: u8) -> u8 {\n        let x = 1;\n    }\n}\n",
        ("a",),
        (3, 5),
        ("Basket",),
        ("use std::io;",),
    ),
    Sample(
        "A.java",
        "import java.util.List;\nclass Basket {\n  @Override\n  public int total(A<B> a, int b) {\n    int x = 1;\n  }\n}\n",
        ("a", "b"),
        (3, 6),
        ("Basket",),
        ("import java.util.List;",),
    ),
    Sample(
        "a.c",
        "#include <stdio.h>\n#define LIMIT 3\nstatic int *total(int a, char *b)\n{\n    int x = 1;\n}\n",
        ("a", "b"),
        (3, 6),
        ("LIMIT",),
        ("#include <stdio.h>",),
    ),
    Sample(
        "a.cpp",
        "#include <map>\ntemplate <typename T>\nint Basket::total(const T &a) {\n    int x = 1;\n}\n",
        ("a",),
        (2, 5),
        (),
        ("#include <map>",),
    ),
    Sample(
        "a.rb",
        "require 'set'\nclass Basket\n  def self.total(a, b: 1)\n    x = 1\n  end\nend\n",
        ("a", "b"),
        (3, 5),
        ("Basket",),
        ("require 'set'",),
    ),
    Sample(
        "a.php", "<?php\nclass Basket {\n  function total() {\n    $x = 1;\n  }\n}\n", (), (3, 5), ("Basket",)
    ),
    Sample(
        "a.cs", "using System;\nclass Basket {\n  int total(int a) {\n    var x = 1;\n  }\n}\n",
        ("a",), (3, 5), ("Basket",), ("using System;",),
    ),
    Sample("a.kt", "class Basket {\n  fun total(): Int {\n    val x = 1\n  }\n}\n", (), (2, 4), ("Basket",)),
    Sample("a.scala", "object Basket {\n  def total(a: Int) = {\n    val x = 1\n  }\n}\n", ("a",), (2, 4), ("Basket",)),
    Sample("a.swift", "class Basket {\n  func total() {\n    let x = 1\n  }\n}\n", (), (2, 4), ("Basket",)),
    Sample("a.sh", "total() {\n  x=1\n}\n", (), (1, 3)),
    Sample("a.lua", "function M.total(a)\n  x = 1\nend\n", ("a",), (1, 3)),
]  # fmt: skip


def outline(path: str, text: str | bytes) -> FileOutline | None:
    content = text.encode() if isinstance(text, str) else text
    (file_outline,) = parse_files([SourceFile(path, content)])
    return file_outline


@pytest.fixture(scope="module")
def outlines() -> dict[str, FileOutline | None]:
    sources = [SourceFile(sample.path, sample.text.encode()) for sample in SAMPLES]
    return dict(zip([sample.path for sample in SAMPLES], parse_files(sources), strict=True))


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.path for sample in SAMPLES])
def test_functions_definitions_and_imports_are_known(outlines, sample):
    file_outline = outlines[sample.path]
    assert file_outline is not None
    (function,) = [
        definition for definition in file_outline.definitions if definition.name == "total"
    ]
    lines = sample.text.split("\n")
    body_lines = [number for number, line in enumerate(lines, 1) if _BODY.search(line)]
    assert (function.first, function.last) == sample.place
    assert function.parameters == sample.parameters
    assert file_outline.enclosing(body_lines[0]) == function
    assert {definition.name for definition in file_outline.definitions} == {
        "total",
        *sample.others,
    }
    assert tuple(row.text for row in file_outline.imports) == sample.imports


def test_names_are_code_and_not_comments_or_strings():
    text = (
        "def pay(a):\n    # pay here\n    return 'pay' + pay(a)\n\n\nx.pay = {'retry-limit': 1}\n"
    )
    file_outline = outline("a.py", text)
    assert file_outline is not None
    assert file_outline.names["pay"] == (1, 3, 6)
    assert file_outline.strings == {"pay": (3,), "retry-limit": (6,)}


def test_lines_are_those_of_git_whatever_the_characters():
    text = "ü = '\u2028é'; ä = 1\r\n\r\ndef größe():\r\n    return 'ß\u0085' + x\r\n"
    file_outline = outline("a.py", text)
    assert file_outline is not None
    assert file_outline.names["x"] == (4,)
    assert [
        (definition.first, definition.last) for definition in file_outline.definitions[-1:]
    ] == [(3, 4)]


def test_a_test_of_javascript_is_a_function_without_a_name():
    file_outline = outline(
        "a.js", "describe('x', function () {\n  it('y', () => {\n    pay()\n  })\n})\n"
    )
    assert file_outline is not None
    inner = file_outline.enclosing(3)
    assert inner is not None
    assert (inner.name, inner.first, inner.last) == ("", 2, 4)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("a.txt", b"def f(): pass\n"),
        ("a.py", b""),
        ("a.py", b"a\0b = 1\n"),
        ("a.py", b"x = 1\n" * (MAX_SOURCE // 6 + 1)),
        ("a.js", b"a" * (MAX_LINE + 1)),
    ],
    ids=["no language", "empty", "null byte", "large", "a long line"],
)
def test_what_is_no_source_has_no_outline(path, content):
    assert outline(path, content) is None


def test_what_is_not_utf_8_and_does_not_parse_is_read_as_far_as_it_goes():
    file_outline = outline(
        "a.py", b"x = '\xff\xfe'\ndef f(:\n    return 1\n\ndef g():\n    return 2\n"
    )
    assert file_outline is not None
    assert file_outline.definitions[-1].name == "g"


def nested(unit: str, times: int) -> str:
    """The unit so often, on lines that are short enough to be parsed."""
    return (unit * 1000 + "\n") * (times // 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", nested("(", 100_000)),
        ("a.js", nested("[", 100_000)),
        ("a.c", nested("{", 100_000)),
        ("a.java", nested("a<", 50_000)),
        ("a.rs", nested("if(a)", 20_000)),
        ("a.sh", nested("if(a)", 50_000)),
        ("a.ts", nested("a<b,", 50_000)),
    ],
    ids=lambda value: value if len(value) < 10 else "",
)
def test_a_hostile_file_neither_crashes_nor_hangs_and_spares_the_next(path, text):
    sources = [SourceFile(path, text.encode()), SourceFile("ok.py", b"def total(): pass\n")]
    hostile, harmless = parse_files(sources)
    assert harmless is not None
    assert harmless.definitions[0].name == "total"
    assert hostile is None or isinstance(hostile, FileOutline)


KILLER = b'"${\n' * 1000
"""What ends the process in Kotlin's grammar."""


def test_files_that_end_the_process_leave_all_other_languages_parsed():
    killers = [SourceFile(f"a{number}.kt", KILLER + b"\n" * number) for number in range(4)]
    harmless = SourceFile("z.py", b"def total(): pass\n" * 1000)
    *hostile_outlines, outline_of_harmless = parse_files([*killers, harmless])
    assert hostile_outlines == [None] * 4
    assert outline_of_harmless is not None


def test_after_the_seconds_of_a_review_nothing_is_parsed():
    source = SourceFile("z.py", b"def total(): pass\n")
    assert SourceParser(seconds=0).parse([source]) == [None]
    assert SourceParser(seconds=1e-9).parse([source]) == [None]
