"""Remarks on a bundle, beside its sealed files: `annotations.ndjson`, and `annotations/` for what is attached.

No seal vouches for them, and none is broken by them: they say what somebody thought
later. A turn's annotations lie in its run's folder, for the seal of a run counts
every file of a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store import names
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import Log
from vibe_gate.store.objects import LARGEST_CONTENT, digest_of
from vibe_gate.store.place import Place, json_object, open_folder, unreadable
from vibe_gate.store.redactor import Redactor

MAX_MESSAGE_CHARACTERS = 10_000


@dataclass(frozen=True, slots=True)
class Attachment:
    """What an annotation shows beside its message: bytes (redacted before they are kept) and what they are."""

    body: bytes
    content_type: str = "text/plain"


@dataclass(frozen=True, slots=True)
class Annotation:
    """One remark. `ts` in milliseconds; `turn` as in a message; `attachment`: content_type, sha256, size, name."""

    message: str
    type: str
    ts: int
    turn: str
    attachment: Mapping[str, Any] | None


def annotate(
    place: Place,
    redact: Redactor,
    clock: Callable[[], datetime],
    remark: tuple[str, str],
    attachment: Attachment | None,
) -> None:
    """Append a remark (message and type). UsageError: too long; StorageError: nothing was written."""
    message, type = remark
    if not (isinstance(message, str) and isinstance(type, str)):
        raise UsageError(f"An annotation's message and type are texts, not {message!r:.40} and {type!r:.40}.")
    if len(message) > MAX_MESSAGE_CHARACTERS:
        raise UsageError(f"An annotation has at most {MAX_MESSAGE_CHARACTERS:,} characters; attach the rest.")
    body = b"" if attachment is None else attachment.body
    if len(body) > LARGEST_CONTENT or len(body := redact.data(body)) > LARGEST_CONTENT:
        raise UsageError(f"An attachment has at most {LARGEST_CONTENT:,} bytes, its placeholders for secrets included.")
    record: dict[str, Any] = {
        "ts": names.milliseconds(clock()),
        "type": redact.text(type),
        "message": redact.text(message),
        "turn": place.inside,
    }
    folder = open_folder(place.root)
    try:
        if attachment is not None:
            record["attachment"] = _attach(folder, redact.text(attachment.content_type), body)
        log = Log(folder, names.ANNOTATIONS, first=0)
        try:
            log.append(lambda seq: {"seq": seq} | record)
        finally:
            log.close()
    except OSError as error:
        raise StorageError(f"The annotation was not written: {error.strerror or error}.") from error


def _attach(folder: Folder, content_type: str, body: bytes) -> dict[str, Any]:
    """Keep what is attached (redacted), and say where it is."""
    name = digest_of(body)
    folder.folder(names.ATTACHED, create=True).place(name, body)
    return {
        "content_type": content_type,
        "sha256": name,
        "size": len(body),
        "name": f"{names.ATTACHED}/{name}",
    }


def remarks_on(place: Place) -> Iterator[Annotation]:
    """The remarks on this bundle, oldest first; a run's include those on its turns. StorageError, IntegrityError."""
    beside = Place(place.root, "", None)  # nobody vouches for remarks
    try:
        lines = [line for _, line in beside.lines(names.ANNOTATIONS)]
    except OSError as error:
        raise unreadable(beside.path(names.ANNOTATIONS), error) from error
    for line in lines:
        record = beside.parsed(names.ANNOTATIONS, line, json_object)
        match record:
            case {"message": str(message), "type": str(type), "ts": int(ts), "turn": str(turn)}:
                if place.inside in {"", turn}:
                    attachment = record.get("attachment")
                    yield Annotation(message, type, ts, turn, attachment if isinstance(attachment, dict) else None)
