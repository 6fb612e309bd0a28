"""What people asked for in the captured sessions that wrote a change, and how a judge is shown
it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.escape import counted
from vibe_gate.store import captures
from vibe_gate.store.captured_turns import CapturedPrompt, prompts_of

MAX_REQUESTS = 20_000
"""Characters of all prompts that a judge is shown; of more, those in the middle are left out."""

_TYPED = "  "

_OURS = re.compile(r"^==== .*$", re.MULTILINE)


def prompts_behind(
    files: Iterable[FileDiff], writes: Mapping[str, Mapping[str, int]], roots: Sequence[Path]
) -> tuple[CapturedPrompt, ...]:
    """What people asked for in the captured sessions that wrote files of a change, oldest first.

    `writes` as `CapturedBlobs.last_writes` gives them; `roots` are the working trees in whose
    stores sessions may lie.
    """
    prompts: list[CapturedPrompt] = []
    for session, last_write_ms in sessions_until(files, writes).items():
        prompts += asked_until(prompts_of(roots, session), last_write_ms)
    return tuple(sorted(prompts, key=prompt_order))


def sessions_until(
    files: Iterable[FileDiff], writes: Mapping[str, Mapping[str, int]]
) -> dict[str, int]:
    """The captured sessions that wrote files of a change, and when each last did, in ms.

    `writes` as `CapturedBlobs.last_writes` gives them.
    """
    last_writes: dict[str, int] = {}
    for file in files:
        for session, write_ms in writes.get(file.brought_blob, {}).items():
            last_writes[session] = max(last_writes.get(session, 0), write_ms)
    return last_writes


def asked_until(prompts: Sequence[CapturedPrompt], until_ms: int) -> list[CapturedPrompt]:
    """The prompts until then, in ms since the epoch."""
    return [prompt for prompt in prompts if prompt.at.timestamp() * 1000 <= until_ms]


def prompt_order(prompt: CapturedPrompt) -> tuple[datetime, str, int, str]:
    """The key by which prompts of several sessions are sorted: by time."""
    return prompt.at, prompt.session, prompt.turn, prompt.text


def requests_text(prompts: Sequence[CapturedPrompt], redact: Callable[[str], str]) -> str:
    """What a judge is shown of the prompts, at most `MAX_REQUESTS` characters and a sentence; "" if
    there are none.

    What people typed is indented, so that it cannot be taken for a line of ours.
    """
    rows = []
    for number, prompt in enumerate(prompts, start=1):
        session = captures.session_title(prompt.session)
        rows.append(f"==== request {number}, turn {prompt.turn} of {session}")
        rows += [_TYPED + line for line in prompt.text.splitlines()]
    text = "\n".join(rows)
    excess = len(text) - MAX_REQUESTS
    if excess > 0:
        half = MAX_REQUESTS // 2
        omission = f"==== {counted(excess, 'character')} of the requests left out here"
        text = f"{text[:half]}\n{omission}\n{_TYPED}{text[-half:]}"
    return redact(text)


def requests_of(text: str) -> list[str]:
    """The texts of the prompts of which `requests_text` made this."""
    requests = [request.strip() for request in _OURS.split(text)]
    return [request for request in requests if request]
