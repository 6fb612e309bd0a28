"""What a person at a terminal is told of a review that takes longer than a moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Timer

from vibe_gate.domain.escape import safe
from vibe_gate.faces.git_hook.call import Hook

MOMENT_S = 1.5
"""Seconds until a person is told: most reviews at a commit take less."""


class WaitingNotice:
    """Shows the stages of a review at a hook: that a judge is asked, and of the others those that
    are under way after a moment.
    """

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._line = ""
        """What the review is at, if nobody was told yet."""
        self._is_due = False
        """Whether the moment is over."""
        self._lock = Lock()
        """The timer is another thread than the review."""

    def show(self, stage: str, text: str) -> None:
        """A stage begins."""
        if stage == "judge":
            self._set_line("")
            self._hook.progress(f"vibe-gate: {text} ...")
        elif stage == "checks":
            self._set_line(f"checking {text}")
        elif stage == "change":
            self._set_line(text)

    @contextmanager
    def after_a_moment(self) -> Iterator[None]:
        """Within it a person is told; nobody is once it is left."""
        is_seen = self._hook.is_on_terminal or self._hook.framework.is_running
        if self._hook.hints or not is_seen:
            yield
            return
        timer = Timer(MOMENT_S, self._end_moment)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _end_moment(self) -> None:
        with self._lock:
            self._is_due = True
            self._tell()

    def _set_line(self, line: str) -> None:
        with self._lock:
            self._line = line
            if self._is_due:
                self._tell()

    def _tell(self) -> None:
        if not self._line:
            return
        line = f"vibe-gate: {safe(self._line)} ..."
        self._line = ""
        if not self._hook.framework.is_running:
            self._hook.progress(line)
            return
        with suppress(OSError), self._hook.persons_terminal() as terminal:  # no commit fails for it
            if terminal is not None:
                terminal.say(f"\n{line}\n")  # the framework's own line has no end yet
