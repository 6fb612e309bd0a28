"""meta.json of a session, and the name of its folder."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from vibe_gate.domain.document import (
    FIRST_YEAR,
    LAST_YEAR,
    Timestamp,
    first_mistake,
    parse_object,
    read,
)
from vibe_gate.domain.escape import shorten_text

META = "meta.json"

MAX_META_BYTES = 16 << 20
"""A session of 10,000 turns has some 3 MB."""

MAX_TITLE = 100
"""Characters: a title is one line of a list."""

NAME = re.compile(r"vibe_[0-9]{8}_[0-9]{6}_[0-9a-f]{8}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


_Tree = Annotated[str, Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})?(?!\n)$")]
_Run = Annotated[str, Meta(pattern=r"^([0-9]{8}T[0-9]{9}Z-[0-9a-f]{8})?(?!\n)$")]
_Uuid = Annotated[str, Meta(pattern=rf"^({_UUID.pattern})?(?!\n)$")]
"""A session may come from somebody else: these become arguments of git, and names of folders."""


def _require_years(*times: datetime) -> None:
    for at in times:
        if not FIRST_YEAR <= at.year <= LAST_YEAR:
            raise ValueError(f"{at} is not between {FIRST_YEAR} and {LAST_YEAR}")


class SessionTurn(Struct, frozen=True, kw_only=True):
    """One finished turn."""

    last: _Uuid
    """The uuid of its last message."""
    before: _Tree = ""
    """The workspace's tree before it."""
    after: _Tree = ""
    """The workspace's tree after it."""
    usd: Annotated[float, Meta(ge=0)] = 0.0
    input_tokens: Annotated[int, Meta(ge=0)] = 0
    output_tokens: Annotated[int, Meta(ge=0)] = 0
    status: str = ""
    run: _Run = ""
    """The run that recorded it."""
    node: str = ""
    """The node of that run."""
    ended_at: Timestamp

    def __post_init__(self) -> None:
        """ValueError for a time out of any calendar."""
        _require_years(self.ended_at)


class SessionMeta(Struct, frozen=True, kw_only=True):
    """What is known of a session without its messages."""

    schema: Literal[1] = 1
    session_id: str
    """The SDK's."""
    parent_session_id: str = ""
    title: str = ""
    cwd: str = ""
    """Where its user works."""
    agent: str = ""
    model: str = ""
    run: str = ""
    node: str = ""
    project: str = ""
    """ "" for this repository's workspaces, else the project key under which the SDK wrote it."""
    created_at: Timestamp
    updated_at: Timestamp
    turns: tuple[SessionTurn, ...] = ()
    private: bool = False
    """Whether the agent was shown sessions that stay in this clone: then so does what it says."""

    def __post_init__(self) -> None:
        """ValueError for a time out of any calendar."""
        _require_years(self.created_at, self.updated_at)

    @property
    def id(self) -> str:
        """The name of its folder, `vibe_{YYYYMMDD_HHMMSS}_{8 hex}`, in UTC."""
        digits = self.session_id
        if self.project or not is_uuid(self.session_id):
            place = f"{self.project}/{self.session_id}".encode("utf-8", "backslashreplace")
            digits = hashlib.sha256(place).hexdigest()
        return f"vibe_{self.created_at.astimezone(UTC):%Y%m%d_%H%M%S}_{digits[:8]}"

    @property
    def usd(self) -> float:
        """What all its turns cost."""
        return sum(turn.usd for turn in self.turns)


def parse_meta(data: bytes, name: str) -> SessionMeta:
    """What the meta.json of the folder `name` says. ValueError."""
    if len(data) > MAX_META_BYTES:
        raise ValueError(f"{META} is larger than {MAX_META_BYTES:,} bytes")
    try:
        meta = read(SessionMeta, parse_object(data))
    except ValueError as error:
        raise ValueError(f"{META}: {first_mistake(error)}") from error
    if meta.id != name or not (meta.project or is_uuid(meta.session_id)):
        raise ValueError(f"{META} is of {meta.id}, session {meta.session_id!r}")
    return meta


def is_uuid(text: object) -> bool:
    """Whether it is a UUID as the SDK writes them."""
    return isinstance(text, str) and _UUID.fullmatch(text) is not None


def shorten_title(text: str) -> str:
    """The first line of a prompt as a title."""
    lines = text.strip().splitlines()
    title = " ".join(lines[0].split()) if lines else ""
    return shorten_text(title, MAX_TITLE)
