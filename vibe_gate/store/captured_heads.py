"""What lists say of captured sessions; one found by its id, and deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate.domain.document import Timestamp, decode_document, to_json
from vibe_gate.domain.escape import shorten_text
from vibe_gate.store.agent_events import AGENTS
from vibe_gate.store.captured_turns import (
    PromptText,
    call_in,
    is_of_kind,
    prompt_in,
    read_folder_events,
)
from vibe_gate.store.captures import (
    CAPTURES_FOLDER,
    META,
    agent_of,
    find_sessions,
    own_id,
    read_meta,
)
from vibe_gate.store.folder import Folder

if TYPE_CHECKING:
    from vibe_gate.store.database.run_index import RunIndex

MAX_LINE_CHARACTERS = 200
"""Of a prompt's first line."""


class CapturedHead(Struct, frozen=True):
    """What lists say of a captured session."""

    id: str
    """Its folder's name."""
    agent: str
    """A key of `AGENTS`."""
    title: str
    """What people call that agent."""
    session: str
    started_at: Timestamp
    updated_at: Timestamp
    ended: bool
    turns: int
    files: int
    """How many paths it wrote."""
    asked: str
    """The first line of its first prompt."""
    damaged: int = 0
    """Events that are not known."""

    @property
    def own_id(self) -> str:
        """The id that the agent itself gives to the session."""
        return own_id(self.session)


def list_captured_heads(root: Path, index: RunIndex | None = None) -> list[CapturedHead]:
    """The captured sessions in the store of this working tree, that which went on last first.

    Those that cannot be read are left out. `index` keeps what was read, so that only what is new
    is.
    """
    indexed = dict(index.folders()) if index else {}
    heads: list[CapturedHead] = []
    new_rows: dict[str, tuple[int, str]] = {}
    with contextlib.suppress(OSError):
        captures_folder = Folder.at(root).below(CAPTURES_FOLDER)
        for name in captures_folder.folders():
            indexed_ctime, text = indexed.pop(name, (0, ""))
            with contextlib.suppress(OSError, ValueError):
                place = captures_folder.folder(name)
                ctime = place.status(META).st_ctime_ns
                if indexed_ctime == ctime:
                    heads.append(decode_document(CapturedHead, text))
                    continue
                head = _read_head(name, place)
                heads.append(head)
                new_rows[name] = ctime, to_json(head)
    missing_names = indexed
    if index and (new_rows or missing_names):
        index.update(new_rows, missing_names)
    return sorted(heads, key=lambda head: (head.updated_at, head.id), reverse=True)


def _read_head(name: str, place: Folder) -> CapturedHead:
    """OSError, ValueError."""
    meta = read_meta(place)
    agent = agent_of(meta.session_id)
    prompts: list[PromptText] = []
    for event in read_folder_events(place, meta, is_of_kind(AGENTS[agent].prompt)):
        prompt = prompt_in(event, agent)
        if prompt is not None:
            prompts.append(prompt)
    written_paths: set[str] = set()
    for event in read_folder_events(place, meta, is_of_kind(AGENTS[agent].ended)):
        call = call_in(event, agent)
        if call is not None:
            written_paths.update(call.paths)
    return CapturedHead(
        id=name,
        agent=agent,
        title=AGENTS[agent].title,
        session=meta.session_id,
        started_at=meta.started_at,
        updated_at=meta.updated_at,
        ended=meta.ended,
        turns=len(prompts),
        files=len(written_paths),
        asked=first_prompt_line(min(prompts).text) if prompts else "",
        damaged=meta.damaged,
    )


def first_prompt_line(prompt: str) -> str:
    """The first line that says something, at most 200 characters of it."""
    lines = prompt.strip().splitlines()
    line = lines[0].strip() if lines else ""
    return shorten_text(line, MAX_LINE_CHARACTERS)


def match_captured_heads(heads: Iterable[CapturedHead], text: str) -> list[CapturedHead]:
    """The sessions with this id, or those whose id begins so: the folder's name, its last part, or
    the session's id.
    """
    head_list = list(heads)
    exact_matches = [head for head in head_list if text in (head.id, head.session, head.own_id)]
    if exact_matches:
        return exact_matches
    return [head for head in head_list if any(name.startswith(text) for name in _names_of(head))]


def _names_of(head: CapturedHead) -> tuple[str, ...]:
    name_without_agent = head.id.partition("_")[2]
    return head.id, name_without_agent, head.session, head.own_id


def delete_captured_session(roots: Iterable[Path], session: str) -> None:
    """Delete the events of a session in the stores of these working trees. OSError."""
    for root in roots:
        with contextlib.suppress(FileNotFoundError):
            captures_folder = Folder.at(root).below(CAPTURES_FOLDER)
            for place, _ in list(find_sessions(captures_folder, session)):
                captures_folder.remove_folder(place.path.name)


def has_captured_sessions(roots: Iterable[Path]) -> bool:
    """Whether a captured session is kept in one of these working trees."""
    for root in roots:
        with contextlib.suppress(OSError):
            if Folder.at(root).below(CAPTURES_FOLDER).folders():
                return True
    return False
