"""Read documents that a later version may have written: keys that this version does not know are left out.

What this version writes has known keys only (`Model` forbids others); what it reads may have more, in any object.
Everything else about a document is as strict as ever.
"""

from __future__ import annotations

from typing import Any, TypeVar

from vibe_gate.domain.event import Event
from vibe_gate.domain.model import Model

M = TypeVar("M", bound=Model)


def read(model: type[M], document: dict[str, Any]) -> M:
    """The document as `model`. Raises pydantic.ValidationError."""
    return model.model_validate(document, extra="ignore")


def read_event(document: dict[str, Any]) -> Event:
    """A line of events.ndjson; its `data` may hold any text that JSON can, lone surrogates too."""
    return read(Event, document)
