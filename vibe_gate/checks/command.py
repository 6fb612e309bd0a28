"""The check `command`: a program of the repository's own succeeds in an export of the head tree and leaves it as it is.

What the program says about lines becomes findings there. Each form of output is a function over its lines; `auto`
knows SARIF by its braces and looks for all the others.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Literal
from urllib.parse import unquote

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.checks import repairs
from vibe_gate.checks.contract import (
    MAX_SCANNED_LINE,
    CheckInput,
    CheckResult,
    CommandRun,
    Files,
    Hit,
    added_lines,
    failed,
    text_of,
)
from vibe_gate.domain import paths
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.escape import expression, listed

DEFAULT_TIMEOUT_S = 300.0
_SHELL = frozenset(("&&", "||", ";", "|", ">", ">>", "<", "&"))
MAX_LINE = 9_999_999
"""What is not a line of any file counts as no line: formats that know JSON's numbers also know 1e999."""

OutputForm = Literal["auto", "ruff", "mypy", "pytest", "eslint", "sarif", "gcc", "none"]


class CommandOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a criterion may set beside its `command`."""

    timeout_s: Annotated[float, Meta(gt=0, le=86_400, description="seconds until it is killed")] = DEFAULT_TIMEOUT_S
    unix_sockets: Annotated[bool, Meta(description="whether it may open Unix sockets")] = False
    output: Annotated[OutputForm, Meta(description="the form in which it speaks about lines")] = "auto"
    new_only: Annotated[bool, Meta(description="whether a failure that the tree before has, too, passes")] = False
    fix: Annotated[str, Meta(description="the command that repairs: shown, and suggested at a pull request")] = ""


class Remark(Struct, frozen=True):
    """What a program says of a line: the path as it wrote it, the line from 1."""

    path: str
    line: int
    message: str


def command(input: CheckInput, options: CommandOptions, files: Files) -> CheckResult:
    """The command exits with 0 and changes no file. One that could not run or did not finish is an error."""
    result = _command(input, options, files)
    if result.outcome != "fail" or not options.fix or not input.suggest:
        return result
    return replace(result, repairs=tuple(_fixed(input, options, files)))


def _fixed(input: CheckInput, options: CommandOptions, files: Files) -> Iterator[FileDiff]:
    """What `fix` makes of files of the change in an export of its own; nothing if it needs a shell."""
    try:
        argv = tuple(shlex.split(options.fix))
    except ValueError:
        return
    if not argv or _SHELL & set(argv):
        return
    contents = input.run_command(argv, options.timeout_s, "after").contents
    for file in files:
        after = contents.get(file.path)
        if file.after is None or after is None:
            continue
        text = after.decode("utf-8", "replace")
        repaired = repairs.of_file(file, input.read(file.after), after)
        if repaired and input.redact(text) == text:  # a redacted line is not what the program wrote
            yield repaired


def _command(input: CheckInput, options: CommandOptions, files: Files) -> CheckResult:
    argv = input.criterion.command
    if not argv:
        return CheckResult("error", 'The check "command" needs a command = ["program", "argument"].')
    ended = input.run_command(argv, options.timeout_s, "after")
    shown = shlex.join(argv)[:120]
    if ended.exit_code is None:
        return CheckResult("error", f"{shown} gave no answer: {ended.failure}.")
    if ended.exit_code == 0 and not ended.changed:
        return CheckResult("pass", f"{shown} exited with 0.")
    repair = f" To repair: {options.fix}" if options.fix else ""
    message = f"{shown} changed this file; run it and commit the result."
    changed = [Hit(message, paths.quote(path)) for path in ended.changed]
    if ended.exit_code == 0:
        return failed(input, f"{shown} changed {listed(ended.changed)}.{repair}", changed)
    said = remarks(ended.output, options.output)
    findings = list(_findings(input, files, said, ended))
    why = ""
    if (
        options.new_only and findings
    ):  # a program that says nothing of any line may be missing, before the change as well
        added = {(line.file.shown_path, line.number) for line in added_lines(files)}
        findings = [one for one in findings if (one.path, one.line) in added]
        if not findings and not changed:
            new, why = _what_is_new(input, options, ended)
            if not why:
                return CheckResult("pass", f"{shown} fails in the same way without this change.")
            findings = list(_findings(input, files, [one for one in said if _key(one) in new], ended))
    how = f"exited with {ended.exit_code}" if ended.exit_code > 0 else f"was ended by signal {-ended.exit_code}"
    last = next((line.strip() for line in reversed(ended.output.splitlines()) if line.strip()), "no output")
    also = f" and changed {listed(ended.changed)}" if changed else ""
    findings = findings + changed or [Hit(f"{shown} {how}:{why or ' ' + last}")]
    return failed(input, f"{shown} {how}{also}.{why}{repair}", findings)


_Said = tuple[str, str]
"""A path ("" of a line of output) and what is said, without what differs between two runs of the same."""

_VARYING = expression(r"0x[0-9a-fA-F]+|[0-9]+|vibe-gate-command-\w+|={4,}|s\b")
"""Addresses, numbers, the name of TMPDIR, rules that fill a line, the plural."""


def _what_is_new(input: CheckInput, options: CommandOptions, ended: CommandRun) -> tuple[Counter[_Said], str]:
    """What a failed command did not say in the tree before the change, and why it is no old failure ("": it is one)."""
    said = _said(ended.output, options.output)
    if (ended.exit_code or 0) < 0 or ended.dropped:
        return said, " Its output is not whole, so it cannot be compared with the one before the change."
    before = input.run_command(input.criterion.command or (), options.timeout_s, "before")
    if before.exit_code is None:
        return said, f" Before the change it gave no answer ({before.failure}), so this counts as new."
    new = said - _said(before.output, options.output)
    if before.exit_code != ended.exit_code:
        return new, f" Before the change its exit code is {before.exit_code}."
    lines = [line.strip() for line in ended.output.splitlines() if ("", _folded(line)) in new]
    telling = max(lines or [" ".join(one) for one in new], key=len, default="")  # of JSON many lines are but braces
    return new, f" Before the change it does not say: {telling[:100]}" if new else ""


def _said(output: str, form: OutputForm) -> Counter[_Said]:
    """How often each thing is said: what is understood with its path, and each line, understood or not."""
    try:
        lines = json.dumps(json.loads(output), indent=0).split("\n")
    except (ValueError, RecursionError):
        lines = output.splitlines()
    return Counter([*map(_key, remarks(output, form)), *(("", _folded(line)) for line in lines if line.strip())])


def _key(remark: Remark) -> _Said:
    return remark.path, _folded(remark.message)


def _folded(text: str) -> str:
    return " ".join(_VARYING.sub("", text).rstrip(",").split())


def _findings(input: CheckInput, changed: Files, said: Iterable[Remark], ended: CommandRun) -> Iterator[Hit]:
    """A finding for each remark about a line of the tree; the line is evidence if its file is part of the change."""
    # In a file that the command changed, its lines are numbered as they are now.
    files = {file.path: file for file in changed if file.after and file.path not in ended.changed}
    contents: dict[str, list[str]] = {}
    for remark in said:
        number, name = remark.line, paths.decode(remark.path.encode("utf-8", "replace"))
        if name not in ended.files or not 0 < number <= MAX_LINE:
            continue
        file = files.get(name)
        if file is not None and name not in contents:
            contents[name] = _lines(input, file)
        lines = contents.get(name)
        if lines is None or number <= len(lines):
            quote = lines[number - 1] if lines else ""
            yield Hit(remark.message, paths.quote(name), number, quote)


def _lines(input: CheckInput, file: FileDiff) -> list[str]:
    return [text_of(line) for line in input.read(file.after).split(b"\n")] if file.after else []


_POINTER = expression(r"(?P<path>[^:\s][^:]{0,4095}):(?P<line>[0-9]{1,7})(?::[0-9]{1,7})?:?\s+(?P<message>\S.*)")
"""`src/a.py:3:1: F401 unused`, as compilers and most linters write it."""

_ARROW = expression(r"\s*--> (?P<path>[^:]{1,4096}):(?P<line>[0-9]{1,7})(?::[0-9]{1,7})?\s*")
"""` --> src/a.py:3:1` below the message, as ruff and rustc write it."""

_ESLINT = expression(r"\s+(?P<line>[0-9]{1,7}):[0-9]{1,7}\s+(?:error|warning)\s+(?P<message>\S.*)")
"""`  3:1  error  Unexpected var  no-var` below the file's path: eslint's `stylish`."""

_TEST = expression(r"_{3,} (?:ERROR at \w+ of )?(?P<name>\S.*?) _{3,}")
_AT = expression(r"(?P<path>[^\s:][^:]{0,4095}):(?P<line>[0-9]{1,7}): ?(?:in )?\S*")
"""pytest's heading of a failure, and the places of its traceback, the test's own first."""

_BROKEN = expression(r'E     File "(?P<path>[^"]{1,4096})", line (?P<line>[0-9]{1,7})')
"""The module that could not be read, below `ERROR collecting`; the traceback leads only to who imports it."""


def remarks(output: str, form: OutputForm = "auto") -> list[Remark]:
    """What the output says about lines, in its order, each once."""
    lines = [line[:MAX_SCANNED_LINE] for line in output.splitlines()]
    if form == "none":
        return []
    if form == "sarif" or (form == "auto" and output.lstrip().startswith("{")):
        found = list(_sarif(output))
    elif form == "auto":
        found = [*_arrows(lines), *_stylish(lines), *_failures(lines)] or list(_pointers(lines))
    else:
        found = list(_READERS[form](lines))
    return list(dict.fromkeys(replace(remark, path=remark.path.removeprefix("./")) for remark in found))


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
            yield Remark(path, int(match["line"]), match["message"])


def _failures(lines: list[str]) -> Iterator[Remark]:
    """Of each failing test the first place of its traceback, and the first line of its error."""
    name, error, broken = "", "", False
    place: re.Match[str] | None = None
    for line in [*lines, "====="]:
        heading = _TEST.fullmatch(line)
        if heading or line.startswith("====="):
            if place is not None:
                yield Remark(place["path"], int(place["line"]), f"{name}: {error or 'failed'}")
            name, error, place = heading["name"] if heading else "", "", None
            broken = name.startswith("ERROR collecting ")
        elif at := (broken and _BROKEN.fullmatch(line)) or (name and place is None and _AT.fullmatch(line)) or None:
            place = at
        elif name and not error and line.startswith("E  ") and not (broken and line.startswith("E     ")):
            error = line[1:].strip()


def _sarif(output: str) -> Iterator[Remark]:
    """Results with a place, of SARIF 2.1.0; of text that is no SARIF nothing."""
    try:
        for run in json.loads(output)["runs"]:
            for result in run["results"]:
                for location in result.get("locations", ())[:1]:
                    physical = location["physicalLocation"]
                    path = unquote(str(physical["artifactLocation"]["uri"]).removeprefix("file://"))
                    line = physical.get("region", {}).get("startLine")
                    yield Remark(path, line if isinstance(line, int) else 0, str(result["message"]["text"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


_READERS: dict[str, Callable[[list[str]], Iterable[Remark]]] = {
    "ruff": lambda lines: [*_arrows(lines)] or _pointers(lines),
    "eslint": _stylish,
    "pytest": _failures,
    "mypy": _pointers,
    "gcc": _pointers,
}
