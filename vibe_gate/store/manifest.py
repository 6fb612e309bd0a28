"""What an exported archive begins with: which runs it holds, and which contents each of them shows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError

from vibe_gate.domain import tolerant_reading
from vibe_gate.domain.model import Model
from vibe_gate.store import names
from vibe_gate.store.archive import MAX_MEMBERS
from vibe_gate.store.layout import part_of
from vibe_gate.store.strict import parse_object

NAME = "vibe-gate-bundles.json"
MAX_BYTES = 64 << 20
"""Of the manifest; it has at most `strict.MAX_VALUES` runs and contents, like every document."""


class RunInArchive(Model):
    """`contents` are names relative to the run, as `files/after/<sha256>.txt.gz`."""

    key: str
    run_id: str
    contents: tuple[str, ...] = ()


class Manifest(Model):
    """The first member of the archive."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    runs: tuple[RunInArchive, ...]


_KEYS = {"schema", "runs"}


def parse(data: bytes) -> Manifest:
    """A manifest that names runs and contents only; ValueError with the reason."""
    try:
        document = parse_object(data)
        made = tolerant_reading.read(Manifest, document)
    except ValidationError:
        raise ValueError(f"its {NAME} is not of a known schema") from None
    except ValueError as error:
        raise ValueError(f"its {NAME} is wrong: {error}") from None
    if not (
        document.keys() <= _KEYS and all(run.keys() <= RunInArchive.model_fields.keys() for run in document["runs"])
    ):
        raise ValueError(f"its {NAME} is not of a known schema")
    if not made.runs:
        raise ValueError("it holds no runs")
    require_takable(made)
    for run in made.runs:
        if not names.is_run_id(run.run_id) or not is_key(run.key):
            raise ValueError("it names a run that none can be")
        if any(part_of(name) != "content" for name in run.contents):
            raise ValueError(f"its run {run.run_id} shows a content where no bundle has one")
    return made


def require_takable(made: Manifest) -> None:
    """ValueError where it has more runs, and contents that they show, than an import looks at."""
    if sum(1 + len(run.contents) for run in made.runs) > MAX_MEMBERS:
        raise ValueError(f"the runs and the contents that they show are more than {MAX_MEMBERS:,}")


def is_key(name: str) -> bool:
    """Whether a folder of runs may have this name."""
    try:
        return not names.is_own(names.as_folder_name(name, "a key"))
    except ValueError:
        return False
