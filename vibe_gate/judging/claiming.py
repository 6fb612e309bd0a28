"""Of several reviews that would ask the same, let one ask, and the others wait for its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from vibe_gate.context.world import RunContext

POLL_S = 0.1
"""Between two tries to get the claim of another review."""


@asynccontextmanager
async def claim_questions(
    keys: Collection[str],
    run: RunContext,
    tell: Callable[[str], object],
    private_keys: Collection[str] = (),
) -> AsyncIterator[bool]:
    """Be the only one who asks what these keys show, as far as that can be had in half of the time
    that is left. Gives whether it could be had.

    The other half is enough to ask after all if the other review gets stuck. Other machines hear
    nothing of `private_keys`. `tell` hears if another review has to be waited for.
    """
    answers = run.state.answers
    latest_s = run.deadline.seconds_left() / 2
    is_held = not keys or answers.claim(keys, run.deadline.seconds_left(), private_keys)
    if not is_held:
        import asyncio  # few wait

        tell("another review asks the same just now; waiting for its answer")
        await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
    while not is_held and run.deadline.seconds_left() > latest_s:
        await asyncio.sleep(POLL_S)
        is_held = answers.claim(keys, run.deadline.seconds_left(), private_keys)
    try:
        yield is_held
    finally:
        if is_held:
            answers.release(keys)
