"""What is wrong with a definition, in the words of its file.

A mistake reads `path: key: what is wrong; suggestion`. Keys and values may come from a hostile tree, so each is quoted
before it becomes part of a sentence.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from vibe_gate.checks import CHECKS
from vibe_gate.domain import paths
from vibe_gate.domain.escape import expression
from vibe_gate.domain.gate import GateFile
from vibe_gate.domain.rubric import IDENTIFIER, Criterion, Rubric

FOLDER = ".vibe-gate"
GATE_PATH = f"{FOLDER}/gate.toml"
RUBRICS = f"{FOLDER}/rubrics/"
SUPPRESSIONS = f"{FOLDER}/suppressions.toml"


@dataclass(frozen=True, slots=True)
class Source:
    """One definition file: its tables, and the sha-256 of its bytes in hex."""

    path: str
    tables: dict[str, Any]
    digest: str

    @property
    def stem(self) -> str:
        """The file's name without `.toml`: what a rubric's id must be."""
        return self.path.rsplit("/", 1)[-1].removesuffix(".toml")

    def mistake(self, location: Location, what: str) -> str:
        """The sentence about a key; one of a criterion is told with the criterion's id."""
        key = _dotted(location)
        with suppress(LookupError, TypeError):
            name = self.tables["criterion"][location[1]]["id"] if location[0] == "criterion" else None
            key += f" (id {quoted(name)})" if isinstance(name, str) else ""
        return ": ".join(part for part in (paths.quote(self.path), key, what) if part)


Location = tuple[int | str, ...]
M = TypeVar("M", bound=BaseModel)

MISTAKES_SHOWN = 50
"""Of one file; more help nobody."""

SHOWN_CHARACTERS = 60
"""Values and keys are cut here: a mistake is a sentence, not a copy of the file."""

_BARE_KEY = expression(r"[A-Za-z0-9_-]{1,64}\Z")
_KINDS = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "tuple_type": "an array",
    "list_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
}
_BOUNDS = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
}


def parsed(model: type[M], source: Source, found: list[str]) -> M | None:
    """The file as `model`, or None, and its mistakes go to `found`.

    TOML has types of its own, so nothing is converted: `must = "yes"` is a mistake. Its dates are read as ISO text.
    """
    return _validated(model, source.tables, (), source, found)


def _validated(model: type[M], tables: dict[str, Any], prefix: Location, source: Source, found: list[str]) -> M | None:
    try:
        return model.model_validate_json(json.dumps(tables, default=str), strict=True)
    except ValidationError as error:
        every = error.errors(include_url=False)
        # A list whose items are all wrong counts as empty, too.
        details = [detail for detail in every if not (detail["type"] == "too_short" and detail["input"])]
        found += [
            source.mistake(prefix + _location(detail), _sentence(detail, model)) for detail in details[:MISTAKES_SHOWN]
        ]
        if len(details) > MISTAKES_SHOWN:
            found.append(f"{paths.quote(source.path)}: and more mistakes like these")
        return None


def gate_mistakes(gate: GateFile, source: Source, rubrics: Sequence[str], found: list[str]) -> None:
    """What gate.toml says that does not fit the rubric files of these names."""
    named = {("rubrics",): gate.rubrics} | {
        ("scope", index, "rubrics"): scope.rubrics for index, scope in enumerate(gate.scope)
    }
    for location, names in named.items():
        for index, name in enumerate(names):
            if name in names[:index]:
                found.append(source.mistake((*location, index), f"{quoted(name)} is named twice"))
            elif name not in rubrics:
                found.append(source.mistake((*location, index), _missing_rubric(name, rubrics)))


def rubric_mistakes(rubric: Rubric, source: Source, found: list[str]) -> None:
    """What a rubric says that does not fit its file's name, or the checks that there are."""
    if rubric.id != source.stem:
        what = f"is {quoted(rubric.id)}, but the file's name is {quoted(source.stem)}; make them the same"
        found.append(source.mistake(("id",), what))
    for index, criterion in enumerate(rubric.criterion):
        if criterion.kind == "check":
            _check_mistakes(criterion, ("criterion", index), source, found)


def _check_mistakes(criterion: Criterion, location: Location, source: Source, found: list[str]) -> None:
    name = criterion.check_name
    if criterion.check == "command":
        found.append(source.mistake((*location, "check"), 'write command = ["program", "argument"] instead'))
    elif name not in CHECKS:
        what = f"no check {quoted(name)}; {_suggestion(name, list(CHECKS), 'the checks')}"
        found.append(source.mistake((*location, "check"), what))
    else:
        _validated(CHECKS[name].options, criterion.options, (*location, "options"), source, found)


def _missing_rubric(name: str, known: Sequence[str]) -> str:
    """Why a rubric that gate.toml names is not there, and which one may be meant."""
    why = f"no rubric {quoted(name)}: there is no file {paths.quote(f'{RUBRICS}{name}.toml')}"
    near = difflib.get_close_matches(name[:64], known, n=1)
    advice = f"did you mean {quoted(near[0])}?" if near else "write it, or take the name out"
    return f"{why} (symbolic links are not followed); {advice}"


def quoted(text: str) -> str:
    """Text from a file in double quotes: cut, and with nothing invisible left in it."""
    cut = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
    shown = paths.quote(cut)
    return shown if shown.startswith('"') else f'"{shown}"'


def _dotted(location: Location) -> str:
    """A key as people write it: `scope[0].paths[1]`, counted from 0."""
    out = ""
    for part in location:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += ("." if out else "") + (part if _BARE_KEY.match(part) else quoted(part))
    return out


def _shown(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)[:SHOWN_CHARACTERS]
    return "an array" if isinstance(value, list) else "a table"


def _suggestion(word: str, known: Sequence[str], kind: str) -> str:
    """`did you mean ...?`, or what could stand there."""
    return _did_you_mean(word, known) or f"{kind}: {', '.join(sorted(known))}"


def _did_you_mean(value: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(value[:64].lower(), known, n=1) if isinstance(value, str) else []
    return f'did you mean "{near[0]}"?' if near else ""


def _location(detail: ErrorDetails) -> Location:
    """Where the mistake is. pydantic appends "[key]" if a key is wrong; an unknown key may have that very name."""
    location = detail["loc"]
    return location[:-1] if location[-1:] == ("[key]",) and detail["type"] != "extra_forbidden" else location


def _sentence(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, location, value = detail["type"], _location(detail), detail["input"]
    context = detail.get("ctx", {})
    if location == ("schema",):
        return _schema_sentence(kind, value)
    if kind == "extra_forbidden":
        known = list(_fields(_table_of(model, location)))
        return f"unknown key; {_suggestion(str(location[-1]), known, 'known keys here')}"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", str(context["expected"]))
        if detail["loc"][-1] == "[key]":
            return f"unknown name; {_suggestion(str(value), words, 'known names here')}"
        said = f"must be {_either(words)}, not {_shown(value)}"
        return "; ".join(filter(None, (said, _did_you_mean(value, words))))
    if kind in _KINDS:
        return _wrong_kind(kind, location, model, value)
    if kind in _BOUNDS:
        return f"must be {_BOUNDS[kind].format(**context)}, not {_shown(value)}"
    if kind == "value_error":
        told = str(context["error"])
        return f"{quoted(value)} {paths.quote(told)}" if isinstance(value, str) else paths.quote(told)
    return _rarer(detail)


def _rarer(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "string_pattern_mismatch" and context["pattern"] == IDENTIFIER:
        return f'must be lower-case letters, digits, ".", "_" and "-", at most 64, not {_shown(detail["input"])}'
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    said = detail["msg"].replace("Input should be", "must be")
    return paths.quote(said[:1].lower() + said[1:])


def _schema_sentence(kind: str, value: object) -> str:
    if kind == "missing":
        return "is missing; write schema = 1 at the top of the file"
    if kind == "less_than_equal":
        return f"schema {_shown(value)} was written for a newer vibe-gate; this one reads schema = 1: upgrade it"
    return f"must be 1, not {_shown(value)}; write schema = 1"


def _wrong_kind(kind: str, location: Location, model: type[BaseModel], value: object) -> str:
    said = f"must be {_KINDS[kind]}, not {_shown(value)}"
    if kind not in ("tuple_type", "list_type"):
        return said
    if _model_within(_fields(_table_of(model, location))[str(location[-1])].annotation):
        return f"{said}; write [[{_dotted(location)}]] with two brackets"
    if not isinstance(value, str):
        return said
    words = value.split() if location[-1] == "command" else [value]
    return f"{said}; write [{', '.join(map(quoted, words))}]"


def _either(words: list[str]) -> str:
    shown = [f'"{word}"' for word in words]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _table_of(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """The model of the table in which the last part of the location stands."""
    for part in location[:-1]:
        field = _fields(model).get(str(part))
        model = (_model_within(field.annotation) if field else None) or model
    return model


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _model_within(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_within(part))), None)
