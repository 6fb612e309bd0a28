"""pytest in a process of its own that is forked (tests/forked.py), not started: loading it and the
program takes longer than most of its runs. As a script it is what runs there.
"""

from __future__ import annotations

import os
import pty
import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

OPTIONS = ("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""What is loaded before pytest begins is not rewritten, which it would say."""


def run_forked(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """As `pytester.runpytest_subprocess` does."""
    import forked

    return pytester.run(forked.programs() / "hook-script", __file__, *OPTIONS, *arguments)


def run_on_pty(
    folder: Path, arguments: tuple[str, ...], environ: Mapping[str, str], rows: int
) -> tuple[int, str]:
    """pytest's exit code, and what it writes to a terminal of 80 columns, without progress bars."""
    from termios import tcsetwinsize

    import forked

    controller, terminal = pty.openpty()
    tcsetwinsize(terminal, (rows, 80))
    chunks: list[bytes] = []
    reader = threading.Thread(target=_read_all, args=(controller, chunks))
    reader.start()
    code = forked.run_script(
        [__file__, *OPTIONS, *arguments], folder, environ, [terminal] * 3, timeout=250
    )
    os.close(terminal)
    reader.join()
    os.close(controller)
    text = b"".join(chunks).decode()
    return code, re.sub(r"\x1b\]9;4[^\x1b\a]*(?:\x1b\\|\a)", "", text)


def _read_all(controller: int, chunks: list[bytes]) -> None:
    while True:
        try:
            chunks.append(os.read(controller, 65536))
        except OSError:  # the last writer has closed its side
            return


if __name__ == "__main__":
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 - the terminal
    sys.exit(pytest.main())
