"""The command `vibe-gate`: what can be answered at once, else on to the dispatcher.

Every start passes through here, so nothing of weight is imported: `--version` and `--help` are
answered in the time of a bare interpreter; everything else costs the imports of its own command.
"""

import os
import sys

from vibe_gate.faces.cli.help import HELP, describe_interruption
from vibe_gate.version import __version__


def main() -> int:
    """Run the command line of this process and return its exit code."""
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
    if sys.argv[1:2] == ["hook"]:
        # Taking hundreds of modules apart costs a commit 36 ms of 235 (processor time, measured
        # with and without).
        os._exit(_print("") or code)
    return code


def _answer(argv: list[str]) -> int:
    if argv in (["--version"], ["-V"]):
        return _print(f"vibe-gate {__version__}\n")
    if not argv or argv in (["--help"], ["-h"], ["help"]):
        return _print(HELP)
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
