"""`install git` and `uninstall git`: hooks of vibe-gate's own, beside a framework only
`reference-transaction`.

They are small sh scripts, because sh starts in a tenth of Python's time. With nothing staged git
and sh answer alone; settings that could hide a staged change are switched off for that look. After
a review Python leaves `passed` for the next hooks of the same git process (`reviewing.py`):
commit-msg then only looks for words that name an agent, if it is not known to be one, the
reference-transaction and post-commit whether the commit has the tree that was reviewed. What git
makes by itself is marked, to be recorded by the next start of Python. Every other commit is looked
at by Python.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import site
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from vibe_gate.domain.escape import safe
from vibe_gate.domain.known_agents import TRAILERS
from vibe_gate.domain.provenance import AGENT_COMMANDS, AGENT_VARIABLES
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.faces.git_hook.call import REFUSED, TRACED
from vibe_gate.faces.git_hook.framework_advice import (
    KEEP_UNUSED,
    advise_framework,
    settings_with_gate,
)
from vibe_gate.faces.git_hook.frameworks import (
    END,
    FRAMEWORKS,
    HEAD,
    HOOKS,
    MOVED,
    TRANSACTION,
    find_hooks,
    has_commit_gate,
    keeps_unused_hooks,
    owner,
)
from vibe_gate.gate.traces import NOTES
from vibe_gate.git import Repository

KEPT = ".before-vibe-gate"
"""Suffix of a hook that was there before; vibe-gate's runs it first."""

TRACES = f"refs/notes/{NOTES}"

HINTS = "|".join(["co-authored-by", *(sign.text for sign in TRAILERS), "generated with"])
"""Words without which no message hints at an agent (`domain/provenance.py`), as `grep -iE` reads
them.
"""

ONE_WORKTREE = (
    "Linked worktrees do not have these hooks: core.hooksPath is relative, so git looks in a folder of each worktree. "
    "Run `vibe-gate install git` in each, or make the path absolute: git config core.hooksPath {folder}"
)

IN_TREE = "They are in the working tree (core.hooksPath) and name this machine's paths: do not commit them."

_CHAIN = """\
before="${{0%/*}}/{name}{kept}"
if [ -x "$before" ]; then "$before" "$@" || exit $?; fi
"""

_CHAIN_WITH_INPUT = """\
before="${{0%/*}}/{name}{kept}"
input=
feed() {{ if [ -n "$input" ]; then printf '%s\\n' "$input"; fi; }}
if [ -x "$before" ]; then
  input=$(cat)
  feed | "$before" "$@" || exit $?
fi
"""

_STATE = """\
state={state}
git_dir=${{GIT_DIR:-.git}}
"""

_IDLE = """\
if GIT_NO_LAZY_FETCH=1 git --no-optional-locks --no-replace-objects -c core.fsmonitor=false diff --cached --quiet \\
  --no-relative --ignore-submodules=none --no-ext-diff --no-textconv 2>/dev/null
then
  if [ -d "$state" ] && [ ! -h "$state/passed" ]; then echo "$PPID idle" >"$state/passed"; fi
  exit 0
fi
"""

_PASSED = """\
pid= tree= before_tree= author=
if [ -f "$state/passed" ] && [ ! -h "$state/passed" ]; then
  read -r pid tree before_tree author rest <"$state/passed"
fi
if [ "$pid" != "$PPID" ]; then tree=; fi
"""
"""`tree`: what the pre-commit hook of this very git process let through, "idle" if it had nothing
to review, else empty.
"""

_MESSAGE = """\
if [ "$tree" = idle ]; then exit 0; fi
if [ "$tree" ]; then
  case $author in agent | judged) exit 0 ;; esac
  grep -aqiE {words} "$1"
  if [ $? -eq 1 ]; then exit 0; fi
fi
"""

_TRACED = """\
traced=
if [ -f "$state/{traced}" ]; then
  for session in "$state"/captures/*/; do if [ -d "$session" ]; then traced=yes; fi; break; done
fi
"""
"""Whether Agent Trace records are kept here, and a session was captured in the last 30 days: then
Python looks at every commit, for it may have lines of that session.
"""

_MARKS = """\
marks=$state/unrecorded
mark() {{
  [ ! -h "$state" ] && [ ! -h "$marks" ] && {{ [ -d "$marks" ] || mkdir -p "$marks"; }} &&
    for sign in {signs}; do case $sign in *=?*) echo "${{sign%%=*}}" ;; esac; done >"$marks/$1"
}}
"""
"""Of what git makes by itself, sh only notes the commits and the variables of agents that are set;
Python settles them (`receipts/commit_records.py`) before anything reads the records.
"""

_PICKED = """\
if [ -z "$traced" ] && [ -f "$git_dir/CHERRY_PICK_HEAD" ]; then
  read -r old <"$git_dir/CHERRY_PICK_HEAD"
  read -r new <"$git_dir/HEAD"
  ref="${{state%/*}}/${{new#ref: }}"
  if [ "${{new#ref: }}" != "$new" ] && [ -f "$ref" ]; then read -r new <"$ref"; fi
  command=cherry-pick
  if [ -f "$git_dir/rebase-merge/onto" ] && [ ! -f "$git_dir/rebase-merge/stopped-sha" ]; then command=rebase; fi
  case $old$new in
    *[!0-9a-f]*) ;;
    *) if [ ${{#old}} -eq 40 ] && [ ${{#new}} -eq 40 ] && mark "$command.$old.$new"; then exit 0; fi ;;
  esac
fi
"""
"""Git deletes CHERRY_PICK_HEAD before the hook of a commit that it did not make by itself (after a
conflict, say).
"""

_REBASING = """\
if [ -z "{agents}" ] && [ -f "$git_dir/rebase-merge/onto" ] && [ ! -f "$git_dir/rebase-merge/stopped-sha" ] &&
  read -r head <"$git_dir/HEAD" && [ "${{head#ref:}}" = "$head" ]
then
  case $(tail -n 1 "$git_dir/logs/HEAD" 2>/dev/null) in
    *"	rebase (continue)"*) ;;
    *"	rebase ("*) exit 0 ;;
  esac
fi
"""
"""A person's rebase is on no branch. At its end post-rewrite looks at all that it made by itself;
what a person made where it stopped or was killed is looked at when it is made. The reflog says
which of the two a commit is: a rebase may end without post-rewrite (`--quit`).
"""

_REWRITTEN = """\
is_by_git() {{
  if [ "$1" = amend ]; then return 0; fi
  while read -r step rest; do
    case $step in pick | p | "#") ;; *) return 1 ;; esac
  done <"$git_dir/rebase-merge/done"
}}
if [ -z "$traced$input" ] && [ ! -x "$before" ] && is_by_git "$1" 2>/dev/null; then
  while read -r old new rest; do
    mark "$1.$old.$new" || input="$input$old $new
"
  done
  if [ -z "$input" ]; then exit 0; fi
fi
"""
"""Of any other steps (squash, exec, break) only the rebase that is under way can tell what git made
by itself.
"""

_SETTLED = """\
set -- $(git --no-replace-objects rev-parse 'HEAD^{{tree}}' 'HEAD@{{1}}^{{tree}}' 'HEAD^@' 2>/dev/null)
if [ "$traced" ]; then set --; fi
if [ "$tree" ] && [ "$1" = "$tree" ]; then exit 0; fi
if [ $# -eq 3 ] && [ "$1" = "$2" ]; then exit 0; fi
"""
"""Git says whether the commit has the tree that was reviewed, or that of the commit before it; if
it has neither, no hook looked at it, and Python records that.
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
if [ -n "$input" ]; then
  feed | "$python" {flags} -m vibe_gate hook {name} -- "$@"
  exit $?
fi
exec "$python" {flags} -m vibe_gate hook {name} -- "$@"
"""

_TRANSACTION = """\
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
  git --no-replace-objects rev-list --max-count=2 --stdin --not --exclude=refs/stash '--exclude=refs/notes/*' \\
    '--exclude=refs/replace/*' '--glob=refs/*' 2>/dev/null) && [ -z "$found" ]
then exit 0; fi
state={state}
if [ -f "$state/passed" ] && [ ! -h "$state/passed" ] && read -r pid tree before_tree rest <"$state/passed"; then
  set -- "$@" $(git --no-replace-objects rev-parse "$found^{{tree}}" "$found^1^{{tree}}" 2>/dev/null)
  if [ "$#.$2.$3" = "3.$tree.$before_tree" ]; then exit 0; fi
  set -- prepared
fi
printf '%s\\n' "$moves" | {python} {flags} -m vibe_gate hook {name} -- "$@" >&2
case $? in
  0) exit 0 ;;
  {refused}) exit 1 ;;
  *) echo "vibe-gate: not checked whether a hook let this commit through: run 'vibe-gate install git' again" >&2 ;;
esac
"""
"""A person's git ends at the first test. Of an agent's only new commits on branches are looked at:
git is asked once for all branches of one call, and without the variables by which it would believe
in other parents. A single new commit of the change that a hook has just let through needs no
Python; two make no name of a commit.
"""

PACKAGE = Path(__file__).resolve().parents[2]


class Installation(Struct, frozen=True):
    """What `install` did."""

    lines: tuple[str, ...]
    """Lines to print."""
    advice: str = ""
    """What a person has to add to a framework's settings; "" if nothing."""


def install(repository: Repository, version: str, names: tuple[str, ...] = HOOKS) -> Installation:
    """Write the hooks. Those that a framework manages stay as they are, and it is said what its
    settings need.
    """
    folder = _folder(repository)
    hooks = find_hooks(repository.root, folder)
    if hooks.framework is None:
        return Installation((*_write_hooks(repository, folder, names),))
    own_names = [file.name for file in hooks.owned_by("vibe-gate")]
    written = tuple(name for name in names if name == TRANSACTION or name in own_names)
    lines = _write_hooks(repository, folder, written)
    if hooks.framework == "simple-git-hooks" and not keeps_unused_hooks(repository.root):
        lines.append(KEEP_UNUSED)
    if names == (TRANSACTION,):
        return Installation((*lines,))
    if hooks.running:
        lines.append(
            f"{hooks.framework} manages the hooks. vibe-gate runs at {', '.join(hooks.running)}."
        )
    return Installation((*lines,), advise_framework(hooks, repository.root, folder, version))


def _write_hooks(repository: Repository, folder: Path, names: tuple[str, ...]) -> list[str]:
    """Write vibe-gate's own hooks, each in place of another tool's that is kept; returns lines to
    print.
    """
    for name in names:
        check_room(folder, name)
    scripts = _scripts(repository, folder)
    if all(stands(folder, name, scripts[name]) for name in names):
        return [f"unchanged: hooks in {safe(str(folder))}: {', '.join(names)}"]
    lines = [f"Hooks in {safe(str(folder))}: {', '.join(names)}"]
    for name in names:
        if write_hook(folder, name, scripts[name]):
            lines.append(f"Your hook {name} is kept as {name}{KEPT} and runs first.")
    in_tree = folder.is_relative_to(repository.root) and not folder.is_relative_to(
        repository.common_dir
    )
    if in_tree and not _is_ignored(folder):
        lines.append(IN_TREE)
    if repository.has_hooks_by_worktree():
        lines.append(ONE_WORKTREE.format(folder=safe(shlex.quote(str(folder)))))
    return lines


def worktrees_without_hooks(repository: Repository) -> list[str]:
    """The names of linked worktrees in which no pre-commit hook of vibe-gate runs, though one runs
    in this one.
    """
    if not repository.has_hooks_by_worktree() or not has_gate(repository):
        return []
    below = os.path.relpath(repository.hooks_folder(), repository.root)
    tops = [top for top in repository.linked_tops() if top != repository.root]
    return [top.name for top in tops if not has_commit_gate(top, top / below)]


def _is_ignored(folder: Path) -> bool:
    """Whether the folder tells git to ignore all that is in it, as husky's does."""
    try:
        return (folder / ".gitignore").read_text().strip() == "*"
    except (OSError, UnicodeDecodeError):
        return False


def outdated(repository: Repository) -> tuple[str, ...] | None:
    """The hooks that differ from what this vibe-gate would write; None if it wrote none of them."""
    folder = repository.hooks_folder()
    ours = [name for name in HOOKS if owner(folder / name) == "vibe-gate"]
    scripts = _scripts(repository, folder)
    if not ours:
        return None
    return tuple(name for name in HOOKS if not stands(folder, name, scripts[name]))


def _scripts(repository: Repository, folder: Path) -> dict[str, bytes]:
    state = repository.common_dir / "vibe-gate"
    # Beside the hooks where they are in their usual place, so that it moves with them.
    moves = folder == repository.common_dir / "hooks"
    in_sh = '"${0%/*}/../vibe-gate"' if moves else shlex.quote(str(state))
    return {name: script(name, in_sh) for name in HOOKS}


def has_gate(repository: Repository) -> bool:
    """Whether vibe-gate is run before each commit, by its own hook or by a framework's."""
    return has_commit_gate(repository.root, repository.hooks_folder())


def is_written_whole(repository: Repository) -> bool:
    """Whether the pre-commit hook is vibe-gate's: then `install git` has written all of them."""
    return owner(repository.hooks_folder() / "pre-commit") == "vibe-gate"


def trace(repository: Repository) -> list[str]:
    """Have the hooks keep Agent Trace records, too; returns lines to print. StorageError."""
    mark = repository.common_dir / "vibe-gate" / TRACED
    if mark.exists():
        return []
    try:
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        mark.touch()
    except OSError as error:
        raise StorageError(f"{mark} could not be written: {error.strerror}.") from error
    return [
        f"Agent Trace records of captured sessions go to {TRACES}; `git push origin {TRACES}` shares them."
    ]


def untrace(repository: Repository) -> list[str]:
    """Take back what `trace` did; returns lines to print."""
    mark = repository.common_dir / "vibe-gate" / TRACED
    try:
        mark.unlink()
        with contextlib.suppress(OSError):  # there is more in it
            mark.parent.rmdir()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{mark} could not be removed: {error.strerror}.") from error
    return [
        f"No more Agent Trace records are kept; `git update-ref -d {TRACES}` deletes those that are there."
    ]


def uninstall(repository: Repository, names: tuple[str, ...] = HOOKS) -> list[str]:
    """Remove the hooks and restore what was there before; returns lines to print, also about what
    stays.
    """
    folder = _folder(repository)
    lines: list[str] = []
    # Where git does not look any more, vibe-gate's hooks may still be: a framework set
    # core.hooksPath after them.
    for place in dict.fromkeys((folder, repository.common_dir / "hooks")):
        results = {name: take_away(place, name) for name in names}
        removed = [name for name, result in results.items() if result in ("removed", "restored")]
        if removed:
            lines.append(f"Removed from {safe(str(place))}: {', '.join(removed)}")
        lines += [f"Your hook {name} is back." for name in removed if results[name] == "restored"]
        lines += _remove_moved(place, names)
    lines = lines or ["No hooks of vibe-gate are installed."]
    return [*lines, *_staying(repository, folder, names)]


def _remove_moved(folder: Path, names: tuple[str, ...]) -> Iterator[str]:
    """Remove vibe-gate's hooks that a framework moved aside to put its own there."""
    for name in names:
        for suffix in MOVED:
            moved = name + suffix
            result = take_away(folder, moved, before=name)
            if result in ("removed", "restored"):
                yield f"Removed from {safe(str(folder))}: {moved}"
            if result == "restored":
                yield f"Your hook from before vibe-gate is now {moved}."


def _staying(repository: Repository, folder: Path, names: tuple[str, ...]) -> Iterator[str]:
    """What is left: hooks of others, what makes them run vibe-gate, and hooks from before that have
    no place.
    """
    hooks = find_hooks(repository.root, folder)
    for file in hooks.files:
        if file.name in names and file.owner in ("other", "edited"):
            line = f"The hook {file.name} is not vibe-gate's; kept."
            if file.runs_gate:
                line += " It runs vibe-gate: remove its line if you do not want that."
            yield line
    managed = [file.name for file in hooks.owned_by(*FRAMEWORKS) if file.name in names]
    if managed:
        yield f"Kept, as {hooks.framework} manages them: {', '.join(managed)}."
    if hooks.running and hooks.framework is not None and names == HOOKS:
        settings = settings_with_gate(hooks, repository.root, folder)
        yield f"{hooks.framework} still runs vibe-gate: remove its lines from {settings}."
    for name in names:
        if os.path.lexists(folder / (name + KEPT)):
            yield f"{name}{KEPT} stays: your hook from before vibe-gate, in whose place is another tool's now."


def _folder(repository: Repository) -> Path:
    """Git's folder of hooks, which must belong to this repository alone."""
    folder = repository.hooks_folder()
    real = folder.resolve()
    own_folders = (repository.common_dir, repository.root)
    if not any(real.is_relative_to(own_folder.resolve()) for own_folder in own_folders):
        raise UsageError(
            f"git takes its hooks from {safe(str(folder))} (core.hooksPath), outside of this repository: hooks there "
            "would run in others too. Use a folder of its own, `git config --local core.hooksPath "
            f"{safe(shlex.quote(str(repository.common_dir / 'hooks')))}`, or add "
            'this line to each hook there: vibe-gate hook NAME -- "$@"'
        )
    return folder


def write_hook(folder: Path, name: str, script: bytes) -> bool:
    """Make `script` the hook `name`; returns whether another tool's hook was kept beside it.
    StorageError.

    The file appears whole or not at all, and a kept one is never overwritten.
    """
    hook, kept_hook = folder / name, folder / (name + KEPT)
    part = folder / f".{name}.{secrets.token_hex(4)}"
    foreign = owner(hook) not in ("nobody", "vibe-gate")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.write_bytes(script)
        part.chmod(0o755)
        if foreign:
            hook.rename(kept_hook)
        part.replace(hook)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise StorageError(f"{hook} could not be written: {error.strerror}.") from error
    return foreign


def stands(folder: Path, name: str, script: bytes) -> bool:
    """Whether the hook `name` is `script` already, and git can run it."""
    hook = folder / name
    try:
        return hook.read_bytes() == script and not hook.is_symlink() and os.access(hook, os.X_OK)
    except OSError:
        return False


def check_room(folder: Path, name: str) -> None:
    """StorageError if another tool's hook could not be kept beside vibe-gate's."""
    hook, kept_hook = folder / name, folder / (name + KEPT)
    if owner(hook) == "edited":
        raise StorageError(
            f"{hook} is vibe-gate's with lines added or removed. Move your lines into another file."
        )
    if owner(hook) not in ("nobody", "vibe-gate") and os.path.lexists(kept_hook):
        raise StorageError(
            f"{kept_hook} exists, and {hook} is not vibe-gate's. Move one of them away."
        )


def take_away(
    folder: Path, name: str, *, before: str = ""
) -> Literal["removed", "restored", "absent", "foreign"]:
    """Remove vibe-gate's hook `name` and restore the one before it; another tool's hook stays.
    StorageError.

    `before`: the name under which the one before it was kept, if that is another.
    """
    hook, earlier_hook = folder / name, folder / ((before or name) + KEPT)
    if owner(hook) != "vibe-gate":
        if os.path.lexists(hook):
            return "foreign"
        return "absent"
    try:
        if os.path.lexists(earlier_hook):
            earlier_hook.replace(hook)
            return "restored"
        hook.unlink()
    except OSError as error:
        raise StorageError(f"{hook} could not be removed: {error.strerror}.") from error
    return "removed"


def script(name: str, state: str) -> bytes:
    """The text of one hook; `state` is the folder of the shared state as sh reads it.

    It names the interpreter, and `-I` (nothing of the current folder or the environment is
    imported), or `-EP` if the package is in the user's own site-packages, which `-I` hides.
    """
    parts = {
        "pre-commit": [_CHAIN, _STATE, _IDLE, _FIND, _RUN],
        "pre-merge-commit": [_CHAIN, _FIND, _RUN],
        "commit-msg": [_CHAIN, _STATE, _PASSED, _MESSAGE, _IDLE, _FIND, _RUN],
        "post-commit": [
            _CHAIN,
            _STATE,
            _REBASING,
            _TRACED,
            _MARKS,
            _PICKED,
            _PASSED,
            _SETTLED,
            _FIND,
            _RUN,
        ],
        "pre-push": [_CHAIN_WITH_INPUT, _FIND, _RUN_WITH_INPUT],
        "post-rewrite": [
            _CHAIN_WITH_INPUT,
            _STATE,
            _TRACED,
            _MARKS,
            _REWRITTEN,
            _FIND,
            _RUN_WITH_INPUT,
        ],
        TRANSACTION: [_CHAIN_WITH_INPUT, _TRANSACTION],
    }[name]
    text = "".join([HEAD, *parts, END]).format(
        name=name,
        kept=KEPT,
        state=state,
        words=shlex.quote(HINTS),
        agents="".join(f"${name}" for name in AGENT_COMMANDS),
        signs=" ".join(f'{name}="${name}"' for name in AGENT_VARIABLES),
        refused=REFUSED,
        traced=TRACED,
        python=shlex.quote(sys.executable),
        package=shlex.quote(str(PACKAGE)),
        flags="-EP" if PACKAGE.is_relative_to(site.getusersitepackages()) else "-I",
        stopped=" Git was stopped." if not name.startswith("post-") else "",
    )
    return text.encode("utf-8", "surrogateescape")
