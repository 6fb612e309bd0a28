"""Mistakes that no single key shows: names that lead nowhere, globs and commands that cannot work.

Everything here reads the tables as they were written, valid or not, so that these
mistakes are told together with those of the single keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vibe_gate.checks import CHECKS
from vibe_gate.domain import paths
from vibe_gate.domain.expressions import expression
from vibe_gate.gate.reading import Source, describe_missing_rubric
from vibe_gate.gate.wording import Location, parsed, quoted, shown_value, suggestion

_RANGE = expression(r"\[[^\]]*?([^\[\]!^])-([^\]])")
"""The first range of a set in a glob, as its two ends."""

GLOB_OPTIONS = ("paths", "exclude", "tests", "changed", "companion")
"""Options of checks that hold globs; one word for one thing, whatever the check."""

Found = Iterator[tuple[Location, str]]


def gate_mistakes(gate: Source, rubrics: list[str]) -> Found:
    """What is wrong with gate.toml, given the names of the rubric files."""
    yield from _schema(gate)
    yield from _references(gate.tables.get("rubrics"), ("rubrics",), rubrics)
    for index, scope in enumerate(_tables(gate.tables.get("scope"))):
        yield from _references(scope.get("rubrics"), ("scope", index, "rubrics"), rubrics)
        yield from _globs(scope.get("paths"), ("scope", index, "paths"))
    policy = gate.tables.get("policy")
    if isinstance(policy, dict):
        for key in ("block", "warn"):
            yield from _globs(policy.get(key), ("policy", key))
    model = gate.tables.get("model")
    if isinstance(model, dict):
        yield from _model_name(model.get("default"), ("model", "default"))


def rubric_mistakes(rubric: Source) -> Found:
    """What is wrong with one rubric's file."""
    yield from _schema(rubric)
    name = rubric.tables.get("id")
    if isinstance(name, str) and name != rubric.stem:
        yield ("id",), f"is {quoted(name)}, but the file's name is {quoted(rubric.stem)}; make them the same"
    yield from _model_name(rubric.tables.get("model"), ("model",))
    first: dict[str, int] = {}
    for index, criterion in enumerate(_tables(rubric.tables.get("criterion"))):
        where: Location = ("criterion", index)
        name = criterion.get("id")
        if isinstance(name, str) and first.setdefault(name, index) != index:
            yield (
                (*where, "id"),
                f"{quoted(name)} is taken by criterion[{first[name]}]; each id stands for one criterion",
            )
        yield from _globs(criterion.get("paths"), (*where, "paths"))
        yield from _command(criterion.get("command"), (*where, "command"))
        if criterion.get("kind") != "judge":
            yield from _check(criterion, where)
        question = criterion.get("question")
        if isinstance(question, str) and question and not question.strip():
            yield (*where, "question"), "must not be blank"


def suppression_mistakes(file: Source) -> Found:
    """What is wrong with suppressions.toml."""
    yield from _schema(file)
    for index, rule in enumerate(_tables(file.tables.get("suppression"))):
        yield from _globs(rule.get("paths"), ("suppression", index, "paths"))


def _schema(source: Source) -> Found:
    value = source.tables.get("schema")
    if value == 1 and type(value) is not int:  # true and 1.0 equal 1 in Python, but not in TOML
        yield ("schema",), f"must be 1, not {shown_value(value)}"


def _tables(value: object) -> list[dict[str, Any]]:
    """The tables of an array of tables; what is none is told of elsewhere, and stands here as {} to keep the count."""
    return [item if isinstance(item, dict) else {} for item in value] if isinstance(value, list) else []


def _texts(value: object) -> list[tuple[int, str]]:
    return [(i, item) for i, item in enumerate(value) if isinstance(item, str)] if isinstance(value, list) else []


def _references(value: object, where: Location, known: list[str]) -> Found:
    seen: set[str] = set()
    for index, name in _texts(value):
        if name in seen:
            yield (*where, index), f"{quoted(name)} is named twice"
        elif name not in known:
            yield (*where, index), describe_missing_rubric(name, known)
        seen.add(name)


def _globs(value: object, where: Location) -> Found:
    for index, pattern in _texts(value):
        wrong = _glob_mistake(pattern)
        if wrong:
            yield (*where, index), wrong


def _glob_mistake(pattern: str) -> str | None:
    """Why a glob would never match as meant; None where it can."""
    if not pattern.strip("/ "):
        return "a glob must not be empty; leave the key out to mean every file"
    if pattern != pattern.strip():
        return f"{quoted(pattern)} begins or ends with a space, and no file's name would match"
    if pattern.startswith("!"):
        return f'{quoted(pattern)}: "!" does not negate here; name the paths that are meant'
    if pattern.startswith("./"):
        return f"{quoted(pattern)} starts with ./; globs start at the repository's root: write {quoted(pattern[2:])}"
    if ".." in pattern.split("/"):
        return f"{quoted(pattern)} leaves the repository; globs start at its root"
    if any(low > high for low, high in _RANGE.findall(pattern)):
        return f"{quoted(pattern)} has a set [...] whose range runs backwards; nothing would match it"
    return None


def _command(value: object, where: Location) -> Found:
    for index, word in _texts(value):
        if "\0" in word:
            yield (*where, index), "no argument can hold a NUL character"
        elif index == 0 and not word.strip():
            yield (*where, index), "must be the program's name, not blank"


def _check(criterion: dict[str, Any], where: Location) -> Found:
    """An unknown check, or options that the check does not have."""
    name, options = criterion.get("check"), criterion.get("options", {})
    if name == "command":
        yield (*where, "check"), 'write command = ["program", "argument"] instead'
        return
    if name is None and isinstance(criterion.get("command"), list):
        name = "command"
    if not isinstance(name, str):
        return
    if name not in CHECKS:
        yield (*where, "check"), f"no check {quoted(name)}; {suggestion(name, list(CHECKS), 'the checks')}"
    elif isinstance(options, dict):
        yield from parsed(CHECKS[name].options, options, (*where, "options"))[1]
        for key in GLOB_OPTIONS:
            yield from _globs(options.get(key), (*where, "options", key))


def _model_name(value: object, where: Location) -> Found:
    if isinstance(value, str) and (not value.strip() or not paths.is_plain(value)):
        yield where, f"must be the name of a language model, not {quoted(value)}"
