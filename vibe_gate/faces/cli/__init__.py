"""The command `vibe-gate`: what can be answered at once, else on to the dispatcher.

Every start passes through here, so nothing of weight is imported: `--version` and `--help` are
answered in the time of a bare interpreter; everything else costs the imports of its own command.
"""

import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from vibe_gate.faces.cli.help import HELP, describe_interruption
from vibe_gate.version import __version__

OBJECTS_BETWEEN_COLLECTIONS = 500_000
"""More than a judged review of a large repository makes; some 50 MB of garbage. Python's own number
is 700.
"""


def main() -> NoReturn:
    """Run the command line of this process, which ends with its exit code."""
    try:
        code = _answer(sys.argv[1:])
    except KeyboardInterrupt:  # before the dispatcher could take over
        command = "".join(sys.argv[1:2])
        sys.stderr.write(f"vibe-gate: {describe_interruption(command)}\n")
        code = 130
    if "signal" in sys.modules:
        import signal

        # The answer is out: the interpreter's end must not change it.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    # Taking all modules apart takes a commit 36 ms of 235, a judged review 200 of 2,000 (processor
    # time, measured with and without).
    code = _print("") or code
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.flush()
    os._exit(code)


def _answer(argv: list[str]) -> int:
    if argv in (["--version"], ["-V"]):
        return _print(f"vibe-gate {__version__}\n")
    if not argv or argv in (["--help"], ["-h"], ["help"]):
        return _print(HELP)
    # What a command loads stays: looking through it for garbage takes a judged review 130 ms.
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    from vibe_gate.faces.cli import dispatch

    return dispatch.run(argv)


def _print(text: str) -> int:
    try:
        if sys.stdout is not None:  # None: started with stdout closed
            sys.stdout.write(text)
            sys.stdout.flush()
    except OSError as error:
        from vibe_gate.faces.cli.output import drop_stdout

        drop_stdout()
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"vibe-gate: cannot write to stdout: {error.strerror}.\n")
            return 3
    return 0
