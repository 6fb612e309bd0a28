"""The hooks that `vibe-gate install git` writes: small sh scripts, because sh starts in a tenth of Python's time. Pure.

Where nothing is staged, git and sh alone say so. The settings that could hide a
staged change are switched off for that look, as in `faces/cli/idle.py`. Which git
process it was is left behind in `idle`, so that the hooks that the same process
runs afterwards need not look again; a review that asked no judge leaves it in
`passed`, with the tree (`held.py`), and sh does what is left to do. A process is
known by its number and, where /proc tells it, its start (`adapters.records.life`):
numbers come again, in containers at once. A merge is never idle, for what it takes
away from its other parent no look at the first shows.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.adapters.githooks import KEPT
from vibe_gate.adapters.records import NAME

HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "post-commit", "post-rewrite")
"""The hooks that are installed."""

HINTS = "co-authored-by|assisted-by|generated-by|entire-checkpoint|claude-session|agent-session|generated with"
"""Words without which no message hints at an agent (`domain/provenance.py`), as `grep -iE` reads them."""

_HEAD = """\
#!/bin/sh
# vibe-gate: written by `vibe-gate install git`; `vibe-gate uninstall git` takes it away again.
"""

_CHAIN = """\
before="${{0%/*}}/{name}{kept}"
if [ -x "$before" ]; then "$before" "$@" || exit $?; fi
"""

_CHAIN_WITH_INPUT = """\
before="${{0%/*}}/{name}{kept}"
feed() {{ if [ -n "$input" ]; then printf '%s\\n' "$input"; fi; }}
"""

_LIFE = """\
life() {{ s=; {{ read -r s </proc/$PPID/stat; }} 2>/dev/null; s=${{s##*) }}; set -- $s; life="$PPID ${{20:-0}}"; }}
life
"""
"""Builtins only. The start is field 22; what stands in parentheses before may have spaces."""

_STAGED = """\
if [ ! -e "${{GIT_INDEX_FILE%/*}}/MERGE_HEAD" ] &&
  GIT_NO_LAZY_FETCH=1 git --no-optional-locks --no-replace-objects -c core.fsmonitor=false diff --cached --quiet \\
  --no-relative --ignore-submodules=none --no-ext-diff --no-textconv 2>/dev/null; then
  if [ ! -e {state}/idle ] || [ -f {state}/idle ]; then echo "$life" 2>/dev/null >{state}/idle; fi
  exit 0
fi
"""

_CLEAN = """\
for left in {state}/idle {state}/passed; do
  if [ -f "$left" ] && [ -s "$left" ]; then : 2>/dev/null >"$left"; fi
done
"""

_IDLE = """\
if [ -f {state}/idle ] && [ -r {state}/idle ] && read -r idle <{state}/idle && [ "$idle" = "$life" ]; then exit 0; fi
"""

_PASSED_MESSAGE = """\
if [ -f {state}/passed ] && [ -r {state}/passed ] && read -r pid start tree <{state}/passed &&
  [ "$pid $start" = "$life" ]; then
  grep -aqiE {words} "$1"
  if [ $? -eq 1 ]; then exit 0; fi
fi
"""

_PASSED_COMMIT = """\
if [ -f {state}/passed ] && [ -r {state}/passed ] && {{ read -r pid start tree && read -r line; }} <{state}/passed &&
  [ "$pid $start" = "$life" ] && [ -f {state}/{records} ]; then
  set -- $(git --no-replace-objects rev-parse HEAD 'HEAD^{{tree}}' 2>/dev/null)
  if [ "$2" = "$tree" ] && printf '%s,"commit":"%s"}}\\n' "$line" "$1" >>{state}/{records}; then exit 0; fi
  set --
fi
"""

_FIND = """\
python={python}
if [ ! -x "$python" ] || [ ! -f {package}/__main__.py ]; then
  echo "vibe-gate: it is not at $python any more, so nothing was reviewed.{stopped}" >&2
  echo "vibe-gate: repair: run 'vibe-gate install git' where vibe-gate is now, or delete the hook $0" >&2
  exit 1
fi
"""

_RUN = """\
exec "$python" {flags} -m vibe_gate hook {name} -- "$@"
"""

_RUN_WITH_INPUT = """\
if [ -x "$before" ]; then
  input=$(cat)
  feed | "$before" "$@" || exit $?
  feed | "$python" {flags} -m vibe_gate hook {name} -- "$@"
  exit $?
fi
exec "$python" {flags} -m vibe_gate hook {name} -- "$@"
"""


@dataclass(frozen=True, slots=True)
class Home:
    """Where vibe-gate is installed: the interpreter, its flags, and the package's folder.

    `flags` is `-I` (nothing of the current folder or the environment is imported),
    or `-EP` where the package is in the user's own site-packages, which `-I` hides.
    `state` is the folder of records, as sh reads it.
    """

    python: str
    flags: str
    package: Path
    state: str


def script(name: str, home: Home) -> bytes:
    """The text of one hook."""
    reads, idle = name in ("pre-push", "post-rewrite"), name in ("commit-msg", "post-commit")
    parts = [_HEAD, _CHAIN_WITH_INPUT if reads else _CHAIN]
    parts += {"pre-commit": [_LIFE, _STAGED, _CLEAN], "pre-merge-commit": [_CLEAN]}.get(name, [])
    parts += [_LIFE, _IDLE] if idle else []
    parts += {"commit-msg": [_PASSED_MESSAGE], "post-commit": [_PASSED_COMMIT]}.get(name, [])
    parts += [_FIND, _RUN_WITH_INPUT if reads else _RUN]
    text = "".join(parts).format(
        name=name,
        kept=KEPT,
        state=home.state,
        records=NAME,
        words=shlex.quote(HINTS),
        python=shlex.quote(home.python),
        package=shlex.quote(str(home.package)),
        flags=home.flags,
        stopped=" Git was stopped." if not name.startswith("post-") else "",
    )
    return text.encode("utf-8", "surrogateescape")
