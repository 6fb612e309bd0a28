"""Results that are handed over to an agent, and the turns whose files it begins with by them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from vibe_gate.domain.escape import show_text
from vibe_gate.domain.tables import SHOWN_CHARACTERS
from vibe_gate.errors import UsageError
from vibe_gate.run.stage_result import StageResult
from vibe_gate.store.run_result import RunResult
from vibe_gate.store.turn_chain import ChainTurn

Context = StageResult | RunResult | Sequence[StageResult | RunResult]
"""Results that are handed over to an agent."""

MAX_NAME_CHARACTERS = 300
"""Of a turn, in a sentence."""

_PLACEHOLDER = re.compile(rb"\[redacted:(?:binary-patch|[a-z0-9-]{1,60}:[0-9a-f]{8})\]")
"""In place of a secret, and of a binary section that holds one or is too large to look at: git would
leave that out without a word.
"""


class HandedTurn(Struct, frozen=True):
    """A turn of another run, whose files are handed over."""

    stage: str
    """The id of its stage."""

    test_id: str
    """`<run id>/<node id>/<turn>`."""

    patch: bytes
    """What it changed."""

    is_exact: bool = False
    """Whether the patch is as it was made, with what a bundle leaves out."""

    @property
    def name(self) -> str:
        """For people: the stage, and which turn."""
        return show_text(f"{self.stage} ({self.test_id})")[:MAX_NAME_CHARACTERS]

    @property
    def is_redacted(self) -> bool:
        """Whether it lacks what was left out of its bundle, and so does not make the files that were
        there.
        """
        return not self.is_exact and _PLACEHOLDER.search(self.patch) is not None


def results_in(context: Context) -> tuple[StageResult | RunResult, ...]:
    """The results of a context. UsageError: it is something else, as the text of a result."""
    results = tuple(context) if isinstance(context, (list, tuple)) else (context,)
    for result in results:
        if not isinstance(result, (StageResult, RunResult)):
            if hasattr(result, "__await__"):
                raise UsageError(
                    "context is an agent's run that was not awaited; await it first, "
                    "and give its result."
                )
            text = str(result)[:SHOWN_CHARACTERS]
            raise UsageError(f"context is what stages or agents gave, not {text!r}.")
    return results


def turns_of_other_runs(context: Context, run_id: str = "") -> Iterator[HandedTurn]:
    """The turns that changed files in the chains of these results, in order; those of the run
    `run_id` are in its workspace already.

    UsageError: a result is not finished, or was not recorded. StorageError, IntegrityError.
    """
    for result in results_in(context):
        for turn in _recorded_turns(result):
            is_of_run = turn.test_id.partition("/")[0] == run_id
            if not is_of_run and turn.files.changed_count:
                yield HandedTurn(turn.stage, turn.test_id, turn.patch())


def _recorded_turns(result: StageResult | RunResult) -> tuple[ChainTurn, ...]:
    """The turns in the chain of a result; none of a stage without an agent. UsageError."""
    if isinstance(result, RunResult):
        recorded = result
    elif result.bundle is not None:
        recorded = result.result
    elif result.patch:
        raise UsageError(
            f"context: what {result.id} changed was not recorded, so nothing can begin with it."
        )
    else:
        return ()
    if not recorded.complete:
        advice = "await its end" if recorded.state == "running" else "run it again"
        raise UsageError(f"context: {recorded.error} {advice.capitalize()}: {recorded.bundle_dir}.")
    return recorded.chain.turns
