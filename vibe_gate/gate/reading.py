"""Which files of a tree are definitions, and what stands in them."""

from __future__ import annotations

import difflib
import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

from vibe_gate.domain import paths
from vibe_gate.domain.expressions import expression
from vibe_gate.gate.wording import inline, quoted

FOLDER = ".vibe-gate"
GATE_PATH = f"{FOLDER}/gate.toml"
RUBRICS = f"{FOLDER}/rubrics/"
SUPPRESSIONS = f"{FOLDER}/suppressions.toml"

MAX_BYTES = 1_000_000
"""A definition is written by people; one larger than this is a mistake or an attack."""

MAX_LINE = 5_000
"""tomllib's time grows with the square of a dotted key's parts: 60 ms for one of this length, hours for MAX_BYTES."""

MAX_DEPTH = 16
"""No key of ours lies deeper; dotted keys can nest as deep as a file is long and exhaust the stack."""

OTHER_FOLDERS = ("agents", "workflows", "calibration", "baseline", "cases")
"""Folders of other features; what they hold is not read here."""

_LOCATION = expression(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)\s*\Z")
_PLAINER = {"Cannot overwrite a value": "a key is set twice in one table"}


class Tree(Protocol):
    """A tree read as blobs: never from disk, never through symbolic links."""

    def read(self, path: str) -> bytes | None:
        """The content of the regular file at `path`; None if there is none."""
        ...

    def links(self, prefix: str) -> list[str]:
        """The paths of symbolic links and submodules at `prefix` or below it."""
        ...

    def list(self, prefix: str) -> list[str]:
        """The paths, from the root, of the regular files below the folder `prefix`."""
        ...


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


def definition_paths(tree: Tree) -> list[str]:
    """The paths of gate.toml and the rubrics, sorted."""
    return [path for path in _listed(tree) if path == GATE_PATH or _is_rubric(path)]


def linked(tree: Tree) -> Iterator[str]:
    """A mistake for every link where a definition could stand: it must not silently count as none."""
    for path in tree.links(FOLDER):
        if path in (FOLDER, GATE_PATH) or path.startswith(RUBRICS.removesuffix("/")) or path.endswith(".toml"):
            yield f"{paths.quote(path)}: symbolic links (and submodules) are not followed; put the file itself here"


def misplaced(tree: Tree) -> Iterator[str]:
    """A mistake for every TOML file that nothing would ever read."""
    for path in _listed(tree):
        if path.lower().endswith(".toml") and path not in (GATE_PATH, SUPPRESSIONS) and not _is_rubric(path):
            advice = _right_place(path)
            if advice:
                yield f"{paths.quote(path)}: no definition is read from here; {advice}"


def parse(path: str, raw: bytes) -> Source | str:
    """The file's tables, or the mistake that keeps it from being read."""
    shown = paths.quote(path)
    if len(raw) > MAX_BYTES:
        return f"{shown}: {len(raw):,} bytes; a definition may have at most {MAX_BYTES:,}"
    try:
        text = raw.decode("utf-8-sig")  # editors on Windows like to put a byte order mark first
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return f"{shown}: line {line}: not UTF-8 (byte {raw[error.start]:#04x}); save the file as UTF-8"
    too_long = next((number for number, line in enumerate(text.split("\n"), 1) if len(line) > MAX_LINE), None)
    if too_long is not None:
        return f'{shown}: line {too_long}: over {MAX_LINE:,} characters; break it up (long text fits in """ quotes)'
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        return f"{shown}: arrays or tables are nested too deeply"
    except tomllib.TOMLDecodeError as error:
        return f"{shown}: {_syntax(str(error))}"
    except ValueError:  # int() refuses thousands of digits
        return f"{shown}: a number has too many digits"
    if _is_deep(tables):
        return f"{shown}: tables are nested deeper than {MAX_DEPTH} levels"
    return Source(path, tables, hashlib.sha256(raw).hexdigest())


def with_dates_as_text(value: Any) -> Any:  # noqa: ANN401  whatever TOML holds
    """The tables with TOML's dates as ISO text: nobody should have to know whether a date wants quotes."""
    if isinstance(value, dict):
        return {key: with_dates_as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_dates_as_text(inner) for inner in value]
    return value.isoformat() if type(value) is date else value


def _listed(tree: Tree) -> list[str]:
    return sorted(path for path in tree.list(FOLDER) if path.startswith(f"{FOLDER}/"))


def _is_rubric(path: str) -> bool:
    name = path.removeprefix(RUBRICS)
    return path.startswith(RUBRICS) and "/" not in name and name.endswith(".toml")


def _right_place(path: str) -> str | None:
    """What to do with a TOML file in the wrong place; None where it belongs to another feature."""
    *folders, name = path.split("/")[1:]
    if not folders:
        if near := difflib.get_close_matches(name.lower()[:64], ["gate.toml", "suppressions.toml"], cutoff=0.7):
            return f"did you mean {FOLDER}/{near[0]}?"
        return f"the gate is {GATE_PATH}, a rubric belongs in {RUBRICS}"
    if folders[0] in OTHER_FOLDERS:
        return None
    if folders == ["rubrics"]:
        return 'the ending must be ".toml" in lower case'
    if folders[0] == "rubrics":
        return f"rubrics stand directly in {RUBRICS}"
    near = difflib.get_close_matches(folders[0].lower()[:64], ["rubrics", *OTHER_FOLDERS], n=1)
    return f"did you mean {FOLDER}/{near[0]}/?" if near else f"a rubric belongs in {RUBRICS}"


def _syntax(message: str) -> str:
    found = _LOCATION.search(message)
    what = inline(_LOCATION.sub("", message))
    what = f"not TOML: {_PLAINER.get(what, what[:1].lower() + what[1:])}"
    if not found:
        return what
    return f"line {found[1]}, column {found[2]}: {what}" if found[1] else f"at the end of the file: {what}"


def _is_deep(tables: dict[str, Any]) -> bool:
    level: list[Any] = [tables]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            children = value.values() if isinstance(value, dict) else value
            inner += [child for child in children if isinstance(child, (dict, list))]
        if not inner:
            return False
        level = inner
    return True


def describe_missing_rubric(name: str, known: list[str]) -> str:
    """Why a rubric that gate.toml names is not there, and which one may be meant."""
    why = f"no rubric {quoted(name)}: there is no file {paths.quote(f'{RUBRICS}{name}.toml')}"
    near = difflib.get_close_matches(name[:64], known, n=1)
    advice = f"did you mean {quoted(near[0])}?" if near else "write it, or take the name out"
    return f"{why} (symbolic links are not followed); {advice}"
