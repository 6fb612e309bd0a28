"""The hooks that `vibe-gate install git` writes: small sh scripts, because sh starts in a tenth of Python's time. Pure.

With nothing staged git and sh answer alone; settings that could hide a staged change are switched off for that look.
After a review without a judge Python leaves `passed` for the next hooks of the same git process (`reviewing.py`):
commit-msg then only looks for words that name an agent, and post-commit writes which commit the tree became as a line
of the spool that the shared state takes in. Every other commit is looked at by Python.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.domain.provenance import AGENT_COMMANDS

HEAD = """\
#!/bin/sh
# vibe-gate: written by `vibe-gate install git`; `vibe-gate uninstall git` takes it away again.
"""
"""First lines of every hook that vibe-gate wrote, in any version."""

END = "# end of the hook of vibe-gate\n"
"""Last line of each; what follows was added by another tool."""

KEPT = ".before-vibe-gate"
"""Suffix of a hook that was there before; vibe-gate's runs it first."""

TRANSACTION = "reference-transaction"

HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "post-commit", "post-rewrite",
         TRANSACTION)  # fmt: skip
"""The hooks that are installed."""

SPOOL = "records.ndjson"
"""What sh appends of a commit; the shared state takes it in."""

PASSED = "vibe-gate/passed"
"""In the common git directory: the git process whose pre-commit hook passed without a judge, and the tree."""

REFUSED = 10
"""The exit code by which Python refuses: it ends with 1 or 2 when it cannot start, and that must not stop git."""

HINTS = "co-authored-by|assisted-by|generated-by|entire-checkpoint|claude-session|agent-session|generated with"
"""Words without which no message hints at an agent (`domain/provenance.py`), as `grep -iE` reads them."""

_CHAIN = """\
before="${{0%/*}}/{name}{kept}"
if [ -x "$before" ]; then "$before" "$@" || exit $?; fi
"""

_CHAIN_WITH_INPUT = """\
before="${{0%/*}}/{name}{kept}"
feed() {{ if [ -n "$input" ]; then printf '%s\\n' "$input"; fi; }}
"""

_IDLE = """\
if GIT_NO_LAZY_FETCH=1 git --no-optional-locks --no-replace-objects -c core.fsmonitor=false diff --cached --quiet \\
  --no-relative --ignore-submodules=none --no-ext-diff --no-textconv 2>/dev/null
then exit 0; fi
"""

_PASSED = """\
state={state}
pid= tree=
if [ -f "$state/passed" ] && [ ! -h "$state/passed" ]; then read -r pid tree <"$state/passed"; fi
if [ "$pid" != "$PPID" ]; then tree=; fi
"""
"""`tree`: what the pre-commit hook of this very git process let through without a judge, else empty."""

_MESSAGE = """\
if [ "$tree" ]; then
  grep -aqiE {words} "$1"
  if [ $? -eq 1 ]; then exit 0; fi
fi
"""

_SETTLE = """\
idle=
set -- $(git --no-replace-objects rev-parse HEAD 'HEAD^{{tree}}' 'HEAD@{{1}}^{{tree}}' 'HEAD^@' 2>/dev/null)
if [ "$tree" ] && [ "$2" = "$tree" ]; then
  spool=$state/{spool}
  if [ ! -h "$state" ] && [ ! -h "$spool" ] && {{ [ -f "$spool" ] || [ ! -e "$spool" ]; }}; then
    printf '{{"schema":1,"kind":"linked","commit":"%s","tree":"%s"}}\\n' "$1" "$2" >>"$spool" && idle=yes
  fi
elif [ $# -eq 4 ] && [ "$2" = "$3" ]; then idle=yes
fi
"""
"""Before a hook of the user's runs, which could move HEAD. Git says whether the commit has the tree that was reviewed,
or that of the commit before it; if it has neither, no hook looked at it, and Python records that."""

_SETTLED = """\
if [ "$idle" ]; then exit 0; fi
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

_TRANSACTION = """\
if [ -x "$before" ]; then
  input=$(cat)
  feed | "$before" "$@" || exit $?
fi
if [ "$1" != prepared ] || [ -z "{agents}" ]; then exit 0; fi
moved() {{
  while read -r old new ref; do
    case "$ref $new" in refs/heads/*" "*[!0]*) echo "$old $new $ref" ;; esac
  done
}}
if [ -x "$before" ]; then moves=$(feed | moved); else moves=$(moved); fi
if [ -z "$moves" ]; then exit 0; fi
unset GIT_GRAFT_FILE GIT_SHALLOW_FILE
if found=$(printf '%s\\n' "$moves" | while read -r old new ref; do echo "$new"; done |
  git --no-replace-objects rev-list --max-count=1 --stdin --not --exclude=refs/stash '--exclude=refs/notes/*' \\
    '--exclude=refs/replace/*' '--glob=refs/*' 2>/dev/null) && [ -z "$found" ]
then exit 0; fi
printf '%s\\n' "$moves" | {python} {flags} -m vibe_gate hook {name} -- "$@" >&2
case $? in
  0) exit 0 ;;
  {refused}) exit 1 ;;
  *) echo "vibe-gate: not checked whether a hook let this commit through: run 'vibe-gate install git' again" >&2 ;;
esac
"""
"""A person's git ends at the first test. Of an agent's only new commits on branches are looked at: git is asked once
for all branches of one call, and without the variables by which it would believe in other parents."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where vibe-gate is installed: the interpreter, its flags, and the package's folder.

    `flags` is `-I` (nothing of the current folder or the environment is imported), or `-EP` if the package is in
    the user's own site-packages, which `-I` hides. `state` is the folder of the shared state, as sh reads it.
    """

    python: str
    flags: str
    package: Path
    state: str


def script(name: str, home: Home) -> bytes:
    """The text of one hook."""
    parts = {
        "pre-commit": [_CHAIN, _IDLE, _FIND, _RUN],
        "pre-merge-commit": [_CHAIN, _FIND, _RUN],
        "commit-msg": [_CHAIN, _PASSED, _MESSAGE, _IDLE, _FIND, _RUN],
        "post-commit": [_PASSED, _SETTLE, _CHAIN, _SETTLED, _FIND, _RUN],
        "pre-push": [_CHAIN_WITH_INPUT, _FIND, _RUN_WITH_INPUT],
        "post-rewrite": [_CHAIN_WITH_INPUT, _FIND, _RUN_WITH_INPUT],
        TRANSACTION: [_CHAIN_WITH_INPUT, _TRANSACTION],
    }[name]
    text = "".join([HEAD, *parts, END]).format(
        name=name,
        kept=KEPT,
        state=home.state,
        spool=SPOOL,
        words=shlex.quote(HINTS),
        agents="".join(f"${name}" for name in AGENT_COMMANDS),
        refused=REFUSED,
        python=shlex.quote(home.python),
        package=shlex.quote(str(home.package)),
        flags=home.flags,
        stopped=" Git was stopped." if not name.startswith("post-") else "",
    )
    return text.encode("utf-8", "surrogateescape")
