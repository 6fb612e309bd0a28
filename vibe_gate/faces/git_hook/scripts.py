"""The hooks that `vibe-gate install git` writes: small sh scripts, because sh starts in a tenth of Python's time. Pure.

Where nothing is staged, git and sh alone say so. The settings that could hide a
staged change are switched off for that look, as in `faces/cli/idle.py`. What git
said is kept as long as it holds: `index.N` is a hard link to the index file that git
looked at (git never writes into one, it puts another in its place, and the link keeps
the number of the file from coming again), and `proven.N.COMMIT` names the commit of the
same tree and is newer than that file. While git's own index is that file and HEAD that
commit nothing is staged, and sh needs no git to know.

Somebody else may write into the index file, or stage something after the look. So after
every commit git says whether its tree is that of the commit before: if it is, there was
nothing to review, and if not, and no review left the same tree in `passed` for this
process (`held.py`), Python looks. There a process is known by its number and, where /proc
tells it, its start (`remembered.life`): numbers come again, in containers at once.
A merge is never idle, for what it takes away from its other parent no look at the first shows.

Whoever can write in the folder of records can put a link in the place of any file, or the
folder, between a look at it and the writing. So sh only ever makes new files there, empty
ones, whose names say it all (`set -C`: the system makes no file through a link), and hard
links that replace nothing; Python takes them away.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.domain.provenance import AGENT_COMMANDS
from vibe_gate.faces.git_hook.edition import EDITION, OPTION
from vibe_gate.faces.git_hook.githooks import END, HEAD, KEPT

SPOOL = "records.ndjson"
"""What sh appends of a commit; the shared state takes it in."""

TRANSACTION = "reference-transaction"

HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "post-commit", "post-rewrite",
         TRANSACTION)  # fmt: skip
"""The hooks that are installed."""

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

_FOLDERS = """\
own=${{GIT_DIR:-.git}} state={state}
make() {{
  if [ -e "$1" ] || [ -h "$state" ]; then return 1; fi
  set -C
  true 2>/dev/null >"$1"
  set -- $?
  set +C
  return $1
}}
note() {{
  if [ -h "$state" ] || [ -h "$state/{spool}" ] || [ -p "$state/{spool}" ]; then return 1; fi
  linked='{{"schema":1,"kind":"linked","commit":"%s","tree":"%s"}}'
  {{ printf "\\n$linked\\n" "$1" "$2" >>"$state/{spool}"; }} 2>/dev/null
}}
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
proven() {{
  if usual && [ "$at" ]; then
    for link in "$state"/index.*; do
      number=${{link##*.}}
      if [ "$link" -ef "$own/index" ] && [ "$state/proven.$number.$at" -nt "$own/index" ]; then return 0; fi
    done
  fi
  return 1
}}
"""
"""`at`: HEAD's commit, read as git would where it is a branch's own file or stands in HEAD itself; else "".
`proven`: whether the index is known to be the tree of commit `at`, and by which `number`. Builtins only."""

_STILL = """\
head
if proven && [ ! -e "$own/MERGE_HEAD" ]; then exit 0; fi
"""

_LIFE = """\
life() {{ s=; {{ read -r s </proc/$PPID/stat; }} 2>/dev/null; s=${{s##*) }}; set -- $s; life="$PPID ${{20:-0}}"; }}
life
"""
"""Builtins only. The start is field 22; what stands in parentheses before may have spaces."""

_NOTHING = """\
nothing() {{
  [ ! -e "$own/MERGE_HEAD" ] &&
    GIT_NO_LAZY_FETCH=1 git --no-optional-locks --no-replace-objects -c core.fsmonitor=false diff --cached --quiet \\
    --no-relative --ignore-submodules=none --no-ext-diff --no-textconv 2>/dev/null
}}
"""

_STAGED = """\
look() {{
  nothing || return 1
  if ln -n "$own/index" "$state/index.$PPID" 2>/dev/null && [ /dev/fd/4 -ef "$state/index.$PPID" ]; then
    seen=$at
    head
    if [ "$seen" = "$at" ]; then make "$state/proven.$PPID.$at"; fi
  fi
  return 0
}}
if usual && [ "$at" ] && [ -f "$own/index" ] && [ ! -h "$state" ] && [ ! -e "$state/index.$PPID" ]; then
  look 4<"$own/index"
else
  nothing
fi
if [ $? -eq 0 ]; then exit 0; fi
"""
"""The linked file is the one that git looked at: it was held open meanwhile."""

_IDLE = """\
if nothing; then exit 0; fi
"""
"""Where pre-commit's look could not be kept: another index, a disk without hard links, refs in `packed-refs` alone."""

_PASSED_MESSAGE = """\
if [ -f "$state/passed" ] && [ -r "$state/passed" ] && read -r pid start rest <"$state/passed" &&
  [ "$pid $start" = "$life" ]; then
  grep -aqiE {words} "$1"
  if [ $? -eq 1 ]; then exit 0; fi
fi
"""

_SETTLE = """\
settle() {{
  tree= linked=
  if [ -f "$state/passed" ] && [ -r "$state/passed" ]; then
    read -r pid start tree linked <"$state/passed"
    if [ "$pid $start" != "$life" ]; then tree=; fi
  fi
  was='HEAD@{{1}}'
  set -- $(git --no-replace-objects rev-parse HEAD 'HEAD^{{tree}}' "$was" "$was^{{tree}}" 'HEAD^@' 2>/dev/null)
  if [ "$tree" ] && [ "$2" = "$tree" ]; then
    note "$1" "$2" || return 1
    if [ "$linked" ] && usual && [ "$state/index.$PPID" -ef "$own/index" ] &&
      [ "$state/passed" -nt "$own/index" ]; then make "$state/proven.$PPID.$1"; fi
    return 0
  fi
  if [ $# -lt 4 ] || [ $# -gt 5 ] || [ "$2" != "$4" ]; then return 1; fi
  at=$3
  if proven; then make "$state/proven.$number.$1"; fi
  return 0
}}
idle=
if settle; then idle=yes; fi
"""
"""Before a hook of somebody else's runs, which could move HEAD. An index can be written in place, and its time set
back, and something can be staged between the hooks, so git says here that the commit has the tree that was reviewed,
or that of the commit before it: if neither, nobody looked at it, and Python records that."""

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


_TRANSACTION = """\
before="${{0%/*}}/{name}{kept}"
feed() {{ if [ -n "$input" ]; then printf '%s\\n' "$input"; fi; }}
if [ -x "$before" ]; then
  input=$(cat)
  feed | "$before" "$@" || exit $?
fi
if [ "$1" != prepared ] || [ -z "{agents}" ]; then exit 0; fi
fresh() {{
  ! found=$(git --no-replace-objects rev-list --max-count=1 "$1" --not --exclude=refs/stash '--exclude=refs/notes/*' \\
    '--glob=refs/*' 2>/dev/null) || [ "$found" ]
}}
moved() {{
  while read -r old new ref; do
    case "$ref $new" in refs/heads/*" "*[!0]*) if fresh "$new"; then echo "$old $new $ref"; fi; esac
  done
}}
if [ -x "$before" ]; then moves=$(feed | moved); else moves=$(moved); fi
if [ -z "$moves" ]; then exit 0; fi
printf '%s\\n' "$moves" | {python} {flags} -m vibe_gate hook {name} {edition} -- "$@" >&2
case $? in
  0) exit 0 ;;
  {refused}) exit 1 ;;
  *) echo "vibe-gate: not checked whether a hook let this commit through: run 'vibe-gate install git' again" >&2 ;;
esac
"""
"""A person's git ends at the first test. Of an agent's only new commits on branches are looked at."""


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
        "pre-commit": [_CHAIN, _FOLDERS, _PROVEN, _STILL, _NOTHING, _STAGED, _FIND, _RUN],
        "pre-merge-commit": [_CHAIN, _FIND, _RUN],
        "commit-msg": [_CHAIN, _FOLDERS, _PROVEN, _STILL, _LIFE, _PASSED_MESSAGE, _NOTHING, _IDLE, _FIND, _RUN],
        "post-commit": [_FOLDERS, _PROVEN, _LIFE, _SETTLE, _CHAIN, _SETTLED, _FIND, _RUN],
        "pre-push": [_CHAIN_WITH_INPUT, _FIND, _RUN_WITH_INPUT],
        "post-rewrite": [_CHAIN_WITH_INPUT, _FIND, _RUN_WITH_INPUT],
        TRANSACTION: [_TRANSACTION],
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
        edition=OPTION + EDITION,
        stopped=" Git was stopped." if not name.startswith("post-") else "",
    )
    return text.encode("utf-8", "surrogateescape")
