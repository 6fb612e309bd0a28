"""Documents that a later version may have written: under the same `schema` fields may be added, and are not read.

What this version writes has known keys only (`Model`); what it reads may have more.
Everything else about a document is as strict as ever.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from vibe_gate.domain.event import Event
from vibe_gate.domain.model import Model

M = TypeVar("M", bound=Model)


def read(model: type[M], document: dict[str, Any]) -> M:
    """The document as `model`, keys that it does not know left out. `document` is not changed. ValidationError."""
    return _known(lambda found: model.model_validate_json(json.dumps(found)), document)


def read_event(document: dict[str, Any]) -> Event:
    """A line of events.ndjson, as `read`; its `data` may hold any text that JSON can, half characters too."""
    return _known(Event.model_validate, document)


def _known(validate: Callable[[dict[str, Any]], M], document: dict[str, Any]) -> M:
    try:
        return validate(document)
    except ValidationError as error:
        unknown = [one["loc"] for one in error.errors(include_url=False) if one["type"] == "extra_forbidden"]
        if not unknown:
            raise
        known = copy.deepcopy(document)
        for place in unknown:
            _drop(known, place)
        return validate(known)


def _drop(document: Any, place: tuple[int | str, ...]) -> None:  # noqa: ANN401 - any JSON
    """Take the key at the end of `place` away; nothing where the way to it is none of the document's."""
    for step in place[:-1]:
        try:
            document = document[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(document, dict):
        document.pop(place[-1], None)
