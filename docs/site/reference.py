"""The parts of the documentation that the code says itself: arguments, keys, checks, documents,
exit codes.

python docs/site/reference.py            print where a page says anything else than the code; exit code 1 if one does
python docs/site/reference.py --write    write it into the pages, between `<!-- reference: NAME -->` and the next
                                         `<!-- /reference -->`
"""

from __future__ import annotations

import argparse
import ast
import difflib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import verdict_table
import yaml
from msgspec import Struct

from vibe_gate import errors
from vibe_gate.checks import CHECKS
from vibe_gate.domain import agent_hint, cause
from vibe_gate.domain.commit_row import CommitRow
from vibe_gate.domain.document import schema_of
from vibe_gate.domain.event import Event
from vibe_gate.domain.rubric import IDENTIFIER
from vibe_gate.domain.summary import Summary
from vibe_gate.faces.cli import dispatch
from vibe_gate.faces.cli.command import parser as parser_of
from vibe_gate.faces.cli.help import COMMANDS
from vibe_gate.gate.schema import MODELS, json_schema
from vibe_gate.judging.defects import STANDING_MEANINGS, combine_standings
from vibe_gate.judging.rubric_tally import EFFECT_MEANINGS
from vibe_gate.sessions import SessionMeta
from vibe_gate.store.captures import CaptureMeta
from vibe_gate.store.turn_summary import TurnSummary

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS: tuple[type[Struct], ...] = (
    Summary,
    Event,
    TurnSummary,
    CaptureMeta,
    SessionMeta,
    CommitRow,
)
"""What a bundle, a capture and a session hold as JSON."""

CAUSES: dict[str, type[Struct]] = {kind.__name__: kind for kind in get_args(cause.Cause)}
"""The causes by the names of their classes."""

HINTS: dict[str, type[Struct]] = {kind.__name__: kind for kind in get_args(agent_hint.AgentHint)}
"""The hints at an agent by the names of their classes."""

MOST_WORDS = 12
"""Of an enumeration that is written out as a type."""

_BLOCK = re.compile(
    r"(?<=<!-- reference: )(?P<name>[^>\n]+)(?P<open> -->\n)(?P<text>.*?)(?=<!-- /reference -->)",
    re.S,
)
_COMMANDS = (*COMMANDS, *dispatch.MACHINE_COMMANDS)


def first_paragraph(kind: type) -> str:
    """What a class says of itself, on one line."""
    paragraph, _, _ = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    return " ".join(paragraph.split())


def blocks() -> dict[str, str]:
    """Every part by its name, as Markdown."""
    made = {
        "commands": _commands(),
        "checks": _checks(),
        "exit codes": _exit_codes(),
        "errors": _errors(),
    }
    made |= {"causes": _codes(CAUSES), "hints": _codes(HINTS)}
    made |= {"criterion effects": _criterion_effects(), "effects": _effects()}
    made["defect standings"] = _defect_standings()
    made |= {part: _action(part) for part in ("inputs", "outputs")}
    for name in _COMMANDS:
        made |= {f"command {each}": _arguments(parser) for each, parser in _parsers(name)}
    for name in MODELS:
        schema = json.loads(json_schema(name))
        made |= {f"keys {title}": _keys(one, schema) for title, one in _objects(schema)}
    made |= {f"document {kind.__name__}": _document(kind) for kind in DOCUMENTS}
    return made


def main(argv: list[str]) -> int:
    """Compare the pages with the code, or write them. 1: a page differs, or lacks a part that the
    code has.
    """
    wanted, differs = blocks(), False
    left = set(wanted)
    for page in PAGES:
        text = page.read_text()
        for match in _BLOCK.finditer(text):
            if match["name"] not in wanted:
                print(f"{page.relative_to(ROOT)}: there is no part {match['name']!r}")
                differs = True
            left.discard(match["name"])
        new = _BLOCK.sub(
            lambda match: f"{match['name']}{match['open']}{wanted.get(match['name'], '')}", text
        )
        if new != text and argv == ["--write"]:
            page.write_text(new)
        elif new != text:
            differs = True
            print(
                *difflib.unified_diff(
                    text.splitlines(), new.splitlines(), str(page), "the code", lineterm=""
                ),
                sep="\n",
            )
    for name in sorted(left):
        print(f"no page has <!-- reference: {name} -->")
    if differs and argv != ["--write"]:
        print("Write the pages anew: python docs/site/reference.py --write")
    return int(differs or bool(left))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )


def _parsers(name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser of a command, or those of its subcommands."""
    parser = parser_of(name, dispatch.find_command(name))
    groups = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    if not groups:
        yield name, parser
    for group in groups:
        yield from ((f"{name} {each}", one) for each, one in group.choices.items())


def _commands() -> str:
    rows = (
        (f"[`{name}`](#vibe-gate-{name})", dispatch.find_command(name).summary) for name in COMMANDS
    )
    return _table(("command", "what it does"), rows)


def _arguments(parser: argparse.ArgumentParser) -> str:
    """The usage of a command, and what each of its arguments means."""
    usage = _wrap_usage(parser.format_usage().removeprefix("usage: ").replace(" [-h]", ""))
    rows = [
        (_named(action), (action.help or "").strip())
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction) and action.help != argparse.SUPPRESS
    ]
    return f"```text\n{usage}```\n" + ("\n" + _table(("argument", "meaning"), rows) if rows else "")


def _wrap_usage(usage: str) -> str:
    """The usage in lines of at most 76 characters that break between its parts only.

    argparse breaks lines elsewhere in each version of Python.
    """
    parts = re.findall(r"\[(?:[^][]|\[[^][]*\])*\](?: \.\.\.)?|\S+", " ".join(usage.split()))
    is_name = [not part.startswith(("[", "-")) and part.islower() for part in parts]
    words = is_name.index(False) if False in is_name else len(parts)
    indent = " " * (len(" ".join(parts[:words])) + 1)
    lines = [" ".join(parts[:words])]
    for part in parts[words:]:
        if len(lines[-1]) + 1 + len(part) > 76:
            lines.append(indent + part)
        else:
            lines[-1] += f" {part}"
    return "\n".join(lines) + "\n"


def _named(action: argparse.Action) -> str:
    value = str(action.metavar or "|".join(map(str, action.choices or ())))
    value = (
        f"[{value}]" if action.nargs == "?" else f"{value} ..." if action.nargs == "+" else value
    )
    return (
        ", ".join(f"`{option} {value}`".replace(" `", "`") for option in action.option_strings)
        or f"`{value}`"
    )


def _objects(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a schema by the names of their models, the document itself first."""
    yield schema["title"], schema
    yield from ((name, one) for name, one in schema.get("$defs", {}).items() if "properties" in one)


def _keys(one: dict[str, Any], schema: dict[str, Any]) -> str:
    """The keys of a table in a definition."""
    rows = []
    for name, key in one.get("properties", {}).items():
        inner = schema.get("$defs", {}).get(key.get("$ref", "").rpartition("/")[2], {})
        meaning = key.get("description") or " ".join(inner.get("description", "").split())
        default = "required" if name in one.get("required", ()) else _default(key)
        rows.append((f"`{name}`", _type(key, schema), default, meaning))
    return _table(("key", "type", "default", "meaning"), rows)


def _document(kind: type[Struct]) -> str:
    """A document and the objects in it, each with its keys."""
    schema = schema_of(kind)
    parts = []
    for title, object_schema in _objects(schema):
        if title in CAUSES or title in HINTS:
            continue
        meanings = field_meanings().get(title, {})
        rows = []
        for name, key in object_schema["properties"].items():
            row = (f"`{name}`", _type(key, schema, names=True))
            field_name = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
            rows.append((*row, meanings.get(field_name, "")) if meanings else row)
        head = ("key", "type", "meaning") if meanings else ("key", "type")
        heading = f"#### {title}\n\n" if object_schema is not schema else ""
        description = " ".join(object_schema.get("description", "").split())
        about = textwrap.fill(description, 120, break_on_hyphens=False)
        parts.append(f"{heading}{about}\n\n{_table(head, rows)}")
    return "\n" + "\n".join(parts) + "\n"


@cache
def field_meanings() -> dict[str, dict[str, str]]:
    """By class and field, what stands below the field. Names of classes are unique."""
    meanings = {}
    for module in sorted((ROOT / "vibe_gate").rglob("*.py")):
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ClassDef):
                meanings[node.name] = _meanings_in(node)
    return meanings


def _meanings_in(node: ast.ClassDef) -> dict[str, str]:
    """By field, the text that follows it."""
    meanings = {}
    for statement, next_statement in pairwise(node.body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(next_statement, ast.Expr):
            continue
        text = next_statement.value
        if isinstance(text, ast.Constant) and isinstance(statement.target, ast.Name):
            meanings[statement.target.id] = " ".join(str(text.value).split())
    return meanings


def _codes(kinds: dict[str, type[Struct]]) -> str:
    """The codes of causes or hints, what each holds besides, and what it says."""
    rows = []
    for kind in kinds.values():
        schema = schema_of(kind)
        keys = [
            f"`{name}`: {_type(key, schema)}"
            for name, key in schema["properties"].items()
            if name not in ("code", "commit", "recorded")
        ]
        meaning = first_paragraph(kind)
        rows.append((f"`{schema['properties']['code']['enum'][0]}`", "; ".join(keys), meaning))
    return _table(("code", "holds", "meaning"), rows)


def _default(key: dict[str, Any]) -> str:
    default = key.get("default")
    if default in (None, [], {}, "") or isinstance(default, dict):
        return ""
    values = default if isinstance(default, list) else [default]
    texts = (f"{value:g}" if isinstance(value, float) else value for value in values)
    return ", ".join(f"`{text if isinstance(text, str) else json.dumps(text)}`" for text in texts)


def _type(key: dict[str, Any], schema: dict[str, Any], *, names: bool = False) -> str:
    """The type of a value in words; with `names` an object has its own."""
    if "$ref" in key:
        name = key["$ref"].rpartition("/")[2]
        if "properties" not in schema["$defs"][name]:
            return _type(schema["$defs"][name], schema, names=names)
        return f"[{name}](#{name.lower()})" if names else "table"
    if "discriminator" in key:
        is_hint = "run_agent" in key["discriminator"]["mapping"]
        return "[hint](#hints-at-an-agent)" if is_hint else "[cause](#causes)"
    if "anyOf" in key or "oneOf" in key:
        kinds = (_type(one, schema, names=names) for one in key.get("anyOf") or key["oneOf"])
        return " or ".join(dict.fromkeys(kind for kind in kinds if names or kind != "null"))
    words = key.get("enum") or ([key["const"]] if "const" in key else [])
    if words and len(words) <= MOST_WORDS:
        return ", ".join(f"`{word}`" for word in words)
    if key.get("type") == "array":
        return f"array of {_plural(_type(key.get('items', {}), schema, names=names))}"
    if key.get("type") == "object":
        inner = next(
            iter(key.get("patternProperties", {}).values()), key.get("additionalProperties")
        )
        return (
            f"{_plural(_type(inner, schema, names=names))} by name"
            if isinstance(inner, dict)
            else "table"
        )
    if key.get("type") in ("integer", "number"):
        return _number(key)
    if key.get("pattern") == IDENTIFIER:
        return "id"
    kind = key.get("format") or key.get("type") or "anything"
    return {"boolean": "true or false", "string": "text"}.get(kind, kind)


def _plural(kind: str) -> str:
    return f"{kind}s" if kind in ("table", "id", "number", "whole number") else kind


def _number(key: dict[str, Any]) -> str:
    low, high = key.get("minimum"), key.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}" if low != high else f"{low}"
    kind = "whole number" if key["type"] == "integer" else "number"
    kind += f" > {key['exclusiveMinimum']}" if "exclusiveMinimum" in key else ""
    return (
        kind
        + (f", at least {low}" if low else "")
        + (f", at most {high}" if high is not None else "")
    )


def _checks() -> str:
    rows = []
    for name, check in CHECKS.items():
        schema = schema_of(check.options)
        options = []
        for option, key in schema.get("properties", {}).items():
            told = "required" if option in schema.get("required", ()) else _default(key)
            told = "" if isinstance(key.get("default"), list) else f" ({told})" if told else ""
            options.append(
                f"`{option}`{told}" + (f": {key['description']}" if option != "exclude" else "")
            )
        options.sort(key="`exclude`".__eq__)
        rows.append((f"`{name}`", check.summary, "; ".join(options)))
    return _table(("check", "a pass says", "options"), rows)


def _action(part: str) -> str:
    """The inputs or the outputs of action.yml."""
    written = yaml.safe_load((ROOT / "action.yml").read_text())[part]
    if part == "outputs":
        return _table(
            ("output", "meaning"),
            ((f"`{name}`", one["description"]) for name, one in written.items()),
        )
    rows = (
        (f"`{name}`", f"`{one['default']}`" if one["default"] else "", one["description"])
        for name, one in written.items()
    )
    return _table(("input", "default", "meaning"), rows)


def _criterion_effects() -> str:
    """What each outcome of a criterion does to its rubric."""
    return _table(("criterion", *verdict_table.OUTCOMES), verdict_table.table_rows())


def _effects() -> str:
    """The words of that table."""
    return _table(
        ("it", "means"), [(f"*{effect}*", meaning) for effect, meaning in EFFECT_MEANINGS.items()]
    )


def _defect_standings() -> str:
    """What a defect is worth, and what follows for a fail that has no other."""
    rows = []
    for standing, meaning in STANDING_MEANINGS.items():
        rows.append((meaning, f"*{standing}*", combine_standings([standing])))
    return _table(("its situation", "it is", "a fail with only such"), rows)


def _exit_codes() -> str:
    """The constants of `errors`, with what stands below each."""
    body = ast.parse(Path(errors.__file__).read_text()).body
    rows = [
        (str(ast.literal_eval(constant.value)), str(ast.literal_eval(below.value)))
        for constant, below in pairwise(body)
        if isinstance(constant, ast.Assign) and isinstance(below, ast.Expr)
    ]
    return _table(("exit code", "meaning"), rows)


def _errors() -> str:
    kinds = [
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, errors.GateError)
    ]
    return _table(
        ("error", "exit code", "raised when"),
        [(f"`{kind.__name__}`", str(kind.exit_code), first_paragraph(kind)) for kind in kinds],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
