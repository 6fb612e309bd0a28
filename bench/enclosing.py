"""How often the function around a changed line is found: `python bench/enclosing.py CLONE ...`.

From each clone the newest commits give HUNKS hunks of its main language, at most 2 a commit. What
is right comes from other programs: Python's own `ast`, universal-ctags for the rest. Each hunk on
which they and our parser differ is printed, to be looked at: ctags is not always right either.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vibe_gate.parsing import SourceFile, parse_files

HUNKS = 25
PER_COMMIT = 2
ENDINGS = ("py", "js", "ts", "go", "rs", "java", "c", "rb")
FUNCTION_KINDS = frozenset({"function", "method", "func", "singletonMethod", "generator"})


class ChangedLine(NamedTuple):
    """The first changed line of a hunk."""

    commit: str
    path: str
    number: int
    content: bytes


def git(clone: str, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", clone, *arguments], capture_output=True, check=True).stdout


def main_ending(clone: str) -> str:
    names = (
        git(clone, "ls-tree", "-r", "--name-only", "HEAD").decode("utf-8", "replace").split("\n")
    )
    counts = Counter(name.rpartition(".")[2] for name in names)
    return max(ENDINGS, key=lambda ending: counts[ending])


def changed_lines(clone: str, ending: str) -> Iterator[ChangedLine]:
    commits = git(clone, "log", "--no-merges", "--format=%H", "-2000", "--", f"*.{ending}")
    for commit in commits.decode().split():
        patch = git(clone, "show", "--format=", "-U0", "--no-renames", commit, "--", f"*.{ending}")
        path = ""
        count = 0
        for line in patch.decode("utf-8", "replace").split("\n"):
            if line.startswith("+++ "):
                path = line[6:] if line.startswith("+++ b/") else ""
            elif line.startswith("@@ ") and path and count < PER_COMMIT:
                start, _, length = line.split("+")[1].split(" ")[0].partition(",")
                if length == "0":
                    continue
                count += 1
                content = git(clone, "show", f"{commit}:{path}")
                yield ChangedLine(commit, path, int(start), content)


def true_function(line: ChangedLine) -> str:
    """The innermost function around the line, by `ast` or ctags; "" if there is none."""
    spans = list(
        spans_of_python(line.content) if line.path.endswith(".py") else spans_of_ctags(line)
    )
    around = [span for span in spans if span[0] <= line.number <= span[1]]
    return max(around, default=(0, 0, ""))[2]


def spans_of_python(content: bytes) -> Iterator[tuple[int, int, str]]:
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            yield first, node.end_lineno or node.lineno, node.name


def spans_of_ctags(line: ChangedLine) -> Iterator[tuple[int, int, str]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"a.{line.path.rpartition('.')[2]}")
        file.write_bytes(line.content)
        command = ["ctags", "--output-format=json", "--fields=+neK", "-o", "-", str(file)]
        output = subprocess.run(command, capture_output=True, check=True).stdout
    for row in output.decode("utf-8", "replace").splitlines():
        tag = json.loads(row)
        if tag.get("kind") in FUNCTION_KINDS and "end" in tag:
            yield tag["line"], tag["end"], tag["name"].rpartition(".")[2]


def parsed_function(line: ChangedLine) -> str:
    (outline,) = parse_files([SourceFile(line.path, line.content)])
    definition = outline.enclosing(line.number) if outline is not None else None
    if definition is None or definition.role != "function":
        return ""
    return definition.name


def main() -> None:
    print("| clone | language | hunks | same function |\n| --- | --- | --- | --- |")
    for clone in sys.argv[1:]:
        ending = main_ending(clone)
        lines: list[ChangedLine] = []
        for line in changed_lines(clone, ending):
            lines.append(line)
            if len(lines) == HUNKS:
                break
        same = 0
        for line in lines:
            right, parsed = true_function(line), parsed_function(line)
            same += right == parsed
            if right != parsed:
                place = f"{line.commit[:9]}:{line.path}:{line.number}"
                print(f"{place}: ctags or ast {right!r}, parser {parsed!r}", file=sys.stderr)
        print(f"| {Path(clone).name} | {ending} | {len(lines)} | {same} |", flush=True)


if __name__ == "__main__":
    main()
