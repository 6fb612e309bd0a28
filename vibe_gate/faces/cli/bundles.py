"""`vibe-gate bundles`: its subcommands. Each has its arguments and what it does in a module of its
own.
"""

from __future__ import annotations

from typing import Any

from vibe_gate.faces.cli.clean_runs import CLEAN, DISK_USAGE, KEEP
from vibe_gate.faces.cli.command import Command, group
from vibe_gate.faces.cli.list_runs import LIST
from vibe_gate.faces.cli.move_runs import EXPORT, IMPORT, PUSH
from vibe_gate.faces.cli.show_run import SHOW
from vibe_gate.faces.cli.verify_runs import REPAIR, VERIFY_RUNS

SUBCOMMANDS: dict[str, Command[Any]] = {
    "list": LIST,
    "show": SHOW,
    "keep": KEEP,
    "clean": CLEAN,
    "du": DISK_USAGE,
    "verify": VERIFY_RUNS,
    "repair": REPAIR,
    "export": EXPORT,
    "push": PUSH,
    "import": IMPORT,
}

BUNDLES = group(
    "Look at stored runs, keep them, check and repair them, move them and clean them up.",
    """\
examples:
  vibe-gate bundles list --limit 20    the newest twenty runs
  vibe-gate bundles list --outcome fail --author agent --path 'src/**'
  vibe-gate bundles show               the newest run
  vibe-gate bundles show HEAD~1        the run of that commit or its change
  vibe-gate bundles clean --dry-run    what a cleaning would delete
  vibe-gate bundles verify             check stored runs; exit 5 on a problem
  vibe-gate bundles repair             repair stored runs
  vibe-gate bundles export HEAD -o run.tar.xz
                                       one file to send; `import` reads it
  vibe-gate bundles export HEAD --otlp http://localhost:4318
                                       as a trace to an OpenTelemetry collector
  vibe-gate bundles list --store       the runs in the shared store
  vibe-gate bundles push               upload there what is not there yet
""",
    SUBCOMMANDS,
)
