"""What the runner gives a job, and how the job speaks to it: outputs, job summary, workflow
commands.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import safe
from vibe_gate.errors import GateError, UsageError
from vibe_gate.report.links import Links

API_URL = "https://api.github.com"
SERVER_URL = "https://github.com"

SUMMARY_BYTES = 1 << 20
"""What GitHub shows of a step's summary; more, and it shows none of it."""


class Runner:
    """One job."""

    def __init__(
        self,
        environment: Environment,
        start: Path,
        clock: Callable[[], datetime],
        say: Callable[[str], None],
    ) -> None:
        """`say` writes to the job's log, where workflow commands are read."""
        self.environment = environment
        self._variables = environment.variables
        self.start = start
        self.clock = clock
        self.say = say

    @property
    def api_url(self) -> str:
        """Of GitHub's API, GHES included."""
        return self.environment.forge.api_url or API_URL

    @property
    def server_url(self) -> str:
        """Of GitHub's pages, and of the remote that the token is for."""
        return (self.environment.forge.server_url or SERVER_URL).rstrip("/")

    @property
    def run_id(self) -> str:
        """The number of the workflow run that this job is of; "" outside of one."""
        return self._variables.get("GITHUB_RUN_ID", "")

    @property
    def workflow_ref(self) -> str:
        """The workflow's file with its revision, as OWNER/NAME/PATH@REF; "" outside of a job."""
        return self._variables.get("GITHUB_WORKFLOW_REF", "")

    @property
    def actor(self) -> str:
        """The login of who caused the job; "" outside of one."""
        return self._variables.get("GITHUB_ACTOR", "")

    def links(
        self,
        repository: str,
        head: str,
        base: str = "",
        run: int | None = None,
        server_url: str = "",
    ) -> Links:
        """Addresses of what a report is about, with the page of a run.

        `run`: this job's by default; its page is "" outside of a job. `server_url`: the server that
        the environment names by default.
        """
        server_url = server_url or self.server_url
        number = str(run or self.run_id)
        page = f"{server_url}/{repository}/actions/runs/{number}"
        is_in_run = re.fullmatch("[0-9]+", number) is not None
        return Links(server_url, repository, head, page if is_in_run else "", base)

    def temp(self) -> Path:
        """A new folder of our own below RUNNER_TEMP. UsageError if it cannot be made."""
        parent = Path(self._variables.get("RUNNER_TEMP") or self._variables.get("TMPDIR") or "/tmp")  # noqa: S108  the runner's
        folder = parent.absolute() / f"vibe-gate-{secrets.token_hex(6)}"
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise UsageError(
                f"RUNNER_TEMP ({paths.quote(str(parent))}) cannot be used: {error.strerror}."
            ) from error
        return folder

    def unique(self, name: str) -> str:
        """`name` with this run, attempt and job behind it: artifacts must not be called the same
        twice.
        """
        parts = [name]
        for variable in ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB"):
            value = self._variables.get(variable)
            if value:
                parts.append(value)
        words = [re.sub(r"[^A-Za-z0-9_-]", "_", part)[:60] for part in parts]
        return "-".join([*words, secrets.token_hex(3)])  # the jobs of a matrix share all of these

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
        sentences = str(error).splitlines() or ["stopped."]
        text = "\n".join(f"- {paths.quote(sentence)}" for sentence in sentences)
        self.summarize(f"## {title}\n\n```\n{text.replace('```', '` ` `')}\n```\n")

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
        """Add to the file that the runner names in a variable; a summary that GitHub would not show
        stays as it is.
        """
        place = self._variables.get(variable)
        if not place:
            return
        raw = text.encode("utf-8", "replace")
        try:
            with open(place, "ab") as file:
                is_too_long = file.tell() + len(raw) > SUMMARY_BYTES
                if variable == "GITHUB_STEP_SUMMARY" and is_too_long:
                    return
                file.write(raw)
        except OSError as error:
            self.command("warning", f"vibe-gate: {variable} cannot be written: {error.strerror}.")


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
