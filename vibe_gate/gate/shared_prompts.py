"""What people asked for, as lines of git notes on the commits that came of it: written at a push,
read in CI.

A note is a claim by whoever could push it. So it can make a rubric that sees prompts stricter, or
applicable, and passes nothing that fails without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.document import Timestamp, decode_document, to_json
from vibe_gate.domain.escape import without_middle
from vibe_gate.gate.prompts import asked_until, prompt_order, sessions_until
from vibe_gate.git import Repository
from vibe_gate.store.captured_turns import CapturedPrompt, prompts_of

PROMPTS = "vibe-gate-prompts"
"""The notes' ref, `refs/notes/vibe-gate-prompts`: one session a line."""

MAX_PROMPT = 8_000
"""Letters of one prompt that leave; a longer one is cut from its middle. A judge is shown 20,000 of
all of them.
"""

MAX_SESSION = 60_000
"""Letters of all prompts of a session that leave; of more, those in the middle are left out."""

MAX_LINES = 50
"""Lines of one note that are read."""


class SharedPrompt(Struct, frozen=True):
    """One prompt of a captured session, redacted."""

    turn: Annotated[int, Meta(ge=1)]
    """From 1."""

    at: Timestamp

    text: str


class SharedSession(Struct, frozen=True, kw_only=True):
    """A line of a note: what was asked in a session until it last wrote a file of the commit."""

    schema: Literal[1] = 1

    agent: Annotated[str, Meta(max_length=50)]

    session: Annotated[str, Meta(max_length=200)]

    turns: Annotated[int, Meta(ge=0)]
    """How many prompts that were."""

    sha256: Annotated[str, Meta(max_length=64)]
    """Of their redacted texts."""

    prompts: tuple[SharedPrompt, ...] = ()
    """() in a digest."""

    @property
    def digest(self) -> SharedSession:
        """The same without what was asked."""
        return replace(self, prompts=())

    def to_line(self) -> bytes:
        """As a line of a note, without LF."""
        return to_json(self).encode()


def sessions_behind(
    files: Iterable[FileDiff], writes: Mapping[str, Mapping[str, int]], roots: Sequence[Path]
) -> tuple[SharedSession, ...]:
    """What was asked in the captured sessions that wrote files of a change.

    `writes` as `CapturedBlobs.last_writes` gives them; `roots` are the working trees in whose
    stores sessions may lie.
    """
    sessions = []
    for session_id, last_write_ms in sessions_until(files, writes).items():
        prompts = asked_until(prompts_of(roots, session_id), last_write_ms)
        if prompts:
            sessions.append(_share_session(prompts))
    return tuple(sessions)


def _share_session(prompts: Sequence[CapturedPrompt]) -> SharedSession:
    texts = json.dumps([prompt.text for prompt in prompts]).encode()
    shared_prompts = [
        SharedPrompt(prompt.turn, prompt.at, without_middle(prompt.text, MAX_PROMPT))
        for prompt in prompts
    ]
    return SharedSession(
        agent=prompts[0].agent,
        session=prompts[0].session,
        turns=len(prompts),
        sha256=hashlib.sha256(texts).hexdigest(),
        prompts=_within_limits(shared_prompts),
    )


def _within_limits(prompts: Sequence[SharedPrompt]) -> tuple[SharedPrompt, ...]:
    """The first and the last ones, as many of each as fit."""
    first: list[SharedPrompt] = []
    last: list[SharedPrompt] = []
    left_letters = MAX_SESSION
    waiting = [*prompts]
    while waiting:
        takes_first = len(first) <= len(last)
        prompt = waiting.pop(0 if takes_first else -1)
        left_letters -= len(prompt.text)
        if left_letters < 0:
            break
        if takes_first:
            first.append(prompt)
        else:
            last.append(prompt)
    return (*first, *reversed(last))


def read_shared_prompts(
    repository: Repository, commits: Collection[str]
) -> tuple[CapturedPrompt, ...]:
    """What the notes here say was asked for these commits, oldest first, each prompt once."""
    note_ids = repository.note_ids(PROMPTS)
    texts = repository.note_texts([note_ids[commit] for commit in commits if commit in note_ids])
    prompts: set[CapturedPrompt] = set()
    for text in texts.values():
        for session in _read_note(text):
            prompts.update(_captured_prompts(session))
    return tuple(sorted(prompts, key=prompt_order))


def _captured_prompts(session: SharedSession) -> Iterator[CapturedPrompt]:
    for prompt in session.prompts:
        at = prompt.at.astimezone(UTC)
        yield CapturedPrompt(session.agent, session.session, prompt.turn, at, prompt.text)


def _read_note(note: bytes) -> Iterator[SharedSession]:
    """The lines that can be read: a colleague's version may write others."""
    for line in note.split(b"\n")[:MAX_LINES]:
        try:
            yield decode_document(SharedSession, line)
        except ValueError:
            continue
