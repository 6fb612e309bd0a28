"""What is compared, by arguments or by keywords of Python; and the ReviewRequest of both."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.model_wire import WireOptions, read_wire
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli.shared_options import (
    RunLimits,
)
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.faces.revision_advice import advising, named_revisions
from vibe_gate.gate.authorship import agent_behind
from vibe_gate.gate.source import is_identifier

_INSTEAD = {
    "staged": "--staged",
    "index": "--staged",
    "commit": "--commit REV",
    "worktree": "no revision, which is HEAD to the working tree",
    "range": "A..B",
    "merge_base": "A...B",
}
"""What selects a change, by words that people write for it as if they were revisions."""


class Spelling(Struct, frozen=True):
    """How a caller writes what selects a change, for errors."""

    revision: str
    staged: str
    commit: str
    range: str
    """How a range is given instead of a commit."""


class ChangeArguments(Struct, frozen=True):
    """Which change is meant, and where the definitions are read that it is held to."""

    revision: str | None = None
    """REV, A..B or A...B; None: HEAD to the working tree."""
    staged: bool = False
    """The index against HEAD."""
    commit: str | None = None
    """This commit against its first parent."""
    base: str | None = None
    """The trusted base revision; None: the base of the pull request, in its job."""
    definitions: str | None = None
    """A revision or "worktree", in place of the base."""


class RubricArguments(Struct, frozen=True):
    """What a change is held to, and how."""

    rubrics: tuple[str, ...] = ()
    """Ids; none: all of the gate."""
    judge: bool = True
    """Whether a model may be asked."""
    force: bool = False
    """Ask again what an earlier review has answered."""


def request_of(
    change: ChangeArguments,
    rubrics: RubricArguments,
    limits: RunLimits,
    wire: WireOptions,
    environment: Environment,
) -> ReviewRequest:
    """The request that the arguments mean. UsageError if they contradict each other, or an agent
    wants answers anew.
    """
    agent = agent_behind(environment.agents, ())
    if rubrics.force and agent:
        raise UsageError(
            f"--force is for people: {agent}. Leave it out, or say why a finding is wrong: "
            "vibe-gate dispute FINDING --reason TEXT."
        )
    if change.revision == "" or change.commit == "":
        raise UsageError("the revision is empty; omit it to review HEAD to the working tree.")
    return ReviewRequest(
        selection=_selection_of(change),
        rubrics=rubrics.rubrics,
        judge="if checks pass" if rubrics.judge else "never",
        base=change.base or environment.forge.base_of_pull_request,
        definitions=change.definitions,
        max_cost_usd=limits.max_cost_usd,
        deadline_s=limits.deadline_s,
        wire=read_wire(environment.variables, wire),
        force=rubrics.force,
    )


def _selection_of(change: ChangeArguments) -> Selection:
    instead_of_range = f"use `vibe-gate review {change.commit}`"
    spelling = Spelling(change.revision or "", "--staged", "--commit", instead_of_range)
    return selected(change.revision, change.staged, change.commit, spelling)


def selected(
    revision: str | None, staged: bool, commit: str | None, spelling: Spelling
) -> Selection:
    """The change that one of the three selects; without any, HEAD to the working tree.

    UsageError for two of them.
    """
    ways = [
        (spelling.revision, revision),
        (spelling.staged, staged or None),
        (spelling.commit, commit),
    ]
    words = [word for word, value in ways if value is not None]
    if len(words) > 1:
        raise UsageError(f"{words[0]} and {words[1]} select different changes; use one of them.")
    if commit is not None:
        if ".." in commit:
            raise UsageError(f"{spelling.commit} takes one commit; for a range {spelling.range}")
        return Selection("commit", left=commit)
    if staged:
        return Selection("staged")
    return parse_selection(revision or "HEAD")


def parse_selection(revision: str) -> Selection:
    """What `REV`, `A..B` or `A...B` selects; an empty side is HEAD, as in git.

    Whether it exists is not looked up. UsageError if it is not a range.
    """
    dots = "..." if "..." in revision else ".."
    before, separator, after = revision.partition(dots)
    if not separator:
        return Selection("worktree", left=revision)
    is_empty = revision in ("..", "...")
    if is_empty or ".." in after or before.endswith(".") or after.startswith("."):
        raise UsageError(
            f"'{revision}' is not a range. Use A..B, or A...B to start at the merge base."
        )
    before, after = before or "HEAD", after or "HEAD"
    if dots == "...":
        return Selection("merge_base", left=before, right=after)
    return Selection("range", left=before, right=after)


def advising_about(request: ReviewRequest) -> AbstractContextManager[None]:
    """Name, with an error about a revision of the request that is not there, the nearest to it."""
    return advising(named_revisions(request), Path.cwd(), read_process_environment(), _INSTEAD)


def require_single_revision(revisions: Sequence[str]) -> str | None:
    """The only revision that was given, or None. UsageError for more."""
    if len(revisions) > 1:
        raise UsageError(f"more than one revision; for a range use {revisions[0]}..{revisions[1]}")
    return revisions[0] if revisions else None


def may_be_rubric(name: str) -> bool:
    """Whether a word can be the id of a rubric; no revision with an upper-case letter, `~` or `..`
    is one.
    """
    return is_identifier(name) and ".." not in name
