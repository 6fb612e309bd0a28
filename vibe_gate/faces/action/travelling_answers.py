"""Judges' answers that travel between jobs in a file, which action.yml keeps in the Actions cache.

Any step of a pull request's jobs can write that cache, so the file counts only with a code made
from the model's API key, which the change cannot know. A fork's job takes and leaves none.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from vibe_gate.domain import MODEL_KEYS
from vibe_gate.domain.environment import Environment
from vibe_gate.faces.action.runner import Runner
from vibe_gate.store.clone_state import open_state

LEAST_SECRET = 20
"""Characters of a key; what local models are given ("dummy") could be guessed."""

MAX_BYTES = 16 << 20
"""Several times what the kept answers need."""

REFUSED = "The answers of earlier jobs were not used: they were not made with this job's API key. Judges were asked again."


def signing_key(variables: Mapping[str, str]) -> str:
    """The model's API key, if it is long enough that nobody guesses it; else ""."""
    secret = next((variables[name] for name in MODEL_KEYS if variables.get(name)), "")
    return secret if len(secret) >= LEAST_SECRET else ""


class TravellingAnswers:
    """The file of one job, and its clone's answers. `VIBE_GATE_ANSWERS` names the file; without it
    nothing travels.
    """

    def __init__(
        self, runner: Runner, environment: Environment, common_dir: Path, *, fork: bool
    ) -> None:
        secret = signing_key(environment.variables)
        place = environment.variables.get("VIBE_GATE_ANSWERS", "")
        self._file = Path(place) if place and not fork and secret else None
        self._secret = secret
        self._runner = runner
        self._common_dir = common_dir
        self._brought = b""

    def bring(self) -> str:
        """Let the clone have the file's answers and no others, which other steps could have put
        there.

        "", or a sentence about a file that does not count.
        """
        if self._file is not None:
            with suppress(OSError), self._file.open("rb") as file:
                self._brought = file.read(MAX_BYTES)
        with open_state(self._common_dir) as state:
            genuine = state.answers.unpack(self._brought, self._secret)
        return "" if genuine or not self._brought else REFUSED

    def keep(self) -> None:
        """Leave the answers for the next job, and say in the output `answers` that there are new
        ones.
        """
        if self._file is None:
            return
        with open_state(self._common_dir) as state:
            packed = state.answers.pack(self._secret)
        if not packed or packed == self._brought:
            return
        with suppress(OSError):  # the next job pays again
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.unlink(missing_ok=True)  # a link of that name is replaced, not followed
            self._file.write_bytes(packed)
            self._runner.output(answers="new")
