"""What git's own hooks ask of a repository: where they are, what was just committed and of what, what a push brings."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vibe_gate.domain.change import EMPTY_TREE, Selection
from vibe_gate.domain.escape import expression
from vibe_gate.errors import InfrastructureError
from vibe_gate.git.revisions import Revisions

if TYPE_CHECKING:
    from vibe_gate.domain.provenance import Operation

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


class HookQueries(Revisions):
    """What `Repository` answers to git's hooks."""

    def hooks_folder(self) -> Path:
        """Where git looks for this repository's hooks: core.hooksPath, or `hooks` in the common folder.

        Asked without our own `-c core.hooksPath=/dev/null`; `rev-parse` runs nothing.
        """
        asked = ["git", "rev-parse", "--path-format=absolute", "--git-path", "hooks"]
        place = self._place
        done = subprocess.run(asked, cwd=place.root, env=place.git.environ, capture_output=True, check=False)
        if done.returncode:
            raise InfrastructureError(f"git could not say where its hooks are: {done.stderr.decode(errors='replace')}")
        return Path(done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n"))

    def head_commit(self) -> HeadCommit:
        """The commit at HEAD, and what HEAD was before, by its reflog; without one, its first parent. RevisionError."""
        commit = self.resolve("HEAD")
        old = self._name("HEAD@{1}^{commit}") or self._name(f"{commit}^1")
        # A clean revert leaves no other trace.
        said = self._git.run("-c", "log.showSignature=false", "log", "-g", "-1", "--format=%gs", "HEAD").line
        action = _ACTIONS.get(said.partition(":")[0].partition(" ")[0], "")
        under_way = next((does for name, does in _UNDER_WAY if (self._place.git_dir / name).exists()), action)
        return HeadCommit(commit, self.tree_of(commit), self.tree_of(old), old, under_way)

    def source_commits(self, message: str = "") -> tuple[str, ...]:
        """Ids of the commits that the next one takes over (a pick's, a squashed branch's), as git notes them.

        `message` is that of a commit that was just made: of a squash git has forgotten all else by then.
        """
        found: list[str] = _SOURCES["SQUASH_MSG"].findall(message)
        for name, pattern in _SOURCES.items():
            file = self._place.git_dir / name
            if file.is_file() and file.stat().st_size <= _MAX_BYTES:
                found += pattern.findall(file.read_bytes().decode("latin-1"))
        return tuple(dict.fromkeys(found))[:MAX_SOURCES]

    def unpushed(self, local: str, known: str, remote: str) -> Selection | None:
        """What is new to `remote` if it gets commit `local` where it has `known` ("": nothing there); None: nothing.

        A new ref is compared with all that the remote is known to have, or all remotes
        where it has no name (""); with none of it in common the whole history is new.
        """
        git = self._git
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

    def _name(self, revision: str) -> str:
        return self._git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision).line
