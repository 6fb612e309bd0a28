"""What the runner gives a job, and how the job speaks to it: outputs, job summary, workflow
commands.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.domain.escape import safe
from vibe_gate.errors import GateError, UsageError
from vibe_gate.report.links import Links

API_URL = "https://api.github.com"
SERVER_URL = "https://github.com"

SUMMARY_BYTES = 1 << 20
"""What GitHub shows of a step's summary; more, and it shows none of it."""


class Runner:
    """One job. `say` writes to its log, where workflow commands are read."""

    def __init__(
        self,
        environ: Mapping[str, str],
        start: Path,
        clock: Callable[[], datetime],
        say: Callable[[str], None],
    ) -> None:
        self.environ = environ
        self.start = start
        self.clock = clock
        self.say = say

    @property
    def api_url(self) -> str:
        """Of GitHub's API, GHES included."""
        return self.environ.get("GITHUB_API_URL") or API_URL

    @property
    def server_url(self) -> str:
        """Of GitHub's pages, and of the remote that the token is for."""
        return (self.environ.get("GITHUB_SERVER_URL") or SERVER_URL).rstrip("/")

    def links(self, repository: str, head: str, base: str = "", run: int | None = None) -> Links:
        """Addresses of what a report is about, with the page of a run: of this job's by default, ""
        outside of one.
        """
        number = str(run or self.environ.get("GITHUB_RUN_ID", ""))
        page = f"{self.server_url}/{repository}/actions/runs/{number}"
        return Links(
            self.server_url, repository, head, page if re.fullmatch("[0-9]+", number) else "", base
        )

    def temp(self) -> Path:
        """A new folder of our own below RUNNER_TEMP. UsageError if it cannot be made."""
        parent = Path(self.environ.get("RUNNER_TEMP") or self.environ.get("TMPDIR") or "/tmp")  # noqa: S108  the runner's
        made = parent.absolute() / f"vibe-gate-{secrets.token_hex(6)}"
        try:
            made.mkdir(mode=0o700)
        except OSError as error:
            raise UsageError(
                f"RUNNER_TEMP ({paths.quote(str(parent))}) cannot be used: {error.strerror}."
            ) from error
        return made

    def unique(self, name: str) -> str:
        """`name` with this run, attempt and job behind it: artifacts must not be called the same
        twice.
        """
        parts = [
            name,
            *(
                self.environ.get(key, "")
                for key in ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB")
            ),
        ]
        known = [re.sub(r"[^A-Za-z0-9_-]", "_", part)[:60] for part in parts if part]
        return "-".join([*known, secrets.token_hex(3)])  # the jobs of a matrix share all of these

    def output(self, **values: str) -> None:
        """Set outputs of the step; `_` in a name becomes `-`. Without GITHUB_OUTPUT nothing is
        written.
        """
        lines = []
        for name, value in values.items():
            mark = f"vibe-gate-{secrets.token_hex(16)}"  # random: no value can end itself early
            lines += [f"{name.replace('_', '-')}<<{mark}", value, mark]
        self._append("GITHUB_OUTPUT", "\n".join(lines) + "\n")

    def summarize(self, text: str) -> None:
        """Add to the job's summary."""
        self._append("GITHUB_STEP_SUMMARY", text if text.endswith("\n") else text + "\n")

    def refuse(self, title: str, error: GateError) -> None:
        """Say in the job's summary why there is no report."""
        told = "\n".join(
            f"- {paths.quote(line)}" for line in str(error).splitlines() or ["stopped."]
        )
        self.summarize(f"## {title}\n\n```\n{told.replace('```', '` ` `')}\n```\n")

    def command(self, name: str, text: str) -> None:
        """One workflow command with a message: error, warning or notice."""
        flat = safe(" ".join(text.split()))
        self.say(f"::{name}::{_escaped(flat)}\n")

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Nothing printed inside is read as a workflow command."""
        token = secrets.token_hex(16)
        self.say(f"::stop-commands::{token}\n")
        try:
            yield
        finally:
            self.say(f"::{token}::\n")

    def _append(self, variable: str, text: str) -> None:
        place = self.environ.get(variable)
        if not place:
            return
        try:
            with open(place, "ab") as file:
                raw = text.encode("utf-8", "replace")
                if variable != "GITHUB_STEP_SUMMARY" or file.tell() + len(raw) <= SUMMARY_BYTES:
                    file.write(raw)
        except OSError as error:
            self.command("warning", f"vibe-gate: {variable} cannot be written: {error.strerror}.")


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
