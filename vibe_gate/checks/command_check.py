"""The check `command`: a program of the repository's own succeeds in an export of the head tree and
leaves it as it is.

What the program says about lines becomes findings there. Each form of output is a function over its
lines; `auto` knows SARIF by its braces and looks for all the others.
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
from vibe_gate.checks.check_contract import (
    MAX_SCANNED_LINE,
    CheckInput,
    CheckResult,
    CommandRun,
    Files,
    Hit,
    added_lines,
    failed,
    read_side_text,
)
from vibe_gate.domain import paths
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.escape import expression, list_names

DEFAULT_TIMEOUT_S = 300.0
_SHELL = frozenset(("&&", "||", ";", "|", ">", ">>", "<", "&"))
MAX_LINE = 9_999_999
"""What is not a line of any file counts as no line: formats that know JSON's numbers also know
1e999.
"""

OutputForm = Literal["auto", "ruff", "mypy", "pytest", "eslint", "sarif", "gcc", "none"]


class CommandOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a criterion may set beside its `command`."""

    timeout_s: Annotated[float, Meta(gt=0, le=86_400, description="seconds until it is killed")] = (
        DEFAULT_TIMEOUT_S
    )
    unix_sockets: Annotated[bool, Meta(description="whether it may open Unix sockets")] = False
    output: Annotated[OutputForm, Meta(description="the form in which it speaks about lines")] = (
        "auto"
    )
    new_only: Annotated[
        bool, Meta(description="whether a failure that the tree before has, too, passes")
    ] = False
    fix: Annotated[
        str, Meta(description="the command that repairs: shown, and suggested at a pull request")
    ] = ""


class Remark(Struct, frozen=True):
    """What a program says of a line: the path as it wrote it, the line from 1."""

    path: str
    line: int
    message: str
    rule: str = ""
    """The name of the rule, if it is not part of the message."""


def command(input: CheckInput, options: CommandOptions, files: Files) -> CheckResult:
    """The command exits with 0 and changes no file. One that could not run or did not finish is an
    error.
    """
    result = _command(input, options, files)
    if result.outcome != "fail" or not options.fix or not input.suggest:
        return result
    return replace(result, repairs=tuple(_fixed(input, options, files)))


def _fixed(input: CheckInput, options: CommandOptions, files: Files) -> Iterator[FileDiff]:
    """What `fix` makes of files of the change in an export of its own; nothing if it needs a
    shell.
    """
    try:
        argv = tuple(shlex.split(options.fix))
    except ValueError:
        return
    if not argv or _SHELL & set(argv):
        return
    contents = input.run_command(argv, options.timeout_s, "after").contents
    for file in files:
        after = contents.get(file.path)
        if file.after is None or after is None or not file.is_read:
            continue
        text = after.decode("utf-8", "replace")
        repaired = repairs.of_file(file, input.read(file.after), after)
        if repaired and input.redact(text) == text:  # a redacted line is not what the program wrote
            yield repaired


def _command(input: CheckInput, options: CommandOptions, files: Files) -> CheckResult:
    argv = input.criterion.command
    if not argv:
        return CheckResult(
            "error", 'The check "command" needs a command = ["program", "argument"].'
        )
    command_run = input.run_command(argv, options.timeout_s, "after")
    command_line = shlex.join(argv)[:120]
    if command_run.exit_code is None:
        reason = f"{command_line} gave no answer: {command_run.failure}."
        return CheckResult("error", reason, cause=command_run.missing)
    if command_run.exit_code == 0 and not command_run.changed:
        return CheckResult("pass", f"{command_line} exited with 0.")
    rewritten = list(_rewritten_files(input, files, command_run, command_line))
    advice = f" To repair: {options.fix}" if options.fix else ""
    if command_run.exit_code == 0:
        reason = f"{command_line} changed {list_names(command_run.changed)}.{advice}"
        return failed(input, reason, rewritten)
    output_remarks = remarks(command_run.output, options.output)
    hits = list(_findings(input, files, output_remarks, command_run))
    comparison = ""
    # A program that says nothing of any line may be missing, before the change as well.
    if options.new_only and hits:
        hits = _on_added_lines(hits, files)
        if not hits and not rewritten:
            new, comparison = _what_is_new(input, options, command_run)
            if not comparison:
                reason = f"{command_line} fails in the same way without this change."
                return CheckResult("pass", reason)
            new_remarks = [remark for remark in output_remarks if _key(remark) in new]
            hits = list(_findings(input, files, new_remarks, command_run))
    fact = f"{command_line} {_ending(command_run.exit_code)}"
    hits += rewritten
    if not hits:
        hits = [_whole_failure(f"{fact}:", comparison, command_run)]
    if rewritten:
        fact += f" and changed {list_names(command_run.changed)}"
    return failed(input, f"{fact}.{comparison}{advice}", hits)


def _on_added_lines(hits: Iterable[Hit], files: Files) -> list[Hit]:
    """Those that stand at lines that the change adds."""
    places = {(line.file.shown_path, line.number) for line in added_lines(files)}
    return [hit for hit in hits if (hit.path, hit.line) in places]


def _ending(exit_code: int) -> str:
    if exit_code < 0:
        return f"was ended by signal {-exit_code}"
    return f"exited with {exit_code}"


def _whole_failure(beginning: str, comparison: str, command_run: CommandRun) -> Hit:
    """The finding of a failed command that says nothing about a line; other output is another
    finding.
    """
    lines = [line.strip() for line in command_run.output.splitlines() if line.strip()]
    last_line = lines[-1] if lines else "no output"
    output = "\n".join(_without_measures(line) for line in lines)
    ending = comparison or f" {last_line}"
    return Hit(f"{beginning}{ending}", fingerprint=f"{beginning}\n{output}")


def _rewritten_files(
    input: CheckInput, files: Files, command_run: CommandRun, command_line: str
) -> Iterator[Hit]:
    """A finding for each file that the command changed; another repair of a file is another
    finding.
    """
    changed_files = {file.path: file for file in files}
    message = f"{command_line} changed this file; run it and commit the result."
    for path in command_run.changed:
        file = changed_files.get(path)
        content = command_run.contents.get(path)
        repaired = None
        if file is not None and file.after is not None and content is not None:
            repaired = repairs.of_file(file, input.read(file.after), content)
        distinction = [message]
        if repaired is not None:
            distinction += _differing_lines(repaired)
        yield Hit(message, paths.quote(path), fingerprint="\n".join(distinction))


def _differing_lines(file: FileDiff) -> list[str]:
    """The removed and added lines, each with its mark."""
    lines: list[str] = []
    for hunk in file.hunks:
        lines += [read_side_text(row) for row in hunk.rows if row[:1] in (b"-", b"+")]
    return lines


_RemarkKey = tuple[str, str]
"""A path ("" of a line of output) and what is said, without what differs between two runs of the
same.
"""

_VARYING = expression(r"0x[0-9a-fA-F]+|[0-9]+|vibe-gate-command-\w+|={4,}|s\b")
"""Addresses, numbers, the name of TMPDIR, rules that fill a line, the plural."""


def _what_is_new(
    input: CheckInput, options: CommandOptions, command_run: CommandRun
) -> tuple[Counter[_RemarkKey], str]:
    """What a failed command did not say in the tree before the change, and why it is no old failure
    ("": it is one).
    """
    remarks_now = _count_remarks(command_run.output, options.output)
    if (command_run.exit_code or 0) < 0 or command_run.dropped:
        comparison = (
            " Its output is not whole, so it cannot be compared with the one before the change."
        )
        return remarks_now, comparison
    before = input.run_command(input.criterion.command or (), options.timeout_s, "before")
    if before.exit_code is None:
        comparison = (
            f" Before the change it gave no answer ({before.failure}), so this counts as new."
        )
        return remarks_now, comparison
    new = remarks_now - _count_remarks(before.output, options.output)
    if before.exit_code != command_run.exit_code:
        return new, f" Before the change its exit code is {before.exit_code}."
    if not new:
        return new, ""
    lines = [line.strip() for line in command_run.output.splitlines() if ("", _folded(line)) in new]
    if not lines:
        lines = [" ".join(remark) for remark in new]
    longest = max(lines, key=len)  # of JSON many lines are but braces
    return new, f" Before the change it does not say: {longest[:100]}"


def _count_remarks(output: str, form: OutputForm) -> Counter[_RemarkKey]:
    """How often each thing is said: what is understood with its path, and each line, understood or
    not.
    """
    try:
        lines = json.dumps(json.loads(output), indent=0).split("\n")
    except (ValueError, RecursionError):
        lines = output.splitlines()
    counts = Counter(_key(remark) for remark in remarks(output, form))
    counts.update(("", _folded(line)) for line in lines if line.strip())
    return counts


def _key(remark: Remark) -> _RemarkKey:
    return remark.path, _folded(remark.message)


def _folded(text: str) -> str:
    return " ".join(_VARYING.sub("", text).rstrip(",").split())


_MEASURE = expression(
    r"(?i)0x[0-9a-f]+|vibe-gate-command-\w+"
    r"|(?<![\w:.-])(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[t ])?[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?![\w:])"
    r"|(?<![\w.:-])[0-9]+(?:\.[0-9]+)?\s?(?:[mnu]?s|sec(?:ond)?s?|min(?:ute)?s?)\b"
)
"""Memory addresses, the name of TMPDIR, times of day, durations."""

_POSITION = expression(
    r"(?i)\b(?:lines?|col(?:umn)?s?|characters?|positions?|offset)[ :=]{1,2}[0-9]+(?:[-:,][0-9]+)?"
    r"|\.[a-z]\w{0,9}:[0-9]+:[0-9]+\b|\([0-9]+(?:, ?| > |/)[0-9]+"
    r"|(?<![\w.:#\[-])[0-9]+ (?:warning|error|problem|issue)s?\b"
    r"|(?<![\w.:#\[-])(?<!\w )[0-9]+ (?:failed|passed|skipped)\b"
)
"""Positions, a length and its limit, counts of what a tool found. Any other number is part of what
is said: an id, a version, a port, an address.
"""

_DIGITS = expression(r"[0-9]+")


def _without_measures(text: str) -> str:
    moved = _POSITION.sub(lambda match: _DIGITS.sub("N", match[0]), text)
    return " ".join(_MEASURE.sub("N", moved).split())


def _findings(
    input: CheckInput, changed: Files, all_remarks: Iterable[Remark], command_run: CommandRun
) -> Iterator[Hit]:
    """A finding for each remark about a line of the tree; the line is evidence if its file is part
    of the change.

    What the remark says is part of the fingerprint: another remark about the same line is another
    finding.
    """
    changed_files = {file.path: file for file in changed if file.after}
    contents: dict[str, list[str]] = {}
    for remark in all_remarks:
        number = remark.line
        path = paths.decode(remark.path.encode("utf-8", "replace"))
        if path not in command_run.files or not 0 < number <= MAX_LINE:
            continue
        if path in command_run.changed:
            lines = []  # the program numbers the lines as they are now
        elif path in contents:
            lines = contents[path]
        else:
            lines = contents[path] = _lines_of(input, path, changed_files.get(path))
        if lines and number > len(lines):
            continue
        line = lines[number - 1] if lines else ""
        quote = line
        distinction = [_without_measures(remark.rule), _without_measures(remark.message)]
        if path not in changed_files:
            quote = ""
            distinction.append(" ".join(line.split()))
        fingerprint = "\n".join(distinction)
        yield Hit(remark.message, paths.quote(path), number, quote, fingerprint=fingerprint)


def _lines_of(input: CheckInput, path: str, file: FileDiff | None) -> list[str]:
    """The lines of a file after the change, changed or not; none of what is no regular file there,
    or too large.
    """
    content: bytes | None = None
    if file is None or file.after is None:
        content = input.read_path(path)
    elif file.is_read:
        content = input.read(file.after)
    if content is None:
        return []
    return [read_side_text(line) for line in content.split(b"\n")]


_POINTER = expression(
    r"(?P<path>[^:\s][^:]{0,4095}):(?P<line>[0-9]{1,7})(?::[0-9]{1,7})?:?\s+(?P<message>\S.*)"
)
"""`src/a.py:3:1: F401 unused`, as compilers and most linters write it."""

_ARROW = expression(r"\s*--> (?P<path>[^:]{1,4096}):(?P<line>[0-9]{1,7})(?::[0-9]{1,7})?\s*")
"""` --> src/a.py:3:1` below the message, as ruff and rustc write it."""

_ESLINT = expression(r"\s+(?P<line>[0-9]{1,7}):[0-9]{1,7}\s+(?:error|warning)\s+(?P<message>\S.*)")
"""`  3:1  error  Unexpected var  no-var` below the file's path: eslint's `stylish`."""

_TEST = expression(r"_{3,} (?:ERROR at \w+ of )?(?P<name>\S.*?) _{3,}")
_AT = expression(r"(?P<path>[^\s:][^:]{0,4095}):(?P<line>[0-9]{1,7}): ?(?:in )?\S*")
"""pytest's heading of a failure, and the places of its traceback, the test's own first."""

_BROKEN = expression(r'E     File "(?P<path>[^"]{1,4096})", line (?P<line>[0-9]{1,7})')
"""The module that could not be read, below `ERROR collecting`; the traceback leads only to who
imports it.
"""


def remarks(output: str, form: OutputForm = "auto") -> list[Remark]:
    """What the output says about lines, in its order, each once."""
    lines = [line[:MAX_SCANNED_LINE] for line in output.splitlines()]
    if form == "none":
        return []
    if form == "sarif" or (form == "auto" and output.lstrip().startswith("{")):
        matches = list(_sarif(output))
    elif form == "auto":
        pointers = _pointers(_outside_failures(lines))
        matches = [*_arrows(lines), *_stylish(lines), *_failures(lines), *pointers]
    else:
        matches = list(_READERS[form](lines))
    relative = [replace(remark, path=remark.path.removeprefix("./")) for remark in matches]
    return list(dict.fromkeys(relative))


def _pointers(lines: Iterable[str]) -> Iterator[Remark]:
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
        elif (
            at := (broken and _BROKEN.fullmatch(line))
            or (name and place is None and _AT.fullmatch(line))
            or None
        ):
            place = at
        elif (
            name
            and not error
            and line.startswith("E  ")
            and not (broken and line.startswith("E     "))
        ):
            error = line[1:].strip()


def _outside_failures(lines: list[str]) -> Iterator[str]:
    """The lines without pytest's tracebacks, whose places are steps on the way to a failure."""
    is_inside = False
    for line in lines:
        if line.startswith("====="):
            is_inside = False
        elif _TEST.fullmatch(line):
            is_inside = True
        if not is_inside:
            yield line


def _sarif(output: str) -> Iterator[Remark]:
    """Results with a place, of SARIF 2.1.0; of text that is no SARIF nothing."""
    try:
        for run in json.loads(output)["runs"]:
            for result in run["results"]:
                for location in result.get("locations", ())[:1]:
                    physical = location["physicalLocation"]
                    path = unquote(str(physical["artifactLocation"]["uri"]).removeprefix("file://"))
                    line = physical.get("region", {}).get("startLine")
                    number = line if isinstance(line, int) else 0
                    yield Remark(
                        path, number, str(result["message"]["text"]), str(result.get("ruleId", ""))
                    )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


_READERS: dict[str, Callable[[list[str]], Iterable[Remark]]] = {
    "ruff": lambda lines: [*_arrows(lines)] or _pointers(lines),
    "eslint": _stylish,
    "pytest": _failures,
    "mypy": _pointers,
    "gcc": _pointers,
}
