"""What `vibe-gate init` writes: definitions to begin with, every key explained.

Never over a file, never through a symbolic link.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.gate.mistakes import FOLDER, GATE_PATH

_GATE = """\
# .vibe-gate/gate.toml: what this repository demands of every change.
#
# It is read from a revision that the change cannot rewrite, so edits here take effect
# once they are part of it. Until then: `vibe-gate config check` reads your working tree, and
# `vibe-gate review --definitions worktree` tries it out. Lines that begin with "#" show defaults
# or examples. Every key: docs/definitions.md

schema = 1                               # the format's version; every file carries it

rubrics = ["quality"]                    # held against every change: the files .vibe-gate/rubrics/ID.toml

# More rubrics where a changed path matches (monorepos). Globs start at the root; "**" crosses folders.
# [[scope]]
# paths = ["services/pay/**"]
# rubrics = ["payments"]

[budget]                                 # ceilings of one run; a run that reaches one names what it did not review
max_cost_usd = 0.50                      # US dollars for the language model
# per_day_usd = 5.00                     # US dollars a day, over all runs; without it, no such limit
max_turns = 20                           # requests to the model in one judge's session
deadline_s = 300                         # seconds, by the clock on the wall

[hooks.pre-commit]                       # also pre-merge-commit, pre-push, commit-msg, manual
judge = "agent-authored"                 # always | agent-authored | never; checks always run

[on]
inconclusive = "warn"                    # pass | warn | block, in local hooks; CI always blocks

[retention]                              # of .vibe-artifacts/: bundles older go, once a day, after a review
max_age_days = 30
min_free_disk_mb = 1000

[model]
default = "claude-sonnet-5"              # any model the endpoint knows; a rubric may name its own

# [policy]                               # each list replaces its default, shown here
# block = [".vibe-gate/**", ".github/workflows/**", "/.pre-commit-config.yaml"]      # exit 4 until a human approves
# warn = [                                                                           # a warning finding
#   "CLAUDE.md", "AGENTS.md", "**/.claude/**", "**/.mcp.json", "**/.gitattributes",
#   "**/.gitmodules", "conftest.py", "pytest.ini", "CODEOWNERS",
# ]

# [trust]                                # not yet: decides nothing in this version
# uncalibrated = "block"                 # block | advise: must-criteria of a judge that was never calibrated
"""

_QUALITY = """\
# .vibe-gate/rubrics/quality.toml: one rubric. Its id is its file's name.

schema = 1
id = "quality"
pass_threshold = 0.7                     # 0 to 1: least weighted share of the decided criteria that must pass
min_coverage = 0.5                       # 0 to 1: least share of the weight that must be decided, else "inconclusive"
votes = 1                                # 1 to 9 times each question is asked; stops once the outcome cannot change
# model = "claude-sonnet-5"              # instead of the gate's [model] default
# sees = ["message"]                     # also show the commit message, which is withheld otherwise

# A judge criterion is one question that "yes" passes. Ask what can be seen in the change, name when
# it does not apply, and give one example each. A "fail" must quote the lines it is about.
[[criterion]]
id = "errors-not-swallowed"
kind = "judge"                           # judge: a model answers; check: our own code answers
must = false                             # true: blocks whatever the score
weight = 2                               # counts in the score; more than 0
question = \"\"\"
Does every new handler that catches an error handle that very case, pass it on, log it, or say why it may be ignored? \\
Not applicable if the change adds no such handler.\"\"\"
good = "except FileNotFoundError: return DEFAULTS   # no settings file is the usual first start"
bad = "except Exception: pass"
# paths = ["src/**"]                     # only these files; without it, all

[[criterion]]
id = "changed-behaviour-is-tested"
kind = "judge"
weight = 1
question = \"\"\"
Where the change alters what callers observe, does it also add or adapt a test that would fail without it? \\
Not applicable to renames, formatting, comments and documentation.\"\"\"
good = "parse_date accepts a new form, and its test gains a case with that form"
bad = "a discount is rounded differently, and no test mentions the discount"

# Check criteria cost nothing, need no network and always bind.
[[criterion]]
id = "no-secrets"
kind = "check"
check = "no-secrets"                     # every built-in check: docs/definitions.md
must = true

[[criterion]]
id = "no-conflict-markers"
kind = "check"
check = "no-conflict-markers"
must = true

# A check with options:
# [[criterion]]
# id = "small-enough-to-review"
# kind = "check"
# check = "max-changed-lines"
# options = { max = 800 }

# A command of your own, run in an export of the tree under review; passes if it exits with 0:
# [[criterion]]
# id = "lint"
# kind = "check"
# command = ["ruff", "check", "."]
# must = true
"""

STARTERS: dict[str, str] = {
    ".vibe-gate/gate.toml": _GATE,
    ".vibe-gate/rubrics/quality.toml": _QUALITY,
}
"""Path in the repository -> TOML. Both parse and hold no mistake."""


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Plan:
    """What `init` would do: starters to write, and definitions that are there already. Paths from the root."""

    missing: tuple[str, ...]
    present: tuple[str, ...]


def plan_starters(root: Path) -> Plan:
    """Which starters to write below `root`.

    Where a gate of one's own has begun (a gate.toml that is not the starter, or
    another rubric), none: a rubric or a gate.toml more would change what it demands.
    """
    _refuse_links(root)
    present = [path for path in STARTERS if os.path.lexists(root / path)]
    rubrics = sorted(f"{FOLDER}/rubrics/{path.name}" for path in (root / FOLDER / "rubrics").glob("*.toml"))
    others = [path for path in rubrics if path not in STARTERS]
    if others or (GATE_PATH in present and not _is_starter(root / GATE_PATH)):
        return Plan((), (*present, *others))
    return Plan(tuple(path for path in STARTERS if path not in present), tuple(present))


def write_starter(root: Path, path: str) -> None:
    """Write one starter. Raises UsageError at a symbolic link or a file in the way, InfrastructureError if it fails."""
    *folders, name = path.split("/")
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = _enter(folder, handle)
            os.close(handle)
            handle = inner
        _write(handle, name, STARTERS[path].encode())
    except FileExistsError:
        raise UsageError(f"{path} has just appeared; it is left as it is.") from None
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise _in_the_way(path) from None
        raise InfrastructureError(f"{path} could not be written: {error.strerror}.") from error
    finally:
        os.close(handle)


def _enter(folder: str, parent: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(folder, dir_fd=parent)
    return os.open(folder, _DIRECTORY, dir_fd=parent)  # a symbolic link is ENOTDIR here


def _write(folder: int, name: str, content: bytes) -> None:
    with open(os.open(name, _NEW_FILE, 0o666, dir_fd=folder), "wb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            os.unlink(name, dir_fd=folder)  # half a starter would look like one that the user cut
            raise


def _refuse_links(root: Path) -> None:
    for folder in (FOLDER, f"{FOLDER}/rubrics"):
        place = root / folder
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise _in_the_way(folder)


def _in_the_way(path: str) -> UsageError:
    return UsageError(f"{paths.quote(path)}: a symbolic link or a file stands where a folder belongs; move it away.")


def _is_starter(place: Path) -> bool:
    return place.is_file() and not place.is_symlink() and place.read_bytes() == STARTERS[GATE_PATH].encode()
