"""What GitHub shows of a job that has no verdict: a check run in progress, and why there will be
none.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from vibe_gate.errors import ForgeError, GateError
from vibe_gate.faces.action.inputs import Inputs, right_inputs
from vibe_gate.faces.action.runner import Runner
from vibe_gate.faces.action.standing import no_verdict
from vibe_gate.faces.action.trigger import Trigger, read_trigger
from vibe_gate.forge import BegunCheckRun, CheckRun, Forge, open_forge
from vibe_gate.report.no_verdict import NoVerdict
from vibe_gate.report.posting import Posting, check_name, post_no_verdict

REVIEWED = ("pull_request", "merge_group", "push")
"""Events that name the commit which is reviewed."""


CANCEL = (signal.SIGINT, signal.SIGTERM)
"""What the runner sends when a job is cancelled, the second 7.5 s after the first; it kills 2.5 s
later.
"""


READY = (
    "mark the pull request as ready for review; if the workflow does not list the type `ready_for_review`, re-run the "
    "job then"
)
"""What to do about a draft that was not reviewed."""


class JobCheck:
    """The check run of one job.

    A recheck because of a review begins none: the verdict that stands is not hidden meanwhile.
    """

    def __init__(self, runner: Runner) -> None:
        self.begun: BegunCheckRun | None = None
        """None before it is begun and as soon as it is completed."""
        self._runner = runner
        self._head = ""
        self._name = ""

    def begin(self, forge: Forge | None, inputs: Inputs, trigger: Trigger, head: str) -> None:
        """Show on the commit that it is being reviewed. If GitHub refuses, that is said when the
        verdict is posted.
        """
        if forge is None or not inputs.posts_check_run or trigger.reviewed:
            return
        self._head = head
        self._name = check_name(inputs.name)
        page = self._runner.links(trigger.repository, head).run_url
        with suppress(ForgeError), _uncancelled():
            self.begun = forge.begin_check_run(
                head,
                self._name,
                "Review in progress",
                "The verdict of the job replaces this.",
                record=no_verdict(trigger.number),
                details_url=page,
            )

    def abandon(self, *, cancelled: bool) -> None:
        """Complete the check run of a job that is cancelled, or that ends by a bug. The comment
        stays as it is.
        """
        if self.begun is None:
            return
        run = CheckRun("ERROR", "The job ended without a verdict; its log says why.", "", "failure")
        if cancelled:
            text = (
                "The job was cancelled before it had a verdict. "
                "Re-run it, unless a newer push has a job."
            )
            run = CheckRun("Cancelled: not reviewed", text, "", "cancelled")
        with suppress(GateError):
            inputs, trigger = _inputs_and_trigger(self._runner)
            with _open_forge(self._runner, inputs, trigger) as forge:
                forge.check_run(self._head, self._name, run, begun=self.begun)

    def refuse(self, reasons: str, *, blocks: bool, draft: bool = False) -> list[str]:
        """Say in check run and comment why the job did not review, in place of an earlier verdict.

        `reasons` are lines. `draft`: it was not to review, so a comment is changed but none is
        made. Returns sentences about what GitHub refused.
        """
        try:
            inputs, trigger = _inputs_and_trigger(self._runner)
            head = self._head or (trigger.head if trigger.kind in REVIEWED else "")
            if not head or trigger.reviewed or not inputs.github_token:
                return []
            notice = NoVerdict(
                head,
                tuple(reasons.splitlines()) or ("stopped.",),
                inputs.name,
                self._runner.links(trigger.repository, head),
                blocks=blocks,
            )
            if draft:
                notice = replace(notice, next=READY, quiet=True)
            posting = Posting(
                head,
                trigger.number,
                inputs.posts_comment,
                inputs.posts_check_run,
                begun=self.begun,
                record=no_verdict(trigger.number),
            )
            with _open_forge(self._runner, inputs, trigger) as forge:
                return post_no_verdict(posting, forge, notice)
        except GateError:  # the event or the token is what is wrong
            return []


@contextmanager
def _uncancelled() -> Iterator[None]:
    """Let the signals of a cancelled job wait: a check run whose number is not known yet could not
    be completed.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, CANCEL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, CANCEL)


def _inputs_and_trigger(runner: Runner) -> tuple[Inputs, Trigger]:
    variables = runner.environment.variables
    return right_inputs(variables), read_trigger(variables)


def _open_forge(runner: Runner, inputs: Inputs, trigger: Trigger) -> Forge:
    return open_forge(
        runner.api_url, inputs.github_token, trigger.repository, network=runner.environment.network
    )
