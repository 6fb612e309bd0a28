"""Whether the end of a turn needs a review, and the process that makes it.

Read by a bare interpreter, so nothing of weight is imported: see `stop`.
"""

import json
import os
import select
import signal
import time

from vibe_gate.faces.agent_hook import spool, stop_state, turn_switch

STOP_EVENTS = ("Stop", "AfterAgent")

WORKING_TASKS = ("subagent", "workflow")
"""Kinds of tasks in the background that are at work on what the agent was asked for. A command
there may be a server that never ends.
"""

STDIN_PATIENCE_S = 2.0
"""For the whole event; a program that writes it later or never holds no turn up."""

DEFAULT_TIMEOUT_S = 60.0
"""Of a hook whose settings name none; no agent has a shorter one."""

LAST_WORDS_S = 2.0
"""Of the hook's time-out: to say, after a review was ended, that there was none."""

NO_TIME = "vibe-gate: turn not reviewed: no answer in {0:.0f} s, the time-out of the hook."
BROKEN = "vibe-gate: turn not reviewed: the review ended without an answer; `vibe-gate doctor` may know why."
UNRECORDED = "vibe-gate: turn not reviewed: the agent's calls were not recorded ({0})."
NO_EVENT = "vibe-gate: turn not reviewed: no event came on stdin."


def answer_event(agent: str, *, user: bool) -> bytes:
    """The answer to the event on stdin, in the agent's form; b"" if there is nothing to say."""
    project = spool.project_of(os.environ)
    if user and not spool.is_used(project):
        return b""
    began_at = time.monotonic()
    event = read_event()
    if event is None:
        return said_to_person(NO_EVENT)
    kind = spool.text_of(event, "hook_event_name")
    if kind not in STOP_EVENTS or agent not in spool.PROJECT_SETTINGS:
        return b""
    if user and spool.has_own_hook(project, kind, "stop", agent):
        return b""  # which answers
    if turn_switch.is_switched_off(project, agent):
        return b""
    if spool.text_of(event, "permission_mode") == "plan":  # it may write nothing, nor repair
        return b""
    tasks = stop_state.running_tasks(event)
    if not tasks.isdisjoint(WORKING_TASKS):  # their end wakes the agent, which then stops again
        return b""
    folder = session_folder(event, agent)
    if folder is None:
        return b""
    spool.wait_for_others()
    state = stop_state.read_state(folder)
    if problem := stop_state.record_stop(folder, state):
        return said_to_person(UNRECORDED.format(problem))
    if not tasks and not is_due(folder, state):
        return b""
    limit_s = time_limit_s(project, kind, agent) - (time.monotonic() - began_at)
    return reviewed(event, agent, folder, limit_s)


def read_event() -> dict[str, object] | None:
    """The event on stdin, whether or not stdin ends after it; None if none came in time."""
    text = b""
    ends = time.monotonic() + STDIN_PATIENCE_S
    while (remaining_s := ends - time.monotonic()) > 0 and len(text) <= spool.MAX_EVENT_BYTES:
        if not select.select([0], [], [], remaining_s)[0]:
            break
        part = os.read(0, 1 << 20)
        text += part
        if not part or text.rstrip().endswith(b"}"):
            try:
                return spool.parse_event(text)
            except ValueError:
                if not part:
                    return None
    return None


def session_folder(event: dict[str, object], agent: str) -> bytes | None:
    """Where the calls of the session are kept; None outside of a repository."""
    captures = spool.spool_folder(os.environ)
    if captures is None:
        return None
    session = (agent + "." if agent else "") + spool.session_of(event)
    return captures + b"/" + session.encode()


def is_due(folder: bytes, state: dict[str, object]) -> bool:
    """Whether the session may have written since its last review, or was given findings by it."""
    if state.get("holds") or state.get("has_tasks"):
        return True
    return any("paths" in call for call in stop_state.unread_calls(folder, state))


def time_limit_s(project: bytes, event: str, agent: str) -> float:
    """Seconds that the hook may take, by the shortest time-out that settings have for it."""
    timeout_s = min(spool.hook_timeouts_s(project, event, agent), default=DEFAULT_TIMEOUT_S)
    return max(timeout_s - LAST_WORDS_S, timeout_s / 2)


def reviewed(event: dict[str, object], agent: str, folder: bytes, limit_s: float) -> bytes:
    """The answer of a review in a process of its own, which is ended after `limit_s` seconds.

    It is ended, too, when this process is: by a signal, or because its end of the pipe closes.
    """
    answer_end, answer_start = os.pipe()
    life_end, life_start = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(answer_end)
            os.close(life_start)
            become_reviewer(event, agent, folder, limit_s, answer_start, life_end)
        finally:
            os._exit(1)
    os.close(answer_start)
    os.close(life_end)

    def end_review(number: int, frame: object) -> None:
        end_group(child)
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end_review)
    ends = time.monotonic() + limit_s
    answer = b""
    while True:
        remaining_s = ends - time.monotonic()
        if remaining_s <= 0 or not select.select([answer_end], [], [], remaining_s)[0]:
            end_group(child)
            return said_to_person(NO_TIME.format(limit_s + LAST_WORDS_S))
        part = os.read(answer_end, 1 << 16)
        if not part:
            break
        answer += part
    os.waitpid(child, 0)
    try:
        json.loads(answer or b"{}")
    except ValueError:
        return said_to_person(BROKEN)
    if answer:
        return answer
    return said_to_person(BROKEN)


def become_reviewer(
    event: dict[str, object],
    agent: str,
    folder: bytes,
    limit_s: float,
    answer_start: int,
    life_end: int,
) -> None:
    """Review, in this process, and write the answer; it is ended when the hook that waits is."""
    os.setsid()  # so that all that a review starts can be ended with it
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    if "site" not in sys_modules():
        import site

        site.main()
    import threading

    threading.Thread(target=end_with_hook, args=(life_end,), daemon=True).start()
    from vibe_gate.faces.agent_hook import stop_review

    answer = stop_review.answer_turn(event, agent, folder, limit_s)
    os.write(answer_start, answer)
    os._exit(0)


def sys_modules() -> dict[str, object]:
    """The modules that are loaded: a bare interpreter has no `site`."""
    import sys

    return dict(sys.modules)


def end_with_hook(life_end: int) -> None:
    """Wait until the hook is gone, then end this review and all that it started."""
    os.read(life_end, 1)
    os.killpg(0, signal.SIGTERM)
    time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)


def end_group(child: int) -> None:
    """End a review and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child, number)
        except OSError:  # it has not begun its group, or is gone
            os.kill(child, number)
        if number == signal.SIGTERM:
            time.sleep(0.3)
    os.waitpid(child, 0)


def said_to_person(message: str) -> bytes:
    """The answer that lets the agent stop and tells the person something."""
    return json.dumps({"systemMessage": message}).encode()
