"""What a tool's output says about lines of files: `command` checks show it as findings.

Each form is a function over the lines of the output. `auto` knows SARIF by its braces and looks for all the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from vibe_gate.domain.escape import expression

OutputForm = Literal["auto", "ruff", "mypy", "pytest", "eslint", "sarif", "gcc", "none"]


class Remark(NamedTuple):
    """What a tool says of a line: the path as the tool wrote it, the line from 1."""

    path: str
    line: int
    message: str


_POINTER = expression(r"(?:\./)?(?P<path>[^:\s][^:]{0,4095}):(?P<line>[0-9]{1,7})(?::[0-9]{1,7})?:?\s+(?P<message>\S.*)")
"""`src/a.py:3:1: F401 unused`, as compilers and linters write it."""

_ARROW = expression(r"\s*--> (?P<path>[^:]{1,4096}):(?P<line>[0-9]{1,7})(?::[0-9]{1,7})?\s*")
"""` --> src/a.py:3:1` below the message, as ruff and rustc write it."""

_ESLINT = expression(r"\s+(?P<line>[0-9]{1,7}):[0-9]{1,7}\s+(?:error|warning)\s+(?P<message>\S.*)")
"""`  3:1  error  Unexpected var  no-var` below the file's path: eslint's `stylish`."""

_TEST = expression(r"_{3,} (?:ERROR at \w+ of )?(?P<name>\S.*?) _{3,}")
_AT = expression(r"(?P<path>[^\s:][^:]{0,4095}):(?P<line>[0-9]{1,7}): ?(?:in )?\S*")
"""pytest's heading of a failure, and the places of its traceback, the test's own first."""


def remarks(output: str, form: OutputForm = "auto") -> list[Remark]:
    """What the output says about lines, in its order, each once."""
    lines = output.splitlines()
    if form == "none":
        return []
    if form == "sarif" or (form == "auto" and output.lstrip().startswith("{")):
        found = list(_sarif(output))
    elif form == "auto":
        found = [*_arrows(lines), *_stylish(lines), *_failures(lines)] or list(_pointers(lines))
    else:
        found = list(_READERS[form](lines))
    return list(dict.fromkeys(found))


def _pointers(lines: list[str]) -> Iterator[Remark]:
    for line in lines:
        match = _POINTER.fullmatch(line)
        if match and not match["message"].startswith("note:"):
            yield Remark(match["path"], int(match["line"]), match["message"])


def _arrows(lines: list[str]) -> Iterator[Remark]:
    message = ""
    for line in lines:
        if match := _ARROW.fullmatch(line):
            yield Remark(match["path"], int(match["line"]), message)
        elif line.strip():
            message = line.strip()


def _stylish(lines: list[str]) -> Iterator[Remark]:
    path = ""
    for line in lines:
        if line and not line[0].isspace():
            path = line.strip()
        elif path and (match := _ESLINT.fullmatch(line)):
            yield Remark(path, int(match["line"]), " ".join(match["message"].split()))


def _failures(lines: list[str]) -> Iterator[Remark]:
    """Of each failing test the first place of its traceback, and the first line of its error."""
    name, error = "", ""
    place: re.Match[str] | None = None
    for line in [*lines, "=" * 10]:
        heading = _TEST.fullmatch(line)
        if heading or line.startswith("====="):
            if place is not None:
                yield Remark(place["path"], int(place["line"]), f"{name}: {error or 'failed'}")
            name, error, place = heading["name"] if heading else "", "", None
        elif name and place is None and (at := _AT.fullmatch(line)):
            place = at
        elif name and not error and line.startswith("E  "):
            error = line[1:].strip()


def _sarif(output: str) -> Iterator[Remark]:
    """Results with a place, of SARIF 2.1.0; of text that is no SARIF nothing."""
    try:
        for run in json.loads(output)["runs"]:
            for result in run["results"]:
                for location in result.get("locations", ())[:1]:
                    physical = location["physicalLocation"]
                    line = physical.get("region", {}).get("startLine", 0)
                    uri = str(physical["artifactLocation"]["uri"]).removeprefix("file://")
                    yield Remark(uri, int(line), str(result["message"]["text"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


_READERS: dict[str, Callable[[list[str]], Iterable[Remark]]] = {
    "ruff": lambda lines: [*_arrows(lines)] or _pointers(lines),
    "eslint": _stylish,
    "pytest": _failures,
    "mypy": _pointers,
    "gcc": _pointers,
}
