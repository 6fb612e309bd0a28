"""What git's own hooks ask of a repository: where they are, what was just committed and of what, what a push brings."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from vibe_gate.domain.change import EMPTY_TREE, Selection
from vibe_gate.domain.escape import expression
from vibe_gate.domain.provenance import Operation
from vibe_gate.errors import InfrastructureError
from vibe_gate.git.place import Place
from vibe_gate.git.program import Program

MAX_REFS = 500
"""Refs of a remote that are taken for known to it, the newest first: as many arguments as any system takes."""

_UNDER_WAY: tuple[tuple[str, Operation], ...] = (
    ("rebase-merge", "rebase"),
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("MERGE_HEAD", "merge"),
)
"""What git keeps in its folder while it is in the middle of something."""

_ACTIONS: dict[str, Operation] = {"cherry-pick": "cherry-pick", "revert": "revert"}
"""First words of the reflog by which git names commits that it makes itself, and of which nothing else is left."""

MAX_SOURCES = 100
"""Squashed commits that are looked at, the newest first."""

_MAX_BYTES = 1_000_000  # of a file of git's that is read

_SOURCES = {
    "CHERRY_PICK_HEAD": expression(r"\A([0-9a-f]{40})\s*\Z"),
    "SQUASH_MSG": expression(r"^commit ([0-9a-f]{40})$", re.M),
}


class HeadCommit(NamedTuple):
    """The commit just made. `before` is the tree HEAD had until then (the empty tree at first), `old` its commit.

    `during` is what git says that it was in the middle of: anybody can make it say so, by a folder or a variable.
    """

    commit: str
    tree: str
    before: str
    old: str
    during: Operation


def head_commit(place: Place, commit: str) -> HeadCommit:
    """HEAD's commit `commit`, and what HEAD was before, by its reflog; without one, its first parent."""
    tree = _name(place.git, f"{commit}^{{tree}}")
    old = _name(place.git, "HEAD@{1}^{commit}") or _name(place.git, f"{commit}^1")
    before = _name(place.git, f"{old}^{{tree}}") if old else EMPTY_TREE
    # A clean revert leaves no other trace.
    said = place.git.run("-c", "log.showSignature=false", "log", "-g", "-1", "--format=%gs", "HEAD").line
    return HeadCommit(commit, tree, before, old, under_way(place) or _ACTIONS.get(_first_word(said), ""))


def under_way(place: Place) -> Operation:
    """What git is in the middle of, "" of an ordinary commit."""
    for name, operation in _UNDER_WAY:
        if (place.git_dir / name).exists():
            return operation
    return ""


def _first_word(text: str) -> str:
    return text.partition(":")[0].partition(" ")[0]


def unpushed(git: Program, local: str, known: str, remote: str) -> Selection | None:
    """What is new to `remote` if it gets commit `local` where it has `known` ("": nothing there).

    A new ref is compared with all that the remote is known to have, or all remotes
    where it has no name (""); with none of it in common the whole history is new.
    """
    if known and not git.run("merge-base", known, local).code:
        return Selection("merge_base", known, local)
    listed = git.run("for-each-ref", f"--count={MAX_REFS}", "--sort=-committerdate", "--format=%(objectname)",
                     f"refs/remotes/{remote}/" if remote else "refs/remotes/")  # fmt: skip
    refs = listed.line.split()
    # Of several commits git takes their (imagined) merge: the bases are the best of all common ancestors.
    bases = git.run("merge-base", "--all", local, *refs).line.split("\n") if refs else [""]
    if bases == [local]:
        return None
    if len(bases) > 1:  # merges that cross: held against the newest of the remote's that it shares history with
        tip = next(ref for ref in refs if not git.run("merge-base", ref, local).code)
        return Selection("merge_base", tip, local)
    return Selection("range", bases[0] or EMPTY_TREE, local)


def hooks_folder(place: Place) -> Path:
    """The folder of hooks that git uses here.

    Asked without our own `-c core.hooksPath=/dev/null`; `rev-parse` runs nothing.
    """
    asked = ["git", "rev-parse", "--path-format=absolute", "--git-path", "hooks"]
    done = subprocess.run(asked, cwd=place.root, env=place.git.environ, capture_output=True, check=False)
    if done.returncode:
        raise InfrastructureError(f"git could not say where its hooks are: {done.stderr.decode(errors='replace')}")
    return Path(done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n"))


def _name(git: Program, revision: str) -> str:
    return git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision).line


def source_commits(git_dir: Path, message: str = "") -> tuple[str, ...]:
    """Ids of the commits that the next one takes over, as git notes them: a pick's, a squashed branch's; () of none.

    `message` is that of a commit that was just made: of a squash git has forgotten all else by then.
    """
    found: list[str] = _SOURCES["SQUASH_MSG"].findall(message)
    for name, pattern in _SOURCES.items():
        found += pattern.findall(_text(git_dir / name))
    return tuple(dict.fromkeys(found))[:MAX_SOURCES]


def _text(file: Path) -> str:
    """What a file of git's says; "" of one that is not there, or too large."""
    return file.read_bytes().decode("latin-1") if file.is_file() and file.stat().st_size <= _MAX_BYTES else ""
