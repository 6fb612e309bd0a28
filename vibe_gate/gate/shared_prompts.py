"""What people asked for, as lines of git notes on the commits that came of it: written at a push,
read in CI.

A note is a claim by whoever could push it. So it can make a rubric that sees prompts stricter, or
applicable, and passes nothing that fails without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.document import Timestamp, decode, to_json
from vibe_gate.domain.escape import without_middle
from vibe_gate.gate.prompts import asked_until, by_time, sessions_until
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
    """One prompt of a captured session, redacted. `turn` from 1."""

    turn: Annotated[int, Meta(ge=1)]
    at: Timestamp
    text: str


class SharedSession(Struct, frozen=True, kw_only=True):
    """A line of a note: what was asked in a session until it last wrote a file of the commit.

    `turns` is how many prompts that were, `sha256` of their redacted texts; a digest has no
    `prompts`.
    """

    schema: Literal[1] = 1
    agent: Annotated[str, Meta(max_length=50)]
    session: Annotated[str, Meta(max_length=200)]
    turns: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(max_length=64)]
    prompts: tuple[SharedPrompt, ...] = ()

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
    found = (
        _session(prompts_of(roots, name), ms) for name, ms in sessions_until(files, writes).items()
    )
    return tuple(one for one in found if one is not None)


def _session(prompts: Sequence[CapturedPrompt], until: int) -> SharedSession | None:
    if not (asked := asked_until(prompts, until)):
        return None
    texts = json.dumps([one.text for one in asked]).encode()
    return SharedSession(
        agent=asked[0].agent,
        session=asked[0].session,
        turns=len(asked),
        sha256=hashlib.sha256(texts).hexdigest(),
        prompts=_within_limits(
            [SharedPrompt(one.turn, one.at, without_middle(one.text, MAX_PROMPT)) for one in asked]
        ),
    )


def _within_limits(prompts: Sequence[SharedPrompt]) -> tuple[SharedPrompt, ...]:
    """The first and the last ones, as many of each as fit."""
    first: list[SharedPrompt] = []
    last: list[SharedPrompt] = []
    left, waiting = MAX_SESSION, [*prompts]
    while waiting:
        one = waiting.pop(0 if len(first) <= len(last) else -1)
        if (left := left - len(one.text)) < 0:
            break
        (first if len(first) <= len(last) else last).append(one)
    return (*first, *reversed(last))


def shared_prompts(repository: Repository, commits: Collection[str]) -> tuple[CapturedPrompt, ...]:
    """What the notes here say was asked for these commits, oldest first, each prompt once."""
    ids = repository.note_ids(PROMPTS)
    texts = repository.note_texts([ids[commit] for commit in commits if commit in ids])
    prompts = {
        CapturedPrompt(one.agent, one.session, prompt.turn, prompt.at.astimezone(UTC), prompt.text)
        for text in texts.values()
        for one in _read(text)
        for prompt in one.prompts
    }
    return tuple(sorted(prompts, key=by_time))


def _read(note: bytes) -> Iterable[SharedSession]:
    """The lines that can be read: a colleague's version may write others."""
    for line in note.split(b"\n")[:MAX_LINES]:
        try:
            yield decode(SharedSession, line)
        except ValueError:
            continue
