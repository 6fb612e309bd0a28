"""Cases for the gate from public bug collections: two trees, a test that tells them apart, and what
a judge says of it.

Nothing of those projects is kept here: everything is read from clones that the caller names.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

MIN_QUOTE = 8
"""Characters without white space, below which the gate takes no quote for an obligation."""

TEST_PLACES = {
    "tqdm": "tqdm/tests/tests_counterexample.py",
    "tornado": "tornado/test/counterexample_test.py",
    "thefuck": "tests/test_counterexample.py",
}
"""Where a test is put in a project whose tests find their neighbours by their own path, or name
their own module.
"""

_FAILURE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt)\b")


class Quote(Struct, frozen=True):
    """A line of a file. `side`: of the change, before or after."""

    path: str
    line: int
    text: str
    side: str = "after"


class Case(Struct, frozen=True):
    """A change to review. `before`, `after`: trees' revisions in `clone`; `test`: what the judge
    writes.

    `obliges`: "" or what the obligation is (docstring, test, caller). `commands`: the project's own
    way to run the test, with `test_files` of the fix, to find out whether it tells the trees apart
    without the gate.
    """

    name: str
    project: str
    clone: Path
    before: str
    after: str
    test: str
    changed: Quote
    obligation: Quote | None = None
    obliges: str = ""
    place: str = ""
    commands: tuple[str, ...] = ()
    test_files: tuple[str, ...] = ()

    def turned(self) -> Case | None:
        """The step back, with the same test: the fix as the change under review; None if it has no
        line to quote.
        """
        changed = changed_line(self.clone, self.after, self.before)
        obligation, obliges = obliging(self.clone, self.before, changed) if changed else (None, "")
        return changed and Case(
            f"{self.name} fix", self.project, self.clone, self.after, self.before, self.test, changed,
            obligation, obliges, self.place,
        )  # fmt: skip


class Skipped(Struct, frozen=True):
    """What no case could be made of, and why."""

    name: str
    why: str


# BugsInPy


def bugs(collection: Path, project: str, clone: Path) -> Iterator[Case | Skipped]:
    """Every bug of the project: from the fixed tree to the buggy one."""
    listed = git(collection, "ls-tree", "--name-only", "HEAD", f"projects/{project}/bugs/").split()
    for number in sorted(int(path.rpartition("/")[2]) for path in listed):
        yield bug(collection, project, number, clone)


def bug(collection: Path, project: str, number: int, clone: Path) -> Case | Skipped:
    """One bug, with the test of its fix."""
    folder, name = f"HEAD:projects/{project}/bugs/{number}", f"{project} {number}"
    about = dict(
        re.findall(r'^(\w+)="([^"]*)"', git(collection, "show", f"{folder}/bug.info"), re.M)
    )
    fixed, buggy = about["fixed_commit_id"], about["buggy_commit_id"]
    files = tuple(about["test_file"].split(";"))
    lines = git(collection, "show", f"{folder}/run_test.sh").replace("\r", "").splitlines()
    commands = tuple(line.strip() for line in lines if "test" in line and not line.startswith("#"))
    of_file = [command for command in commands if _is_of(command, files[0])]
    changed = changed_line(clone, fixed, buggy)
    if not of_file or changed is None:
        return Skipped(
            name,
            "its command names no test of its file" if changed else "no line of source is changed",
        )
    test = only(
        git(clone, "show", f"{fixed}:{files[0]}"),
        [_named(command, files[0]) for command in of_file],
    )
    obligation, obliges = obliging(clone, buggy, changed)
    if place := TEST_PLACES.get(project, ""):
        test = test.replace(_module(files[0]), _module(place))  # a test may name its own module
    return Case(
        name,
        project,
        clone,
        fixed,
        buggy,
        test,
        changed,
        obligation,
        obliges,
        place,
        tuple(of_file),
        (files[0],),
    )


def _is_of(command: str, path: str) -> bool:
    return path in command or _module(path) in command


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _named(command: str, path: str) -> tuple[str, ...]:
    """The class and function that a command of pytest or unittest names."""
    last = shlex.split(command)[-1]
    if "::" in last:
        return tuple(last.split("::")[1:])
    return tuple(last.removeprefix(_module(path)).strip(".").split("."))


def only(source: str, wanted: Sequence[tuple[str, ...]]) -> str:
    """The module with these tests alone, and what they need of it: the form in which a judge writes
    a test.
    """
    body, lines = ast.parse(source).body, source.splitlines()
    kept = _needed(body, wanted)
    dropped: set[int] = set()
    for node in body:
        if node not in kept:
            dropped |= _lines_of(node)
        elif isinstance(node, ast.ClassDef):
            methods = [names[1] for names in wanted if names[0] == node.name and len(names) > 1]
            if methods or (node.name,) not in wanted:
                others = [
                    part for part in node.body if _is_test(part) and _name(part) not in methods
                ]
                if len(others) < len(node.body):
                    dropped |= set().union(*map(_lines_of, others))
    left = [line for number, line in enumerate(lines, 1) if number not in dropped]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(left)).strip("\n") + "\n"


def _needed(body: Sequence[ast.stmt], wanted: Sequence[tuple[str, ...]]) -> set[ast.stmt]:
    """Statements of a module that the wanted tests reach by name, and those without a name."""
    named = {name: node for node in body for name in _binds(node)}
    kept = {node for node in body if not _binds(node) or "autouse" in ast.dump(node)}
    open_ = [named[names[0]] for names in wanted if names[0] in named] + list(kept)
    open_ += [
        node
        for name, node in named.items()
        if name.lower().startswith(("setup", "teardown", "pytestmark"))
    ]
    kept |= set(open_)
    while open_:
        for name in _mentions(open_.pop(), wanted):
            if name in named and named[name] not in kept:
                kept.add(named[name])
                open_.append(named[name])
    return kept


def _binds(node: ast.stmt) -> list[str]:
    """Names that only a def, a class or a plain assignment gives; imports and conditions stay as
    they are.
    """
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [
        part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)
    ]


def _mentions(node: ast.stmt, wanted: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Names, arguments (pytest's fixtures) and words in texts that a statement has, other tests of
    a class left out.
    """
    methods = {names[1] for names in wanted if len(names) > 1}
    parts: list[ast.AST] = [node]
    if isinstance(node, ast.ClassDef) and methods:
        tests = [part for part in node.body if not _is_test(part) or _name(part) in methods]
        parts = [*node.bases, *node.decorator_list, *tests]
    for part in (each for root in parts for each in ast.walk(root)):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.arg):
            yield part.arg
        elif (
            isinstance(part, ast.Constant)
            and isinstance(part.value, str)
            and part.value.isidentifier()
        ):
            yield part.value


def _name(node: ast.AST) -> str:
    return getattr(node, "name", "")


def _is_test(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def _lines_of(node: ast.stmt) -> set[int]:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return set(range(first, (node.end_lineno or first) + 1))


# Testora


def differences(collection: Path, project: str, clone: Path) -> Iterator[Case | Skipped]:
    """Every difference that is labelled as intended, of a project whose pull requests are in the
    clone's history.
    """
    folder = f"data/ground_truth/{project}/"
    for path in git(collection, "ls-tree", "--name-only", "HEAD", folder).split():
        given = json.loads(git(collection, "show", f"HEAD:{path}"))
        labelled = enumerate(given["differentiating_tests"], 1)
        for number, each in labelled:
            if each["label"] == "intended":
                yield difference(
                    f"{project} {given['pr_number']}.{number}",
                    project,
                    given["pr_number"],
                    each,
                    clone,
                )


def difference(name: str, project: str, pull: int, given: dict, clone: Path) -> Case | Skipped:
    """One difference: the test demands what the code printed before the pull request."""
    subject = f"(^Merge pull request #{pull} )|\\(#{pull}\\)$"
    found = git(clone, "log", "--format=%H", "-E", f"--grep={subject}", "HEAD").split()
    if not found:
        return Skipped(name, "its pull request is not in the clone's history")
    changed = changed_line(clone, f"{found[0]}^1", found[0])
    if changed is None:
        return Skipped(name, "no line of source is changed")
    code, old = given["test"]["test_code"], given["test"]["old_output"]
    try:
        compile(code, "t", "exec")
    except SyntaxError:
        return Skipped(name, "its test is no Python")
    return Case(name, project, clone, f"{found[0]}^1", found[0], printing(code, said(old)), changed)


def said(output: str) -> list[str]:
    """The lines of what a script printed, of a traceback only its last, without warnings: those
    name places.
    """
    lines, in_traceback = list[str](), False
    for line in output.splitlines():
        if line.startswith("Traceback"):
            in_traceback = True
        elif in_traceback:
            if _FAILURE.match(line):
                lines.append(line)
                in_traceback = False
        elif line.strip() and not re.search(r"^\S+\.py:\d+: |^  (?:self\._)?warn", line):
            lines.append(line.rstrip())
    return lines


def printing(code: str, expected: Sequence[str]) -> str:
    """A test that runs the script and compares what it prints."""
    return f"""\
import contextlib
import io
import traceback

CODE = {code!r}
EXPECTED = {list(expected)!r}


def test_prints_what_it_printed():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(CODE, "example", "exec"), {{"__name__": "__main__"}})
        except Exception as error:
            print("".join(traceback.format_exception_only(error)))
    assert [line.rstrip() for line in out.getvalue().splitlines() if line.strip()] == EXPECTED
"""


# What a judge quotes


def changed_line(clone: Path, before: str, after: str) -> Quote | None:
    """The first line of source that the change adds, else the first that it removes."""
    paths = git(
        clone, "diff", "--no-renames", "--name-only", before, after, "--", "*.py"
    ).splitlines()
    sources = [path for path in paths if not _is_of_tests(path)]
    removed = list[Quote]()
    for path in sources:
        old, new = show(clone, before, path).splitlines(), show(clone, after, path).splitlines()
        for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes():
            if tag == "equal":
                continue
            added = [
                Quote(path, number + 1, new[number])
                for number in range(j1, j2)
                if _is_quotable(new[number])
            ]
            if added:
                return added[0]
            removed += [
                Quote(path, at + 1, old[at], "before")
                for at in range(i1, i2)
                if _is_quotable(old[at])
            ]
    return removed[0] if removed else None


def obliging(clone: Path, tree: str, changed: Quote) -> tuple[Quote | None, str]:
    """A line of the tree that obliges the changed code, and its kind: the docstring of the function
    or class around it, else a line of a test that calls that, else any caller.
    """
    source = show(clone, tree, changed.path)
    try:
        around = _around(ast.parse(source), changed.line)
    except SyntaxError:
        return None, ""
    lines = source.splitlines()
    for node in around:
        text = ast.get_docstring(node, clean=False)
        first = node.body[0].lineno if text is not None else 0
        for number in range(first, first + (text or "").count("\n") + 1 if first else 0):
            if _is_quotable(lines[number - 1]) and number != changed.line:
                return Quote(changed.path, number, lines[number - 1]), "docstring"
    names = [node.name for node in around]
    return _call(clone, tree, names, changed)


def _around(
    module: ast.Module, line: int
) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions and classes around the line, the innermost first."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    found = [
        node for node in ast.walk(module) if isinstance(node, kinds) and line in _lines_of(node)
    ]
    return sorted(found, key=lambda node: -node.lineno)


def _call(clone: Path, tree: str, names: Sequence[str], changed: Quote) -> tuple[Quote | None, str]:
    callers = list[Quote]()
    for name in names:
        given = ["grep", "-n", "-E", f"\\b{re.escape(name)}\\(", tree, "--", "*.py"]
        for found in git(clone, *given, codes=(0, 1)).splitlines():
            path, number, text = found.removeprefix(f"{tree}:").split(":", 2)
            call = Quote(path, int(number), text)
            is_it = (path, call.line) == (changed.path, changed.line) or re.match(
                r"\s*(?:async )?(?:def|class) ", text
            )
            if is_it or not _is_quotable(text):
                continue
            if _is_of_tests(path):
                return call, "test"
            callers.append(call)
    return (callers[0], "caller") if callers else (None, "")


def _is_quotable(line: str) -> bool:
    return len("".join(line.split())) >= MIN_QUOTE and not line.lstrip().startswith("#")


def _is_of_tests(path: str) -> bool:
    parts = path.split("/")
    return (
        bool({"test", "tests"} & set(parts[:-1]))
        or parts[-1].startswith("test")
        or parts[-1].endswith("_test.py")
    )


# git


def git(
    where: Path, *given: str, codes: Sequence[int] = (0,), environ: dict[str, str] | None = None
) -> str:
    """What git prints; no configuration of the user's counts."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    quiet = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    options = ["-c", "safe.directory=*", "-c", "core.quotePath=false", "-c", "gc.auto=0"]
    argv = ["git", "-C", str(where), *options, *given]
    done = subprocess.run(
        argv, env=bare | quiet | (environ or {}), capture_output=True, check=False
    )
    if done.returncode not in codes:
        raise SystemExit(
            f"{shlex.join(argv)} ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
        )
    return done.stdout.decode("utf-8", "replace")


def show(clone: Path, tree: str, path: str) -> str:
    """The file in the tree; "" if it is not there."""
    return git(clone, "show", f"{tree}:{path}", codes=(0, 128))


def repository(place: Path, case: Case, definitions: dict[str, str]) -> str:
    """A repository of two commits, before and after, each with the gate's definitions; the last
    commit's id.

    Objects of the clone are borrowed. Author and dates are fixed, so that the ids are the same each
    time.
    """
    place.mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    objects = git(case.clone, "rev-parse", "--git-path", "objects").strip()
    (place / ".git" / "objects" / "info" / "alternates").write_text(
        f"{(case.clone / objects).resolve()}\n"
    )
    who = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
           (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", "2026-01-02T03:04:05+00:00"))}  # fmt: skip
    parent = list[str]()
    for tree, title in ((case.before, "Before"), (case.after, "After")):
        git(place, "read-tree", "--reset", git(case.clone, "rev-parse", f"{tree}^{{tree}}").strip())
        for path, text in definitions.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text)
            git(place, "update-index", "--add", path)
        made = git(
            place,
            "commit-tree",
            "-m",
            title,
            *parent,
            git(place, "write-tree").strip(),
            environ=who,
        ).strip()
        parent = ["-p", made]
    git(place, "update-ref", "HEAD", made)
    return made
