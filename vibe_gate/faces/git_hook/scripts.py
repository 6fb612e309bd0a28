"""The hooks that `vibe-gate install git` writes: small sh scripts, because sh starts in a tenth of Python's time. Pure.

Where nothing is staged, git and sh alone say so. The settings that could hide a
staged change are switched off for that look, as in `faces/cli/idle.py`. What git
said is kept as long as it holds: `index` is a hard link to the index file that git
looked at (git never writes into one, it puts another in its place, and the link keeps
the number of the file from coming again), and `proven` names the commit of the same
tree and is newer than that file. While git's own index is that file and HEAD that
commit nothing is staged, and sh needs no git to know; somebody else may write into the
file, so after the commit git says whether its tree is that of the commit before.

That a commit was idle all along is known after it by the number of the git process
beside the commit in `proven`, written by commit-msg, and by the message of that commit
being no newer. Without hard links `idle` carries the process from hook to hook; a
review that asked no judge leaves it in `passed`, with the tree (`held.py`), and sh does
what is left to do. There a process is known by its number and, where /proc tells it,
its start (`adapters.records.life`): numbers come again, in containers at once. A merge
is never idle, for what it takes away from its other parent no look at the first shows.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.adapters.githooks import HEAD, KEPT
from vibe_gate.adapters.records import NAME
from vibe_gate.faces.git_hook.edition import EDITION, OPTION

HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "post-commit", "post-rewrite")
"""The hooks that are installed."""

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

_FOLDERS = """\
own=${{GIT_DIR:-.git}} state={state}
"""
"""Git's own folder (it says so wherever that is not `.git` of the folder it runs hooks in), and that of the records."""

_PROVEN = """\
head() {{
  at= common=$own
  if [ -f "$own/commondir" ]; then
    read -r common <"$own/commondir"
    case $common in /*) ;; *) common=$own/$common; esac
  fi
  if [ -f "$own/HEAD" ]; then read -r at <"$own/HEAD"; fi
  case $at in "ref: refs/heads/"*)
    at=$common/${{at#ref: }}
    if [ -f "$at" ]; then read -r at <"$at"; fi
  esac
  case $at in *[!0-9a-f]*) at=; esac
}}
usual() {{ [ "$GIT_INDEX_FILE" = "$own/index" ] && [ -z "$GIT_COMMON_DIR" ]; }}
note() {{ if [ -f "$state/proven" ] || [ ! -e "$state/proven" ]; then echo "$1" 2>/dev/null 1<>"$state/proven"; fi; }}
proven() {{
  usual && [ "$state/index" -ef "$own/index" ] && [ "$state/proven" -nt "$own/index" ] && [ -f "$state/proven" ] &&
    head && [ "$at" ] && read -r was process <"$state/proven"
}}
"""
"""`at`: HEAD's commit, read as git would where it is a branch's own file or stands in HEAD itself; else "".
`was`: the commit whose tree the index is; `process`: the one that commit-msg found idle. Builtins only."""

_STILL = """\
if proven && [ "$was" = "$at" ] && [ ! -e "$own/MERGE_HEAD" ]; then exit 0; fi
"""

_STILL_MESSAGE = """\
if proven && [ "$was" = "$at" ] && [ ! -e "$own/MERGE_HEAD" ]; then
  note "$at $PPID"
  exit 0
fi
"""

_STILL_COMMIT = """\
idle= line="
"
if proven && [ "$process" = "$PPID" ] && [ ! "$own/COMMIT_EDITMSG" -nt "$state/proven" ] &&
  trees=$(git --no-replace-objects rev-parse "$was^{{tree}}" "$at^{{tree}}" 2>/dev/null) &&
  [ "${{trees%%"$line"*}}" = "${{trees#*"$line"}}" ]; then
  note "$at"
  idle=yes
fi
"""
"""Before a hook of somebody else's runs, which could move HEAD. The number of a process comes again; one that made no
commit by our commit-msg wrote its message later. An index can be written in place, and its time set back, so git says
here that the commit has the tree of the one before it: if not, nobody looked at it, and Python records that."""

_SETTLED = """\
if [ "$idle" ]; then exit 0; fi
"""

_LIFE = """\
life() {{ s=; {{ read -r s </proc/$PPID/stat; }} 2>/dev/null; s=${{s##*) }}; set -- $s; life="$PPID ${{20:-0}}"; }}
life
"""
"""Builtins only. The start is field 22; what stands in parentheses before may have spaces."""

_STAGED = """\
seen=
if usual && head && [ "$at" ]; then note -; seen=$at; fi
if [ ! -e "$own/MERGE_HEAD" ] &&
  GIT_NO_LAZY_FETCH=1 git --no-optional-locks --no-replace-objects -c core.fsmonitor=false diff --cached --quiet \\
  --no-relative --ignore-submodules=none --no-ext-diff --no-textconv 2>/dev/null; then
  if [ ! -e "$state/idle" ] || [ -f "$state/idle" ]; then echo "$life" 2>/dev/null >"$state/idle"; fi
  if [ "$seen" ] && ln -f "$own/index" "$state/index" 2>/dev/null && [ "$state/proven" -nt "$state/index" ] &&
    head && [ "$seen" = "$at" ]; then note "$at"; fi
  exit 0
fi
"""
"""The linked file is the one that git looked at, for it is older than the line that was written before."""

_CLEAN = """\
for left in "$state/idle" "$state/passed"; do
  if [ -f "$left" ] && [ -s "$left" ]; then printf '' 2>/dev/null >"$left"; fi
done
"""

_IDLE = """\
if [ -f "$state/idle" ] && [ -r "$state/idle" ] && read -r idle <"$state/idle" && [ "$idle" = "$life" ]; then exit 0; fi
"""

_PASSED_MESSAGE = """\
if [ -f "$state/passed" ] && [ -r "$state/passed" ] && read -r pid start rest <"$state/passed" &&
  [ "$pid $start" = "$life" ]; then
  grep -aqiE {words} "$1"
  if [ $? -eq 1 ]; then exit 0; fi
fi
"""

_PASSED_COMMIT = """\
if [ -f "$state/passed" ] && [ -r "$state/passed" ] &&
  {{ read -r pid start tree linked && read -r line; }} <"$state/passed" && [ "$pid $start" = "$life" ] &&
  [ -f "$state/{records}" ]; then
  set -- $(git --no-replace-objects rev-parse HEAD 'HEAD^{{tree}}' 2>/dev/null)
  if [ "$2" = "$tree" ] && printf '%s,"commit":"%s"}}\\n' "$line" "$1" >>"$state/{records}"; then
    if [ "$linked" ] && usual && [ "$state/index" -ef "$own/index" ] && [ "$state/passed" -nt "$own/index" ]; then
      note "$1"
    fi
    exit 0
  fi
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
exec "$python" {flags} -m vibe_gate hook {name} {edition} -- "$@"
"""

_RUN_WITH_INPUT = """\
if [ -x "$before" ]; then
  input=$(cat)
  feed | "$before" "$@" || exit $?
  feed | "$python" {flags} -m vibe_gate hook {name} {edition} -- "$@"
  exit $?
fi
exec "$python" {flags} -m vibe_gate hook {name} {edition} -- "$@"
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
    parts = {
        "pre-commit": [_CHAIN, _FOLDERS, _PROVEN, _STILL, _LIFE, _STAGED, _CLEAN, _FIND, _RUN],
        "pre-merge-commit": [_CHAIN, _FOLDERS, _CLEAN, _FIND, _RUN],
        "commit-msg": [_CHAIN, _FOLDERS, _PROVEN, _STILL_MESSAGE, _LIFE, _IDLE, _PASSED_MESSAGE, _FIND, _RUN],
        "post-commit": [_FOLDERS, _PROVEN, _STILL_COMMIT, _CHAIN, _SETTLED, _LIFE, _IDLE, _PASSED_COMMIT, _FIND, _RUN],
        "pre-push": [_CHAIN_WITH_INPUT, _FIND, _RUN_WITH_INPUT],
        "post-rewrite": [_CHAIN_WITH_INPUT, _FIND, _RUN_WITH_INPUT],
    }[name]
    text = "".join([HEAD, *parts]).format(
        name=name,
        kept=KEPT,
        state=home.state,
        records=NAME,
        words=shlex.quote(HINTS),
        python=shlex.quote(home.python),
        package=shlex.quote(str(home.package)),
        flags=home.flags,
        edition=OPTION + EDITION,
        stopped=" Git was stopped." if not name.startswith("post-") else "",
    )
    return text.encode("utf-8", "surrogateescape")
